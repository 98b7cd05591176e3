package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/advisory"
	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// What a session that holds advisory locks may send, and what goes with it.
//
// In front of every statement that writes go two queries (advisory.Fence), in the same transaction:
// one reads the rows of the locks FOR KEY SHARE, and one fails where they are gone. They go as
// frames of the extended protocol without a Sync, which the log of the transaction has too. Whoever
// takes a lock over deletes its row: so either the transaction or the takeover fails at COMMIT. A
// transaction that is run again begins with the fence again, which fails if the lock is gone.
//
// Nothing conflicts with DDL. In front of it, of each of Sluice's own statements, and of the end
// of a transaction that has DDL, others are promised a longer lease (sessionLocks.promise).
//
// A text that nobody has read may be either, and is refused; so is a string of several
// transactions, of which the fence would hold for the first only.
//
// Reads go as they are, and so does all in a transaction that is READ ONLY: what is read
// commits nothing. So a session that has lost a lock may read on
// until its Sluice has noticed, which takes a third of a lease at the most.
//
// What remains is a process that is stopped behind the look at its clock and in front of the first
// byte of DDL, for longer than both leases together, and a network that delivers DDL that late.

// fencePortal is the portal of the fence. Names that begin so are no client's.
const fencePortal = rewrite.RelayName + "fence"

var (
	errHeldUnread = &wire.Error{Code: retry.StateUnsupported, Message: "a statement that Sluice cannot read is not run under an advisory lock",
		Detail: "It may be DDL or a write, which are guarded in different ways (" + rewrite.AdvisoryKey + ").", Hint: "Send it in a session that holds no advisory lock."}
	errHeldString = &wire.Error{Code: retry.StateUnsupported, Message: "a string of several transactions that write is not run under an advisory lock",
		Detail: "Each transaction of a session that holds one is checked against the lock (" + rewrite.AdvisoryKey + ").",
		Hint:   "Send BEGIN and COMMIT by themselves."}
	errHeldCursor = &wire.Error{Code: retry.StateUnsupported, Message: "behind a write outside of a block no cursor is used by a simple Query in the same request, under an advisory lock",
		Detail: "Sluice runs such a write between BEGIN and COMMIT of its own, and the cursor's answer would come before the outcome of the write is known.", Hint: "Send a Sync behind the write."}
	errHeldGroup = &wire.Error{Code: retry.StateUnsupported, Message: "behind a write outside of a block nothing opens or ends one in the same request, under an advisory lock",
		Detail: "Sluice runs such a write between BEGIN and COMMIT of its own, to check it against the lock (" + rewrite.AdvisoryKey + ").", Hint: "Send a Sync behind the write."}
)

// holdsLocks reports whether the session holds advisory locks, as its client believes: one that is
// given up in the middle of DDL, and is still there, is none.
func (s *session) holdsLocks() bool { return s.advisory != nil && len(s.advisory.times) > 0 }

// locksLost reports whether one of them is another's: the goroutine that renews them has found so,
// or a fence.
func (s *session) locksLost() bool { return s.advisory != nil && s.advisory.lost.Load() }

// locksDDL reports whether a transaction is open that has DDL, under a lock: what it does takes hold
// at its end, which may be sent much later, by a client that thinks in between. Outside of a block
// that is the Sync of a group.
func (s *session) locksDDL() bool {
	if !s.holdsLocks() {
		return false
	}
	ddl, _ := s.advisory.runsDDL()
	return ddl
}

// underLock is called in front of a text of that plan: an error is for the client, who must not
// have it run. DDL is promised to others, and so is the end of a transaction that has some, since
// what it does takes hold then. In a failed block nothing is looked at: the server refuses what
// does not end it.
func (s *session) underLock(plan *rewrite.Plan) error {
	if !s.holdsLocks() || s.status() == 'E' && !goesOnBehind(plan) {
		return nil
	}
	if s.advisory.lost.Load() {
		return errLockLost
	}
	ddl := s.locksDDL()
	switch {
	case s.t.ownTx.on && controls(plan):
		return errHeldGroup
	case plan.Kind == rewrite.Unknown:
		return errHeldUnread
	case plan.Kind == rewrite.DDL, ddl && plan.Kind > rewrite.Read:
		return s.promiseDDL()
	case plan.Kind == rewrite.Write && len(plan.Statements) > 1 && controls(plan):
		return errHeldString
	}
	return nil
}

// readyFor has a backend that a portal of that plan may be run on. What it needs of the session's
// locks is looked at again: it may have been bound long ago.
func (s *session) readyFor(plan *rewrite.Plan) error {
	if err := s.ensureBackend(); err != nil {
		return err
	}
	return s.underLock(plan)
}

// promiseDDL has the leases be long enough for DDL that is sent now. A session without locks
// promises nothing. Where the promise was made a moment ago, for the statement before, the server
// is not asked again. An error is for the client: the statement was not sent. The turn may have a
// backend that answers meanwhile, which is read behind it.
func (s *session) promiseDDL() error {
	if !s.holdsLocks() {
		return nil
	}
	tick := s.tick.Load()
	ctx, over := s.wait(lockMoment(), lookInLineEvery)
	ok, err := s.advisory.promise(ctx)
	ended := s.waited(ctx)
	over()
	if tick&1 == 0 {
		s.tick.Store((tick | 1) + 1)
	}
	switch {
	case ok:
		return nil
	case s.advisory.lost.Load():
		return errLockLost
	}
	if ended != nil && ended != errWaitedEnough {
		return ended
	}
	told := &wire.Error{Code: "53300", Message: "the lease of an advisory lock could not be made longer, and the statement was not sent",
		Hint: "Retry. It takes a second connection to the cluster, beside that of the session."}
	if err != nil {
		told.Detail = err.Error()
	}
	return told
}

// goesOnBehind reports whether a text that is sent in a failed block may do something: it ends the block
// and has more behind that, or nobody has read it.
func goesOnBehind(plan *rewrite.Plan) bool {
	return plan.Kind == rewrite.Unknown || len(plan.Statements) > 1 && endsBlock(plan.Statements[0].Tx.Verb)
}

// fenced puts the fence in front of a text of that plan, where it may write. The backend is lent. It
// is put in front of every such text, not only of the first of a transaction: where transactions
// begin and end in the middle of a group, nobody has to follow that. The server is asked for no
// round trip by it, and the session none that the text itself does not make.
func (s *session) fenced(plan *rewrite.Plan) error {
	if !s.holdsLocks() || s.b.status == 'E' && !goesOnBehind(plan) {
		return nil
	}
	// What only may write goes without one where the server keeps the transaction to reading: it would refuse
	// the fence.
	if s.keptToReading() {
		return nil
	}
	switch {
	case plan.Kind >= rewrite.Write:
	case s.inBlock() && !s.srv.reads():
		plan = plan.AsWrite()
	default: // a string with settings or ends of transactions may hold a read that writes
		var err error
		if plan, err = s.judged(plan); err != nil {
			return err
		}
	}
	if plan.Kind != rewrite.Write {
		return nil
	}
	if len(plan.Statements) > 1 && controls(plan) {
		return errHeldString
	}
	l := s.advisory
	if len(l.fence) == 0 || l.fence[0].parsing != s.parsing() {
		held, _ := l.holders()
		l.fence = l.fence[:0]
		for _, query := range append([]string{"BEGIN"}, advisory.Fence(held)...) {
			sql := []byte(query)
			tmpl := s.srv.newTemplate(sql, wire.NoOIDs, s.srv.planner.Plan(sql), s.parsing())
			tmpl.own = true
			l.fence = append(l.fence, tmpl)
		}
	}
	s.t.fenced, l.fencing = true, true
	if !s.inBlock() && !s.t.ownTx.on {
		s.openOwn(l.fence[0])
	}
	for i, tmpl := range l.fence[1:] {
		of := reply(expectSelect)
		if i%2 == 1 {
			of = fenceChecks{expectSelect}
		}
		s.sendOwn(tmpl, logEntry{plan: fencePlan, silent: true, own: of})
	}
	return nil
}

// admitAgain is underLock and fenced for a plan that takes the place of the one that was admitted: it may be of
// another kind. The backend is lent, and has been sent nothing of the text. Errors are those of both.
func (s *session) admitAgain(plan *rewrite.Plan) error {
	if err := s.underLock(plan); err != nil {
		return err
	}
	return s.fenced(plan)
}

// controls reports whether a text has a statement that opens or ends a block, or is about one.
func controls(plan *rewrite.Plan) bool {
	return plan.Any(func(st *rewrite.Statement) bool { return st.Tx.Verb != rewrite.NoVerb })
}

// fencePlan is that of the fence, which is nothing to the outcome of the client's transaction: it
// changes no row, and stands in front of what does.
var fencePlan = &rewrite.Plan{Kind: rewrite.Read}

// sendOwn sends one query of the fence, or the BEGIN in front of it, by a portal with a name: the
// unnamed one may be the client's. It is closed at once, since the next fence of the transaction
// needs the name. Its answers are for nobody; the error of a fence that checks is told as
// errLockLost. run is the log's entry of its Execute.
func (s *session) sendOwn(tmpl *template, run logEntry) {
	st := s.prepare(tmpl, false)
	params := []byte{0, 0, 0, 0, 0, 0}
	if s.t.logs && s.tx.log.Sent(wire.Bind, logEntry{tmpl: tmpl, names: s.mapped.planned, name: fencePortal, silent: true, fence: true}, len(params)) {
		s.tx.log.Write(params)
	}
	o := s.t.owed.push(wire.Bind)
	o.tmpl, o.swallow = tmpl, true
	s.t.scratch = append(appendBindHead(s.t.scratch[:0], []byte(fencePortal), st.name, len(params)), params...)
	s.add(s.t.scratch)

	frame := wire.AppendHeader(nil, wire.Execute, len(fencePortal)+1+4)
	frame = append(append(frame, fencePortal...), 0, 0, 0, 0, 0)
	s.logFrame(wire.Execute, run, frame[wire.HeaderLen:])
	o = s.t.owed.push(wire.Execute)
	o.swallow, o.reply = true, run.own
	s.add(frame)

	end := wire.AppendNamed(nil, wire.Close, 'P', fencePortal)
	s.logFrame(wire.Close, logEntry{silent: true}, end[wire.HeaderLen:])
	s.t.owed.push(wire.Close).swallow = true
	s.add(end)
}

// fenceRow reports whether a row that comes now is one of a fence, or answers askTime: no row that a client is
// told belongs to a frame whose answer is swallowed.
func (t *turn) fenceRow() bool { return t.fenced && !t.owed.empty() && t.owed.first().swallow }

// fenceChecks is the answer to a query of the fence that checks the session's locks.
type fenceChecks struct{ *expected }

// fails has the client get an error of its own where the server's says that a lock is gone. The fence divides
// by nothing else: whatever other error it has (a conflict, a table that was dropped) is what it is.
func (fenceChecks) fails(s *session, _ *owed, payload []byte) *answer.Error {
	if string(retry.Field(payload, 'C')) != advisory.FenceCode {
		return nil
	}
	s.advisory.lose()
	return &answer.Error{Instead: s.partlyRefused(errLockLost).Append(nil), Final: true}
}

// mayRunAgain reports whether a transaction of a session with locks may be run again: its locks
// are its own, and others know of the DDL in it, for which the promise is made anew: pauses lie
// between two attempts. A transaction without DDL is judged by its fence.
func (s *session) mayRunAgain() bool {
	if !s.holdsLocks() {
		return true
	}
	if !s.locksDDL() {
		return !s.locksLost()
	}
	return s.promiseDDL() == nil
}
