package stored

import "github.com/sluice-proxy/sluice/proxy/wire"

// A cursor whose rows come into memory, and the bytes that it may have. Its owner is one session.

// Quota is a bound on bytes.
type Quota interface {
	Take(bytes int) bool
	Give(bytes int)
}

// piece is what bytes are taken in: a cursor without rows takes one too, so that their number is
// bounded as well.
const piece = 64 << 10

// Cursor is a cursor whose rows are in memory, or are about to come.
type Cursor struct {
	Rows
	// Pending: its transaction has not committed; without that the cursor goes.
	Pending bool
	// Rest: some of it was read before it was stored, and is not here.
	Rest bool
	// Failed: a FETCH has failed. As in PostgreSQL nothing but CLOSE is left for it.
	Failed bool

	// Exact: floats came with all of their digits (extra_float_digits). Without that they cannot be
	// had in the binary format.
	Exact bool

	// Came is the formats in which its rows came; nil: text.
	Came Formats

	desc    []byte // its RowDescription
	columns Columns
	// over: there were more bytes than it may have. gone: nobody asks for it any more.
	over, gone bool

	purse Quota
	taken int // bytes of the purse
	// inRow: what comes next is the rest of a row; else of the description.
	inRow bool
}

// NewCursor is one without rows, whose bytes are the purse's.
func NewCursor(purse Quota, forwardOnly bool) *Cursor {
	return &Cursor{Rows: New(forwardOnly), Pending: true, purse: purse}
}

// Begin forgets what has come so far: the query is run once more.
func (c *Cursor) Begin() {
	c.Rows, c.desc, c.columns, c.over = c.Emptied(), nil, nil, false
	c.giveBack()
}

// Take takes a frame of the answer, or as much of it as has come: a RowDescription or a row.
// Beyond the bound nothing is taken any more.
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

// TakeRest takes the next part of the frame that was taken last.
func (c *Cursor) TakeRest(part []byte) {
	switch {
	case c.gone || c.over:
	case c.inRow:
		c.More(part)
	default:
		c.desc = append(c.desc, part...)
	}
}

// pay has the purse bear that many bytes; false where it does not.
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

// giveBack gives the purse what it bears.
func (c *Cursor) giveBack() {
	c.purse.Give(c.taken)
	c.taken = 0
}

// Drop frees it. What comes of its query from then on is for nobody.
func (c *Cursor) Drop() {
	c.gone = true
	c.Rows = Rows{}
	c.giveBack()
}

// Over reports whether there were more bytes than it may have: it has no rows then.
func (c *Cursor) Over() bool { return c.over }

// Columns are those of its rows.
func (c *Cursor) Columns() Columns {
	if c.columns == nil {
		c.columns = ColumnsOf(c.desc)
	}
	return c.columns
}

// Gives reports whether its rows can be had in these formats.
func (c *Cursor) Gives(formats Formats) bool {
	return c.Columns().Gives(c.Came, formats) && (c.Exact || !c.Columns().rounded(c.Came, formats))
}

// Describe is the RowDescription of its rows in these formats.
func (c *Cursor) Describe(formats Formats) []byte { return c.Columns().Describe(c.desc, formats) }

// Passed are rows in these formats: see Rows.In.
func (c *Cursor) Passed(f Passed, formats Formats) ([]byte, bool) {
	return c.In(f, c.Columns(), c.Came, formats)
}
