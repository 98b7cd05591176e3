package stored

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
)

// This file has the rows of a cursor and the cursor's position among them.

// Rows are the rows of a cursor, each a DataRow as sent by the server, with the cursor's position.
// A copy has the same rows and position.
type Rows struct {
	frames []byte
	ends   []int // end of each row in frames
	// pos is the number of rows up to the current one, or of all rows if the cursor is after the last row. atStart means
	// that the cursor is before the first row, atEnd that it is after the last.
	pos            int
	atStart, atEnd bool
	// forwardOnly means that moving the cursor backward is an error.
	forwardOnly bool
}

// NewRows returns Rows without a row. forwardOnly makes moving the cursor back an error.
func NewRows(forwardOnly bool) Rows { return Rows{atStart: true, forwardOnly: forwardOnly} }

// WithoutRows returns Rows without a row, with the same forwardOnly, because the cursor's query runs again.
func (r *Rows) WithoutRows() Rows { return NewRows(r.forwardOnly) }

// AddRow adds a row, or the first part of its DataRow. whole is the frame's length.
func (r *Rows) AddRow(part []byte, whole int) {
	r.frames = append(slices.Grow(r.frames, whole), part...)
	r.ends = append(r.ends, len(r.frames))
}

// ExtendLastRow adds the next part of the DataRow that AddRow has begun.
func (r *Rows) ExtendLastRow(part []byte) {
	if n := len(r.ends); n > 0 {
		r.frames = append(r.frames, part...)
		r.ends[n-1] = len(r.frames)
	}
}

// wordBytes is the memory in bytes that each row needs in Rows.ends.
const wordBytes = 8

// MemoryBytes returns the memory that the rows use, in bytes.
func (r *Rows) MemoryBytes() int { return cap(r.frames) + wordBytes*cap(r.ends) }

// AtEnd reports whether the cursor is after the last row.
func (r *Rows) AtEnd() bool { return r.atEnd }

// frameRange returns the frames of the rows whose numbers are at least from (counted from 0) and less than to.
func (r *Rows) frameRange(from, to int) []byte {
	begin := 0
	if from > 0 {
		begin = r.ends[from-1]
	}
	end := begin
	if to > from {
		end = r.ends[to-1]
	}
	return r.frames[begin:end]
}

// RowRange are the rows that a FETCH or MOVE has passed: those whose numbers are at least from and less than to.
// backward means that the last row came first.
type RowRange struct {
	from, to int
	backward bool
}

// Len returns the number of rows that were passed.
func (f RowRange) Len() int { return f.to - f.from }

// Fetch moves the cursor as a FETCH or MOVE does, and returns the rows that it has passed. ok is false if a
// forward-only cursor would move back. In that case it stays at the place where the backward move was detected.
func (r *Rows) Fetch(direction rewrite.CursorDirection, count int64, move bool) (f RowRange, ok bool) {
	switch direction {
	case rewrite.CursorAbsolute:
		return r.moveToAbsolute(count)
	case rewrite.CursorRelative:
		return r.moveRelative(count, move)
	case rewrite.CursorBackward:
		return r.moveBy(false, count, move)
	}
	return r.moveBy(true, count, move)
}

// moveBy moves the cursor forward or back by count rows. A negative count reverses the direction.
func (r *Rows) moveBy(forward bool, count int64, move bool) (RowRange, bool) {
	if count < 0 {
		forward, count = !forward, -count
	}
	switch {
	case count > 0 && forward:
		return r.MoveForward(count), true
	case count > 0 && move && count == rewrite.CursorAll: // a rewind
		f := RowRange{to: r.pos, backward: true}
		if r.pos > 0 && !r.atEnd {
			f.to--
		}
		return f, r.rewind()
	case count > 0:
		return r.moveBack(count)
	case r.atStart || r.atEnd:
		return RowRange{}, true
	case move:
		return RowRange{from: r.pos - 1, to: r.pos}, true
	}
	// As in PostgreSQL, the cursor returns the current row again, by a move back and forward.
	if _, ok := r.moveBack(1); !ok {
		return RowRange{}, false
	}
	return r.MoveForward(1), true
}

// moveToAbsolute moves the cursor to the row with a number. Negative numbers count from the end.
func (r *Rows) moveToAbsolute(count int64) (RowRange, bool) {
	switch {
	case count == 0:
		return RowRange{}, r.rewind()
	case count < 0:
		r.MoveForward(rewrite.CursorAll)
		if count < -1 {
			if _, ok := r.moveBack(-(count + 1)); !ok {
				return RowRange{}, false
			}
		}
		return r.moveBack(1)
	case count-1 <= int64(r.pos/2):
		if !r.rewind() {
			return RowRange{}, false
		}
		if count > 1 {
			r.MoveForward(count - 1)
		}
	default:
		pos := int64(r.pos)
		if r.atEnd {
			pos++
		}
		if count <= pos {
			if _, ok := r.moveBack(pos - count + 1); !ok {
				return RowRange{}, false
			}
		} else if count > pos+1 {
			r.MoveForward(count - pos - 1)
		}
	}
	return r.MoveForward(1), true
}

// moveRelative moves the cursor to the row that is count rows after the current one, or before it if count is negative.
func (r *Rows) moveRelative(count int64, move bool) (RowRange, bool) {
	switch {
	case count == 0:
		return r.moveBy(true, 0, move)
	case count > 0:
		if count > 1 {
			r.MoveForward(count - 1)
		}
		return r.MoveForward(1), true
	case count < -1:
		if _, ok := r.moveBack(-(count + 1)); !ok {
			return RowRange{}, false
		}
	}
	return r.moveBack(1)
}

// MoveForward moves the cursor forward over count rows, or over all remaining rows if these are fewer.
func (r *Rows) MoveForward(count int64) RowRange {
	f := RowRange{from: r.pos, to: r.pos}
	if r.atEnd {
		return f
	}
	left := len(r.ends) - r.pos
	n := int(min(count, int64(left)))
	f.to += n
	r.pos += n
	r.atStart = r.atStart && n == 0
	r.atEnd = count == rewrite.CursorAll || count > int64(left)
	return f
}

// moveBack moves the cursor backward over count rows, or over all preceding rows if these are fewer. ok is false for
// a forward-only cursor.
func (r *Rows) moveBack(count int64) (f RowRange, ok bool) {
	if r.forwardOnly {
		return f, false
	}
	f.backward = true
	if r.atStart {
		return f, true
	}
	f.to = r.pos - 1
	if r.atEnd {
		f.to = r.pos
	}
	n := int(min(count, int64(f.to)))
	f.from = f.to - n
	if n > 0 && r.atEnd {
		r.atEnd = false
		r.pos++
	}
	if count == rewrite.CursorAll || int64(n) < count {
		r.atStart, r.pos = true, 0
	} else {
		r.pos -= n
	}
	return f, true
}

// rewind moves the cursor before the first row. rewind returns false if a forward-only cursor would move back.
func (r *Rows) rewind() bool {
	if r.atStart && !r.atEnd {
		return true
	}
	if r.forwardOnly {
		return false
	}
	r.pos, r.atStart, r.atEnd = 0, true, false
	return true
}
