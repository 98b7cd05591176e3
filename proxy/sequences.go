package proxy

import (
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/question"
	"github.com/sluice-proxy/sluice/proxy/sequence"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// currval and lastval return what the server's session has drawn: on a backend that serves several clients, a number of
// another client. The server gets them only if all numbers of the backend are the session's own, or if the server
// says that the session's transaction has drawn what is asked for. Else they fail as in a session that has drawn
// nothing. Package sequence decides; this file asks the server.

// askSequence decides whether a text may ask its backend for numbers drawn before; nil: it may. The error is
// PostgreSQL's, with a hint: the session's next transaction has a backend of its own.
func (s *session) askSequence(plan *rewrite.Plan) error {
	s.srv.watched.Store(true) // from now on others' numbers are discarded before a transaction
	if s.dedicated || s.sequences.Believes(s.id, &s.b.sequences) {
		return nil
	}
	if s.b.status == 'E' && !revives(plan) {
		return nil // the server refuses it
	}
	if own, err := s.provesOwnership(); own || err != nil {
		return err
	}
	s.sequences.WantOwn()
	return &wire.Error{Code: "55000", Message: plan.Sequence + " is not yet defined in this session",
		Detail: "Its transactions share backends with other sessions, whose numbers it must not see.",
		Hint:   "Have the number returned: INSERT ... RETURNING, or SELECT nextval(...). From its next transaction on this session keeps a backend of its own, where it can ask."}
}

// revives reports whether a text may end a failed block, in whole or in part.
func revives(plan *rewrite.Plan) bool {
	return plan.Any(func(st *rewrite.Statement) bool { return st.Kind == rewrite.Control })
}

// sequencesAttached has the server discard the numbers of others at an idle backend, before a transaction of the
// session. A server that refuses is asked again when its answer is old, and one that cannot now after a pause
// (question.Sequences). The error is a lost backend.
func sequencesAttached(s *session) error {
	pace := &s.srv.sequences
	if !s.sequences.Others(s.id, &s.b.sequences) || !pace.Due(time.Now()) {
		return nil
	}
	for range mostCatalogTries {
		refusal, err := s.b.exchange(wire.AppendStrings(nil, wire.Query, "DISCARD SEQUENCES"))
		switch fault := faultOf(refusal); {
		case err != nil:
			return err
		case refusal == nil:
			s.b.sequences.Cleared()
			return nil
		case fault == question.Refusal:
			pace.Answered(time.Now(), question.Age)
			return nil
		case fault != question.Conflict:
			pace.Failed(time.Now())
			return nil
		}
	}
	pace.Failed(time.Now())
	return nil
}

// discardHere records a DISCARD of the client that Sluice answers itself.
func (s *session) discardHere() {
	if s.b == nil {
		s.sequences.Discard(sequence.Here, nil)
		return
	}
	s.sequences.Discard(sequence.Here, &s.b.sequences)
}

// sequencesRan records what a statement that the server has run says about the numbers that the session has drawn.
func sequencesRan(s *session, o *owed, st *rewrite.Statement, tag []byte) {
	if h := &s.b.sequences.History; o.kind == wire.Query {
		h.RanQuery(st, s.t.statement, tag)
	} else {
		h.RanPrepared(st, o.text, tag)
	}
	if string(tag) != "DISCARD SEQUENCES" && string(tag) != "DISCARD ALL" {
		return
	}
	place := sequence.AtServer
	if len(o.plan.Statements) > 1 || o.kind == wire.Execute && (!s.t.ended || s.t.owed.len() > 2) {
		place = sequence.AmidOthers
	}
	s.sequences.Discard(place, &s.b.sequences)
}

// releasePinned gives up the backend that the session keeps, where the server cannot discard what the session has left
// there. The session's next transaction is on another one, and the session does not end, as after losePin. The caller
// moves the session.
func (s *session) releasePinned() {
	if s.pinned {
		s.srv.pinned.Add(-1)
	}
	s.pinned, s.found = false, false
	s.sequences.ClearOwn()
	s.dropBackend(reservoir.Pinned)
}

// acquireForSequences dials a new backend, and keeps it, for a session that asked for its numbers
// in vain. nil: there is none, and the session shares one again. Such a backend counts as a pin.
func (s *session) acquireForSequences() *reservoir.Conn {
	if !s.sequences.WantsOwn() || s.pinned || !s.srv.takePin() {
		return nil
	}
	ctx, stop := s.wait(time.Time{}, lookInLineEvery) // whatever ends it is heeded by what comes next
	defer stop()
	conn, err := s.srv.backends.DialDedicated(ctx, reservoir.Startup{Database: s.srv.cfg.Database})
	if err != nil {
		s.srv.pinned.Add(-1)
		return nil
	}
	s.pinned = true
	s.sequences.GotOwn()
	s.srv.metrics.Pinned(metrics.PinSequence)
	s.srv.log.Info("session keeps its backend", append(s.logAttrs(), "reason", metrics.PinSequence)...)
	return conn
}

// mayProve reports whether the server may be asked whose numbers it has: in a block on a lent backend, and not while a
// writer has it.
func (s *session) mayProve() bool {
	return s.b != nil && s.state != failed && !s.sequences.Owns(s.id, &s.b.sequences) && s.inBlock() && s.t.uplink == nil
}

// ownName names the statement and the portal of that question, and the portal of restoreInGroup. They are closed after
// each use.
const ownName = "sluice_own"

// provesOwnership asks the server whether the statements of the session's block have drawn all that the current text
// asks for. The question is one round trip while no reply is owed; if it cannot be asked the answer is false. An error
// is for the client if a conflict or a cancel has ended the block; else the backend is lost.
func (s *session) provesOwnership() (bool, error) {
	if s.t.asks == "" || !s.mayProve() || !s.t.owed.empty() {
		return false, nil
	}
	sql := s.srv.planner.OwnNumbers(s.t.asks, s.b.sequences.History.Runs())
	if sql == "" {
		return false, nil
	}
	if err := s.flushUp(); err != nil {
		return false, err
	}
	ask := wire.AppendNamed(nil, wire.Close, 'S', ownName) // one that failed may have left it
	ask = wire.AppendParse(ask, ownName, sql, wire.NoOIDs)
	ask = append(appendBindHead(ask, []byte(ownName), ownName, 6), 0, 0, 0, 0, 0, 0)
	ask = append(append(wire.AppendHeader(ask, wire.Execute, len(ownName)+1+4), ownName...), 0, 0, 0, 0, 0)
	ask = wire.AppendNamed(ask, wire.Close, 'P', ownName)
	ask = wire.AppendNamed(ask, wire.Close, 'S', ownName)
	own := false
	refusal, err := s.b.exchangeRows(append(ask, wire.FrameSync...), func(row []byte) {
		columns := columnsOf(row)
		own = len(columns) == 1 && columns[0] == "t"
	})
	s.alarmRead()
	switch {
	case err != nil:
		if s.tx.log != nil {
			s.tx.log.Refuse(retry.Pinned) // the log knows nothing of the statement at hand
		}
		return false, &lostError{err: err}
	case refusal == nil:
		return own, nil
	}
	switch code := string(retry.Field(refusal, 'C')); code[:min(2, len(code))] {
	case "40", "57":
		return false, &wire.Error{Code: code, Message: string(retry.Field(refusal, 'M')), Detail: string(retry.Field(refusal, 'D'))}
	}
	return false, nil
}
