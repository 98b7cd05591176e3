package rawconn

import (
	"sync"
	"sync/atomic"
	"syscall"
)

// ParkedConns holds connections that wait for their peers: one goroutine waits for all of them. Each entry is resumed
// once: when its connection is readable, has ended or has failed, when Wake is called, or when the ParkedConns ends.
//
// The table places, under mu, lists the parked (waiting) entries. The code that removes an entry resumes it. The
// kernel, or a ParkingSpot, may name a removed entry, whose ticket (place and number of use) is unknown. So nothing
// depends on file descriptors, which other connections may have by then. A ParkedConns is safe for concurrent use.
type ParkedConns[T any] struct {
	resume func(T)
	set    *pollSet // nil if the system has none; nothing is parked then
	ended  chan struct{}

	mu     sync.Mutex
	places []parkingPlace[T] // as many as were ever parked at once
	free   uint32            // index of the first free place plus 1; 0 for none
	parked int
	closed bool
}

// parkingPlace is a place in the table of a ParkedConns. turn is the number of the place's uses so far.
type parkingPlace[T any] struct {
	who  T
	turn uint32
	next uint32 // if free, the next free place plus 1; otherwise taken
}

func (at *parkingPlace[T]) ticket(i int) uint64 { return uint64(at.turn)<<32 | uint64(i) }

const (
	taken = ^uint32(0)
	// batch is the greatest number of waiting connections that one call of the kernel reports.
	batch = 128
)

// ParkingSpot is the current or last parking place of a connection, as a ticket. The ticket has the place's index in
// its lower half, and above it the place's turn. The zero ParkingSpot is no place.
type ParkingSpot struct{ ticket atomic.Uint64 }

// NewParkedConns returns a ParkedConns that calls resume once for each entry that stops waiting. resume must not block,
// and may run in any goroutine. Close ends the ParkedConns.
func NewParkedConns[T any](resume func(T)) (*ParkedConns[T], error) {
	set, err := newPollSet()
	if err != nil {
		return nil, err
	}
	p := &ParkedConns[T]{resume: resume, set: set, ended: make(chan struct{})}
	if set == nil {
		close(p.ended)
	} else {
		go p.resumeReady()
	}
	return p, nil
}

// Park adds the entry who, which waits for conn without a goroutine of its own, and stores the entry's place in spot.
// conn must have no buffered input. If Park returns true, who may have been resumed already, and the caller must not
// touch who and conn, except by Wake. If Park returns false, nothing has changed: the connection is no socket or is
// closed, or the system lacks support.
//
// mu is held during the kernel's call. Otherwise an entry could be woken before that call and parked again. Its
// connection would then still be in the kernel's set, which holds a connection once.
func (p *ParkedConns[T]) Park(conn Conn, who T, spot *ParkingSpot) bool {
	socket := socketOf(conn)
	if p.set == nil || socket == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	ticket := p.assignPlace(who)
	spot.ticket.Store(ticket)
	if !p.set.add(socket, ticket) {
		p.freePlace(ticket)
		return false
	}
	return true
}

// Unregister removes a connection from the kernel's set of waiting sockets. A resumed entry calls Unregister first.
// A closed connection needs no Unregister.
func (p *ParkedConns[T]) Unregister(conn Conn) {
	if socket := socketOf(conn); p.set != nil && socket != nil {
		p.set.remove(socket)
	}
}

// Wake resumes the entry at a ParkingSpot, if the entry still waits. The caller first stores the reason of the
// wake-up. The entry checks for reasons after Park, and so is resumed or finds the reason.
func (p *ParkedConns[T]) Wake(spot *ParkingSpot) { p.wake(spot.ticket.Load()) }

func (p *ParkedConns[T]) wake(ticket uint64) {
	p.mu.Lock()
	who, ok := p.freePlace(ticket)
	p.mu.Unlock()
	if ok {
		p.resume(who)
	}
}

// Count returns the number of entries whose connections wait now.
func (p *ParkedConns[T]) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.parked
}

// Close ends the ParkedConns and resumes all entries. Close returns when the ParkedConns's goroutine has ended.
func (p *ParkedConns[T]) Close() {
	p.mu.Lock()
	p.closed = true // no more places are added
	p.mu.Unlock()
	if p.set != nil {
		p.set.close()
	}
	<-p.ended
}

// resumeReady resumes the entries whose sockets the kernel reports, until the ParkedConns is closed.
func (p *ParkedConns[T]) resumeReady() {
	defer close(p.ended)
	var ready [batch]uint64
	for {
		n, err := p.set.wait(ready[:])
		if err != nil {
			break
		}
		for _, ticket := range ready[:n] {
			p.wake(ticket)
		}
	}
	for _, ticket := range p.closeAndListTickets() {
		p.wake(ticket)
	}
}

// closeAndListTickets returns the tickets of all entries that wait, and closes the table: no entry can be added
// afterwards.
func (p *ParkedConns[T]) closeAndListTickets() (all []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true // also after a failure of the set
	for i := range p.places {
		if at := &p.places[i]; at.next == taken {
			all = append(all, at.ticket(i))
		}
	}
	return all
}

// assignPlace puts the entry who into a free place, and returns its ticket (index and turn). The caller holds mu.
func (p *ParkedConns[T]) assignPlace(who T) (ticket uint64) {
	if p.free == 0 {
		p.places = append(p.places, parkingPlace[T]{turn: 1}) // 0 is the ticket of a zero ParkingSpot
		p.free = uint32(len(p.places))
	}
	i := int(p.free - 1)
	at := &p.places[i]
	p.free, at.next, at.who = at.next, taken, who
	p.parked++
	return at.ticket(i)
}

// freePlace frees the place of a ticket and returns the place's entry. ok is false if the entry was removed before.
// The caller holds mu.
func (p *ParkedConns[T]) freePlace(ticket uint64) (who T, ok bool) {
	i, turn := uint32(ticket), uint32(ticket>>32)
	if int(i) >= len(p.places) {
		return who, false
	}
	at := &p.places[i]
	if at.turn != turn || at.next != taken {
		return who, false
	}
	who = at.who
	*at = parkingPlace[T]{turn: turn + 1, next: p.free}
	p.free = i + 1
	p.parked--
	return who, true
}

// socketOf returns the socket of a connection, or nil if it has none.
func socketOf(conn Conn) syscall.RawConn {
	if of, ok := conn.(interface{ rawSocket() syscall.RawConn }); ok {
		return of.rawSocket()
	}
	return nil
}
