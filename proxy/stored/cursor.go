package stored

import "github.com/sluice-proxy/sluice/proxy/wire"

// This file has cursors whose rows are in memory, and the bounds of this memory. One session owns a cursor.

// Quota bounds the bytes of cursors' rows. Take reserves bytes, or returns false without room. Give returns them.
type Quota interface {
	Take(bytes int) bool
	Give(bytes int)
}

// piece is the unit, in bytes, in which a cursor takes memory from its Quota. A cursor without rows takes a piece
// too, so that the number of cursors is bounded.
const piece = 64 << 10

// Cursor is a cursor whose rows are in memory, or are about to arrive.
type Cursor struct {
	Rows
	// Pending means that the cursor's transaction has not committed. Without a commit the cursor ends.
	Pending bool
	// Fixed means that the part of the transaction which declared the cursor is committed. No replay changes its rows.
	Fixed bool
	// MissesRows means that rows were read before the cursor was stored. These rows are missing here.
	MissesRows bool
	// Failed means that a FETCH of the cursor has failed. As in PostgreSQL, only CLOSE is possible after that.
	Failed bool

	// ExactFloats means that the server sent floats with all their digits (extra_float_digits). Without ExactFloats,
	// floats cannot be converted to the binary format.
	ExactFloats bool

	// ArrivedFormats are the formats in which the server sent the cursor's rows. nil means text.
	ArrivedFormats Formats

	desc    []byte // its RowDescription
	columns Columns
	// over means that the cursor's rows exceeded the bound on bytes, and gone that the cursor was dropped.
	over, gone bool

	quota Quota
	taken int // bytes taken from quota
	// inRow means that the next bytes of a frame belong to a row. Otherwise the bytes belong to the RowDescription.
	inRow bool
}

// NewCursor returns a cursor without rows. The cursor takes the bytes of its rows from purse.
func NewCursor(purse Quota, forwardOnly bool) *Cursor {
	return &Cursor{Rows: NewRows(forwardOnly), Pending: true, quota: purse}
}

// Restart drops all rows of the cursor, because its query runs again.
func (c *Cursor) Restart() {
	c.Rows, c.desc, c.columns, c.over = c.WithoutRows(), nil, nil, false
	c.refundAll()
}

// AddFrame adds a frame of the query's answer, a RowDescription or a row, or the frame's first part. whole is the
// length of the whole frame. If the rows exceed the bound on bytes, AddFrame adds nothing.
func (c *Cursor) AddFrame(typ byte, part []byte, whole int) {
	if c.inRow = typ == wire.DataRow; c.gone || c.over {
		return
	}
	if !c.inRow {
		c.desc = append(make([]byte, 0, whole), part...)
	} else {
		c.AddRow(part, whole)
	}
	if !c.chargeUpTo(cap(c.desc) + c.MemoryBytes()) {
		c.over = true
		c.Rows = c.WithoutRows()
		c.refundAll()
	}
}

// AddFrameRest adds the next part of the frame that AddFrame has begun.
func (c *Cursor) AddFrameRest(part []byte) {
	switch {
	case c.gone || c.over:
	case c.inRow:
		c.ExtendLastRow(part)
	default:
		c.desc = append(c.desc, part...)
	}
}

// chargeUpTo takes bytes from the cursor's quota, up to the total bytes. It returns false if the quota has no room.
func (c *Cursor) chargeUpTo(bytes int) bool {
	if bytes <= c.taken {
		return true
	}
	more := (bytes - c.taken + piece - 1) / piece * piece
	if !c.quota.Take(more) {
		return false
	}
	c.taken += more
	return true
}

// refundAll returns all bytes of the cursor to the cursor's quota.
func (c *Cursor) refundAll() {
	c.quota.Give(c.taken)
	c.taken = 0
}

// Drop frees the memory of the cursor. Further rows of its query are ignored.
func (c *Cursor) Drop() {
	c.gone = true
	c.Rows = Rows{}
	c.refundAll()
}

// ExceedsQuota reports whether the cursor's rows exceeded the bound on bytes. If so, the cursor has no rows.
func (c *Cursor) ExceedsQuota() bool { return c.over }

// EndTransaction records the end of a transaction, and reports whether the cursor remains. part means that the block
// continues in another transaction, whose rollback ends the cursor too.
func (c *Cursor) EndTransaction(committed, part bool) (remains bool) {
	remains = committed || !c.Pending
	c.Pending, c.Fixed = c.Pending && part, true
	return remains
}

// Columns returns the columns of the cursor's rows.
func (c *Cursor) Columns() Columns {
	if c.columns == nil {
		c.columns = ParseColumns(c.desc)
	}
	return c.columns
}

// CanReturn reports whether the cursor's rows can be returned in the given formats.
func (c *Cursor) CanReturn(formats Formats) bool {
	return c.Columns().CanConvert(c.ArrivedFormats, formats) && (c.ExactFloats || !c.Columns().losesDigits(c.ArrivedFormats, formats))
}

// RowDescription returns the cursor's RowDescription for the given formats.
func (c *Cursor) RowDescription(formats Formats) []byte {
	return c.Columns().RowDescription(c.desc, formats)
}

// FormatPassed returns the rows that a FETCH has passed, in the given formats. Rows.FormatRows describes the results.
func (c *Cursor) FormatPassed(f RowRange, formats Formats) ([]byte, bool) {
	return c.FormatRows(f, c.Columns(), c.ArrivedFormats, formats)
}
