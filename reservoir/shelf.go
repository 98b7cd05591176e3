package reservoir

import (
	"cmp"
	"slices"
	"time"
)

// poolState counts the backends in each state, holds the ready ones, and decides how many to dial or retire. A
// poolState does no I/O, reads no clock and starts no goroutine. The Reservoir's mutex guards a poolState.
type poolState struct {
	maxOpen int
	target  int
	batch   int // most backends that may be missing at once for replacement

	// ready holds the backends that may be lent until the next scan. The last element is lent first.
	ready []*Conn

	inUse     int // lent, with dedicated ones
	dialing   int // being dialled, with dedicated ones
	closing   int // ended, with a socket that is not closed yet
	waiting   int // borrowers that wait for a backend
	claimed   int // borrowers that wait for a slot, to dial a dedicated backend
	replacing int // backends that stay until their replacement is dialled

	// leased and mustEnd come from the lease's state when obeyLeaseLocked last read it.
	leased  int // held slots, 0 when none are counted
	mustEnd int // backends that must end besides the closing ones

	// horizon is the time of the next scan, counted from New. A backend that is due for retirement by then is due now.
	horizon time.Duration
}

// heldCount returns the number of backends that Config.TargetReady limits, which are those in use and ready.
func (s *poolState) heldCount() int { return s.inUse + len(s.ready) }

// openCount returns the number of backends that Config.MaxOpen limits.
func (s *poolState) openCount() int { return s.heldCount() + s.dialing + s.closing }

// wantedCount returns how many backends should be in use or ready.
func (s *poolState) wantedCount() int { return min(max(s.target, s.inUse+s.waiting), s.maxOpen) }

// slotLimit returns how many backends may be open within Config.MaxOpen and the slots of the lease.
func (s *poolState) slotLimit() int {
	if s.leased > 0 {
		return min(s.leased, s.maxOpen)
	}
	return s.maxOpen
}

// missingDials returns how many dials of backends that are not dedicated should begin now.
func (s *poolState) missingDials() int {
	missing := s.wantedCount() + s.replacing - s.heldCount() - s.dialing
	room := s.maxOpen - s.openCount() - s.claimed
	return max(0, min(missing, room))
}

// markLent records the loan of a backend that was taken off the shelf. When the backend returns, shouldRetire decides
// again whether to replace the backend.
func (s *poolState) markLent(c *Conn) {
	s.unmarkReplacing(c)
	c.state = lent
	s.inUse++
}

// putReturned places a returned backend at the end of ready, so that it is lent first.
func (s *poolState) putReturned(c *Conn) {
	c.state = ready
	s.ready = append(s.ready, c)
}

// putNew places a new backend at the start of ready, so that it is lent last: backends that were in use are warm.
func (s *poolState) putNew(c *Conn) {
	c.state = ready
	s.ready = slices.Insert(s.ready, 0, c)
}

// takeAt removes the i-th ready backend from the shelf. The caller sets the backend's state.
func (s *poolState) takeAt(i int) *Conn {
	c := s.ready[i]
	s.ready = slices.Delete(s.ready, i, i+1)
	return c
}

// remove removes c from the ready backends. The search begins at the end, where c usually is.
func (s *poolState) remove(c *Conn) *Conn {
	i := len(s.ready) - 1
	for s.ready[i] != c {
		i--
	}
	return s.takeAt(i)
}

// dueForRetirement returns the ready backends that are due for retirement, those with the earliest guard window first.
func (s *poolState) dueForRetirement() []*Conn {
	var ripe []*Conn
	for _, c := range s.ready {
		if c.retireAt <= s.horizon {
			ripe = append(ripe, c)
		}
	}
	slices.SortFunc(ripe, func(a, b *Conn) int { return cmp.Compare(a.guardAt, b.guardAt) })
	return ripe
}

// shouldRetire reports whether a ready backend should be retired now, and why. shouldRetire may mark the backend as
// waiting for its replacement.
//
// If a slot is free, the replacement is dialled before the old backend is closed. If no slot is free, the old
// backend is closed first, but no more than batch may be missing. When dials fail, the other backends stay until
// their guard window. A slot is free only if the lease holds it.
func (s *poolState) shouldRetire(c *Conn) (CloseReason, bool) {
	goal, batch := s.wantedCount(), s.batch
	if s.slotLimit() <= goal {
		goal = s.slotLimit()
		batch = min(batch, (goal+replacedPart-1)/replacedPart)
	}
	switch {
	case s.horizon < c.retireAt:
		return "", false
	case s.horizon >= c.endAt:
		return Aged, true
	case s.horizon >= c.guardAt:
		return Guarded, true
	case s.heldCount() > goal:
		return Aged, true // its replacement is ready, or it needs none
	case goal-s.heldCount() >= batch:
		return "", false
	case s.openCount() < s.slotLimit():
		if !c.replacing && s.replacing < batch {
			c.replacing = true
			s.replacing++
		}
		return "", false
	}
	return Aged, true
}

// recordEnd records that a backend that is neither ready nor lent is being closed.
func (s *poolState) recordEnd(c *Conn) {
	s.unmarkReplacing(c)
	c.state = ended
	s.closing++
	s.mustEnd = max(0, s.mustEnd-1)
}

func (s *poolState) unmarkReplacing(c *Conn) {
	if c.replacing {
		c.replacing = false
		s.replacing--
	}
}
