package proxy_test

import (
	"strings"
	"testing"
)

// A session that waits for another's reading of the schema reads it itself where that one is
// cancelled.
func TestReaderIsCancelled(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	keyed(t, pg, "public", true)
	f := new(freezer)
	s := startSluice(t, pg, asDSQL, withReplay, mapping, maxOpen(2), f.option)
	reader, cancel := dialKeyed(t, s.addr, nil)
	waiter := dialRaw(t, s.addr) // by the backend that it keeps
	waiter.say(t, "Q SELECT n, set_config('a.b', 'c', false) FROM t\n< Z\n")
	// The reader gets a backend that is newer than what was read.
	pg.SQL(t, "postgres", `CREATE TABLE late (a int);
		SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE backend_type = 'client backend' AND query NOT LIKE '%set_config%'`)
	f.arm("pg_class")
	reader.say(t, "Q SELECT n FROM t\n")
	waitFor(t, "the reading", func() bool { return f.frozen.Load() == 1 })
	waiter.say(t, "Q SELECT * FROM late\n")
	waitFor(t, "the other session to wait", func() bool { st := s.Stats(); return st.Clients-st.Idle == 2 })
	cancel()
	if got := reader.say(t, "< Z\n"); !strings.Contains(got, "C=57014") {
		t.Errorf("whoever is cancelled got\n%s", got)
	}
	if got := waiter.say(t, "< Z\n"); !strings.Contains(got, "C SELECT 0") {
		t.Errorf("whoever waited got\n%s", got)
	}
}

// Where a statement was planned by a newer schema and sent again, its first error was no
// mistake: what a later conflict is told by is a conflict.
func TestConflictBehindANewPlan(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling)
	keyed(t, pg, "public", true)
	s := startSluice(t, pg, asDSQL, fastReplay, mapping, maxOpen(2), func(s *setup) { s.proxy.Retry.Policy.MaxRetries = 1 })
	c := dialRaw(t, s.addr)
	c.say(t, "Q SELECT k FROM t\n< Z\n")
	pg.SQL(t, "postgres", "SELECT pg_sleep(0.3); DROP TABLE t")
	keyed(t, pg, "public", false)
	stumbles(t, pg, true)
	got := c.say(t, ext("SELECT 1")+ext("SELECT k FROM t")+ext("SELECT stumble(1)")+"S\n< Z\n")
	if !strings.Contains(got, "E S=ERROR C=40001") || !strings.Contains(got, "Replay refused") || strings.Count(got, "C SELECT 1") > 1 || !strings.HasSuffix(got, "Z I\n") {
		t.Errorf("got\n%s", got)
	}
}

// A session that loses the backend by which it reads the schema says nothing of the server:
// whoever waits for the reading makes it.
func TestReaderLosesItsBackend(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	keyed(t, pg, "public", true)
	f := new(freezer)
	s := startSluice(t, pg, asDSQL, fastReplay, mapping, maxOpen(4), f.option)
	pinned := func(name string) *rawClient {
		c := dialRaw(t, s.addr)
		c.say(t, "Q SELECT n, set_config('a."+name+"', '', false) FROM t\n< Z\n")
		return c
	}
	reader, waiter := pinned("reader"), pinned("waiter")
	pg.SQL(t, "postgres", "CREATE TABLE late (a int)")
	f.arm("pg_class")
	reader.say(t, "Q SELECT * FROM late\n")
	waitFor(t, "the reading", func() bool { return f.frozen.Load() == 1 })
	waiter.say(t, "Q SELECT * FROM late\n")
	waitFor(t, "the other session to wait", func() bool { st := s.Stats(); return st.Clients-st.Idle == 1 })
	pg.SQL(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%''a.reader''%' AND pid <> pg_backend_pid()")
	if got := reader.say(t, "< Z\n"); strings.Contains(got, "C=53300") {
		t.Errorf("the reader got\n%s", got)
	}
	if got := waiter.say(t, "< Z\n"); !strings.Contains(got, "C SELECT 0") {
		t.Errorf("whoever waited got\n%s", got)
	}
}

// A backend that is newer than the schema that was read has it read again, although another
// client has just asked for what is not there.
func TestNewBackendBehindAnError(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	keyed(t, pg, "public", true)
	s := startSluice(t, pg, asDSQL, withReplay, mapping, maxOpen(1))
	c, other := dialRaw(t, s.addr), dialRaw(t, s.addr)
	c.say(t, "Q SELECT n FROM t\n< Z\n")
	for range 3 { // the first has the schema read for the error, what follows is too soon for that
		other.say(t, "Q SELECT nosuch FROM t\n< Z\n")
		pg.SQL(t, "postgres", "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
		other.say(t, "Q SELECT nosuch FROM t\n< Z\n")
		pg.SQL(t, "postgres", "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
		if got := c.say(t, "Q BEGIN; SELECT n FROM t\n< Z\nQ COMMIT\n< Z\n"); strings.Contains(got, "E S=ERROR") {
			t.Fatalf("got\n%s", got)
		}
	}
}
