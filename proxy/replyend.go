package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// The end of a statement that the server has answered: its effects on the session, the schema and the transaction are
// recorded. answered (reply.go) calls statementEnds.

// statementEnds handles the frame that ends a statement of o; a says whether more statements may follow. v is the
// verdict so far, now the new one. stays means that the caller must not remove o.
func (s *session) statementEnds(o *owed, a answer.Meaning, typ byte, frame []byte, v verdict) (now verdict, stays bool, err error) {
	t := s.t
	if a == answer.CompletesOne && s.tagTooMany(o) {
		return v, true, s.desync(typ)
	}
	if s.completed(o, typ, frame); s.tx.job.Open() {
		if v, err = s.holdsTag(v, frame); err != nil {
			return v, true, err
		}
	}
	if a == answer.Completes {
		return v, false, nil
	}
	t.statement++
	return t.ownTx.withheld(o, t.statement, frame, v), true, nil
}

// tagTooMany reports whether every statement of o already has its CommandComplete.
func (s *session) tagTooMany(o *owed) bool {
	return o.plan != nil && o.plan.Kind != rewrite.Unknown && s.t.statement >= max(1, len(o.plan.Statements))
}

// endsUntagged reports whether a ReadyForQuery ends the simple Query o before its last CommandComplete and without an
// error.
func (s *session) endsUntagged(o *owed) bool {
	return o.kind == wire.Query && o.plan != nil && o.plan.Kind != rewrite.Unknown && !s.t.outcome.Concluded()
}

// completed records the effects of a statement that has ended, or whose portal was suspended. When a settled turn is
// replayed, its entries have no plan, because their effects are already recorded.
func (s *session) completed(o *owed, typ byte, frame []byte) {
	if o.plan == nil {
		return
	}
	var tag []byte
	if typ == wire.CommandComplete {
		tag = frame[wire.HeaderLen : len(frame)-1]
	}
	if o.plan.Kind == rewrite.Unknown {
		s.refuseUnread()
	}
	s.pinHolds(o.plan)
	st := s.statementOf(o, o.plan)
	if st != nil {
		s.noteCalls(st)
	}
	s.ended(o, tag)
	if tag != nil {
		if st != nil {
			s.noteOperation(o.plan, st, tag)
		}
		s.tagHolds(tag)
		s.noteTag(tag)
	}
	switch {
	case observed(o.plan): // plain reads and writes, which are most statements, have no observer
		s.srv.observers.ran(s, o, st, tag)
	case o.plan.Kind == rewrite.Write:
		sequencesRan(s, o, st, tag)
		indexJobRan(s, o, st, tag)
	}
}

// ended records that the server has answered a statement. If the statement ended a transaction, the request may go on
// in another one; the log covers only the first and is refused.
func (s *session) ended(o *owed, tag []byte) {
	t := s.t
	var did block.Ending
	if o.kind == wire.Query {
		did = t.outcome.Answered(o.plan, t.statement, tag)
	} else {
		did = t.outcome.Executed(o.plan, s.standsAlone(), tag)
	}
	if did == block.GoesOn {
		return
	}
	if t.logs {
		s.tx.log.Refuse(retry.InnerCommit)
	}
	if o.kind == wire.Query {
		s.closePortals() // an Execute closed the portals when it was sent
	}
	s.srv.observers.ended(s, did == block.Commits)
}

// endsAnyway reports whether o is for a statement that ends its block even if it fails, such as COMMIT.
func (s *session) endsAnyway(o *owed) bool {
	if o.plan == nil || o.kind != wire.Execute && o.kind != wire.Query {
		return false
	}
	st := s.statementOf(o, o.plan)
	return st != nil && (st.Tx.Verb == rewrite.Commit || st.Tx.Verb == rewrite.PrepareTransaction)
}

// statementOf returns the statement of plan that the server is answering, or nil if it is unknown. In a
// multi-statement query the CommandComplete frames are counted to find it.
func (s *session) statementOf(o *owed, plan *rewrite.Plan) *rewrite.Statement {
	i := 0
	if o.kind == wire.Query {
		i = s.t.statement
	}
	if i >= len(plan.Statements) {
		return nil
	}
	return &plan.Statements[i]
}
