package proxy

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
)

// This file handles the loss of a backend during a turn. The transaction is replayed, or the client gets an error.
// recovered calls backendLost for each loss. idleLost (copy.go) handles losses between turns, applysettings.go those
// while settings are applied.

// backendLost replays the transaction if it certainly did not commit. Otherwise the client gets an error that says what
// may have become of it. After nil, the turn is settled or continues: with another backend, or by skipping frames. A
// dedicated session ends with its backend.
func (s *session) backendLost(gone *lostError) error {
	t := s.t
	if s.dedicated {
		return s.dedicatedLost(gone)
	}
	s.hearFarewell(gone)
	clientErr, when := gone.toldOfLoss(s.lossTold()), "transaction"
	if clientErr != nil && clientErr.Code == errUnknownOutcome.Code {
		when = "unknown_outcome"
	}
	s.noteLost(gone, when)
	// Only the ReadyForQuery is missing, so the settings of the turn are committed or dropped as usual.
	if clientErr == nil {
		s.settleSettings(t.errorTold)
	} else if !gone.silent && s.survives() {
		reason := s.judge(retry.BackendLost, 0)
		if reason == retry.Replayable || reason == retry.Cancelled || t.original != nil {
			return s.replayAfterLoss(clientErr, reason)
		}
		s.noteRefusal(reason)
	}
	return s.abandon(clientErr, gone.reason())
}

// wordless reports whether the connection ended without a message from the server or its host. Other idle connections
// may be dead in the same way.
func (e *lostError) wordless() bool {
	return e.silent || e.err == errDeadPath || errors.Is(e.err, syscall.ETIMEDOUT) || isTimeout(e.err)
}

// reason returns why the backend is discarded.
func (e *lostError) reason() reservoir.Reason {
	if e.silent {
		return reservoir.Silent
	}
	return reservoir.Broken
}

// lossTold returns the error that the client gets for the loss of its backend, or nil if only the ReadyForQuery is
// missing. The order matters: a possible commit comes first, since every other error would then be wrong.
func (s *session) lossTold() *wire.Error {
	t := s.t
	switch o := &t.outcome; {
	case t.batches != nil:
		return t.batches.Lost(errUnknownOutcome)
	case o.Unknown() || s.tx.job.Held() || t.settled: // a job: see settleJob
		return errUnknownOutcome
	case t.refused != nil && !t.owed.empty() && t.owed.first().reply == t.refused: // all earlier replies have arrived
		return t.refused.err
	case s.concluded():
		return nil
	case o.Ended():
		return errRestLost
	case s.inBlock() || o.Loses():
		return errBackendLost
	}
	return errReadLost
}

// concluded reports whether the client needs nothing more from the backend. All answers have arrived, and no
// transaction is open, or the client knows that it failed.
func (s *session) concluded() bool {
	return s.t.undoesOwn() || s.allAnswered() && (s.t.errorTold || !s.inBlock() && !s.t.ownTx.on)
}

// allAnswered reports whether only a ReadyForQuery is missing, or nothing until the Sync after an error.
func (s *session) allAnswered() bool {
	t := s.t
	if t.phase != live || t.rest > 0 {
		return false
	}
	if t.skip && t.errorTold && t.owed.empty() {
		return true
	}
	if !t.ended || t.owed.len() != 1 {
		return false
	}
	kind := t.owed.first().kind
	return kind == wire.Sync || kind == wire.Query && t.outcome.Concluded()
}

// lostWhenReplaying is the metric's name for a loss during a replay, of which the client learns nothing.
const lostWhenReplaying = metrics.LostReplaying

// noteLost counts and logs the loss of a backend. After a wordless loss it has the reservoir check its idle backends.
// when names the turn's outcome in the metric.
func (s *session) noteLost(gone *lostError, when string) {
	if gone.wordless() {
		s.srv.backends.Suspect()
	}
	s.hears(gone.err)
	s.srv.metrics.BackendLost(when)
	s.srv.log.Warn("backend lost in a turn", append(s.logAttrs(), "outcome", when, "error", gone.err)...)
}

// abandon drops the backend during a turn and sends the client e; nil means that the turn succeeded. The turn is then
// over, or its other frames are skipped, and the client's block has failed. After half a row no error can be sent, and
// the session ends instead.
func (s *session) abandon(e *wire.Error, why reservoir.Reason) error {
	t := s.t
	if s.midRow() {
		return fmt.Errorf("%w: %w", errClientGone, errHalfRow)
	}
	// After COMMIT or ROLLBACK the client's block is over, whatever its outcome.
	inBlock := s.inBlock()
	// During a replay the backend's state differs from the client's. after is the status that the client knows.
	if t.original != nil && e != nil {
		inBlock = t.after != 0 && t.after != 'I' || t.after == 0 && inBlock
	}
	if t.rest > 0 || t.phase == aborting {
		s.withheld.Drop()
	}
	if e == nil { // the turn succeeded, and its settings become the session's
		s.commitSettings()
	}
	if e != nil {
		s.takeBack(append(t.owed.lost(), t.undos...))
	}
	if s.b != nil {
		s.dropBackend(why)
	}
	s.losePin()
	s.nothingRuns()
	s.forgetTurn()
	ev := lost
	if inBlock {
		ev = lostInBlock
	}
	if err := s.move(ev); err != nil {
		return err
	}
	if e != nil {
		t.errorTold = true
		s.say(e)
	}
	if !t.ended {
		t.skip = true
		return nil
	}
	return s.ready()
}

// midRow reports whether the client has half a row. It would read an error as the other half.
func (s *session) midRow() bool {
	t := s.t
	return (t.torn || t.rest > 0 && !t.restSwallow && t.phase != aborting && !s.holding()) && t.halved()
}

// halved reports whether the client has half of a frame. The answer of a silent nested turn never reaches the client.
func (n *nested) halved() bool { return n.own == nil || n.own.Cut() }

// cutShort ends a turn when Sluice closes the session, as at the end of a drain. If the transaction may have committed,
// the client must not get FATAL, after which database/sql resends the statement. It gets the error of a lost backend.
// Otherwise nothing of the turn is applied, and FATAL is right.
func (s *session) cutShort() error {
	if s.midRow() {
		return fmt.Errorf("%w: %w", errCut, errHalfRow)
	}
	if s.dedicated || s.b == nil {
		return errCut
	}
	told := s.lossTold()
	if told == errBackendLost || told == errReadLost {
		return errCut
	}
	s.t.orphan = s.b.conn
	if err := s.abandon(told, reservoir.ClientGone); err != nil {
		return err
	}
	return errCut
}

// takeBack restores the client's statement names after an error. undos are in order, the newest first.
func (s *session) takeBack(undos []undo) {
	s.dropParsed()
	for _, u := range undos {
		s.setStatement(u.name, u.prev)
	}
}

// stopBackend asks the server to cancel the running statement before Sluice closes the connection. Closing alone lets
// the statement run on with its locks. It waits until the server takes the request. A failure is only logged.
func (s *session) stopBackend() {
	if s.b != nil {
		s.askToStop(s.b.conn)
	}
}

// askToStop asks the server to cancel what runs on conn, which no longer belongs to the session.
func (s *session) askToStop(conn *reservoir.Conn) {
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
