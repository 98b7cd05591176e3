package proxy

import (
	"errors"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
)

// Abort: the attempt that has failed is brought to its end at the backend, and what it says
// is for nobody. resolve calls abortAttempt first of all.

// abandoned reports whether the turn was given up while the backend was waited for: then
// the client has been told, and nothing is left of the attempt.
func (t *turn) abandoned() bool { return t.original == nil }

// attemptOver reports whether nothing more is sent in this attempt: it has failed, or the
// turn was given up.
func (t *turn) attemptOver() bool { return t.phase == aborting || t.abandoned() }

// abortAttempt brings the backend to a ReadyForQuery, and forgets what it answers. A
// backend that is lost over it, or whose Sync would commit, is dropped: the transaction is
// aborted all the same. after is noted, where the client would stand if it were told now.
// An error is the session's end.
func (s *session) abortAttempt() error {
	t := s.t
	tolerated := func(err error) error {
		var gone *lostError
		if !errors.As(err, &gone) {
			return err
		}
		// The transaction is aborted all the same.
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
		s.closeUplink() // a failed write was that of a turn that is over
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

// syncCommits reports whether the Sync that would bring the backend to ReadyForQuery
// may commit: of a group outside a block that has not failed at the server.
func (s *session) syncCommits() bool {
	t, q := s.t, &s.t.owed
	synced := !q.empty() && q.items[len(q.items)-1].boundary()
	return t.outcome.SyncCommits() && t.stand == inTurn && !synced
}

// toReady sends the Sync that is missing and reads up to ReadyForQuery. Answers are relayed
// to nobody. A Query behind frames that failed is skipped by the server like the others,
// and has no ReadyForQuery of its own.
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
		*q.first() = owed{kind: wire.Sync} // it is skipped as well
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
