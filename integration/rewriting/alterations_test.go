package rewriting

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// update is one statement that brings a database of Temporal's up to date, by its version and
// place.
type update struct{ name, sql string }

// temporalUpdates are those from the first version to the last, behind the two tables that the
// tool makes first.
func temporalUpdates(t *testing.T) []update {
	t.Helper()
	text, err := os.ReadFile("testdata/temporal_updates.sql")
	if err != nil {
		t.Fatal(err)
	}
	var all []update
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if name, ok := strings.CutPrefix(line, "-- "); ok {
			all = append(all, update{name, lines[i+1]})
		}
	}
	if len(all) != 108 {
		t.Fatalf("%d statements, want 108", len(all))
	}
	return all
}

const versionTables = `
	CREATE TABLE schema_version (version_partition INT not null, db_name VARCHAR(255) not null, creation_time TIMESTAMP,
		curr_version VARCHAR(64), min_compatible_version VARCHAR(64), PRIMARY KEY (version_partition, db_name));
	CREATE TABLE schema_update_history (version_partition INT not null, year int not null, month int not null, update_time TIMESTAMP not null,
		description VARCHAR(255), manifest_md5 VARCHAR(64), new_version VARCHAR(64), old_version VARCHAR(64),
		PRIMARY KEY (version_partition, year, month, update_time))`

// notDone are the statements of Temporal's that nothing equivalent exists for, with the words
// that their hints must have; those under refuse alone are done under backfill.
var (
	widened = map[string]string{
		"v1.5 3": `ALTER TABLE cluster_membership ADD COLUMN "rpc_address_new" VARCHAR(128); UPDATE cluster_membership SET "rpc_address_new" = rpc_address`,
		"v1.8 2": `ALTER TABLE current_executions ADD COLUMN "create_request_id_new" VARCHAR(255); UPDATE`,
		"v1.8 3": `The column is in the primary key, and cannot be dropped. Make the table anew`,
	}
	withDefaults = map[string]string{
		"v1.1 1": "cluster_metadata ADD COLUMN data BYTEA; ALTER TABLE cluster_metadata ALTER COLUMN data SET DEFAULT ''; UPDATE cluster_metadata SET data = DEFAULT WHERE data IS NULL",
		"v1.1 2": "SET DEFAULT 'Proto3'", "v1.1 3": "SET DEFAULT 1", "v1.2 1": "SET DEFAULT 'Json'", "v1.2 2": "SET DEFAULT 'Json'",
		"v1.5 1": `CHECK (prev_txn_id IS NOT NULL) NOT VALID; ALTER TABLE ASYNC history_node VALIDATE CONSTRAINT "prev_txn_id_not_null"`,
		"v1.5 2": "SET DEFAULT 0", "v1.6 1": "SET DEFAULT 0", "v1.16 2": "SET DEFAULT ''",
	}
)

// Temporal's updates from its first version on pass but for those that have no equivalent on
// DSQL, and these say what to write.
func TestTemporalUpdates(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for _, policy := range []string{"refuse", "backfill"} {
		pg := pgtest.Start(t, pgtest.MaxConnections(100))
		pg.SQL(t, "postgres", versionTables)
		bin := harness.Binaries(t)
		sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg})
		sluice := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env().With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "5",
			"DSQL_REWRITE_BYTEA": "hex", "DSQL_DDL_ADD_COLUMN_DEFAULT": policy})})
		conn := dialled(t, sluice, pgx.QueryExecModeSimpleProtocol)
		var refused []string
		for _, u := range temporalUpdates(t) {
			_, err := conn.Exec(ctx, u.sql)
			if err == nil {
				continue
			}
			refused = append(refused, u.name)
			want, ok := widened[u.name]
			if words := withDefaults[u.name]; policy == "refuse" && words != "" {
				want, ok = words, true
			}
			if code(err) != "0A000" || !ok || !strings.Contains(hintOf(err), want) {
				t.Errorf("%s, %s: %s\n%v\n%s", policy, u.name, u.sql, err, hintOf(err))
			}
		}
		t.Logf("%s: %d of 108 statements are refused: %s", policy, len(refused), strings.Join(refused, ", "))
		if want := map[string]int{"refuse": 12, "backfill": 3}[policy]; len(refused) != want {
			t.Errorf("%s: %d statements are refused, want %d", policy, len(refused), want)
		}
		const columns = `SELECT count(*) FROM information_schema.columns WHERE table_schema = 'public' AND column_name LIKE '%\_\_adding\_%'`
		if n := pg.SQL(t, "postgres", columns); n != "0" {
			t.Errorf("%s: %s columns are left under names for the time being", policy, n)
		}
	}
}

// told is what a person reads of an error or notice.
func told(e *pgconn.PgError) string {
	return strings.Join([]string{e.Severity, e.Code, e.Message, e.Detail, e.Hint}, "|")
}

// tellings are statements over a table, with all that is read of their errors or notices.
var tellings = []struct{ sql, want string }{
	{"ALTER TABLE things ALTER COLUMN name TYPE VARCHAR(15)", ""},
	{"ALTER TABLE ONLY public.things ALTER name SET DATA TYPE character varying ( 15 )", ""},
	{"ALTER TABLE things ALTER COLUMN n TYPE int4", ""},
	{"ALTER TABLE things ALTER COLUMN n TYPE pg_catalog.int4", ""},
	{`ALTER TABLE things ALTER COLUMN "Odd ""name" TYPE text`, ""},
	{"ALTER TABLE things ALTER COLUMN name TYPE VARCHAR(128)", `ERROR|0A000|unsupported ALTER TABLE ALTER COLUMN ... SET DATA TYPE statement|` +
		`The column "name" is of type character varying(15): on DSQL it can get no other.|` +
		`Make the column anew while nothing writes to it, each in a transaction of its own: ALTER TABLE things ADD COLUMN "name_new" VARCHAR(128); ` +
		`UPDATE things SET "name_new" = name WHERE "name_new" IS NULL AND name IS NOT NULL, at most 3,000 rows at a time; ALTER TABLE things DROP COLUMN name; ` +
		`ALTER TABLE things RENAME COLUMN "name_new" TO name; ALTER TABLE things ALTER COLUMN name SET DEFAULT 'x'::character varying; ` +
		`ALTER TABLE things ADD CONSTRAINT "name_not_null" CHECK (name IS NOT NULL) NOT VALID; ALTER TABLE ASYNC things VALIDATE CONSTRAINT "name_not_null". ` +
		`Create anew what goes with the old column: things_by_name. Or set ddl.alter_column_type to rewrite: Sluice then does so.`},
	{"ALTER TABLE things ALTER COLUMN name TYPE VARCHAR", "ERROR|0A000|unsupported ALTER TABLE ALTER COLUMN ... SET DATA TYPE statement|The column \"name\" is of type character varying(15): on DSQL it can get no other.|Make the column anew..."},
	{"ALTER TABLE things ALTER COLUMN bound TYPE VARCHAR(10)", "ERROR|0A000|unsupported ALTER TABLE ALTER COLUMN ... SET DATA TYPE statement|The column \"bound\" is of type text_of_ten: on DSQL it can get no other...."},
	{"ALTER TABLE things ALTER COLUMN id TYPE bigint", "ERROR|0A000|unsupported ALTER TABLE ALTER COLUMN ... SET DATA TYPE statement|The column \"id\" is of type integer: on DSQL it can get no other.|The column is in the primary key..."},
	{"ALTER TABLE things ALTER COLUMN name TYPE VARCHAR(15) USING lower(name)", "ERROR|0A000|unsupported ALTER TABLE ALTER COLUMN ... SET DATA TYPE statement||ADD COLUMN of the type..."},
	{"ALTER TABLE things ALTER COLUMN nothing TYPE int", `ERROR|42703|column "nothing" of relation "things" does not exist...`},
	{"ALTER TABLE nothing ALTER COLUMN n TYPE int", `ERROR|42P01|relation "nothing" does not exist...`},
	{"ALTER TABLE things ALTER COLUMN n TYPE nosuch", `ERROR|42704|type "nosuch" does not exist...`},
	{"ALTER TABLE shown ALTER COLUMN n TYPE int", "ERROR|0A000|..."},

	{"CREATE INDEX backwards ON things (n DESC)", ""},
	{"CREATE INDEX i ON things (n DESC, name)", "ERROR|0A000|specifying sort order not supported for index keys||Leave DESC out: an index is read in both directions, so that only an ORDER BY which mixes them is sorted after all; expressions such as COALESCE(...) may stay."},
	{"CREATE INDEX i ON things (name, (COALESCE(n, 0)) DESC)", "ERROR|0A000|specifying sort order not supported for index keys||Leave DESC out..."},
	{"CREATE INDEX coalesced ON things (name, (COALESCE(n, 0)))", ""},
	{"CREATE INDEX i ON things USING gin (name)", "ERROR|0A000|USING not supported for CREATE INDEX||Leave the index out, or index columns or expressions without USING."},
	{"CREATE INDEX CONCURRENTLY i ON things (n, name DESC)", "ERROR|0A000|specifying sort order not supported for index keys||Leave DESC out..."},
	{"CREATE INDEX patterns ON things (name varchar_pattern_ops)", ""},

	{"ALTER TABLE things ADD COLUMN n int NOT NULL DEFAULT 1", `ERROR|42701|column "n" of relation "things" already exists||`},
	{"ALTER TABLE things ADD COLUMN IF NOT EXISTS n int DEFAULT 1", `NOTICE|42701|column "n" of relation "things" already exists, skipping||`},
	{"ALTER TABLE things ADD COLUMN a int NOT NULL DEFAULT 'no number'", `ERROR|22P02|invalid input syntax for type integer: "no number"||`},
	{"ALTER TABLE things ADD COLUMN a nosuch DEFAULT 1", `ERROR|42704|type "nosuch" does not exist||`},
	{"ALTER TABLE things ADD COLUMN a int DEFAULT length('x')", "ERROR|0A000|ALTER TABLE ADD COLUMN with constraint not supported||ADD COLUMN name type..."},
	{"ALTER TABLE things ADD COLUMN a timestamp DEFAULT 'now'", "ERROR|0A000|ALTER TABLE ADD COLUMN with constraint not supported||ADD COLUMN name type..."},
	{"ALTER TABLE things ADD COLUMN a int NOT NULL", "ERROR|0A000|ALTER TABLE ADD COLUMN with constraint not supported||ADD COLUMN name type..."},
	{"ALTER TABLE things ADD COLUMN a int DEFAULT 1 CHECK (things.a > 0)", "ERROR|0A000|ALTER TABLE ADD COLUMN with constraint not supported||ADD COLUMN name type..."},
	{"ALTER TABLE things ADD COLUMN a int DEFAULT 1 CHECK (a > 1)", `ERROR|23514|check constraint "things_a_check" of relation "things" is violated by some row||`},
	{"ALTER TABLE things ADD COLUMN a int DEFAULT 1, ADD COLUMN b int", "ERROR|0A000|ALTER TABLE ADD COLUMN with constraint not supported||Write each command of it in an ALTER TABLE of its own. To the one that is refused: ADD COLUMN name type..."},
	{"ALTER TABLE things ADD COLUMN a int NOT NULL DEFAULT 1", `WARNING|01000|column "a" is added without NOT NULL, which DSQL refuses|It has its default, which 7000 rows were given.|` +
		`To hold it to that: ALTER TABLE things ADD CONSTRAINT "a_not_null" CHECK (a IS NOT NULL) NOT VALID; ALTER TABLE ASYNC things VALIDATE CONSTRAINT "a_not_null".`},
	{`ALTER TABLE things ADD "B c" varchar(7) DEFAULT 'it''s' NULL`, ""},
	{"ALTER TABLE keyless ADD COLUMN a bool DEFAULT false", ""},
}

// What a person reads of a statement that DSQL refuses is true, and enough to go on.
func TestTellings(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg := pgtest.Start(t, pgtest.MaxConnections(100))
	bin := harness.Binaries(t)
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg})
	sluice := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env().With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "5", "DSQL_DDL_ADD_COLUMN_DEFAULT": "backfill"})})
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement} {
		pg.SQL(t, "postgres", `DROP TABLE IF EXISTS things, keyless CASCADE; DROP DOMAIN IF EXISTS text_of_ten;
			CREATE DOMAIN text_of_ten AS varchar(10);
			CREATE TABLE things (id int PRIMARY KEY, name varchar(15) NOT NULL DEFAULT 'x', n int, bound text_of_ten, "Odd ""name" text);
			CREATE INDEX things_by_name ON things (name); CREATE VIEW shown AS SELECT n FROM things;
			CREATE TABLE keyless (k int); INSERT INTO keyless SELECT generate_series(1, 100);
			INSERT INTO things SELECT i FROM generate_series(1, 7000) i`)
		config, err := pgx.ParseConfig(sluice.DSN("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		var notice *pgconn.Notice
		config.DefaultQueryExecMode = mode
		config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { notice = n }
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		for _, telling := range tellings {
			notice = nil
			tag, err := conn.Exec(ctx, telling.sql)
			got := ""
			if e, ok := errors.AsType[*pgconn.PgError](err); ok {
				got = told(e)
			} else if err != nil {
				got = err.Error()
			} else if notice != nil {
				got = told((*pgconn.PgError)(notice))
			}
			if beginning, ok := strings.CutSuffix(telling.want, "..."); got != telling.want && !(ok && strings.HasPrefix(got, beginning)) {
				t.Errorf("%s, %s:\n got %s\nwant %s", mode, telling.sql, got, telling.want)
			}
			if verb := strings.Join(strings.Fields(telling.sql)[:2], " "); err == nil && tag.String() != verb {
				t.Errorf("%s, %s: tag %q", mode, telling.sql, tag)
			}
		}
		for sql, want := range map[string]string{
			`SELECT count(*) FROM things WHERE a = 1 AND "B c" = 'it''s'`: "7000",
			"SELECT count(*) FROM keyless WHERE NOT a":                    "100",
			`SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod) || coalesce(' ' || pg_get_expr(adbin, adrelid), ''), ', ' ORDER BY attnum) FROM pg_attribute
				LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum WHERE attrelid = 'things'::regclass AND attnum > 5 AND NOT attisdropped`: "a integer 1, B c character varying(7) 'it''s'::character varying",
		} {
			if got := pg.SQL(t, "postgres", sql); got != want {
				t.Errorf("%s, %s: %s, want %s", mode, sql, got, want)
			}
		}
	}
}

// A statement that has failed in the middle is sent once more, and goes on; one with another
// default is told of it. In a block, in a string and in a pipeline it is refused.
func TestColumnHalfAdded(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	sim, sluice := standIn(t, harness.Env{"DSQL_DDL_ADD_COLUMN_DEFAULT": "backfill"})
	conn := dialled(t, sluice, pgx.QueryExecModeSimpleProtocol)
	run := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(sql, err)
		}
	}
	run("CREATE TABLE big (k int PRIMARY KEY)")
	for i := range 3 {
		run(fmt.Sprintf("INSERT INTO big SELECT generate_series(%d, %d)", 1+i*2000, (i+1)*2000))
	}
	const add = "ALTER TABLE big ADD COLUMN v int NOT NULL DEFAULT 7"
	for _, sql := range []string{"SELECT 1; " + add, add + "; " + add} {
		if _, err := conn.Exec(ctx, sql); code(err) != "0A000" || !strings.Contains(hintOf(err), "alone") {
			t.Errorf("%s: %v (%s)", sql, err, hintOf(err))
		}
	}
	run("BEGIN")
	if _, err := conn.Exec(ctx, add); code(err) != "0A000" || !strings.Contains(hintOf(err), "alone outside of a transaction") {
		t.Errorf("in a block: %v (%s)", err, hintOf(err))
	}
	run("ROLLBACK")
	batch := &pgx.Batch{}
	batch.Queue(add)
	batch.Queue("INSERT INTO big VALUES (0)")
	if err := dialled(t, sluice, pgx.QueryExecModeExec).SendBatch(ctx, batch).Close(); code(err) != "0A000" {
		t.Errorf("in a pipeline: %v", err)
	}
	sim.Admin(t, http.MethodPost, "/faults", `[{"at": "statement", "action": "fail", "error": "conflict", "contains": "SET \"v__adding", "skip": 1, "count": -1}]`)
	_, err := conn.Exec(ctx, add)
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code != "40001" || !strings.Contains(e.Detail, "has given the default to 2900 rows") || !strings.Contains(e.Hint, "Send the statement again") {
		t.Errorf("got %v %+v", err, e)
	}
	sim.Admin(t, http.MethodDelete, "/faults", "")
	for _, at := range []string{"statement", "running"} { // the first batch of what is left
		sim.Admin(t, http.MethodPost, "/faults", `[{"at": "`+at+`", "action": "cut", "contains": "SET \"v__adding"}]`)
		_, err := conn.Exec(ctx, add)
		if !errors.As(err, &e) || e.Code != "08007" || strings.Count(e.Detail, "has given the default to 0 rows") != 1 || !strings.Contains(e.Hint, "Send the statement again") {
			t.Errorf("cut, %s: %v %+v", at, err, e)
		}
		sim.Admin(t, http.MethodDelete, "/faults", "")
	}
	if _, err := conn.Exec(ctx, "ALTER TABLE big ADD COLUMN v int NOT NULL DEFAULT 8"); code(err) != "55000" {
		t.Errorf("with another default: %v", err)
	}
	var n, m int
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM information_schema.columns WHERE table_name = 'big' AND column_name = 'v'").Scan(&n); err != nil || n != 0 {
		t.Errorf("the column has its name already (%v)", err)
	}
	run(add)
	run("INSERT INTO big VALUES (0)")
	if err := conn.QueryRow(ctx, "SELECT count(*), count(v) FILTER (WHERE v = 7) FROM big").Scan(&n, &m); err != nil || n != 6001 || m != n {
		t.Errorf("%d of %d rows (%v)", m, n, err)
	}
	if _, err := conn.Exec(ctx, add); code(err) != "42701" {
		t.Errorf("once more: %v", err)
	}
}
