package stored

import "github.com/sluice-proxy/sluice/proxy/wire"

// This file has cursors whose rows are in memory, and the bounds of this memory. One session owns a cursor.

// Quota is a bound on the bytes of cursors. Take returns false if there is no room.
type Quota interface {
	Take(bytes int) bool
	Give(bytes int)
}

// piece is the unit in which bytes are taken from a Quota. A cursor without rows takes a piece too, so that the number
// of cursors is bounded.
const piece = 64 << 10

// Cursor is a cursor whose rows are in memory, or are about to arrive.
type Cursor struct {
	Rows
	// Pending means that the cursor's transaction has not committed. Without a commit the cursor ends.
	Pending bool
	// Rest means that rows were read before the cursor was stored. These rows are missing here.
	Rest bool
	// Failed means that a FETCH of the cursor has failed. As in PostgreSQL, only CLOSE is possible then.
	Failed bool

	// Exact means that floats have all their digits (extra_float_digits). Without Exact, floats cannot be converted to the
	// binary format.
	Exact bool

	// Came are the formats in which the rows arrived. nil means text.
	Came Formats

	desc    []byte // its RowDescription
	columns Columns
	// over means that the rows exceeded the bound, and gone that the cursor was dropped.
	over, gone bool

	purse Quota
	taken int // bytes taken from purse
	// inRow means that the next bytes of a frame belong to a row, otherwise to the RowDescription.
	inRow bool
}

// NewCursor returns a cursor without rows. The bytes of its rows are taken from purse.
func NewCursor(purse Quota, forwardOnly bool) *Cursor {
	return &Cursor{Rows: New(forwardOnly), Pending: true, purse: purse}
}

// Begin drops all rows of the cursor, because its query runs again.
func (c *Cursor) Begin() {
	c.Rows, c.desc, c.columns, c.over = c.Emptied(), nil, nil, false
	c.giveBack()
}

// Take adds a frame of the query's answer, a RowDescription or a row, or the frame's first part. whole is the frame's
// length. If the rows exceed the bound, Take adds nothing.
func (c *Cursor) Take(typ byte, part []byte, whole int) {
	if c.inRow = typ == wire.DataRow; c.gone || c.over {
		return
	}
	if !c.inRow {
		c.desc = append(make([]byte, 0, whole), part...)
	} else {
		c.Add(part, whole)
	}
	if !c.pay(cap(c.desc) + c.Cost()) {
		c.over = true
		c.Rows = c.Emptied()
		c.giveBack()
	}
}

// TakeRest adds the next part of the frame that Take has begun.
func (c *Cursor) TakeRest(part []byte) {
	switch {
	case c.gone || c.over:
	case c.inRow:
		c.More(part)
	default:
		c.desc = append(c.desc, part...)
	}
}

// pay takes bytes from the quota purse, up to a total. It returns false if purse has no room.
func (c *Cursor) pay(bytes int) bool {
	if bytes <= c.taken {
		return true
	}
	more := (bytes - c.taken + piece - 1) / piece * piece
	if !c.purse.Take(more) {
		return false
	}
	c.taken += more
	return true
}

// giveBack returns all bytes of the cursor to the quota purse.
func (c *Cursor) giveBack() {
	c.purse.Give(c.taken)
	c.taken = 0
}

// Drop frees the memory of the cursor. Further rows of its query are ignored.
func (c *Cursor) Drop() {
	c.gone = true
	c.Rows = Rows{}
	c.giveBack()
}

// Over reports whether the cursor's rows exceeded the bound. The cursor has no rows then.
func (c *Cursor) Over() bool { return c.over }

// Columns returns the columns of the cursor's rows.
func (c *Cursor) Columns() Columns {
	if c.columns == nil {
		c.columns = ColumnsOf(c.desc)
	}
	return c.columns
}

// Gives reports whether the cursor's rows can be returned in the given formats.
func (c *Cursor) Gives(formats Formats) bool {
	return c.Columns().Gives(c.Came, formats) && (c.Exact || !c.Columns().rounded(c.Came, formats))
}

// Describe returns the cursor's RowDescription for the given formats.
func (c *Cursor) Describe(formats Formats) []byte { return c.Columns().Describe(c.desc, formats) }

// Passed returns the rows that a FETCH has passed, in the given formats. Rows.In describes the results.
func (c *Cursor) Passed(f Passed, formats Formats) ([]byte, bool) {
	return c.In(f, c.Columns(), c.Came, formats)
}
