package rewriting

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// readOnlySteps are what the programs of TestReadOnlyByDefault consist of. %d is a number of its own.
var readOnlySteps = struct{ settings, asks, blocks, statements []string }{
	settings: []string{
		"SET default_transaction_read_only = on", "SET default_transaction_read_only TO 'true'", "set default_transaction_read_only to off", "SET default_transaction_read_only TO DEFAULT",
		"RESET default_transaction_read_only", "SET LOCAL default_transaction_read_only = on", "SET LOCAL default_transaction_read_only = off", "RESET ALL", "DISCARD ALL",
		"SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
		"SELECT set_config('default_transaction_read_only', 'on', false)", "SELECT set_config('default_transaction_read_only', 'off', true)", "SET default_transaction_read_only = maybe",
	},
	asks: []string{
		"SHOW default_transaction_read_only", "SHOW transaction_read_only", "SELECT current_setting('default_transaction_read_only')", "SELECT current_setting('transaction_read_only')",
	},
	blocks: []string{
		"BEGIN", "BEGIN", "START TRANSACTION", "BEGIN READ WRITE", "BEGIN READ ONLY", "BEGIN ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE",
		"COMMIT", "COMMIT", "COMMIT", "ROLLBACK", "ROLLBACK", "END", "SET TRANSACTION READ WRITE", "SET TRANSACTION READ ONLY",
		"BEGIN; SET TRANSACTION READ ONLY", "BEGIN; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; SELECT 1", "START TRANSACTION; SET TRANSACTION READ WRITE; INSERT INTO ro VALUES (%d); COMMIT",
		"START TRANSACTION READ ONLY; SET TRANSACTION READ WRITE; SET TRANSACTION READ ONLY; SHOW transaction_read_only; COMMIT",
	},
	statements: []string{
		"INSERT INTO ro VALUES (%d)", "INSERT INTO ro VALUES (%d) RETURNING n > 0", "UPDATE ro SET n = n + 100000 WHERE n = 1", "DELETE FROM ro WHERE n < 0", "WITH w AS (INSERT INTO ro VALUES (%d) RETURNING n) SELECT count(*) FROM w",
		"SELECT count(*) FROM ro", "SELECT n FROM ro WHERE n = 1", "SELECT n FROM ro WHERE n = 1 FOR UPDATE", "SELECT 1", "SELECT max(n) FROM ro_v",
		"SELECT n FROM (SELECT n FROM ro WHERE n = 1 FOR UPDATE) a", "VALUES (1)", "SELECT nextval('ro_s') > 0", "EXPLAIN (COSTS OFF) SELECT 1", "EXPLAIN (COSTS OFF) INSERT INTO ro VALUES (1)",
		"CREATE TABLE ro_%d (n bigint PRIMARY KEY)", "DROP TABLE IF EXISTS ro_none", "ALTER TABLE ro RENAME COLUMN nothing TO n2", "SELECT pg_catalog.setval('ro_s', 5) > 0",
		"SELECT 1 / 0", "INSERT INTO ro VALUES (1)", "TABLE ro_v", "SELECT 1; SELECT 2", "ANALYZE ro",
	},
}

// readOnlyProgram draws one. A step is a simple Query, or a group of the extended protocol.
func readOnlyProgram(rnd *rand.Rand, number *int) (steps [][]string, extended []bool) {
	all := &readOnlySteps
	one := func() string {
		from := all.statements
		switch n := rnd.IntN(20); {
		case n < 5:
			from = all.settings
		case n < 7:
			from = all.asks
		case n < 11:
			from = all.blocks
		}
		text := from[rnd.IntN(len(from))]
		if strings.Contains(text, "%d") {
			*number++
			text = fmt.Sprintf(text, *number)
		}
		return text
	}
	if rnd.IntN(4) > 0 {
		steps, extended = [][]string{{all.settings[rnd.IntN(3)]}}, []bool{false}
	}
	for range 3 + rnd.IntN(10) {
		group, ext := []string{one()}, rnd.IntN(2) == 0
		for rnd.IntN(4) == 0 {
			group = append(group, one())
		}
		if ext {
			group = slices.DeleteFunc(group, func(s string) bool { return strings.Contains(s, ";") })
		}
		if len(group) > 0 {
			steps, extended = append(steps, group), append(extended, ext)
		}
	}
	return steps, extended
}

// saysAll runs a step and is all that a client sees of it, without positions and details of errors.
func saysAll(t *testing.T, conn *pgconn.PgConn, group []string, extended bool) (said []string) {
	t.Helper()
	take := func(r *pgconn.ResultReader) error {
		for r.NextRow() {
			var row []string
			for _, v := range r.Values() {
				row = append(row, string(v))
			}
			said = append(said, "row "+strings.Join(row, ","))
		}
		tag, err := r.Close()
		if err == nil {
			said = append(said, tag.String())
		}
		return err
	}
	failed := func(err error) {
		told, ok := err.(*pgconn.PgError)
		if !ok {
			t.Fatalf("%q: %v", group, err)
		}
		said = append(said, "error "+told.Code+" "+told.Message)
	}
	if !extended {
		r := conn.Exec(t.Context(), strings.Join(group, "; "))
		for r.NextResult() {
			take(r.ResultReader())
		}
		if err := r.Close(); err != nil {
			failed(err)
		}
	} else {
		p := conn.StartPipeline(t.Context())
		for _, sql := range group {
			p.SendQueryParams(sql, nil, nil, nil, nil)
		}
		if err := p.Sync(); err != nil {
			t.Fatal(err)
		}
	results:
		for {
			r, err := p.GetResults()
			switch r := r.(type) {
			case *pgconn.ResultReader:
				if err := take(r); err != nil {
					failed(err)
				}
				continue
			case *pgconn.PipelineSync:
				break results
			}
			if err != nil {
				failed(err)
			}
		}
		p.Close()
	}
	return append(said, string(conn.TxStatus())+" "+conn.ParameterStatus("default_transaction_read_only"))
}

// Programs that set default_transaction_read_only, by each way that there is, say through Sluice what
// they say on PostgreSQL, and leave the same rows; or they are refused with 0A000 and nothing is done.
func TestReadOnlyByDefault(t *testing.T) {
	const programs = 60
	pg := pgtest.Start(t, pgtest.MaxConnections(200))
	oracle := pg.NewDatabase(t)
	const objects = "CREATE TABLE ro (n bigint PRIMARY KEY); INSERT INTO ro VALUES (1); CREATE VIEW ro_v AS SELECT n FROM ro WHERE n <= 1; CREATE SEQUENCE ro_s CACHE 1; CREATE MATERIALIZED VIEW ro_m AS SELECT 1 AS a; CREATE FUNCTION ro_f() RETURNS bigint LANGUAGE sql AS 'DELETE FROM ro RETURNING n';"
	for _, db := range []string{"postgres", oracle} {
		pg.SQL(t, db, objects)
	}
	pg.SQL(t, "postgres", "ALTER DATABASE "+oracle+" SET default_transaction_isolation TO 'repeatable read'")
	bin := harness.Binaries(t)
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg})
	sluice := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env().With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "4"})})
	open := func(dsn string, on bool) *pgconn.PgConn {
		config, err := pgx.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		if on {
			config.RuntimeParams["options"] = "-c default_transaction_read_only=yes"
		}
		conn, err := pgconn.ConnectConfig(t.Context(), &config.Config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(t.Context()) })
		return conn
	}
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	wrong := 0
	number, refused, denied, ran, why := 10, 0, 0, 0, map[string]int{}
	for i := range programs {
		on := rnd.IntN(5) == 0
		for _, db := range []string{"postgres", oracle} {
			pg.SQL(t, db, "DELETE FROM ro WHERE n <> 1; INSERT INTO ro VALUES (1) ON CONFLICT DO NOTHING")
		}
		near, far := open(sluice.DSN("postgres"), on), open(pg.DSN(oracle), on)
		steps, extended := readOnlyProgram(rnd, &number)
		var done []string
		whole := true
		for n, group := range steps {
			done = append(done, fmt.Sprintf("%v %q", extended[n], group))
			got, want := saysAll(t, near, group, extended[n]), saysAll(t, far, group, extended[n])
			ran++
			if strings.Contains(strings.Join(got, "\n"), "25006") {
				denied++
			}
			if slices.Equal(got, want) {
				continue
			}
			whole = false
			// The DDL of an earlier program; the modes of a second BEGIN behind statements, which nobody here
			// looks at; and a lock behind a BEGIN in a string, which the stand-in does not see.
			if said := strings.Join(got, " ") + strings.Join(want, " "); strings.Contains(said, "error 40001 ") || strings.Contains(said, "must be set before any query") ||
				far.TxStatus() == 'E' && strings.Contains(said, "cannot execute SELECT FOR UPDATE") {
				break
			}
			at := slices.IndexFunc(got, func(s string) bool { return strings.HasPrefix(s, "error 0A000") })
			if at < 0 {
				if wrong++; wrong > 8 {
					t.FailNow()
				}
				t.Errorf("seed %d, program %d, on=%v:\n%s\ngot  %q\nwant %q", seed, i, on, strings.Join(done, "\n"), got, want)
				break
			}
			refused++
			why[strings.Join(group, "; ")+": "+got[at]]++
			break
		}
		const rows = "SELECT string_agg(n::text, ',' ORDER BY n) FROM ro"
		if near, far := pg.SQL(t, "postgres", rows), pg.SQL(t, oracle, rows); whole && near != far && near != "" {
			t.Errorf("seed %d, program %d, on=%v:\n%s\nrows %s, want %s", seed, i, on, strings.Join(done, "\n"), near, far)
		}
		near.Close(t.Context())
		far.Close(t.Context())
	}
	t.Logf("%d steps, of which %d were refused as READ ONLY, and %d programs ended by 0A000", ran, denied, refused)
	for sql, n := range why {
		t.Logf("%d times %s", n, sql)
	}
	if denied < programs/4 || refused > programs/2 {
		t.Errorf("of %d programs %d steps were refused as READ ONLY, and %d ended by 0A000", programs, denied, refused)
	}
	near, far := open(sluice.DSN("postgres"), true), open(pg.DSN(oracle), true)
	for _, sql := range readOnlyCommands {
		for _, extended := range []bool{false, true} {
			got, want := saysAll(t, near, []string{sql}, extended), saysAll(t, far, []string{sql}, extended)
			unknown := extended && (strings.Contains(got[0], "error 0A000") || strings.Contains(got[0], "error 42P04")) // at its Parse
			if !unknown && !slices.Equal(got, want) || !strings.Contains(want[0], "25006") {
				t.Errorf("%s: %q, want %q", sql, got, want)
			}
		}
	}
	for _, sql := range []string{"SELECT ro_f()", "SELECT public.ro_f()", "SELECT (SELECT ro_f())", "DO $$ BEGIN END $$", "SELECT n FROM ro WHERE pg_notify('a', 'b') IS NOT NULL", "EXPLAIN ANALYZE SELECT ro_f()", "nonsense"} {
		if got := saysAll(t, near, []string{sql}, false); !strings.Contains(got[0], "error 0A000") {
			t.Errorf("%s: %q, want 0A000: nobody knows what it does", sql, got)
		}
	}
}

// readOnlyCommands are refused by PostgreSQL in a transaction that is READ ONLY, and by Sluice in the same words.
var readOnlyCommands = []string{
	"INSERT INTO ro VALUES (7)", "UPDATE ro SET n = 7", "DELETE FROM ro", "MERGE INTO ro USING (VALUES (1)) v(m) ON n = m WHEN MATCHED THEN DELETE", "TRUNCATE ro", "/* a */ insert into ro values (7);",
	"WITH w AS (DELETE FROM ro RETURNING n) INSERT INTO ro SELECT n FROM w", "WITH w AS (DELETE FROM ro RETURNING n) SELECT 1", "WITH w AS (SELECT n FROM ro FOR SHARE) SELECT 1 FROM w",
	"SELECT n FROM ro FOR UPDATE", "SELECT n FROM ro FOR NO KEY UPDATE", "SELECT n FROM ro FOR SHARE", "SELECT n FROM ro FOR KEY SHARE SKIP LOCKED", "SELECT nextval('ro_s')", "SELECT 1 + setval('ro_s', 7)", "SELECT n INTO ro_i FROM ro",
	"EXPLAIN ANALYZE INSERT INTO ro VALUES (7)", "EXPLAIN (ANALYZE, COSTS OFF) SELECT n FROM ro FOR UPDATE", "COPY (SELECT n FROM ro FOR UPDATE) TO STDOUT", "COPY ro FROM STDIN",
	"CREATE TABLE ro_t (n int)", "CREATE TABLE ro_t AS SELECT 1", "CREATE MATERIALIZED VIEW ro_t AS SELECT 1", "REFRESH MATERIALIZED VIEW ro_m", "CREATE VIEW ro_t AS SELECT 1", "CREATE INDEX ON ro (n)", "CREATE SEQUENCE ro_t",
	"ALTER SEQUENCE ro_s RESTART", "ALTER TABLE ro ADD COLUMN m int", "ALTER TABLE ro RENAME COLUMN n TO m", "ALTER TABLE ro RENAME TO ro_t", "ALTER TABLE ro RENAME CONSTRAINT ro_pkey TO a", "ALTER INDEX ro_pkey RENAME TO ro_t", "ALTER VIEW ro_v RENAME TO ro_t",
	"ALTER TABLE ro OWNER TO postgres", "ALTER TABLE ro SET SCHEMA public", "DROP TABLE ro", "DROP VIEW ro_v", "DROP SEQUENCE ro_s", "DROP INDEX ro_pkey", "DROP MATERIALIZED VIEW ro_m", "CREATE SCHEMA ro_t", "DROP SCHEMA public",
	"GRANT SELECT ON ro TO PUBLIC", "REVOKE SELECT ON ro FROM PUBLIC", "CREATE ROLE ro_t", "DROP ROLE ro_t", "ALTER ROLE postgres SET work_mem = 64", "GRANT pg_monitor TO postgres", "REVOKE pg_monitor FROM postgres",
	"COMMENT ON TABLE ro IS 'a'", "CREATE TYPE ro_t AS ENUM ('a')", "CREATE TYPE ro_t AS (a int)", "CREATE DOMAIN ro_t AS int", "CREATE FUNCTION ro_t() RETURNS int LANGUAGE sql AS 'SELECT 1'", "DROP FUNCTION ro_f()", "CREATE EXTENSION IF NOT EXISTS plpgsql",
	"CREATE DATABASE ro_t", "DROP DATABASE ro_t", "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC", "CREATE RULE a AS ON INSERT TO ro DO NOTHING", "ALTER TABLE ro ADD CONSTRAINT a CHECK (n > 0)", "ALTER TABLE ro ALTER COLUMN n TYPE int",
}
