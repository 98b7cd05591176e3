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

// What becomes of each statement of a string (strung.go), by what those before it, and for resets those
// behind it, will have done.

// divide says which statements of a string are answered here, as things will stand when
// their turn comes; nil when none is. Nothing is changed: the effects come with the answers
// (strungReply).
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
	// Only the whole string tells which resets have a statement of the server's behind
	// them.
	d.resets()
	if !slices.ContainsFunc(d.places, func(p place) bool { return p.ours() || p.sql != "" || p.told != nil || p.warn }) {
		return nil
	}
	return &strung{plan, d.places}
}

// division follows a session through a string: what earlier statements of the string will
// have done, as far as it decides for later ones.
type division struct {
	s      *session
	plan   *rewrite.Plan
	sql    []byte
	places []place
	at     int // of the statement at hand
	// stands is how the session stands in front of it, and ends counts the ends in front of the string.
	stands block.Block
	ends   uint32
	// folds counts the statements behind a BEGIN whose modes have gone into it.
	folds int
	// prepares: statements may have been prepared in SQL.
	prepares bool
	prepared bool // in this string
	// gone are statements that were deallocated; all of them when everything is.
	gone       []string
	everything bool
	set        []string // kept settings that were set, in this transaction
	unsure     []string // that were set in one before
	// blocked are the statements that stand in a block, or behind a change of
	// settings in the same transaction: no reset of settings is answered there.
	blocked []bool
	changed bool
	// roled: a statement before it sets another role.
	roled bool
}

// open reports whether the statement at hand stands in a block that the client has begun.
func (d *division) open() bool { return d.stands.In() && !d.s.t.ownTx.on }

// behind reports whether it stands in a block, or in the transaction of a pipeline that the string is a part of.
func (d *division) behind() bool {
	return d.stands.In() || d.s.t.touched && d.stands.Ends() == d.ends
}

// The following decide for one statement, by what those before it will have done. The zero place is a
// statement for the server.

// server decides for a statement that the server runs.
func (d *division) server(st *rewrite.Statement) place {
	if st.Asks != nil {
		return d.ask(st)
	}
	return place{}
}

// answered is the place of a statement that is done here.
func answered(*division, *rewrite.Statement) place { return place{here: true} }

// closesAll decides for CLOSE ALL. Portals that are open may end with the query.
func (d *division) closesAll(*rewrite.Statement) place {
	if len(d.s.portals) > 0 && (d.s.inBlock() || d.mayBegin()) {
		return place{err: errPortalsOpen}
	}
	return place{here: true}
}

// executes decides for EXECUTE of a name that may be Sluice's.
func (d *division) executes(st *rewrite.Statement) place {
	s := d.s
	if st.Asks == nil && (!s.pinned && !d.prepared || s.b != nil && s.b.prepared.holds(st.Executes)) {
		return place{err: errNoStatement([]byte(st.Executes))}
	}
	return d.server(st)
}

// sets decides for SET and RESET. Where the server makes the change, a level that is taken for less is warned of.
func (d *division) sets(st *rewrite.Statement) place {
	if d.s.answersSetting(st) && !(d.roled && resetsRole(st)) {
		return d.changes(st)
	}
	return place{warn: st.Weakened}
}

// configures decides for set_config. One call that the server gets as a SET has a row of Sluice's, whose
// value does not depend on what stands before it.
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

// setsModes decides for SET TRANSACTION, whose modes may be in the BEGIN in front of it.
func (d *division) setsModes(st *rewrite.Statement) place {
	if d.folds > 0 {
		d.folds--
		return place{here: true}
	}
	return place{warn: st.Weakened}
}

// begin decides for the BEGIN of a block, which is sent with the modes that it gets by the client's
// settings, or by SET TRANSACTION directly behind it: DSQL has them nowhere else. Of several the last
// counts. Each of them is answered at its place, and a SET TRANSACTION elsewhere is the server's to
// refuse.
func (d *division) begin(st *rewrite.Statement) place {
	p := place{warn: st.Weakened}
	modes := rewrite.Transaction{ReadOnly: d.mode() == readOnly && saysNoMode(&st.Tx)}
	if !st.Tx.Deferrable && st.Tx.Isolation != rewrite.Serializable {
		late := d.at > 0 || d.s.t.touched || d.s.t.ranLocal // for READ WRITE, as PostgreSQL has it
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

// checksTables decides for LOCK TABLE, which PostgreSQL takes in a block only; several statements are one. The
// query in its place is the plan's, and its rows are masked as ever (maskedReply).
func (d *division) checksTables(*rewrite.Statement) place {
	if len(d.places) == 1 && !d.behind() {
		return place{err: errLockOutside}
	}
	return place{}
}

// changes decides for changes of settings that are Sluice's to make. They are made when their turn
// comes, but a value that is none fails the string where it stands.
func (d *division) changes(st *rewrite.Statement) place {
	for i := range st.Changes {
		if err := d.change(&st.Changes[i]); err != nil {
			return place{err: err}
		}
	}
	return place{here: true}
}

// change is the error of a change of settings that is Sluice's to make; nil for one that will be
// made. A choice is looked at here and made when its turn comes: behind frames of a group it stands
// alone in its string, and nothing comes between.
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

// placeOfLock decides for an advisory lock. A single one comes here behind frames that no Sync has ended,
// where it cannot be taken.
func placeOfLock(_ *division, st *rewrite.Statement) place {
	if st.Advisory.Verb != rewrite.UnlockAllAdvisory {
		return place{err: errLockInBlock}
	}
	return place{here: true}
}

// discard decides for DISCARD ALL, which PostgreSQL refuses in a string of several: such a
// string is a transaction.
func (d *division) discard(st *rewrite.Statement) place {
	switch err := d.s.discardFails(st); {
	case len(d.places) > 1 || !d.s.answersDiscard(st):
		return place{err: errDiscardInBlock}
	case err != nil:
		return place{err: err}
	}
	return place{here: true}
}

// ask decides for a statement that asks the server for settings. One that has another value
// here, or will have, is refused: the server would tell its own.
func (d *division) ask(st *rewrite.Statement) place {
	for _, name := range st.Asks {
		if d.tellsMode(name) || d.s.settings.Misleads(name) || d.s.settings.Keeps(name) && slices.Contains(d.set, name) {
			return place{err: errNotAsked(name)}
		}
	}
	return place{}
}

// deallocates decides for DEALLOCATE of one statement: of the client's by the protocol, of
// its own in SQL at the server, and of nobody's. Names of Sluice's own are nobody's to the
// client.
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

// mayBegin reports whether the string may leave a block behind, in which portals would stay
// open.
func (d *division) mayBegin() bool {
	return d.plan.Any(func(st *rewrite.Statement) bool { return st.Tx.Verb == rewrite.Begin || st.Tx.Chain })
}

// show decides for SHOW of a setting. A setting that is ignored, and set in an earlier
// transaction of the string, has a value that depends on how that transaction ends: then
// SHOW is refused.
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

// mode is how the statement's transaction has begun, as far as Sluice has to see to it.
func (d *division) mode() txMode {
	if d.open() {
		return readWrite
	}
	return d.s.t.mode
}

// tellsMode is session.tellsMode for a statement of the string.
func (d *division) tellsMode(name string) bool {
	return name == transactionReadOnly && d.s.t.mode == readOnly && !d.open()
}

// follow notes what a statement changes for those behind it.
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

// resets decides for RESET of what the server knows: it is answered here where no server's
// statement follows, or where there is nothing to reset; else it must return to the
// client's startup value, not the server's. It goes through the string from its end, since
// what follows decides.
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

// changedBefore reports whether a server's statement before may change settings.
func (d *division) changedBefore(i int) bool {
	for n := range i {
		if k := d.plan.Statements[n].Kind; !d.places[n].ours() && (k == rewrite.Setting || k > rewrite.Control) {
			return true
		}
	}
	return false
}

// resetsOnly reports whether all that a statement does is to reset settings that the server
// knows.
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

// errUnsure is a setting whose value depends on what becomes of a transaction.
func errUnsure(name string) *wire.Error {
	return &wire.Error{Code: retry.StateUnsupported, Message: "the value of \"" + name + "\" is not known at this place of a string of statements",
		Hint: "Send SHOW " + name + " by itself."}
}
