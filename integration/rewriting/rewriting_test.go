// Package rewriting tests what becomes of statements that DSQL refuses, from a
// driver through the built daemon to the stand-in.
package rewriting

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/dsql/auth"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// limit bounds one test.
const limit = 3 * time.Minute

const tables = `
	CREATE TABLE shards (shard_id int PRIMARY KEY, range_id bigint NOT NULL, data text);
	CREATE TABLE tasks (task_id int PRIMARY KEY, shard_id int NOT NULL);
	INSERT INTO shards VALUES (1, 10, 'FOR SHARE'), (2, 20, NULL);
	INSERT INTO tasks VALUES (1, 1), (2, 1), (3, 2)`

// standIn starts the stand-in over a database with the tables, and Sluice.
func standIn(t *testing.T, env harness.Env, args ...string) (*harness.DSQLSim, *harness.Sluice) {
	t.Helper()
	pg := pgtest.Start(t, pgtest.MaxConnections(200))
	pg.SQL(t, "postgres", tables)
	bin := harness.Binaries(t)
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg, Args: args})
	return sim, harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env().With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "20"}).With(env)})
}

// direct is how to connect to the stand-in without Sluice.
func direct(t *testing.T, sim *harness.DSQLSim) string {
	t.Helper()
	env := sim.Env()
	token, err := auth.GenerateDBConnectAdminAuthToken(t.Context(), sim.Endpoint, env["AWS_REGION"],
		credentials.NewStaticCredentialsProvider(env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"], ""))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("host=%s port=%d user=admin dbname=postgres sslmode=verify-full sslrootcert=%s password='%s'",
		sim.Endpoint, sim.Port, sim.CAFile, token)
}

// loopback is where the made-up endpoint is; lib/pq cannot be told.
func loopback(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil }

// statements are refused by DSQL, with that code, and run through Sluice. %s is
// a name of its own for each run.
var statements = []struct {
	name, sql string
	args      []any
	code      string
}{
	{"share", "SELECT range_id FROM shards WHERE shard_id = $1 FOR SHARE", []any{1}, "0A000"},
	{"no key update", "select range_id, data from shards where shard_id = $1 for no key update -- FOR SHARE", []any{1}, "0A000"},
	{"share of", "SELECT s.range_id, t.task_id FROM shards s JOIN tasks t USING (shard_id) WHERE t.task_id > $1 ORDER BY 2 FOR SHARE OF s", []any{1}, "0A000"},
	{"nested", "WITH w AS (SELECT * FROM shards WHERE shard_id = $1 FOR SHARE) SELECT w.range_id FROM w", []any{2}, "0A000"},
	{"nowait", "SELECT data FROM shards WHERE shard_id = $1 FOR SHARE NOWAIT", []any{1}, "0A000"},
	{"skip locked", "SELECT task_id FROM tasks WHERE shard_id = $1 ORDER BY 1 FOR SHARE SKIP LOCKED", []any{1}, "0A000"},
	{"serial", "CREATE TABLE %s (id bigserial PRIMARY KEY, v int)", nil, "42704"},
	{"index", "CREATE INDEX %s ON tasks USING btree (shard_id ASC)", nil, "0A000"},
	{"unique index", "CREATE UNIQUE INDEX %s ON tasks (shard_id, task_id)", nil, "0A000"},
	{"concurrently", "CREATE INDEX CONCURRENTLY IF NOT EXISTS %s ON tasks (shard_id)", nil, "0A000"},
	{"discard", "DISCARD PLANS", nil, "0A000"},
	{"characteristics", "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED", nil, "0A000"},
}

// client runs one statement and shows its rows and tag, in one way of one driver.
type client struct {
	name string
	run  func(ctx context.Context, dsn, sql string, args []any) (string, error)
}

var clients = []client{
	{"pgx simple", pgxWay(pgx.QueryExecModeSimpleProtocol)},
	{"pgx exec", pgxWay(pgx.QueryExecModeExec)},
	{"pgx describe", pgxWay(pgx.QueryExecModeDescribeExec)},
	{"pgx prepared", pgxWay(pgx.QueryExecModeCacheStatement)},
	{"lib/pq", pqWay(false)},
	{"lib/pq prepared", pqWay(true)},
}

func pgxWay(mode pgx.QueryExecMode) func(context.Context, string, string, []any) (string, error) {
	return func(ctx context.Context, dsn, sql string, args []any) (string, error) {
		config, err := pgx.ParseConfig(dsn)
		if err != nil {
			return "", err
		}
		config.DefaultQueryExecMode = mode
		config.LookupFunc = loopback
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return "", err
		}
		defer conn.Close(ctx)
		var out strings.Builder
		rows, err := conn.Query(ctx, sql, args...)
		if err != nil {
			return "", err
		}
		for rows.Next() {
			values, err := rows.Values()
			if err != nil {
				return "", err
			}
			fmt.Fprintln(&out, values...)
		}
		rows.Close()
		fmt.Fprintln(&out, len(rows.FieldDescriptions()), rows.CommandTag())
		return out.String(), rows.Err()
	}
}

func pqWay(prepared bool) func(context.Context, string, string, []any) (string, error) {
	return func(ctx context.Context, dsn, text string, args []any) (string, error) {
		db, err := sql.Open("postgres", dsn)
		if err != nil {
			return "", err
		}
		defer db.Close()
		query := func() (*sql.Rows, error) { return db.QueryContext(ctx, text, args...) }
		if prepared {
			statement, err := db.PrepareContext(ctx, text)
			if err != nil {
				return "", err
			}
			defer statement.Close()
			query = func() (*sql.Rows, error) { return statement.QueryContext(ctx, args...) }
		}
		rows, err := query()
		if err != nil {
			return "", err
		}
		defer rows.Close()
		var out strings.Builder
		columns, err := rows.Columns()
		for rows.Next() {
			values := make([]any, len(columns))
			for i := range values {
				values[i] = new(any)
			}
			if err := rows.Scan(values...); err != nil {
				return "", err
			}
			for _, v := range values {
				fmt.Fprint(&out, *v.(*any), " ")
			}
			fmt.Fprintln(&out)
		}
		fmt.Fprintln(&out, len(columns))
		return out.String(), errors.Join(err, rows.Err())
	}
}

// code is the SQLSTATE of a driver's error; "" for none.
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	if e, ok := errors.AsType[*pq.Error](err); ok {
		return string(e.Code)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestRefusedStatementsRun(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	sim, sluice := standIn(t, nil)
	bare := direct(t, sim)
	pg := pgtest.Shared(t)
	pg.SQL(t, "postgres", tables)
	for _, st := range statements {
		for i, c := range clients {
			t.Run(st.name+"/"+c.name, func(t *testing.T) {
				text := strings.ReplaceAll(st.sql, "%s", fmt.Sprintf("made_%s_%d", strings.ReplaceAll(st.name, " ", "_"), i))
				if strings.HasPrefix(c.name, "pgx") {
					if _, err := c.run(ctx, bare, text, st.args); code(err) != st.code {
						t.Errorf("DSQL itself: %v, want %s", err, st.code)
					}
				}
				want, err := c.run(ctx, pg.DSN("postgres"), text, st.args)
				if err != nil {
					t.Fatalf("PostgreSQL: %v", err)
				}
				got, err := c.run(ctx, sluice.DSN("postgres"), text, st.args)
				if err != nil {
					t.Fatalf("Sluice: %v", err)
				}
				if got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
			})
		}
	}
	counts, err := sluice.Metrics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`dsql_unsupported_feature_total{feature="for_share",operation="select_shards"}`,
		`dsql_unsupported_feature_total{feature="create_index",operation="create_index_tasks"}`,
	} {
		if !strings.Contains(counts, want) {
			t.Errorf("%s is not counted", want)
		}
	}
}

// Where a text has several statements, and inside blocks.
func TestAnswersInBetween(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, sluice := standIn(t, nil)
	conn, err := pgconn.Connect(ctx, sluice.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, test := range []struct{ text, tags, code string }{
		{"SELECT 1; DROP DATABASE gone; SELECT 2", "SELECT 1, DROP DATABASE, SELECT 1", ""},
		{"BEGIN ISOLATION LEVEL READ COMMITTED; SELECT range_id FROM shards FOR SHARE; COMMIT", "BEGIN, SELECT 2, COMMIT", ""},
		{"CREATE DATABASE again", "", "42P04"},
		{"CREATE INDEX between ON tasks (shard_id); SELECT 1", "CREATE INDEX, SELECT 1", ""},
		{"BEGIN", "BEGIN", ""},
		{"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SET", ""},
		{"CREATE INDEX inside ON tasks (shard_id)", "CREATE INDEX", ""},
		{"COMMIT", "COMMIT", ""},
		{"BEGIN", "BEGIN", ""},
		{"CREATE DATABASE again", "", "42P04"},
		{"SELECT 1", "", "25P02"},
		{"ROLLBACK", "ROLLBACK", ""},
		{"TRUNCATE tasks", "", "0A000"},
	} {
		results, err := conn.Exec(ctx, test.text).ReadAll()
		var tags []string
		for _, r := range results {
			if r.Err == nil && r.CommandTag.String() != "" {
				tags = append(tags, r.CommandTag.String())
			}
		}
		if test.code == "" && strings.Join(tags, ", ") != test.tags || code(err) != test.code {
			t.Errorf("%s: %q, %v; want %s %s", test.text, tags, err, test.tags, test.code)
		}
		if e, ok := errors.AsType[*pgconn.PgError](err); ok && strings.HasPrefix(test.text, "TRUNCATE") && e.Hint == "" {
			t.Error("TRUNCATE is refused without a hint")
		}
	}
}

// The position of an error is one in the client's own text.
func TestPositionOfAnError(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, sluice := standIn(t, nil)
	const text = "WITH w AS (SELECT * FROM shards FOR NO KEY UPDATE) SELECT é, nosuch FROM w"
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement} {
		_, err := pgxWay(mode)(ctx, sluice.DSN("postgres"), strings.Replace(text, "é", "'é'", 1), nil)
		e, ok := errors.AsType[*pgconn.PgError](err)
		if want := len([]rune(text[:strings.Index(text, "nosuch")])) + 3; !ok || e.Code != "42703" || int(e.Position) != want {
			t.Errorf("%s: %v at %v, want 42703 at %d", mode, err, e, want)
		}
	}
}

// CREATE INDEX is answered when its job is done, or its client has had enough.
func TestCreateIndexWaitsForItsJob(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	const unfinished = "SELECT count(*) FROM sys.jobs WHERE job_type = 'INDEX_BUILD' AND status <> 'completed'"
	const conflict = `[{"at": "statement", "contains": "FROM sys.jobs WHERE job_id", "action": "fail", "error": "schema"}]`
	for _, test := range []struct {
		wait, delay, unfinished string
		cancel                  bool
		faults                  string
	}{
		{"true", "700ms", "0", false, ""},
		{"true", "700ms", "0", false, conflict},
		{"false", "1h", "1", false, ""},
		{"true", "1h", "1", true, ""},
	} {
		for _, simple := range []bool{true, false} {
			sim, sluice := standIn(t, harness.Env{"DSQL_REWRITE_CREATE_INDEX_WAIT": test.wait, "DSQL_CANCEL_GRACE": "100ms"}, "--job-delay", test.delay)
			if test.faults != "" {
				sim.Admin(t, http.MethodPost, "/faults", test.faults)
			}
			conn, err := pgconn.Connect(ctx, sluice.DSN("postgres"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(ctx)
			if test.cancel {
				other, err := pgconn.Connect(ctx, sluice.DSN("postgres"))
				if err != nil {
					t.Fatal(err)
				}
				defer other.Close(ctx)
				go func() {
					for ctx.Err() == nil { // until the job is there, and the answer waits for it
						if r := other.ExecParams(ctx, unfinished, nil, nil, nil, nil).Read(); r.Err == nil && string(r.Rows[0][0]) == "1" {
							break
						}
					}
					time.Sleep(100 * time.Millisecond)
					conn.CancelRequest(ctx)
				}()
			}
			const text = "CREATE INDEX waited ON tasks (shard_id)"
			if simple {
				_, err = conn.Exec(ctx, text).ReadAll()
			} else {
				err = conn.ExecParams(ctx, text, nil, nil, nil, nil).Read().Err
			}
			if want := map[bool]string{true: "57014"}[test.cancel]; code(err) != want {
				t.Errorf("%+v: %v, want %s", test, err, want)
			}
			r := conn.ExecParams(ctx, unfinished, nil, nil, nil, nil).Read()
			if r.Err != nil || string(r.Rows[0][0]) != test.unfinished {
				t.Errorf("%+v: %s jobs are not done (%v), want %s", test, r.Rows, r.Err, test.unfinished)
			}
		}
	}
}

// A backend that is lost while an answer waits for its job has committed the statement. The
// client is told that nobody knows, and stays connected.
func TestJobWhoseBackendIsLost(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	sim, sluice := standIn(t, nil)
	for _, simple := range []bool{true, false} {
		sim.Admin(t, http.MethodPost, "/faults", `[{"at": "statement", "contains": "FROM sys.jobs WHERE", "action": "cut"}]`)
		conn, err := pgconn.Connect(ctx, sluice.DSN("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		text := fmt.Sprintf("CREATE INDEX lost_%v ON tasks (shard_id)", simple)
		if simple {
			_, err = conn.Exec(ctx, text).ReadAll()
		} else {
			err = conn.ExecParams(ctx, text, nil, nil, nil, nil).Read().Err
		}
		if code(err) != "08007" {
			t.Errorf("simple %v: %v, want 08007", simple, err)
		}
		if err := conn.ExecParams(ctx, "SELECT 1", nil, nil, nil, nil).Read().Err; err != nil {
			t.Errorf("simple %v: behind it %v", simple, err)
		}
	}
}
