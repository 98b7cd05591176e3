package proxy_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/rewrite"
)

// What an operator reads on /metrics is what happened.
func TestCounts(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t) // beside others' functions a read might write, and is waited for
	s := startSluice(t, pg, asDSQL, maxOpen(1), configure(func(c *proxy.Config) { c.CancelGrace = 20 * time.Millisecond }))
	first, second := connect(t, s.addr), connect(t, s.addr)
	ctx := t.Context()
	run := func(conn *pgx.Conn, sql string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	run(first, "SELECT $1::int", 1) // prepared on the backend
	run(first, "SELECT $1::int", 2) // hit
	run(second, "SELECT $1::int", 3)
	run(first, "-- ping")
	run(first, "BEGIN")
	run(first, "COMMIT")
	run(first, "SET lock_timeout = 5")
	run(first, "SHOW statement_timeout")
	if _, err := first.Prepare(ctx, "shown", "SHOW statement_timeout"); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Exec(ctx, "EXECUTE nosuch"); code(err) != "26000" {
		t.Error(err)
	}
	first.Close(ctx) // EXECUTE pins: its backend goes with it
	go func() {
		time.Sleep(50 * time.Millisecond)
		second.PgConn().CancelRequest(context.Background())
	}()
	if _, err := second.Exec(ctx, "SELECT pg_sleep(600)"); code(err) != "57014" {
		t.Error(err)
	}
	if _, err := second.Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())"); code(err) != "08007" {
		t.Error(err)
	}
	waitFor(t, "the first session to end", func() bool { return s.Stats().Clients == 1 })
	for _, want := range []struct {
		name, value string
		least       float64
	}{
		{"dsql_sessions_started_total", "", 2}, {"dsql_sessions_ended_total", "terminated", 1}, {"dsql_turns_total", "", 12},
		{"dsql_prepared_statements_total", "prepared", 1}, {"dsql_prepared_statements_total", "hit", 2},
		{"dsql_local_answers_total", "parse", 1}, {"dsql_local_answers_total", "describe", 1},
		{"dsql_local_answers_total", "empty", 1}, {"dsql_local_answers_total", "begin", 1}, {"dsql_local_answers_total", "end", 1},
		{"dsql_local_answers_total", "setting", 1}, {"dsql_local_answers_total", "show", 1},
		{"dsql_pins_total", "prepare", 1}, {"dsql_cancels_total", "discarded", 1}, {"dsql_errors_sent_total", "57014", 1},
		{"dsql_backends_lost_total", "unknown_outcome", 1},
	} {
		if got := s.count(t, want.name, want.value); got < want.least {
			t.Errorf("%s %s = %g, want %g at least", want.name, want.value, got, want.least)
		}
	}
}

// Memory that replays need is shown while a transaction is open.
func TestLogBytesAreCounted(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t), asDSQL, withReplay)
	conn := connect(t, s.addr)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT $1::text", strings.Repeat("x", 10_000)); err != nil {
		t.Fatal(err)
	}
	if got := s.Stats().LogBytes; got < 10_000 {
		t.Errorf("the log of a transaction that sent 10,000 bytes holds %d", got)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.Stats().LogBytes; got != 0 {
		t.Errorf("after COMMIT logs hold %d bytes", got)
	}
}

// A text of some KiB counts in the log of its transaction, by Parse and as the query of a cursor, since the log holds it.
func TestLongTextsAreLogged(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	s := startSluice(t, pg, asDSQL, withReplay, withCursors, maxOpen(1))
	const size, texts = 8 << 10, 40
	for name, form := range map[string]string{"Parse": "P - | SELECT '%d%s'\nB - | -\nE -\nS\n< Z\n", "DECLARE": "Q DECLARE c%d CURSOR FOR SELECT '%s'\n< Z\n"} {
		c := dialRaw(t, s.addr)
		c.play(t, "Q BEGIN\n< Z\nQ SELECT 1\n< Z\n")
		for i := range texts {
			c.play(t, fmt.Sprintf(form, i, strings.Repeat("x", size)))
		}
		if got := s.Stats().LogBytes; got < size*texts {
			t.Errorf("%s: the log has %d bytes, with texts of %d", name, got, size*texts)
		}
		c.conn.Close()
		waitFor(t, "the client to be gone", func() bool { return s.Stats().Clients == 0 })
	}
}

// A multi-statement query in the log is charged with its plan, which is far larger than its text.
func TestPlansAreLogged(t *testing.T) {
	t.Parallel()
	s := startSluice(t, newPostgres(t), asDSQL, withReplay, maxOpen(1))
	const statements, texts = 400, 3
	for end, plans := range map[string]int64{"": 1, "; SHOW application_name": 2} { // Sluice answers SHOW: the client's plan, and what is sent
		c := dialRaw(t, s.addr)
		c.play(t, "Q BEGIN\n< Z\n")
		for i := range texts {
			c.play(t, fmt.Sprintf("Q SELECT %d%s%s\n< Z\n", i, strings.Repeat("; SELECT 1", statements), end))
		}
		plans *= texts * statements * int64(unsafe.Sizeof(rewrite.Statement{}))
		if got := s.Stats().LogBytes; got < plans {
			t.Errorf("%q: the log has %d bytes, with plans of %d", end, got, plans)
		}
		c.play(t, "Q ROLLBACK\n< Z\n")
	}
}
