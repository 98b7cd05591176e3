package proxy

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Cursors WITH HOLD, which outlive their transaction: their rows are in the memory of this
// process, and their session needs no backend for them. PostgreSQL runs the query of such a
// cursor to its end when its transaction commits, and so does Sluice (storing.go): outside of a
// block at once, in one in front of the COMMIT.
//
// This file answers what is asked of such a cursor from then on. It is no part of a
// transaction: neither a rollback nor an attempt to run the transaction again moves it back, as
// in PostgreSQL. Its bytes count, for the session and for all (cursor.stored_bytes). It goes with
// CLOSE, DISCARD ALL and the session.

// storedCursor is a cursor whose rows are in memory, or are about to come.
type storedCursor struct {
	rows    storedRows
	desc    []byte // its RowDescription, in text
	columns []column
	// pending: its transaction has not committed; without that the cursor goes.
	pending bool
	// rest: some of it was read before it was stored, and is not here.
	rest bool
	// failed: a FETCH has failed. As in PostgreSQL nothing but CLOSE is left for it.
	failed bool
	// over: there were more bytes than it may have. gone: nobody asks for it any more.
	over, gone bool

	s     *session // that pays for it
	taken int      // bytes of the quota
	// inRow: what comes next is the rest of a row; else of the description.
	inRow bool
}

// storedCursors are those of a session, by name.
type storedCursors struct {
	stored map[string]*storedCursor
	// storedBytes is what they have taken of the session's bound.
	storedBytes int
}

// pieces are what bytes are taken of the quota in.
const pieces = 64 << 10

// wordBytes is what the place of a row costs beside its frame.
const wordBytes = 8

// begin forgets what has come of an earlier attempt.
func (x *storedCursor) begin() {
	x.rows, x.desc, x.columns, x.over = newRows(x.rows.forwardOnly), nil, nil, false
	x.giveBack()
}

// add takes a frame of the answer, or as much of it as has come: a RowDescription or a row. Beyond
// the bound nothing is taken any more.
func (x *storedCursor) add(typ byte, part []byte, whole int) {
	if x.inRow = typ == wire.DataRow; x.gone || x.over {
		return
	}
	if !x.inRow {
		x.desc = append(make([]byte, 0, whole), part...)
	} else {
		x.rows.frames = append(slices.Grow(x.rows.frames, whole), part...)
		x.rows.ends = append(x.rows.ends, len(x.rows.frames))
	}
	if !x.pay(cap(x.desc) + cap(x.rows.frames) + wordBytes*cap(x.rows.ends)) {
		x.over = true
		x.rows = newRows(x.rows.forwardOnly)
		x.giveBack()
	}
}

// more takes the rest of a frame.
func (x *storedCursor) more(part []byte) {
	switch n := len(x.rows.ends); {
	case x.gone || x.over:
	case !x.inRow:
		x.desc = append(x.desc, part...)
	case n > 0:
		x.rows.frames = append(x.rows.frames, part...)
		x.rows.ends[n-1] = len(x.rows.frames)
	}
}

// pay has the quotas of the session and of the process bear that many bytes; false where they do
// not.
func (x *storedCursor) pay(bytes int) bool {
	if bytes <= x.taken {
		return true
	}
	more := (bytes - x.taken + pieces - 1) / pieces * pieces
	if x.s.storedBytes+more > x.s.srv.cfg.StoredBytes || !x.s.srv.stored.Take(more) {
		return false
	}
	x.taken += more
	x.s.storedBytes += more
	return true
}

// giveBack gives the quotas what they bear.
func (x *storedCursor) giveBack() {
	x.s.storedBytes -= x.taken
	x.s.srv.stored.Give(x.taken)
	x.taken = 0
}

// drop frees it.
func (x *storedCursor) drop() {
	x.gone = true
	x.rows = storedRows{}
	x.giveBack()
}

// dropStored closes one by its name.
func (s *session) dropStored(name string) {
	if x := s.stored[name]; x != nil {
		x.drop()
		delete(s.stored, name)
	}
}

// dropAllStored closes all.
func (s *session) dropAllStored() {
	for name := range s.stored {
		s.dropStored(name)
	}
}

// storedSettled is told of the end of a transaction: the cursors that it declared stay if it has
// committed, and go if it has not.
func (s *session) storedSettled(committed bool) {
	for name, x := range s.stored {
		if x.pending && !committed {
			s.dropStored(name)
		}
		x.pending = false
	}
}

// useStored is FETCH, MOVE or CLOSE of such a cursor; describe has the rows described. An error is
// for the client; with nil the frames are answered, or the rest is to be skipped.
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
	if move {
		formats = nil
	}
	switch {
	case x.failed:
		return errPortalDone([]byte(c.Name))
	case x.rest && c.Elsewhere && !c.Backward:
		return errFetchElsewhere // the rows in front are not here
	case !x.gives(formats):
		return errStoredFormats
	}
	stood := x.rows
	f, ok := x.rows.fetch(c.Direction, c.Count, move)
	if !ok {
		x.failed = true
		return errForwardOnly
	}
	if move {
		return s.tellStored(wire.AppendCommand(nil, "MOVE "+strconv.Itoa(f.len())))
	}
	var frames [][]byte
	if describe {
		frames = append(frames, inFormats(x.desc, x.columns, formats))
	}
	rows, ok := x.passed(f, formats)
	if !ok {
		x.rows = stood
		return errStoredFormats
	}
	return s.tellStored(append(frames, rows, wire.AppendCommand(nil, "FETCH "+strconv.Itoa(f.len())))...)
}

// reachStored is a stored cursor as what went before in the turn has left it; nil with nil where
// the rest is to be skipped. An error is for the client. A cursor of the transaction in progress may have
// other rows if that is run again: from now on it is not.
func (s *session) reachStored(name string) (*storedCursor, error) {
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
		return nil, errNoCursor(name)
	case x.over:
		return nil, errStoredFull(s.srv.cfg)
	case x.pending:
		s.tx.log.Refuse(retry.Pinned)
	}
	if x.columns == nil {
		x.columns = columnsIn(x.desc)
	}
	return x, nil
}

// tellStored tells frames of a stored cursor. The cursor has moved: where the turn may be run
// again its client gets them now.
func (s *session) tellStored(frames ...[]byte) error {
	if err := s.tell(frames...); err != nil || !s.t.touched {
		return err
	}
	return s.flushToClient()
}

// gives reports whether all rows can be had in these formats.
func (x *storedCursor) gives(formats []byte) bool {
	for i, c := range x.columns {
		if formats != nil && formatOf(formats, i) != 0 && binaries[c.oid] == nil {
			return false
		}
	}
	return true
}

// passed are rows in these formats, in the order in which they were passed; ok is false where a
// value cannot be had in its format, since its text is not what that of its type is by default.
func (x *storedCursor) passed(f fetched, formats []byte) (all []byte, ok bool) {
	if formats == nil && !f.backward {
		return x.rows.span(f.from, f.to), true
	}
	for i := range f.len() {
		at := f.from + i
		if f.backward {
			at = f.to - 1 - i
		}
		row := x.rows.span(at, at+1)
		if formats == nil {
			all = append(all, row...)
		} else if all, ok = rowIn(all, row, x.columns, formats); !ok {
			return nil, false
		}
	}
	return all, true
}

// mayBindFetch is the error of a Bind that asks for the rows of a stored cursor in so many formats;
// nil for any other, and where there is no such cursor.
func (s *session) mayBindFetch(name string, formats int) error {
	x := s.stored[name]
	if x == nil || formats <= 1 {
		return nil
	}
	if n := len(columnsIn(x.desc)); formats != n {
		return &wire.Error{Code: "08P01", Message: fmt.Sprintf("bind message has %d result formats but query has %d columns", formats, n)}
	}
	return nil
}

// describe is the RowDescription in these formats.
func (x *storedCursor) describe(formats []byte) []byte {
	if formats == nil {
		return x.desc
	}
	return inFormats(x.desc, columnsIn(x.desc), formats)
}

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
	return s.tell(x.describe(nil))
}

// executeStored is Execute of the portal that such a cursor is; frame is the client's, whose last
// four bytes are the limit on rows.
func (s *session) executeStored(name string, frame []byte) error {
	x, err := s.reachStored(name)
	switch {
	case x == nil || err != nil:
		return err
	case x.failed:
		return errPortalDone([]byte(name))
	}
	count := int64(int32(binary.BigEndian.Uint32(frame[len(frame)-4:])))
	if count <= 0 {
		count = rewrite.CursorAll
	}
	f := x.rows.forward(count)
	end := wire.FramePortalSuspended
	if x.rows.atEnd {
		end = wire.AppendCommand(nil, "SELECT "+strconv.Itoa(f.len()))
	}
	return s.tellStored(x.rows.span(f.from, f.to), end)
}

var errStoredFormats = &wire.Error{Code: retry.StateUnsupported, Message: "rows of this cursor cannot be had in the binary format",
	Detail: "The rows of a cursor WITH HOLD are kept as text. Of integers, booleans, texts, bytea, uuid, json and jsonb there is a binary form.",
	Hint:   "Ask for the text format, or cast the column."}

// errStoredFull is the error of a cursor WITH HOLD whose rows are more than may be kept.
func errStoredFull(cfg Config) *wire.Error {
	return &wire.Error{Code: "54000", Message: "the rows of this cursor WITH HOLD are more than may be kept",
		Detail: fmt.Sprintf("The cursors WITH HOLD of a session may have %d bytes, those of all sessions %d.", cfg.StoredBytes, cfg.StoredTotalBytes),
		Hint:   "Read it without WITH HOLD inside a transaction, page by key, or raise cursor.stored_bytes and cursor.stored_total_bytes."}
}
