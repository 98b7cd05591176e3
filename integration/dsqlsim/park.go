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
func (s *session) giveWay(r yieldRequest) error {
	b := &s.block
	switch {
	case s.status != statusInBlock || s.block.deferred || r.at.Before(s.locksMoved):
		return nil // it is not in the way any more
	case b.log.canRewind() && !b.log.parked:
		return s.rewind()
	case r.table || b.log.incomplete:
		return s.evict()
	}
	return nil
}

// rewind parks the transaction: its effects and locks are gone, its snapshot
// stays. No reply may be pending.
func (s *session) rewind() error {
	if s.block.log.incomplete {
		return s.evict()
	}
	answer, err := s.ask(rewindSQL)
	if err != nil {
		return err
	}
	if answer.failed != nil {
		return s.evict()
	}
	s.names.epoch++
	s.locksMoved = time.Now()
	s.block.log.parked = len(s.block.log.effects) > 0
	return nil
}

// evict ends the transaction in PostgreSQL. The client's goes on in a new
// snapshot, and cannot commit.
func (s *session) evict() error {
	s.block.doom()
	b := &s.block
	b.log, b.restarted = effectLog{}, b.hasSnapshot
	s.names.epoch++
	s.locksMoved = time.Now()
	if _, err := s.ask("ROLLBACK"); err != nil {
		return err
	}
	_, err := s.ask(b.beginSQL)
	return err
}

// resume brings a parked transaction's effects back. What another's commit has
// made impossible stays out, and dooms the transaction; so does an answer other
// than the first.
func (s *session) resume() error {
	b := &s.block
	for tried := (tries{}); b.log.parked; {
		i, failed, err := s.rerunLog()
		if err != nil {
			return err
		}
		if i == len(b.log.effects) {
			b.log.parked = false
			s.names.epoch++ // a portal that was bound meanwhile does not see the effects
			s.locksMoved = time.Now()
			return nil
		}
		if err := s.rewind(); err != nil {
			return err
		}
		if failed != nil && s.obstacleIn(failed) == lockWait && s.again(&tried) {
			time.Sleep(rand.N(2 * retryPause))
			continue
		}
		b.doom()
		if i < len(b.log.effects) {
			b.log.effects[i].void = true
			b.lose(b.log.effects[i].sql)
		}
	}
	return nil
}

// rerunLog runs the log up to the first statement that fails, or answers
// differently (failed is nil then), and returns its place.
func (s *session) rerunLog() (int, *pgproto3.ErrorResponse, error) {
	for i := range s.block.log.effects {
		e := &s.block.log.effects[i]
		if e.void {
			continue
		}
		answer, err := s.exchange(ownFrames(e.sql, e.types, e.values)...)
		if err != nil {
			return i, nil, err
		}
		if answer.failed != nil || e.exact && (answer.tag != e.tag || answer.sum != e.sum) {
			return i, answer.failed, nil
		}
	}
	return len(s.block.log.effects), nil, nil
}
