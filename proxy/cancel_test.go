package proxy_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/reservoir"
)

// A cancel ends the statement it was meant for, in every pairing.
func TestCancel(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t) // beside others' functions a read might write, and is waited for
	for name, opts := range map[string][]option{
		"transaction": nil, "session": {sessionPairing}, "tls": {backendTLS},
		"ignored by the server": {asDSQL, configure(func(c *proxy.Config) { c.CancelGrace = 50 * time.Millisecond })},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSluice(t, pg, opts...)
			conn := connect(t, s.addr)
			for _, inBlock := range []bool{false, true} {
				if inBlock {
					if _, err := conn.Exec(t.Context(), "BEGIN"); err != nil {
						t.Fatal(err)
					}
				}
				stop := make(chan error, 1)
				go func() {
					time.Sleep(100 * time.Millisecond)
					stop <- conn.PgConn().CancelRequest(context.Background())
				}()
				_, err := conn.Exec(t.Context(), "SELECT pg_sleep(600)")
				if code(err) != "57014" {
					t.Fatalf("in block %v: got %v", inBlock, err)
				}
				if err := <-stop; err != nil {
					t.Error(err)
				}
				if inBlock {
					if _, err := conn.Exec(t.Context(), "SELECT 1"); code(err) != "25P02" {
						t.Errorf("after a cancel in a block: %v", err)
					}
					if _, err := conn.Exec(t.Context(), "ROLLBACK"); err != nil {
						t.Error(err)
					}
				}
			}
			if _, err := conn.Exec(t.Context(), "SELECT 1"); err != nil {
				t.Error(err)
			}
		})
	}
}

// While clients share backends and cancel at random, no statement is cancelled
// but the one that was meant.
func TestCancelHitsNobodyElse(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg, maxOpen(2))
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer wg.Wait()
	defer stop()
	for range 4 { // never cancelled
		conn := connect(t, s.addr)
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := conn.Exec(t.Context(), "SELECT pg_sleep(0.001)"); err != nil {
					t.Errorf("bystander: %v", err)
					return
				}
			}
		})
	}
	cancelled, pause := 0, 0.002
	conn := connect(t, s.addr)
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end) || cancelled == 0; {
		if time.Now().After(end) { // a busy machine: cancels come too late
			if pause *= 2; pause > 20 {
				t.Fatal("no cancel ever had an effect")
			}
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			conn.PgConn().CancelRequest(context.Background())
		}()
		_, err := conn.Exec(t.Context(), fmt.Sprintf("SELECT pg_sleep(%g)", pause))
		if err != nil && code(err) != "57014" {
			t.Fatal(err)
		}
		if err != nil {
			cancelled++
		}
		<-done
		if _, err := conn.Exec(t.Context(), "SELECT 1"); err != nil {
			t.Fatalf("the next statement was hit: %v", err)
		}
	}
}

// A client that waits for a backend can be cancelled too.
func TestCancelWhileWaiting(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg, maxOpen(1))
	holder, waiter := connect(t, s.addr), connect(t, s.addr)
	if _, err := holder.Exec(t.Context(), "BEGIN; SELECT 1"); err != nil {
		t.Fatal(err)
	}
	go func() {
		waitFor(t, "a waiter", func() bool { return s.backends.Stats().Waiting == 1 })
		waiter.PgConn().CancelRequest(context.Background())
	}()
	if _, err := waiter.Exec(t.Context(), "SELECT 1"); code(err) != "57014" {
		t.Errorf("got %v", err)
	}
}

// statement_timeout is Sluice's own where the server knows none.
func TestStatementTimeout(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t) // beside others' functions a read might write, and is waited for
	s := startSluice(t, pg, asDSQL)
	conn := connect(t, s.addr)
	if _, err := conn.Exec(t.Context(), "SET statement_timeout = 50"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT pg_sleep(600)"); code(err) != "57014" {
		t.Errorf("got %v", err)
	}
	if _, err := conn.Exec(t.Context(), "SET LOCAL statement_timeout = '1min'"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "RESET statement_timeout"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT pg_sleep(0.2)"); err != nil {
		t.Error(err)
	}
	if _, err := conn.Exec(t.Context(), "SET statement_timeout = 'soon'"); code(err) != "22023" {
		t.Errorf("got %v", err)
	}
	if _, err := conn.Exec(t.Context(), "SET lock_timeout = '3s'"); err != nil { // answered locally
		t.Error(err)
	}
	if _, err := conn.Exec(t.Context(), "SET idle_in_transaction_session_timeout = 50"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	if _, err := conn.Exec(t.Context(), "SELECT 1"); code(err) != "25P03" {
		t.Errorf("got %v", err)
	}
}

// A cancel stops what runs, and nothing that its client sends behind the answer: also in
// one group, whose Sync comes later.
func TestCancelOfAnsweredFrames(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	for name, opts := range map[string][]option{"postgres": nil, "dsql": {asDSQL}, "replay": {withReplay}, "not forwarded": {func(s *setup) { s.proxy.ForwardCancel = false }}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startSluice(t, pg, append(opts, func(s *setup) { s.proxy.CancelGrace = 20 * time.Millisecond })...)
			for range 5 {
				c, cancel := dialKeyed(t, s.addr, nil)
				for _, begin := range []string{"", "Q BEGIN\n< Z\n"} {
					c.play(t, begin+"P - | SELECT 1 AS one\nB - | -\nE -\nH\n< C\n")
					cancel()
					time.Sleep(40 * time.Millisecond) // longer than the grace
					if got := c.play(t, "P - | SELECT 2 AS two\nB - | -\nE -\nH\n< C\nS\n< Z\n"); strings.Contains(got, "57014") {
						t.Fatalf("behind a cancel of what was answered:\n%s", got)
					}
				}
				c.play(t, "Q ROLLBACK\n< Z\n")
			}
		})
	}
}

// A client that is slow to read gets the end of a statement that was stopped meanwhile.
func TestStoppedWhileTheClientIsSlow(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t) // beside others' functions a read might write, and is waited for
	grace := configure(func(c *proxy.Config) { c.CancelGrace, c.ForwardCancel = 50*time.Millisecond, true })
	for name, how := range map[string]struct {
		opts  []option
		setup string
	}{"cancel": {[]option{grace}, ""}, "timeout": {[]option{asDSQL, grace}, "Q SET statement_timeout = 200\n< Z\n"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, cancel := dialKeyed(t, startSluice(t, pg, how.opts...).addr, nil)
			c.say(t, how.setup+"Q SELECT repeat('x', 1000) FROM generate_series(1, 40000)")
			if name == "cancel" {
				c.readThrough("T")
				time.Sleep(200 * time.Millisecond) // by now sockets are full
				cancel()
			}
			time.Sleep(400 * time.Millisecond) // longer than the grace, and than the timeout
			if got := c.readThrough("Z"); !strings.Contains(got, "C=57014") {
				t.Errorf("%d bytes, at the end: %s", len(got), got[max(0, len(got)-200):])
			}
		})
	}
}

// A server that takes no cancels costs Sluice few connections, however often clients ask: one for each session (and one
// when it gives up its backend), and CancelsAtOnce in all. Clients are told after the grace, as ever.
func TestCancelsOnTheirWayAreBounded(t *testing.T) {
	t.Parallel()
	const sessions, requests = proxy.CancelsAtOnce + 4, 40
	pg := sharedPostgres(t)
	var flying, most atomic.Int64
	s := startSluice(t, pg, maxOpen(sessions), func(s *setup) {
		s.wrap = func(dial reservoir.DialFunc) reservoir.DialFunc {
			return func(ctx context.Context, start *reservoir.Startup) (*reservoir.Conn, error) {
				c, err := dial(ctx, start)
				if c != nil {
					c.SendCancel = func(ctx context.Context) error {
						for n := flying.Add(1); n > most.Load(); n = flying.Load() {
							most.Store(n)
						}
						defer flying.Add(-1)
						<-ctx.Done()
						return ctx.Err()
					}
				}
				return c, err
			}
		}
	})
	ask := func(n, each int) {
		var wg sync.WaitGroup
		for i := range n {
			conn := connect(t, s.addr)
			text := fmt.Sprintf("SELECT pg_sleep(60) /* session %d of %d at %s */", i, n, s.addr)
			wg.Go(func() {
				if _, err := conn.Exec(t.Context(), text); code(err) != "57014" {
					t.Errorf("got %v", err)
				}
			})
			// A cancel that comes in front of that ends the wait for a backend, and dials nothing.
			waitFor(t, "the statement to run", func() bool {
				return pg.SQL(t, "postgres", "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = '"+text+"'") == "1"
			})
			for range each {
				wg.Go(func() { _ = conn.PgConn().CancelRequest(context.Background()) })
			}
		}
		wg.Wait()
	}
	for _, test := range []struct{ sessions, requests, most int64 }{{1, requests, 2}, {sessions, 2, proxy.CancelsAtOnce}} {
		most.Store(0)
		ask(int(test.sessions), int(test.requests))
		if n := most.Load(); n > test.most || n == 0 {
			t.Errorf("%d sessions, %d cancels each: %d connections at once, want %d at most", test.sessions, test.requests, n, test.most)
		}
	}
}

// While a client's frames wait at the backend, another client changes the schema. A table changes nothing about what a
// read runs, so that a cancel still ends the client's read on a server that takes no cancels. After another change the
// read may write, and runs to its end.
func TestCancelOfAReadBesideDDL(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	log := &logText{}
	s := startSluice(t, pg, asDSQL, maxOpen(3), func(s *setup) {
		s.proxy.CancelGrace = 50 * time.Millisecond
		s.log = slog.NewTextHandler(log, nil)
	})
	pg.SQL(t, "postgres", "CREATE TABLE cancel_changed (a int PRIMARY KEY, b int)")
	run := 0 // the reads that have run to their end
	for _, test := range []struct {
		ddl  string
		ends bool
	}{
		{"CREATE TABLE cancel_made (a int PRIMARY KEY)", true},
		{"ALTER TABLE cancel_changed ADD COLUMN c int", true},
		{"ALTER TABLE cancel_changed RENAME COLUMN c TO d", true},
		{"CREATE SEQUENCE cancel_numbers", true},
		{"CREATE INDEX ON cancel_changed (b)", true},
		{"DROP SEQUENCE cancel_numbers", true},
		{"BEGIN; CREATE TABLE cancel_block (a int PRIMARY KEY); COMMIT", true},
		{"DROP TABLE cancel_made, cancel_block", true},
		{"CREATE VIEW cancel_view AS SELECT a FROM cancel_changed", false},
		{"BEGIN; CREATE OR REPLACE VIEW cancel_view AS SELECT a FROM cancel_changed; COMMIT", false},
		{"CREATE DOMAIN cancel_domain AS int", false},
		{"CREATE FUNCTION cancel_function() RETURNS int LANGUAGE sql AS 'SELECT 1'", false},
		{"ALTER FUNCTION cancel_function RENAME TO cancel_renamed", false},
	} {
		c, cancel := dialKeyed(t, s.addr, nil)
		c.play(t, "P s | SELECT pg_sleep(2) AS slept\nD S s\nB - | s\nH\n< 2\n")
		perform(t, s.addr, "Q "+strings.ReplaceAll(test.ddl, "; ", "\n< Z\nQ ")+"\n< Z\n")
		c.say(t, "B - | s\nE -\nS\n")
		time.Sleep(200 * time.Millisecond)
		cancel()
		if got := c.readThrough("Z"); strings.Contains(got, "C=57014") != test.ends {
			t.Errorf("beside %s:\n%s", test.ddl, got)
		}
		if !test.ends {
			run++
		}
		c.conn.Close()
	}
	// The log says of each that runs to its end why.
	if n := strings.Count(log.String(), "runs to its end in spite of a cancel"); n != run || strings.Count(log.String(), "may_commit=true keeps_backend=false") != run {
		t.Errorf("%d warnings, want %d:\n%s", n, run, log)
	}
}
