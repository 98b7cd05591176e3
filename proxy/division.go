package proxy

import (
	"errors"
	"slices"

	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file decides who answers each statement of a multi-statement query (strung.go). Earlier statements of the query
// decide for later ones; for resets, later ones decide too.

// divide returns which statements of a multi-statement query Sluice answers, by the session's state before each; nil if
// the server answers all. divide changes nothing: effects come with the answers (strungReply).
func (s *session) divide(plan *rewrite.Plan, sql []byte) *strung {
	d := division{s: s, plan: plan, sql: sql, stands: s.position(), places: make([]place, len(plan.Statements)), prepares: s.pinned || plan.Pin == rewrite.PinPrepare}
	d.ends = d.stands.Ends()
	for i := range plan.Statements {
		d.at = i
		if st := &plan.Statements[i]; st.Refusal != nil && st.Refusal.Unsent {
			d.places[i] = place{err: refusalOf(st)}
		} else if modesLate(&d.stands, &st.Tx) {
			d.places[i] = place{err: errModesLate}
		} else if deniesDDL(&d.stands, st) {
			d.places[i] = place{err: refusesWrite(st, readOnly)}
		} else if err := refusesWrite(st, d.mode()); err != nil {
			d.places[i] = place{err: err}
		} else if placed := s.srv.handlers[st.Does].place; placed != nil {
			d.places[i] = placed(&d, st)
		} else {
			d.places[i] = d.server(st)
		}
		d.follow(&plan.Statements[i], &d.places[i])
	}
	// Resets depend on later statements, so they are decided last.
	d.resets()
	if !slices.ContainsFunc(d.places, func(p place) bool { return p.ours() || p.sql != "" || p.told != nil || p.warn }) {
		return nil
	}
	return &strung{plan, d.places}
}

// division tracks a session's state through a multi-statement query, as far as earlier statements decide for later
// ones.
type division struct {
	s      *session
	plan   *rewrite.Plan
	sql    []byte
	places []place
	at     int // index of the current statement
	// stands is the session's block before the current statement, ends the count of ended blocks before the query.
	stands block.Block
	ends   uint32
	// folds counts the SET TRANSACTION statements whose modes were moved into an earlier BEGIN.
	folds int
	// prepares is set if clients may have used PREPARE in SQL.
	prepares bool
	prepared bool // by a statement of this query
	// gone lists statements that were deallocated. everything is set after DEALLOCATE ALL.
	gone       []string
	everything bool
	set        []string // ignored settings that this transaction has set
	unsure     []string // those that an earlier transaction of the query has set
	// blocked is set for each statement in a block, or after a change of settings in its transaction. Sluice answers no
	// reset of settings there.
	blocked []bool
	changed bool
	// roled is set once a statement sets another role.
	roled bool
}

// open reports whether the current statement is in a block that the client has begun.
func (d *division) open() bool { return d.stands.In() && !d.s.t.ownTx.on }

// behind reports whether the current statement is in a block, or in the implicit transaction of a pipeline.
func (d *division) behind() bool {
	return d.stands.In() || d.s.t.touched && d.stands.Ends() == d.ends
}

// Each of the following methods decides for one statement. The zero place means that the server answers.

// server decides for a statement that the server runs.
func (d *division) server(st *rewrite.Statement) place {
	if st.Asks != nil {
		return d.ask(st)
	}
	return place{}
}

// answered decides for a statement that Sluice always answers.
func answered(*division, *rewrite.Statement) place { return place{here: true} }

// closesAll decides for CLOSE ALL. It is refused if open portals may end with the query.
func (d *division) closesAll(*rewrite.Statement) place {
	if len(d.s.portals) > 0 && (d.s.inBlock() || d.mayBegin()) {
		return place{err: errPortalsOpen}
	}
	return place{here: true}
}

// executes decides for EXECUTE. A name that only Sluice uses does not exist for the client.
func (d *division) executes(st *rewrite.Statement) place {
	s := d.s
	if st.Asks == nil && (!s.pinned && !d.prepared || s.b != nil && s.b.prepared.holds(st.Executes)) {
		return place{err: errNoStatement([]byte(st.Executes))}
	}
	return d.server(st)
}

// sets decides for SET and RESET. If the server makes the change, a weakened isolation level draws a warning.
func (d *division) sets(st *rewrite.Statement) place {
	if d.s.answersSetting(st) && !(d.roled && resetsRole(st)) {
		return d.changes(st)
	}
	return place{warn: st.Weakened}
}

// configures decides for set_config. For a single call that the server gets as a SET, Sluice makes the row. The row's
// value does not depend on earlier statements.
func (d *division) configures(st *rewrite.Statement) place {
	if d.s.answersSetting(st) && !(d.roled && resetsRole(st)) {
		return d.changes(st)
	}
	if err := d.s.tellsNot(st); err != nil || len(st.Told) != 1 {
		return place{err: err}
	}
	return place{told: &told{}}
}

// begins decides for BEGIN.
func (d *division) begins(st *rewrite.Statement) place {
	if !d.open() {
		return d.begin(st)
	}
	return place{warn: st.Weakened}
}

// setsModes decides for SET TRANSACTION, whose modes may have been moved into the BEGIN before it.
func (d *division) setsModes(st *rewrite.Statement) place {
	if d.folds > 0 {
		d.folds--
		return place{here: true}
	}
	return place{warn: st.Weakened}
}

// begin decides for the BEGIN of a block. It is sent with the modes of the client's settings, or of SET TRANSACTIONs
// directly after it: DSQL accepts modes only there. The last one counts, and each is answered in its place. The server
// refuses a SET TRANSACTION elsewhere.
func (d *division) begin(st *rewrite.Statement) place {
	p := place{warn: st.Weakened}
	modes := rewrite.Transaction{ReadOnly: d.mode() == readOnly && saysNoMode(&st.Tx)}
	if !st.Tx.Deferrable && st.Tx.Isolation != rewrite.Serializable {
		late := d.at > 0 || d.s.t.touched || d.s.t.ranLocal // for READ WRITE, as in PostgreSQL
		for i := d.at + 1; i < len(d.places) && d.s.foldsModes(&d.plan.Statements[i]) && !(late && d.plan.Statements[i].Tx.ReadWrite); i++ {
			modes = d.plan.Statements[i].Tx
			d.folds++
		}
	}
	p.tx = st.Tx
	p.tx.ReadOnly, p.tx.ReadWrite = modes.ReadOnly, modes.ReadWrite
	switch p.begin = true; {
	case modes.ReadOnly:
		p.only, p.sql = true, withMode(st, d.sql, &st.Tx, "READ ONLY")
	case modes.ReadWrite:
		p.sql = withMode(st, d.sql, &st.Tx, "READ WRITE")
	default:
		p.begin, p.tx = false, rewrite.Transaction{}
	}
	return p
}

// checksTables decides for LOCK TABLE, which needs a block as in PostgreSQL, or other statements beside it. The plan
// has a query in its place, whose rows the client does not get (maskedReply).
func (d *division) checksTables(*rewrite.Statement) place {
	if len(d.places) == 1 && !d.behind() {
		return place{err: errLockOutside}
	}
	return place{}
}

// changes decides for changes of settings that Sluice makes. They are made at their place in the query. An invalid
// value fails the query at that place.
func (d *division) changes(st *rewrite.Statement) place {
	for i := range st.Changes {
		if err := d.change(&st.Changes[i]); err != nil {
			return place{err: err}
		}
	}
	return place{here: true}
}

// change returns the error of a change of settings that Sluice would make. A choice is checked here and made in its
// place. In a pipeline it is the query's only statement, so that nothing comes between.
func (d *division) change(c *rewrite.Change) *wire.Error {
	var err error
	switch {
	case !settings.IsOwn(c.Name):
		_, bad := settings.ValueOf(c)
		return bad
	case len(d.places) > 1:
		return errChoiceInString
	default:
		_, err = d.s.mayChoose(c)
	}
	var bad *wire.Error
	errors.As(err, &bad)
	return bad
}

// placeOfLock decides for an advisory lock. A single lock call gets here only in an open Sync group, where no lock can
// be taken.
func placeOfLock(_ *division, st *rewrite.Statement) place {
	if st.Advisory.Verb != rewrite.UnlockAllAdvisory {
		return place{err: errLockInBlock}
	}
	return place{here: true}
}

// discard decides for DISCARD ALL. As in PostgreSQL it is refused beside other statements, since these are one
// transaction.
func (d *division) discard(st *rewrite.Statement) place {
	switch err := d.s.discardFails(st); {
	case len(d.places) > 1 || !d.s.answersDiscard(st):
		return place{err: errDiscardInBlock}
	case err != nil:
		return place{err: err}
	}
	return place{here: true}
}

// ask decides for a query that reads settings from the server. It is refused if Sluice has another value, or will have:
// the server would return its own.
func (d *division) ask(st *rewrite.Statement) place {
	for _, name := range st.Asks {
		if d.tellsMode(name) || d.s.settings.Misleads(name) || d.s.settings.Keeps(name) && slices.Contains(d.set, name) {
			return place{err: errNotAsked(name)}
		}
	}
	return place{}
}

// deallocates decides for DEALLOCATE of one name. Sluice has the names prepared by the protocol, and the server has the
// names of PREPARE. Names that Sluice itself uses on the server do not exist for the client.
func (d *division) deallocates(st *rewrite.Statement) place {
	s, name := d.s, st.Deallocate
	switch {
	case s.stmts[name] != nil && !d.everything && !slices.Contains(d.gone, name):
		return place{here: true}
	case !d.prepares || s.b != nil && s.b.prepared.holds(name):
		return place{err: errNoStatement([]byte(name))}
	}
	return place{}
}

// deallocatesAll decides for DEALLOCATE ALL.
func (d *division) deallocatesAll(*rewrite.Statement) place { return place{here: !d.prepares} }

// mayBegin reports whether the query may leave a block open, in which portals would stay open.
func (d *division) mayBegin() bool {
	return d.plan.Any(func(st *rewrite.Statement) bool { return st.Tx.Verb == rewrite.Begin || st.Tx.Chain })
}

// show decides for SHOW. It is refused for an ignored setting that an earlier transaction of the query has set: the
// value depends on whether that transaction commits.
func (d *division) show(st *rewrite.Statement) place {
	name := st.Show
	how := d.s.srv.treat.Of(name)
	if _, bad := d.s.shown(name); how == settings.Own && bad != nil {
		return place{err: bad}
	}
	switch {
	case d.tellsMode(name), d.s.settings.Shows(name), how == settings.Ignored && slices.Contains(d.set, name):
		return place{here: true}
	case how == settings.Ignored && slices.Contains(d.unsure, name):
		return place{err: errUnsure(name)}
	}
	return place{}
}

// mode returns the mode of the current statement's transaction, where Sluice must enforce it.
func (d *division) mode() txMode {
	if d.open() {
		return readWrite
	}
	return d.s.t.mode
}

// tellsMode reports whether Sluice answers SHOW transaction_read_only with on, for the current statement.
func (d *division) tellsMode(name string) bool {
	return name == transactionReadOnly && d.s.t.mode == readOnly && !d.open()
}

// follow records the effects of a statement for later ones.
func (d *division) follow(st *rewrite.Statement, p *place) {
	if d.stands.Step(st) != block.GoesOn {
		d.changed = false
		d.unsure, d.set = append(d.unsure, d.set...), nil
	}
	d.blocked = append(d.blocked, d.behind() || d.changed)
	d.roled = d.roled || setsRole(*st)
	d.prepared = d.prepared || st.Pin == rewrite.PinPrepare && st.Executes == ""
	switch {
	case st.Does == rewrite.DeallocatesAll:
		d.everything = true
	case st.Deallocate != "":
		d.gone = append(d.gone, st.Deallocate)
	}
	for i := range st.Changes {
		switch c := &st.Changes[i]; {
		case !p.ours() && c.Action <= rewrite.SetLocal:
			d.changed = true
		case c.Action <= rewrite.SetLocal:
			d.set = append(d.set, c.Name)
		}
	}
}

// resets decides for RESET of settings that the server has. Sluice answers it if no statement of the server follows, or
// if there is nothing to reset. Otherwise it becomes a SET of the client's startup value, since the server's RESET
// restores its own. The loop runs backwards, because later statements decide.
func (d *division) resets() {
	s, follows := d.s, false
	clean := !s.pinned && !s.t.touched && len(s.settings.Staged.Changes) == 0
	for i := len(d.places) - 1; i >= 0; i-- {
		st, p := &d.plan.Statements[i], &d.places[i]
		switch {
		case p.ours():
			continue
		case !s.resetsOnly(st):
		case clean && !d.blocked[i] && !follows, clean && s.status() == 'I' && !d.changedBefore(i) && s.settings.InForce.Equal(s.settings.Startup):
			p.here = true
			continue
		case len(st.Changes) == 1 && st.Changes[0].Action == rewrite.Reset:
			name := st.Changes[0].Name
			if value, ok := s.settings.Startup.SQL[name]; ok && !settings.Merges(name, value) {
				p.set = rewrite.Change{Action: rewrite.Set, Name: name, SQL: value, Text: s.settings.Startup.Shown[name]}
				p.sql, p.tag = setText(p.set), wire.AppendCommand(nil, result.ChangeTag(st))
			}
		}
		follows = true
	}
}

// changedBefore reports whether the server runs an earlier statement that may change settings.
func (d *division) changedBefore(i int) bool {
	for n := range i {
		if k := d.plan.Statements[n].Kind; !d.places[n].ours() && (k == rewrite.Setting || k > rewrite.Control) {
			return true
		}
	}
	return false
}

// resetsOnly reports whether a statement only resets settings that the server has.
func (s *session) resetsOnly(st *rewrite.Statement) bool {
	if st.Kind != rewrite.Setting || len(st.Changes) == 0 {
		return false
	}
	for i := range st.Changes {
		c := &st.Changes[i]
		if c.Action != rewrite.ResetAll && (c.Action != rewrite.Reset || s.srv.treat.Of(c.Name) != settings.Carried) {
			return false
		}
	}
	return true
}

// errUnsure is the error of SHOW for a setting whose value depends on an unfinished transaction.
func errUnsure(name string) *wire.Error {
	return &wire.Error{Code: retry.StateUnsupported, Message: "the value of \"" + name + "\" is not known at this place of a string of statements",
		Hint: "Send SHOW " + name + " by itself."}
}
