//go:build amd64 || arm64

package rawconn

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// parker is one that parks, and counts how often it is resumed.
type parker struct {
	conn    Conn
	spot    ParkingSpot
	resumed chan struct{}
}

func newParker(conn Conn) *parker { return &parker{conn: conn, resumed: make(chan struct{}, 100)} }

// newParking is a Parking whose parkers are told that they are resumed.
func newParking(t testing.TB) *ParkedConns[*parker] {
	t.Helper()
	p, err := NewParkedConns(func(who *parker) { who.resumed <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// goesOn is the way of one who is resumed, once.
func (who *parker) goesOn(t *testing.T, p *ParkedConns[*parker]) {
	t.Helper()
	select {
	case <-who.resumed:
		p.Unregister(who.conn)
	case <-time.After(long):
		t.Fatal("it is not resumed")
	}
}

func (who *parker) stays(t *testing.T, p *ParkedConns[*parker]) {
	t.Helper()
	select {
	case <-who.resumed:
		t.Fatal("it is resumed, and nothing has happened")
	case <-time.After(20 * time.Millisecond):
	}
}

func (who *parker) parks(t *testing.T, p *ParkedConns[*parker]) {
	t.Helper()
	if !p.Park(who.conn, who, &who.spot) {
		t.Fatal("it is not parked")
	}
}

// Whoever is parked is resumed once by whatever happens, before it is parked or behind that, and
// meets what it would have met without: also the error of a reset, which a socket tells once.
func TestParking(t *testing.T) {
	written := func(t *testing.T, who *parker, err error, n int) {
		if n != 1 || err != nil {
			t.Errorf("Read = %d, %v", n, err)
		}
	}
	ended := func(t *testing.T, who *parker, err error, n int) {
		if n != 0 || err != io.EOF {
			t.Errorf("Read = %d, %v", n, err)
		}
	}
	for name, c := range map[string]struct {
		happens func(who *parker, peer net.Conn, p *ParkedConns[*parker])
		then    func(t *testing.T, who *parker, err error, n int)
		notUnix bool
	}{
		"bytes": {func(_ *parker, peer net.Conn, _ *ParkedConns[*parker]) { peer.Write([]byte("x")) }, written, false},
		"bytes, and a wake-up": {func(who *parker, peer net.Conn, p *ParkedConns[*parker]) {
			peer.Write([]byte("x"))
			p.Wake(&who.spot)
		}, written, false},
		"the end":         {func(_ *parker, peer net.Conn, _ *ParkedConns[*parker]) { peer.Close() }, ended, false},
		"half of the end": {func(_ *parker, peer net.Conn, _ *ParkedConns[*parker]) { closeWrite(peer) }, ended, false},
		"a reset": {func(_ *parker, peer net.Conn, _ *ParkedConns[*parker]) {
			peer.(*net.TCPConn).SetLinger(0)
			peer.Close()
		}, func(t *testing.T, _ *parker, err error, _ int) {
			if !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("Read = %v", err)
			}
		}, true},
	} {
		for _, before := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				onEach(t, func(t *testing.T, conn Conn, peer net.Conn) {
					if conn.LocalAddr().Network() == "unix" && c.notUnix {
						return
					}
					p := newParking(t)
					who := newParker(conn)
					if before {
						c.happens(who, peer, p)
						who.parks(t, p)
					} else {
						who.parks(t, p)
						who.stays(t, p)
						c.happens(who, peer, p)
					}
					who.goesOn(t, p)
					who.stays(t, p)
					n, err := conn.Read(make([]byte, 1))
					c.then(t, who, err, n)
					if n := p.Count(); n != 0 {
						t.Errorf("%d are parked", n)
					}
				})
			})
		}
	}
}

// One that is woken finds nothing, and may park again; one whose connection is closed on this side
// leaves the kernel's set in silence, and is there to be woken. Who is not parked stays as it is.
func TestParkingWake(t *testing.T) {
	onEach(t, func(t *testing.T, conn Conn, peer net.Conn) {
		p := newParking(t)
		who := newParker(conn)
		p.Wake(&who.spot)
		for range 3 {
			who.parks(t, p)
			p.Wake(&who.spot)
			p.Wake(&who.spot)
			who.goesOn(t, p)
			who.stays(t, p)
		}
		if got := conn.Peek(); got != Quiet {
			t.Errorf("Peek = %v", got)
		}
		who.parks(t, p)
		conn.Close()
		who.stays(t, p)
		p.Wake(&who.spot)
		who.goesOn(t, p)
		if p.Park(conn, who, &who.spot) || p.Count() != 0 {
			t.Error("a closed connection is parked")
		}
		peer.Close()
	})
}

// What has no socket is not parked; who is parked when the Parking ends is resumed, and nobody is
// parked any more.
func TestParkingRefuses(t *testing.T) {
	p := newParking(t)
	pipe, far := net.Pipe()
	defer far.Close()
	if without := newParker(Wrap(pipe)); p.Park(without.conn, without, &without.spot) {
		t.Error("a pipe is parked")
	}
	var all []*parker
	for range 3 {
		near, _ := socketPair(t, "tcp")
		who := newParker(Wrap(near))
		who.parks(t, p)
		all = append(all, who)
	}
	p.Wake(&all[1].spot)
	p.Close()
	for _, who := range all {
		who.goesOn(t, p)
		who.stays(t, p)
		if p.Park(who.conn, who, &who.spot) {
			t.Error("one is parked at the end")
		}
	}
}

// A connection that gets the descriptor, and the place, of one that has left is not taken for it.
func TestParkingDescriptors(t *testing.T) {
	p := newParking(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	pair := func() (near, far net.Conn) { // near has the lowest descriptor
		near, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if far, err = ln.Accept(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { near.Close(); far.Close() })
		return near, far
	}
	reused := 0
	for range 10 {
		near, _ := pair()
		old := newParker(Wrap(near))
		old.parks(t, p)
		number := descriptor(old.conn)
		old.conn.Close()
		next, peer := pair()
		now := newParker(Wrap(next))
		if descriptor(now.conn) == number {
			reused++
		}
		now.parks(t, p)
		p.Wake(&old.spot)
		old.goesOn(t, p)
		now.stays(t, p)
		p.Unregister(now.conn)
		third := newParker(now.conn) // in the place of the old one
		third.parks(t, p)
		p.Wake(&old.spot)
		third.stays(t, p)
		peer.Write([]byte("x"))
		third.goesOn(t, p)
		now.stays(t, p)
		p.Wake(&now.spot)
		now.goesOn(t, p)
	}
	if reused == 0 {
		t.Error("no descriptor was given again: the test sees nothing")
	}
}

func descriptor(conn Conn) (number uintptr) {
	socketOf(conn).Control(func(fd uintptr) { number = fd })
	return number
}

// Whoever parks again and again, while its peer writes and others wake it, is resumed exactly once
// each time, and reads all that was written.
func TestParkingRaces(t *testing.T) {
	const connections, bytes = 8, 300
	var total atomic.Int64
	type runner struct {
		conn   Conn
		spot   ParkingSpot
		inside atomic.Int32
		read   int
		ended  chan struct{}
	}
	var p *ParkedConns[*runner]
	goOn := func(r *runner) {
		if r.inside.Add(1) != 1 {
			t.Error("resumed twice")
		}
		p.Unregister(r.conn)
		buf := make([]byte, 1)
		for r.conn.Peek() == Readable && rand.IntN(3) > 0 {
			if n, _ := r.conn.Read(buf); n > 0 {
				r.read++
				total.Add(1)
			}
		}
		over := r.conn.Peek() == Closed
		r.inside.Add(-1)
		if over {
			close(r.ended)
		} else if !p.Park(r.conn, r, &r.spot) {
			t.Error("not parked")
			close(r.ended)
		}
	}
	p, err := NewParkedConns(func(r *runner) { go goOn(r) })
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	stop := make(chan struct{})
	var wakers, writers sync.WaitGroup
	for i := range connections {
		near, far := socketPair(t, []string{"tcp", "unix"}[i%2])
		near.SetDeadline(time.Now().Add(10 * long))
		r := &runner{conn: Wrap(near), ended: make(chan struct{})}
		wakers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					p.Wake(&r.spot)
				}
			}
		})
		writers.Go(func() {
			for range bytes {
				far.Write([]byte("x"))
				if rand.IntN(4) == 0 {
					time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
				}
			}
			far.Close()
			select {
			case <-r.ended:
			case <-time.After(long):
				t.Errorf("of %d bytes %d were read, and it waits", bytes, r.read)
			}
		})
		go goOn(r)
	}
	writers.Wait()
	close(stop)
	wakers.Wait()
	if got := total.Load(); got != connections*bytes || p.Count() != 0 {
		t.Errorf("%d bytes, %d parked", got, p.Count())
	}
}

// A ticket takes the one it was given for, and nobody once it has left; places are as many as were
// ever taken at once.
func TestPlaces(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := &ParkedConns[int]{}
		in, gone, most := map[uint64]int{}, []uint64{0}, 0
		for i := range rapid.IntRange(0, 60).Draw(r, "steps") {
			if rapid.Bool().Draw(r, "comes") {
				ticket := p.assignPlace(i)
				if _, there := in[ticket]; there || ticket == 0 {
					r.Fatalf("ticket %x again", ticket)
				}
				in[ticket] = i
				most = max(most, len(in))
			} else {
				for ticket, want := range in {
					if who, ok := p.freePlace(ticket); !ok || who != want {
						r.Fatalf("took %d, %v; want %d", who, ok, want)
					}
					delete(in, ticket)
					gone = append(gone, ticket)
					break
				}
			}
			for _, ticket := range append(gone, uint64(most), 1<<32|uint64(most)) {
				if _, ok := p.freePlace(ticket); ok {
					r.Fatalf("ticket %x takes one twice", ticket)
				}
			}
			for _, at := range p.places {
				if at.next != taken && at.who != 0 {
					r.Fatal("one that has left is kept")
				}
			}
			if p.parked != len(in) || len(p.places) != most {
				r.Fatalf("%d parked of %d, %d places for %d", p.parked, len(in), len(p.places), most)
			}
		}
	})
}

// A place has 16 bytes for a pointer, and parking makes nothing.
func TestParkingAllocations(t *testing.T) {
	p, err := NewParkedConns(func(*parker) {})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	near, _ := socketPair(t, "tcp")
	who := newParker(Wrap(near))
	if allocs := testing.AllocsPerRun(500, func() {
		who.parksOrPanics(p)
		p.Wake(&who.spot)
		p.Unregister(who.conn)
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func (who *parker) parksOrPanics(p *ParkedConns[*parker]) {
	if !p.Park(who.conn, who, &who.spot) {
		panic("it is not parked")
	}
}

// BenchmarkParking is a connection that is parked, resumed by a byte, and read.
func BenchmarkParking(b *testing.B) {
	near, far := socketPair(b, "tcp")
	conn := Wrap(near)
	resumed := make(chan struct{}, 1)
	p, err := NewParkedConns(func(Conn) { resumed <- struct{}{} })
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	var spot ParkingSpot
	one := make([]byte, 1)
	for b.Loop() {
		p.Park(conn, conn, &spot)
		far.Write(one)
		<-resumed
		p.Unregister(conn)
		conn.Read(one)
	}
}

// BenchmarkWaiting is the same by a goroutine that waits.
func BenchmarkWaiting(b *testing.B) {
	near, far := socketPair(b, "tcp")
	conn := Wrap(near)
	resumed := make(chan struct{}, 1)
	one := make([]byte, 1)
	for b.Loop() {
		go func() {
			conn.WaitReadable()
			resumed <- struct{}{}
		}()
		far.Write(one)
		<-resumed
		conn.Read(one)
	}
}
