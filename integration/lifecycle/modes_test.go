package lifecycle

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// An application in another container of the pod gets its SIGTERM with Sluice's, and goes on
// for a while: with what it has open, and with new connections. In mode plain none of its
// transactions fails; in mode stop some do, or the test would notice nothing.
func TestDrainBesideAnApplication(t *testing.T) {
	pg := pgtest.Shared(t)
	bin := harness.Binaries(t)
	for _, mode := range []string{"plain", "stop"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			table := "beside_" + mode
			pg.SQL(t, "postgres", "CREATE TABLE "+table+" (n int PRIMARY KEY)")
			s := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: harness.PostgresEnv(pg).With(harness.Env{"DSQL_DRAIN_MODE": mode, "DSQL_DRAIN_QUIET": "5s", "DSQL_DRAIN_TIMEOUT": "1m"})})
			told, failed := application{dsn: s.DSN("postgres"), table: table}.ends(t, func() { s.Signal(syscall.SIGTERM) })
			if code := s.ExitCode(); code != 0 {
				t.Errorf("exit code %d after a drain\n%s", code, s.Tail())
			}
			if got := strings.TrimSpace(pg.SQL(t, "postgres", "SELECT count(*) FROM "+table)); got != fmt.Sprint(told) {
				t.Errorf("the table has %s rows, and the application was told of %d", got, told)
			}
			t.Logf("%d transactions committed, %d failed", told, len(failed))
			if mode == "plain" && (len(failed) > 0 || told == 0) {
				t.Errorf("failed: %v", failed)
			}
			if mode == "stop" && len(failed) == 0 {
				t.Error("nothing failed while Sluice refused clients: the test notices nothing")
			}
		})
	}
}

// application does transactions, each by a connection that it has kept or by a new one.
type application struct{ dsn, table string }

// ends runs the application until some time behind a signal to both, and returns how many
// transactions it was told of, and the errors that it met.
func (a application) ends(t *testing.T, signal func()) (told int, failed []error) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	kept, err := pgx.Connect(ctx, a.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close(context.Background())
	for n := range 60 {
		if n == 20 {
			signal()
		}
		conn := kept
		if n%3 == 0 {
			if conn, err = pgx.Connect(ctx, a.dsn); err != nil {
				failed = append(failed, err)
				continue
			}
		}
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO "+a.table+" VALUES ($1)", n); err != nil {
				return err
			}
			time.Sleep(20 * time.Millisecond) // it is open across the signal
			return nil
		})
		if err != nil {
			failed = append(failed, err)
		} else {
			told++
		}
		if conn != kept {
			conn.Close(context.Background())
		}
	}
	return told, failed
}

// A sidecar of Kubernetes is told to end when its grace is used up or nobody is left: it ends
// in the time that the kubelet leaves it, and the transactions that are open end at the server.
func TestNativeDrainLeavesNothingOpen(t *testing.T) {
	pg := pgtest.Shared(t)
	// Without TLS a request to stop is the server's once it is written, however slow the machine.
	s := harness.StartSluice(t, harness.SluiceConfig{Env: harness.PostgresEnv(pg).With(harness.Env{"DSQL_BACKEND_SSLMODE": "disable", "DSQL_DRAIN_MODE": "native", "DSQL_DRAIN_TIMEOUT": "1h"})})
	pg.SQL(t, "postgres", "CREATE TABLE native (n int PRIMARY KEY)")
	var busy []*pgconn.PgConn
	for n, sql := range []string{"BEGIN; INSERT INTO native VALUES (0)", "BEGIN; INSERT INTO native VALUES (1)", "SELECT 1"} {
		conn, err := pgconn.Connect(t.Context(), s.DSN("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(t.Context(), sql).ReadAll(); err != nil {
			t.Fatal(err)
		}
		if n == 1 { // and one that the server is at work for
			go conn.Exec(context.Background(), "INSERT INTO native SELECT 2 FROM pg_sleep(3600)").ReadAll()
		}
		busy = append(busy, conn)
	}
	const open = "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND xact_start IS NOT NULL AND query LIKE '%native%'"
	await := func(want string) {
		t.Helper()
		for limit := time.Now().Add(20 * time.Second); strings.TrimSpace(pg.SQL(t, "postgres", open)) != want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("%s transactions are open, want %s", pg.SQL(t, "postgres", open), want)
			}
		}
	}
	await("2")
	began := time.Now()
	s.Signal(syscall.SIGTERM)
	if code := s.ExitCode(); code != 0 {
		t.Errorf("exit code %d after a drain\n%s", code, s.Tail())
	}
	t.Logf("ended after %v", time.Since(began).Round(time.Millisecond))
	await("0")
	if rows := strings.TrimSpace(pg.SQL(t, "postgres", "SELECT count(*) FROM native")); rows != "0" {
		t.Errorf("%s rows of transactions that nobody committed", rows)
	}
	for _, conn := range busy {
		if _, err := conn.Exec(t.Context(), "COMMIT").ReadAll(); err == nil {
			t.Error("a session outlived the daemon")
		}
	}
}
