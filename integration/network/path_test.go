package network

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// world is a daemon in front of the stand-in for DSQL, with a wall between the two.
type world struct {
	*testing.T
	sim    *harness.DSQLSim
	sluice *harness.Sluice
	wall   *wall
}

// deadAfter is the path's limit in these tests; a look comes once a second.
const deadAfter = 2 * time.Second

func start(t *testing.T, env harness.Env) *world {
	t.Helper()
	bin, dir := harness.Binaries(t), t.TempDir()
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Dir: dir, Upstream: pgtest.Start(t)})
	w := &world{T: t, sim: sim, wall: newWall(t, sim.Port)}
	w.sluice = harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Dir: dir, Env: sim.Env().With(harness.Env{
		"DSQL_BACKEND_TCP_USER_TIMEOUT": deadAfter.String(), "DSQL_BACKEND_TCP_KEEPALIVE": deadAfter.String(),
		"DSQL_RESERVOIR_DIAL_TIMEOUT": "2s", "DSQL_RESERVOIR_CHECKOUT_WAIT": "3s", "DSQL_RESERVOIR_MAX_OPEN": "12",
	}).With(env)})
	return w
}

func (w *world) client() *pgx.Conn {
	w.Helper()
	conn, err := pgx.Connect(w.Context(), w.sluice.DSN("postgres")+"&default_query_exec_mode=simple_protocol")
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func (w *world) must(conn *pgx.Conn, sql string) {
	w.Helper()
	if _, err := conn.Exec(w.Context(), sql); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
}

// told is what a client was told, and how long that took.
type told struct {
	code string // "" for success
	took time.Duration
}

// ask runs a statement beside others.
func (w *world) ask(conn *pgx.Conn, sql string) <-chan told {
	answer := make(chan told, 1)
	go func() {
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		began := time.Now()
		_, err := conn.Exec(ctx, sql)
		var refusal *pgconn.PgError
		switch {
		case errors.As(err, &refusal):
			answer <- told{refusal.Code, time.Since(began)}
		case err != nil:
			answer <- told{err.Error(), time.Since(began)}
		default:
			answer <- told{"", time.Since(began)}
		}
	}()
	return answer
}

// Existing connections to the server are swallowed, new ones work. A read is answered on
// another backend, a transaction is run again, and a commit is of unknown outcome, each
// soon.
func TestPathOfExistingConnectionsDies(t *testing.T) {
	w := start(t, nil)
	w.must(w.client(), "CREATE TABLE t (id int PRIMARY KEY, n int)")
	read, running, block, committing, write := w.client(), w.client(), w.client(), w.client(), w.client()
	for i, c := range []*pgx.Conn{block, committing} {
		w.must(c, "BEGIN")
		w.must(c, fmt.Sprintf("INSERT INTO t VALUES (%d, 0)", i))
	}
	sleeping := w.ask(running, "SELECT pg_sleep(3)")
	time.Sleep(500 * time.Millisecond)
	w.wall.swallow()
	answers := map[string]<-chan told{
		"a read that runs":       sleeping,
		"a read":                 w.ask(read, "SELECT 1"),
		"a statement of a block": w.ask(block, "INSERT INTO t VALUES (100, 0)"),
		"a COMMIT":               w.ask(committing, "COMMIT"),
		"a write":                w.ask(write, "INSERT INTO t VALUES (200, 0)"),
	}
	want := map[string]string{"a COMMIT": "08007", "a write": "08007"}
	for name, answer := range answers {
		got := <-answer
		t.Logf("%s: %q after %v", name, got.code, got.took.Round(time.Millisecond))
		if got.code != want[name] || got.took > 15*time.Second {
			t.Errorf("%s: %q after %v, want %q", name, got.code, got.took, want[name])
		}
	}
	w.must(block, "COMMIT")
}
