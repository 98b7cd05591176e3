package dsqlsim

import (
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// retryPause is the mean pause before a session again tries to resume a parked transaction, whose effects PostgreSQL
// has undone. The pause is random, so that two sessions do not always try at the same time.
const retryPause = 2 * time.Millisecond

// yieldLocks parks an idle transaction that blocks another session: its effects are undone until the client
// continues. If the transaction blocks DDL only by its reads, yieldLocks rolls it back for good. Because of the DDL,
// that transaction could not commit anyway.
func (s *session) yieldLocks(r yieldRequest) error {
	b := &s.block
	switch {
	case s.status != statusInBlock || s.block.deferred || r.at.Before(s.locksMoved):
		return nil // the transaction blocks no other session any more
	case b.log.canRewind() && !b.log.parked:
		return s.parkTransaction()
	case r.table || b.log.incomplete:
		return s.evictTransaction()
	}
	return nil
}

// parkTransaction sets the transaction aside: PostgreSQL undoes its effects and releases its locks, and the snapshot
// remains. No reply may be pending.
func (s *session) parkTransaction() error {
	if s.block.log.incomplete {
		return s.evictTransaction()
	}
	answer, err := s.queryUpstream(rewindSQL)
	if err != nil {
		return err
	}
	if answer.failed != nil {
		return s.evictTransaction()
	}
	s.names.epoch++
	s.locksMoved = time.Now()
	s.block.log.parked = len(s.block.log.effects) > 0
	return nil
}

// evictTransaction rolls the transaction back in PostgreSQL, to release its locks for good. The client's transaction
// goes on in a new snapshot and cannot commit.
func (s *session) evictTransaction() error {
	s.block.markDoomed()
	b := &s.block
	b.log, b.restarted = effectLog{}, b.hasSnapshot
	s.names.epoch++
	s.locksMoved = time.Now()
	if _, err := s.queryUpstream("ROLLBACK"); err != nil {
		return err
	}
	_, err := s.queryUpstream(b.beginSQL)
	return err
}

// unparkTransaction resumes a transaction that was set aside to free its locks: PostgreSQL runs its writing
// statements again. If another transaction's commit makes one of them fail, or its answer differs from the first
// one, COMMIT will fail.
func (s *session) unparkTransaction() error {
	b := &s.block
	for tried := (retryTries{}); b.log.parked; {
		i, failed, err := s.rerunEffects()
		if err != nil {
			return err
		}
		if i == len(b.log.effects) {
			b.log.parked = false
			s.names.epoch++ // a portal that was bound meanwhile does not see the effects
			s.locksMoved = time.Now()
			return nil
		}
		if err := s.parkTransaction(); err != nil {
			return err
		}
		if failed != nil && s.conflictCauseOf(failed) == lockWait && s.shouldRetry(&tried) {
			time.Sleep(rand.N(2 * retryPause))
			continue
		}
		b.markDoomed()
		if i < len(b.log.effects) {
			b.log.effects[i].void = true
			b.recordLostWrite(b.log.effects[i].sql)
		}
	}
	return nil
}

// rerunEffects runs the logged statements again, up to the first one that fails or gets another answer than before.
// It returns that statement's index. failed is nil if no statement failed.
func (s *session) rerunEffects() (int, *pgproto3.ErrorResponse, error) {
	for i := range s.block.log.effects {
		e := &s.block.log.effects[i]
		if e.void {
			continue
		}
		answer, err := s.exchangeUpstream(ownStatementFrames(e.sql, e.types, e.values)...)
		if err != nil {
			return i, nil, err
		}
		if answer.failed != nil || e.exact && (answer.tag != e.tag || answer.sum != e.sum) {
			return i, answer.failed, nil
		}
	}
	return len(s.block.log.effects), nil, nil
}
