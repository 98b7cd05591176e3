package proxy

import (
	"math"

	"github.com/sluice-proxy/sluice/rewrite"
)

// The rows of a cursor WITH HOLD that are in memory, and where the cursor stands among them: a
// pure value, which moves as PostgreSQL's own portals do (DoPortalRunFetch and PortalRunSelect of
// its pquery.c, whose order of steps decides which of them fails for a cursor that only goes
// forward). stored.go is around it.

// storedRows are the rows, each a DataRow as the server sent it, and the place of the cursor.
type storedRows struct {
	frames []byte
	ends   []int // where each row ends in frames
	// pos counts the rows up to the one that the cursor is on, or the last where it is behind
	// that; atStart: it is in front of the first, atEnd: behind the last.
	pos            int
	atStart, atEnd bool
	// forwardOnly: to go back is an error.
	forwardOnly bool
}

// newRows are none, with the cursor in front of them.
func newRows(forwardOnly bool) storedRows { return storedRows{atStart: true, forwardOnly: forwardOnly} }

// span is the rows from number from on up to number to, which is not one of them.
func (r *storedRows) span(from, to int) []byte {
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

// fetched is what a FETCH or MOVE has passed: rows from one number to another, that one not
// included; backward: the last of them came first.
type fetched struct {
	from, to int
	backward bool
}

// len is their number.
func (f fetched) len() int { return f.to - f.from }

// fetch moves the cursor as FETCH says, or MOVE, and returns the rows that it is answered with. ok
// is false where a cursor that only goes forward was to go back: then it stands where that was
// found out.
func (r *storedRows) fetch(direction rewrite.CursorDirection, count int64, move bool) (f fetched, ok bool) {
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
func (r *storedRows) along(forward bool, count int64, move bool) (fetched, bool) {
	if count < 0 {
		forward, count = !forward, -count
	}
	switch {
	case count > 0 && forward:
		return r.forward(count), true
	case count > 0 && move && count == rewrite.CursorAll: // which is a rewind
		f := fetched{to: r.pos, backward: true}
		if r.pos > 0 && !r.atEnd {
			f.to--
		}
		return f, r.rewind()
	case count > 0:
		return r.back(count)
	case r.atStart || r.atEnd:
		return fetched{}, true
	case move:
		return fetched{from: r.pos - 1, to: r.pos}, true
	}
	// The row that the cursor is on, once more.
	if _, ok := r.back(1); !ok {
		return fetched{}, false
	}
	return r.forward(1), true
}

// absolute goes to the row of a number, from the end where that is below zero.
func (r *storedRows) absolute(count int64) (fetched, bool) {
	switch {
	case count == 0:
		return fetched{}, r.rewind()
	case count < 0:
		r.forward(rewrite.CursorAll)
		if count < -1 {
			if _, ok := r.back(-(count + 1)); !ok {
				return fetched{}, false
			}
		}
		return r.back(1)
	case count-1 <= int64(r.pos/2):
		if !r.rewind() {
			return fetched{}, false
		}
		if count > 1 {
			r.forward(count - 1)
		}
	default:
		pos := int64(r.pos)
		if r.atEnd {
			pos++
		}
		if count <= pos {
			if _, ok := r.back(pos - count + 1); !ok {
				return fetched{}, false
			}
		} else if count > pos+1 {
			r.forward(count - pos - 1)
		}
	}
	return r.forward(1), true
}

// relative goes to the row that stands so many behind the one at hand, or in front of it.
func (r *storedRows) relative(count int64, move bool) (fetched, bool) {
	switch {
	case count == 0:
		return r.along(true, 0, move)
	case count > 0:
		if count > 1 {
			r.forward(count - 1)
		}
		return r.forward(1), true
	case count < -1:
		if _, ok := r.back(-(count + 1)); !ok {
			return fetched{}, false
		}
	}
	return r.back(1)
}

// forward passes so many rows, or all that are left.
func (r *storedRows) forward(count int64) fetched {
	f := fetched{from: r.pos, to: r.pos}
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
func (r *storedRows) back(count int64) (f fetched, ok bool) {
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
	if count == math.MaxInt64 || int64(n) < count {
		r.atStart, r.pos = true, 0
	} else {
		r.pos -= n
	}
	return f, true
}

// rewind goes in front of the first row.
func (r *storedRows) rewind() bool {
	if r.atStart && !r.atEnd {
		return true
	}
	if r.forwardOnly {
		return false
	}
	r.pos, r.atStart, r.atEnd = 0, true, false
	return true
}
