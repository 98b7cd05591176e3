package proxy

import (
	"time"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
)

// The pause, the gate and a backend for the next attempt of a replay.

// reacquire waits for the pause, waits at the gate if other transactions want the same rows, and gets an idle backend
// with the session's settings. If no attempt is to be made, t.refusal has the reason and the error is nil. An error
// ends the session.
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
	// A replay with a long wait returns its backend, because the transaction that it waits for may need one.
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

// borrowAgain gets a backend with the session's settings. A backend that the session still has needs no settings.
// again is false if no attempt is to be made; t.refusal has the reason then.
func (s *session) borrowAgain() (again bool, err error) { return s.borrowWith(s.borrow) }

// borrowWith does what borrowAgain does, with another function to borrow.
func (s *session) borrowWith(borrow func() (*reservoir.Conn, error)) (again bool, err error) {
	t := s.t
	for s.b == nil {
		conn, err := borrow()
		if err != nil {
			return false, s.noReplay(err)
		}
		s.attach(conn)
		s.markLeft() // a logged statement may call functions
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

// noReplay records in t.refusal why no replay is made. It returns errCut if the session is cut.
func (s *session) noReplay(err error) error {
	if err == errCut || s.cutOff.Load() {
		return errCut
	}
	s.t.refusal = reasonOf(err)
	return nil
}

// rollBack ends the transaction on the backend, or drops the backend. It returns a cancel or timeout that arrived
// meanwhile, and clears it. exchange makes the round trip: either one that a cancel ends, or one that runs to its
// end.
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
