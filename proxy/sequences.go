package proxy

import (
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/question"
	"github.com/sluice-proxy/sluice/proxy/sequence"
	"github.com/sluice-proxy/sluice/proxy/serverfacts"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// currval and lastval return numbers of the server's session. On a shared backend these may be another client's
// numbers. So the server gets such a call in two cases only. Either all numbers of the backend are this session's, or
// the server confirms that the current transaction has drawn the number. Otherwise the call fails as in a session
// without numbers. Package sequence decides. This file queries the server.

// admitSequenceUse checks a plan with currval or lastval, since its backend may have another client's numbers. A plan
// that may advance a sequence is recorded before it runs, since even a failed statement uses a number up.
func admitSequenceUse(s *session, plan *rewrite.Plan) error {
	if plan.Sequence != "" {
		if err := s.checkSequenceCall(plan); err != nil {
			return err
		}
	}
	if plan.MayAdvanceSequence() {
		s.sequences.RecordUse(s.id, &s.b.sequences)
	}
	return nil
}

// checkSequenceCall returns nil if a text with currval or lastval may run on its backend, and otherwise PostgreSQL's
// error with a hint. After an error the session's next transaction gets a backend that no other session uses.
func (s *session) checkSequenceCall(plan *rewrite.Plan) error {
	s.srv.pool.watched.Store(true) // from now on Sluice discards other sessions' numbers before a transaction
	if s.dedicated || s.sequences.CanTrust(s.id, &s.b.sequences) {
		return nil
	}
	if s.b.status == 'E' && !plan.AnyStatement(func(st *rewrite.Statement) bool { return st.Kind == rewrite.Control }) { // the text does not end the failed block
		return nil // the server refuses the text
	}
	if own, err := s.provesOwnership(); own || err != nil {
		return err
	}
	s.sequences.RequestOwnBackend()
	return &wire.Error{Code: "55000", Message: plan.Sequence + " is not yet defined in this session",
		Detail: "Its transactions share backends with other sessions, whose numbers it must not see.",
		Hint:   "Have the number returned: INSERT ... RETURNING, or SELECT nextval(...). From its next transaction on this session keeps a backend of its own, where it can ask."}
}

// discardForeignSequences sends DISCARD SEQUENCES to an idle backend that has sequence numbers of other sessions,
// before a transaction. If the server refuses the statement, Sluice tries again after question.Age. After another
// failure it tries again after a pause. A returned error means a lost backend.
func discardForeignSequences(s *session) error {
	pace := &s.srv.pool.sequences
	if !s.sequences.HasForeignNumbers(s.id, &s.b.sequences) || !pace.IsDue(time.Now()) {
		return nil
	}
	for range mostCatalogTries {
		refusal, err := s.b.exchange(wire.AppendStrings(nil, wire.Query, "DISCARD SEQUENCES"))
		switch fault := serverfacts.FaultOf(refusal); {
		case err != nil:
			return err
		case refusal == nil:
			s.b.sequences.RecordCleared()
			return nil
		case fault == question.Refusal:
			pace.RecordAnswer(time.Now(), question.Age)
			return nil
		case fault != question.Conflict:
			pace.RecordFault(time.Now())
			return nil
		}
	}
	pace.RecordFault(time.Now())
	return nil
}

// recordLocalDiscard records a client's DISCARD ALL or DISCARD SEQUENCES that Sluice answers itself.
func recordLocalDiscard(s *session) {
	var b *sequence.BackendRecord
	if s.b != nil {
		b = &s.b.sequences
	}
	if s.sequences.RecordDiscard(sequence.Here, b) {
		s.pin.SetUseless(true)
	}
}

func runDiscardSequences(s *session, st *rewrite.Statement, several bool) (frames [][]byte, err error) {
	recordLocalDiscard(s)
	if s.pin.MustGiveUp() && s.state == inTransaction && s.b.status == 'I' {
		s.releasePinned()
		if err := s.applyEvent(settledIdle); err != nil {
			return nil, err
		}
	}
	return runTagOnly(s, st, several)
}

// recordSequenceUse records which sequence numbers a statement has drawn, or discarded, after the server ran it.
func recordSequenceUse(s *session, o *pendingReply, st *rewrite.Statement, tag []byte) {
	if h := &s.b.sequences.History; o.kind == wire.Query {
		h.RecordQueryRun(st, s.t.server.statement, tag)
	} else {
		h.RecordPreparedRun(st, o.text, tag)
	}
	if string(tag) != "DISCARD SEQUENCES" && string(tag) != "DISCARD ALL" {
		return
	}
	place := sequence.AtServer
	if len(o.plan.Statements) > 1 || o.kind == wire.Execute && (!s.t.request.ended || s.t.owed.len() > 2) {
		place = sequence.AmidOthers
	}
	if remain := s.sequences.RecordDiscard(place, &s.b.sequences); remain || place == sequence.AtServer {
		s.pin.SetUseless(remain)
	}
}

// acquireForSequences dials a separate backend for a session whose currval or lastval was refused. This counts as a
// pin. If no pin or backend is available, it returns nil, and the session continues to share backends.
func acquireForSequences(s *session) *reservoir.Conn {
	if !s.sequences.WantsOwnBackend() || s.pin.IsPinned() || !s.srv.pins.Reserve() {
		return nil
	}
	ctx, stop := s.waitContext(time.Time{}, lookInLineEvery) // the caller handles what ended the wait
	defer stop()
	conn, err := s.srv.pool.backends.DialDedicated(ctx, reservoir.Startup{Database: s.srv.cfg.Database})
	if err != nil {
		s.srv.pins.Release()
		return nil
	}
	s.pin.PinReserved()
	s.sequences.RecordOwnBackend()
	s.srv.metrics.CountPin(metrics.PinSequence)
	s.srv.log.Info("session keeps its backend", append(s.logAttrs(), "reason", metrics.PinSequence)...)
	return conn
}

// canAskOwnership reports whether Sluice can ask the server which sequence numbers the block has drawn. The session
// must be in a block, and no writer goroutine may be using its backend.
func (s *session) canAskOwnership() bool {
	return s.b != nil && s.state != failed && !s.sequences.OwnsNumbers(s.id, &s.b.sequences) && s.inBlock() && s.t.sent.uplink == nil
}

// ownershipQueryName names the prepared statement and portal of provesOwnership's query, and the portal of
// restoreStartupInGroup. Sluice closes statement and portal after each use.
const ownershipQueryName = "sluice_own"

// provesOwnership asks the server whether the block's statements have drawn all sequence numbers that the current text
// reads. It takes one round trip. If replies are pending, it returns false. If a conflict or cancel has ended the
// block, the error goes to the client. Any other error is a *lostError.
func (s *session) provesOwnership() (bool, error) {
	if s.t.request.sequenceText == "" || !s.canAskOwnership() || !s.t.owed.empty() {
		return false, nil
	}
	sql := s.srv.pool.planner.OwnSequenceQuery(s.t.request.sequenceText, s.b.sequences.History.PlannerRuns())
	if sql == "" {
		return false, nil
	}
	if err := s.flushToBackend(); err != nil {
		return false, err
	}
	ask := wire.AppendDescribeOrClose(nil, wire.Close, 'S', ownershipQueryName) // an earlier query that failed may have left it open
	ask = wire.AppendParse(ask, ownershipQueryName, sql, wire.NoOIDs)
	ask = append(wire.AppendBindHead(ask, []byte(ownershipQueryName), ownershipQueryName, 6), 0, 0, 0, 0, 0, 0)
	ask = append(append(wire.AppendHeader(ask, wire.Execute, len(ownershipQueryName)+1+4), ownershipQueryName...), 0, 0, 0, 0, 0)
	ask = wire.AppendDescribeOrClose(ask, wire.Close, 'P', ownershipQueryName)
	ask = wire.AppendDescribeOrClose(ask, wire.Close, 'S', ownershipQueryName)
	own := false
	refusal, err := s.b.exchangeRows(append(ask, wire.FrameSync...), func(row []byte) {
		columns := textColumns(row)
		own = len(columns) == 1 && columns[0] == "t"
	})
	s.waits.Arm()
	switch {
	case err != nil:
		if s.tx.log != nil {
			s.tx.log.RefuseReplay(retry.Pinned) // the log does not have the current statement yet
		}
		return false, &lostError{err: err}
	case refusal == nil:
		return own, nil
	}
	switch code := string(retry.ErrorField(refusal, 'C')); code[:min(2, len(code))] {
	case "40", "57":
		return false, &wire.Error{Code: code, Message: string(retry.ErrorField(refusal, 'M')), Detail: string(retry.ErrorField(refusal, 'D'))}
	}
	return false, nil
}
