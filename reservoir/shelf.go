package reservoir

import (
	"cmp"
	"slices"
	"time"
)

// shelf is the reservoir's bookkeeping: which backends are ready, how many
// there are of each kind, and what should happen next. It does no I/O, reads no
// clock and starts nothing. The Reservoir's mutex guards it.
type shelf struct {
	maxOpen int
	target  int
	batch   int // most backends that may be missing for replacement at once

	// ready may be lent until the next scan, all of them. The last one is lent
	// first.
	ready []*Conn

	inUse     int // lent, dedicated ones included
	dialing   int // being dialled, dedicated ones included
	closing   int // ended, but their socket is not closed yet
	waiting   int // borrowers that wait for a backend
	claimed   int // borrowers that wait for a slot, to dial a dedicated backend
	replacing int // backends that stay until their replacement is there

	// What the lease said last.
	leased int // slots held, 0 when none are counted
	owed   int // backends that must end besides those that are closing

	// horizon is the latest that the time can be before the next scan: what is
	// due then is due now. The time since the reservoir was made.
	horizon time.Duration
}

// held is what the target is about.
func (s *shelf) held() int { return s.inUse + len(s.ready) }

// open is what MaxOpen is about.
func (s *shelf) open() int { return s.held() + s.dialing + s.closing }

// wanted is how many backends should be held.
func (s *shelf) wanted() int { return min(max(s.target, s.inUse+s.waiting), s.maxOpen) }

// slots is how many backends may be open.
func (s *shelf) slots() int {
	if s.leased > 0 {
		return min(s.leased, s.maxOpen)
	}
	return s.maxOpen
}

// need is how many dials for the shelf should begin now.
func (s *shelf) need() int {
	missing := s.wanted() + s.replacing - s.held() - s.dialing
	room := s.maxOpen - s.open() - s.claimed
	return max(0, min(missing, room))
}

// lend books a loan of a backend that was taken off the shelf. Whether it waits
// for a replacement is asked again when it comes back.
func (s *shelf) lend(c *Conn) {
	s.unmark(c)
	c.state = lent
	s.inUse++
}

// put places a backend that is no longer lent on top.
func (s *shelf) put(c *Conn) {
	c.state = ready
	s.ready = append(s.ready, c)
}

// putNew places a new backend at the bottom: those in use before stay warm.
func (s *shelf) putNew(c *Conn) {
	c.state = ready
	s.ready = slices.Insert(s.ready, 0, c)
}

// take removes a backend from the shelf. Its state is the caller's business.
func (s *shelf) take(i int) *Conn {
	c := s.ready[i]
	s.ready = slices.Delete(s.ready, i, i+1)
	return c
}

// remove takes that backend. It is found at once on top, where it usually is.
func (s *shelf) remove(c *Conn) *Conn {
	i := len(s.ready) - 1
	for s.ready[i] != c {
		i--
	}
	return s.take(i)
}

// ripe are the ready backends whose hour has come, the one nearest to its end
// first.
func (s *shelf) ripe() []*Conn {
	var ripe []*Conn
	for _, c := range s.ready {
		if c.retireAt <= s.horizon {
			ripe = append(ripe, c)
		}
	}
	slices.SortFunc(ripe, func(a, b *Conn) int { return cmp.Compare(a.guardAt, b.guardAt) })
	return ripe
}

// due says whether a ready backend should be retired now, and why. It may mark
// it as waiting for its replacement.
//
// With slots left the replacement is dialled first. Without, the old one goes
// first, but no more than batch may be missing: when dials fail, the others
// stay until their guard window. What counts is what the lease's slots allow.
func (s *shelf) due(c *Conn) (Reason, bool) {
	goal, batch := s.wanted(), s.batch
	if s.slots() <= goal {
		goal = s.slots()
		batch = min(batch, (goal+replacedPart-1)/replacedPart)
	}
	switch {
	case s.horizon < c.retireAt:
		return "", false
	case s.horizon >= c.endAt:
		return Aged, true
	case s.horizon >= c.guardAt:
		return Guarded, true
	case s.held() > goal:
		return Aged, true // its replacement is there, or it needs none
	case goal-s.held() >= batch:
		return "", false
	case s.open() < s.slots():
		if !c.replacing && s.replacing < batch {
			c.replacing = true
			s.replacing++
		}
		return "", false
	}
	return Aged, true
}

// end books the end of a backend that is neither ready nor lent any more.
func (s *shelf) end(c *Conn) {
	s.unmark(c)
	c.state = ended
	s.closing++
	s.owed = max(0, s.owed-1)
}

func (s *shelf) unmark(c *Conn) {
	if c.replacing {
		c.replacing = false
		s.replacing--
	}
}
