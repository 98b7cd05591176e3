package admission

import (
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// admit returns the connection if it got a place, and the one that it displaced.
func admit(a *ConnLimiter, conn net.Conn, now time.Time) (in, displaced *Conn) {
	in = &Conn{Net: conn}
	displaced, ok := a.Admit(in, now)
	if !ok {
		return nil, nil
	}
	return in, displaced
}

// caller is a connection from an address that nobody reads or writes.
type caller struct {
	net.Conn
	from net.Addr
}

func (c caller) RemoteAddr() net.Addr { return c.from }

func callerFrom(ip string) caller { return caller{from: &net.TCPAddr{IP: net.ParseIP(ip), Port: 1}} }

// A flood of half-open startups from one address keeps nobody else out, however fast it comes: a
// newcomer from elsewhere is let in at once, at the cost of the flood, and stays. A source that is
// alone has all places.
func TestFloodKeepsOutItself(t *testing.T) {
	t.Parallel()
	const most = 100
	now := time.Now()
	a := NewConnLimiter(most)
	flood := callerFrom("192.0.2.66")
	refused := 0
	for i := range 3 * most {
		if in, _ := admit(a, flood, now); in == nil {
			refused++
		} else if i >= most {
			t.Fatal("a flood of one moment displaces what has just begun")
		}
	}
	if a.startups.n != most || refused != 2*most {
		t.Errorf("%d places taken, %d refused", a.startups.n, refused)
	}
	var guests []*Conn
	for i := range 30 {
		from := callerFrom(fmt.Sprintf("198.51.100.%d", i%10))
		if i%10 == 9 {
			from = callerFrom("127.0.0.1")
		}
		in, displaced := admit(a, from, now)
		if in == nil || displaced == nil || displaced.from != connSource(flood) {
			t.Fatalf("newcomer %d: in %v, at the cost of %v", i, in != nil, displaced)
		}
		guests = append(guests, in)
		for range most {
			admit(a, flood, now)
		}
	}
	for i, in := range guests {
		if in.displaced {
			t.Errorf("the flood displaced newcomer %d", i)
		}
		a.ReleasePlace(in)
	}
	// In time the flood displaces itself.
	for range most {
		admit(a, flood, now)
	}
	now = now.Add(displaceAfter)
	if in, displaced := admit(a, flood, now); in == nil || displaced == nil || displaced.from != connSource(flood) {
		t.Error("what says nothing for long keeps its place")
	}
	for in := a.startups.first; in != nil; in = a.startups.first {
		a.ReleasePlace(in)
	}
	if a.open < 0 || len(a.sources) != 0 {
		t.Errorf("%d open, sources %v", a.open, a.sources)
	}
}

// Two sources that both want all end with half each, and a third has its share at once.
func TestSourcesShareStartups(t *testing.T) {
	t.Parallel()
	now := time.Now()
	a := NewConnLimiter(60)
	one, two, three := callerFrom("192.0.2.1"), callerFrom("2001:db8::1"), callerFrom("2001:db8:1::1")
	for range 100 {
		admit(a, one, now)
	}
	for range 100 {
		admit(a, two, now)
		admit(a, one, now)
	}
	if n, m := a.sources[connSource(one)], a.sources[connSource(two)]; n+m != 60 || n < 29 || m < 29 {
		t.Errorf("%d and %d", n, m)
	}
	for range 15 {
		if in, _ := admit(a, three, now); in == nil {
			t.Fatalf("a third has %d", a.sources[connSource(three)])
		}
	}
}

// The source of a connection of a Unix socket is its process.
func TestSourceOfUnixSocket(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if of := connSource(server); of.process == 0 {
		t.Errorf("%+v", of)
	}
}

// closable is a connection that nobody reads or writes, and that knows whether it was closed.
type closable struct {
	caller
	closed bool
}

func (c *closable) Close() error { c.closed = true; return nil }

// cut closes the connections of all that have no session yet, in whatever order they have come and
// gone on, and of nobody else; the lists hold who has come, oldest first.
func TestCutOfArrivals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		now := time.Now()
		a := NewConnLimiter(rapid.IntRange(1, 8).Draw(r, "most"))
		var startups, openings, others []*Conn
		without := func(of []*Conn, in *Conn) []*Conn {
			return slices.DeleteFunc(of, func(other *Conn) bool { return other == in })
		}
		for range rapid.IntRange(0, 40).Draw(r, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(r, "ms")) * time.Millisecond)
			pick := func(of []*Conn) *Conn { return of[rapid.IntRange(0, len(of)-1).Draw(r, "which")] }
			here := slices.Concat(startups, openings)
			switch act := rapid.IntRange(0, 5).Draw(r, "act"); {
			case act < 3:
				from := callerFrom(fmt.Sprintf("192.0.2.%d", rapid.IntRange(1, 3).Draw(r, "from")))
				in, displaced := admit(a, &closable{caller: from}, now)
				if displaced != nil {
					startups, others = without(startups, displaced), append(others, displaced)
				}
				if in != nil {
					startups = append(startups, in)
				}
			case len(here) == 0:
			case act == 3:
				in := pick(here)
				if a.FinishStartup(in); slices.Contains(startups, in) {
					startups, openings = without(startups, in), append(openings, in)
				}
			default:
				in := pick(here)
				if act == 4 {
					a.FinishOpening(in)
				} else {
					a.ReleasePlace(in)
				}
				startups, openings, others = without(startups, in), without(openings, in), append(others, in)
			}
			for _, l := range []struct {
				is   *connList
				want []*Conn
			}{{&a.startups, startups}, {&a.openings, openings}} {
				var got []*Conn
				for in := l.is.first; in != nil; in = in.place.next {
					got = append(got, in)
				}
				if !slices.Equal(got, l.want) || l.is.n != len(l.want) || len(got) > 0 && l.is.last != got[len(got)-1] {
					r.Fatalf("list of %d, want %d", len(got), len(l.want))
				}
			}
		}
		for _, in := range others {
			a.FinishStartup(in) // one that was displaced goes on until it finds its connection closed
		}
		a.CloseUnopened()
		for _, in := range slices.Concat(startups, openings) {
			if !in.Net.(*closable).closed {
				r.Error("a startup was left open")
			}
		}
		for _, in := range others {
			if in.Net.(*closable).closed {
				r.Error("a session's connection was closed")
			}
		}
	})
}
