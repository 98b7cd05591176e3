package proxy_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Clients that are silent have no goroutine, also where they have asked something before; they are
// answered when they ask again, and told when they are drained. The test is alone in its process
// while it runs: goroutines are counted. Stacks cannot be: Go keeps those of the last goroutines that have ended, up to
// 64 for each processor, and each of the size that goroutines had on average.
func TestQuietClients(t *testing.T) {
	const clients, spare = 400, 8 // spare goroutines wait for the next client
	s := startSluice(t, sharedPostgres(t), withReplay, asDSQL, maxOpen(4), clientTLS())
	all := []*rawClient{newLeaver(t, s.addr, true).rawClient}
	allLinger(t, s, 1)
	goroutines := runtime.NumGoroutine()
	for i := range clients {
		all = append(all, newLeaver(t, s.addr, i%20 == 0).rawClient)
	}
	quiet := func() {
		t.Helper()
		allLinger(t, s, len(all))
		if st := s.Stats(); st.Clients != len(all) || st.Idle != len(all) {
			t.Errorf("the silent are counted as %+v", st)
		}
		waitFor(t, "the goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines+spare })
	}
	ask := func(sql, answer string) {
		t.Helper()
		for i, c := range all {
			c.queue(encode(t, &pgproto3.Query{String: sql}))
			if got := c.readThrough("Z"); !strings.Contains(got, answer) {
				t.Fatalf("client %d is answered %q", i, got)
			}
		}
	}
	quiet()
	ask("SELECT 1", "Z I")
	s.Quieten()
	quiet()
	ask("BEGIN", "Z T") // without a backend
	s.Quieten()
	quiet()
	ask("ROLLBACK", "Z I")
	if n := runtime.NumGoroutine() - goroutines; n < clients/2 {
		t.Errorf("%d goroutines serve %d clients that were at work just now: the test sees nothing", n, clients)
	}
	s.Quieten()
	waitFor(t, "a client to linger", func() bool { return s.Parked() > 0 })
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	for i, c := range all {
		if got := c.readThrough("E"); !strings.Contains(got, "57P01") {
			t.Fatalf("client %d is drained with %q", i, got)
		}
	}
}

func allLinger(t *testing.T, s *sluice, clients int) {
	t.Helper()
	waitFor(t, fmt.Sprintf("%d clients to linger", clients), func() bool { return s.Parked() == clients })
}

// A session that is about to linger when the drain nudges it is drained, though it takes the
// nudge off its connection.
func TestDrainMeetsLingering(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	drained := make(chan error, 1)
	go s.Serve(&drainAtLinger{ln, func() {
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		drained <- s.Shutdown(ctx)
	}})
	c := dialRaw(t, ln.Addr().String())
	if got := c.readThrough("E"); !strings.Contains(got, "57P01") {
		t.Errorf("drained with %q", got)
	}
	if err := <-drained; err != nil {
		t.Error("the drain:", err)
	}
}

type drainAtLinger struct {
	net.Listener
	drain func()
}

func (l *drainAtLinger) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &nudgedConn{TCPConn: conn.(*net.TCPConn), drain: l.drain, nudged: make(chan struct{})}, nil
}

// nudgedConn has its session drained, and nudged, just before the session takes its read deadline
// back.
type nudgedConn struct {
	*net.TCPConn
	drain       func()
	first, then sync.Once
	nudged      chan struct{}
}

func (c *nudgedConn) SetReadDeadline(at time.Time) error {
	if at.IsZero() {
		c.first.Do(func() {
			go c.drain()
			<-c.nudged
		})
	}
	err := c.TCPConn.SetReadDeadline(at)
	if !at.IsZero() && at.Before(time.Now()) {
		c.then.Do(func() { close(c.nudged) })
	}
	return err
}
