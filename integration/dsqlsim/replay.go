package dsqlsim

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
	"github.com/sluice-proxy/sluice/integration/dsqlsim/occ"
)

// retryTime is how long a statement is run again that others are in the way of. They
// are busy then, for whoever idles gives way much sooner.
const retryTime = time.Second

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
	case r.status == statusInBlock:
		return b.savepointSet && !b.incomplete && (r.kind == 'Q' || r.kind == 'E') && !(o == hiddenRow && b.genuine)
	case r.status == statusIdle:
		// The statement is its transaction: it has a fresh snapshot each time.
		return o == lockWait && r.alone && b.mayRetry()
	}
	return false
}

// replayFrames takes back what PostgreSQL has not answered, from the statement that
// failed on. In a block it brings the effects in front of it back. It returns
// errReplay when all went well.
func (s *session) replayFrames(r *pendingReply, e *pgproto3.ErrorResponse) error {
	failed := *r
	if err := s.takeBack(); err != nil {
		return err
	}
	s.rules, s.busy = failed.rules, !failed.alone
	s.epoch++
	if failed.status == statusInBlock {
		if err := s.rewind(); err != nil {
			return err
		}
		if err := s.decideRetry(&failed, e); err != nil {
			return err
		}
	}
	return errReplay
}

// decideRetry decides how the statement that failed is to run in its block again.
func (s *session) decideRetry(r *pendingReply, e *pgproto3.ErrorResponse) error {
	b := &s.block
	switch s.obstacleIn(e) {
	case lockWait:
		if !b.mayRetry() {
			b.doom()
			b.guessing = true
		}
	case lostUpdate:
		b.doom()
		b.guessing = true
	case hiddenRow:
		if err := s.resume(); err != nil {
			return err
		}
		seen := true
		if s.server.config.KeyConflicts {
			var err error
			if seen, err = s.sees(e); err != nil {
				return err
			}
		}
		if b.genuine = seen; !seen {
			b.doom()
			b.guessing = true
		}
	}
	return nil
}

// takeBack reads PostgreSQL's answers to their end, unheard, and puts the
// client's frames back in front of the queue.
func (s *session) takeBack() error {
	var frames []frame
	hasEnd := false
	for i := s.replies.head; i < len(s.replies.list); i++ {
		r := &s.replies.list[i]
		hasEnd = hasEnd || r.endsTurn()
		if r.from.kind != 0 {
			again := r.from
			again.again = true
			frames = append(frames, again)
		}
	}
	for i := len(s.replies.list) - 1; i >= s.replies.head; i-- {
		s.undo(&s.replies.list[i])
	}
	s.replies.clear()
	if !hasEnd {
		if err := writeFrame(s.toUpstream, 'S', nil); err != nil {
			return upstreamError(err)
		}
		if err := s.flushUpstream(); err != nil {
			return err
		}
	}
	if _, err := s.readAnswer(); err != nil {
		return err
	}
	s.skipping = false
	s.replayed = len(frames)
	s.pending = append(frames, s.pending[s.at:]...)
	s.at = 0
	return nil
}

// undo forgets the effect of a frame that PostgreSQL has skipped.
func (s *session) undo(r *pendingReply) {
	if r.interruption != nil && !r.interruption.reported {
		s.script.row = r.interruption // it is still to happen
	}
	switch r.kind {
	case 'P', 'C':
		switch {
		case r.silent:
			delete(s.prepared, r.name)
		case r.portal != nil:
			s.portals[r.name] = r.portal
		case r.previous != nil:
			s.statements[r.name] = r.previous
		case r.kind == 'P':
			delete(s.statements, r.name)
		}
	case 'B':
		if r.silent {
			return
		}
		if r.portal != nil {
			s.portals[r.name] = r.portal
		} else {
			delete(s.portals, r.name)
		}
	case 'E':
		if r.portal != nil {
			r.portal.started = false
		}
	}
}

// putBack puts a frame, which was not sent, behind those that were taken back.
func (s *session) putBack(f frame) {
	f.again = f.again || s.judged
	at := s.at + s.replayed
	s.pending = append(s.pending[:at:at], append([]frame{f}, s.pending[at:]...)...)
}

// makeGuess returns the query that tells what a statement's outcome would be, and
// notes that it does; r.guess stays nil when there is none.
func (r *pendingReply) makeGuess(st *dialect.Statement) string {
	if r.guess = occ.MakeGuess(st.SQL); r.guess == nil {
		return ""
	}
	return r.guess.SQL
}
