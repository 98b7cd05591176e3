package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/ddltx"
	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/outcome"
	"github.com/sluice-proxy/sluice/proxy/recorded"
	"github.com/sluice-proxy/sluice/proxy/serversettings"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
)

// This file decides whether a transaction that met a conflict or lost its backend runs again (decideReplay).
// runAttempts loops over the attempts; refuseReplay sends the error. An attempt's steps are in abort.go, reacquire.go
// and resend.go, its log in replaylog.go. docs/replay.md states the guarantees.

// keepBackendUnder is the shortest pause for which a replay returns its backend, so that other sessions may use it.
const keepBackendUnder = 200 * time.Millisecond

// attemptPhase says where the backend's answers go during a replay: to the client, only to the log, or nowhere.
type attemptPhase uint8

const (
	phaseLive      attemptPhase = iota // the client
	phaseRepeating                     // the log, which compares the answers of settled turns with the first ones
	phaseAborting                      // nobody: the attempt has failed, until the next one begins or the client gets an error
)

// serverPosition says how far the server has come in a replayed turn whose answers the client does not get.
type serverPosition uint8

const (
	midTurn        serverPosition = iota
	skippingToSync                // the server skips frames up to a Sync
	atReady                       // a ReadyForQuery came that is not the client's
)

// replayAttempt is the part of a turn that concerns a replay of its transaction. The zero value is a turn without a
// conflict. originalError is set from the first conflict until the client needs no error for it.
type replayAttempt struct {
	serverAt serverPosition
	// halfRowLost means that the client has the first part of a row, and the rest was lost with the backend.
	halfRowLost bool
	// originalError is the client's error if the replay fails. statusAfter is the transaction status after that error.
	originalError []byte
	statusAfter   byte
	// answersBefore are the answers that the client gets before originalError, if that error is about an unknown name.
	// Such a name may be the client's mistake. For other errors it is nil. acksBefore is the number of acknowledgements
	// in answersBefore, such as ParseComplete.
	answersBefore []byte
	acksBefore    int
	refusal       retry.RefusalReason // why no further attempt is made
	// renewed means that the replay's last attempt failed because of a schema change that its backend now knows.
	renewed bool
	pause   time.Duration
	// forRollbackTo means that a ROLLBACK TO caused the replay, which does not queue for contended rows. returnSavepoint
	// is the savepoint's name until the replay has reached that savepoint.
	forRollbackTo   bool
	returnSavepoint string
	undos           []nameUndo
	// keeping says which values of the client's answers (now() and the like) the attempt repeats. keepsLast means that
	// the turn in progress does too.
	keeping   recorded.Repeatable
	keepsLast bool
	// keepingWhole has keeping for the whole transaction, also during the replay of a part that ROLLBACK TO discarded.
	keepingWhole recorded.Repeatable
	// lostRead means that the backend was lost during a statement that only reads, by what Sluice knows of the schema.
	lostRead bool
	// discardedDiff says how the replay's answers to a discarded part (after ROLLBACK TO) differ. nil means no difference.
	discardedDiff *discardedDiff
}

// abandonAttempt ends an attempt of a replay. The caller returns to runAttempts. A reason other than
// retry.Replayable forbids further attempts.
func (t *turn) abandonAttempt(reason retry.RefusalReason) {
	t.rec.phase, t.attempt.refusal = phaseAborting, reason
}

// decideReplay decides whether the transaction may be replayed, and charges the attempt to its policy and to the
// process's budget. It sets t.attempt.pause. If the result is not retry.Replayable, there is no replay, and the
// caller counts the refusal. The parameter crowd is how many transactions of this process wait for the same rows.
func (s *session) decideReplay(cause retry.ReplayCause, crowd int) retry.RefusalReason {
	r, l := s.srv.pool.replays, s.tx.log
	switch {
	case !l.Replayable():
		return l.RefusalReason()
	case s.tx.pin.ReplaysOnlyForSchema() && cause != retry.SchemaConflict:
		return retry.Pinned
	case s.waits.IsCancelRequested():
		return retry.Cancelled
	case s.srv.draining.Load():
		return retry.Draining
	// The log lacks the parts of answers that Sluice hid from the client, so a replay could not compare them.
	case s.t.output.hidesAnswers && !l.HasDeliveredNothing():
		return retry.Masked
	}
	if s.t.attempt.originalError == nil {
		s.tx.attempts.StartRequest(time.Now())
	}
	pause, reason := s.tx.attempts.NextDelay(&r.cfg.Policy, cause, time.Now(), rand.Float64(), crowd)
	// Two kinds of replay charge no budget. If the server only wants a statement in another form, or prepared again, no
	// other transaction is in the way. If the gate (the queue for contended rows) had let the transaction through, it
	// limits the number of replays.
	gated := s.tx.gated && cause.IsRowContention()
	if reason == retry.Replayable && cause.MayConflict() && !gated && !r.budget.Take() {
		reason = retry.OverBudget
	}
	s.t.attempt.pause = pause
	return reason
}

// handleConflict handles the server's conflict error, or an error after which Sluice can retry with a differently
// written statement. frame is the error; whole means that frame is complete. again reports that the attempt has
// failed and runAttempts must go on. Otherwise the client has the error, with the reason for no replay.
func (s *session) handleConflict(cause retry.ReplayCause, frame []byte, whole bool) (again bool, err error) {
	t, r := s.t, s.srv.pool.replays
	crowd := 0
	if cause.IsRowContention() {
		s.tx.hadRowConflict, s.tx.gated = true, s.tx.pass.IsHeld()
		crowd = s.tx.pass.RecordConflict()
	}
	if cause.MayConflict() && cause != retry.BackendLost {
		s.srv.metrics.CountTxConflict(s.tx.operation)
		if n, over := r.alert.RecordConflict(time.Now()); over {
			s.srv.log.Warn("many conflicts", "in_a_minute", n, "alert_threshold_conflicts_per_minute", s.srv.cfg.AlertConflictsPerMinute)
		}
	}
	reason := s.decideReplay(cause, crowd)
	// The client gets the first attempt's error, and never a later attempt's.
	if t.attempt.originalError == nil {
		// After a cancel, refuseReplay sends the error once runAttempts has waited until the server is idle.
		if reason != retry.Replayable && reason != retry.Cancelled {
			s.countReplayRefusal(reason)
			if err := s.sendDelayedTag(); err != nil {
				return false, err
			}
			if whole {
				frame = retry.AppendErrorWithHint(nil, frame, reason.Detail(retry.ReplayDifference{}), ddltx.RetryHint(s.committedStatements()))
			}
			return false, s.sendOrWithhold(frame)
		}
		t.attempt.originalError = bytes.Clone(frame)
		if cause == retry.UnknownName {
			t.attempt.answersBefore, t.attempt.acksBefore = s.withheld.Bytes(), s.tx.log.UnhashedReceived()
		}
	}
	s.countReplay(cause, reason)
	s.pin.UnpinForReplay(&s.t.request.pin, &s.tx.pin, s.srv.pins)
	t.abandonAttempt(reason)
	s.tx.job.Clear()
	t.attempt.serverAt, t.attempt.renewed = skippingToSync, cause == retry.SchemaConflict
	return true, nil
}

// failOnDifference ends the attempts because an answer differs from the answer that the client has. The reason is
// retry.Differs, unless the client has cancelled or the log has another reason against a replay.
func (l *link) failOnDifference() {
	t := l.t
	t.abandonAttempt(retry.Differs)
	if t.attempt.serverAt == skippingToSync {
		t.attempt.serverAt = midTurn
	}
	if why := l.tx.log.RefusalReason(); why != retry.Replayable {
		t.attempt.refusal = why
	}
	if l.waits.IsCancelRequested() { // the cancel's error is the answer that differs
		t.attempt.refusal = retry.Cancelled
	}
}

// countReplay counts a replay of the transaction in the metrics, by cause.
func (s *session) countReplay(cause retry.ReplayCause, reason retry.RefusalReason) {
	if reason == retry.Replayable {
		s.srv.metrics.CountTxRetry(s.tx.operation, cause.String(), s.tx.attempts.Count())
	}
}

// countReplayRefusal counts a refused replay in the metrics.
func (s *session) countReplayRefusal(reason retry.RefusalReason) {
	s.srv.metrics.CountReplayRefusal(reason.String())
	if reason == retry.Exhausted {
		s.srv.metrics.CountTxExhausted(s.tx.operation)
	}
}

// canReplayAfterLoss reports whether the transaction can be replayed if its backend is lost now. The transaction must
// not have committed, and its log must be complete.
func (t *turn) canReplayAfterLoss() bool {
	return t.rec.logs && !t.server.outcome.MayCommit() && !(t.partial.rest > 0 && t.partial.restUncounted) && t.rec.tx.log.Replayable() && !t.rec.tx.pin.ReplaysOnlyForSchema()
}

// replayAfterLoss drops the lost backend and replays the transaction. If reason is not retry.Replayable, or no attempt
// succeeds, the client gets clientErr with the reason.
func (s *session) replayAfterLoss(clientErr *wire.Error, reason retry.RefusalReason) error {
	t := s.t
	if t.attempt.originalError == nil {
		t.attempt.originalError, t.attempt.statusAfter = clientErr.Append(nil), 'I'
		if s.inBlock() {
			t.attempt.statusAfter = 'E'
		}
	}
	t.attempt.halfRowLost = t.attempt.halfRowLost || t.partial.rest > 0 && !t.partial.restSwallow && t.rec.streams
	t.attempt.lostRead = clientErr.Message == sqlerror.ReadLost.Message && t.readBySchema
	s.dropBackend(reservoir.Broken)
	s.countReplay(retry.BackendLost, reason)
	t.abandonAttempt(reason)
	t.attempt.serverAt = midTurn
	return s.runAttempts()
}

// runAttempts makes attempts until one has come as far as the client had, or sends the client why there is none.
// t.rec.phase must be phaseAborting. If the result is nil, the turn continues with a backend in the state that the
// client expects, is over, or skips frames. t.attempt.originalError holds the first error for later attempts.
func (s *session) runAttempts() error {
	t := s.t
	defer s.returnVerifyBackend()
	for t.rec.phase == phaseAborting {
		s.returnVerifyBackend()
		// The client gets the output so far, which Sluice can no longer withhold. So the next attempt must repeat it.
		if t.rec.streams {
			if err := s.flushBuffered(); err != nil {
				return err
			}
			s.tx.log.RecordDelivered()
		}
		s.withheld.Drop() // withheld output of the failed attempt
		if err := s.abortAttempt(); err != nil {
			return err
		}
		if t.isAbandoned() {
			return nil
		}
		if !s.hasPinnedBackend() {
			t.attempt.refusal = retry.Pinned
		}
		if t.attempt.refusal == retry.Replayable {
			t.attempt.refusal = s.srv.observers.replayReason(s)
		}
		if t.attempt.refusal == retry.Replayable {
			if err := s.reacquireBackend(); err != nil {
				return err
			}
		}
		if t.attempt.refusal == retry.Replayable && !s.tx.log.BeginReplay() {
			t.attempt.refusal = s.tx.log.RefusalReason()
		}
		if t.attempt.refusal != retry.Replayable {
			return s.refuseReplay()
		}
		if err := s.applyEvent(resumed); err != nil {
			return err
		}
		t.rec.phase, t.attempt.serverAt = phaseLive, midTurn
		err := s.rerunTransaction()
		var gone *lostError
		if errors.As(err, &gone) && !gone.silent && s.t.canReplayAfterLoss() {
			s.recordLoss(gone, lossDuringReplay)
			reason := s.decideReplay(retry.BackendLost, 0)
			s.countReplay(retry.BackendLost, reason)
			s.dropBackend(reservoir.Broken)
			t.abandonAttempt(reason)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refuseReplay sends the client the original error and why there is no replay, or the error of a cancel or timeout.
// It rolls the backend back and returns it, unless functions have left state on it. Afterwards the session is in a
// failed block or in none, as after the original error. The turn is over, or skips frames.
func (s *session) refuseReplay() error {
	t, untold := s.t, s.t.unansweredNameUndos(s.t.attempt.undos)
	s.countReplayRefusal(t.attempt.refusal)
	if t.attempt.halfRowLost && t.nested.hasHalfFrame() {
		return fmt.Errorf("%w: %w", errClientGone, errHalfRow)
	}
	diff, drew := s.t.replayDifference()
	var told []byte
	switch lost := s.srv.observers.loss(s); {
	case t.attempt.refusal == retry.Cancelled:
		told = s.encodeStopError(interrupt.ErrCanceled)
	case t.attempt.refusal == retry.TimedOut:
		told = s.encodeStopError(interrupt.ErrTimedOut)
	case lost != nil:
		told = ddltx.ReplaceConflict(lost.statement, s.committedStatements()).Append(nil)
	case drew && t.attempt.returnSavepoint != "":
		told = block.ErrValuesRegenerated(t.attempt.returnSavepoint, diff).Append(nil)
	case t.attempt.refusal == retry.Unchanged:
		told = t.attempt.originalError
	default:
		told = retry.AppendErrorWithHint(nil, t.attempt.originalError, t.attempt.refusal.Detail(diff), ddltx.RetryHint(s.committedStatements()))
	}
	told = append(t.attempt.answersBefore, told...)
	s.pin.UnpinForReplay(&s.t.request.pin, &s.tx.pin, s.srv.pins)
	after := t.attempt.statusAfter
	held := s.keepPinAfterRefusal(after)
	if s.b != nil && !held {
		s.waits.End()
		s.rollBackOrDrop(s.b.exchange)
		held = s.pinForLeftState(after)
	}
	if s.b != nil && !held {
		s.releaseOrDropBackend()
	}
	s.undoStatementNames(append(t.attempt.undos, untold...))
	s.waits.Abandon()
	s.dropFailedTurn()
	e := lost
	switch {
	case held:
		e = settledHeld
	case after != 'I':
		e = lostInBlock
	}
	if err := s.applyEvent(e); err != nil {
		return err
	}
	t.server.errorTold = true
	if err := s.sendOrWithhold(told); err != nil {
		return err
	}
	if !t.request.ended {
		t.server.skip = true
		return s.flushBuffered() // the client may wait for the error
	}
	return s.endTurnLocally()
}

// replayDifference returns where a refused replay answered differently, in the transaction or in a discarded part.
// drew reports, for a ROLLBACK TO, whether the difference may be values that the server generated again.
func (t *turn) replayDifference() (diff retry.ReplayDifference, drew bool) {
	switch {
	case t.attempt.refusal != retry.Differs:
	case t.attempt.discardedDiff != nil:
		diff, drew = t.attempt.discardedDiff.diff, t.attempt.discardedDiff.drew
	default:
		diff = t.rec.tx.log.Difference()
		drew = t.attempt.returnSavepoint != "" && t.rec.mayRegenerateValues(diff)
	}
	return diff, drew
}

// dropFailedTurn drops the pending replies of the turn, and its transaction. The session must have no backend. The
// caller sends the client the error and sets the session's state.
func (s *session) dropFailedTurn() {
	t := s.t
	s.endTransaction(false)
	s.invalidateSchemaCache() // unknown, so assume that it was
	s.endSchemaChange(false)
	s.settings.Staged.Rollback()
	s.txParsing = serversettings.TxParsing{}
	closePortals(s)
	t.owed.reset()
	t.up.Reset()
	t.partial, t.output.stop, t.server.copying, t.touched = partialFrames{}, nil, false, false
	t.rec.logs, t.rec.phase, t.attempt = false, phaseLive, replayAttempt{}
	t.server.outcome, t.server.internalTx = outcome.Outcome{}, internalBlock{}
}
