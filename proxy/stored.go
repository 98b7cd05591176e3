package proxy

import (
	"encoding/binary"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/cursor"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/stored"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// A cursor WITH HOLD outlives its transaction. Sluice stores its rows in memory, so that the session needs no backend
// for them. As PostgreSQL does at COMMIT, Sluice runs the query of such a cursor to its end (storedreading.go). Outside
// a block it does so at once, and in a block before the COMMIT.
//
// This file answers FETCH, MOVE and CLOSE of such stored cursors. As in PostgreSQL, neither a rollback nor a replay
// moves a stored cursor back. Its bytes count against the limit per session and for all sessions (cursor.stored_bytes).
// CLOSE, DISCARD ALL and the end of the session remove it.

// dropStoredCursors removes a session's stored cursors, at DISCARD ALL and at the end of the session.
func dropStoredCursors(s *session) { s.stored.DropAll() }

// runCloseAll drops the session's stored cursors (WITH HOLD) and answers CLOSE ALL. As in PostgreSQL, a rollback does
// not undo that. A returned error means a bug in Sluice.
func runCloseAll(s *session, st *rewrite.Statement, several bool) (frames [][]byte, err error) {
	s.stored.DropAll()
	return runTagOnly(s, st, several)
}

// endStoredCursors retains the stored cursors that a transaction declared if the transaction has committed, and
// otherwise removes them. It runs at the COMMIT's tag, so that a later failure before the Sync does not remove them.
func endStoredCursors(s *session, committed bool) {
	s.stored.EndTransaction(committed, s.t != nil && s.t.nested.outsideBlock)
}

// runStoredCursor answers FETCH, MOVE or CLOSE of a stored cursor. describe adds a RowDescription. formats has the
// rows' formats. An error goes to the client. Otherwise the answer was sent, or the turn skips frames. As in
// PostgreSQL, a failed or rolled back block does not move the cursor back. A failed FETCH makes the cursor unusable.
func (s *session) runStoredCursor(c *rewrite.CursorStatement, formats []byte, describe bool) error {
	x, err := s.findStoredCursor(c.Name)
	if x == nil || err != nil {
		return err
	}
	if c.Verb == rewrite.CloseCursor {
		s.stored.Drop(c.Name)
		return s.sendStoredFrames(wire.AppendCommandComplete(nil, "CLOSE CURSOR"))
	}
	s.srv.metrics.CountLocalAnswer(metrics.LocalStatement)
	frames, err := cursor.Read(x, c, formats, describe)
	if err != nil {
		return err
	}
	return s.sendStoredFrames(frames...)
}

// findStoredCursor returns a stored cursor after all earlier frames of the turn are answered. If both results are nil,
// the turn skips frames. If the transaction that declared the cursor is open, Sluice no longer replays it, since a
// replay could read other rows.
func (s *session) findStoredCursor(name string) (*stored.Cursor, error) {
	if s.txStatus() == 'E' {
		return nil, sqlerror.Aborted
	}
	if !s.t.owed.empty() {
		if err := s.flushAndRelay(); err != nil || s.t.server.skip || s.t.settled {
			return nil, err
		}
	}
	x := s.stored.Find(name)
	switch {
	case x == nil:
		return nil, s.parts.ErrUnknownCursor(name)
	case x.ExceedsQuota():
		return nil, errStoredFull(&s.srv.cfg)
	case x.Pending && !x.Fixed:
		s.tx.log.RefuseReplay(retry.Pinned)
	}
	return x, nil
}

// sendStoredFrames sends the client frames of a stored cursor. If the turn has sent something to the server, the client
// gets the frames at once. A replay would drop withheld frames, although the cursor has already moved.
func (s *session) sendStoredFrames(frames ...[]byte) error {
	if err := s.queueReply(frames...); err != nil || !s.t.touched {
		return err
	}
	return s.flushToClient()
}

// storedPortal handles the protocol's Describe, Execute and Close on the name of a stored cursor. In PostgreSQL a
// cursor is a portal, and clients such as psycopg send these frames.

type storedPortal struct{}

// storedPortalOf returns a storedPortal if the session has a stored cursor with the name, and nil otherwise.
func storedPortalOf(s *session, name []byte) portalWork {
	if s.stored.Find(string(name)) == nil {
		return nil
	}
	return storedPortal{}
}

// bytes returns 0, since Sluice charges the memory of a stored cursor separately.
func (storedPortal) bytes() int { return 0 }

// close answers a Close of a stored cursor's portal, even in a failed block.
func (storedPortal) close(s *session, name []byte) (done bool, err error) {
	if !s.t.owed.empty() {
		if err := s.flushAndRelay(); err != nil || s.t.server.skip || s.t.settled {
			return true, err
		}
	}
	s.stored.Drop(string(name))
	return true, s.sendStoredFrames(wire.FrameCloseComplete)
}

// describe answers a Describe of a stored cursor's portal.
func (storedPortal) describe(s *session, name []byte) error {
	x, err := s.findStoredCursor(string(name))
	if x == nil || err != nil {
		return err
	}
	return s.queueReply(x.RowDescription(nil))
}

// execute answers an Execute of a stored cursor's portal. The last four bytes of frame are the row limit. As in
// PostgreSQL, the command tag counts the rows of this Execute.
func (storedPortal) execute(s *session, name []byte, _ portal, frame []byte) error {
	x, err := s.findStoredCursor(string(name))
	if x == nil || err != nil {
		return err
	}
	frames, err := cursor.ReadPortal(x, name, int32(binary.BigEndian.Uint32(frame[len(frame)-4:])))
	if err != nil {
		return err
	}
	s.t.request.ranLocal = true
	return s.sendStoredFrames(frames...)
}

// errStoredFull returns the error of a cursor WITH HOLD whose rows exceed the limits.
func errStoredFull(cfg *Config) *wire.Error {
	return cursor.ErrStoredFull(cfg.StoredBytes, cfg.StoredTotalBytes)
}
