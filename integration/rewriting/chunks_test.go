package rewriting

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// fill makes rows that a clean-up of queues is to delete, and rows that stay.
const fill = `
	DROP TABLE IF EXISTS parts, transfer_tasks, keyless;
	CREATE TABLE transfer_tasks (shard_id int NOT NULL, task_id bigint NOT NULL, data text, PRIMARY KEY (shard_id, task_id));
	CREATE TABLE keyless (task_id bigint);
	INSERT INTO transfer_tasks SELECT s, i, 'x' FROM generate_series(1, 2) s, generate_series(1, 7600) i;
	INSERT INTO keyless SELECT i FROM generate_series(1, 3001) i`

// remover deletes and tells how many rows it is told are gone.
type remover struct {
	name string
	run  func(ctx context.Context, dsn, sql string, args ...any) (int64, error)
}

var removers = []remover{
	{"pgx simple", pgxRemoves(pgx.QueryExecModeSimpleProtocol)},
	{"pgx exec", pgxRemoves(pgx.QueryExecModeExec)},
	{"pgx prepared", pgxRemoves(pgx.QueryExecModeCacheStatement)},
	{"lib/pq", pqRemoves},
}

func pgxRemoves(mode pgx.QueryExecMode) func(context.Context, string, string, ...any) (int64, error) {
	return func(ctx context.Context, dsn, sql string, args ...any) (int64, error) {
		config, err := pgx.ParseConfig(dsn)
		if err != nil {
			return 0, err
		}
		config.DefaultQueryExecMode = mode
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return 0, err
		}
		defer conn.Close(ctx)
		tag, err := conn.Exec(ctx, sql, args...)
		return tag.RowsAffected(), err
	}
}

func pqRemoves(ctx context.Context, dsn, text string, args ...any) (int64, error) {
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	result, err := db.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// hintOf is the hint of a driver's error.
func hintOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Hint
	}
	if e, ok := errors.AsType[*pq.Error](err); ok {
		return e.Hint
	}
	return ""
}

// A DELETE of more rows than a transaction may change is carried out, by every driver, and
// what stays is exactly what does not match. Tables without a key, blocks and tables that are
// not listed get the cluster's error, with a hint.
func TestDeletesOfTooManyRows(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg := pgtest.Start(t, pgtest.MaxConnections(200))
	bin := harness.Binaries(t)
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg})
	start := func(tables string) string {
		return harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env().With(harness.Env{
			"DSQL_RESERVOIR_MAX_OPEN": "5", "DSQL_REWRITE_CHUNKED_DELETE": tables})}).DSN("postgres")
	}
	listed, bare := start("transfer_*,keyless,public.parts"), start("")
	const text = "DELETE FROM transfer_tasks WHERE shard_id = $1 AND task_id >= $2 AND task_id < $3"
	for _, r := range removers {
		t.Run(r.name, func(t *testing.T) {
			pg.SQL(t, "postgres", fill)
			refused := func(what, dsn, hint, sql string, args ...any) {
				t.Helper()
				if _, err := r.run(ctx, dsn, sql, args...); code(err) != "54000" || !strings.Contains(hintOf(err), hint) {
					t.Errorf("%s: %v (%s)", what, err, hintOf(err))
				}
			}
			refused("not listed", bare, "rewrite.chunked_delete", text, 1, 100, 7300)
			refused("no key", listed, "no primary key", "DELETE FROM keyless WHERE task_id > 0")
			if n, err := r.run(ctx, listed, text, 1, 100, 7300); err != nil || n != 7200 {
				t.Fatalf("%d rows: %v", n, err)
			}
			got := pg.SQL(t, "postgres", "SELECT count(*), count(*) FILTER (WHERE shard_id = 1 AND task_id >= 100 AND task_id < 7300) FROM transfer_tasks")
			if got = strings.NewReplacer("\t", " ", "|", " ", ",", " ").Replace(got); got != "8000 0" {
				t.Errorf("what stays, and of that what matches: %s", got)
			}
		})
	}
	pg.SQL(t, "postgres", fill)
	conn, err := pgx.Connect(ctx, listed)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, text, 1, 1, 7000); code(err) != "54000" || !strings.Contains(hintOf(err), "alone") {
		t.Errorf("in a block: %v (%s)", err, hintOf(err))
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Error(err)
	}
	pg.SQL(t, "postgres", `CREATE TABLE parts (shard_id int, task_id bigint, n int, PRIMARY KEY (shard_id, task_id, n),
		FOREIGN KEY (shard_id, task_id) REFERENCES transfer_tasks ON DELETE CASCADE);
		INSERT INTO parts SELECT 1, i, n FROM generate_series(1, 4000) i, generate_series(1, 2) n`)
	if tag, err := conn.Exec(ctx, text, 1, 0, 9000); err != nil || tag.RowsAffected() != 7600 {
		t.Errorf("with a cascade: %s, %v", tag, err)
	}
	if n := pg.SQL(t, "postgres", "SELECT count(*) FROM parts"); n != "0" {
		t.Errorf("%s rows of the other table are left", n)
	}
}
