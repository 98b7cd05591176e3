package rewriting

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// Terms of the locks in these tests.
const (
	lockLease   = 2 * time.Second
	lockLongest = 4 * time.Second
)

// locksRig is some sidecars on one database.
type locksRig struct {
	pg      *pgtest.Server
	sim     *harness.DSQLSim
	sidecar []*harness.Sluice
}

func startLocks(t *testing.T, sidecars int, env harness.Env) *locksRig {
	t.Helper()
	r := &locksRig{pg: pgtest.Start(t, pgtest.MaxConnections(100))}
	r.pg.SQL(t, "postgres", "CREATE DATABASE reference")
	bin := harness.Binaries(t)
	r.sim = harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: r.pg})
	for range sidecars {
		r.sidecar = append(r.sidecar, harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: r.sim.Env().With(harness.Env{
			"DSQL_RESERVOIR_MAX_OPEN": "12", "DSQL_REWRITE_ADVISORY_LOCKS": "table", "DSQL_REWRITE_ADVISORY_LOCKS_LEASE": lockLease.String(),
			"DSQL_REWRITE_ADVISORY_LOCKS_LONGEST": lockLongest.String()}).With(env)}))
	}
	return r
}

// startHeld is two sidecars with a client each, of which the first holds lock 7.
func startHeld(t *testing.T) (r *locksRig, a, b *lockClient) {
	t.Helper()
	r = startLocks(t, 2, nil)
	a, b = lockDial(t, r.sidecar[0].DSN("postgres")), lockDial(t, r.sidecar[1].DSN("postgres"))
	a.want("SELECT pg_advisory_lock(7)", "")
	return r, a, b
}

// client is one connection, which asks by simple Queries.
type lockClient struct {
	t *testing.T
	c *pgconn.PgConn
}

func lockDial(t *testing.T, dsn string) *lockClient {
	t.Helper()
	c, err := pgconn.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return &lockClient{t, c}
}

// ask is the first value, or the tag where there is none, or the SQLSTATE and message of the error.
func (c *lockClient) ask(sql string) string {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	results, err := c.c.Exec(ctx, sql).ReadAll()
	var told *pgconn.PgError
	switch {
	case errors.As(err, &told):
		return told.Code + " " + told.Message
	case err != nil:
		return "lost: " + err.Error()
	}
	last := results[len(results)-1]
	if len(last.Rows) > 0 && len(last.Rows[0]) > 0 {
		return string(last.Rows[0][0])
	}
	return last.CommandTag.String()
}

func (c *lockClient) want(sql, want string) {
	c.t.Helper()
	if got := c.ask(sql); !strings.HasPrefix(got, want) || want == "" && got != "" {
		c.t.Fatalf("%s: got %q, want %q", sql, got, want)
	}
}

const lostLock = "40001 an advisory lock of this session was taken over"

// A wait for a lock that fails sends the frames that PostgreSQL sends: by a simple Query the description of its row
// comes first, by the extended protocol where it was asked for.
func TestFramesOfLockWaits(t *testing.T) {
	t.Parallel()
	r := startLocks(t, 1, nil)
	sim, plain := r.sidecar[0].DSN("postgres"), r.pg.DSN("reference")
	for _, dsn := range []string{sim, plain} {
		lockDial(t, dsn).want("SELECT pg_advisory_lock(7)", "")
	}
	const lock = "SELECT pg_advisory_lock(7)"
	parsed, statement, portal := []pgproto3.FrontendMessage{&pgproto3.Parse{Query: lock}}, &pgproto3.Describe{ObjectType: 'S'}, &pgproto3.Describe{ObjectType: 'P'}
	run := []pgproto3.FrontendMessage{&pgproto3.Execute{}, &pgproto3.Sync{}}
	for name, frames := range map[string][]pgproto3.FrontendMessage{
		"simple":              {&pgproto3.Query{String: lock}},
		"not described":       slices.Concat(parsed, []pgproto3.FrontendMessage{&pgproto3.Bind{}}, run),
		"described":           slices.Concat(parsed, []pgproto3.FrontendMessage{&pgproto3.Bind{}, portal}, run),
		"described statement": slices.Concat(parsed, []pgproto3.FrontendMessage{statement, &pgproto3.Bind{}}, run),
		"flushed":             slices.Concat(parsed, []pgproto3.FrontendMessage{&pgproto3.Bind{}, portal, &pgproto3.Flush{}}, run),
	} {
		for _, limit := range []string{"lock_timeout", "statement_timeout", "cancel"} {
			for _, begin := range []string{"SELECT 1", "BEGIN"} {
				var got [2]string
				for i, dsn := range []string{sim, plain} {
					got[i] = framesOfLock(t, dsn, limit, begin, frames)
				}
				if got[0] != got[1] {
					t.Errorf("%s, %s, behind %s: got %s, want %s", name, limit, begin, got[0], got[1])
				}
			}
		}
	}
}

// framesOfLock sends frames, and returns the kinds of what is answered.
func framesOfLock(t *testing.T, dsn, limit, begin string, frames []pgproto3.FrontendMessage) string {
	t.Helper()
	c := lockDial(t, dsn)
	if limit != "cancel" {
		c.want("SET "+limit+" = '150ms'", "SET")
	}
	c.ask(begin)
	f := c.c.Frontend()
	for _, m := range frames {
		f.Send(m)
	}
	if err := f.Flush(); err != nil {
		t.Fatal(err)
	}
	if limit == "cancel" {
		time.AfterFunc(200*time.Millisecond, func() { c.c.CancelRequest(context.Background()) })
	}
	var kinds []string
	for {
		m, err := f.Receive()
		if err != nil {
			t.Fatal(err)
		}
		switch m := m.(type) {
		case *pgproto3.ReadyForQuery:
			return strings.Join(append(kinds, string(m.TxStatus)), " ")
		case *pgproto3.ErrorResponse:
			kinds = append(kinds, m.Code)
		case *pgproto3.ParameterStatus, *pgproto3.NoticeResponse:
		default:
			kinds = append(kinds, strings.TrimPrefix(fmt.Sprintf("%T", m), "*pgproto3."))
		}
	}
}

// The statements of four tools, as their drivers send them.
func TestLocksOfTools(t *testing.T) {
	t.Parallel()
	r := startLocks(t, 2, nil)
	for _, driver := range []string{"postgres", "pgx"} {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		dial := func(i int) *sql.Conn {
			db, err := sql.Open(driver, r.sidecar[i].DSN("postgres"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			c, err := db.Conn(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		one, other := dial(0), dial(1)
		// golang-migrate, whose key is a string of digits.
		const key = "1443532"
		if _, err := one.ExecContext(ctx, "SELECT pg_advisory_lock($1)", key); err != nil {
			t.Fatal(driver, err)
		}
		had := make(chan error, 1)
		go func() {
			_, err := other.ExecContext(ctx, "SELECT pg_advisory_lock($1)", key)
			had <- err
		}()
		select {
		case err := <-had:
			t.Fatalf("%s: two have the lock: %v", driver, err)
		case <-time.After(lockLease + lockLease/2):
		}
		if _, err := one.ExecContext(ctx, "SELECT pg_advisory_unlock($1)", key); err != nil {
			t.Fatal(driver, err)
		}
		if err := <-had; err != nil {
			t.Fatal(driver, err)
		}
		if _, err := other.ExecContext(ctx, "SELECT pg_advisory_unlock($1)", key); err != nil {
			t.Fatal(driver, err)
		}
		// Rails and Flyway ask whether they have it; Prisma waits, and leaves by closing.
		for _, n := range []string{"4847427389173527425", "4277735113"} {
			var got, not, gone, again bool
			for c, into := range map[*sql.Conn]*bool{one: &got} {
				if err := c.QueryRowContext(ctx, "SELECT pg_try_advisory_lock("+n+")").Scan(into); err != nil {
					t.Fatal(driver, err)
				}
			}
			err := errors.Join(other.QueryRowContext(ctx, "SELECT pg_try_advisory_lock("+n+")").Scan(&not),
				one.QueryRowContext(ctx, "SELECT pg_advisory_unlock("+n+")").Scan(&gone),
				one.QueryRowContext(ctx, "SELECT pg_advisory_unlock("+n+")").Scan(&again))
			if err != nil || !got || not || !gone || again {
				t.Errorf("%s, %s: %v, %v %v %v %v", driver, n, err, got, not, gone, again)
			}
		}
		prisma := lockDial(t, r.sidecar[0].DSN("postgres"))
		prisma.want("SELECT pg_advisory_lock(72707369)", "")
		prisma.c.Close(ctx)
		lockDial(t, r.sidecar[1].DSN("postgres")).want("SELECT pg_advisory_lock(72707369); SELECT 1", "0A000")
		last := lockDial(t, r.sidecar[1].DSN("postgres"))
		last.want("SELECT pg_advisory_lock(72707369)", "")
		last.c.Close(ctx)
	}
}

// A sidecar that is stopped for longer than a lease has lost the lock: its COMMIT, sent meanwhile,
// is refused, and so is a write outside a block; the session ends.
func TestLockedSidecarStopped(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"COMMIT in flight", "COMMIT behind", "write in flight", "idle"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			r, a, b := startHeld(t)
			r.pg.SQL(t, "postgres", "CREATE TABLE kept (who text PRIMARY KEY)")
			a.want("INSERT INTO kept VALUES ('first')", "INSERT 0 1")
			if strings.HasPrefix(way, "COMMIT") {
				a.want("BEGIN", "BEGIN")
				a.want("INSERT INTO kept VALUES ('a')", "INSERT 0 1")
			}
			stopped := time.Now()
			r.sidecar[0].Freeze()
			answer := make(chan string, 1)
			switch way {
			case "COMMIT in flight":
				go func() { answer <- a.ask("COMMIT") }()
			case "write in flight":
				go func() { answer <- a.ask("INSERT INTO kept VALUES ('a')") }()
			}
			b.want("SELECT pg_advisory_lock(7)", "")
			if took := time.Since(stopped); took < lockLease/2 || took > 10*lockLease {
				t.Errorf("the lock was taken over %v behind the stop", took)
			}
			b.want("INSERT INTO kept VALUES ('b')", "INSERT 0 1")
			r.sidecar[0].Thaw()
			switch way {
			case "COMMIT behind":
				answer <- a.ask("COMMIT")
			case "idle":
				time.Sleep(lockLease) // until it has noticed
				answer <- a.ask("INSERT INTO kept VALUES ('a')")
			}
			got := <-answer
			// Whoever was told by the keeper first is told at the end of its session.
			if !strings.HasPrefix(got, lostLock) && !strings.HasPrefix(got, "08006 an advisory lock") {
				t.Errorf("the client was told %q", got)
			}
			if got := a.ask("SELECT 1"); got == "1" {
				t.Error("the session goes on")
			}
			if got := r.pg.SQL(t, "postgres", "SELECT string_agg(who, ' ' ORDER BY who) FROM kept"); got != "b first" {
				t.Errorf("rows %q", got)
			}
			b.want("SELECT pg_advisory_unlock(7)", "t")
		})
	}
}

// A write outside of a block that is at the server while its Sluice stands still, for longer than the
// lease, is not committed: another has taken the lock over meanwhile, and has written.
func TestLockedWriteAtServer(t *testing.T) {
	t.Parallel()
	const slow = "INSERT INTO kept VALUES ('slow')"
	for way, write := range map[string]func(ctx context.Context, c *pgconn.PgConn) error{
		"simple": func(ctx context.Context, c *pgconn.PgConn) error { return c.Exec(ctx, slow).Close() },
		"extended": func(ctx context.Context, c *pgconn.PgConn) error {
			return c.ExecParams(ctx, slow, nil, nil, nil, nil).Read().Err
		},
		"a multi-statement string": func(ctx context.Context, c *pgconn.PgConn) error {
			return c.Exec(ctx, "INSERT INTO kept VALUES ('fast'); "+slow).Close()
		},
		"a pipeline": func(ctx context.Context, c *pgconn.PgConn) error {
			return pipelined(ctx, c, []string{"SELECT count(*) FROM kept", "INSERT INTO kept VALUES ('fast')", slow, "SELECT count(*) FROM kept"}, func(*pgconn.Result) {})
		},
		"RETURNING": func(ctx context.Context, c *pgconn.PgConn) error { return c.Exec(ctx, slow+" RETURNING who").Close() },
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			r, a, b := startHeld(t)
			r.pg.SQL(t, "postgres", "CREATE TABLE kept (who text PRIMARY KEY)")
			a.want("INSERT INTO kept VALUES ('first')", "INSERT 0 1")
			r.sim.Admin(t, http.MethodPost, "/faults", fmt.Sprintf(`[{"at": "statement", "contains": "('slow')", "action": "stall", "seconds": %v}]`, (4*lockLease).Seconds()))
			answer := make(chan error, 1)
			go func() { answer <- write(t.Context(), a.c) }()
			for strings.Contains(r.sim.Admin(t, http.MethodGet, "/faults", ""), "slow") { // until the write is at the server
				time.Sleep(10 * time.Millisecond)
			}
			r.sidecar[0].Freeze()
			b.want("SELECT pg_advisory_lock(7)", "")
			b.want("INSERT INTO kept VALUES ('b')", "INSERT 0 1")
			r.sidecar[0].Thaw()
			if err := <-answer; err == nil || !strings.Contains(err.Error(), "an advisory lock of this session was taken over") {
				t.Errorf("the client was told %v", err)
			}
			if got := r.pg.SQL(t, "postgres", "SELECT string_agg(who, ' ' ORDER BY who) FROM kept"); got != "b first" {
				t.Errorf("rows %q", got)
			}
		})
	}
}

// While DDL may be under way nobody takes the lock, however long the sidecar has been stopped,
// until the longest statement must have ended.
func TestLockedDDLInFlight(t *testing.T) {
	t.Parallel()
	r, a, b := startHeld(t)
	r.sim.Admin(t, http.MethodPost, "/faults", `[{"at": "statement", "contains": "TABLE slow", "action": "stall", "seconds": 3}]`)
	answer := make(chan string, 1)
	began := time.Now()
	go func() { answer <- a.ask("CREATE TABLE slow (a int)") }()
	for strings.Contains(r.sim.Admin(t, http.MethodGet, "/faults", ""), "slow") { // until the statement is at the server
		time.Sleep(10 * time.Millisecond)
	}
	r.sidecar[0].Freeze()
	b.want("SELECT pg_advisory_lock(7)", "")
	if took := time.Since(began); took < lockLease+lockLongest || took > 10*lockLongest {
		t.Errorf("the lock was taken over %v behind the statement", took)
	}
	b.want("SELECT count(*) FROM pg_class WHERE relname = 'slow'", "1")
	r.sidecar[0].Thaw()
	if got := <-answer; !strings.HasPrefix(got, "CREATE TABLE") && !strings.HasPrefix(got, "08006") {
		t.Errorf("the client was told %q", got)
	}
	// Nothing conflicts with DDL: that the lock is gone must be known before it is sent.
	if got := a.ask("CREATE TABLE late (a int)"); !strings.HasPrefix(got, lostLock) && !strings.HasPrefix(got, "08006") {
		t.Errorf("DDL behind the loss: %q", got)
	}
	b.want("SELECT count(*) FROM pg_class WHERE relname = 'late'", "0")
	b.want("SELECT pg_advisory_unlock(7)", "t")
}

// Whose client leaves while its DDL runs keeps the lock until that must have ended.
func TestLockedDDLAbandoned(t *testing.T) {
	t.Parallel()
	r, a, b := startHeld(t)
	r.sim.Admin(t, http.MethodPost, "/faults", `[{"at": "statement", "contains": "TABLE slow", "action": "stall", "seconds": 3}]`)
	began := time.Now()
	go a.ask("CREATE TABLE slow (a int)")
	for strings.Contains(r.sim.Admin(t, http.MethodGet, "/faults", ""), "slow") { // until the statement is at the server
		time.Sleep(10 * time.Millisecond)
	}
	a.c.Conn().Close()
	b.want("SELECT pg_advisory_lock(7)", "")
	if took := time.Since(began); took < 3*time.Second {
		t.Errorf("the lock was taken %v behind the statement, which took 3 s", took)
	}
}

// A killed sidecar's locks are taken over behind their leases; those of a client that leaves, and
// of a sidecar that ends, at once.
func TestLockedEnds(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		name string
		end  func(r *locksRig, a *lockClient)
		soon bool
	}{
		{"killed", func(r *locksRig, _ *lockClient) { r.sidecar[0].Signal(syscall.SIGKILL) }, false},
		{"terminated", func(r *locksRig, _ *lockClient) { r.sidecar[0].Signal(syscall.SIGTERM) }, true},
		{"goodbye", func(_ *locksRig, a *lockClient) { a.c.Close(context.Background()) }, true},
		{"cut", func(_ *locksRig, a *lockClient) { a.c.Conn().Close() }, true},
		{"DISCARD ALL", func(_ *locksRig, a *lockClient) { a.want("DISCARD ALL", "DISCARD ALL") }, true},
		{"terminated in a block", func(r *locksRig, a *lockClient) {
			a.want("BEGIN", "BEGIN")
			a.want("INSERT INTO kept VALUES ('a')", "INSERT 0 1")
			r.sidecar[0].Signal(syscall.SIGTERM)
		}, false},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			r := startLocks(t, 2, harness.Env{"DSQL_DRAIN_TIMEOUT": "1s"})
			r.pg.SQL(t, "postgres", "CREATE TABLE kept (who text PRIMARY KEY)")
			a, b := lockDial(t, r.sidecar[0].DSN("postgres")), lockDial(t, r.sidecar[1].DSN("postgres"))
			a.want("SELECT pg_advisory_lock(7)", "")
			a.want("INSERT INTO kept VALUES ('before')", "INSERT 0 1")
			b.want("SELECT pg_try_advisory_lock(7)", "f")
			way.end(r, a)
			began := time.Now()
			b.want("SELECT pg_advisory_lock(7)", "")
			if took := time.Since(began); way.soon && took > lockLease {
				t.Errorf("the lock was had %v behind the end", took)
			}
			b.want("INSERT INTO kept VALUES ('b')", "INSERT 0 1")
		})
	}
}

// A conflict about other rows has the transaction of a holder run again, with its fence.
func TestLockedReplays(t *testing.T) {
	t.Parallel()
	r := startLocks(t, 1, nil)
	r.pg.SQL(t, "postgres", "CREATE TABLE counters (id int PRIMARY KEY, n int); INSERT INTO counters VALUES (1, 0)")
	a, b := lockDial(t, r.sidecar[0].DSN("postgres")), lockDial(t, r.sidecar[0].DSN("postgres"))
	a.want("SELECT pg_advisory_lock(7)", "")
	for _, block := range []bool{true, false} {
		if block {
			a.want("BEGIN", "BEGIN")
			a.want("UPDATE counters SET n = n + 1 WHERE id = 1", "UPDATE 1")
			b.want("UPDATE counters SET n = n + 10 WHERE id = 1", "UPDATE 1")
			a.want("COMMIT", "COMMIT")
			continue
		}
		r.sim.Admin(t, http.MethodPost, "/faults", `[{"at": "commit", "action": "fail", "error": "conflict"}]`)
		a.want("UPDATE counters SET n = n + 100 WHERE id = 1", "UPDATE 1")
	}
	a.want("SELECT n FROM counters", "111")
	a.want("SELECT pg_advisory_unlock(7)", "t")
}

// Cancel, lock_timeout and statement_timeout end a wait; then others are not kept waiting.
func TestLockWaits(t *testing.T) {
	t.Parallel()
	_, a, b := startHeld(t)
	b.want("SET lock_timeout = '300ms'", "SET")
	b.want("SELECT pg_advisory_lock(7)", "55P03 canceling statement due to lock timeout")
	b.want("SET lock_timeout = 0; SET statement_timeout = '300ms'", "SET")
	b.want("SELECT pg_advisory_lock(7)", "57014 canceling statement due to statement timeout")
	b.want("SET statement_timeout = 0", "SET")
	go func() {
		time.Sleep(500 * time.Millisecond)
		b.c.CancelRequest(context.Background())
	}()
	b.want("SELECT pg_advisory_lock(7)", "57014 canceling statement due to user request")
	b.want("BEGIN", "BEGIN")
	b.want("SELECT pg_try_advisory_lock(7)", "f")
	b.want("SELECT 1", "1")
	b.want("SELECT pg_try_advisory_lock(8)", "0A000 an advisory lock cannot be taken within a transaction that has begun")
	b.want("ROLLBACK", "ROLLBACK")
	for _, sql := range []string{"SELECT pg_advisory_xact_lock(1)", "SELECT pg_advisory_lock_shared(1)", "SELECT pg_try_advisory_lock(1) AND true",
		"SELECT 1 FROM pg_advisory_lock(1)", "SELECT pg_advisory_lock(id) FROM (VALUES (1)) AS v (id)", "SELECT pg_try_advisory_lock(hashtext('x'))",
		"INSERT INTO kept SELECT 1 WHERE pg_try_advisory_lock(1)", "SELECT pg_advisory_unlock_shared(1)"} {
		b.want(sql, "0A000 advisory locks of this kind are not supported")
	}
	a.c.Close(context.Background())
	b.want("SELECT pg_advisory_lock(7)", "")
}

// Many clients of two sidecars, one of which is stopped or killed now and then: never do two
// believe that they have the lock and commit.
func TestLocksContended(t *testing.T) {
	t.Parallel()
	r := startLocks(t, 2, nil)
	r.pg.SQL(t, "postgres", "CREATE TABLE counter (n int); INSERT INTO counter VALUES (0)")
	for _, s := range r.sidecar { // the table is made
		lockDial(t, s.DSN("postgres")).ask("SELECT pg_try_advisory_lock(0)")
	}
	var holds, done atomic.Int64
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			c := lockDial(t, r.sidecar[i%2].DSN("postgres"))
			for range 8 {
				if got := c.ask("SELECT pg_advisory_lock(1, 2)"); got != "" {
					t.Errorf("lock: %s", got)
					return
				}
				if n := holds.Add(1); n != 1 {
					t.Errorf("%d have the lock", n)
				}
				n := c.ask("SELECT n FROM counter")
				if got := c.ask("UPDATE counter SET n = " + n + " + 1"); got != "UPDATE 1" {
					t.Errorf("update: %s", got)
				}
				done.Add(1)
				holds.Add(-1)
				if got := c.ask("SELECT pg_advisory_unlock(1, 2)"); got != "t" {
					t.Errorf("unlock: %s", got)
				}
			}
		})
	}
	wg.Wait()
	if got := r.pg.SQL(t, "postgres", "SELECT n FROM counter"); got != fmt.Sprint(done.Load()) {
		t.Errorf("counter %s, counted %d", got, done.Load())
	}
}

// A lock that is given up in a block that has written goes to others when the block has ended, and
// the block commits, as in PostgreSQL.
func TestLockGivenUpInBlock(t *testing.T) {
	t.Parallel()
	r := startLocks(t, 2, nil)
	r.pg.SQL(t, "postgres", "CREATE TABLE kept (who text PRIMARY KEY)")
	a, b := lockDial(t, r.sidecar[0].DSN("postgres")), lockDial(t, r.sidecar[1].DSN("postgres"))
	for i, end := range []string{"COMMIT", "COMMIT", "ROLLBACK"} {
		a.want("SELECT pg_advisory_lock(7)", "")
		a.want("BEGIN", "BEGIN")
		a.want(fmt.Sprintf("INSERT INTO kept VALUES ('a%d')", i), "INSERT 0 1")
		if i == 1 {
			a.want("SELECT pg_advisory_unlock_all()", "")
		} else {
			a.want("SELECT pg_advisory_unlock(7)", "t")
		}
		had := make(chan string, 1)
		go func() { had <- b.ask("SELECT pg_advisory_lock(7)") }()
		select {
		case got := <-had:
			t.Fatalf("another was told %q in front of the %s", got, end)
		case <-time.After(lockLease + lockLease/2): // longer than it takes to find the lock free
		}
		a.want(end, end)
		if got := <-had; got != "" {
			t.Errorf("another was told %q", got)
		}
		b.want(fmt.Sprintf("INSERT INTO kept VALUES ('b%d')", i), "INSERT 0 1")
		b.want("SELECT pg_advisory_unlock(7)", "t")
		a.want("SELECT 1", "1")
	}
	if got := r.pg.SQL(t, "postgres", "SELECT string_agg(who, ' ' ORDER BY who) FROM kept"); got != "a0 a1 b0 b1 b2" {
		t.Errorf("rows %q", got)
	}
	// Behind the end of the block another who only tries has it at once.
	a.want("SELECT pg_advisory_lock(7)", "")
	a.want("BEGIN", "BEGIN")
	a.want("INSERT INTO kept VALUES ('last')", "INSERT 0 1")
	a.want("SELECT pg_advisory_unlock(7)", "t")
	a.want("COMMIT", "COMMIT")
	b.want("SELECT pg_try_advisory_lock(7)", "t")
}

// Backends that are lost while somebody waits for a lock end no wait.
func TestLockWaitOutlivesBackends(t *testing.T) {
	t.Parallel()
	r, a, b := startHeld(t)
	had := make(chan string, 1)
	go func() { had <- b.ask("SELECT pg_advisory_lock(7)") }()
	for _, fault := range []string{`"at": "statement"`, `"at": "answered"`, `"at": "statement"`} {
		r.sim.Admin(t, http.MethodPost, "/faults", `[{`+fault+`, "contains": "SELECT lock, epoch", "action": "cut"}]`)
		for strings.Contains(r.sim.Admin(t, http.MethodGet, "/faults", ""), "epoch") {
			select {
			case got := <-had:
				t.Fatalf("the wait has ended: %q", got)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	a.want("SELECT pg_advisory_unlock(7)", "t")
	if got := <-had; got != "" {
		t.Errorf("the client was told %q", got)
	}
}

// A session may hold many locks: they are renewed, guard what it writes and defines, and are given up.
func TestManyLocks(t *testing.T) {
	t.Parallel()
	r := startLocks(t, 2, nil)
	r.pg.SQL(t, "postgres", "CREATE TABLE kept (who text PRIMARY KEY)")
	a, b := lockDial(t, r.sidecar[0].DSN("postgres")), lockDial(t, r.sidecar[1].DSN("postgres"))
	const many = 350
	for i := range many {
		a.want(fmt.Sprintf("SELECT pg_advisory_lock(%d)", i), "")
	}
	for end, n := time.Now().Add(2*lockLease), 0; time.Now().Before(end); n++ {
		a.want(fmt.Sprintf("INSERT INTO kept VALUES ('%d')", n), "INSERT 0 1")
		b.want(fmt.Sprintf("SELECT pg_try_advisory_lock(%d)", n*37%many), "f")
		time.Sleep(lockLease / 8)
	}
	a.want("CREATE TABLE made (a int)", "CREATE TABLE")
	// One of them is another's, wherever it stands among them.
	r.pg.SQL(t, "postgres", "UPDATE sluice.advisory_locks SET epoch = epoch + 1, owner = 'thief' WHERE lock LIKE '1/120@%'")
	if got := a.ask("INSERT INTO kept VALUES ('late')"); !strings.HasPrefix(got, lostLock) && !strings.HasPrefix(got, "08006 an advisory lock") {
		t.Errorf("the holder was told %q", got)
	}
	c := lockDial(t, r.sidecar[0].DSN("postgres"))
	for i := 1000; i < 1120; i++ {
		c.want(fmt.Sprintf("SELECT pg_advisory_lock(%d)", i), "")
	}
	c.want("SELECT pg_advisory_unlock_all()", "")
	b.want("SELECT pg_try_advisory_lock(1119)", "t")
	b.want("SELECT pg_try_advisory_lock(1000)", "t")
}

// Twelve clients of two sidecars take a lock in turns: no wait is much longer than their share.
func TestLockWaitsAreFair(t *testing.T) {
	t.Parallel()
	r := startLocks(t, 2, nil)
	for _, s := range r.sidecar { // the table is made
		lockDial(t, s.DSN("postgres")).ask("SELECT pg_try_advisory_lock(0)")
	}
	var longest atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(20 * time.Second)
	for i := range 12 {
		c := lockDial(t, r.sidecar[i%2].DSN("postgres"))
		wg.Go(func() {
			for time.Now().Before(end) {
				began := time.Now()
				if got := c.ask("SELECT pg_advisory_lock(3)"); got != "" {
					t.Errorf("lock: %s", got)
					return
				}
				for took := int64(time.Since(began)); ; {
					if was := longest.Load(); took <= was || longest.CompareAndSwap(was, took) {
						break
					}
				}
				time.Sleep(20 * time.Millisecond)
				if got := c.ask("SELECT pg_advisory_unlock(3)"); got != "t" {
					t.Errorf("unlock: %s", got)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("the longest wait was %v", time.Duration(longest.Load()))
	if took := time.Duration(longest.Load()); took > 15*time.Second {
		t.Errorf("a client has waited for %v", took)
	}
}

// Random programs of several sessions of two sidecars are answered as by PostgreSQL.
func TestLocksRandom(t *testing.T) {
	t.Parallel()
	r := startLocks(t, 2, nil)
	for seed := range uint64(6) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		var ours, theirs []*lockClient
		for i := range 3 {
			ours = append(ours, lockDial(t, r.sidecar[i%2].DSN("postgres")))
			theirs = append(theirs, lockDial(t, r.pg.DSN("reference")))
			for _, c := range []*lockClient{ours[i], theirs[i]} {
				c.want("SET lock_timeout = '40ms'", "SET")
			}
		}
		var log []string
		for range 40 {
			i, key := rnd.IntN(3), []string{"1", "2", "1, 1"}[rnd.IntN(3)]
			sql := []string{"SELECT pg_advisory_lock(" + key + ")", "SELECT pg_try_advisory_lock(" + key + ")", "SELECT pg_try_advisory_lock(" + key + ")",
				"SELECT pg_advisory_unlock(" + key + ")", "SELECT pg_advisory_unlock(" + key + ")", "SELECT pg_advisory_unlock(" + key + ")",
				"SELECT pg_advisory_unlock_all()", "DISCARD ALL"}[rnd.IntN(8)]
			if rnd.IntN(12) == 0 {
				sql = "BEGIN; SELECT 1/0"
			}
			got, want := ours[i].ask(sql), theirs[i].ask(sql)
			log = append(log, fmt.Sprintf("%d: %s -> %s", i, sql, want))
			if got != want {
				t.Fatalf("seed %d: got %q, want %q\n%s", seed, got, want, strings.Join(log, "\n"))
			}
			if sql == "DISCARD ALL" && want == "DISCARD ALL" {
				for _, c := range []*lockClient{ours[i], theirs[i]} {
					c.want("SET lock_timeout = '40ms'", "SET")
				}
			}
			if strings.HasPrefix(sql, "BEGIN") {
				for _, c := range []*lockClient{ours[i], theirs[i]} {
					c.want("ROLLBACK", "ROLLBACK")
				}
			}
		}
		for i := range ours {
			for _, c := range []*lockClient{ours[i], theirs[i]} { // PostgreSQL gives locks up a little after a client has gone
				c.want("SELECT pg_advisory_unlock_all()", "")
			}
			ours[i].c.Close(t.Context())
			theirs[i].c.Close(t.Context())
		}
	}
}

// Of clients of two sidecars, one sidecar is frozen for longer than the lease, now and then, while
// they add to a counter by reading and writing it in transactions: none is lost that was told.
func TestLocksWithFreezes(t *testing.T) {
	t.Parallel()
	r := startLocks(t, 2, harness.Env{"DSQL_RETRY_MAX_ELAPSED": "1s"})
	r.pg.SQL(t, "postgres", "CREATE TABLE counter (n int); INSERT INTO counter VALUES (0); CREATE TABLE told (n int PRIMARY KEY)")
	for _, s := range r.sidecar { // the table is made
		lockDial(t, s.DSN("postgres")).ask("SELECT pg_try_advisory_lock(0)")
	}
	end := time.Now().Add(12 * time.Second)
	var wg sync.WaitGroup
	var told, lost atomic.Int64
	for i := range 4 {
		wg.Go(func() {
			for time.Now().Before(end) {
				c := lockDial(t, r.sidecar[i%2].DSN("postgres"))
				if got := c.ask("SELECT pg_advisory_lock(3)"); got != "" {
					continue
				}
				for range 3 {
					if c.ask("BEGIN") != "BEGIN" {
						break
					}
					n := c.ask("SELECT n + 1 FROM counter")
					time.Sleep(30 * time.Millisecond)
					if strings.Contains(n, " ") || c.ask("UPDATE counter SET n = "+n) != "UPDATE 1" {
						break
					}
					if got := c.ask("COMMIT"); got == "COMMIT" {
						told.Add(1)
					} else {
						lost.Add(1)
					}
				}
				c.ask("SELECT pg_advisory_unlock(3)")
				c.c.Close(context.Background())
			}
		})
	}
	for time.Now().Before(end.Add(-4 * time.Second)) {
		time.Sleep(700 * time.Millisecond)
		r.sidecar[0].Freeze()
		time.Sleep(lockLease + lockLease/2)
		r.sidecar[0].Thaw()
	}
	wg.Wait()
	t.Logf("%d committed, %d not", told.Load(), lost.Load())
	// An answer that was not told may be of a transaction that committed.
	if n := r.pg.SQL(t, "postgres", "SELECT n FROM counter"); told.Load() == 0 || n < fmt.Sprint(told.Load()) && len(n) <= len(fmt.Sprint(told.Load())) {
		t.Errorf("counter %s, told %d", n, told.Load())
	}
}

// Under a lock a session is answered as without one, by both protocols: blocks, savepoints that are
// emulated, errors, keys that are generated, bytea keys, DDL and constraints that are carried out.
func TestLockedAsUnlocked(t *testing.T) {
	t.Parallel()
	r := startLocks(t, 1, harness.Env{"DSQL_DDL_CARRY_OUT": "all"})
	for _, extended := range []bool{false, true} {
		for i, script := range [][]string{
			{"CREATE TABLE s (id serial PRIMARY KEY, n int)", "BEGIN", "INSERT INTO s (n) VALUES (1) RETURNING id", "SAVEPOINT a", "INSERT INTO s (n) VALUES (2) RETURNING n",
				"ROLLBACK TO a", "INSERT INTO s (n) VALUES (3) RETURNING n", "RELEASE a", "COMMIT", "SELECT n FROM s ORDER BY n"},
			{"CREATE TABLE v (id int PRIMARY KEY, n int)", "INSERT INTO v VALUES (1, 1), (2, 2)", "BEGIN", "UPDATE v SET n = 5 WHERE id = 1", "SAVEPOINT a", "SELECT 1/0", "ROLLBACK TO a",
				"UPDATE v SET n = n + 1", "SELECT id, n FROM v ORDER BY id FOR UPDATE", "COMMIT", "SELECT id, n FROM v ORDER BY id"},
			{"CREATE TABLE b (k bytea PRIMARY KEY, n int)", `INSERT INTO b VALUES ('\x0102', 1)`, `UPDATE b SET n = 2 WHERE k = '\x0102'`, `SELECT k, n FROM b`,
				"BEGIN", `DELETE FROM b WHERE k = '\x0102'`, "ROLLBACK", "SELECT count(*) FROM b"},
			{"CREATE TABLE w (id int PRIMARY KEY, n int)", "INSERT INTO w VALUES (1, 1)", "ALTER TABLE w ADD CONSTRAINT w_n UNIQUE (n)", "INSERT INTO w VALUES (2, 1)",
				"ALTER TABLE w ADD COLUMN d int DEFAULT 7", "SELECT d FROM w", "CREATE INDEX w_i ON w (n)", "DROP TABLE w"},
			{"CREATE TABLE x (id int PRIMARY KEY)", "BEGIN", "INSERT INTO x VALUES (1)", "CREATE TABLE y (id int PRIMARY KEY)", "INSERT INTO y VALUES (2)", "COMMIT", "SELECT count(*) FROM x", "SELECT count(*) FROM y"},
			{"CREATE TABLE z (id int PRIMARY KEY)", "INSERT INTO z SELECT g FROM generate_series(1, 2900) g", "DELETE FROM z WHERE id > 2000", "BEGIN", "INSERT INTO z VALUES (1)", "SELECT 1", "ROLLBACK", "TABLE nosuch", "SELECT count(*) FROM z"},
			{"CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS $$ SELECT 7::bigint $$", "CREATE TABLE r (id int PRIMARY KEY)", "BEGIN READ ONLY", "SELECT f()", "SELECT count(*) FROM r", "INSERT INTO r VALUES (1)",
				"ROLLBACK", "BEGIN READ ONLY", "SELECT id FROM r FOR UPDATE", "ROLLBACK", "BEGIN", "SET TRANSACTION READ ONLY", "SELECT f()", "COMMIT",
				"SET default_transaction_read_only = on", "BEGIN", "SELECT f()", "COMMIT", "SET default_transaction_read_only = off", "BEGIN", "SELECT f()", "INSERT INTO r VALUES (2)", "COMMIT", "TABLE r", "DROP FUNCTION f()"},
		} {
			locked, free := lockDial(t, r.sidecar[0].DSN("postgres")), lockDial(t, r.pg.DSN("reference"))
			locked.want("SELECT pg_advisory_lock(1)", "")
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			for _, sql := range script {
				got, want := answers(ctx, locked.c, sql, extended), answers(ctx, free.c, sql, extended)
				if strings.Join(got, "|") != strings.Join(want, "|") {
					t.Errorf("script %d, extended %v, %s: got %q, want %q", i, extended, sql, got, want)
				}
			}
			locked.want("SELECT pg_advisory_unlock(1)", "t")
			locked.c.Close(ctx)
			free.c.Close(ctx)
			cancel()
		}
		for _, drop := range []string{"s", "v", "b", "x", "y", "z", "r"} {
			lockDial(t, r.sidecar[0].DSN("postgres")).ask("DROP TABLE " + drop)
			r.pg.SQL(t, "reference", "DROP TABLE "+drop)
		}
	}
}

// Lost answers to Sluice's own statements about a lock change nothing: a lock that was taken is
// had, one that was renewed is kept, and what a client is told of it is true.
func TestLockAnswersLost(t *testing.T) {
	t.Parallel()
	r := startLocks(t, 2, nil)
	r.pg.SQL(t, "postgres", "CREATE TABLE kept (n int PRIMARY KEY)")
	a, b := lockDial(t, r.sidecar[0].DSN("postgres")), lockDial(t, r.sidecar[1].DSN("postgres"))
	a.want("SELECT pg_advisory_lock(0)", "") // the table is made
	for i, fault := range []string{
		`{"at": "answered", "contains": "INSERT INTO sluice.advisory_locks", "action": "cut"}`,
		`{"at": "statement", "contains": "INSERT INTO sluice.advisory_locks", "action": "cut"}`,
		`{"at": "statement", "contains": "SELECT lock, epoch", "action": "fail", "error": "conflict"}`,
		`{"at": "statement", "contains": "INSERT INTO sluice.advisory_locks", "action": "fail", "error": "conflict"}`,
		`{"at": "statement", "contains": "INSERT INTO sluice.advisory_locks", "action": "fail", "error": "schema"}`,
	} {
		r.sim.Admin(t, http.MethodPost, "/faults", "["+fault+"]")
		key := i + 1
		switch got := a.ask(fmt.Sprintf("SELECT pg_advisory_lock(%d)", key)); {
		case got == "":
			b.want(fmt.Sprintf("SELECT pg_try_advisory_lock(%d)", key), "f")
			a.want(fmt.Sprintf("INSERT INTO kept VALUES (%d)", key), "INSERT 0 1")
			a.want(fmt.Sprintf("SELECT pg_advisory_unlock(%d)", key), "t")
		case !strings.HasPrefix(got, "53300"): // refused, and not had
			t.Errorf("%s: %s", fault, got)
		}
		r.sim.Admin(t, http.MethodDelete, "/faults", "")
		b.want(fmt.Sprintf("SELECT pg_advisory_lock(%d)", key), "")
		b.want("SELECT pg_advisory_unlock_all()", "")
	}
	// No look is answered: the client is told so, and its session goes on.
	r.sim.Admin(t, http.MethodPost, "/faults", `[{"at": "statement", "contains": "SELECT lock, epoch", "action": "cut", "count": -1}]`)
	if got := a.ask("SELECT pg_advisory_lock(98)"); !strings.HasPrefix(got, "53300") {
		t.Errorf("a lock whose row cannot be read: %s", got)
	}
	r.sim.Admin(t, http.MethodDelete, "/faults", "")
	// Renewals: cut behind and in front of what they do, for two leases.
	a.want("SELECT pg_advisory_lock(99)", "")
	end := time.Now().Add(2 * lockLease)
	for i := 0; time.Now().Before(end); i++ {
		r.sim.Admin(t, http.MethodPost, "/faults", fmt.Sprintf(`[{"at": "%s", "contains": "SET seq = seq + 1", "action": "cut"}]`, []string{"answered", "statement"}[i%2]))
		time.Sleep(lockLease / 4)
	}
	b.want("SELECT pg_try_advisory_lock(99)", "f")
	a.want("INSERT INTO kept VALUES (99)", "INSERT 0 1")
	// The promise for DDL has no answer: the statement is not sent, and the session goes on.
	r.sim.Admin(t, http.MethodDelete, "/faults", "")
	r.sim.Admin(t, http.MethodPost, "/faults", `[{"at": "statement", "contains": "SET seq = seq + 1", "action": "cut", "count": -1}]`)
	if got := a.ask("CREATE TABLE made (a int)"); !strings.HasPrefix(got, "53300") {
		t.Errorf("CREATE TABLE without a promise: %s", got)
	}
	r.sim.Admin(t, http.MethodDelete, "/faults", "")
	a.want("CREATE TABLE made (a int)", "CREATE TABLE")
	a.want("SELECT pg_advisory_unlock(99)", "t")
}

// A table of locks that cannot be used is told with the server's error, for each way to take a lock,
// and the session goes on.
func TestLockTableUnusable(t *testing.T) {
	t.Parallel()
	r := startLocks(t, 1, nil)
	r.pg.SQL(t, "postgres", "CREATE SCHEMA sluice; CREATE TABLE sluice.advisory_locks (somebody int)")
	c := lockDial(t, r.sidecar[0].DSN("postgres"))
	for _, sql := range []string{"SELECT pg_advisory_lock(1)", "SELECT pg_try_advisory_lock(1)"} {
		if got := c.ask(sql); !strings.HasPrefix(got, "42703 the table of advisory locks cannot be used") {
			t.Errorf("%s: %s", sql, got)
		}
		c.want("SELECT 1", "1")
	}
}
