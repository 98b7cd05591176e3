package proxy_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/sockets"
	"github.com/sluice-proxy/sluice/proxy"
)

// parkedClients are clients that linger, each some-th with TLS.
func parkedClients(t *testing.T, s *sluice, n, secure int) (all []*leaver) {
	t.Helper()
	for i := range n {
		all = append(all, newLeaver(t, s.addr, i%secure == secure-1))
	}
	allLinger(t, s, n)
	return all
}

// asks has a client ask for a number of its own, and be answered with it.
func (c *rawClient) asks(t *testing.T, number int) bool {
	t.Helper()
	c.queue(encode(t, &pgproto3.Query{String: fmt.Sprintf("SELECT %d", number)}))
	got := c.readThrough("Z")
	ok := strings.Contains(got, row(number)) && strings.HasSuffix(got, "Z I\n")
	if !ok {
		t.Errorf("%d is answered %q", number, got)
	}
	return ok
}

// row is how a row of a number of at most eight digits is shown.
func row(number int) string {
	text := fmt.Sprint(number)
	return fmt.Sprintf(`\x00\x01\x00\x00\x00\x0%d%s`+"\n", len(text), text)
}

// waysToLeave are those of leaves behind which a session ends that has nothing to do.
func waysToLeave() []string {
	ways := slices.Sorted(maps.Keys(leaves))
	return slices.DeleteFunc(ways, func(how string) bool { return how == "nothing" })
}

var numbers = regexp.MustCompile(`\d+`)

// However a client leaves, plain or with TLS, over TCP or a Unix socket: a session that is parked ends
// as one that awaits it does, with the same cause in the log.
func TestParkedEnd(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	for _, how := range waysToLeave() {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, TLS %v", how, secure), func(t *testing.T) {
				t.Parallel()
				log := new(logged)
				s := startSluice(t, pg, clientTLS(), configure(func(c *proxy.Config) { c.LogSessions = proxy.LogAll }), func(s *setup) { s.log = log })
				ends := func(parked bool) string {
					l := newLeaver(t, s.addr, secure)
					for i := range 9 { // it awaits its client from now on, as long as that takes
						l.asks(t, i)
					}
					if parked {
						s.Quieten()
						allLinger(t, s, 1)
					}
					before := len(log.with("session ended"))
					leaves[how].leave(l)
					waitFor(t, "the session to end", func() bool { return s.Stats().Clients == 0 })
					waitFor(t, "the line", func() bool { return len(log.with("session ended")) > before })
					line := log.with("session ended")[before]
					_, cause, _ := strings.Cut(line, "cause=")
					cause, _, _ = strings.Cut(cause, " turns=")
					return numbers.ReplaceAllString(cause, "0")
				}
				if awaited, parked := ends(false), ends(true); awaited != parked || parked == "" {
					t.Errorf("one that is parked ends with %q, else with %q", parked, awaited)
				}
			})
		}
	}
}

// Parked clients that all ask at one moment are each answered, over a few backends; most of them are
// parked again behind it.
func TestParkedAskAtOnce(t *testing.T) {
	const clients = 400
	s := startSluice(t, sharedPostgres(t), clientTLS(), maxOpen(4))
	all := parkedClients(t, s, clients, 20)
	for range 3 {
		var asked sync.WaitGroup
		for i, c := range all {
			asked.Go(func() { c.asks(t, i) })
		}
		asked.Wait()
		s.Quieten()
		allLinger(t, s, clients)
	}
}

// Nudges without a reason, at whatever moment, cost a client nothing: it is answered, and parked
// again.
func TestParkedNudged(t *testing.T) {
	t.Parallel()
	const clients = 20
	s := startSluice(t, sharedPostgres(t), clientTLS(), maxOpen(4))
	all := parkedClients(t, s, clients, 3)
	stop := make(chan struct{})
	var nudges, asked sync.WaitGroup
	for range 2 {
		nudges.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(i%7) * 300 * time.Microsecond):
					s.NudgeAll()
				}
			}
		})
	}
	for i, c := range all {
		asked.Go(func() {
			for turn := range 20 {
				time.Sleep(time.Duration((i*7+turn*5)%17) * time.Millisecond) // on both sides of when it lingers
				if !c.asks(t, i*100+turn) {
					return
				}
			}
		})
	}
	asked.Wait()
	close(stop)
	nudges.Wait()
	s.Quieten()
	allLinger(t, s, clients)
}

// A drain tells parked clients at once, save those in a transaction: these go on, are parked no more,
// and are told at its end, or when the drain is over.
func TestParkedDrain(t *testing.T) {
	const clients = 400
	s := startSluice(t, sharedPostgres(t), withReplay, asDSQL, clientTLS(), maxOpen(4))
	all := parkedClients(t, s, clients, 20)
	for _, c := range all[:40] {
		c.queue(encode(t, &pgproto3.Query{String: "BEGIN"}))
		c.readThrough("Z")
	}
	s.Quieten()
	allLinger(t, s, clients)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	drained := make(chan error, 1)
	go func() { drained <- s.Shutdown(ctx) }()
	told := func(of []*leaver, what string) {
		t.Helper()
		for i, c := range of {
			if got := c.readThrough("E"); !strings.Contains(got, "57P01") {
				t.Fatalf("client %d %s is told %q", i, what, got)
			}
		}
	}
	told(all[40:], "between two transactions")
	for i, c := range all[:20] {
		c.queue(encode(t, &pgproto3.Query{String: "SELECT 7"}))
		if got := c.readThrough("Z"); !strings.Contains(got, row(7)) {
			t.Fatalf("client %d is answered %q in its transaction", i, got)
		}
		c.queue(encode(t, &pgproto3.Query{String: "COMMIT"}))
		c.flush()
	}
	told(all[:20], "behind its COMMIT")
	if n := s.Parked(); n != 0 {
		t.Errorf("%d are parked in a drain", n)
	}
	told(all[20:40], "in its transaction")
	if err := <-drained; err != context.DeadlineExceeded {
		t.Errorf("the drain: %v", err)
	}
}

// Close tells all who are parked and returns behind the last of them, also where more come and go
// meanwhile.
func TestParkedCut(t *testing.T) {
	const clients = 400
	s := startSluice(t, sharedPostgres(t), clientTLS())
	all := parkedClients(t, s, clients, 20)
	began := time.Now()
	s.Close()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("Close took %s", took)
	}
	if st := s.Stats(); st.Clients != 0 || s.Parked() != 0 {
		t.Errorf("behind Close there are %d clients, %d of them parked", st.Clients, s.Parked())
	}
	for i, c := range all {
		if got := c.readThrough("E"); !strings.Contains(got, "57P01") {
			t.Fatalf("client %d is told %q", i, got)
		}
	}
}

// Sessions that are just being parked are drained, whenever that is.
func TestDrainMeetsParking(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	for i := range 12 {
		s := startSluice(t, pg)
		var all []*rawClient
		for range 30 {
			all = append(all, dialRaw(t, s.addr))
		}
		time.Sleep(time.Duration(i) * time.Millisecond)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		if err := s.Shutdown(ctx); err != nil {
			t.Fatalf("the drain: %v", err)
		}
		stop()
		for _, c := range all {
			if got := c.readThrough("E"); !strings.Contains(got, "57P01") {
				t.Fatalf("drained with %q", got)
			}
		}
	}
}

// A cancel for a parked session finds nothing to stop, and leaves it parked.
func TestParkedCancel(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t))
	c, key := greetRaw(t, dialTCP(t, s.addr), nil)
	allLinger(t, s, 1)
	for range 3 {
		conn := dialTCP(t, s.addr)
		conn.Write(append([]byte{0, 0, 0, 16, 4, 210, 22, 46}, key...))
		conn.Read(make([]byte, 1))
	}
	if n := s.count(t, "dsql_cancels_total", "dropped"); n != 3 {
		t.Errorf("%g cancels dropped, want 3", n)
	}
	if n := s.Parked(); n != 1 {
		t.Errorf("%d are parked", n)
	}
	c.asks(t, 5)
}

// Clients that get the descriptors of parked ones that have left are nobody else: waves of them leave
// in all ways, and come, and each is answered what it has asked.
func TestParkedDescriptors(t *testing.T) {
	t.Parallel()
	const clients = 60
	s := startSluice(t, sharedPostgres(t), clientTLS(), maxOpen(4))
	all := parkedClients(t, s, clients, 5)
	ways := waysToLeave()
	for wave := range 5 {
		for i := wave % 3; i < clients; i += 3 {
			leaves[ways[(wave+i)%len(ways)]].leave(all[i])
		}
		for i := wave % 3; i < clients; i += 3 { // some of the old are still leaving
			all[i] = newLeaver(t, s.addr, i%5 == 4)
		}
		for i, c := range all {
			c.asks(t, wave*1000+i)
		}
		waitFor(t, "those who leave to be gone", func() bool { return s.Stats().Clients == clients })
		s.Quieten()
		allLinger(t, s, clients)
	}
}

// A session whose connection is closed on this side while it is parked ends, though the kernel tells
// nobody.
func TestParkedClosedHere(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t))
	parkedClients(t, s, 5, 10)
	for n := 4; n >= 0; n-- {
		s.CloseOneClient()
		waitFor(t, "its session to end", func() bool { return s.Stats().Clients == n && s.Parked() == n })
	}
}

// Parked clients that leave give back their places among the connections.
func TestParkedPlaces(t *testing.T) {
	t.Parallel()
	const most = 10
	s := startSluice(t, sharedPostgres(t), configure(func(c *proxy.Config) { c.MaxClients = most }))
	for range proxy.SpareConns/most + 2 {
		for _, c := range parkedClients(t, s, most, most+1) {
			c.tcp.Close()
		}
		waitFor(t, "those who leave to be gone", func() bool { return s.Stats().Clients == 0 })
	}
	parkedClients(t, s, most, most+1)
}

// Silent clients of a Unix socket are parked as those of TCP; those whose connection is no socket have
// a goroutine, as all have on systems without a set of the kernel's. All of them are answered, asked
// to linger again, and drained.
func TestParkedOrNot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		network string
		wrap    func(net.Conn) net.Conn
		parked  int
		opts    []option
	}{
		"Unix socket": {network: "unix", parked: 3},
		"plain layer": {network: "tcp", parked: 3, opts: []option{plainConn}},
		"no socket":   {network: "tcp", wrap: func(conn net.Conn) net.Conn { return struct{ net.Conn }{conn} }},
		"idle limit":  {network: "tcp", parked: 3, opts: []option{configure(func(c *proxy.Config) { c.ClientIdleTimeout = time.Minute })}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startSluice(t, sharedPostgres(t), c.opts...)
			address := "127.0.0.1:0"
			if c.network == "unix" {
				address = filepath.Join(sockets.SocketDir(t), "s")
			}
			ln, err := net.Listen(c.network, address)
			if err != nil {
				t.Fatal(err)
			}
			if c.wrap != nil {
				ln = &wrapped{ln, c.wrap}
			}
			go s.Serve(ln)
			var all []*rawClient
			for range 3 {
				conn, err := net.Dial(c.network, ln.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close() })
				client, _ := greetRaw(t, conn, nil)
				all = append(all, client)
			}
			for turn := range 10 {
				allLinger(t, s, c.parked)
				time.Sleep(15 * time.Millisecond)
				for i, client := range all {
					client.asks(t, turn*10+i)
				}
				s.Quieten()
			}
			allLinger(t, s, c.parked)
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			for _, client := range all {
				if got := client.readThrough("E"); !strings.Contains(got, "57P01") {
					t.Errorf("drained with %q", got)
				}
			}
		})
	}
}

// wrapped is a listener whose connections are wrapped.
type wrapped struct {
	net.Listener
	wrap func(net.Conn) net.Conn
}

func (l *wrapped) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.wrap(conn), nil
}

// Servers that come and go, with silent clients, leave no descriptor and no goroutine.
func TestParkingEnds(t *testing.T) {
	// Not parallel: both are counted.
	pg := sharedPostgres(t)
	descriptors := func() int {
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(open)
	}
	goroutines, open := runtime.NumGoroutine(), descriptors()
	for range 5 {
		t.Run("", func(t *testing.T) {
			s := startSluice(t, pg)
			parkedClients(t, s, 3, 10)
			s.Close()
			s.Close()
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			if n := s.Parked(); n != 0 {
				t.Errorf("%d are parked", n)
			}
		})
	}
	waitFor(t, "the goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
	waitFor(t, "the descriptors to come back", func() bool { return descriptors() <= open })
}
