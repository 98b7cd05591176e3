package proxy

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/stored"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Cursors WITH HOLD outlive their transaction. Their rows are in Sluice's memory, so that the session needs no backend
// for them. PostgreSQL runs the query of such a cursor to its end at COMMIT, and Sluice does too (storedreading.go):
// outside a block at once, in a block before the COMMIT.
//
// This file answers FETCH, MOVE and CLOSE of such cursors. As in PostgreSQL, neither a rollback nor a replay moves such
// a cursor back. Its bytes count against the limit per session and for all sessions (cursor.stored_bytes). CLOSE,
// DISCARD ALL and the end of the session remove it.

// storedCursors holds a session's cursors WITH HOLD, whose rows Sluice stores, by name.
type storedCursors struct {
	byName map[string]*stored.Cursor
}

// drop removes the stored cursor with the name, if there is one.
func (c *storedCursors) drop(name string) {
	if x := c.byName[name]; x != nil {
		x.Drop()
		delete(c.byName, name)
	}
}

// dropAll removes all stored cursors, and frees their share of the limits.
func (c *storedCursors) dropAll() {
	for name := range c.byName {
		c.drop(name)
	}
}

// dropStoredCursors removes a session's stored cursors: at CLOSE ALL, DISCARD ALL and the end of the session.
func dropStoredCursors(s *session) { s.stored.dropAll() }

// endStoredCursors retains the stored cursors that a transaction declared if the transaction has committed, and
// removes them otherwise. It runs at the COMMIT's tag, so that a later failure before the Sync does not remove them.
func endStoredCursors(s *session, committed bool) {
	for name, x := range s.stored.byName {
		if !x.EndTransaction(committed, s.t != nil && s.t.nested.outsideBlock) {
			s.stored.drop(name)
		}
	}
}

// runStoredCursor answers FETCH, MOVE or CLOSE of a stored cursor. describe adds a RowDescription; formats are the
// rows'. A returned error goes to the client. After nil the answer was sent, or frames are skipped. As in PostgreSQL,
// a failed or rolled back block does not move the cursor back, and a failed FETCH makes the cursor unusable.
func (s *session) runStoredCursor(c *rewrite.CursorStatement, formats []byte, describe bool) error {
	x, err := s.findStoredCursor(c.Name)
	if x == nil || err != nil {
		return err
	}
	if c.Verb == rewrite.CloseCursor {
		s.stored.drop(c.Name)
		return s.sendStoredFrames(wire.AppendCommandComplete(nil, "CLOSE CURSOR"))
	}
	s.srv.metrics.CountLocalAnswer(metrics.LocalStatement)
	move := c.Verb == rewrite.MoveCursor
	switch {
	case x.Failed:
		return errPortalDone([]byte(c.Name))
	case x.MissesRows && c.Elsewhere && !c.Backward:
		return errFetchElsewhere // the rows in front are on the server
	case !move && !x.CanReturn(formats):
		return storedFormatsError(x)
	}
	stood := x.Rows
	f, ok := x.Fetch(c.Direction, c.Count, move)
	if !ok {
		x.Failed = true
		return errForwardOnly
	}
	if move {
		return s.sendStoredFrames(wire.AppendCommandComplete(nil, "MOVE "+strconv.Itoa(f.Len())))
	}
	var frames [][]byte
	if describe {
		frames = append(frames, x.RowDescription(formats))
	}
	rows, ok := x.FormatPassed(f, formats)
	if !ok {
		x.Rows = stood
		return errStoredFormats
	}
	return s.sendStoredFrames(append(frames, rows, wire.AppendCommandComplete(nil, "FETCH "+strconv.Itoa(f.Len())))...)
}

// storedFormatsError returns the error of a FETCH that asks for text or binary formats which the stored cursor lacks.
func storedFormatsError(x *stored.Cursor) error {
	if x.ArrivedFormats != nil {
		return errCursorFormats
	}
	return errStoredFormats
}

// findStoredCursor returns a stored cursor after all earlier frames of the turn are answered. If both results are
// nil, the turn skips frames. If the cursor's transaction is still open, Sluice no longer replays it, since the
// cursor could get other rows.
func (s *session) findStoredCursor(name string) (*stored.Cursor, error) {
	if s.txStatus() == 'E' {
		return nil, errAborted
	}
	if !s.t.owed.empty() {
		if err := s.flushAndRelay(); err != nil || s.t.server.skip || s.t.settled {
			return nil, err
		}
	}
	x := s.stored.byName[name]
	switch {
	case x == nil:
		return nil, s.parts.ErrUnknownCursor(name)
	case x.ExceedsQuota():
		return nil, errStoredFull(s.srv.cfg)
	case x.Pending && !x.Fixed:
		s.tx.log.RefuseReplay(retry.Pinned)
	}
	return x, nil
}

// sendStoredFrames sends frames of a stored cursor. If the turn has sent something to the server, the client gets the
// frames at once. A replay would drop withheld frames, although the cursor has moved.
func (s *session) sendStoredFrames(frames ...[]byte) error {
	if err := s.queueReply(frames...); err != nil || !s.t.touched {
		return err
	}
	return s.flushToClient()
}

// In the extended protocol, cursorextended.go handles statements about all cursors. For stored cursors it calls this
// file for formats and descriptions.

// checkFormats returns the server's error for a Bind whose number of result formats does not fit the stored cursor's
// columns. Otherwise it returns nil.
func (c *storedCursors) checkFormats(name string, formats int) error {
	x := c.byName[name]
	if x == nil || formats <= 1 {
		return nil
	}
	if n := len(x.Columns()); formats != n {
		return &wire.Error{Code: "08P01", Message: fmt.Sprintf("bind message has %d result formats but query has %d columns", formats, n)}
	}
	return nil
}

// These functions serve clients such as psycopg that use the protocol's Describe, Execute and Close on a cursor's name,
// since a cursor is a portal in PostgreSQL.

// closeStoredCursor answers a Close of a stored cursor's portal, even in a failed block.
func (s *session) closeStoredCursor(name string) error {
	if !s.t.owed.empty() {
		if err := s.flushAndRelay(); err != nil || s.t.server.skip || s.t.settled {
			return err
		}
	}
	s.stored.drop(name)
	return s.sendStoredFrames(wire.FrameCloseComplete)
}

// describeStoredCursor answers a Describe of a stored cursor's portal.
func (s *session) describeStoredCursor(name string) error {
	x, err := s.findStoredCursor(name)
	if x == nil || err != nil {
		return err
	}
	return s.queueReply(x.RowDescription(nil))
}

// executeStoredCursor answers an Execute of a stored cursor's portal. The last four bytes of frame are the row limit.
// As in PostgreSQL, the command tag counts the rows of this Execute.
func (s *session) executeStoredCursor(name string, frame []byte) error {
	x, err := s.findStoredCursor(name)
	switch {
	case x == nil || err != nil:
		return err
	case x.Failed:
		return errPortalDone([]byte(name))
	}
	count := int64(int32(binary.BigEndian.Uint32(frame[len(frame)-4:])))
	if count <= 0 {
		count = rewrite.CursorAll
	}
	if !x.CanReturn(nil) {
		return errCursorFormats
	}
	s.t.request.ranLocal = true
	f, end := x.MoveForward(count), wire.FramePortalSuspended
	if x.AtEnd() {
		end = wire.AppendCommandComplete(nil, "SELECT "+strconv.Itoa(f.Len()))
	}
	rows, _ := x.FormatPassed(f, nil)
	return s.sendStoredFrames(rows, end)
}

// errStoredFormats refuses a stored cursor's rows in binary format. The cursor has not moved: the client may ask for
// text.
var errStoredFormats = &wire.Error{Code: retry.StateUnsupported, Message: "rows of this cursor cannot be had in the binary format",
	Detail: "The rows of a cursor WITH HOLD are kept as text. Of numbers, booleans, texts, dates, times, bytea, uuid, json and jsonb there is a binary form, unless extra_float_digits was set below 1, or DateStyle was not ISO, or IntervalStyle not postgres.",
	Hint:   "Ask for the text format, or cast the column."}

// errStoredFull is the error of a cursor WITH HOLD whose rows exceed the limit.
func errStoredFull(cfg Config) *wire.Error {
	return &wire.Error{Code: "54000", Message: "the rows of this cursor WITH HOLD are more than may be kept",
		Detail: fmt.Sprintf("The cursors WITH HOLD of a session may have %d bytes, those of all sessions %d.", cfg.StoredBytes, cfg.StoredTotalBytes),
		Hint:   "Read it without WITH HOLD inside a transaction, page by key, or raise cursor.stored_bytes and cursor.stored_total_bytes."}
}
