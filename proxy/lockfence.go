package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/advisory"
	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/ddltx"
	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file decides what a session that holds advisory locks may send, and guards each of its transactions.
//
// A fence precedes each write, in the same transaction (advisory.FenceQueries). Its first query reads the rows of the
// locks FOR KEY SHARE, and its second fails if a row is gone. Both are frames of the extended protocol without a Sync,
// and are in the transaction's log. A session that takes a lock over deletes the row, so that either its own COMMIT or
// the writer's COMMIT fails. A replay starts with the fence, which fails if the lock is gone.
//
// A fence does not protect DDL, since nothing conflicts with DDL. Sluice therefore renews the locks with a longer lease
// before DDL, and before the end of a transaction with DDL (locktable.Held.ExtendForDDL).
//
// Package advisory decides which queries such a session may send (advisory.Situation).
//
// Reads and READ ONLY transactions need no fence, since they commit nothing. A session that has lost a lock may
// therefore read until its Sluice notices, after a third of a lease at most.
//
// Two risks remain for DDL. The process may stop between its check of the clock and the first byte of DDL, for longer
// than both leases together. The network may deliver DDL that late.

// fencePortal is the portal of the queries that check advisory locks. Clients cannot use names with this prefix.
const fencePortal = rewrite.RelayName + "fence"

// lockLosses are the errors of a session that has lost an advisory lock.
var lockLosses = &lossErrors{statement: advisory.ErrLost, session: advisory.ErrGone}

// lockLoss returns lockLosses if another session has taken over one of the session's advisory locks, as a renewal or a
// check before a write has found. Otherwise it returns nil.
func lockLoss(s *session) *lossErrors {
	if s.advisory != nil && s.advisory.IsLost() {
		return lockLosses
	}
	return nil
}

// checkLocksBefore checks the session's advisory locks before a query with the given plan is sent. After an error,
// which goes to the client, Sluice must not run the query. Before DDL checkLocksBefore extends the locks' leases.
func checkLocksBefore(s *session, plan *rewrite.Plan) error {
	l := s.heldLocks()
	if !l.HoldsAny() {
		return nil
	}
	at := advisory.Situation{Lost: l.IsLost(), DDL: l.HasDDL(), FailedBlock: s.txStatus() == 'E', InternalBlock: s.t.server.internalTx.on}
	switch extend, refused := at.Check(plan); {
	case refused != nil:
		return refused
	case extend:
		return extendLeasesForDDL(s)
	}
	return nil
}

// extendLeasesForDDL extends the leases of the session's advisory locks for DDL that is sent next. It asks the server
// only if the last extension is not recent. After an error, which goes to the client, Sluice must not send the
// statement. While it waits, the session reads no answers of the turn's backend.
func extendLeasesForDDL(s *session) error {
	if !s.heldLocks().HoldsAny() {
		return nil
	}
	tick := s.waits.Tick()
	ctx, over := s.waitContext(leaseExtensionDeadline(), lookInLineEvery)
	ok, err := s.advisory.ExtendForDDL(ctx)
	ended := s.waits.Error(ctx)
	over()
	s.waits.EndSince(tick)
	switch {
	case ok:
		return nil
	case s.advisory.IsLost():
		return advisory.ErrLost
	}
	if ended != nil && ended != interrupt.ErrLimit {
		return ended
	}
	told := &wire.Error{Code: "53300", Message: "the lease of an advisory lock could not be made longer, and the statement was not sent",
		Hint: "Retry. It takes a second connection to the cluster, beside that of the session."}
	if err != nil {
		told.Detail = err.Error()
	}
	return told
}

// sendFenceBefore sends the fence, queries that check the session's advisory locks, before a query that may write.
// The session must have its backend. Later queries get a fence too, since Sluice does not track where transactions
// begin between two Syncs. The fence adds no round trip.
func sendFenceBefore(s *session, plan *rewrite.Plan) error {
	if !s.heldLocks().HoldsAny() || s.b.status == 'E' && !advisory.HasEffectInFailedBlock(plan) {
		return nil
	}
	// In a READ ONLY transaction Sluice sends no check: the server refuses its FOR KEY SHARE, and all writes too.
	if s.isInReadOnlyBlock() {
		return nil
	}
	switch {
	case plan.Kind >= rewrite.Write:
	case s.inBlock() && !s.srv.pool.readsArePure():
		plan = plan.AsWrite()
	default: // a multi-statement query may have a read that writes, beside SET or COMMIT
		var err error
		if plan, err = s.classifyRead(plan); err != nil {
			return err
		}
	}
	if plan.Kind != rewrite.Write {
		return nil
	}
	if len(plan.Statements) > 1 && advisory.HasTxControl(plan) {
		return advisory.ErrSeveralWrites
	}
	l := s.advisory
	if len(l.fence) == 0 || l.fence[0].Parsing != s.parsingKey() || l.fenceOf != l.Changes() {
		held, _ := l.CopyHolders()
		l.fence, l.fenceOf = l.fence[:0], l.Changes()
		for _, query := range append([]string{"BEGIN"}, advisory.FenceQueries(held)...) {
			sql := []byte(query)
			tmpl := s.srv.pool.templates.New(sql, wire.NoOIDs, s.srv.pool.planner.Plan(sql), s.parsingKey())
			tmpl.Unshared = true
			l.fence = append(l.fence, tmpl)
		}
	}
	s.t.output.fenced = true
	l.RecordFence()
	if !s.inBlock() && !s.t.server.internalTx.on {
		s.beginInternalBlock(l.fence[0])
	}
	for i, tmpl := range l.fence[1:] {
		of := replyHandler(expectSelect)
		if i%2 == 1 {
			of = fenceCheckReply{expectSelect}
		}
		s.sendFenceQuery(tmpl, logEntry{plan: fencePlan, silent: true, own: of})
	}
	return nil
}

// fencePlan is the plan of queries that check advisory locks. A Read does not affect the transaction's outcome.
var fencePlan = &rewrite.Plan{Kind: rewrite.Read}

// sendFenceQuery sends one query that checks the session's advisory locks, or the BEGIN before it, by a named
// portal. The client may use the unnamed portal. Sluice closes the named one at once, since the next check needs it.
// The client sees no answers, but gets advisory.ErrLost if the check fails. run is the log entry of the Execute.
func (s *session) sendFenceQuery(tmpl *statement.Template, run logEntry) {
	st := s.prepareOnBackend(tmpl, false)
	params := []byte{0, 0, 0, 0, 0, 0}
	if s.t.rec.logs && s.tx.log.RecordFrame(wire.Bind, logEntry{tmpl: tmpl, names: s.mapped.Planned(), name: fencePortal, silent: true, fence: true}, len(params), 0) {
		s.tx.log.AppendPayload(params)
	}
	o := s.t.owed.push(wire.Bind)
	o.tmpl, o.swallow = tmpl, true
	s.t.scratch = append(wire.AppendBindHead(s.t.scratch[:0], []byte(fencePortal), st.Name, len(params)), params...)
	s.t.addToBatch(s.t.scratch)

	frame := wire.AppendHeader(nil, wire.Execute, len(fencePortal)+1+4)
	frame = append(append(frame, fencePortal...), 0, 0, 0, 0, 0)
	s.t.rec.logFrame(wire.Execute, run, frame[wire.HeaderLen:])
	o = s.t.owed.push(wire.Execute)
	o.swallow, o.reply = true, run.own
	s.t.addToBatch(frame)

	end := wire.AppendDescribeOrClose(nil, wire.Close, 'P', fencePortal)
	s.t.rec.logFrame(wire.Close, logEntry{silent: true}, end[wire.HeaderLen:])
	s.t.owed.push(wire.Close).swallow = true
	s.t.addToBatch(end)
}

// isFenceRow reports whether the next row answers a lock check or Sluice's query for the transaction's time
// (queryTxTime). Sluice reads such rows, and the client does not get them.
func (t *turn) isFenceRow() bool { return t.output.fenced && !t.owed.empty() && t.owed.first().swallow }

// fenceCheckReply handles the server's answer to the query that checks the session's advisory locks.
type fenceCheckReply struct{ *expectedTagReply }

// replaceError replaces a division by zero, by which the check reports a lost lock, by advisory.ErrLost. The client
// gets all other errors, such as conflicts, unchanged.
func (fenceCheckReply) replaceError(s *session, _ *pendingReply, payload []byte) *answer.ErrorHandling {
	if string(retry.ErrorField(payload, 'C')) != advisory.FenceCode {
		return nil
	}
	s.advisory.MarkLost()
	return &answer.ErrorHandling{Instead: ddltx.ReplaceConflict(advisory.ErrLost, s.committedStatements()).Append(nil), Final: true}
}

// extendLeasesAtSync extends the leases of the session's advisory locks before the Sync of a group with DDL.
func extendLeasesAtSync(s *session) error {
	if !s.heldLocks().HasDDL() {
		return nil
	}
	return extendLeasesForDDL(s)
}

// lockReplayReason returns retry.Pinned if the session has lost an advisory lock, and otherwise retry.Replayable. For a
// transaction with DDL Sluice extends the leases again, since pauses lie between attempts. A replay of any other
// transaction repeats its lock checks.
func lockReplayReason(s *session) retry.RefusalReason {
	l := s.heldLocks()
	if l.HasDDL() && extendLeasesForDDL(s) != nil || !l.HasDDL() && l.HoldsAny() && l.IsLost() {
		return retry.Pinned
	}
	return retry.Replayable
}
