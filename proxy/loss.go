package proxy

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
)

// This file handles the loss of a backend during a turn: the transaction is replayed, or the client gets an error.
// handleIdleLoss (copy.go) handles losses between turns, applysettings.go those while settings are applied.

// handleBackendLoss replays the transaction of a lost backend if that transaction certainly did not commit.
// Otherwise the client gets an error with the transaction's possible outcome. After nil, the turn is over, or
// continues with another backend, or skips its other frames. A dedicated session ends with its backend.
func (s *session) handleBackendLoss(gone *lostError) error {
	t := s.t
	if s.dedicated {
		return s.handleDedicatedLoss(gone)
	}
	s.readServerFatal(gone)
	clientErr, when := gone.withServerReason(s.backendLossError()), "transaction"
	if clientErr != nil && clientErr.Code == sqlerror.UnknownOutcome.Code {
		when = "unknown_outcome"
	}
	s.recordLoss(gone, when)
	// If clientErr is nil, the client has its answer, except ReadyForQuery. Settings are committed or dropped as usual.
	if clientErr == nil {
		s.settleSettings(t.server.errorTold)
	} else if !gone.silent && s.t.canReplayAfterLoss() {
		reason := s.decideReplay(retry.BackendLost, 0)
		if reason == retry.Replayable || reason == retry.Cancelled || t.attempt.originalError != nil {
			return s.replayAfterLoss(clientErr, reason)
		}
		s.countReplayRefusal(reason)
	}
	return s.abandonTurn(clientErr, gone.discardReason())
}

// endedWithoutMessage reports whether the backend's connection ended without a message from the server or its host.
// Other idle connections may be dead in the same way.
func (e *lostError) endedWithoutMessage() bool {
	return e.silent || e.err == errDeadPath || errors.Is(e.err, syscall.ETIMEDOUT) || isTimeout(e.err)
}

// discardReason returns the reason for which the metric counts the lost backend as discarded.
func (e *lostError) discardReason() reservoir.CloseReason {
	if e.silent {
		return reservoir.Silent
	}
	return reservoir.Broken
}

// backendLossError returns the error that the client gets for the loss of its backend, or nil if only the ReadyForQuery
// is missing. It checks first for a possible commit, after which every other error would be wrong.
func (s *session) backendLossError() *wire.Error {
	t := s.t
	switch o := &t.server.outcome; {
	case t.output.batches != nil:
		return t.output.batches.Lost(sqlerror.UnknownOutcome)
	case o.IsUnknown() || s.tx.job.HasHeldTag() || t.settled: // a job: see settleIndexJob
		return sqlerror.UnknownOutcome
	case t.output.refused != nil && !t.owed.empty() && t.owed.first().reply == t.output.refused: // all earlier replies have arrived
		return t.output.refused.err
	case s.needsNothingMore():
		return nil
	case o.HasEnded():
		return sqlerror.RestLost
	case s.inBlock() || o.WouldLoseWork():
		return sqlerror.BackendLost
	}
	return sqlerror.ReadLost
}

// needsNothingMore reports whether the client needs no more bytes from the backend. All answers must have arrived.
// The transaction must also be over, or the client must know that the transaction failed.
func (p *pairing) needsNothingMore() bool {
	return p.t.awaitsInternalRollback() || p.t.awaitsOnlyReady() && (p.t.server.errorTold || !p.inBlock() && !p.t.server.internalTx.on)
}

// awaitsOnlyReady reports whether only ReadyForQuery is missing, or after an error only the client's Sync.
func (t *turn) awaitsOnlyReady() bool {
	if t.rec.phase != phaseLive || t.partial.rest > 0 {
		return false
	}
	if t.server.skip && t.server.errorTold && t.owed.empty() {
		return true
	}
	if !t.request.ended || t.owed.len() != 1 {
		return false
	}
	kind := t.owed.first().kind
	return kind == wire.Sync || kind == wire.Query && t.server.outcome.IsConcluded()
}

// lossDuringReplay is the metric's name for the loss of a backend during a replay, which is hidden from the client.
const lossDuringReplay = metrics.LostReplaying

// recordLoss counts and logs the loss of a backend. If the connection ended without a message, the reservoir checks
// its idle backends. The parameter when names the turn's outcome in the metric.
func (s *session) recordLoss(gone *lostError, when string) {
	if gone.endedWithoutMessage() {
		s.srv.pool.backends.ProbeAllReady()
	}
	s.recordServerFatal(gone.err)
	s.srv.metrics.CountBackendLost(when)
	s.srv.log.Warn("backend lost in a turn", append(s.logAttrs(), "outcome", when, "error", gone.err)...)
}

// abandonTurn drops the backend during a turn and sends the client the error e. If e is nil, the turn succeeded.
// Otherwise the client's block has failed. The turn is over, or skips its other frames. After half a row Sluice
// cannot send an error, and ends the session instead.
func (s *session) abandonTurn(e *wire.Error, why reservoir.CloseReason) error {
	t := s.t
	if s.t.isMidRow() {
		return fmt.Errorf("%w: %w", errClientGone, errHalfRow)
	}
	// After COMMIT or ROLLBACK the client's block is over, whatever the outcome of the commit.
	inBlock := s.inBlock()
	// During a replay the backend's state differs, so statusAfter has the transaction status that the client knows.
	if t.attempt.originalError != nil && e != nil {
		inBlock = t.attempt.statusAfter != 0 && t.attempt.statusAfter != 'I' || t.attempt.statusAfter == 0 && inBlock
	}
	if t.partial.rest > 0 || t.rec.phase == phaseAborting {
		s.withheld.Drop()
	}
	if e == nil { // the turn succeeded, and its settings become the session's
		s.commitSettings()
	}
	if e != nil {
		s.undoStatementNames(append(t.owed.pendingNameUndos(), t.attempt.undos...))
	}
	if s.b != nil {
		s.dropBackend(why)
	}
	s.recordPinLoss()
	s.waits.Abandon()
	s.dropFailedTurn()
	ev := lost
	if inBlock {
		ev = lostInBlock
	}
	if err := s.applyEvent(ev); err != nil {
		return err
	}
	if e != nil {
		t.server.errorTold = true
		s.sendErrorNow(e)
	}
	if !t.request.ended {
		t.server.skip = true
		return nil
	}
	return s.endTurnLocally()
}

// isMidRow reports whether the client has got half a row, so that it would read an error as the second half.
func (t *turn) isMidRow() bool {
	return (t.attempt.halfRowLost || t.partial.rest > 0 && !t.partial.restSwallow && t.rec.phase != phaseAborting && !t.rec.isWithholding()) && t.nested.hasHalfFrame()
}

// hasHalfFrame reports whether the client has got half a frame. Answers of a silent nested turn never reach the client.
func (n *nestedTurn) hasHalfFrame() bool {
	return n.hiddenAnswer == nil || n.hiddenAnswer.DropIncomplete()
}

// endTurnOnCut ends a turn when Sluice closes the session, as at the end of a drain (shutdown). If the transaction
// may have committed, the client must not get FATAL, after which database/sql resends the statement. The client gets
// the error of a lost backend instead. If the transaction cannot have committed, the client gets FATAL.
func (s *session) endTurnOnCut() error {
	if s.t.isMidRow() {
		return fmt.Errorf("%w: %w", errCut, errHalfRow)
	}
	if s.dedicated || s.b == nil {
		return errCut
	}
	told := s.backendLossError()
	if told == sqlerror.BackendLost || told == sqlerror.ReadLost {
		return errCut
	}
	s.t.abandonedConn = s.b.conn
	if err := s.abandonTurn(told, reservoir.ClientGone); err != nil {
		return err
	}
	return errCut
}

// undoStatementNames restores the names of the client's prepared statements after an error, the newest undo first.
func (s *session) undoStatementNames(undos []nameUndo) {
	s.undoWaitingParse()
	for _, u := range undos {
		s.statements.Set(&s.memory.account, u.name, u.prev)
	}
}

// cancelOnBackend asks the server to cancel the running statement before Sluice closes the connection. If Sluice only
// closed the connection, the statement would run on with its locks. cancelOnBackend waits until the server has got
// the request. A failure is only logged.
func (s *session) cancelOnBackend() {
	if s.b != nil {
		s.cancelOnConn(s.b.conn)
	}
}

// cancelOnConn asks the server to cancel the statement that runs on conn, which no longer belongs to the session.
func (s *session) cancelOnConn(conn *reservoir.Conn) {
	if !s.srv.cfg.ForwardCancel {
		return
	}
	parent, limit := s.srv.ctx, exchangeTimeout
	if parent.Err() != nil { // the server is shutting down and all sessions are cut
		parent, limit = context.Background(), lastRequestWait
	}
	ctx, stop := context.WithTimeout(parent, limit)
	defer stop()
	if err := s.srv.sendCancel(ctx, conn); err != nil {
		s.srv.log.Debug("asking a server to stop", append(s.logAttrs(), "error", err)...)
	}
}
