package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// The end of a statement that the server has answered: what it did to the session, to the schema and to its
// transaction takes hold. answered (reply.go) calls statementEnds.

// statementEnds deals with the frame that ends a statement of o; a says whether more statements may follow. v is what has
// been decided of the frame. stays: the entry does, or is popped already.
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

// tagTooMany reports whether the tags of all statements of o have come already.
func (s *session) tagTooMany(o *owed) bool {
	return o.plan != nil && o.plan.Kind != rewrite.Unknown && s.t.statement >= max(1, len(o.plan.Statements))
}

// endsUntagged reports whether a ReadyForQuery ends a simple Query o that has neither all its tags nor an error.
func (s *session) endsUntagged(o *owed) bool {
	return o.kind == wire.Query && o.plan != nil && o.plan.Kind != rewrite.Unknown && !s.t.outcome.Concluded()
}

// completed is the end of one statement, or the suspension of its portal: what it did to the session takes hold. The
// entries of a settled turn that is run again have no plan: those statements have done to the session what they do.
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
	case observed(o.plan): // a plain read or write, which most are, meets no observer
		s.srv.observers.ran(s, o, st, tag)
	case o.plan.Kind == rewrite.Write:
		sequencesRan(s, o, st, tag)
		indexJobRan(s, o, st, tag)
	}
}

// ended records a statement that the server has answered. If it has ended a transaction, the request may go on in
// another one: the log, which is of the first, is refused.
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
		s.closePortals() // an Execute has closed them when it was sent
	}
	s.srv.observers.ended(s, did == block.Commits)
}

// endsAnyway reports whether o is being answered for a statement that ends a block even when it fails, as COMMIT does.
func (s *session) endsAnyway(o *owed) bool {
	if o.plan == nil || o.kind != wire.Execute && o.kind != wire.Query {
		return false
	}
	st := s.statementOf(o, o.plan)
	return st != nil && (st.Tx.Verb == rewrite.Commit || st.Tx.Verb == rewrite.PrepareTransaction)
}

// statementOf is the statement of plan that the head of the queue is being answered for;
// nil when nobody knows. Of a string the tags are counted.
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
