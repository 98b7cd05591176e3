package dsqlsim

import (
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
	"github.com/sluice-proxy/sluice/integration/dsqlsim/occ"
)

// retryTime is how long the session repeats a statement that other transactions block. An idle transaction releases its
// locks much sooner, so only busy ones block for that long. On a slow machine the session makes at least as many tries
// as fit into retryTime.
const retryTime = time.Second

// retryTries counts the attempts of a statement that other transactions block.
type retryTries struct {
	n     int
	since time.Time // the first
}

// shouldRetry counts an attempt that has failed, and reports whether the session should try again.
func (s *session) shouldRetry(t *retryTries) bool {
	if t.n++; t.n == 1 {
		t.since = time.Now()
	}
	return t.n < int(retryTime/s.server.config.LockTimeout) || time.Since(t.since) < retryTime
}

// cancelledText is PostgreSQL's message for a cancelled statement. The SQLSTATE of that message has other uses too.
const cancelledText = "canceling statement due to user request"

// errReplay reports that the session has put frames back at the front of its queue. PostgreSQL has not answered these
// frames, or answered with a conflict.
var errReplay = errors.New("frames taken back")

// conflictCause is the way in which another transaction may have caused an error of PostgreSQL.
type conflictCause uint8

const (
	noConflictCause conflictCause = iota
	lockWait                      // the statement did not get a lock in time, and may try again
	lostUpdate                    // another transaction has committed a change of the same row
	hiddenRow                     // a constraint violation, perhaps by a row outside the snapshot
)

func (s *session) conflictCauseOf(e *pgproto3.ErrorResponse) conflictCause {
	switch e.Code {
	case codeDeadlock, codeLockTimeout:
		return lockWait
	case codeCancelled:
		// This cancel may be a lock_timeout, since PostgreSQL reports a lock_timeout that comes late as a cancel.
		if !s.server.config.HonourCancel && e.Message == cancelledText {
			return lockWait
		}
	case codeConflict:
		return lostUpdate
	case codeUnique, codeForeignKey:
		return hiddenRow
	}
	return noConflictCause
}

// canReplay reports whether the statement of reply r can run again after the error.
func (s *session) canReplay(r *pendingReply, e *pgproto3.ErrorResponse) bool {
	b, o := &s.block, s.conflictCauseOf(e)
	switch {
	case o == noConflictCause, r.marked != nil, r.guess != nil, r.silent, r.from.kind == 0:
		return false
	case o == hiddenRow && (r.isCommit() || !s.mayRowBeHidden(e)):
		return false // PostgreSQL has ended the transaction, or no other transaction caused the error
	case r.status == statusInBlock:
		return b.log.canRewind() && (r.kind == 'Q' || r.kind == 'E') && !(o == hiddenRow && b.attempt.genuine)
	case r.status == statusIdle:
		// A statement outside a block may run again, since it gets a new snapshot each time that it runs.
		return o == lockWait && r.alone && s.shouldRetry(&b.attempt.tries)
	}
	return false
}

// isCommit reports whether the reply is for a COMMIT.
func (r *pendingReply) isCommit() bool {
	return r.text != nil && r.index < len(r.text.Statements) && r.text.Statements[r.index].Kind == dialect.Commit
}

// replayFrames puts the failed statement's frame, and all later frames, back at the front of the queue. In a block
// it also runs the earlier effects of the transaction again. It returns errReplay on success.
func (s *session) replayFrames(r *pendingReply, e *pgproto3.ErrorResponse) error {
	failed := *r
	if err := s.takeBackFrames(); err != nil {
		return err
	}
	s.rules, s.turn.busy = failed.rules, !failed.alone
	s.names.epoch++
	if failed.status == statusInBlock {
		if err := s.parkTransaction(); err != nil {
			return err
		}
		if err := s.decideRetry(e); err != nil {
			return err
		}
	}
	return errReplay
}

// decideRetry decides how a statement that failed with e runs again in its block: unchanged, or as a query that
// guesses its outcome.
func (s *session) decideRetry(e *pgproto3.ErrorResponse) error {
	b := &s.block
	switch s.conflictCauseOf(e) {
	case lockWait:
		if !s.shouldRetry(&b.attempt.tries) {
			b.doomAndGuess()
		}
	case lostUpdate:
		b.doomAndGuess()
	case hiddenRow:
		return s.decideHiddenRow(e)
	}
	return nil
}

// decideHiddenRow decides whether the violation of a key is the client's error or a conflict. For a unique key
// mayRowBeHidden has found the row committed. If the snapshot sees the row, the error is the client's and ends the
// transaction. A row that references another may be the transaction's own, so decideHiddenRow first runs the
// transaction's writing statements again.
func (s *session) decideHiddenRow(e *pgproto3.ErrorResponse) error {
	b := &s.block
	if e.Code == codeForeignKey {
		if err := s.unparkTransaction(); err != nil {
			return err
		}
	}
	seen, err := s.seesViolatingRow(e)
	if err != nil {
		return err
	}
	if b.attempt.genuine = seen; seen {
		b.log.parked = false
		return nil
	}
	if err := s.unparkTransaction(); err != nil {
		return err
	}
	b.doomAndGuess()
	return nil
}

// takeBackFrames reads PostgreSQL's remaining answers without relaying them, and puts the client's frames back at the
// front of the queue.
func (s *session) takeBackFrames() error {
	var frames []frame
	hasEnd := false
	for _, r := range s.replies.pendingReplies() {
		hasEnd = hasEnd || r.endsTurn()
		if r.from.kind != 0 {
			again := r.from
			again.replayed = true
			frames = append(frames, again)
		}
	}
	for _, r := range slices.Backward(s.replies.pendingReplies()) {
		s.undoFrame(&r)
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
	if _, err := s.readOwnAnswer(); err != nil {
		return err
	}
	s.skipping = false
	s.queue.pushReplayed(frames)
	return nil
}

// undoFrame reverts what the session recorded about a frame, because PostgreSQL has skipped that frame.
func (s *session) undoFrame(r *pendingReply) {
	if r.interruption != nil && !r.interruption.reported {
		s.injection.row = r.interruption // the fault has not happened yet
	}
	s.names.undoFrame(r)
}

// guessOutcome returns the query that guesses a statement's outcome, and notes in r.guess how to treat its answer.
// Without a possible guess r.guess stays nil.
func (r *pendingReply) guessOutcome(st *dialect.Statement) string {
	if r.guess = occ.NewGuessQuery(st.SQL); r.guess == nil {
		return ""
	}
	return r.guess.SQL
}
