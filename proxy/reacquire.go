package proxy

import (
	"time"

	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
)

// This file waits before each replay: for a pause, at the gate (queue for contended rows), and for a backend.

// reacquireBackend waits for a replay's pause, and in a queue if other transactions want the same rows. It gets an
// idle backend with the session's settings. If no further attempt is made, t.attempt.refusal has the reason and the
// error is nil. An error ends the session.
func (s *session) reacquireBackend() error {
	t, r := s.t, s.srv.pool.replays
	if err := s.applyEvent(conflictMet); err != nil {
		return err
	}
	queued := s.tx.hadRowConflict && s.tx.keyed && !t.attempt.forRollbackTo && !s.tx.pass.IsHeld()
	if s.b != nil {
		if err := s.rollBackOrDrop(s.exchangeInTurn); err != nil {
			return s.recordNoReplay(err)
		}
	}
	if !s.hasPinnedBackend() {
		t.attempt.refusal = retry.Pinned
		return nil
	}
	// Before a long wait the replay returns its backend, because the transaction that it waits for may need one.
	if s.b != nil && !s.keepsBackend() && (t.attempt.pause >= keepBackendUnder || queued && !r.gate.Idle()) {
		s.releaseBackend()
	}
	began := time.Now()
	if err := s.waitBeforeReplay(t.attempt.pause, queued); err != nil {
		return s.recordNoReplay(err)
	}
	if !t.attempt.forRollbackTo {
		s.srv.metrics.ObserveTxBackoff(time.Since(began))
	}
	t.attempt.forRollbackTo = false
	if again, err := s.reborrowBackend(); !again {
		return err
	}
	if len(s.tx.parts) > 0 {
		if again, err := s.borrowVerifyBackend(); !again {
			return err
		}
	}
	if err := s.waits.CheckInterruption(); err != nil {
		s.waits.Consume(err)
		return s.recordNoReplay(err)
	}
	s.waits.Arm()
	return nil
}

// reborrowBackend gets a backend with the session's settings for a replay. A backend that the session still has needs
// no settings. If no further attempt is made, again is false, and t.attempt.refusal has the reason.
func (s *session) reborrowBackend() (again bool, err error) { return s.reborrowWith(s.borrowBackend) }

// reborrowWith does what reborrowBackend does, and calls borrow to get a backend.
func (s *session) reborrowWith(borrow func() (*reservoir.Conn, error)) (again bool, err error) {
	t := s.t
	for s.b == nil {
		conn, err := borrow()
		if err != nil {
			return false, s.recordNoReplay(err)
		}
		s.attachBackend(conn)
		s.srv.pool.leftState.RequireQuery(&s.b.leftState) // a logged statement may call functions
		refusal, err := s.syncSettings()
		reads := true
		if err == nil && refusal == nil && t.attempt.lostRead { // functions may have changed
			reads, err = s.askReadPurity(true)
			reads = reads && err == nil && s.srv.pool.readsArePure()
		}
		switch {
		case interrupt.EndsTurn(err):
			s.waits.Consume(err)
			return false, s.recordNoReplay(err)
		case err != nil:
			s.recordLoss(&lostError{err: err}, lossDuringReplay)
			s.dropBackend(reservoir.Broken)
			if time.Now().After(s.tx.attempts.Deadline(&s.srv.pool.replays.cfg.Policy)) {
				t.attempt.refusal = retry.NoBackend
				return false, nil
			}
		case refusal != nil:
			t.attempt.refusal = retry.NoBackend
			return false, nil
		case !reads:
			t.attempt.originalError, t.attempt.refusal = sqlerror.UnknownOutcome.Append(nil), retry.InnerCommit
			return false, nil
		}
	}
	return true, nil
}

// recordNoReplay records in t.attempt.refusal why no replay is made. At the end of a drain it returns errCut.
func (l *link) recordNoReplay(err error) error {
	if err == errCut || l.waits.IsCut() {
		return errCut
	}
	l.t.attempt.refusal = noReplayReason(err)
	return nil
}

// rollBackOrDrop ends the transaction on the backend, or drops the backend. It returns and clears a cancel or timeout
// that arrived meanwhile. exchange makes the round trip and decides whether a cancel may end it.
func (s *session) rollBackOrDrop(exchange func([]byte) ([]byte, error)) (stop error) {
	if s.b.status != 'I' {
		refusal, err := exchange(wire.AppendStrings(nil, wire.Query, "ROLLBACK"))
		if err != nil || refusal != nil || s.b.status != 'I' {
			s.dropBackend(reservoir.Unclean)
			if interrupt.EndsTurn(err) {
				stop = err
			}
			return stop
		}
	}
	if s.finishCancel() {
		stop = interrupt.ErrCanceled
	}
	if s.b != nil && s.b.isBroken() {
		s.dropBackend(reservoir.Unclean)
	}
	return stop
}
