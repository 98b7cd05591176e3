package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sluice-proxy/sluice/proxy/outcome"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
)

// Replay: whether a transaction that met a conflict or lost its backend is run again
// (judge, conflicted, replayAfterLoss), the loop of attempts (resolve), and the refusal
// (refuseReplay). The steps of an attempt are in abort.go, reacquire.go and resend.go, the
// log in replaylog.go. docs/replay.md says what is guaranteed.

// keepUnder bounds the pauses for which a replay keeps its backend: in one that is as long
// or longer, somebody else can use it.
const keepUnder = 200 * time.Millisecond

// phase says for whom it is what the backend answers.
type phase uint8

const (
	live      phase = iota // for the client
	repeating              // turns that have settled are run again: for the log, which compares
	aborting               // for nobody: the attempt has failed, until the next begins or the client is told
)

// stand is where the server stands in a turn whose answers are not the client's.
type stand uint8

const (
	inTurn  stand = iota
	skips         // up to a Sync
	atReady       // a ReadyForQuery came that is not the client's
)

// attempt is the part of a turn that is about running its transaction again. The zero value
// is a turn that has met nothing. original is set from the first conflict on, for as long
// as the client may still have to be told of it.
type attempt struct {
	phase phase
	stand stand
	// torn: the client has a part of a row whose rest was lost with its backend.
	torn bool
	// original is the error that the client gets if the transaction cannot be
	// run again, and after the transaction status that goes with it.
	original []byte
	after    byte
	// ahead is what the client gets in front of original, where that is of a name that the
	// server does not know, and may be the client's own mistake: the answers of the statements
	// before. nil for any other error. aheadAcks is how many answers of the turn the client has
	// with it, of those that acknowledgements counts.
	ahead     []byte
	aheadAcks int
	refusal   retry.Reason // why there is no further attempt
	// renewed: the last attempt failed for a change of the schema, which its backend knows now.
	renewed bool
	pause   time.Duration
	// back: it is run again because of a ROLLBACK TO, and fights for nothing;
	// returns is the savepoint until the replay has got there.
	back    bool
	returns string
	undos   []undo
	// keeping says what of the values that the client was told the attempt keeps, and
	// keepsLast that this goes for the turn in progress too.
	keeping   keeping
	keepsLast bool
	// keepingWhole is keeping of the transaction, also while a discarded part of it is run again.
	keepingWhole keeping
	// reads: the answer of what the schema says only reads was lost.
	reads bool
	// apart: a part that was discarded answers otherwise; nil: none does.
	apart *apart
}

// fail ends the attempt. With a reason, no further one is made. resolve sees to what
// follows.
func (a *attempt) fail(reason retry.Reason) { a.phase, a.refusal = aborting, reason }

// judge decides whether the transaction may be run once more, and books it: an attempt of
// its policy, a token of the process's budget, the pause in front of it. With a reason
// other than retry.Replayable nothing is run; the caller counts the refusal. crowd is how
// many of this process wait for the transaction's rows.
func (s *session) judge(cause retry.Cause, crowd int) retry.Reason {
	r, l := s.srv.replays, s.tx.log
	switch {
	case !l.Replayable():
		return l.Refused()
	case s.onlyForSchema() && cause != retry.SchemaConflict:
		return retry.Pinned
	case s.cancelAsked():
		return retry.Cancelled
	case s.srv.draining.Load():
		return retry.Draining
	// Parts of answers that were masked are not in the log's digest: nothing of the turn
	// can be compared.
	case s.t.masks && !l.Untold():
		return retry.Masked
	}
	pause, reason := s.tx.attempts.Next(&r.cfg.Policy, cause, time.Now(), rand.Float64(), crowd)
	// A statement that goes out in another form, or is prepared anew, is no sign of a
	// fight, and takes nothing of the budget. Nor does one that had a pass: the gate bounds how
	// many of these there are, and what has read before it waited there loses every time.
	gated := s.tx.gated && cause.Contended()
	if reason == retry.Replayable && cause.Conflicts() && !gated && !r.budget.Take() {
		reason = retry.OverBudget
	}
	s.t.pause = pause
	return reason
}

// conflicted is told of an error that reports a conflict, or that the server wants a
// statement in another form; frame is that error, and whole says that none of it is
// missing. again: the turn goes on as an attempt that has failed, which resolve follows up.
// It reports false when the transaction is not run again: then the error is the client's,
// and has been passed on with the reason.
func (s *session) conflicted(cause retry.Cause, frame []byte, whole bool) (again bool, err error) {
	t, r := s.t, s.srv.replays
	crowd := 0
	if cause.Contended() {
		s.tx.fought, s.tx.gated = true, s.tx.pass.Held()
		crowd = s.tx.pass.Conflicted()
	}
	if cause.Conflicts() && cause != retry.BackendLost {
		s.srv.metrics.TxConflict(s.tx.operation)
		if n, over := r.alert.Conflict(time.Now()); over {
			s.srv.log.Warn("many conflicts", "in_a_minute", n, "alert_threshold_conflicts_per_minute", s.srv.cfg.AlertConflictsPerMinute)
		}
	}
	reason := s.judge(cause, crowd)
	// A later attempt that fails is no news to the client: what it is told then is the
	// first error.
	if t.original == nil {
		// A cancel is not told here: resolve brings the server to rest first, and
		// refuseReplay tells it.
		if reason != retry.Replayable && reason != retry.Cancelled {
			s.noteRefusal(reason)
			if err := s.tellTag(); err != nil {
				return false, err
			}
			if whole {
				frame = retry.AppendRefusal(nil, frame, reason.Detail(retry.Difference{}), s.retryHint())
			}
			return false, s.passSpan(frame)
		}
		t.original = bytes.Clone(frame)
		if cause == retry.UnknownName {
			t.ahead, t.aheadAcks = s.withheld.Bytes(), s.tx.log.Acknowledging()
		}
	}
	s.noteAttempt(cause, reason)
	s.unpinForReplay()
	t.fail(reason)
	s.tx.job.Failed()
	t.stand, t.renewed = skips, cause == retry.SchemaConflict
	return true, nil
}

// differs is told that the replay answers otherwise than the client was answered. No
// further attempt is made. A cancel, and what has made the log unusable meanwhile, are told
// in its place.
func (s *session) differs() {
	t := s.t
	t.fail(retry.Differs)
	if t.stand == skips {
		t.stand = inTurn
	}
	if why := s.tx.log.Refused(); why != retry.Replayable {
		t.refusal = why
	}
	if s.cancelAsked() { // it is what differs
		t.refusal = retry.Cancelled
	}
}

// noteAttempt counts a replay that is about to be made.
func (s *session) noteAttempt(cause retry.Cause, reason retry.Reason) {
	if reason == retry.Replayable {
		s.srv.metrics.TxRetried(s.tx.operation, cause.String(), s.tx.attempts.Count())
	}
}

// noteRefusal counts a replay that is not made.
func (s *session) noteRefusal(reason retry.Reason) {
	s.srv.metrics.TxReplayRefused(reason.String())
	if reason == retry.Exhausted {
		s.srv.metrics.TxExhausted(s.tx.operation)
	}
}

// survives reports whether the transaction may be run again if its backend is lost now: it
// certainly did not commit, and the log has all of it.
func (s *session) survives() bool {
	t := s.t
	return t.logs && !t.outcome.MayCommit() && !(t.rest > 0 && t.restUncounted) && s.tx.log.Replayable() && !s.onlyForSchema()
}

// replayAfterLoss runs the transaction again after the loss of its backend, or refuses that
// for a reason that is told as such. clientErr is what the client is told if it comes to
// nothing. The backend is dropped here.
func (s *session) replayAfterLoss(clientErr *wire.Error, reason retry.Reason) error {
	t := s.t
	if t.original == nil {
		t.original, t.after = clientErr.Append(nil), 'I'
		if s.inBlock() {
			t.after = 'E'
		}
	}
	t.torn = t.torn || t.rest > 0 && !t.restSwallow && t.streams
	t.reads = clientErr.Message == errReadLost.Message && t.believed
	s.dropBackend(reservoir.Broken)
	s.noteAttempt(retry.BackendLost, reason)
	t.fail(reason)
	t.stand = inTurn
	return s.resolve()
}

// resolve makes attempts until one has come as far as its client has, or tells the client
// why there are no more. It needs a turn whose phase is aborting. With nil the turn goes on
// with a backend that stands where the client believes it, or the turn has settled, or its
// rest is skipped; t.original keeps the first error for attempts to come.
func (s *session) resolve() error {
	t := s.t
	defer s.returnWitness()
	for t.phase == aborting {
		s.returnWitness()
		// Output that was let go is delivered, and the next attempt has to answer it again.
		if t.streams {
			if err := s.flushDown(); err != nil {
				return err
			}
			s.tx.log.Delivered()
		}
		s.withheld.Drop() // of the attempt that has failed
		if err := s.abortAttempt(); err != nil {
			return err
		}
		if t.abandoned() {
			return nil
		}
		if !s.holdsOn() {
			t.refusal = retry.Pinned
		}
		if t.refusal == retry.Replayable && !s.mayRunAgain() {
			t.refusal = retry.Pinned
		}
		if t.refusal == retry.Replayable {
			if err := s.reacquire(); err != nil {
				return err
			}
		}
		if t.refusal == retry.Replayable && !s.tx.log.Rewind() {
			t.refusal = s.tx.log.Refused()
		}
		if t.refusal != retry.Replayable {
			return s.refuseReplay()
		}
		if err := s.move(resumed); err != nil {
			return err
		}
		t.phase, t.stand = live, inTurn
		err := s.rerun()
		var gone *lostError
		if errors.As(err, &gone) && !gone.silent && s.survives() {
			s.noteLost(gone, lostWhenReplaying)
			reason := s.judge(retry.BackendLost, 0)
			s.noteAttempt(retry.BackendLost, reason)
			s.dropBackend(reservoir.Broken)
			t.fail(reason)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refuseReplay tells the client the original error, with the reason; or that it cancelled
// the statement, or that it timed out. The backend is rolled back and given back, unless functions have left something there, and the
// session stands where the original error leaves it: in a failed block, or in none. With
// nil the turn is over, or its rest is skipped.
func (s *session) refuseReplay() error {
	t, untold := s.t, s.untoldNames(s.t.undos)
	s.noteRefusal(t.refusal)
	if t.torn && t.halved() {
		return fmt.Errorf("%w: %w", errClientGone, errHalfRow)
	}
	diff, drew := s.difference()
	var told []byte
	switch {
	case t.refusal == retry.Cancelled:
		told = s.stoppedBy(errCanceled)
	case t.refusal == retry.TimedOut:
		told = s.stoppedBy(errTimedOut)
	case s.locksLost():
		told = s.partlyRefused(errLockLost).Append(nil)
	case drew && t.returns != "":
		told = errGenerated(t.returns, diff).Append(nil)
	case t.refusal == retry.Unchanged:
		told = t.original
	default:
		told = retry.AppendRefusal(nil, t.original, t.refusal.Detail(diff), s.retryHint())
	}
	told = append(t.ahead, told...)
	s.unpinForReplay()
	after := t.after
	held := s.staysHeld(after)
	if s.b != nil && !held {
		s.stopWaiting()
		s.rollBack(s.b.exchange)
		held = s.foundStays(after)
	}
	if s.b != nil && !held {
		s.giveBack()
	}
	s.takeBack(append(t.undos, untold...))
	s.nothingRuns()
	s.forgetTurn()
	e := lost
	switch {
	case held:
		e = settledHeld
	case after != 'I':
		e = lostInBlock
	}
	if err := s.move(e); err != nil {
		return err
	}
	t.errorTold = true
	if err := s.passSpan(told); err != nil {
		return err
	}
	if !t.ended {
		t.skip = true
		return s.flushDown() // the client may wait for it
	}
	return s.ready()
}

// difference is where a replay that was refused has answered otherwise, in the transaction or in a
// part that it has discarded; drew is drewAgain's, for a return to a savepoint.
func (s *session) difference() (diff retry.Difference, drew bool) {
	t := s.t
	switch {
	case t.refusal != retry.Differs:
	case t.apart != nil:
		diff, drew = t.apart.diff, t.apart.drew
	default:
		diff = s.tx.log.Difference()
		drew = t.returns != "" && s.drewAgain(diff)
	}
	return diff, drew
}

// forgetTurn forgets what the backend of a turn owed, and its transaction. The session has
// no backend any more. The caller sees to what the client is told, and where it stands.
func (s *session) forgetTurn() {
	t := s.t
	s.endTransaction(false)
	s.schemaCommitted() // nobody knows
	s.schemaSettled(false)
	s.settings.Staged.Rollback()
	s.txParsing = settings.Parsing{}
	s.closePortals()
	t.owed.reset()
	t.up.Reset()
	t.partial, t.stop, t.copying, t.touched = partial{}, nil, false, false
	t.logs, t.outcome, t.ownTx = false, outcome.Outcome{}, ownBlock{}
	t.attempt = attempt{}
}
