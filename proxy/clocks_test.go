package proxy_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/reservoir"
)

// The time for a startup is the client's: it is over with the greeting, and a server that takes long leaves a
// client that took long the time to be greeted.
func TestStartupDeadlineEnds(t *testing.T) {
	t.Parallel()
	const limit = 2 * time.Second
	s := startSluice(t, sharedPostgres(t), sessionPairing, configure(func(c *proxy.Config) { c.Startup.Timeout = limit }), func(s *setup) {
		s.wrap = func(dial reservoir.DialFunc) reservoir.DialFunc {
			return func(ctx context.Context, x *reservoir.Startup) (*reservoir.Conn, error) {
				time.Sleep(limit / 2)
				return dial(ctx, x)
			}
		}
	})
	conn := dialTCP(t, s.addr)
	time.Sleep(3 * limit / 4)
	c, _ := greetRaw(t, conn, nil) // a quarter of the limit late
	for range 2 {
		if got := c.say(t, "Q SELECT 1\n< Z\n"); !strings.HasSuffix(got, "Z I\n") {
			t.Errorf("got %q", got)
		}
		time.Sleep(5 * limit / 4) // whatever was left of it has passed
	}
}

// A client that is parked is sent away when it has been silent for its limit, outside of a transaction and in one whose
// BEGIN no backend has seen: not before, and no later for that it has lingered. What it says starts the clock anew.
func TestIdleLimitOfParked(t *testing.T) {
	t.Parallel()
	const limit, late = 6 * time.Second, 3 * time.Second // a clock that starts anew where a session goes on is 4 s late and more
	pg := sharedPostgres(t)
	for name, c := range map[string]struct {
		say, code string
		turns     int // of which the last is said while it is parked
		secure    bool
	}{
		"fresh":             {"", "57P05", 0, false},
		"said something":    {"SELECT 1", "57P05", 1, false},
		"no guest any more": {"SELECT 1", "57P05", 10, false},
		"in a transaction":  {"BEGIN", "25P03", 1, false},
		"by TLS":            {"SELECT 1", "57P05", 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startSluice(t, pg, clientTLS(), configure(func(c *proxy.Config) { c.ClientIdleTimeout, c.IdleTransactionTimeout = limit, limit }))
			spoke := time.Now()
			client := newLeaver(t, s.addr, c.secure)
			for turn := range c.turns {
				if turn == c.turns-1 {
					s.Quieten()
					allLinger(t, s, 1)
					time.Sleep(limit / 3)
				}
				spoke = time.Now()
				client.queue(encodeLine(t, "Q", c.say))
				client.readThrough("Z")
			}
			s.Quieten()
			allLinger(t, s, 1)
			got := client.readThrough("!")
			took := time.Since(spoke)
			if !strings.Contains(got, "E S=FATAL C="+c.code) || !strings.HasSuffix(got, "EOF\n") {
				t.Errorf("told %q, want %s", got, c.code)
			}
			if took < limit || took > limit+late {
				t.Errorf("sent away after %s, want %s", took, limit)
			}
		})
	}
	t.Run("soon", func(t *testing.T) { // waited for on a goroutine
		t.Parallel()
		s := startSluice(t, pg, configure(func(c *proxy.Config) { c.ClientIdleTimeout = time.Second }))
		client := dialRaw(t, s.addr)
		for end := time.Now().Add(time.Second / 2); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if n := s.Parked(); n > 0 {
				t.Fatal("parked for a second")
			}
		}
		if got := client.readThrough("!"); !strings.Contains(got, "57P05") {
			t.Errorf("told %q", got)
		}
	})
}
