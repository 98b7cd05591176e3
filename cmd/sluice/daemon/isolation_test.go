package daemon

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// A client in front of PostgreSQL that asks for an isolation level gets it, whatever
// is rewritten: no increment that was acknowledged is lost.
func TestNoLostUpdateInFrontOfPostgreSQL(t *testing.T) {
	pg := pgtest.Start(t)
	pg.SQL(t, "postgres", "CREATE TABLE counters (id int PRIMARY KEY, n int NOT NULL)")
	r := start(t, "--endpoint="+pg.Host, "--backend-port="+portOf(pg), "--backend-user=postgres", "--backend-sslmode=disable",
		"--rewrite-enabled=true", "--retry-enabled=true", "--reservoir-max-open=6")
	defer func() {
		r.stop <- syscall.SIGTERM
		if err := r.end(); err != nil {
			t.Error(err)
		}
	}()
	const clients, rounds = 4, 25
	for id, how := range []struct {
		name     string
		options  string   // of the startup
		once, in []string // statements: of the session, and behind BEGIN
		begin    string
		ext      bool
	}{
		{name: "SET TRANSACTION", begin: "BEGIN", in: []string{"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"}},
		{name: "extended", begin: "BEGIN", in: []string{"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"}, ext: true},
		{name: "transaction_isolation", begin: "BEGIN", in: []string{"SET transaction_isolation = 'repeatable read'"}},
		{name: "SET LOCAL", begin: "BEGIN", in: []string{"SET LOCAL transaction_isolation TO 'serializable'"}},
		{name: "default_transaction_isolation", begin: "BEGIN", once: []string{"SET default_transaction_isolation = 'repeatable read'"}},
		{name: "SESSION CHARACTERISTICS", begin: "BEGIN", once: []string{"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ"}},
		{name: "BEGIN", begin: "BEGIN ISOLATION LEVEL REPEATABLE READ"},
		{name: "START TRANSACTION", begin: "START TRANSACTION ISOLATION LEVEL SERIALIZABLE", ext: true},
		{name: "one string", begin: "BEGIN; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"},
		{name: "startup", begin: "BEGIN", options: "-c default_transaction_isolation=serializable"},
	} {
		t.Run(how.name, func(t *testing.T) {
			if _, err := pgxConnect(t, pg.Address(), "").Exec(t.Context(), "INSERT INTO counters VALUES ($1, 0)", id); err != nil {
				t.Fatal(err)
			}
			var told atomic.Int64
			var all sync.WaitGroup
			for range clients {
				conn := pgxConnect(t, r.client, how.options)
				run := func(sql string) error {
					if how.ext {
						_, err := conn.Exec(context.Background(), sql, pgx.QueryExecModeExec)
						return err
					}
					_, err := conn.PgConn().Exec(context.Background(), sql).ReadAll()
					return err
				}
				for _, sql := range how.once {
					if err := run(sql); err != nil {
						t.Fatal(err)
					}
				}
				all.Go(func() {
					for range rounds {
						err := increment(conn, id, append([]string{how.begin}, how.in...), run)
						var refused *pgconn.PgError
						switch {
						case err == nil:
							told.Add(1)
						case !errors.As(err, &refused) || refused.Code != "40001":
							t.Error(err)
							return
						default:
							run("ROLLBACK")
						}
					}
				})
			}
			all.Wait()
			var n int64
			if err := pgxConnect(t, pg.Address(), "").QueryRow(t.Context(), "SELECT n FROM counters WHERE id = $1", id).Scan(&n); err != nil {
				t.Fatal(err)
			}
			if n != told.Load() {
				t.Errorf("%d increments were acknowledged, the counter says %d", told.Load(), n)
			}
		})
	}
}

// increment reads a counter and writes what comes next, in a transaction of its own.
func increment(conn *pgx.Conn, id int, begin []string, run func(string) error) error {
	for _, sql := range begin {
		if err := run(sql); err != nil {
			return err
		}
	}
	ctx := context.Background()
	var n int
	if err := conn.QueryRow(ctx, "SELECT n FROM counters WHERE id = $1", id).Scan(&n); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "UPDATE counters SET n = $2 WHERE id = $1", id, n+1); err != nil {
		return err
	}
	return run("COMMIT")
}

func portOf(pg *pgtest.Server) string { return strconv.Itoa(pg.Port) }

func pgxConnect(t *testing.T, addr, options string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig("postgres://postgres@" + addr + "/postgres?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	if options != "" {
		config.RuntimeParams["options"] = options
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}
