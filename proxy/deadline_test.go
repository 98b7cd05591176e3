package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/reservoir"
)

// A kept backend that speaks is no word of its client's: the client's idle limit ends the
// wait all the same, whenever it began.
func TestIdleLimitBehindANotification(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t), configure(func(c *proxy.Config) { c.ClientIdleTimeout = time.Second }))
	deaf, other := dialRaw(t, s.addr), dialRaw(t, s.addr)
	deaf.say(t, "Q LISTEN idle_limit\n< Z")
	other.say(t, "Q NOTIFY idle_limit\n< Z")
	got := deaf.readThrough("A!")
	if !strings.HasPrefix(got, "A") || !strings.Contains(got, "E S=FATAL C=57P05") || !strings.HasSuffix(got, "EOF\n") {
		t.Errorf("behind a notification:\n%s", got)
	}
}

// A statement runs while its client is silent in the middle of a group: it is cancelled,
// and times out, as any other.
func TestStatementEndsWhileTheClientIsSilent(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t) // beside others' functions a read might write, and is waited for
	s := startSluice(t, pg, asDSQL, configure(func(c *proxy.Config) { c.CancelGrace = 100 * time.Millisecond }))
	for name, how := range map[string]struct {
		script string
		cancel bool
		want   string
	}{
		"timeout": {"Q SET statement_timeout = 300\n< Z", false, "statement timeout"},
		"cancel":  {"Q SELECT 1\n< Z", true, "user request"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, cancel := dialKeyed(t, s.addr, nil)
			defer c.conn.Close()
			c.say(t, how.script)
			c.say(t, "P - | SELECT pg_sleep(600)\nB - | -\nE -\n")
			ended := make(chan struct{})
			var cancels sync.WaitGroup
			cancels.Go(func() {
				for how.cancel { // early ones may find nothing that runs
					select {
					case <-ended:
						return
					case <-time.After(100 * time.Millisecond):
						cancel()
					}
				}
			})
			got := c.readThrough("E")
			close(ended)
			cancels.Wait()
			if !strings.Contains(got, "C=57014") || !strings.Contains(got, how.want) {
				t.Errorf("got\n%s", got)
			}
			if got := c.say(t, "S\nQ SELECT 7\n< ZZ"); !strings.Contains(got, "C SELECT 1") {
				t.Errorf("behind it\n%s", got)
			}
		})
	}
}

// lateListener accepts a client at the moment at which the server has been closed.
type lateListener struct {
	net.Listener
	closed, release, accepted chan struct{}
}

func (l *lateListener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
	}
	conn, err := l.Listener.Accept()
	close(l.accepted)
	<-l.release
	close(l.closed)
	return conn, err
}

func (l *lateListener) Close() error { return nil }

// Close returns when nothing of the server is left, and nothing begins behind it.
func TestNoClientIsAcceptedBehindClose(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	late := &lateListener{ln, make(chan struct{}), make(chan struct{}), make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- s.Serve(late) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	<-late.accepted
	s.Close()
	close(late.release)
	if err := <-served; !errors.Is(err, proxy.ErrServerClosed) {
		t.Errorf("Serve: %v", err)
	}
	// An SSLRequest would be answered by one byte.
	conn.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47})
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, err := conn.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a closed server answered %d bytes, %v", n, err)
	}
}

// pins.max holds for sessions that get a backend of their own at the same time.
func TestOwnBackendsAreBounded(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	pg.SQL(t, "postgres", "CREATE SEQUENCE bounded_s")
	var dials sync.RWMutex // held: none goes on
	s := startSluice(t, pg, asDSQL, configure(func(c *proxy.Config) { c.MaxPins = 1 }), func(s *setup) {
		s.backends.MaxOpen, s.backends.TargetReady = 6, 1
		s.wrap = func(dial reservoir.DialFunc) reservoir.DialFunc {
			return func(ctx context.Context, to *reservoir.Startup) (*reservoir.Conn, error) {
				dials.RLock()
				defer dials.RUnlock()
				return dial(ctx, to)
			}
		}
	})
	clients := []*rawClient{dialRaw(t, s.addr), dialRaw(t, s.addr), dialRaw(t, s.addr)}
	for _, c := range append(clients, dialRaw(t, s.addr)) {
		c.say(t, "Q SELECT nextval('bounded_s')\n< Z")
	}
	for _, c := range clients {
		if got := c.say(t, "Q SELECT lastval()\n< Z"); !strings.Contains(got, "C=55000") {
			t.Fatal(got)
		}
	}
	dials.Lock()
	for _, c := range clients {
		c.say(t, "Q SELECT nextval('bounded_s')")
	}
	time.AfterFunc(300*time.Millisecond, dials.Unlock)
	for _, c := range clients {
		c.readThrough("Z")
	}
	if n := s.Stats().Pinned; n != 1 {
		t.Errorf("%d sessions keep a backend, of at most 1", n)
	}
}

// A statement times out in time also where Sluice has waited for something else meanwhile:
// for the client, or for the server's answer to a question of its own. The sweeper would
// wake the session after a second at the earliest.
func TestTimeoutBehindAnotherWait(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE SEQUENCE timed_s")
	for name, how := range map[string]struct {
		opts         []option
		other, setup string // what another client and this one have run before
		begun, ends  string
		pause        time.Duration
	}{
		"for the client": {nil, "", "", "P - | SELECT pg_sleep(600)\nB - | -\nE -\n", "S\n< Z", 100 * time.Millisecond},
		"for whose numbers it has": {[]option{refusesDiscard, maxOpen(1)}, "Q SELECT nextval('timed_s')\n< Z", "Q BEGIN\nQ SELECT nextval('timed_s')\n< ZZ",
			"", "Q SELECT currval('timed_s'), pg_sleep(600)\nQ ROLLBACK\n< ZZ", 0},
		"for what a read may do": {[]option{sessionPairing}, "Q CREATE SCHEMA IF NOT EXISTS timed_x\n< Z", "", "", "Q SELECT pg_sleep(600)\n< Z", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startSluice(t, pg, append(how.opts, asDSQL)...)
			other, c := dialRaw(t, s.addr), dialRaw(t, s.addr)
			var took time.Duration
			for range 3 { // a busy machine may be slow once
				c.say(t, "Q RESET statement_timeout\nQ SELECT 1\n< ZZ")
				other.say(t, how.other)
				c.say(t, how.setup+"\nQ SET statement_timeout = 300\n< Z")
				began := time.Now()
				c.say(t, how.begun)
				time.Sleep(how.pause)
				if got := c.say(t, how.ends); !strings.Contains(got, "C=57014") {
					t.Errorf("got\n%s", got)
				}
				if took = time.Since(began); took < time.Second {
					return
				}
			}
			t.Errorf("a statement_timeout of 300 ms ended it after %v", took)
		})
	}
}

// In a drain a turn in progress goes on to its end, also one whose client is silent in the
// middle of it.
func TestDrainWhileTheClientIsSilent(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t))
	c := dialRaw(t, s.addr)
	c.say(t, "P - | SELECT pg_sleep(1)\nB - | -\nE -\n")
	time.Sleep(200 * time.Millisecond)
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	drained := make(chan error, 1)
	go func() { drained <- s.Shutdown(ctx) }()
	time.Sleep(200 * time.Millisecond)
	if got := c.say(t, "S\n< Z"); !strings.Contains(got, "C SELECT 1") {
		t.Errorf("got\n%s", got)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// A drain lets a COPY come to its end.
func TestDrainInsideACopy(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE drained_copy (n int)")
	s := startSluice(t, pg)
	c := dialRaw(t, s.addr)
	c.say(t, "Q COPY drained_copy FROM STDIN\n< G")
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	drained := make(chan error, 1)
	time.AfterFunc(100*time.Millisecond, func() { drained <- s.Shutdown(ctx) })
	rows := 0
	for began := time.Now(); time.Since(began) < 300*time.Millisecond; rows += 1000 {
		c.say(t, strings.Repeat("d 1\\n\n", 1000))
	}
	if got, want := c.say(t, "c\n< Z"), fmt.Sprintf("C COPY %d\\x00\nZ I\n", rows); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// A client that says goodbye in a drain is missed as ever: nobody waits for its answer.
func TestClientLeavesInADrain(t *testing.T) {
	t.Parallel()
	s := startSluice(t, newPostgres(t)) // beside others' functions a read might write, and is waited for
	c := dialRaw(t, s.addr)
	c.say(t, "Q SELECT pg_sleep(600)")
	time.Sleep(200 * time.Millisecond)
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	drained := make(chan error, 1)
	go func() { drained <- s.Shutdown(ctx) }()
	time.Sleep(200 * time.Millisecond)
	c.say(t, "X")
	if err := <-drained; err != nil {
		t.Error(err)
	}
}
