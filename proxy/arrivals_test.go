package proxy

import (
	"fmt"
	"net"
	"testing"
	"time"
)

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
	a := &arrivals{most: most, sources: map[source]int{}}
	flood := callerFrom("192.0.2.66")
	refused := 0
	for i := range 3 * most {
		if in, _ := a.admit(flood, now); in == nil {
			refused++
		} else if i >= most {
			t.Fatal("a flood of one moment displaces what has just begun")
		}
	}
	if a.startups.Len() != most || refused != 2*most {
		t.Errorf("%d places taken, %d refused", a.startups.Len(), refused)
	}
	var guests []*arrival
	for i := range 30 {
		from := callerFrom(fmt.Sprintf("198.51.100.%d", i%10))
		if i%10 == 9 {
			from = callerFrom("127.0.0.1")
		}
		in, displaced := a.admit(from, now)
		if in == nil || displaced == nil || displaced.from != sourceOf(flood) {
			t.Fatalf("newcomer %d: in %v, at the cost of %v", i, in != nil, displaced)
		}
		guests = append(guests, in)
		for range most {
			a.admit(flood, now)
		}
	}
	for i, in := range guests {
		if in.displaced {
			t.Errorf("the flood displaced newcomer %d", i)
		}
		a.left(in)
	}
	// In time the flood displaces itself.
	for range most {
		a.admit(flood, now)
	}
	now = now.Add(patience)
	if in, displaced := a.admit(flood, now); in == nil || displaced == nil || displaced.from != sourceOf(flood) {
		t.Error("what says nothing for long keeps its place")
	}
	for e := a.startups.Front(); e != nil; e = a.startups.Front() {
		a.left(e.Value.(*arrival))
	}
	if a.open < 0 || len(a.sources) != 0 {
		t.Errorf("%d open, sources %v", a.open, a.sources)
	}
}

// Two sources that both want all end with half each, and a third has its share at once.
func TestSourcesShareStartups(t *testing.T) {
	t.Parallel()
	now := time.Now()
	a := &arrivals{most: 60, sources: map[source]int{}}
	one, two, three := callerFrom("192.0.2.1"), callerFrom("2001:db8::1"), callerFrom("2001:db8:1::1")
	for range 100 {
		a.admit(one, now)
	}
	for range 100 {
		a.admit(two, now)
		a.admit(one, now)
	}
	if n, m := a.sources[sourceOf(one)], a.sources[sourceOf(two)]; n+m != 60 || n < 29 || m < 29 {
		t.Errorf("%d and %d", n, m)
	}
	for range 15 {
		if in, _ := a.admit(three, now); in == nil {
			t.Fatalf("a third has %d", a.sources[sourceOf(three)])
		}
	}
}

// Clients of a Unix socket are told apart by their processes.
func TestSourceOfUnixSocket(t *testing.T) {
	_, server := accepted(t, "unix", t.TempDir()+"/s")
	if of := sourceOf(server); of.process == 0 {
		t.Errorf("%+v", of)
	}
}

// accepted is both ends of a connection.
func accepted(t *testing.T, network, address string) (client, server net.Conn) {
	t.Helper()
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if client, err = net.Dial(network, ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if server, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return client, server
}
