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

// This file commits transactions with DDL in parts (ddl.in_transactions). In DSQL a transaction takes one DDL
// statement, and no changes of rows beside it. Migration tools put a whole migration into one transaction.
//
// A part is committed as late as possible: when a statement arrives that cannot be in it. A transaction with at most
// one DDL statement therefore runs as usual, and a rollback undoes the last part. Each part is a transaction of its
// own, with its own log and replays.
//
//	in a block               a statement that cannot be in the part: COMMIT and BEGIN precede it
//	several steps            a statement that Sluice runs in transactions of its own: between two parts
//	multi-statement query    cut into groups, each like a Query of its own
//
// Sluice refuses the statement instead of an early commit that would do more than the client asked for. That is so
// after DROP of something with rows, after SET LOCAL, and within a pipeline. A block with modes that Sluice's BEGIN
// would lose, such as READ ONLY, is sent to the server as it is. So is a text that the server refuses in any case.
//
// Savepoints end with their part, except those after which nothing ran (partsaves.go).
//
// The client gets a WARNING for each early commit, and for each ROLLBACK that cannot undo earlier parts. After an early
// commit no error is sent as a conflict (partly): the client would run the whole transaction again.

// parts is the state of a session's block that may be committed in parts.
type parts struct {
	// how is the client's choice of ddl.in_transactions, never RefuseDDL. It does not change during a block.
	how rewrite.InTransactions
	// by holds the client's options since an early commit, which ended SET LOCAL for package settings. nil: no part is
	// committed.
	by *rewrite.Choices
	// open describes what the uncommitted part contains, lists its statements. stays lists the statements of the committed
	// parts.
	open  rewrite.Demand
	lists listing.Statements
	stays listing.Statements
	// savepoints are those of committed parts, to which no rollback is possible; the newest is last.
	savepoints []string
	// optedOut: the client wants no replay of the block.
	optedOut bool
	// timed is the transaction time of the first part that read the clock; nil: none. The later parts return the same time
	// (parttime.go). asked is the time of the part that is being committed.
	timed *toldTime
	asked timeValue
}

// policy returns how the session's transactions are committed. p may be nil.
func (p *parts) policy() rewrite.InTransactions {
	if p == nil {
		return rewrite.RefuseDDL
	}
	return p.how
}

// forget resets p when no block is open.
func (p *parts) forget() { *p = parts{how: p.how} }

// partsEnded forgets the committed parts at the end of the client's block. Sluice's own COMMIT between parts does not
// count.
func partsEnded(s *session, _ bool) {
	if p := s.parts; p != nil && !s.t.outside {
		p.by, p.stays, p.savepoints, p.timed = nil, listing.Statements{}, nil, nil
	}
}

// partly reports whether a part of the block is committed. p may be nil.
func (p *parts) partly() bool {
	return p != nil && (p.by != nil || !p.stays.Empty() || len(p.savepoints) > 0)
}

// partsUnsettled reports whether the end of a partly committed block was sent but is not answered yet. Until the
// answer, an error concerns that block, but further frames belong to the next transaction.
func (s *session) partsUnsettled() bool { return s.parts.partly() && s.behindItsEnd() }

// commitsParts reports whether the session's transactions may be committed in parts.
func (s *session) commitsParts() bool { return s.parts != nil }

// partlyDone reports whether a part of the transaction is committed.
func (s *session) partlyDone() bool { return s.parts != nil && !s.parts.stays.Empty() }

// mark copies the state of the uncommitted part, for a later ROLLBACK TO SAVEPOINT.
func (p *parts) mark() *parts {
	if p == nil {
		return nil
	}
	return &parts{by: p.by, open: p.open, lists: p.lists.Snapshot()}
}

// returnTo restores the state that mark copied. Both p and m may be nil.
func (p *parts) returnTo(m *parts) {
	if p != nil && m != nil {
		p.by, p.open, p.lists = m.by, m.open, m.lists.Snapshot()
	}
}

// forgetParts resets the state of the block at the end of a turn, if no block is open.
func (s *session) forgetParts() {
	if s.parts != nil && !s.inBlock() {
		s.parts.forget()
	}
}

// ofParts reports whether a simple Query concerns parts. A single statement outside a block does not, unless it is
// BEGIN or another control statement. Most queries are of this kind, so ofParts allocates nothing.
func (s *session) ofParts(plan *rewrite.Plan) bool {
	if !s.commitsParts() {
		return false
	}
	st := plan.Single()
	return st == nil || st.Tx.Verb != rewrite.NoVerb || s.inBlock()
}

// inParts prepares a simple Query, before it is answered or sent. done: inParts ran the text itself, and the turn is
// over. Otherwise the transaction has room for the text. The error is for the client, or ends the session.
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
	// The server refuses this text in any case, and refuses a multi-statement query as a whole, so nothing of it will
	// commit.
	if _, ok := plan.Demand(); !ok {
		return false, nil
	}
	if groups := s.groupsOf(plan); groups != nil {
		return true, s.runGroups(plan, string(sql), groups)
	}
	if st := plan.Single(); st != nil && s.inBlock() && s.stepsOutside(st) { // a READ ONLY block never gets here
		text := string(sql)
		return true, s.runOutside(st, text[st.Start:], func() (feature.Result, error) { return s.nest(text, nested{outside: true, shift: s.t.shift}) })
	}
	return false, s.makeRoom(plan, string(sql), true)
}

// cutsFailed reports whether a text that ends a failed block must run in groups. A part of the block may be committed,
// or the rest of the text may be too much for one transaction.
func (s *session) cutsFailed(plan *rewrite.Plan) bool {
	if s.t.outside || s.t.touched || s.state == failed || s.status() != 'E' {
		return false
	}
	return len(plan.Statements) > 1 && (s.parts.partly() && beginsOrEnds(plan) || plan.TooMuch() && endsBlock(plan.Statements[0].Tx.Verb))
}

// groupsOf returns the groups in which a text must run, or nil if it runs as a whole. If a part of the block is or may
// become committed, the block's end is a group of its own, with its own warnings.
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

// makeRoom commits the open part if a text cannot be in the same transaction, before anything of the text is sent. If
// runs is set, it adds the text to the open part. The error is for the client, or ends the session.
func (s *session) makeRoom(plan *rewrite.Plan, sql string, runs bool) error {
	p := s.parts
	if !s.commitsParts() || s.t.outside || s.state == failed && !beginsOrEnds(plan) { // outside: the statement is Sluice's own
		return nil
	}
	at := s.position()
	if st := plan.Single(); st != nil && runs {
		if err := s.comesToParts(st, &at); err != nil {
			return err
		}
	}
	if at.Status() == 'T' && s.status() != 'E' && !s.staysWhole() && !s.isOutside(plan) {
		// A text that the server refuses in any case must not commit the part before it.
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

// comesToParts handles a single statement before makeRoom does. At the end of a block it warns of what remains. It
// refuses DDL in a READ ONLY transaction.
func (s *session) comesToParts(st *rewrite.Statement, at *block.Block) error {
	switch {
	case endsBlock(st.Tx.Verb):
		return s.tellStays(st)
	case st.Alters() && at.Status() == 'T' && at.ReadOnly():
		return refusesWrite(st, readOnly)
	}
	return nil
}

// demandHere returns what a text's statements need from the current transaction. at is the block's state before the
// text.
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

// follow adds a text's statements to the open part. If the text ends a transaction, only what follows counts. A BEGIN
// also includes earlier statements of its pipeline. at is the block's state before the text.
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

// takesIn reports whether a text can be in the open part.
func (p *parts) takesIn(want rewrite.Demand) bool {
	return !(want.DDL && (p.open.DDL || p.open.Rows)) && !(want.Rows && p.open.DDL)
}

// takes adds a text to the open part, even if it fails later: a failed block commits no further part. mayWrite: the
// text looks like a read, but functions or views may change rows. It may be in one transaction with DDL nonetheless.
func (p *parts) takes(want rewrite.Demand, sql string, mayWrite bool) {
	p.open = p.open.And(want)
	switch {
	case want.DDL || want.Rows || want.Sets:
		p.lists.Add(sql)
	case mayWrite:
		p.lists.AddRead(sql)
	}
}

// listed returns the open part's statements that may have changed something. If reads is set, statements that look like
// reads have changed nothing (purity.readLast).
func (p *parts) listed(reads bool) listing.Statements {
	if reads {
		return p.lists.WithoutReads()
	}
	return p.lists
}

// tellStays warns the client at a rollback that earlier parts remain committed.
func (s *session) tellStays(st *rewrite.Statement) error {
	rollsBack := st.Tx.Verb == rewrite.Rollback || s.status() == 'E'
	if stays := &s.parts.stays; rollsBack && !stays.Empty() {
		return s.tell(warnStays(stays).AppendNotice(nil, "WARNING"))
	}
	return nil
}

// staysWhole reports whether the block cannot be committed in parts. Either its modes would not survive Sluice's own
// BEGIN, or Sluice has not seen its BEGIN.
func (s *session) staysWhole() bool {
	at := s.position()
	m := at.Modes()
	return !at.Known() || m.Access == block.ReadOnly || m.Deferrable || m.Snapshot || m.Isolation == rewrite.Serializable
}

// mayLeave returns an error if an early commit would do more than the client asked for.
func (s *session) mayLeave() error {
	switch p := s.parts; {
	case p.open.Drops && p.how != rewrite.CommitDrops:
		lists := p.listed(s.srv.purity.readLast())
		return errDropsEarly(&lists)
	case p.open.Local:
		return errLocalInParts
	}
	return nil
}

// commitPart commits the open part and begins the block again. The error is for the client, whose block has then
// failed, or ends the session.
func (s *session) commitPart() error {
	if s.t.touched {
		return errPartInPipeline
	}
	if err := s.mayLeave(); err != nil {
		return err
	}
	lists, fresh := s.parts.listed(s.srv.purity.readLast()), s.freshNames()
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

// tellPart counts an early commit and warns the client that the statements in l are committed.
func (s *session) tellPart(l *listing.Statements) error {
	s.srv.metrics.EarlyCommit()
	return s.tell(warnPart(l).AppendNotice(nil, "WARNING"))
}

// leaveBlock commits the open part. If the result has an error, the part is not committed, or the outcome is unknown
// (08007).
func (s *session) leaveBlock() (feature.Result, error) {
	p := s.parts
	p.keepNames(s.tx.log.Names())
	optedOut := s.tx.optedOut
	p.by = s.choices()
	left, err := s.commitTimed()
	if err == nil && s.b != nil && s.b.status != 'I' { // the COMMIT was skipped
		_, err = s.command("ROLLBACK", silent.Rollback) // if it fails, so does beginAnew
	}
	if err == nil && left.Err == nil {
		p.stays.Join(p.listed(s.srv.purity.readLast()))
	}
	p.open, p.lists, p.optedOut = rewrite.Demand{}, listing.Statements{}, optedOut
	return left, err
}

// beginAnew begins the block again after leaveBlock. If the COMMIT failed, it does so too: the client's error then
// fails that block. If the session's own backend is gone or BEGIN fails, the session ends, since its client expects a
// block.
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

// errNotBegun ends the session if the block could not begin again after an early commit.
func errNotBegun(why *wire.Error) *wire.Error {
	return &wire.Error{Fatal: true, Code: why.Code, Message: "the transaction could not be begun again behind the part that is committed: " + why.Message, Detail: why.Detail, Hint: why.Hint}
}
