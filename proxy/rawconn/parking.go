package rawconn

import (
	"sync"
	"sync/atomic"
	"syscall"
)

// Parking is where connections wait for their peers without a goroutine each: one goroutine waits
// for all of them. Whoever is parked is resumed once: when its connection can be read, has ended
// or has failed, when it is woken, or when the Parking ends, whatever of these comes first.
//
// The one truth of who is parked is the table of places, under mu. Whoever takes somebody out of
// it resumes it; the kernel, or a Spot, may name one that has gone on since, of whose ticket
// nothing is known any more. So nothing depends on the number of a file descriptor, which may
// stand for another connection by then. Anybody may call its methods.
type Parking[T any] struct {
	resume func(T)
	set    *pollSet // nil: this system has none, and nobody is parked
	ended  chan struct{}

	mu     sync.Mutex
	places []place[T] // as many as have ever been parked at once
	free   uint32     // the first free place, and 1; 0: none
	parked int
	closed bool
}

// place is one of a Parking's; turn is how often it was left.
type place[T any] struct {
	who  T
	turn uint32
	next uint32 // free: the next free place, and 1; else taken
}

func (at *place[T]) ticket(i int) uint64 { return uint64(at.turn)<<32 | uint64(i) }

const (
	taken = ^uint32(0)
	// batch is how many are resumed by one call of the kernel.
	batch = 128
)

// Spot says where somebody is parked, or was last, by a ticket: the place in its lower half, and
// the place's turn. The zero value is nowhere.
type Spot struct{ ticket atomic.Uint64 }

// NewParking returns a Parking that calls resume for each one that is to go on; resume must not
// wait, and may run in any goroutine. Close ends it.
func NewParking[T any](resume func(T)) (*Parking[T], error) {
	set, err := newPollSet()
	if err != nil {
		return nil, err
	}
	p := &Parking[T]{resume: resume, set: set, ended: make(chan struct{})}
	if set == nil {
		close(p.ended)
	} else {
		go p.serve()
	}
	return p, nil
}

// Park leaves a connection, of which nothing was read ahead, and who waits for it. With true both
// may have gone on by now, elsewhere: the caller touches neither any more, save by Wake. With
// false nothing has happened: the connection is no socket, is closed, or the system has no means.
//
// mu is held over the kernel's call: else one who is woken in front of it, and is parked again, would
// meet it in the set, where a connection stands once.
func (p *Parking[T]) Park(conn Conn, who T, spot *Spot) bool {
	socket := socketOf(conn)
	if p.set == nil || socket == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	ticket := p.put(who)
	spot.ticket.Store(ticket)
	if !p.set.add(socket, ticket) {
		p.take(ticket)
		return false
	}
	return true
}

// Leave takes a connection out of the set, of which a wake-up may be left there: whoever is
// resumed calls it before anything else. A connection that is closed has left by itself.
func (p *Parking[T]) Leave(conn Conn) {
	if socket := socketOf(conn); p.set != nil && socket != nil {
		p.set.remove(socket)
	}
}

// Wake resumes who is parked at a spot, if it still is. Who has stored a reason before it calls
// Wake is sure that one who parks behind a look for reasons goes on, or finds the reason at a look
// behind Park.
func (p *Parking[T]) Wake(spot *Spot) { p.wake(spot.ticket.Load()) }

func (p *Parking[T]) wake(ticket uint64) {
	p.mu.Lock()
	who, ok := p.take(ticket)
	p.mu.Unlock()
	if ok {
		p.resume(who)
	}
}

// Parked is how many are parked.
func (p *Parking[T]) Parked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.parked
}

// Close ends the Parking and returns when its goroutine has ended. Whoever is parked is resumed.
func (p *Parking[T]) Close() {
	p.mu.Lock()
	p.closed = true // no place is added any more
	p.mu.Unlock()
	if p.set != nil {
		p.set.close()
	}
	<-p.ended
}

// serve resumes those that the kernel names, up to the end of the set.
func (p *Parking[T]) serve() {
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
	for _, ticket := range p.tickets() {
		p.wake(ticket)
	}
}

// tickets are those of all who are parked, of a Parking that is closed.
func (p *Parking[T]) tickets() (all []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true // also where the set has failed
	for i := range p.places {
		if at := &p.places[i]; at.next == taken {
			all = append(all, at.ticket(i))
		}
	}
	return all
}

// put gives somebody a place, and returns the ticket for it. The caller holds mu.
func (p *Parking[T]) put(who T) (ticket uint64) {
	if p.free == 0 {
		p.places = append(p.places, place[T]{turn: 1}) // 0 is the ticket of a zero Spot
		p.free = uint32(len(p.places))
	}
	i := int(p.free - 1)
	at := &p.places[i]
	p.free, at.next, at.who = at.next, taken, who
	p.parked++
	return at.ticket(i)
}

// take has the one with a ticket leave its place; false where it has left before. The caller
// holds mu.
func (p *Parking[T]) take(ticket uint64) (who T, ok bool) {
	i, turn := uint32(ticket), uint32(ticket>>32)
	if int(i) >= len(p.places) {
		return who, false
	}
	at := &p.places[i]
	if at.turn != turn || at.next != taken {
		return who, false
	}
	who = at.who
	*at = place[T]{turn: turn + 1, next: p.free}
	p.free = i + 1
	p.parked--
	return who, true
}

// socketOf is the socket of a connection; nil for one without.
func socketOf(conn Conn) syscall.RawConn {
	if of, ok := conn.(interface{ rawSocket() syscall.RawConn }); ok {
		return of.rawSocket()
	}
	return nil
}
