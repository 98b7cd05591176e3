package proxy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// A text that the server's grammar does not take either has left nothing on its
// backend: the session gives the backend back. Where something may have run, it stays.
func TestTextsThatNobodyReads(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", `CREATE FUNCTION misspelt() RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_lock(77); EXECUTE 'SELEC 1'; RETURN 1; END $$`)
	for name, test := range map[string]struct {
		script string
		keeps  bool
	}{
		"a string":           {"Q SELEC 1; SET application_name = 'x'\n< Z\n", false},
		"one statement":      {"Q LISTEN TO x\n< Z\n", false},
		"extended":           {"P - | LISTEN TO x\nB - | -\nE -\nS\n< Z\n", false},
		"extended, flushed":  {"P - | LISTEN TO x\nH\n< E\nS\n< Z\n", false},
		"behind a read":      {"P - | SELECT 1\nB - | -\nE -\nP - | LISTEN TO x\nB - | -\nE -\nS\n< Z\n", false},
		"in a block":         {"Q BEGIN\n< Z\nQ SELECT 1\n< Z\nQ SELEC 1; SET TimeZone TO UTC\n< Z\nQ ROLLBACK\n< Z\n", false},
		"in a block begun":   {"Q BEGIN\n< Z\nQ SELEC 1; SET TimeZone TO UTC\n< Z\nQ ROLLBACK\n< Z\n", false},
		"a Query in a group": {"P - | SELECT 1\nB - | -\nE -\nQ SELEC 1; LISTEN x\n< Z\n", false},
		"behind LISTEN":      {"Q LISTEN x\n< Z\nQ SELEC 1; SET TimeZone TO UTC\n< Z\n", true},
		"behind PREPARE":     {"P - | PREPARE p AS SELECT 1\nB - | -\nE -\nP - | SELEC 1\nB - | -\nE -\nS\n< Z\n", true},
		"a function's text":  {"Q DO $$ BEGIN PERFORM misspelt(); END $$\n< Z\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSluice(t, pg, maxOpen(1), fastReplay, func(s *setup) {
				if test.keeps { // long enough for the first client's backend to be dialled
					s.backends.CheckoutWait = time.Second
				}
			})
			first, second := dialRaw(t, s.addr), dialRaw(t, s.addr)
			if got := first.say(t, test.script); !strings.Contains(got, "C=42601") {
				t.Fatalf("got:\n%s", got)
			}
			want := "C SELECT 1"
			if test.keeps {
				want = "C=53300"
			}
			if got := second.say(t, "Q SELECT 1\n< Z\n"); !strings.Contains(got, want) {
				t.Errorf("then another client got:\n%swant %s", got, want)
			}
		})
	}
}

// DSQL has no advisory locks: it refuses the functions, and what it has refused keeps no backend.
func TestRefusedAdvisoryLock(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	for kind, pins := range map[string]int64{"dsql": 0, "postgres": 1} {
		s := startSluice(t, pg, fastReplay, func(s *setup) {
			if kind == "dsql" {
				asDSQL(s)
			}
		})
		c := dialRaw(t, s.addr)
		if got := c.say(t, "Q SELECT pg_advisory_lock(1/0)\n< Z\n"); !strings.Contains(got, "C=22012") {
			t.Fatalf("got:\n%s", got)
		}
		if n := s.Stats().Pinned; int64(n) != pins {
			t.Errorf("kind %s: %d sessions keep their backend", kind, n)
		}
	}
}

// whatKeeps runs a text of a client, and reports whether the session keeps its backend then.
func whatKeeps(t *testing.T, s *sluice, messages ...pgproto3.FrontendMessage) (answer string, keeps bool) {
	t.Helper()
	c := dialRaw(t, s.addr)
	c.queue(encode(t, messages...))
	answer = c.readThrough("Z")
	keeps = s.Stats().Pinned > 0
	c.conn.Close()
	waitFor(t, "the client to be gone", func() bool { return s.Stats().Clients == 0 })
	return answer, keeps
}

// A text that is too long to be read keeps no backend once it has run, where its words and the tags
// say that it has left nothing; nor does one of which only a statement without a trace has failed.
func TestLongTextsThatNobodyReads(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE long (a text)")
	s := startSluice(t, pg, maxOpen(1), fastReplay)
	data := "'" + strings.Repeat("some data ", 250_000) + "'"
	for name, test := range map[string]struct {
		text  string
		keeps bool
	}{
		"an INSERT":           {"INSERT INTO long VALUES (" + data + ")", false},
		"a SELECT":            {"SELECT length(" + data + ")", false},
		"a block":             {"BEGIN; INSERT INTO long VALUES (" + data + "); COMMIT", false},
		"a failed INSERT":     {"INSERT INTO long VALUES (" + data + " || 1/0)", false},
		"a misspelt one":      {"INSER INTO long VALUES (" + data + ")", false},
		"a setting":           {"SELECT set_config('a.b', 'c', false), " + data, true},
		"a setting behind it": {"SELECT " + data + "; SET a.b = 'c'", true},
		"LISTEN":              {"SELECT " + data + "; LISTEN x", true},
		"a temporary table":   {"CREATE TEMP TABLE kept AS SELECT " + data, true},
		"a lock":              {"SELECT pg_advisory_lock(length(" + data + "))", true},
	} {
		answer, keeps := whatKeeps(t, s, &pgproto3.Query{String: test.text})
		if len(answer) > 200 {
			answer = answer[:200]
		}
		if keeps != test.keeps {
			t.Errorf("%s: keeps its backend: %v; it was answered:\n%s", name, keeps, answer)
		}
	}
	// Four clients that stay leave the one backend to others.
	for range 4 {
		c := dialRaw(t, s.addr)
		c.queue(encode(t, &pgproto3.Query{String: "INSERT INTO long VALUES (" + data + ")"}))
		if got := c.readThrough("Z"); !strings.Contains(got, "C INSERT 0 1") {
			t.Fatalf("a client got:\n%s", got)
		}
	}
}

// A statement that has not begun to run has left nothing, whatever it would have left.
func TestStatementsThatDoNotBegin(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE PROCEDURE fails() LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_lock(78); PERFORM nosuch(); END $$")
	s := startSluice(t, pg, maxOpen(1), fastReplay)
	for sql, want := range map[string]bool{
		"CALL nosuch()":                             false,
		"CALL fails(1, 2)":                          false,
		"SELECT 1; CALL nosuch()":                   false,
		"SELECT 1/0; LISTEN x":                      false,
		"DO $$ BEGIN nosuch; END $$":                false,
		"SELECT pg_advisory_lock(nosuch)":           false,
		"SELECT setseed('a'::nosuch)":               false,
		"CALL fails()":                              true,
		"PREPARE p AS SELECT 1; CALL nosuch()":      true,
		"DO $$ BEGIN CALL fails(); END $$":          true,
		"SELECT pg_advisory_lock(79), 1/(SELECT 0)": true,
	} {
		answer, keeps := whatKeeps(t, s, &pgproto3.Query{String: sql})
		if keeps != want || !strings.Contains(answer, "E S=ERROR") {
			t.Errorf("%s: keeps its backend: %v; it was answered:\n%s", sql, keeps, answer)
		}
		if strings.Contains(sql, ";") {
			continue
		}
		if _, keeps := whatKeeps(t, s, &pgproto3.Parse{Query: sql}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Sync{}); keeps != want {
			t.Errorf("%s, extended: keeps its backend: %v", sql, keeps)
		}
	}
}
