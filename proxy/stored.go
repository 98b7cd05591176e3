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

// Cursors WITH HOLD, which outlive their transaction: their rows are in the memory of this process, and their session
// needs no backend for them. PostgreSQL runs the query of such a cursor to its end when its transaction commits, and so
// does Sluice (storing.go): outside of a block at once, in one in front of the COMMIT.
//
// This file answers what is asked of such a cursor from then on. It is no part of a transaction: neither a rollback nor
// an attempt to run the transaction again moves it back, as in PostgreSQL. Its bytes count, for the session and for all
// (cursor.stored_bytes). It goes with CLOSE, DISCARD ALL and the session.

// storedCursors are those of a session, by name.
type storedCursors struct {
	stored map[string]*stored.Cursor
}

// dropStored closes one by its name, which may be nobody's.
func (s *session) dropStored(name string) {
	if x := s.stored[name]; x != nil {
		x.Drop()
		delete(s.stored, name)
	}
}

// dropAllStored closes all: for CLOSE ALL, DISCARD ALL and the end of the session. What they had of
// the bounds others may have from now on.
func (s *session) dropAllStored() {
	for name := range s.stored {
		s.dropStored(name)
	}
}

// storedEnded ends a transaction: the cursors that it declared stay if it has committed, and go if it has not. The tag
// of a COMMIT says so before the turn has ended: a failure after it in the group takes nothing back.
func storedEnded(s *session, committed bool) {
	for name, x := range s.stored {
		if x.Pending && !committed {
			s.dropStored(name)
		}
		x.Pending = false
	}
}

// useStored is FETCH, MOVE or CLOSE of such a cursor; describe has the rows described, which come in
// formats. An error is for the client; with nil the frames are answered, or the rest is to be
// skipped. Nothing of it is undone: a block that fails, or is rolled back, leaves the cursor where
// it is, and a FETCH that has failed leaves it without use, as in PostgreSQL.
func (s *session) useStored(c *rewrite.Cursor, formats []byte, describe bool) error {
	x, err := s.reachStored(c.Name)
	if x == nil || err != nil {
		return err
	}
	if c.Verb == rewrite.CloseCursor {
		s.dropStored(c.Name)
		return s.tellStored(wire.AppendCommand(nil, "CLOSE CURSOR"))
	}
	s.srv.metrics.LocalAnswer(metrics.LocalStatement)
	move := c.Verb == rewrite.MoveCursor
	switch {
	case x.Failed:
		return errPortalDone([]byte(c.Name))
	case x.Rest && c.Elsewhere && !c.Backward:
		return errFetchElsewhere // the rows in front are not here
	case !move && !x.Gives(formats):
		return formatsRefused(x)
	}
	stood := x.Rows
	f, ok := x.Fetch(c.Direction, c.Count, move)
	if !ok {
		x.Failed = true
		return errForwardOnly
	}
	if move {
		return s.tellStored(wire.AppendCommand(nil, "MOVE "+strconv.Itoa(f.Len())))
	}
	var frames [][]byte
	if describe {
		frames = append(frames, x.Describe(formats))
	}
	rows, ok := x.Passed(f, formats)
	if !ok {
		x.Rows = stood
		return errStoredFormats
	}
	return s.tellStored(append(frames, rows, wire.AppendCommand(nil, "FETCH "+strconv.Itoa(f.Len())))...)
}

// formatsRefused is the error of a FETCH that wants rows of a cursor in formats in which they cannot be had.
func formatsRefused(x *stored.Cursor) error {
	if x.Came != nil {
		return errCursorFormats
	}
	return errStoredFormats
}

// reachStored is a stored cursor as what went before in the turn has left it; nil with nil where
// the rest is to be skipped. An error is for the client. A cursor of the transaction in progress
// may have other rows if that is run again: from now on it is not.
func (s *session) reachStored(name string) (*stored.Cursor, error) {
	if s.status() == 'E' {
		return nil, errAborted
	}
	if !s.t.owed.empty() {
		if err := s.makeAnswer(); err != nil || s.t.skip || s.t.settled {
			return nil, err
		}
	}
	x := s.stored[name]
	switch {
	case x == nil:
		return nil, s.noCursor(name)
	case x.Over():
		return nil, errStoredFull(s.srv.cfg)
	case x.Pending:
		s.tx.log.Refuse(retry.Pinned)
	}
	return x, nil
}

// tellStored tells frames of a stored cursor. The cursor has moved, and does not move back: where the turn may be run
// again, or fail with a conflict that takes its answers away, its client gets them now.
func (s *session) tellStored(frames ...[]byte) error {
	if err := s.tell(frames...); err != nil || !s.t.touched {
		return err
	}
	return s.flushToClient()
}

// Statements about cursors that are stored by the extended protocol go the way of those about
// others (cursorextended.go), which asks here for formats and descriptions.

// mayBindFetch is what the server says of other cursors (inFormats): the error of a Bind that asks for the rows of a
// stored cursor in so many formats; nil for any other, and where there is no such cursor.
func (s *session) mayBindFetch(name string, formats int) error {
	x := s.stored[name]
	if x == nil || formats <= 1 {
		return nil
	}
	if n := len(x.Columns()); formats != n {
		return &wire.Error{Code: "08P01", Message: fmt.Sprintf("bind message has %d result formats but query has %d columns", formats, n)}
	}
	return nil
}

// What follows is for clients that take such a cursor for the portal that it is in PostgreSQL, as
// psycopg does, which has it described by the protocol.

// closeStored is the protocol's Close of the portal that such a cursor is, in a failed block too.
func (s *session) closeStored(name string) error {
	if !s.t.owed.empty() {
		if err := s.makeAnswer(); err != nil || s.t.skip || s.t.settled {
			return err
		}
	}
	s.dropStored(name)
	return s.tellStored(wire.FrameCloseComplete)
}

// describeStored answers Describe of the portal that such a cursor is.
func (s *session) describeStored(name string) error {
	x, err := s.reachStored(name)
	if x == nil || err != nil {
		return err
	}
	return s.tell(x.Describe(nil))
}

// executeStored is Execute of the portal that such a cursor is; frame is the client's, whose last
// four bytes are the limit on rows. The tag counts the rows of this Execute, as in PostgreSQL.
func (s *session) executeStored(name string, frame []byte) error {
	x, err := s.reachStored(name)
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
	if !x.Gives(nil) {
		return errCursorFormats
	}
	f := x.Forward(count)
	end := wire.FramePortalSuspended
	if x.AtEnd() {
		end = wire.AppendCommand(nil, "SELECT "+strconv.Itoa(f.Len()))
	}
	rows, _ := x.Passed(f, nil)
	return s.tellStored(rows, end)
}

// errStoredFormats refuses rows in the binary format. The cursor has not moved: its client may ask for text.
var errStoredFormats = &wire.Error{Code: retry.StateUnsupported, Message: "rows of this cursor cannot be had in the binary format",
	Detail: "The rows of a cursor WITH HOLD are kept as text. Of numbers, booleans, texts, dates, times, bytea, uuid, json and jsonb there is a binary form, unless extra_float_digits was set below 1, or DateStyle was not ISO, or IntervalStyle not postgres.",
	Hint:   "Ask for the text format, or cast the column."}

// errStoredFull is the error of a cursor WITH HOLD whose rows are more than may be kept.
func errStoredFull(cfg Config) *wire.Error {
	return &wire.Error{Code: "54000", Message: "the rows of this cursor WITH HOLD are more than may be kept",
		Detail: fmt.Sprintf("The cursors WITH HOLD of a session may have %d bytes, those of all sessions %d.", cfg.StoredBytes, cfg.StoredTotalBytes),
		Hint:   "Read it without WITH HOLD inside a transaction, page by key, or raise cursor.stored_bytes and cursor.stored_total_bytes."}
}
