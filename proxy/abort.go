package proxy

import (
	"errors"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
)

// This file ends a failed attempt of a transaction at the backend and drops the server's answers, before a replay.

// isAbandoned reports whether Sluice gave the turn up while the session waited for the backend. The client has got an
// error, and Sluice does not replay the transaction.
func (t *turn) isAbandoned() bool { return t.attempt.originalError == nil }

// isAttemptOver reports whether Sluice sends nothing more in this attempt: it has failed, or Sluice gave the turn up.
func (t *turn) isAttemptOver() bool { return t.rec.phase == phaseAborting || t.isAbandoned() }

// abortAttempt ends a failed attempt of a transaction. It brings the backend to ReadyForQuery and drops the server's
// answers. It discards a backend that is lost meanwhile, or whose Sync might commit, which aborts the transaction
// too. t.attempt.statusAfter gets the transaction status that the client would see now. An error ends the session.
func (s *session) abortAttempt() error {
	t := s.t
	tolerated := func(err error) error {
		var gone *lostError
		if !errors.As(err, &gone) {
			return err
		}
		// A lost backend is no error here: the server aborts a transaction whose connection is lost.
		s.recordLoss(gone, lossDuringReplay)
		s.dropBackend(reservoir.Broken)
		return nil
	}
	if s.b != nil && s.t.mightSyncCommit() {
		s.dropBackend(reservoir.Unclean)
	}
	if s.b != nil {
		if err := s.syncToReady(); err != nil {
			if err := tolerated(err); err != nil {
				return err
			}
		}
	}
	if t.isAbandoned() {
		return nil
	}
	if t.attempt.statusAfter == 0 {
		t.attempt.statusAfter = 'I'
		if s.b != nil && !t.server.internalTx.open {
			t.attempt.statusAfter = s.b.status
		} else if s.b == nil && s.inBlock() {
			t.attempt.statusAfter = 'E'
		}
	}
	if t.sent.uplink != nil {
		s.t.closeWriter() // a failed write belonged to the turn that is over
		t.sent.flushed = 0
	}
	if s.b == nil {
		t.attempt.undos = append(t.owed.pendingNameUndos(), t.attempt.undos...)
	}
	t.owed.reset()
	t.up.Reset()
	t.partial = partialFrames{}
	return nil
}

// mightSyncCommit reports whether the Sync that abortAttempt would send might commit the failed attempt's statements.
// It might if the Sync group (frames up to a Sync) is outside a block and has not failed at the server.
func (t *turn) mightSyncCommit() bool {
	q := &t.owed
	synced := !q.empty() && q.items[len(q.items)-1].endsWithReady()
	return t.server.outcome.WouldSyncCommit() && t.attempt.serverAt == midTurn && !synced
}

// syncToReady sends the missing Sync and reads the backend's frames up to ReadyForQuery. The client gets none of
// them. After a frame that failed, the server skips further frames up to the Sync, even a Query.
func (s *session) syncToReady() error {
	t := s.t
	if t.attempt.serverAt == atReady {
		return s.awaitWriter()
	}
	if t.attempt.serverAt == skippingToSync {
		undos := t.owed.dropSkipped(s.b.forgetSkipped)
		t.attempt.undos = append(undos, t.attempt.undos...)
	}
	q := &t.owed
	switch {
	case q.empty() || !q.items[len(q.items)-1].endsWithReady():
		q.push(wire.Sync)
		s.t.addToBatch(wire.FrameSync)
	case t.attempt.serverAt == skippingToSync && q.first().kind == wire.Query && !q.first().done:
		*q.first() = pendingReply{kind: wire.Sync} // the server skips the Query too
		s.t.addToBatch(wire.FrameSync)
	}
	if err := s.flushToBackend(); err != nil {
		return err
	}
	if err := s.awaitWriter(); err != nil {
		return err
	}
	for t.attempt.serverAt != atReady && !t.isAbandoned() {
		if err := s.readAndRelay(); err != nil {
			return err
		}
	}
	return nil
}
