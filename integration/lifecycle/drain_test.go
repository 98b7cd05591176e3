// Package lifecycle tests the built daemon's start and end under load, and what memory it
// takes under attack.
package lifecycle

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m, pgtest.TLS())) }

// A rolling restart: while clients run transactions, a daemon is told to end
// and another takes over. A client that connects anew on 57P01 loses nothing,
// sees no other error, and nothing is applied twice.
func TestRollingRestart(t *testing.T) {
	pg := pgtest.Shared(t)
	pg.SQL(t, "postgres", "CREATE TABLE rolled (worker int PRIMARY KEY, n int NOT NULL); INSERT INTO rolled SELECT g, 0 FROM generate_series(0, 15) g")
	bin := harness.Binaries(t)
	start := func() *harness.Sluice {
		return harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: harness.PostgresEnv(pg)})
	}
	var current atomic.Pointer[harness.Sluice]
	current.Store(start())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stop := make(chan struct{})
	var workers sync.WaitGroup
	var committed [16]atomic.Int64
	var redirected atomic.Int64
	for w := range committed {
		workers.Go(func() {
			var conn *pgx.Conn
			for {
				select {
				case <-stop:
					if conn != nil {
						conn.Close(context.Background())
					}
					return
				default:
				}
				err := error(nil)
				if conn == nil {
					conn, err = pgx.Connect(ctx, current.Load().DSN("postgres"))
				}
				if err == nil {
					err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
						var n int
						if err := tx.QueryRow(ctx, "SELECT n FROM rolled WHERE worker = $1 FOR UPDATE", w).Scan(&n); err != nil {
							return err
						}
						_, err := tx.Exec(ctx, "UPDATE rolled SET n = $2 WHERE worker = $1", w, n+1)
						return err
					})
				}
				var refusal *pgconn.PgError
				switch {
				case err == nil:
					committed[w].Add(1)
				case errors.As(err, &refusal) && refusal.Code == "57P01", errors.Is(err, syscall.ECONNREFUSED):
					redirected.Add(1)
					if conn != nil {
						conn.Close(context.Background())
						conn = nil
					}
				default:
					t.Errorf("worker %d: %v", w, err)
					return
				}
			}
		})
	}
	for range 3 {
		time.Sleep(500 * time.Millisecond)
		old := current.Load()
		current.Store(start())
		old.Signal(syscall.SIGTERM)
		if code := old.ExitCode(); code != 0 {
			t.Errorf("exit code %d after a drain\n%s", code, old.Tail())
		}
	}
	time.Sleep(200 * time.Millisecond)
	close(stop)
	workers.Wait()
	var sum int64
	for w := range committed {
		sum += committed[w].Load()
	}
	got := pg.SQL(t, "postgres", "SELECT sum(n) FROM rolled")
	if want := strings.TrimSpace(got); want != strconv.FormatInt(sum, 10) {
		t.Errorf("the table counts %s transactions, clients were told of %d", got, sum)
	}
	if redirected.Load() < 3 || sum == 0 {
		t.Errorf("%d transactions, %d times sent away: nothing was tested", sum, redirected.Load())
	}
	t.Logf("%d transactions, clients sent away %d times", sum, redirected.Load())
}

// A second signal cuts what the first one would wait for.
func TestSecondSignalCuts(t *testing.T) {
	pg := pgtest.Shared(t)
	s := harness.StartSluice(t, harness.SluiceConfig{Env: harness.PostgresEnv(pg)})
	conn, err := pgconn.Connect(t.Context(), s.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "BEGIN; SELECT 1").ReadAll(); err != nil {
		t.Fatal(err)
	}
	s.Signal(syscall.SIGTERM)
	select {
	case <-s.Exited():
		t.Fatal("the transaction in flight was not waited for")
	case <-time.After(500 * time.Millisecond):
	}
	s.Signal(syscall.SIGTERM)
	select {
	case <-s.Exited():
	case <-time.After(10 * time.Second):
		t.Fatal("still there after a second signal")
	}
	_, err = conn.Exec(context.Background(), "SELECT 1").ReadAll()
	var refusal *pgconn.PgError
	if !errors.As(err, &refusal) || refusal.Code != "57P01" {
		t.Errorf("the client was told %v", err)
	}
	conn.Close(context.Background())
}
