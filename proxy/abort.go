package proxy

import (
	"errors"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
)

// abortAttempt ends a failed attempt of a transaction at the backend, and drops the server's answers. resolve calls it
// before it decides about a replay.

// abandoned reports whether the turn was given up while the session waited for the backend. The client then has its
// error, and nothing is left to replay.
func (t *turn) abandoned() bool { return t.original == nil }

// attemptOver reports whether this attempt sends nothing more: it has failed, or the turn was given up.
func (t *turn) attemptOver() bool { return t.phase == aborting || t.abandoned() }

// abortAttempt brings the backend to ReadyForQuery and drops the server's answers. A backend that is lost meanwhile, or
// whose Sync would commit, is discarded, which aborts the transaction too. t.after records the status that the client
// would get now. An error ends the session.
func (s *session) abortAttempt() error {
	t := s.t
	tolerated := func(err error) error {
		var gone *lostError
		if !errors.As(err, &gone) {
			return err
		}
		// The loss of the connection has aborted the transaction.
		s.noteLost(gone, lostWhenReplaying)
		s.dropBackend(reservoir.Broken)
		return nil
	}
	if s.b != nil && s.syncCommits() {
		s.dropBackend(reservoir.Unclean)
	}
	if s.b != nil {
		if err := s.toReady(); err != nil {
			if err := tolerated(err); err != nil {
				return err
			}
		}
	}
	if t.abandoned() {
		return nil
	}
	if t.after == 0 {
		t.after = 'I'
		if s.b != nil && !t.ownTx.open {
			t.after = s.b.status
		} else if s.b == nil && s.inBlock() {
			t.after = 'E'
		}
	}
	if t.uplink != nil {
		s.closeUplink() // a failed write belonged to the turn that is over
		t.flushed = 0
	}
	if s.b == nil {
		t.undos = append(t.owed.lost(), t.undos...)
	}
	t.owed.reset()
	t.up.Reset()
	t.partial = partial{}
	return nil
}

// syncCommits reports whether a Sync that brings the backend to ReadyForQuery might commit. It might if the group is
// outside a block and has not failed at the server.
func (s *session) syncCommits() bool {
	t, q := s.t, &s.t.owed
	synced := !q.empty() && q.items[len(q.items)-1].boundary()
	return t.outcome.SyncCommits() && t.stand == inTurn && !synced
}

// toReady sends the missing Sync and reads up to ReadyForQuery. The client gets no answers. After failed frames the
// server skips a Query too, and sends no ReadyForQuery for it.
func (s *session) toReady() error {
	t := s.t
	if t.stand == atReady {
		return s.awaitUplink()
	}
	if t.stand == skips {
		undos := t.owed.failed(s.skipped)
		t.undos = append(undos, t.undos...)
	}
	q := &t.owed
	switch {
	case q.empty() || !q.items[len(q.items)-1].boundary():
		q.push(wire.Sync)
		s.add(wire.FrameSync)
	case t.stand == skips && q.first().kind == wire.Query && !q.first().done:
		*q.first() = owed{kind: wire.Sync} // the server skips the Query too
		s.add(wire.FrameSync)
	}
	if err := s.flushUp(); err != nil {
		return err
	}
	if err := s.awaitUplink(); err != nil {
		return err
	}
	for t.stand != atReady && !t.abandoned() {
		if err := s.pump(); err != nil {
			return err
		}
	}
	return nil
}
