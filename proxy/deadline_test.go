package proxy_test

import (
	"context"
	"errors"
	"net"
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
	closed  chan struct{}
	release chan struct{}
}

func (l *lateListener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
	}
	conn, err := l.Listener.Accept()
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
	late := &lateListener{ln, make(chan struct{}), make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- s.Serve(late) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s.Close()
	close(late.release)
	if err := <-served; !errors.Is(err, proxy.ErrServerClosed) {
		t.Errorf("Serve: %v", err)
	}
	// An SSLRequest would be answered by one byte.
	conn.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47})
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, err := conn.Read(make([]byte, 1)); n != 0 || errors.Is(err, context.DeadlineExceeded) {
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
