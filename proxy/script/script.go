// Package script decides for each statement of a multi-statement query, such as "SET statement_timeout = 5; SELECT 1",
// whether Sluice or the server answers it. The decision depends on earlier statements of the query, and for a RESET
// also on later statements.
//
// The server gets the text with a harmless statement (substitute) in place of each statement that Sluice answers. So
// errors, blocks and the order of answers are the server's. Package proxy sends the text, and replaces the substitutes'
// answers.
package script

import (
	"slices"

	"github.com/sluice-proxy/sluice/proxy/access"
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

// Session answers a Planner's questions about the client's session. The answers do not change while a query is planned.
type Session interface {
	// AnswersSettingChange reports whether Sluice makes all of a statement's changes of settings.
	AnswersSettingChange(st *rewrite.Statement) bool
	// SetConfigError returns the error of a set_config whose value Sluice cannot show, or nil.
	SetConfigError(st *rewrite.Statement) *wire.Error
	// OptionError returns the error of a change of one of Sluice's own settings (sluice.*), or nil.
	OptionError(c *rewrite.SettingChange) *wire.Error
	// EmulatesDiscardAll reports whether Sluice runs a DISCARD ALL. DiscardAllError returns its error in the session's
	// state, or nil.
	EmulatesDiscardAll(st *rewrite.Statement) bool
	DiscardAllError(st *rewrite.Statement) *wire.Error
	// ShowError returns the error of a SHOW that Sluice answers, or nil.
	ShowError(name string) *wire.Error
	// HasStatement reports whether the client has a prepared statement of the name. HasBackendStatement reports whether
	// Sluice has one on the session's backend.
	HasStatement(name string) bool
	HasBackendStatement(name string) bool
}

// State describes the session before a multi-statement query.
type State struct {
	// Block is the block in which the first statement runs. Status is the transaction status that the client knows.
	Block  block.Block
	Status byte
	// InBlock means that the client believes that it is in a block. InternalBlock means that Sluice opened the block.
	InBlock, InternalBlock bool
	// Touched means that the server has frames of the turn. RanLocal means that Sluice has answered a statement of it.
	Touched, RanLocal bool
	// Pinned means that the session is pinned to its backend. HasPortals means that the client has named portals.
	Pinned, HasPortals bool
	IsDSQL             bool // the server is a cluster of DSQL
	Settings           *settings.Client
	Access             *access.Turn
	Treatments         settings.Treatments
}

// Planned decides what happens to the planner's current statement, by the statement's kind.
type Planned func(d *Planner, st *rewrite.Statement) Step

// New returns what happens to each statement of the query sql. The result is nil if the server answers all of them. by
// returns the decision about a statement of its kind, or nil for one that the server always runs. New changes nothing:
// the statements take effect with their answers.
func New(s Session, state *State, query *rewrite.Plan, sql []byte, by func(*rewrite.Statement) Planned) *Plan {
	d := Planner{s: s, state: state, plan: query, sql: sql, currentBlock: state.Block, steps: make([]Step, len(query.Statements)),
		prepares: state.Pinned || query.Pin == rewrite.PinPrepare}
	d.ends = d.currentBlock.EndedTxCount()
	for i := range query.Statements {
		d.at = i
		st := &query.Statements[i]
		d.steps[i] = d.planStep(st, by(st))
		d.trackEffects(st, &d.steps[i])
	}
	// Later statements of the query decide about a RESET, so RESETs are planned last.
	d.planResets()
	if !slices.ContainsFunc(d.steps, func(p Step) bool { return !p.isPlain() }) {
		return nil
	}
	return &Plan{query, d.steps}
}

// planStep plans the current statement. planned decides, unless the statement is refused.
func (d *Planner) planStep(st *rewrite.Statement, planned Planned) Step {
	if st.Refusal != nil && st.Refusal.Unsent {
		return Step{Err: sqlerror.StatementRefused(st)}
	}
	if err := access.StatementError(&d.currentBlock, st, d.enforcedMode()); err != nil {
		return Step{Err: err}
	}
	if planned == nil {
		planned = (*Planner).PlanOnServer
	}
	return planned(d, st)
}

// Planner tracks a session's state through a multi-statement query, as far as earlier statements decide how
// Sluice handles later ones.
type Planner struct {
	s     Session
	state *State
	plan  *rewrite.Plan
	sql   []byte
	steps []Step
	at    int // index of the current statement
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
func (d *Planner) inClientBlock() bool {
	return d.currentBlock.IsOpen() && !d.state.InternalBlock
}

// inAnyTransaction reports whether the current statement is in a block or a pipeline's implicit transaction.
func (d *Planner) inAnyTransaction() bool {
	return d.currentBlock.IsOpen() || d.state.Touched && d.currentBlock.EndedTxCount() == d.ends
}

// Each method Plan... decides about one statement of a multi-statement query. The zero value means the server.

// PlanOnServer plans a statement that the server runs. It may refuse a query that reads settings (planSettingQuery).
func (d *Planner) PlanOnServer(st *rewrite.Statement) Step {
	if st.Asks != nil {
		return d.planSettingQuery(st)
	}
	return Step{}
}

// PlanLocalAnswer plans a statement of a multi-statement query that Sluice always answers itself.
func (d *Planner) PlanLocalAnswer(*rewrite.Statement) Step { return Step{Local: true} }

// PlanCloseAll plans a CLOSE ALL in a multi-statement query. It refuses one that must close open portals.
func (d *Planner) PlanCloseAll(*rewrite.Statement) Step {
	if d.state.HasPortals && (d.state.InBlock || d.mayOpenBlock()) {
		return Step{Err: sqlerror.PortalsOpen}
	}
	return Step{Local: true}
}

// PlanExecute plans an EXECUTE of the query. For the client, Sluice's own prepared statements do not exist.
func (d *Planner) PlanExecute(st *rewrite.Statement) Step {
	if st.Asks == nil && (!d.state.Pinned && !d.prepared || d.s.HasBackendStatement(st.Executes)) {
		return Step{Err: sqlerror.NoStatement([]byte(st.Executes))}
	}
	return d.PlanOnServer(st)
}

// PlanSet decides whether Sluice or the server runs a SET or RESET. If the server does, the client may get a warning
// about a weakened isolation level.
func (d *Planner) PlanSet(st *rewrite.Statement) Step {
	if d.s.AnswersSettingChange(st) && !(d.roleChanged && pin.OnlyResetsRole(st)) {
		return d.planSettingChanges(st)
	}
	return Step{Warn: st.Weakened}
}

// PlanSetConfig decides whether Sluice or the server runs a set_config of the query. The server gets a single call as a
// SET, and Sluice then makes the row, whose value does not depend on earlier statements.
func (d *Planner) PlanSetConfig(st *rewrite.Statement) Step {
	if d.s.AnswersSettingChange(st) && !(d.roleChanged && pin.OnlyResetsRole(st)) {
		return d.planSettingChanges(st)
	}
	if err := d.s.SetConfigError(st); err != nil || len(st.SetConfigColumns) != 1 {
		return Step{Err: err}
	}
	return Step{SetsConfig: true}
}

// PlanBegin plans a BEGIN of the query (planBlockBegin). Inside a client's block, the server gets the BEGIN unchanged.
func (d *Planner) PlanBegin(st *rewrite.Statement) Step {
	if !d.inClientBlock() {
		return d.planBlockBegin(st)
	}
	return Step{Warn: st.Weakened}
}

// PlanSetTransaction plans a SET TRANSACTION, whose modes Sluice may have moved into the preceding BEGIN.
func (d *Planner) PlanSetTransaction(st *rewrite.Statement) Step {
	if d.folds > 0 {
		d.folds--
		return Step{Local: true}
	}
	return Step{Warn: st.Weakened}
}

// planBlockBegin plans the BEGIN of a block. DSQL accepts modes only in BEGIN. So Sluice sends the BEGIN with the
// modes of the client's settings, or of SET TRANSACTIONs directly after it. The last SET TRANSACTION counts. Sluice
// answers each of these at its place in the query. The server refuses any other SET TRANSACTION.
func (d *Planner) planBlockBegin(st *rewrite.Statement) Step {
	p := Step{Warn: st.Weakened}
	modes := rewrite.TxControl{ReadOnly: d.enforcedMode() == access.ReadOnly && access.LacksMode(&st.Tx)}
	if !st.Tx.Deferrable && st.Tx.Isolation != rewrite.Serializable {
		late := d.at > 0 || d.state.Touched || d.state.RanLocal // for READ WRITE, as in PostgreSQL
		for i := d.at + 1; i < len(d.steps) && d.state.IsDSQL && access.CanFoldModes(&d.plan.Statements[i].Tx) && !(late && d.plan.Statements[i].Tx.ReadWrite); i++ {
			modes = d.plan.Statements[i].Tx
			d.folds++
		}
	}
	p.tx = st.Tx
	p.tx.ReadOnly, p.tx.ReadWrite = modes.ReadOnly, modes.ReadWrite
	switch p.begin = true; {
	case modes.ReadOnly:
		p.SQL = access.BeginSQL(access.BeginWord(st, d.sql), &st.Tx, "READ ONLY")
	case modes.ReadWrite:
		p.SQL = access.BeginSQL(access.BeginWord(st, d.sql), &st.Tx, "READ WRITE")
	default:
		p.begin, p.tx = false, rewrite.TxControl{}
	}
	return p
}

// PlanLockTable plans a LOCK TABLE. As in PostgreSQL the statement must be in a block, or beside others.
// The server gets another query instead, whose rows the client does not get (maskedReply).
func (d *Planner) PlanLockTable(*rewrite.Statement) Step {
	if len(d.steps) == 1 && !d.inAnyTransaction() {
		return Step{Err: sqlerror.LockOutside}
	}
	return Step{}
}

// planSettingChanges checks changes of settings that Sluice makes without the server, at their place in the query. An
// invalid value fails the query at that place.
func (d *Planner) planSettingChanges(st *rewrite.Statement) Step {
	for i := range st.Changes {
		if err := d.checkSettingChange(&st.Changes[i]); err != nil {
			return Step{Err: err}
		}
	}
	return Step{Local: true}
}

// checkSettingChange returns the error of a change of settings that Sluice would make. Sluice's own settings are
// checked here and changed later. In a pipeline such a change must be the query's only statement, so that no other
// change comes between the two.
func (d *Planner) checkSettingChange(c *rewrite.SettingChange) *wire.Error {
	switch {
	case !settings.IsProxySetting(c.Name):
		_, bad := settings.CheckedValue(c)
		return bad
	case len(d.steps) > 1:
		return options.ErrInScript
	}
	return d.s.OptionError(c)
}

// PlanDiscardAll decides whether Sluice answers a DISCARD ALL. As in PostgreSQL, it refuses a DISCARD ALL beside
// other statements, with which it would be one transaction.
func (d *Planner) PlanDiscardAll(st *rewrite.Statement) Step {
	switch err := d.s.DiscardAllError(st); {
	case len(d.steps) > 1 || !d.s.EmulatesDiscardAll(st):
		return Step{Err: sqlerror.DiscardInBlock}
	case err != nil:
		return Step{Err: err}
	}
	return Step{Local: true}
}

// planSettingQuery plans a query that reads settings from the server. It refuses the query if Sluice has, or will
// have, another value than the server, which the client would get.
func (d *Planner) planSettingQuery(st *rewrite.Statement) Step {
	for _, name := range st.Asks {
		if d.state.Access.AnswersShow(name, d.inClientBlock()) || d.state.Settings.ServerShowsOther(name) || d.state.Settings.IsLocal(name) && slices.Contains(d.set, name) {
			return Step{Err: sqlerror.LocalSettingQueried(name)}
		}
	}
	return Step{}
}

// PlanDeallocate plans a DEALLOCATE of one name. Sluice has the names that Parse prepared, and the server
// has the names of the SQL command PREPARE. For the client, Sluice's own names on the server do not exist.
func (d *Planner) PlanDeallocate(st *rewrite.Statement) Step {
	name := st.Deallocate
	switch {
	case d.s.HasStatement(name) && !d.allDeallocated && !slices.Contains(d.deallocatedNames, name):
		return Step{Local: true}
	case !d.prepares || d.s.HasBackendStatement(name):
		return Step{Err: sqlerror.NoStatement([]byte(name))}
	}
	return Step{}
}

// PlanDeallocateAll plans a DEALLOCATE ALL. The server does if the client may have run the SQL command
// PREPARE, and otherwise Sluice.
func (d *Planner) PlanDeallocateAll(*rewrite.Statement) Step {
	return Step{Local: !d.prepares}
}

// mayOpenBlock reports whether the query may leave a block open, in which its portals would stay open.
func (d *Planner) mayOpenBlock() bool {
	return d.plan.AnyStatement(func(st *rewrite.Statement) bool { return st.Tx.Verb == rewrite.Begin || st.Tx.Chain })
}

// PlanShow plans a SHOW of the query. It refuses the SHOW of an ignored setting if a transaction that
// changed it has ended in this query. The value depends on whether that transaction commits.
func (d *Planner) PlanShow(st *rewrite.Statement) Step {
	name := st.Show
	how := d.state.Treatments.ForName(name)
	if bad := d.s.ShowError(name); how == settings.Own && bad != nil {
		return Step{Err: bad}
	}
	switch {
	case d.state.Access.AnswersShow(name, d.inClientBlock()), d.state.Settings.AnswersShow(name), how == settings.Ignored && slices.Contains(d.set, name):
		return Step{Local: true}
	case how == settings.Ignored && (slices.Contains(d.unsure, name) || d.currentBlock.EndedTxCount() > 0 && d.state.Settings.MayHaveReports()):
		return Step{Err: errSettingUncertain(name)}
	}
	return Step{}
}

// enforcedMode returns the access mode that Sluice must enforce in the current statement's transaction.
func (d *Planner) enforcedMode() access.Mode {
	if d.inClientBlock() {
		return access.ReadWrite
	}
	return d.state.Access.Mode
}

// trackEffects records those effects of a statement that decide how later statements of the query are answered.
func (d *Planner) trackEffects(st *rewrite.Statement, p *Step) {
	if d.currentBlock.RecordStatement(st) != block.GoesOn {
		d.changed = false
		d.unsure, d.set = append(d.unsure, d.set...), nil
	}
	d.blocked = append(d.blocked, d.inAnyTransaction() || d.changed)
	d.roleChanged = d.roleChanged || pin.SetsRole(*st)
	d.prepared = d.prepared || st.Pin == rewrite.PinPrepare && st.Executes == ""
	switch {
	case st.Does == rewrite.DeallocatesAll:
		d.allDeallocated = true
	case st.Deallocate != "":
		d.deallocatedNames = append(d.deallocatedNames, st.Deallocate)
	}
	for i := range st.Changes {
		switch c := &st.Changes[i]; {
		case !p.IsUnsent() && c.Action <= rewrite.SetLocal:
			d.changed = true
		case c.Action <= rewrite.SetLocal:
			d.set = append(d.set, c.Name)
		}
	}
}

// planResets plans RESETs of settings that the server has. Sluice answers if no statement for the server
// follows, or if there is nothing to reset. Otherwise the RESET becomes a SET of the client's startup value, since a
// RESET at the server restores the server's value. The loop runs backwards, because later statements decide.
func (d *Planner) planResets() {
	follows := false
	clean := !d.state.Pinned && !d.state.Touched && len(d.state.Settings.Staged.Changes) == 0
	for i := len(d.steps) - 1; i >= 0; i-- {
		st, p := &d.plan.Statements[i], &d.steps[i]
		switch {
		case p.IsUnsent():
			continue
		case !d.onlyResetsServerSettings(st):
		case clean && !d.blocked[i] && !follows, clean && d.state.Status == 'I' && !d.mayChangeSettingsBefore(i) && d.state.Settings.InForce.Equal(d.state.Settings.Startup):
			p.Local = true
			continue
		case len(st.Changes) == 1 && st.Changes[0].Action == rewrite.Reset:
			if set, ok := serversettings.ResetAsSet(d.state.Settings, st); ok {
				p.Set = set
				p.SQL, p.Tag = serversettings.SetSQL(p.Set), wire.AppendCommandComplete(nil, result.SettingTag(st))
			}
		}
		follows = true
	}
}

// mayChangeSettingsBefore reports whether the server runs a statement before the i-th that may change settings.
func (d *Planner) mayChangeSettingsBefore(i int) bool {
	for n := range i {
		if k := d.plan.Statements[n].Kind; !d.steps[n].IsUnsent() && (k == rewrite.Setting || k > rewrite.Control) {
			return true
		}
	}
	return false
}

// onlyResetsServerSettings reports whether a statement only resets settings that the server has.
func (d *Planner) onlyResetsServerSettings(st *rewrite.Statement) bool {
	if st.Kind != rewrite.Setting || len(st.Changes) == 0 {
		return false
	}
	for i := range st.Changes {
		c := &st.Changes[i]
		if c.Action != rewrite.ResetAll && (c.Action != rewrite.Reset || d.state.Treatments.ForName(c.Name) != settings.Carried) {
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
