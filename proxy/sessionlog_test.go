package proxy_test

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/proxy"
)

// What the log has of sessions that end in different ways, by log.sessions. A guest who is
// refused is told of in any case.
func TestLinesOfSessions(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	begin := encode(t, &pgproto3.Query{String: "BEGIN"})
	leave := map[string]func(*rawClient){
		"a goodbye":             func(c *rawClient) { c.queue(encode(t, &pgproto3.Terminate{})); c.flush() },
		"a closed connection":   func(*rawClient) {},
		"an open transaction":   func(c *rawClient) { c.queue(begin); c.readThrough("Z") },
		"a reset":               func(c *rawClient) { c.conn.(*net.TCPConn).SetLinger(0) },
		"a late reset":          func(c *rawClient) { time.Sleep(100 * time.Millisecond); c.conn.(*net.TCPConn).SetLinger(0) }, // of one that lingers
		"the middle of a frame": func(c *rawClient) { c.conn.Write(begin[:7]) },
		"what is no frame":      func(c *rawClient) { c.conn.Write([]byte("no frame at all")); c.readThrough("E") },
	}
	usual := []string{"a goodbye", "a closed connection"}
	for _, sessions := range []proxy.SessionLogging{proxy.LogAll, "", proxy.LogUnusual, proxy.LogNone} {
		t.Run("log.sessions "+string(sessions), func(t *testing.T) {
			t.Parallel()
			log := new(logged)
			count := func(message string) int { return len(log.with(message)) }
			s := startSluice(t, pg, configure(func(c *proxy.Config) { c.LogSessions, c.Databases = sessions, []string{"postgres"} }),
				func(s *setup) { s.log = log })
			startupGreeting(t, dialTCP(t, s.addr), map[string]string{"database": "elsewhere"}).readThrough("E")
			starts, ends := 0, 0
			for how, leaves := range leave {
				c, _ := dialWith(t, s.addr, map[string]string{"application_name": "tester"})
				if sessions == proxy.LogAll {
					starts++
				}
				if sessions == proxy.LogAll || sessions != proxy.LogNone && !slices.Contains(usual, how) {
					ends++
				}
				leaves(c)
				c.conn.Close()
				waitFor(t, "the session to end", func() bool { return s.Stats().Clients == 0 })
				// The line comes behind the end that Stats shows.
				waitFor(t, "the lines of "+how, func() bool {
					return count("session started") == starts && count("session ended") == ends
				})
			}
			s.Close() // the last line is written, one too many as well
			if got := count("session"); got != starts+ends {
				t.Errorf("%d lines of sessions, want %d: %q", got, starts+ends, log.with(""))
			}
			if count("startup refused") != 1 {
				t.Errorf("lines of the client that was refused: %q", log.with(""))
			}
			for _, line := range log.with("session") {
				for _, part := range []string{"client=127.0.0.1:", "user=postgres", "database=postgres", "application=tester", "tls=false"} {
					if !strings.Contains(line, part) {
						t.Errorf("%q does not say %s", line, part)
					}
				}
			}
		})
	}
}
