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

// The loss of a backend in the middle of a turn: is the transaction run again, and if not,
// what is the client told, and where does it stand? recovered calls backendLost with each
// loss. Losses between turns are in copy.go (idleLost), those while settings are applied in
// applysettings.go.

// backendLost answers the loss of a backend in the middle of a turn: by a replay, where the
// transaction certainly did not commit, or by an error that says what may have become of
// it. With nil the turn goes on (with another backend, or with frames that are skipped) or
// has settled. A dedicated session ends with its backend.
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
	// Nothing but ReadyForQuery was missing: what was set is kept, or not, as at one.
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

// wordless reports whether neither the server nor its host has said that the connection
// ends: others may have ended in the same way.
func (e *lostError) wordless() bool {
	return e.silent || e.err == errDeadPath || errors.Is(e.err, syscall.ETIMEDOUT) || isTimeout(e.err)
}

// reason is why the backend is discarded.
func (e *lostError) reason() reservoir.Reason {
	if e.silent {
		return reservoir.Silent
	}
	return reservoir.Broken
}

// lossTold is what the client is told of the loss of its backend; nil: all that it asked
// for was answered, and only the ReadyForQuery is missing. The order matters: what may have
// been committed comes first, since no other answer is true then.
func (s *session) lossTold() *wire.Error {
	t := s.t
	switch o := &t.outcome; {
	case t.chunks != nil:
		return t.chunks.lost()
	case o.Unknown() || s.tx.job.Held() || t.settled: // a job: see settleJob
		return errUnknownOutcome
	case t.refused != nil && !t.owed.empty() && t.owed.first().reply == t.refused: // all that was before it is answered
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

// concluded reports whether the client can do without the backend: it has its answers, and no
// transaction goes on that was not told to have failed.
func (s *session) concluded() bool {
	return s.t.undoesOwn() || s.allAnswered() && (s.t.errorTold || !s.inBlock() && !s.t.ownTx.on)
}

// allAnswered reports whether all that is owed is a ReadyForQuery, or nothing in front of the
// Sync behind an error.
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

// lostWhenReplaying is the loss of a backend that no client is told of.
const lostWhenReplaying = metrics.LostReplaying

// noteLost counts and logs a loss in a turn, and has the reservoir suspect the others where
// it was wordless; when says what became of the turn.
func (s *session) noteLost(gone *lostError, when string) {
	if gone.wordless() {
		s.srv.backends.Suspect()
	}
	s.hears(gone.err)
	s.srv.metrics.BackendLost(when)
	s.srv.log.Warn("backend lost in a turn", append(s.logAttrs(), "outcome", when, "error", gone.err)...)
}

// abandon drops the backend in the middle of a turn and tells the client e (nil: that the
// turn succeeded), so that its connection lives on. The turn has ended then, or the rest of
// its frames is skipped; a block that the client is in has failed. The session ends instead
// where the client has half a row, behind which no error can stand.
func (s *session) abandon(e *wire.Error, why reservoir.Reason) error {
	t := s.t
	if s.midRow() {
		return fmt.Errorf("%w: %w", errClientGone, errHalfRow)
	}
	// Behind COMMIT or ROLLBACK no client rolls back, whatever became of it.
	inBlock := s.inBlock()
	// In an attempt to run the transaction again the server stood elsewhere: after is where
	// the client stands.
	if t.original != nil && e != nil {
		inBlock = t.after != 0 && t.after != 'I' || t.after == 0 && inBlock
	}
	if t.rest > 0 || t.phase == aborting {
		s.withheld.Drop()
	}
	if e == nil { // it is done, and what it set is the session's
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

// midRow reports whether the client has half a row: what it is told then it takes for the
// other half.
func (s *session) midRow() bool {
	t := s.t
	return (t.torn || t.rest > 0 && !t.restSwallow && t.phase != aborting && !s.holding()) && t.halved()
}

// halved reports whether the client has the half of a frame that was let go: of a silent turn's answer it has
// none, which is dropped here.
func (n *nested) halved() bool { return n.own == nil || n.own.Cut() }

// cutShort is the end of a turn that is cut. A transaction that may be committed, or is, must
// not meet the FATAL error that ends the session: that says that it is not, and database/sql
// sends it again by itself. It meets the error of a lost backend, and the session ends as
// between two turns. Elsewhere nothing of the turn is applied, and FATAL is right.
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

// takeBack undoes changes of the client's statements that it was told have failed, in the
// order given: the newest first.
func (s *session) takeBack(undos []undo) {
	s.dropParsed()
	for _, u := range undos {
		s.setStatement(u.name, u.prev)
	}
}

// stopBackend asks the server to stop what it is doing before its connection is dropped:
// closing a socket alone lets a running statement keep its locks. It waits for the server
// to take the request, and is of no consequence when that fails.
func (s *session) stopBackend() {
	if s.b != nil {
		s.askToStop(s.b.conn)
	}
}

// askToStop is stopBackend for a backend that is the session's no more: the server knows it
// until its statement ends.
func (s *session) askToStop(conn *reservoir.Conn) {
	if !s.srv.cfg.ForwardCancel {
		return
	}
	parent, limit := s.srv.ctx, exchangeTimeout
	if parent.Err() != nil { // all are cut
		parent, limit = context.Background(), lastRequestWait
	}
	ctx, stop := context.WithTimeout(parent, limit)
	defer stop()
	if err := s.srv.sendCancel(ctx, conn); err != nil {
		s.srv.log.Debug("asking a server to stop", append(s.logAttrs(), "error", err)...)
	}
}
