package proxy

import (
	"cmp"

	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Transactions with DDL that are committed in parts (ddl.in_transactions). A transaction of DSQL takes one statement
// of DDL and no change of rows beside it, while migration tools put a whole migration in a transaction.
//
// A part is committed as late as can be: in front of the statement that does not go with it. So a transaction that
// holds one statement of DDL, or none, is run as it was asked, and what the last part holds can be rolled back. Each
// part is a transaction of its own, with a log and replays of its own.
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
// The client is told of each early commit by a WARNING, and by another one what a ROLLBACK leaves. Once a part is
// committed no conflict is told as one (partly): the client would send the whole transaction again.

// parts is what a session knows of the block that it is in, for as long as it may have to be committed in parts.
type parts struct {
	// how transactions are committed; never RefuseDDL. It stays as it is through a block.
	how rewrite.InTransactions
	// by are the client's choices where an earlier part is committed: what was chosen for the
	// duration of the transaction has ended with that part for package settings. nil: there is none.
	by *rewrite.Choices
	// open is what the part that has not been committed asks of its transaction, and lists its
	// statements; stays are the statements of the parts before.
	open  rewrite.Demand
	lists listing.Statements
	stays listing.Statements
	// savepoints are those of the parts before, which nobody can return to; the last are the newest.
	savepoints []string
	// optedOut: the client wants no replay of the block.
	optedOut bool
	// timed is the time of the first part that has read the clock; nil: none has. It is that of the
	// transaction (parttime.go). asked is the time of the part that is being committed.
	timed *toldTime
	asked timeValue
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

// partsEnded forgets what the block that has ended has committed in parts. The COMMIT that Sluice sends before the next
// part does not end the client's block.
func partsEnded(s *session, _ bool) {
	if p := s.parts; p != nil && !s.t.outside {
		p.by, p.stays, p.savepoints, p.timed = nil, listing.Statements{}, nil, nil
	}
}

// partly reports whether a part of the block is committed. p may be nil.
func (p *parts) partly() bool {
	return p != nil && (p.by != nil || !p.stays.Empty() || len(p.savepoints) > 0)
}

// partsUnsettled reports whether the end of a block of which a part is committed was sent, and is not
// answered: until then an error is of that block, and what is sent behind it of another.
func (s *session) partsUnsettled() bool { return s.parts.partly() && s.behindItsEnd() }

// commitsParts reports whether the session's transactions may be committed in parts.
func (s *session) commitsParts() bool { return s.parts != nil }

// partlyDone reports whether a part of the transaction is committed.
func (s *session) partlyDone() bool { return s.parts != nil && !s.parts.stays.Empty() }

// mark is what a return to a savepoint brings back: the part that is open.
func (p *parts) mark() *parts {
	if p == nil {
		return nil
	}
	return &parts{by: p.by, open: p.open, lists: p.lists.Snapshot()}
}

// returnTo brings it back.
func (p *parts) returnTo(m *parts) {
	if p != nil && m != nil {
		p.by, p.open, p.lists = m.by, m.open, m.lists.Snapshot()
	}
}

// forgetParts is told of the end of a turn: behind a block nothing is known of it.
func (s *session) forgetParts() {
	if s.parts != nil && !s.inBlock() {
		s.parts.forget()
	}
}

// ofParts reports whether a simple Query has to do with parts: of one statement outside of a block, which begins none, the
// transaction ends with it. It is the way of most: nothing is allocated.
func (s *session) ofParts(plan *rewrite.Plan) bool {
	if !s.commitsParts() {
		return false
	}
	st := plan.Single()
	return st == nil || st.Tx.Verb != rewrite.NoVerb || s.inBlock()
}

// inParts is told of a simple Query before it is answered or sent. done: the text was run, in
// groups or outside of its block, and the turn is over. Else there is room for it in the
// transaction. An error is for the client, or the session's end.
func (s *session) inParts(plan *rewrite.Plan, sql []byte) (done bool, err error) {
	if !s.ofParts(plan) {
		return false, nil
	}
	if s.cutsFailed(plan) {
		return true, s.runGroups(plan, string(sql), plan.Cut())
	}
	if s.t.outside || s.t.touched || s.state == failed || s.status() == 'E' {
		return false, s.makeRoom(plan, string(sql), true)
	}
	// What the server refuses anyway goes there as it is, a string as a whole: nothing of it stands then.
	if _, ok := plan.Demand(); !ok {
		return false, nil
	}
	if groups := s.groupsOf(plan); groups != nil {
		return true, s.runGroups(plan, string(sql), groups)
	}
	if st := plan.Single(); st != nil && s.inBlock() && s.stepsOutside(st) { // never in a READ ONLY block
		text := string(sql)
		return true, s.runOutside(st, text[st.Start:], func() (feature.Result, error) { return s.nest(text, nested{outside: true, shift: s.t.shift}) })
	}
	return false, s.makeRoom(plan, string(sql), true)
}

// cutsFailed reports whether a text that ends a failed block of the backend is run in groups: one of
// its parts is committed, or what follows in the text is too much for one transaction.
func (s *session) cutsFailed(plan *rewrite.Plan) bool {
	if s.t.outside || s.t.touched || s.state == failed || s.status() != 'E' {
		return false
	}
	return len(plan.Statements) > 1 && (s.parts.partly() && beginsOrEnds(plan) || plan.TooMuch() && endsBlock(plan.Statements[0].Tx.Verb))
}

// groupsOf are the groups in which a text is run; nil: it is run as a whole. Of a block whose open part may have to be
// committed, or of which one is, each end is a request of its own: what the client is told there depends on it.
func (s *session) groupsOf(plan *rewrite.Plan) [][2]int {
	groups := plan.Groups()
	switch inBlock := s.inBlock(); {
	case groups != nil && (inBlock || plan.TooMuch()):
		return groups
	case len(plan.Statements) > 1 && inBlock && (s.parts.partly() || s.parts.open.DDL) && beginsOrEnds(plan):
		return plan.Cut()
	}
	return nil
}

// beginsOrEnds reports whether a text begins or ends a transaction.
func beginsOrEnds(plan *rewrite.Plan) bool {
	return plan.Any(func(st *rewrite.Statement) bool { return st.Tx.Verb == rewrite.Begin || endsBlock(st.Tx.Verb) })
}

// makeRoom has the part that is open committed where a text does not go with it, before anything of the text is sent,
// and notes what the text asks for if it runs now. An error is for the client, or the session's end.
func (s *session) makeRoom(plan *rewrite.Plan, sql string, runs bool) error {
	p := s.parts
	if !s.commitsParts() || s.t.outside || s.state == failed && !beginsOrEnds(plan) { // or it is Sluice's own
		return nil
	}
	p.lists = p.listed(s.srv.reads()) // by an answer of the server since, and before DDL makes it an old one
	at := s.position()
	if st := plan.Single(); st != nil && runs {
		if err := s.comesToParts(st, &at); err != nil {
			return err
		}
	}
	if at.Status() == 'T' && s.status() != 'E' && !s.staysWhole() && !s.isOutside(plan) {
		// A text that the server refuses whatever the transaction holds must not have the part
		// in front of it committed.
		if _, ok := plan.Demand(); !ok {
			return nil
		}
		if !p.takesIn(demandHere(at, plan)) {
			if err := s.commitPart(); err != nil {
				return err
			}
			at = s.position()
		}
	} else if s.isOutside(plan) {
		return nil
	}
	if runs {
		p.follow(at, plan, sql)
	}
	return nil
}

// comesToParts looks at a statement that stands alone in front of makeRoom: of an end of the block the
// client is sent what stays, and a READ ONLY transaction takes no change of the schema.
func (s *session) comesToParts(st *rewrite.Statement, at *block.Block) error {
	switch {
	case endsBlock(st.Tx.Verb):
		return s.tellStays(st)
	case st.Alters() && at.Status() == 'T' && at.ReadOnly():
		return refusesWrite(st, readOnly)
	}
	return nil
}

// demandHere is what the statements of a text, sent where at stands, ask of the transaction at hand.
func demandHere(at block.Block, plan *rewrite.Plan) (want rewrite.Demand) {
	ends := at.Ends()
	for i := range plan.Statements {
		st := &plan.Statements[i]
		if at.Step(st); at.Ends() != ends {
			break
		}
		want = want.And(st.Demand())
	}
	return want
}

// follow notes what a text that is sent where at stands asks of the part that is open: of each of its
// transactions, up to the last, which stays open: a BEGIN takes in what a pipeline has in front of it.
func (p *parts) follow(at block.Block, plan *rewrite.Plan, sql string) {
	ends := at.Ends()
	for i := range plan.Statements {
		st := &plan.Statements[i]
		if at.Step(st); at.Ends() != ends {
			ends, p.open, p.lists = at.Ends(), rewrite.Demand{}, listing.Statements{}
			continue
		}
		text := sql
		if len(plan.Statements) > 1 {
			text = sql[st.Start:st.End]
		}
		p.takes(st.Demand(), text, st.MayWrite())
	}
}

// takesIn reports whether a text goes with what the part that is open holds.
func (p *parts) takesIn(want rewrite.Demand) bool {
	return !(want.DDL && (p.open.DDL || p.open.Rows)) && !(want.Rows && p.open.DDL)
}

// takes notes what a text asks of the part that is open. What fails is noted too: the block has
// failed then, and no part of it is committed any more. mayWrite: the text looks like a read, and changes
// rows where functions of views do; it goes with DDL all the same.
func (p *parts) takes(want rewrite.Demand, sql string, mayWrite bool) {
	p.open = p.open.And(want)
	switch {
	case want.DDL || want.Rows || want.Sets:
		p.lists.Add(sql)
	case mayWrite:
		p.lists.AddRead(sql)
	}
}

// listed returns the statements of the open part that may have changed something. reads says that statements that
// look like reads do not (Server.reads).
func (p *parts) listed(reads bool) listing.Statements {
	if reads {
		return p.lists.WithoutReads()
	}
	return p.lists
}

// tellStays is told of an end of a block. Behind parts that are committed the client is told what a rollback leaves.
func (s *session) tellStays(st *rewrite.Statement) error {
	rollsBack := st.Tx.Verb == rewrite.Rollback || s.status() == 'E'
	if stays := &s.parts.stays; rollsBack && !stays.Empty() {
		return s.tell(warnStays(stays).AppendNotice(nil, "WARNING"))
	}
	return nil
}

// staysWhole reports whether the block cannot be committed in parts: it has modes that a BEGIN of
// Sluice's own would not have, or nobody here has seen its BEGIN.
func (s *session) staysWhole() bool {
	at := s.position()
	m := at.Modes()
	return !at.Known() || m.Access == block.ReadOnly || m.Deferrable || m.Snapshot || m.Isolation == rewrite.Serializable
}

// mayLeave refuses to commit what the block holds, where that would do more than its client has asked for.
func (s *session) mayLeave() error {
	switch p := s.parts; {
	case p.open.Drops && p.how != rewrite.CommitDrops:
		lists := p.listed(s.srv.reads())
		return errDropsEarly(&lists)
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
	lists, fresh := s.parts.listed(s.srv.reads()), s.freshNames()
	left, err := s.leaveBlock()
	if err == nil {
		err = s.beginAnew()
	}
	if err == nil && left.Err == nil {
		if err = s.carryNames(fresh); err == nil {
			err = s.tellPart(&lists)
		}
	}
	return cmp.Or(err, left.Why())
}

// tellPart tells the client, and counts, that the statements are committed before it said so.
func (s *session) tellPart(l *listing.Statements) error {
	s.srv.metrics.EarlyCommit()
	return s.tell(warnPart(l).AppendNotice(nil, "WARNING"))
}

// leaveBlock commits what the block has run so far. Where told is why that has failed, nothing of
// the part stands, or nobody knows (08007).
func (s *session) leaveBlock() (feature.Result, error) {
	p := s.parts
	p.keepNames(s.tx.log.Names())
	optedOut := s.tx.optedOut
	p.by = s.choices()
	left, err := s.commitTimed()
	if err == nil && s.b != nil && s.b.status != 'I' { // the COMMIT was skipped
		var ended feature.Result
		if ended, err = s.command("ROLLBACK", silent.Rollback); err == nil && ended.Err != nil {
			err = errNotBegun(ended.Err)
		}
	}
	if err == nil && left.Err == nil {
		p.stays.Join(p.listed(s.srv.reads()))
	}
	p.open, p.lists, p.optedOut = rewrite.Demand{}, listing.Statements{}, optedOut
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
	if err == nil && begun.Err != nil {
		err = errNotBegun(begun.Err)
	}
	s.tx.timed = s.parts.timed
	return err
}

// errNotBegun ends the session of a client whose block could not be begun again behind a part that is committed.
func errNotBegun(why *wire.Error) *wire.Error {
	return &wire.Error{Fatal: true, Code: why.Code, Message: "the transaction could not be begun again behind the part that is committed: " + why.Message, Detail: why.Detail, Hint: why.Hint}
}
