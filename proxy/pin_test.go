package proxy_test

import (
	"io"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
)

var digits = regexp.MustCompile(`pid=([0-9]+)`)

// serverFatalError are what a server said when it ended a connection, where Sluice has read it by then.
var serverFatalError = regexp.MustCompile(` D=The server said: [^\n]*?\(SQLSTATE 57P01\)\.`)

// A session that loses the backend it has state on is closed, whatever it was doing
// when the loss came: first it is answered what became of its statement.
func TestPinnedSessionsEndWithTheirBackend(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE pin_lost (a text)")
	const end = "E S=FATAL C=08006 M=the backend that this session had state on was lost H=Connect again and rebuild the session's state.\nEOF\n"
	const terminated = "\x00terminate"
	for name, moment := range map[string]struct {
		word      string // the backend is cut when it is sent; or terminated: while the session idles
		after     bool   // it has arrived
		script    string
		told, not string
	}{
		"idle":              {terminated, false, "", "", "E S=ERROR"},
		"idle in a block":   {terminated, false, "Q BEGIN\n< Z\nQ SELECT 1\n< Z\n", "", "E S=ERROR"},
		"a failed block":    {terminated, false, "Q BEGIN\n< Z\nQ SELECT 1/0\n< Z\n", "", "C=08007"},
		"read":              {"doomed", false, "Q SELECT 'doomed'\n", "E S=ERROR C=08006 M=the backend connection was lost while a statement that only reads was running H=Run the statement again.\nZ I\n", ""},
		"write":             {"doomed", true, "Q INSERT INTO pin_lost VALUES ('doomed')\n", "E S=ERROR C=08007", "C INSERT"},
		"by itself":         {"", false, "Q SELECT pg_terminate_backend(pg_backend_pid())\n", "Z I\n", "C SELECT"},
		"in a block":        {"doomed", true, "Q BEGIN\n< Z\nQ INSERT INTO pin_lost VALUES ('doomed')\n", "E S=ERROR C=08006 M=the backend connection was lost inside a transaction", "Z I"},
		"COMMIT":            {"COMMIT", true, "Q BEGIN\n< Z\nQ INSERT INTO pin_lost VALUES ('a')\n< Z\nQ COMMIT\n", "E S=ERROR C=08007", "C COMMIT"},
		"behind a Flush":    {"doomed", true, "P - | SELECT 'doomed'\nB - | -\nE -\nH\n", "E S=ERROR C=0800", "\nZ"},
		"before the Sync":   {"doomed", true, "P - | INSERT INTO pin_lost VALUES ('doomed')\nB - | -\nE -\nS\nQ SELECT 1\n", "E S=ERROR C=08007", "C SELECT"},
		"more is in a pipe": {"doomed", false, "Q SELECT 'doomed'\nQ SELECT 2\n", "E S=ERROR C=08006", "C SELECT"},
	} {
		for why, pin := range map[string]string{"LISTEN": "LISTEN pin_lost", "temporary table": "CREATE TEMP TABLE pin_gone (a int)",
			"lock": "SELECT pg_advisory_lock(77)", "PREPARE": "PREPARE pin_lost AS SELECT 1"} {
			if why != "LISTEN" && name != "read" && name != "idle in a block" {
				continue
			}
			for mode, opts := range map[string][]option{"": nil, "replay": {fastReplay}, "session": {asDSQL, sessionPairing}} {
				passed := t.Run(strings.Join([]string{name, why, mode}, "/"), func(t *testing.T) {
					var cut cutter
					s := startSluice(t, pg, append(opts, cut.option, maxOpen(3))...)
					c := dialRaw(t, s.addr)
					if got := c.say(t, "Q "+pin+"\n< Z\n"); strings.Contains(got, "E S=") {
						t.Fatal(got)
					}
					pid := digits.FindStringSubmatch(c.say(t, "Q SELECT 'pid=' || pg_backend_pid()\n< Z\n"))[1]
					if name == "by itself" {
						c.say(t, "Q BEGIN; ROLLBACK\n< Z\n")
					}
					if moment.word != terminated && moment.word != "" {
						cut.arm(moment.word, moment.after)
					}
					c.say(t, moment.script)
					if moment.word == terminated {
						pg.SQL(t, "postgres", "SELECT pg_terminate_backend("+pid+")")
					}
					got := serverFatalError.ReplaceAllString(c.readThrough("!"), "")
					if !strings.HasSuffix(got, end) || !strings.Contains(got, moment.told) || moment.not != "" && strings.Contains(got, moment.not) {
						t.Errorf("got:\n%swant %q and the end", got, moment.told)
					}
					waitFor(t, "the pin to go", func() bool { return s.Stats().Pinned == 0 && s.Stats().Clients == 0 })
				})
				if !passed {
					return // the others would wait as long
				}
			}
		}
	}
}

// A backend that is lost while it has a part of a long frame leaves the client's
// stream whole: what follows is the rest of that frame, and then the next.
func TestBackendLostInsideAFrame(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	for name, opts := range map[string][]option{"": nil, "replay": {fastReplay}} {
		t.Run(name, func(t *testing.T) {
			var conns cutEarly
			s := startSluice(t, pg, append(opts, conns.option, maxOpen(3))...)
			c := dialRaw(t, s.addr)
			c.say(t, "Q BEGIN\n< Z\nQ SELECT /* sluice: no-retry */ 1\n< Z\n")
			bind := encodeLine(t, "B", "- | - | "+strings.Repeat("Q", 200_000))
			c.queue(encodeLine(t, "P", "- | SELECT length($1::text)"))
			c.queue(bind[:120_000])
			c.flush()
			conns.cut(t)
			waitFor(t, "the loss to be seen", func() bool { return conns.seen.Load() > 0 })
			c.queue(bind[120_000:])
			got := c.say(t, "E -\nS\n< Z\nQ SELECT 2\n< Z\nQ ROLLBACK\n< Z\nQ SELECT 3 AS three\n< Z\n")
			if strings.Contains(got, "C=08P01") || strings.Count(got, "C=08006") != 1 || !strings.Contains(got, "C=25P02") || !strings.HasSuffix(got, "C SELECT 1\\x00\nZ I\n") {
				t.Errorf("got:\n%s", got)
			}
		})
	}
}

// cutEarly closes backends when the test says so, and counts ends that were read.
type cutEarly struct {
	conns chan net.Conn
	seen  atomic.Int32
}

type seesEnd struct {
	rawconn.Conn
	c *cutEarly
}

func (s seesEnd) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if err == io.EOF {
		s.c.seen.Add(1)
	}
	return n, err
}

func (c *cutEarly) option(s *setup) {
	c.conns = make(chan net.Conn, 100)
	wrap := s.dial.Wrap
	s.dial.Wrap = func(conn net.Conn) net.Conn { c.conns <- conn; return seesEnd{rawconn.Wrap(wrap(conn)), c} }
}

func (c *cutEarly) cut(t *testing.T) {
	t.Helper()
	for {
		select {
		case conn := <-c.conns:
			conn.(*net.TCPConn).CloseRead()
		default:
			return
		}
	}
}
