package proxy_test

import (
	"strings"
	"testing"
	"time"
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
