package proxy_test

import (
	"bytes"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/rawconn"

	"github.com/sluice-proxy/sluice/proxy"
)

// ownRounds is how often each of two clients asks for its numbers, on each route.
var ownRounds = 400 / proxy.OneIn

// refusesDiscard has a server that does not take DISCARD SEQUENCES.
func refusesDiscard(s *setup) {
	s.dial.Wrap = func(conn net.Conn) net.Conn { return refusing{rawconn.Wrap(conn)} }
}

type refusing struct{ rawconn.Conn }

func (c refusing) Write(b []byte) (int, error) {
	return c.Conn.Write(bytes.ReplaceAll(b, []byte("DISCARD SEQUENCES"), []byte("DISCARD SEQUENCE?")))
}

// What currval and lastval answer was drawn by the client that asks, whoever else uses
// its backend; or they fail as where nothing was drawn.
func TestNobodyElsesNumbers(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	pg.SQL(t, "postgres", `CREATE SEQUENCE own_a; CREATE SEQUENCE own_b START 1000000;
		CREATE TABLE own_serial_a (id serial, v int); CREATE TABLE own_serial_b (id serial, v int); ALTER SEQUENCE own_serial_b_id_seq RESTART 1000000;
		CREATE TABLE own_identity_a (id int GENERATED ALWAYS AS IDENTITY, v int); CREATE TABLE own_identity_b (id int GENERATED ALWAYS AS IDENTITY (START 1000000), v int);
		CREATE TABLE own_plain (v int);
		CREATE FUNCTION own_last() RETURNS bigint LANGUAGE sql AS 'SELECT pg_catalog.lastval()'`)
	asks := []string{"SELECT lastval()", "SELECT currval('own_%s')", "SELECT 1 + currval('own_serial_%s_id_seq'::regclass) - 1", "WITH w AS (SELECT lastval() AS v) SELECT v FROM w",
		"SELECT currval(pg_get_serial_sequence('own_identity_%s', 'id'))", "SELECT own_last()", "COPY (SELECT pg_catalog.lastval()) TO STDOUT"}
	draws := []string{"SELECT nextval('own_%s')", "INSERT INTO own_serial_%s (v) VALUES (1)", "INSERT INTO own_identity_%s (v) VALUES (1)",
		"INSERT INTO own_plain VALUES (1)", "INSERT INTO own_plain VALUES (1); SELECT 1", "SELECT * FROM own_plain LIMIT 1", "SELECT nextval('own_%s') WHERE false"}
	number := regexp.MustCompile(`(?m)^D .*?(\d{1,10})$|^d (\d+)\\n$`)
	for name, opts := range map[string][]option{"postgres": nil, "dsql": {asDSQL}, "replay": {fastReplay}, "uncleared": {asDSQL, refusesDiscard}} {
		t.Run(name, func(t *testing.T) {
			s := startSluice(t, pg, append(opts, maxOpen(4))...)
			clients := map[string]*rawClient{"a": dialRaw(t, s.addr), "b": dialRaw(t, s.addr)}
			say := func(who, sql string, extended bool) string {
				c := clients[who]
				if strings.Contains(sql, "%s") {
					sql = fmt.Sprintf(sql, who)
				}
				if extended && !strings.Contains(sql, ";") {
					for line := range strings.Lines(ext(sql) + "S\n") {
						verb, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
						c.queue(encodeLine(t, verb, rest))
					}
				} else {
					c.queue(encodeLine(t, "Q", sql))
				}
				return c.readThrough("Z")
			}
			answered, refused := 0, 0
			check := func(who, ask, got string) {
				t.Helper()
				if strings.Contains(got, "C=55000") {
					refused++
					return
				}
				m := number.FindStringSubmatch(got)
				if m == nil {
					t.Fatalf("%s: neither a number nor 55000:\n%s", ask, got)
				}
				answered++
				if foreign := (len(m[1]+m[2]) >= 7) != (who == "b"); foreign {
					t.Fatalf("%s: client %s has the number of another: %s", ask, who, got)
				}
			}
			for i := range ownRounds {
				if i%40 == 39 { // who comes anew shares a backend again
					for who, c := range clients {
						c.conn.Close()
						clients[who] = dialRaw(t, s.addr)
					}
				}
				for _, who := range []string{"a", "b"} {
					ask, draw, extended := asks[i%len(asks)], draws[(i/len(asks))%len(draws)], i%3 == 0
					if name == "uncleared" && ask == "SELECT own_last()" {
						ask = asks[0]
					}
					switch i % 4 {
					case 0: // in autocommit, and the other in between now and then
						say(who, draw, extended)
					case 1:
						say(who, "BEGIN", false)
						say(who, draw, extended)
					case 2:
						say(who, "BEGIN", false)
					}
					got := say(who, ask, extended)
					check(who, ask, got)
					if i%4 == 1 || i%4 == 2 {
						say(who, "ROLLBACK", false)
					}
					if i%50 == 49 {
						say(who, "DISCARD ALL", false)
						if got := say(who, asks[0], false); !strings.Contains(got, "C=55000") {
							t.Fatalf("behind DISCARD ALL: %s", got)
						}
					}
				}
			}
			t.Logf("%d answered, %d refused", answered, refused)
			if answered == 0 || refused == 0 {
				t.Error("always the same")
			}
		})
	}
}

// A session that asked in vain has a backend of its own from then on, where it can ask;
// the error is PostgreSQL's.
func TestOwnNumbers(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	pg.SQL(t, "postgres", `CREATE SEQUENCE "Ask me"; CREATE TABLE ask_t (id serial); CREATE SEQUENCE ask_other`)
	s := startSluice(t, pg, asDSQL, maxOpen(1))
	c := dialRaw(t, s.addr)
	got := c.play(t, "Q SELECT nextval('\"Ask me\"')\n< Z\n")
	perform(t, s.addr, "Q SELECT nextval('ask_other')\n< Z\n") // on the only backend
	got += c.play(t, "Q SELECT currval('public.\"Ask me\"')\n< Z\n"+
		"Q SELECT nextval('\"Ask me\"')\n< Z\nQ SELECT 1\n< Z\nQ SELECT currval('\"Ask me\"')\n< Z\nQ INSERT INTO ask_t DEFAULT VALUES\n< Z\nP - | SELECT lastval()\nB - | -\nE -\nS\n< Z\nQ SELECT currval('ask_other')\n< Z\n")
	for _, want := range []string{`C=55000 M=currval of sequence "Ask me" is not yet defined in this session`, "H=Have the number returned",
		"Q SELECT currval('\"Ask me\"')\nT currval:20/0\nD \\x00\\x01\\x00\\x00\\x00\\x012\n", "2 \nD \\x00\\x01\\x00\\x00\\x00\\x011\n",
		`C=55000 M=currval of sequence "ask_other" is not yet defined in this session R`} {
		if !strings.Contains(got, strings.TrimSuffix(want, " R")) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if n := s.count(t, "dsql_pins_total", "sequence"); n != 1 {
		t.Errorf("%v pins", n)
	}
}

// Behind DISCARD SEQUENCES, which DSQL does not take, a session with a backend of its own
// has drawn nothing, and what it draws from then on it can ask for.
func TestOwnNumbersDiscarded(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	pg.SQL(t, "postgres", `CREATE SEQUENCE discarded_s`)
	s := startSluice(t, pg, asDSQL, answering, refusesDiscard, maxOpen(2))
	other, c := dialRaw(t, s.addr), dialRaw(t, s.addr)
	say := func(c *rawClient, sql, want string) {
		t.Helper()
		c.queue(encodeLine(t, "Q", sql))
		if got := c.readThrough("Z"); !strings.Contains(got, want) {
			t.Errorf("%s: no %s in\n%s", sql, want, got)
		}
	}
	say(other, "SELECT nextval('discarded_s')", `\x011`)
	say(c, "SELECT nextval('discarded_s')", `\x012`)
	say(c, "SELECT lastval()", "C=55000")
	say(c, "SELECT nextval('discarded_s')", `\x013`)
	for _, discard := range []string{"DISCARD SEQUENCES", "SELECT 1; DISCARD SEQUENCES", "SET extra_float_digits = 2; DISCARD SEQUENCES; SELECT 1", "BEGIN; DISCARD SEQUENCES; COMMIT"} {
		say(c, "SELECT nextval('discarded_s')", "C SELECT 1")
		say(c, "SELECT lastval() IS NOT NULL", `\x01t`)
		say(c, discard, "DISCARD SEQUENCES")
		say(c, "SELECT lastval()", "C=55000")
		say(c, "SELECT nextval('discarded_s')", "C SELECT 1")
		say(c, "SELECT lastval() = last_value FROM discarded_s", `\x01t`)
		say(c, "BEGIN", "C BEGIN")
		say(c, discard, "DISCARD SEQUENCES")
		say(c, "ROLLBACK", "Z I")
		say(c, "SELECT lastval()", "C=55000")
	}
	if n := s.count(t, "dsql_pins_total", "sequence"); n != 9 {
		t.Errorf("%v pins", n)
	}
}

// A client does not see the numbers that another has drawn behind a DISCARD SEQUENCES of the same request.
func TestNumbersDrawnBehindADiscard(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE numbered (id serial, n int)")
	s := startSluice(t, pg, maxOpen(1))
	for _, script := range []string{
		"P - | DISCARD SEQUENCES\nB - | -\nE -\nP - | INSERT INTO numbered (n) VALUES (1)\nB - | -\nE -\nS\n< Z\n",
		"Q DISCARD SEQUENCES; INSERT INTO numbered (n) VALUES (1)\n< Z\n",
	} {
		a, b := dialRaw(t, s.addr), dialRaw(t, s.addr)
		if got := a.say(t, script); !strings.Contains(got, "C INSERT 0 1") {
			t.Errorf("%s: %s", script, got)
		}
		if got := b.say(t, "Q SELECT lastval()\n< Z\n"); !strings.Contains(got, "C=55000") {
			t.Errorf("behind %s another client is answered\n%s", script, got)
		}
	}
}

// A session gives its backend up for a DISCARD, whatever follows in the same request: another DISCARD, or a statement
// that keeps a backend, which is refused. What the client had left there is gone.
func TestDiscardedTwice(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE SEQUENCE twice_s")
	run := func(sql string) string { return "P - | " + sql + "\nB - | -\nE -\n" }
	for way, opts := range map[string][]option{"refused by the server": {asDSQL, answering, refusesDiscard}, "done by the server": {asDSQL}} {
		s := startSluice(t, pg, append(opts, maxOpen(3))...)
		for _, test := range []struct{ discards, behind string }{
			{run("DISCARD SEQUENCES") + run("DISCARD SEQUENCES"), ""},
			{run("SELECT 1") + run("DISCARD SEQUENCES") + run("DISCARD SEQUENCES"), ""},
			{run("DISCARD SEQUENCES") + run("SELECT nextval('twice_s')") + run("DISCARD SEQUENCES"), ""},
			{run("DISCARD ALL") + run("DISCARD SEQUENCES"), ""},
			{run("COMMIT") + run("DISCARD ALL") + run("DISCARD SEQUENCES"), ""},
			{run("COMMIT") + run("DISCARD ALL") + run("PREPARE other AS SELECT 2"), "C=0A000 M=the statement cannot run behind DISCARD ALL"},
		} {
			// The backend has another client's number at the first lastval, so that the session gets one of its own.
			other, c := dialRaw(t, s.addr), dialRaw(t, s.addr)
			say := func(c *rawClient, script, want string) {
				t.Helper()
				if got := c.say(t, script); !strings.Contains(got, want) {
					t.Errorf("%s: %q behind %q: no %q in\n%s", way, script, test.discards, want, got)
				}
			}
			say(c, "Q SELECT nextval('twice_s')\n< Z\n", "C SELECT 1")
			say(other, "Q SELECT nextval('twice_s')\n< Z\n", "C SELECT 1")
			say(c, "Q SELECT lastval()\n< Z\n", "C=55000")
			say(c, "Q SELECT nextval('twice_s')\n< Z\n", "C SELECT 1")
			say(c, "Q SELECT lastval() = last_value FROM twice_s\n< Z\n", `\x01t`)
			kept := strings.Contains(test.discards, "DISCARD ALL")
			if kept {
				say(c, "Q PREPARE kept AS SELECT 1\n< Z\n", "C PREPARE")
			}
			if strings.Contains(test.discards, "COMMIT") {
				say(c, "Q BEGIN\n< Z\nQ SELECT 1\n< Z\n", "Z T")
			}
			say(c, test.discards+"S\n< Z\n", test.behind)
			say(c, "Q SELECT lastval()\n< Z\n", "C=55000")
			if kept {
				say(c, "Q EXECUTE kept\n< Z\n", "C=26000")
			}
			for range 2 {
				say(c, "Q SELECT nextval('twice_s')\n< Z\n", "C SELECT 1")
				say(c, "Q SELECT 1\n< Z\n", "C SELECT 1")
			}
			say(c, "Q SELECT lastval() = last_value FROM twice_s\n< Z\n", `\x01t`)
			other.conn.Close()
			c.conn.Close()
		}
	}
}
