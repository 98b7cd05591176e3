package stored

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
)

// The rows, and the place among them.

// Rows are the rows of a cursor, each a DataRow as the server sent it, and the place of the
// cursor. A copy stands where the original stood, and has its rows.
type Rows struct {
	frames []byte
	ends   []int // where each row ends in frames
	// pos counts the rows up to the one that the cursor is on, or the last where it is behind
	// that; atStart: it is in front of the first, atEnd: behind the last.
	pos            int
	atStart, atEnd bool
	// forwardOnly: to go back is an error.
	forwardOnly bool
}

// New are no rows, with the cursor in front of them. forwardOnly: to go back is an error.
func New(forwardOnly bool) Rows { return Rows{atStart: true, forwardOnly: forwardOnly} }

// Emptied are no rows of the same cursor, for what comes of its query once more.
func (r *Rows) Emptied() Rows { return New(r.forwardOnly) }

// Add takes a row, or as much of its frame as has come; whole is its length.
func (r *Rows) Add(part []byte, whole int) {
	r.frames = append(slices.Grow(r.frames, whole), part...)
	r.ends = append(r.ends, len(r.frames))
}

// More takes the next part of the row that was added last.
func (r *Rows) More(part []byte) {
	if n := len(r.ends); n > 0 {
		r.frames = append(r.frames, part...)
		r.ends[n-1] = len(r.frames)
	}
}

// wordBytes is what the place of a row costs beside its frame.
const wordBytes = 8

// Cost is how many bytes of memory the rows have.
func (r *Rows) Cost() int { return cap(r.frames) + wordBytes*cap(r.ends) }

// AtEnd reports whether the cursor is behind the last row.
func (r *Rows) AtEnd() bool { return r.atEnd }

// span is the rows from number from on up to number to, which is not one of them.
func (r *Rows) span(from, to int) []byte {
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

// Passed is what a FETCH or MOVE has passed: rows from one number to another, that one not
// included; backward: the last of them came first.
type Passed struct {
	from, to int
	backward bool
}

// Len is their number.
func (f Passed) Len() int { return f.to - f.from }

// Fetch moves the cursor as FETCH says, or MOVE, and returns the rows that it is answered with. ok
// is false where a cursor that only goes forward was to go back: then it stands where that was
// found out.
func (r *Rows) Fetch(direction rewrite.CursorDirection, count int64, move bool) (f Passed, ok bool) {
	switch direction {
	case rewrite.CursorAbsolute:
		return r.absolute(count)
	case rewrite.CursorRelative:
		return r.relative(count, move)
	case rewrite.CursorBackward:
		return r.along(false, count, move)
	}
	return r.along(true, count, move)
}

// along goes forward or back by a number of rows; below zero the other way.
func (r *Rows) along(forward bool, count int64, move bool) (Passed, bool) {
	if count < 0 {
		forward, count = !forward, -count
	}
	switch {
	case count > 0 && forward:
		return r.Forward(count), true
	case count > 0 && move && count == rewrite.CursorAll: // which is a rewind
		f := Passed{to: r.pos, backward: true}
		if r.pos > 0 && !r.atEnd {
			f.to--
		}
		return f, r.rewind()
	case count > 0:
		return r.back(count)
	case r.atStart || r.atEnd:
		return Passed{}, true
	case move:
		return Passed{from: r.pos - 1, to: r.pos}, true
	}
	// The row that the cursor is on, once more.
	if _, ok := r.back(1); !ok {
		return Passed{}, false
	}
	return r.Forward(1), true
}

// absolute goes to the row of a number, from the end where that is below zero.
func (r *Rows) absolute(count int64) (Passed, bool) {
	switch {
	case count == 0:
		return Passed{}, r.rewind()
	case count < 0:
		r.Forward(rewrite.CursorAll)
		if count < -1 {
			if _, ok := r.back(-(count + 1)); !ok {
				return Passed{}, false
			}
		}
		return r.back(1)
	case count-1 <= int64(r.pos/2):
		if !r.rewind() {
			return Passed{}, false
		}
		if count > 1 {
			r.Forward(count - 1)
		}
	default:
		pos := int64(r.pos)
		if r.atEnd {
			pos++
		}
		if count <= pos {
			if _, ok := r.back(pos - count + 1); !ok {
				return Passed{}, false
			}
		} else if count > pos+1 {
			r.Forward(count - pos - 1)
		}
	}
	return r.Forward(1), true
}

// relative goes to the row that stands so many behind the one at hand, or in front of it.
func (r *Rows) relative(count int64, move bool) (Passed, bool) {
	switch {
	case count == 0:
		return r.along(true, 0, move)
	case count > 0:
		if count > 1 {
			r.Forward(count - 1)
		}
		return r.Forward(1), true
	case count < -1:
		if _, ok := r.back(-(count + 1)); !ok {
			return Passed{}, false
		}
	}
	return r.back(1)
}

// Forward passes so many rows, or all that are left.
func (r *Rows) Forward(count int64) Passed {
	f := Passed{from: r.pos, to: r.pos}
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

// back passes so many rows, or all that are in front.
func (r *Rows) back(count int64) (f Passed, ok bool) {
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

// rewind goes in front of the first row.
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
