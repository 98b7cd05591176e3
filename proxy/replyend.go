package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file records a statement's effects on the session, the schema and the transaction, once the server has answered.

// handleStatementEnd handles a server's frame, of meaning a, that ends a statement of the pending reply o. v says
// whether the client gets the frame, and now is the new decision. stays means that o stays in the queue of replies.
func (s *session) handleStatementEnd(o *pendingReply, a answer.Meaning, typ byte, frame []byte, v frameVerdict) (now frameVerdict, stays bool, err error) {
	t := s.t
	if a == answer.CompletesOne && s.t.isSurplusTag(o) {
		return v, true, s.unexpectedFrameError(typ)
	}
	if s.recordCompletion(o, typ, frame); s.tx.job.IsOpen() {
		if v, err = s.delayTag(v, frame); err != nil {
			return v, true, err
		}
	}
	if a == answer.Completes {
		return v, false, nil
	}
	t.server.statement++
	return t.server.internalTx.verdictForTag(o, t.server.statement, frame, v), true, nil
}

// isSurplusTag reports whether each statement of the pending reply o has its CommandComplete. Another one is a fault.
func (t *turn) isSurplusTag(o *pendingReply) bool {
	return o.plan != nil && o.plan.Kind != rewrite.Unknown && t.server.statement >= max(1, len(o.plan.Statements))
}

// lacksTags reports whether a statement of o, the pending reply to a simple Query, has no command tag yet. A
// ReadyForQuery without an error would then be a fault of the server.
func (t *turn) lacksTags(o *pendingReply) bool {
	return o.kind == wire.Query && o.plan != nil && o.plan.Kind != rewrite.Unknown && !t.server.outcome.IsConcluded()
}

// recordCompletion records the effects of a statement that has ended, or whose portal the server has suspended. If o
// has no plan, it belongs to a finished turn of a replay, whose effects are already recorded.
func (s *session) recordCompletion(o *pendingReply, typ byte, frame []byte) {
	if o.plan == nil {
		return
	}
	var tag []byte
	if typ == wire.CommandComplete {
		tag = frame[wire.HeaderLen : len(frame)-1]
	}
	if o.plan.Kind == rewrite.Unknown {
		s.t.forbidReplayOfUnparsed()
	}
	if s.tx.pin.EndsReplay(o.plan) {
		s.tx.log.RefuseReplay(retry.Pinned)
	}
	st := s.t.answeredStatement(o, o.plan)
	if st != nil {
		s.stageUnseenSettings(st)
	}
	s.recordStatementEnd(o, tag)
	if tag != nil {
		if st != nil {
			s.recordOperation(o.plan, st, tag)
		}
		if s.tx.pin.TagEndsReplay(tag) {
			s.tx.log.RefuseReplay(retry.Pinned)
		}
		s.trackSavepointTag(tag)
	}
	switch {
	case needsRunObservers(o.plan): // not for plain reads and single writes, which are most statements
		s.srv.observers.ran.notify(s, o, st, tag)
	case o.plan.Kind == rewrite.Write:
		s.srv.observers.ranWrites.notify(s, o, st, tag)
	}
}

// recordStatementEnd records that the server has answered a statement. If it ended a transaction, the client's request
// may continue in another transaction. The replay log covers only the first transaction, so it then refuses a replay.
func (s *session) recordStatementEnd(o *pendingReply, tag []byte) {
	t := s.t
	var did block.TxEffect
	if o.kind == wire.Query {
		did = t.server.outcome.RecordTag(o.plan, t.server.statement, tag)
	} else {
		did = t.server.outcome.RecordExecuted(o.plan, s.mayAutocommit(), tag)
	}
	if did == block.GoesOn {
		return
	}
	if t.rec.logs {
		s.tx.log.RefuseReplay(retry.InnerCommit)
	}
	if o.kind == wire.Query {
		closePortals(s) // for an Execute, Sluice closed the portals when it sent the frame
	}
	s.srv.observers.notifyEnded(s, did == block.Commits)
}

// endsBlockOnError reports whether the statement of o ends its block even if the statement fails, as a COMMIT does.
func (t *turn) endsBlockOnError(o *pendingReply) bool {
	if o.plan == nil || o.kind != wire.Execute && o.kind != wire.Query {
		return false
	}
	st := t.answeredStatement(o, o.plan)
	return st != nil && (st.Tx.Verb == rewrite.Commit || st.Tx.Verb == rewrite.PrepareTransaction)
}

// answeredStatement returns the statement of plan that the server is answering, or nil if Sluice does not know it. In a
// multi-statement query the number of CommandComplete frames so far identifies the statement.
func (t *turn) answeredStatement(o *pendingReply, plan *rewrite.Plan) *rewrite.Statement {
	i := 0
	if o.kind == wire.Query {
		i = t.server.statement
	}
	if i >= len(plan.Statements) {
		return nil
	}
	return &plan.Statements[i]
}
