package proxy_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/sluice-proxy/sluice/proxy"
)

// What a discarded part was told must hold in the transaction that commits; what it was told
// does not matter where it says nothing of the data. With nobody else there a return does not
// fail.
func TestDiscardedParts(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling+"CREATE TABLE seen (a int, b int); INSERT INTO seen VALUES (1, 1); CREATE TABLE noted (a int); CREATE TABLE unique_a (a int PRIMARY KEY); INSERT INTO unique_a VALUES (1)")
	s := startSluice(t, pg, strictly, mapping, maxOpen(4), func(s *setup) { s.rules.Databases = true })
	other := "UPDATE seen SET b = b + 1"
	for name, test := range map[string]struct {
		part    string // what is done behind the savepoint, a Query a line
		between string // what another does before the return
		differs bool
		locks   bool // it holds what the other wants, in PostgreSQL
	}{
		"alone, a read":              {"INSERT INTO noted VALUES (1)\nSELECT b FROM seen", "", false, false},
		"alone, its own rows":        {"INSERT INTO noted VALUES (1)\nSELECT count(*) FROM noted\nUPDATE noted SET a = 2 WHERE a = 1\nDELETE FROM noted", "", false, false},
		"alone, failed":              {"INSERT INTO noted VALUES (1)\nSELECT b FROM seen\nSELECT b / 0 FROM seen", "", false, false},
		"alone, no such table":       {"INSERT INTO noted VALUES (1)\nSELECT b FROM seen\nSELECT nosuch FROM seen", "", false, false},
		"alone, a string":            {"INSERT INTO noted VALUES (1); SELECT b FROM seen; SELECT 1/0", "", false, false},
		"alone, numbers":             {"INSERT INTO noted VALUES (1)\nSELECT nextval('changing')\nSELECT b FROM seen", "", false, false},
		"alone, the time":            {"INSERT INTO noted VALUES (1)\nSELECT clock_timestamp()", "", false, false},
		"alone, a group":             {ext("INSERT INTO noted VALUES (1)") + ext("SELECT b FROM seen") + ext("SELECT 1/0") + ext("SELECT b FROM seen") + "S", "", false, false},
		"a read":                     {"INSERT INTO noted VALUES (1)\nSELECT b FROM seen", other, true, false},
		"a read of other things":     {"INSERT INTO noted VALUES (1)\nSELECT a FROM seen", other, false, false},
		"an update":                  {"UPDATE seen SET a = a WHERE b > 0", "DELETE FROM seen", true, true},
		"its returning":              {"INSERT INTO noted VALUES (1)\nUPDATE seen SET a = a RETURNING b", other, true, true},
		"a failure":                  {"INSERT INTO noted VALUES (1)\nSELECT 1 / (b - b) FROM seen", "DELETE FROM seen", true, false},
		"in a string that fails":     {"INSERT INTO noted VALUES (1); SELECT b FROM seen; SELECT 1/0", other, true, false},
		"in a group that fails":      {ext("INSERT INTO noted VALUES (1)") + ext("SELECT b FROM seen") + ext("SELECT 1/0") + "S", other, true, false},
		"in a group that is refused": {ext("INSERT INTO noted VALUES (1)") + ext("SELECT b FROM seen") + ext("CREATE DATABASE postgres") + "S", other, true, false},
		"alone, a typing mistake":    {"INSERT INTO noted VALUES (1)\nSELECT b FROM seen\nSELEC b FROM seen", "", false, false},
		"alone, nothing else":        {"SELEC b FROM seen", "", false, false},
		"alone, mistaken in a group": {ext("INSERT INTO noted VALUES (1)") + ext("SELECT b FROM seen") + ext("SELEC 1") + "S", "", false, false},
		"behind it, a mistake":       {"INSERT INTO noted VALUES (1)\nSELECT b FROM seen\nSELEC b FROM seen", other, true, false},
		"alone, refused":             {ext("INSERT INTO noted VALUES (1)") + ext("SELECT b FROM seen") + ext("CREATE DATABASE postgres") + "S", "", false, false},
		"a key":                      {"INSERT INTO unique_a VALUES (1)", "DELETE FROM unique_a", false, false},
		"an insert":                  {"INSERT INTO noted SELECT b FROM seen RETURNING a", other, true, false},
		"a conflict":                 {"INSERT INTO unique_a VALUES (2) ON CONFLICT DO NOTHING", "INSERT INTO unique_a VALUES (2)", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, late := range []bool{false, true} { // the return, or what makes the transaction run again
				if test.locks && !late {
					continue
				}
				pg.SQL(t, "postgres", "TRUNCATE seen, noted, unique_a; INSERT INTO seen VALUES (1, 1); INSERT INTO unique_a VALUES (1)")
				stumbles(t, pg, true)
				c := dialRaw(t, s.addr)
				part := ""
				if strings.HasPrefix(test.part, "P ") {
					part = test.part + "\n< Z\n"
				} else {
					for line := range strings.SplitSeq(test.part, "\n") {
						part += "Q " + line + "\n< Z\n"
					}
				}
				c.say(t, "Q BEGIN\n< Z\nQ SELECT 1\n< Z\nQ SAVEPOINT a\n< Z\n"+part)
				var got string
				if !late && test.between != "" {
					pg.SQL(t, "postgres", test.between)
				}
				got = c.say(t, "Q ROLLBACK TO a\n< Z\n")
				if late && test.between != "" && strings.Contains(got, "C ROLLBACK") {
					pg.SQL(t, "postgres", test.between)
					got = ""
				}
				if late {
					got += c.say(t, "Q SELECT stumble(1)\n< Z\n")
				}
				got += c.say(t, "Q COMMIT\n< Z\n")
				if differs := strings.Contains(got, "C=40001") || strings.Contains(got, "C=0A000 M=cannot return"); differs != test.differs || differs == strings.Contains(got, "C COMMIT") {
					t.Errorf("late %v: got\n%s", late, got)
				}
			}
			waitFor(t, "backends to come back", func() bool { return s.backends.Stats().InUse == 0 })
		})
	}
}

// Of many returns that need a second backend each all come to their end, although all hold a first:
// none is refused. Where there is but one backend, that is told.
func TestReturnsWithFewBackends(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE seen (a int); CREATE TABLE noted (a int)")
	const script = "Q BEGIN\n< Z\nQ SAVEPOINT a\n< Z\nQ INSERT INTO noted VALUES (1)\n< Z\nQ SELECT count(*) FROM seen\n< Z\nQ ROLLBACK TO a\n< Z\nQ COMMIT\n< Z\n"
	s := startSluice(t, pg, strictly, maxOpen(3))
	clients := make([]*rawClient, 3)
	for i := range clients {
		clients[i] = dialRaw(t, s.addr)
		clients[i].say(t, strings.TrimSuffix(script, "Q ROLLBACK TO a\n< Z\nQ COMMIT\n< Z\n"))
	}
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() {
			if got := c.say(t, "Q ROLLBACK TO a\n< Z\nQ COMMIT\n< Z\n"); !strings.Contains(got, "C COMMIT") {
				t.Errorf("got\n%s", got)
			}
		})
	}
	all.Wait()
	one := startSluice(t, pg, strictly, maxOpen(1))
	if got := dialRaw(t, one.addr).say(t, script); !strings.Contains(got, "C=40001") || !strings.Contains(got, "no connection") {
		t.Errorf("with one backend: got\n%s", got)
	}
	waitFor(t, "backends to come back", func() bool { return s.backends.Stats().InUse+one.backends.Stats().InUse == 0 })
}

// A text that is too deep to be read, and that the server takes, may have done anything: its
// transaction is not run again, whatever becomes of it.
func TestUnreadBehindASavepoint(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling)
	s := startSluice(t, pg, strictly, mapping, maxOpen(4), configure(func(c *proxy.Config) { c.MaxStatementBytes = 1 << 20 }))
	deep := "(" + strings.Repeat("(", 3000) + "1" + strings.Repeat(")", 3000) + ")"
	for name, script := range map[string]string{
		"runs":               "Q SELECT " + deep + "\n< Z\nQ ROLLBACK TO a\n< Z\n",
		"runs in a group":    ext("SELECT "+deep) + "S\n< Z\nQ ROLLBACK TO a\n< Z\n",
		"fails":              "Q SELECT " + deep + " / 0\n< Z\nQ ROLLBACK TO a\n< Z\n",
		"meets a conflict":   "Q SELECT stumble(1), " + deep + "\n< Z\n",
		"too long, mistaken": "Q SELEC '" + strings.Repeat("x", 1<<20) + "'\n< Z\nQ ROLLBACK TO a\n< Z\n",
		"before a conflict":  "Q SELECT " + deep + "\n< Z\nQ SELECT stumble(1)\n< Z\n",
	} {
		t.Run(name, func(t *testing.T) {
			stumbles(t, pg, true)
			c := dialRaw(t, s.addr)
			got := c.say(t, "Q BEGIN\n< Z\nQ SELECT 1\n< Z\nQ SAVEPOINT a\n< Z\n"+script)
			if !strings.Contains(got, "Replay refused: a statement was too long or too deep to be read.") {
				t.Errorf("got\n%s", got)
			}
		})
	}
}

// A typing mistake says nothing of the data: the return behind it needs no second connection.
func TestMistakeBehindASavepointOfOneBackend(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	s := startSluice(t, pg, strictly, maxOpen(1))
	for _, mistake := range []string{"Q SELEC 1\n", ext("SELEC 1") + "S\n"} {
		if got := dialRaw(t, s.addr).say(t, "Q BEGIN\n< Z\nQ SELECT 1\n< Z\nQ SAVEPOINT a\n< Z\n"+mistake+"< Z\nQ ROLLBACK TO a\n< Z\nQ COMMIT\n< Z\nX\n"); !strings.Contains(got, "C COMMIT") {
			t.Errorf("got\n%s", got)
		}
	}
}
