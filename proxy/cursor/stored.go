package cursor

import (
	"fmt"
	"strconv"

	"github.com/sluice-proxy/sluice/proxy/stored"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Stored holds a session's cursors WITH HOLD, whose rows Sluice has in memory, by name.
type Stored struct {
	byName map[string]*stored.Cursor
}

// Find returns the stored cursor with the name, or nil.
func (s *Stored) Find(name string) *stored.Cursor { return s.byName[name] }

// IsEmpty reports whether there is no stored cursor.
func (s *Stored) IsEmpty() bool { return len(s.byName) == 0 }

// Put registers the cursor x under the name.
func (s *Stored) Put(name string, x *stored.Cursor) {
	if s.byName == nil {
		s.byName = map[string]*stored.Cursor{}
	}
	s.byName[name] = x
}

// Drop removes the stored cursor with the name, if there is one.
func (s *Stored) Drop(name string) {
	if x := s.byName[name]; x != nil {
		x.Drop()
		delete(s.byName, name)
	}
}

// DropAll removes all stored cursors, and frees their share of the limits.
func (s *Stored) DropAll() {
	for name := range s.byName {
		s.Drop(name)
	}
}

// EndTransaction retains the cursors that a transaction declared if the transaction has committed, and removes them
// otherwise. part means that Sluice has committed a part of the client's transaction (package ddltx).
func (s *Stored) EndTransaction(committed, part bool) {
	for name, x := range s.byName {
		if !x.EndTransaction(committed, part) {
			s.Drop(name)
		}
	}
}

// CheckFormats returns the server's error for a Bind whose number of result formats does not fit the columns of the
// stored cursor. Otherwise, and if no cursor has the name, it returns nil.
func (s *Stored) CheckFormats(name string, formats int) error {
	x := s.byName[name]
	if x == nil || formats <= 1 {
		return nil
	}
	if n := len(x.Columns()); formats != n {
		return &wire.Error{Code: "08P01", Message: fmt.Sprintf("bind message has %d result formats but query has %d columns", formats, n)}
	}
	return nil
}

// Read returns the answer to a FETCH or MOVE of a stored cursor, and moves the cursor. describe adds a RowDescription,
// and formats are the formats of the rows. As in PostgreSQL, a failed FETCH makes the cursor unusable.
func Read(x *stored.Cursor, c *rewrite.CursorStatement, formats []byte, describe bool) (frames [][]byte, err error) {
	move := c.Verb == rewrite.MoveCursor
	switch {
	case x.Failed:
		return nil, ErrPortalDone([]byte(c.Name))
	case x.MissesRows && c.Elsewhere && !c.Backward:
		return nil, ErrFetchElsewhere // the rows in front are on the server
	case !move && !x.CanReturn(formats):
		return nil, formatsError(x)
	}
	before := x.Rows
	f, ok := x.Fetch(c.Direction, c.Count, move)
	if !ok {
		x.Failed = true
		return nil, ErrForwardOnly
	}
	if !move {
		if describe {
			frames = append(frames, x.RowDescription(formats))
		}
		rows, ok := x.FormatPassed(f, formats)
		if !ok {
			x.Rows = before
			return nil, ErrStoredFormats
		}
		frames = append(frames, rows)
	}
	return append(frames, fetchTag(move, f.Len())), nil
}

// ReadPortal returns the answer to an Execute of a stored cursor's portal with a row limit, and moves the cursor. As in
// PostgreSQL, the command tag counts the rows of this Execute.
func ReadPortal(x *stored.Cursor, name []byte, limit int32) (frames [][]byte, err error) {
	if x.Failed {
		return nil, ErrPortalDone(name)
	}
	if !x.CanReturn(nil) {
		return nil, ErrFormats
	}
	count := int64(limit)
	if count <= 0 {
		count = rewrite.CursorAll
	}
	f, end := x.MoveForward(count), wire.FramePortalSuspended
	if x.AtEnd() {
		end = wire.AppendCommandComplete(nil, "SELECT "+strconv.Itoa(f.Len()))
	}
	rows, _ := x.FormatPassed(f, nil)
	return [][]byte{rows, end}, nil
}

// formatsError returns the error of a FETCH that asks for text or binary formats which the stored cursor lacks.
func formatsError(x *stored.Cursor) error {
	if x.ArrivedFormats != nil {
		return ErrFormats
	}
	return ErrStoredFormats
}
