package proxy

import (
	"cmp"
	"slices"

	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Transactions with DDL that are committed in parts (ddl.in_transactions). A transaction of
// DSQL takes one statement of DDL and no change of rows beside it, while migration tools put a
// whole migration in a transaction.
//
// A part is committed as late as can be: in front of the statement that does not go with it.
// So a transaction that holds one statement of DDL, or none, is run as it was asked, and what
// the last part holds can be rolled back. Each part is a transaction of its own, with a log and
// replays of its own.
//
//	in a block         a statement that does not go with the part: COMMIT and BEGIN in front
//	of several steps   outside: Sluice carries such a statement out in transactions of its own
//	string             cut into groups, each as if it were sent by itself
//
// An early commit is refused, and with it the statement, where it would do more than its client
// has asked for: behind a DROP of what holds rows, behind SET LOCAL, in the middle of a
// pipeline. A block that was begun READ ONLY, or with other modes that a BEGIN of Sluice's own
// would lose, is left to the server. So is a text that the server refuses anyway.
//
// Savepoints end with their part, but for those behind which nothing was run (partsaves.go).
//
// The client is told of each early commit by a WARNING, and by another one what a ROLLBACK
// leaves. Once a part is committed no conflict is told as one (partly): the client would send
// the whole transaction again.

// parts is what a session knows of the block that it is in, for as long as it may have to be
// committed in parts.
type parts struct {
	// how transactions are committed; never RefuseDDL. It stays as it is through a block.
	how rewrite.InTransactions
	// by are the client's choices where an earlier part is committed: what was chosen for the
	// duration of the transaction has ended with that part for package settings. nil: there is none.
	by *rewrite.Choices
	// open is what the part that has not been committed asks of its transaction, and lists its
	// statements; stays are the statements of the parts before.
	open  rewrite.Demand
	lists labels
	stays labels
	// savepoints are those of the parts before, which nobody can return to; the last are the newest.
	savepoints []string
	// whole: the block cannot be committed in parts, since it was begun with modes that a
	// BEGIN of Sluice's own would not have.
	whole bool
	// optedOut: the client wants no replay of the block.
	optedOut bool
}

// policy is how transactions are committed.
func (p *parts) policy() rewrite.InTransactions {
	if p == nil {
		return rewrite.RefuseDDL
	}
	return p.how
}

// forget is told that no block is open.
func (p *parts) forget() { *p = parts{how: p.how} }

// commitsParts reports whether the session's transactions may be committed in parts.
func (s *session) commitsParts() bool { return s.parts != nil }

// partlyDone reports whether a part of the transaction is committed.
func (s *session) partlyDone() bool { return s.parts != nil && !s.parts.stays.empty() }

// mark is what a return to a savepoint brings back: the part that is open.
func (p *parts) mark() *parts {
	if p == nil {
		return nil
	}
	return &parts{by: p.by, open: p.open, lists: labels{slices.Clip(p.lists.named), p.lists.more}}
}

// returnTo brings it back.
func (p *parts) returnTo(m *parts) {
	if p != nil && m != nil {
		p.by, p.open, p.lists = m.by, m.open, labels{slices.Clip(m.lists.named), m.lists.more}
	}
}

// forgetParts is told of the end of a turn: behind a block nothing is known of it.
func (s *session) forgetParts() {
	if s.parts != nil && !s.inBlock() {
		s.parts.forget()
	}
}

// inParts is told of a simple Query before it is answered or sent. done: the text was run, in
// groups or outside of its block, and the turn is over. Else there is room for it in the
// transaction. An error is for the client, or the session's end.
func (s *session) inParts(plan *rewrite.Plan, sql []byte) (done bool, err error) {
	if !s.commitsParts() { // the way of most: nothing is allocated
		return false, nil
	}
	if s.t.outside || s.t.touched || s.state == failed || s.status() == 'E' {
		return false, s.makeRoom(plan, string(sql), true)
	}
	// What the server refuses anyway goes there as it is, a string as a whole: nothing of it
	// stands then.
	if _, ok := plan.Demand(); !ok {
		return false, nil
	}
	if groups := plan.Groups(); groups != nil && (s.inBlock() || plan.TooMuch()) {
		return true, s.runGroups(plan, string(sql), groups)
	}
	if st := plan.Single(); st != nil && s.inBlock() && s.stepsOutside(st) {
		text := string(sql)
		return true, s.runOutside(st, text[st.Start:], func() (insideEnd, error) { return s.part(text, inside{outside: true, shift: s.t.shift}) })
	}
	return false, s.makeRoom(plan, string(sql), true)
}

// makeRoom has the part that is open committed where a text does not go with it, before
// anything of the text is sent, and notes what the text asks for if it runs now. An error is
// for the client, or the session's end.
func (s *session) makeRoom(plan *rewrite.Plan, sql string, runs bool) error {
	p := s.parts
	if !s.commitsParts() || s.t.outside { // or it is Sluice's own
		return nil
	}
	if !s.inBlock() { // a pipeline may have ended one and begun another
		p.forget()
	}
	if st := plan.Single(); st != nil && st.Tx.Verb != rewrite.NoVerb {
		if !runs {
			return nil
		}
		return s.noteControl(st)
	}
	if !s.inBlock() || s.state == failed || s.status() == 'E' || p.whole || s.isOutside(plan) {
		return nil
	}
	// A text that the server refuses whatever the transaction holds must not have the part
	// in front of it committed.
	want, ok := plan.Demand()
	if !ok {
		return nil
	}
	if !p.takesIn(want) {
		if err := s.commitPart(); err != nil {
			return err
		}
	}
	if runs {
		p.takes(want, sql)
	}
	return nil
}

// takesIn reports whether a text goes with what the part that is open holds.
func (p *parts) takesIn(want rewrite.Demand) bool {
	return !(want.DDL && (p.open.DDL || p.open.Rows)) && !(want.Rows && p.open.DDL)
}

// takes notes what a text asks of the part that is open. What fails is noted too: the block has
// failed then, and no part of it is committed any more.
func (p *parts) takes(want rewrite.Demand, sql string) {
	p.open = p.open.And(want)
	if want.DDL || want.Rows || want.Sets {
		p.lists.add(sql)
	}
}

// noteControl is told of a command about the transaction. Behind parts that are committed the
// client is told what a rollback leaves.
func (s *session) noteControl(st *rewrite.Statement) error {
	p := s.parts
	switch {
	case st.Tx.Verb == rewrite.Begin && !s.inBlock():
		p.whole = modesOfOwn(&st.Tx) || s.beginsReadOnly(&st.Tx)
	case st.Tx.Verb == rewrite.SetTransaction, st.Tx.Verb == rewrite.PrepareTransaction:
		p.whole = true
	case endsBlock(st.Tx.Verb):
		rollsBack := st.Tx.Verb == rewrite.Rollback || s.status() == 'E'
		if rollsBack && !p.stays.empty() {
			return s.tell(warnStays(&p.stays).AppendNotice(nil, "WARNING"))
		}
	}
	return nil
}

// modesOfOwn reports modes of a BEGIN that a BEGIN of Sluice's own would lose.
func modesOfOwn(tx *rewrite.Transaction) bool {
	return tx.ReadOnly || tx.Deferrable || tx.Isolation == rewrite.Serializable
}

// mayLeave refuses to commit what the block holds, where that would do more than its client has
// asked for.
func (s *session) mayLeave() error {
	switch p := s.parts; {
	case p.open.Drops && p.how != rewrite.CommitDrops:
		return errDropsEarly(&p.lists)
	case p.open.Local:
		return errLocalInParts
	}
	return nil
}

// commitPart commits what the block has run so far, and begins it anew. An error is for the
// client, whose block has failed then, or the session's end.
func (s *session) commitPart() error {
	if s.t.touched {
		return errPartInPipeline
	}
	if err := s.mayLeave(); err != nil {
		return err
	}
	lists, fresh := s.parts.lists, s.freshNames()
	left, err := s.leaveBlock()
	if err == nil {
		err = s.beginAnew()
	}
	if err == nil && left.told == nil {
		if err = s.carryNames(fresh); err == nil {
			err = s.tellPart(&lists)
		}
	}
	return cmp.Or(err, left.why())
}

// tellPart tells the client, and counts, that the statements are committed before it said so.
func (s *session) tellPart(l *labels) error {
	s.srv.metrics.EarlyCommit()
	return s.tell(warnPart(l).AppendNotice(nil, "WARNING"))
}

// leaveBlock commits what the block has run so far. Where told is why that has failed, nothing of
// the part stands, or nobody knows (08007).
func (s *session) leaveBlock() (insideEnd, error) {
	p := s.parts
	p.keepNames(s.tx.log.Names())
	optedOut := s.tx.optedOut
	p.by = s.choices()
	left, err := s.command("COMMIT", silent.Commit)
	if err == nil && left.told == nil {
		p.stays.join(p.lists)
	}
	p.open, p.lists, p.optedOut = rewrite.Demand{}, labels{}, optedOut
	return left, err
}

// beginAnew begins the block again that leaveBlock has left. Where the COMMIT has failed the
// client is in a block all the same, which its error ends. A session whose own backend is gone
// ends instead, and so does one whose BEGIN has failed: its client believes that it is in a block.
func (s *session) beginAnew() error {
	if s.pinLost {
		return nil
	}
	begun, err := s.command("BEGIN", silent.Begin)
	s.optOut(s.parts.optedOut)
	if err == nil && begun.told != nil {
		err = errNotBegun(begun.told)
	}
	return err
}

// errNotBegun ends the session of a client whose block could not be begun again behind a part that is committed.
func errNotBegun(why *wire.Error) *wire.Error {
	return &wire.Error{Fatal: true, Code: why.Code, Message: "the transaction could not be begun again behind the part that is committed: " + why.Message, Detail: why.Detail, Hint: why.Hint}
}
