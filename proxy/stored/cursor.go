package stored

import "github.com/sluice-proxy/sluice/proxy/wire"

// This file has cursors with rows in memory, and their bounds. One session owns a cursor.

// Quota is a bound on bytes.
type Quota interface {
	Take(bytes int) bool
	Give(bytes int)
}

// piece is the unit in which bytes are taken. A cursor without rows takes one too, so that the
// number of cursors is bounded.
const piece = 64 << 10

// Cursor is a cursor whose rows are in memory, or are about to arrive.
type Cursor struct {
	Rows
	// Pending: its transaction has not committed; without a commit the cursor ends.
	Pending bool
	// Rest: some rows were read before it was stored, and are missing here.
	Rest bool
	// Failed: a FETCH has failed. As in PostgreSQL, only CLOSE is possible.
	Failed bool

	// Exact: floats have all their digits (extra_float_digits). Otherwise they have no binary
	// format.
	Exact bool

	// Came is the formats of the rows as they arrived; nil means text.
	Came Formats

	desc    []byte // its RowDescription
	columns Columns
	// over: the rows exceeded the bound. gone: the cursor was dropped.
	over, gone bool

	purse Quota
	taken int // bytes taken from purse
	// inRow: the next bytes belong to a row, otherwise to the description.
	inRow bool
}

// NewCursor returns a cursor without rows, whose bytes count against purse.
func NewCursor(purse Quota, forwardOnly bool) *Cursor {
	return &Cursor{Rows: New(forwardOnly), Pending: true, purse: purse}
}

// Begin drops all rows, because the query runs again.
func (c *Cursor) Begin() {
	c.Rows, c.desc, c.columns, c.over = c.Emptied(), nil, nil, false
	c.giveBack()
}

// Take adds a frame of the answer, or its first part: a RowDescription or a row. Beyond the bound
// it adds nothing.
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

// TakeRest adds the next part of the last frame.
func (c *Cursor) TakeRest(part []byte) {
	switch {
	case c.gone || c.over:
	case c.inRow:
		c.More(part)
	default:
		c.desc = append(c.desc, part...)
	}
}

// pay takes bytes from purse up to a total. It returns false if purse has no room.
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

// giveBack returns all bytes to purse.
func (c *Cursor) giveBack() {
	c.purse.Give(c.taken)
	c.taken = 0
}

// Drop frees the cursor. Further rows of its query are ignored.
func (c *Cursor) Drop() {
	c.gone = true
	c.Rows = Rows{}
	c.giveBack()
}

// Over reports whether the rows exceeded the bound. The cursor has no rows then.
func (c *Cursor) Over() bool { return c.over }

// Columns returns the columns of its rows.
func (c *Cursor) Columns() Columns {
	if c.columns == nil {
		c.columns = ColumnsOf(c.desc)
	}
	return c.columns
}

// Gives reports whether the rows can be returned in these formats.
func (c *Cursor) Gives(formats Formats) bool {
	return c.Columns().Gives(c.Came, formats) && (c.Exact || !c.Columns().rounded(c.Came, formats))
}

// Describe returns the RowDescription for these formats.
func (c *Cursor) Describe(formats Formats) []byte { return c.Columns().Describe(c.desc, formats) }

// Passed returns rows in these formats: see Rows.In.
func (c *Cursor) Passed(f Passed, formats Formats) ([]byte, bool) {
	return c.In(f, c.Columns(), c.Came, formats)
}
