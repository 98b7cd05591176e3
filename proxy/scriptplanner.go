package proxy

import (
	"slices"

	"github.com/sluice-proxy/sluice/proxy/access"
	"github.com/sluice-proxy/sluice/proxy/advisory"
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/options"
	"github.com/sluice-proxy/sluice/proxy/pin"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/proxy/serversettings"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file decides for each statement of a multi-statement query whether Sluice or the server answers (script.go). The
// decision depends on earlier statements of the query, and for a RESET also on later statements.

// planScript decides which statements of a multi-statement query Sluice answers, by the session's state before each.
// The result is nil if the server answers all. planScript changes nothing; the statements take effect with their
// answers (scriptReply).
func (s *session) planScript(plan *rewrite.Plan, sql []byte) *scriptPlan {
	d := scriptPlanner{s: s, plan: plan, sql: sql, currentBlock: s.blockForNextStatement(), places: make([]scriptStep, len(plan.Statements)), prepares: s.pin.IsPinned() || plan.Pin == rewrite.PinPrepare}
	d.ends = d.currentBlock.EndedTxCount()
	for i := range plan.Statements {
		d.at = i
		if st := &plan.Statements[i]; st.Refusal != nil && st.Refusal.Unsent {
			d.places[i] = scriptStep{err: statementRefusal(st)}
		} else if err := access.StatementError(&d.currentBlock, st, d.enforcedMode()); err != nil {
			d.places[i] = scriptStep{err: err}
		} else if placed := s.srv.handlers[st.Does].planInScript; placed != nil {
			d.places[i] = placed(&d, st)
		} else {
			d.places[i] = d.planOnServer(st)
		}
		d.trackEffects(&plan.Statements[i], &d.places[i])
	}
	// Later statements of the query decide who answers a RESET, so RESETs are planned last.
	d.planResets()
	if !slices.ContainsFunc(d.places, func(p scriptStep) bool { return p.isUnsent() || p.sql != "" || p.configReply != nil || p.warn }) {
		return nil
	}
	return &scriptPlan{plan, d.places}
}

// scriptPlanner tracks a session's state through a multi-statement query, as far as earlier statements decide how
// Sluice handles later ones.
type scriptPlanner struct {
	s      *session
	plan   *rewrite.Plan
	sql    []byte
	places []scriptStep
	at     int // index of the current statement
	// currentBlock is the session's block before the current statement. ends is EndedTxCount at the query's start.
	currentBlock block.Block
	ends         uint32
	// folds is the number of following SET TRANSACTIONs whose modes Sluice has moved into the BEGIN before them.
	folds int
	// prepares is set if clients may have run the SQL command PREPARE on this backend.
	prepares bool
	prepared bool // by a statement of this query
	// deallocatedNames lists statements that the query has deallocated. allDeallocated is set after DEALLOCATE ALL.
	deallocatedNames []string
	allDeallocated   bool
	set              []string // ignored settings that this transaction has set
	unsure           []string // those that an earlier transaction of the query has set
	// blocked says for each statement of the query whether Sluice must not answer it if it is a RESET. A block, or an
	// earlier change of settings in its transaction, forbids that.
	blocked []bool
	changed bool
	// roleChanged is set after a statement of the query that sets another role.
	roleChanged bool
}

// inClientBlock reports whether the query's current statement is in a block that the client has begun.
func (d *scriptPlanner) inClientBlock() bool {
	return d.currentBlock.IsOpen() && !d.s.t.server.internalTx.on
}

// inAnyTransaction reports whether the current statement is in a block or a pipeline's implicit transaction.
func (d *scriptPlanner) inAnyTransaction() bool {
	return d.currentBlock.IsOpen() || d.s.t.touched && d.currentBlock.EndedTxCount() == d.ends
}

// Each method from here decides who answers one statement of a multi-statement query. The zero value means the server.

// planOnServer plans a statement that the server runs. It may refuse a query that reads settings (planSettingQuery).
func (d *scriptPlanner) planOnServer(st *rewrite.Statement) scriptStep {
	if st.Asks != nil {
		return d.planSettingQuery(st)
	}
	return scriptStep{}
}

// planLocalAnswer plans a statement of a multi-statement query that Sluice always answers itself.
func planLocalAnswer(*scriptPlanner, *rewrite.Statement) scriptStep { return scriptStep{local: true} }

// planCloseAll plans a CLOSE ALL in a multi-statement query. It refuses one that must close open portals.
func (d *scriptPlanner) planCloseAll(*rewrite.Statement) scriptStep {
	if len(d.s.portals.named) > 0 && (d.s.inBlock() || d.mayOpenBlock()) {
		return scriptStep{err: errPortalsOpen}
	}
	return scriptStep{local: true}
}

// planExecute decides who answers an EXECUTE of the query. It hides Sluice's own prepared statements from the client.
func (d *scriptPlanner) planExecute(st *rewrite.Statement) scriptStep {
	s := d.s
	if st.Asks == nil && (!s.pin.IsPinned() && !d.prepared || s.b != nil && s.b.prepared.HasName(st.Executes)) {
		return scriptStep{err: sqlerror.NoStatement([]byte(st.Executes))}
	}
	return d.planOnServer(st)
}

// planSet decides whether Sluice or the server runs a SET or RESET. If the server does, the client may get a warning
// about a weakened isolation level.
func (d *scriptPlanner) planSet(st *rewrite.Statement) scriptStep {
	if d.s.answersSettingChange(st) && !(d.roleChanged && pin.OnlyResetsRole(st)) {
		return d.planSettingChanges(st)
	}
	return scriptStep{warn: st.Weakened}
}

// planSetConfig decides whether Sluice or the server runs a set_config of the query. The server gets a single call as a
// SET, and Sluice then makes the row, whose value does not depend on earlier statements.
func (d *scriptPlanner) planSetConfig(st *rewrite.Statement) scriptStep {
	if d.s.answersSettingChange(st) && !(d.roleChanged && pin.OnlyResetsRole(st)) {
		return d.planSettingChanges(st)
	}
	if err := d.s.checkSetConfig(st); err != nil || len(st.SetConfigColumns) != 1 {
		return scriptStep{err: err}
	}
	return scriptStep{configReply: &setConfigReply{}}
}

// planBegin plans a BEGIN of the query (planBlockBegin). Inside a client's block, the server gets the BEGIN unchanged.
func (d *scriptPlanner) planBegin(st *rewrite.Statement) scriptStep {
	if !d.inClientBlock() {
		return d.planBlockBegin(st)
	}
	return scriptStep{warn: st.Weakened}
}

// planSetTransaction decides who answers a SET TRANSACTION, whose modes Sluice may have moved into the preceding BEGIN.
func (d *scriptPlanner) planSetTransaction(st *rewrite.Statement) scriptStep {
	if d.folds > 0 {
		d.folds--
		return scriptStep{local: true}
	}
	return scriptStep{warn: st.Weakened}
}

// planBlockBegin plans the BEGIN of a block. DSQL accepts modes only in BEGIN. So Sluice sends the BEGIN with the
// modes of the client's settings, or of SET TRANSACTIONs directly after it. The last SET TRANSACTION counts. Sluice
// answers each of these at its place in the query. The server refuses any other SET TRANSACTION.
func (d *scriptPlanner) planBlockBegin(st *rewrite.Statement) scriptStep {
	p := scriptStep{warn: st.Weakened}
	modes := rewrite.TxControl{ReadOnly: d.enforcedMode() == access.ReadOnly && access.LacksMode(&st.Tx)}
	if !st.Tx.Deferrable && st.Tx.Isolation != rewrite.Serializable {
		late := d.at > 0 || d.s.t.touched || d.s.t.request.ranLocal // for READ WRITE, as in PostgreSQL
		for i := d.at + 1; i < len(d.places) && d.s.canFoldModes(&d.plan.Statements[i]) && !(late && d.plan.Statements[i].Tx.ReadWrite); i++ {
			modes = d.plan.Statements[i].Tx
			d.folds++
		}
	}
	p.tx = st.Tx
	p.tx.ReadOnly, p.tx.ReadWrite = modes.ReadOnly, modes.ReadWrite
	switch p.begin = true; {
	case modes.ReadOnly:
		p.only, p.sql = true, access.BeginSQL(beginWord(st, d.sql), &st.Tx, "READ ONLY")
	case modes.ReadWrite:
		p.sql = access.BeginSQL(beginWord(st, d.sql), &st.Tx, "READ WRITE")
	default:
		p.begin, p.tx = false, rewrite.TxControl{}
	}
	return p
}

// planLockTable decides who answers LOCK TABLE. As in PostgreSQL the statement must be in a block, or beside others.
// The server gets another query instead, whose rows the client does not get (maskedReply).
func (d *scriptPlanner) planLockTable(*rewrite.Statement) scriptStep {
	if len(d.places) == 1 && !d.inAnyTransaction() {
		return scriptStep{err: errLockOutside}
	}
	return scriptStep{}
}

// planSettingChanges checks changes of settings that Sluice makes without the server, at their place in the query. An
// invalid value fails the query at that place.
func (d *scriptPlanner) planSettingChanges(st *rewrite.Statement) scriptStep {
	for i := range st.Changes {
		if err := d.checkSettingChange(&st.Changes[i]); err != nil {
			return scriptStep{err: err}
		}
	}
	return scriptStep{local: true}
}

// checkSettingChange returns the error of a change of settings that Sluice would make. Sluice's own settings are
// checked here and changed later. In a pipeline such a change must be the query's only statement, so that no other
// change comes between the two.
func (d *scriptPlanner) checkSettingChange(c *rewrite.SettingChange) *wire.Error {
	switch {
	case !settings.IsProxySetting(c.Name):
		_, bad := settings.CheckedValue(c)
		return bad
	case len(d.places) > 1:
		return options.ErrInScript
	}
	_, bad := d.s.options.Check(c, d.s.optionState())
	return bad
}

// planAdvisoryLock plans a call of an advisory lock function. If the call is the only statement, it follows other
// frames of its Sync group, where the session can take no lock.
func planAdvisoryLock(_ *scriptPlanner, st *rewrite.Statement) scriptStep {
	if st.Advisory.Verb != rewrite.UnlockAllAdvisory {
		return scriptStep{err: advisory.ErrInBlock}
	}
	return scriptStep{local: true}
}

// planDiscardAll decides whether Sluice answers a DISCARD ALL. As in PostgreSQL, it refuses a DISCARD ALL beside
// other statements, with which it would be one transaction.
func (d *scriptPlanner) planDiscardAll(st *rewrite.Statement) scriptStep {
	switch err := d.s.discardAllError(st); {
	case len(d.places) > 1 || !d.s.emulatesDiscardAll(st):
		return scriptStep{err: errDiscardInBlock}
	case err != nil:
		return scriptStep{err: err}
	}
	return scriptStep{local: true}
}

// planSettingQuery plans a query that reads settings from the server. It refuses the query if Sluice has, or will
// have, another value than the server, which the client would get.
func (d *scriptPlanner) planSettingQuery(st *rewrite.Statement) scriptStep {
	for _, name := range st.Asks {
		if d.s.t.access.AnswersShow(name, d.inClientBlock()) || d.s.settings.ServerShowsOther(name) || d.s.settings.IsLocal(name) && slices.Contains(d.set, name) {
			return scriptStep{err: errLocalSettingQueried(name)}
		}
	}
	return scriptStep{}
}

// planDeallocate decides who answers DEALLOCATE of one name. Sluice has the names that Parse prepared, and the server
// has the names of the SQL command PREPARE. For the client, Sluice's own names on the server do not exist.
func (d *scriptPlanner) planDeallocate(st *rewrite.Statement) scriptStep {
	s, name := d.s, st.Deallocate
	switch {
	case s.statements.Named()[name] != nil && !d.allDeallocated && !slices.Contains(d.deallocatedNames, name):
		return scriptStep{local: true}
	case !d.prepares || s.b != nil && s.b.prepared.HasName(name):
		return scriptStep{err: sqlerror.NoStatement([]byte(name))}
	}
	return scriptStep{}
}

// planDeallocateAll decides who answers DEALLOCATE ALL. The server does if the client may have run the SQL command
// PREPARE, and otherwise Sluice.
func (d *scriptPlanner) planDeallocateAll(*rewrite.Statement) scriptStep {
	return scriptStep{local: !d.prepares}
}

// mayOpenBlock reports whether the query may leave a block open, in which its portals would stay open.
func (d *scriptPlanner) mayOpenBlock() bool {
	return d.plan.AnyStatement(func(st *rewrite.Statement) bool { return st.Tx.Verb == rewrite.Begin || st.Tx.Chain })
}

// planShow decides who answers a SHOW of the query. It refuses the SHOW of an ignored setting if a transaction that
// changed it has ended in this query. The value depends on whether that transaction commits.
func (d *scriptPlanner) planShow(st *rewrite.Statement) scriptStep {
	name := st.Show
	how := d.s.srv.pool.treat.ForName(name)
	if _, bad := d.s.localShowValue(name); how == settings.Own && bad != nil {
		return scriptStep{err: bad}
	}
	switch {
	case d.s.t.access.AnswersShow(name, d.inClientBlock()), d.s.settings.AnswersShow(name), how == settings.Ignored && slices.Contains(d.set, name):
		return scriptStep{local: true}
	case how == settings.Ignored && (slices.Contains(d.unsure, name) || d.currentBlock.EndedTxCount() > 0 && d.s.settings.MayHaveReports()):
		return scriptStep{err: errSettingUncertain(name)}
	}
	return scriptStep{}
}

// enforcedMode returns the access mode that Sluice must enforce in the current statement's transaction.
func (d *scriptPlanner) enforcedMode() access.Mode {
	if d.inClientBlock() {
		return access.ReadWrite
	}
	return d.s.t.access.Mode
}

// trackEffects records those effects of a statement that decide how later statements of the query are answered.
func (d *scriptPlanner) trackEffects(st *rewrite.Statement, p *scriptStep) {
	if d.currentBlock.RecordStatement(st) != block.GoesOn {
		d.changed = false
		d.unsure, d.set = append(d.unsure, d.set...), nil
	}
	d.blocked = append(d.blocked, d.inAnyTransaction() || d.changed)
	d.roleChanged = d.roleChanged || setsRole(*st)
	d.prepared = d.prepared || st.Pin == rewrite.PinPrepare && st.Executes == ""
	switch {
	case st.Does == rewrite.DeallocatesAll:
		d.allDeallocated = true
	case st.Deallocate != "":
		d.deallocatedNames = append(d.deallocatedNames, st.Deallocate)
	}
	for i := range st.Changes {
		switch c := &st.Changes[i]; {
		case !p.isUnsent() && c.Action <= rewrite.SetLocal:
			d.changed = true
		case c.Action <= rewrite.SetLocal:
			d.set = append(d.set, c.Name)
		}
	}
}

// planResets decides who answers RESETs of settings that the server has. Sluice does if no statement for the server
// follows, or if there is nothing to reset. Otherwise the RESET becomes a SET of the client's startup value, since a
// RESET at the server restores the server's value. The loop runs backwards, because later statements decide.
func (d *scriptPlanner) planResets() {
	s, follows := d.s, false
	clean := !s.pin.IsPinned() && !s.t.touched && len(s.settings.Staged.Changes) == 0
	for i := len(d.places) - 1; i >= 0; i-- {
		st, p := &d.plan.Statements[i], &d.places[i]
		switch {
		case p.isUnsent():
			continue
		case !s.onlyResetsServerSettings(st):
		case clean && !d.blocked[i] && !follows, clean && s.txStatus() == 'I' && !d.mayChangeSettingsBefore(i) && s.settings.InForce.Equal(s.settings.Startup):
			p.local = true
			continue
		case len(st.Changes) == 1 && st.Changes[0].Action == rewrite.Reset:
			if set, ok := serversettings.ResetAsSet(&s.settings, st); ok {
				p.set = set
				p.sql, p.tag = serversettings.SetSQL(p.set), wire.AppendCommandComplete(nil, result.SettingTag(st))
			}
		}
		follows = true
	}
}

// mayChangeSettingsBefore reports whether the server runs a statement before the i-th that may change settings.
func (d *scriptPlanner) mayChangeSettingsBefore(i int) bool {
	for n := range i {
		if k := d.plan.Statements[n].Kind; !d.places[n].isUnsent() && (k == rewrite.Setting || k > rewrite.Control) {
			return true
		}
	}
	return false
}

// onlyResetsServerSettings reports whether a statement only resets settings that the server has.
func (s *session) onlyResetsServerSettings(st *rewrite.Statement) bool {
	if st.Kind != rewrite.Setting || len(st.Changes) == 0 {
		return false
	}
	for i := range st.Changes {
		c := &st.Changes[i]
		if c.Action != rewrite.ResetAll && (c.Action != rewrite.Reset || s.srv.pool.treat.ForName(c.Name) != settings.Carried) {
			return false
		}
	}
	return true
}

// errSettingUncertain returns the error of SHOW for a setting whose value depends on an unfinished transaction.
func errSettingUncertain(name string) *wire.Error {
	return &wire.Error{Code: retry.StateUnsupported, Message: "the value of \"" + name + "\" is not known at this place of a string of statements",
		Hint: "Send SHOW " + name + " by itself."}
}
