package dsqlsim

import (
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// retryPause is the mean pause in front of another try to bring a transaction's
// effects back, so that two do not try in step.
const retryPause = 2 * time.Millisecond

// giveWay takes an idle transaction out of another's way. One that only its own
// reads keep in the way of DDL is ended, in its client's eyes as well: a change
// of the schema would not let it commit anyway.
func (s *session) giveWay(r request) error {
	w := &s.work
	switch {
	case s.status != statusInBlock || s.work.deferred || r.at.Before(s.moved):
		return nil // it is not in the way any more
	case w.savepoint && !w.parked && !w.lost:
		return s.rewind()
	case r.table || w.lost:
		return s.evict()
	}
	return nil
}

// rewind parks the transaction: its effects and locks are gone, its snapshot
// stays. Nothing may be owed.
func (s *session) rewind() error {
	if s.work.lost {
		return s.evict()
	}
	answer, err := s.ask(rewindSQL)
	if err != nil {
		return err
	}
	if answer.failed != nil {
		return s.evict()
	}
	s.epoch++
	s.moved = time.Now()
	s.work.parked = len(s.work.log) > 0
	return nil
}

// evict ends the transaction in PostgreSQL. The client's goes on in a new
// snapshot, and cannot commit.
func (s *session) evict() error {
	s.work.doom()
	w := &s.work
	w.asked, w.savepoint, w.parked, w.log, w.lost = false, false, false, nil, false
	s.epoch++
	s.moved = time.Now()
	if _, err := s.ask("ROLLBACK"); err != nil {
		return err
	}
	_, err := s.ask(w.begin)
	return err
}

// resume brings a parked transaction's effects back. What another's commit has
// made impossible stays out, and dooms the transaction; so does an answer other
// than the first.
func (s *session) resume() error {
	w := &s.work
	for began := time.Now(); w.parked; {
		i, failed, err := s.replay()
		if err != nil {
			return err
		}
		if i == len(w.log) {
			w.parked = false
			s.epoch++ // a portal that was bound meanwhile does not see the effects
			s.moved = time.Now()
			return nil
		}
		if err := s.rewind(); err != nil {
			return err
		}
		if failed != nil && s.obstacleIn(failed) == wait && time.Since(began) < maxTrying {
			time.Sleep(rand.N(2 * retryPause))
			continue
		}
		w.doom()
		if i < len(w.log) {
			w.log[i].void = true
		}
	}
	return nil
}

// replay runs the log up to the first statement that fails, or answers
// differently (failed is nil then), and returns its place.
func (s *session) replay() (int, *pgproto3.ErrorResponse, error) {
	for i := range s.work.log {
		e := &s.work.log[i]
		if e.void {
			continue
		}
		answer, err := s.aside(bound(e.sql, e.types, e.values)...)
		if err != nil {
			return i, nil, err
		}
		if answer.failed != nil || e.exact && (answer.tag != e.tag || answer.sum != e.sum) {
			return i, answer.failed, nil
		}
	}
	return len(s.work.log), nil, nil
}
