package dsqlsim

import (
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
	"github.com/sluice-proxy/sluice/integration/dsqlsim/occ"
)

// retryTime is how long a statement is run again that others are in the way of. They
// are busy then, for whoever idles gives way much sooner. On a machine that is slow at
// that, it is as many tries as fit into that time on another.
const retryTime = time.Second

// tries are those of a statement that others are in the way of.
type tries struct {
	n     int
	since time.Time // the first
}

// again counts a try that has failed, and tells whether there should be another.
func (s *session) again(t *tries) bool {
	if t.n++; t.n == 1 {
		t.since = time.Now()
	}
	return t.n < int(retryTime/s.server.config.LockTimeout) || time.Since(t.since) < retryTime
}

// cancelledText is PostgreSQL's of a cancel; the SQLSTATE has other uses.
const cancelledText = "canceling statement due to user request"

// errReplay tells that frames which PostgreSQL has not answered, or answered
// with a conflict, are in front of the queue again.
var errReplay = errors.New("frames taken back")

// obstacle is what an error of PostgreSQL's has to do with other transactions.
type obstacle uint8

const (
	noObstacle obstacle = iota
	lockWait            // it did not get a lock in time: it may try again
	lostUpdate          // another has committed a change of the same row
	hiddenRow           // a constraint, perhaps because of rows out of sight
)

func (s *session) obstacleIn(e *pgproto3.ErrorResponse) obstacle {
	switch e.Code {
	case codeDeadlock, codeLockTimeout:
		return lockWait
	case codeCancelled:
		// PostgreSQL takes a lock_timeout that comes late for a cancel.
		if !s.server.config.HonourCancel && e.Message == cancelledText {
			return lockWait
		}
	case codeConflict:
		return lostUpdate
	case codeUnique, codeForeignKey:
		return hiddenRow
	}
	return noObstacle
}

// canReplay tells whether the statement r stands for can be run again after
// the error.
func (s *session) canReplay(r *pendingReply, e *pgproto3.ErrorResponse) bool {
	b, o := &s.block, s.obstacleIn(e)
	switch {
	case o == noObstacle, r.marked != nil, r.guess != nil, r.silent, r.from.kind == 0:
		return false
	case o == hiddenRow && (r.commits() || !s.mayBeHidden(e)):
		return false // PostgreSQL has ended the transaction, or nobody else has to do with it
	case r.status == statusInBlock:
		return b.log.canRewind() && (r.kind == 'Q' || r.kind == 'E') && !(o == hiddenRow && b.attempt.genuine)
	case r.status == statusIdle:
		// The statement is its transaction: it has a fresh snapshot each time.
		return o == lockWait && r.alone && s.again(&b.attempt.tries)
	}
	return false
}

// commits tells whether the statement at hand is a COMMIT.
func (r *pendingReply) commits() bool {
	return r.text != nil && r.index < len(r.text.Statements) && r.text.Statements[r.index].Kind == dialect.Commit
}

// replayFrames takes back what PostgreSQL has not answered, from the statement that
// failed on. In a block it brings the effects in front of it back. It returns
// errReplay when all went well.
func (s *session) replayFrames(r *pendingReply, e *pgproto3.ErrorResponse) error {
	failed := *r
	if err := s.takeBack(); err != nil {
		return err
	}
	s.rules, s.turn.busy = failed.rules, !failed.alone
	s.names.epoch++
	if failed.status == statusInBlock {
		if err := s.rewind(); err != nil {
			return err
		}
		if err := s.decideRetry(e); err != nil {
			return err
		}
	}
	return errReplay
}

// decideRetry decides how the statement that failed with e is to run in its block
// again.
func (s *session) decideRetry(e *pgproto3.ErrorResponse) error {
	b := &s.block
	switch s.obstacleIn(e) {
	case lockWait:
		if !s.again(&b.attempt.tries) {
			b.giveUp()
		}
	case lostUpdate:
		b.giveUp()
	case hiddenRow:
		return s.decideHidden(e)
	}
	return nil
}

// decideHidden decides for a key that is violated. Of a unique key mayBeHidden has found the
// row committed: in sight of the snapshot it is the client's error, which ends the
// transaction, whatever the transaction did before. Rows that reference another may be its own.
func (s *session) decideHidden(e *pgproto3.ErrorResponse) error {
	b := &s.block
	if e.Code == codeForeignKey {
		if err := s.resume(); err != nil {
			return err
		}
	}
	seen, err := s.sees(e)
	if err != nil {
		return err
	}
	if b.attempt.genuine = seen; seen {
		b.log.parked = false
		return nil
	}
	if err := s.resume(); err != nil {
		return err
	}
	b.giveUp()
	return nil
}

// takeBack reads PostgreSQL's answers to their end, unheard, and puts the
// client's frames back in front of the queue.
func (s *session) takeBack() error {
	var frames []frame
	hasEnd := false
	for _, r := range s.replies.rest() {
		hasEnd = hasEnd || r.endsTurn()
		if r.from.kind != 0 {
			again := r.from
			again.again = true
			frames = append(frames, again)
		}
	}
	for _, r := range slices.Backward(s.replies.rest()) {
		s.undo(&r)
	}
	s.replies.clear()
	if !hasEnd {
		if err := s.upstream.write('S', nil); err != nil {
			return err
		}
		if err := s.upstream.flush(); err != nil {
			return err
		}
	}
	if _, err := s.readAnswer(); err != nil {
		return err
	}
	s.skipping = false
	s.queue.replay(frames)
	return nil
}

// undo forgets the effect of a frame that PostgreSQL has skipped.
func (s *session) undo(r *pendingReply) {
	if r.interruption != nil && !r.interruption.reported {
		s.injection.row = r.interruption // it is still to happen
	}
	s.names.undo(r)
}

// makeGuess returns the query that tells what a statement's outcome would be, and
// notes that it does; r.guess stays nil when there is none.
func (r *pendingReply) makeGuess(st *dialect.Statement) string {
	if r.guess = occ.MakeGuess(st.SQL); r.guess == nil {
		return ""
	}
	return r.guess.SQL
}
