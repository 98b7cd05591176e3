package proxy

import (
	"time"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
)

// Wait and reacquire: the pause, the gate, and a backend for the next attempt.

// reacquire waits out the pause, takes its place at the gate if there is a fight for its
// rows, and sees to a backend that stands where the transaction's first frame found one.
// Where the attempt is not made, t.refusal says why, and the error is nil; an error is the
// session's end.
func (s *session) reacquire() error {
	t, r := s.t, s.srv.replays
	if err := s.move(conflictMet); err != nil {
		return err
	}
	queued := s.tx.fought && s.tx.keyed && !t.back && !s.tx.pass.Held()
	if s.b != nil {
		if err := s.rollBack(s.exchange); err != nil {
			return s.noReplay(err)
		}
	}
	if !s.holdsOn() {
		t.refusal = retry.Pinned
		return nil
	}
	// A replay that waits for long holds no backend: the transaction that it waits for may
	// need one.
	if s.b != nil && !s.keeps() && (t.pause >= keepUnder || queued && !r.gate.Idle()) {
		s.releaseBackend()
	}
	began := time.Now()
	if err := s.waitOut(t.pause, queued); err != nil {
		return s.noReplay(err)
	}
	if !t.back {
		s.srv.metrics.TxBackoff(time.Since(began))
	}
	t.back = false
	if again, err := s.borrowAgain(); !again {
		return err
	}
	if len(s.tx.parts) > 0 {
		if again, err := s.borrowWitness(); !again {
			return err
		}
	}
	if err := s.stopped(); err != nil {
		s.heeded(err)
		return s.noReplay(err)
	}
	s.alarmRead()
	return nil
}

// borrowAgain sees to a backend with the session's settings; again is false where the
// attempt is not made, for the reason in t.refusal. A backend that is kept has the settings
// already.
func (s *session) borrowAgain() (again bool, err error) { return s.borrowWith(s.borrow) }

// borrowWith is borrowAgain for another way to borrow.
func (s *session) borrowWith(borrow func() (*reservoir.Conn, error)) (again bool, err error) {
	t := s.t
	for s.b == nil {
		conn, err := borrow()
		if err != nil {
			return false, s.noReplay(err)
		}
		s.attach(conn)
		s.markLeft() // the log may hold what calls functions
		refusal, err := s.syncSettings()
		reads := true
		if err == nil && refusal == nil && t.reads {
			reads, err = s.stillReads()
		}
		switch {
		case stops(err):
			s.heeded(err)
			return false, s.noReplay(err)
		case err != nil:
			s.noteLost(&lostError{err: err}, lostWhenReplaying)
			s.dropBackend(reservoir.Broken)
			if time.Now().After(s.tx.attempts.Deadline(&s.srv.replays.cfg.Policy)) {
				t.refusal = retry.NoBackend
				return false, nil
			}
		case refusal != nil:
			t.refusal = retry.NoBackend
			return false, nil
		case !reads:
			t.original, t.refusal = errUnknownOutcome.Append(nil), retry.InnerCommit
			return false, nil
		}
	}
	return true, nil
}

// noReplay notes why a replay is not made that was to be. The error is the session's end,
// where that is the reason.
func (s *session) noReplay(err error) error {
	if err == errCut || s.cutOff.Load() {
		return errCut
	}
	s.t.refusal = reasonOf(err)
	return nil
}

// rollBack ends the transaction at the backend, or drops the backend. It returns why the
// turn was asked to stop meanwhile, which is forgotten. exchange is the round trip: one
// that a cancel ends, or one that comes to its end.
func (s *session) rollBack(exchange func([]byte) ([]byte, error)) (stop error) {
	if s.b.status != 'I' {
		refusal, err := exchange(wire.AppendStrings(nil, wire.Query, "ROLLBACK"))
		if err != nil || refusal != nil || s.b.status != 'I' {
			s.dropBackend(reservoir.Unclean)
			if stops(err) {
				stop = err
			}
			return stop
		}
	}
	if s.settleCancel() {
		stop = errCanceled
	}
	if s.b != nil && s.b.broken() {
		s.dropBackend(reservoir.Unclean)
	}
	return stop
}
