package rewriting

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// constrained are the tables that constraints are added to.
const constrained = `DROP TABLE IF EXISTS parent, child, other.child, empty, self CASCADE; DROP SCHEMA IF EXISTS other CASCADE;
	CREATE TABLE parent (id int PRIMARY KEY, k varchar(10) UNIQUE, a int, b int, UNIQUE (a, b));
	INSERT INTO parent VALUES (1, 'one', 1, 1), (2, 'two', 2, 2);
	CREATE TABLE child (id int PRIMARY KEY, pid int, bad int, pk varchar(10), a int, b int, twice int, "Odd ""name" text, "order" char(3), yes bool, nn int NOT NULL DEFAULT 1);
	INSERT INTO child VALUES (1, 1, 1, 'one', 1, 1, 7, 'x', 'ab', true), (2, 2, 9, 'two', 2, NULL, 7, 'x', 'ab', true), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'c', false);
	CREATE TABLE self (id int PRIMARY KEY, up int, other int); INSERT INTO self VALUES (1, NULL, 1), (2, 1, 5);
	CREATE TABLE empty (id int PRIMARY KEY, a int, b int);
	CREATE SCHEMA other; CREATE TABLE other.child (id int PRIMARY KEY, a int, child_pid_fkey int); CREATE TABLE taken_a_key (id int); DROP TABLE taken_a_key`

// additions are statements that add constraints, in this order, to what PostgreSQL and the
// stand-in have alike before.
var additions = []string{
	"ALTER TABLE child ADD CONSTRAINT child_a UNIQUE (a)",
	"ALTER TABLE child ADD CONSTRAINT child_a UNIQUE (pid)",
	"ALTER TABLE ONLY public.child ADD UNIQUE (pid)",
	"ALTER TABLE child ADD UNIQUE (pid)",
	"ALTER TABLE child ADD UNIQUE (pid, a) INCLUDE (b) DEFERRABLE INITIALLY DEFERRED",
	"ALTER TABLE child ADD CONSTRAINT twice UNIQUE (twice)",
	`ALTER TABLE child ADD UNIQUE (twice, "Odd ""name")`,
	`ALTER TABLE child ADD UNIQUE ("order", yes)`,
	"ALTER TABLE child ADD UNIQUE NULLS NOT DISTINCT (pk)",
	"ALTER TABLE child ADD UNIQUE NULLS NOT DISTINCT (id, pk)",
	"ALTER TABLE child ADD UNIQUE (nothing)",
	"ALTER TABLE child ADD CONSTRAINT empty UNIQUE (b)",
	"ALTER TABLE nothing ADD UNIQUE (a)",
	"ALTER TABLE IF EXISTS nothing ADD UNIQUE (a)",
	"ALTER TABLE IF EXISTS nowhere.nothing ADD CHECK (a > 0)",

	"ALTER TABLE child ADD FOREIGN KEY (pid) REFERENCES parent",
	"ALTER TABLE child ADD FOREIGN KEY (pid) REFERENCES public.parent (id) ON DELETE CASCADE ON UPDATE SET NULL DEFERRABLE INITIALLY DEFERRED",
	"ALTER TABLE child ADD CONSTRAINT bad FOREIGN KEY (bad) REFERENCES parent",
	"ALTER TABLE child ADD FOREIGN KEY (bad) REFERENCES parent (id)",
	"ALTER TABLE child ADD FOREIGN KEY (pk) REFERENCES parent (k)",
	"ALTER TABLE child ADD FOREIGN KEY (a, b) REFERENCES parent (a, b)",
	"ALTER TABLE child ADD CONSTRAINT whole FOREIGN KEY (a, b) REFERENCES parent (a, b) MATCH FULL",
	"ALTER TABLE child ADD FOREIGN KEY (pid) REFERENCES nothing",
	"ALTER TABLE child ADD FOREIGN KEY (pid) REFERENCES child (b)",
	"ALTER TABLE child ADD FOREIGN KEY (nothing) REFERENCES parent",
	"ALTER TABLE self ADD FOREIGN KEY (up) REFERENCES self",
	"ALTER TABLE self ADD FOREIGN KEY (other) REFERENCES self",
	"ALTER TABLE other.child ADD FOREIGN KEY (a) REFERENCES child",

	"ALTER TABLE child ADD CHECK (a > 0)",
	"ALTER TABLE child ADD CHECK (a < 100)",
	"ALTER TABLE child ADD CHECK (a < b + 100)",
	"ALTER TABLE child ADD CONSTRAINT small CHECK (a < 2) NO INHERIT",
	"ALTER TABLE child ADD CHECK (a / 0 > 1)",
	"ALTER TABLE child ADD CONSTRAINT child_a_check CHECK (a > 0)",
	"ALTER TABLE child ADD CHECK (nothing > 0)",
	"ALTER TABLE child ADD CHECK (pk IN ('one', 'two', 'it''s -- /*')) -- done",
	"ALTER /* a */ TABLE child /* b */ ADD -- c\n CHECK (a -- d\n > 0)",
	`ALTER TABLE child ADD CONSTRAINT "Odd ""one" CHECK ("Odd ""name" <> '')`,
	"ALTER TABLE child ADD CONSTRAINT U&\"d\\0061t\" CHECK (a > 0);",

	"ALTER TABLE child ADD CONSTRAINT small UNIQUE (id)",
	"ALTER TABLE child ADD CONSTRAINT child_a_check UNIQUE (twice)",
	"ALTER TABLE child ADD CHECK (bad < 5), ADD CHECK (bad < 5)",
	"ALTER TABLE child ADD CHECK (nn > 0), ADD CHECK (nn > 0), ADD FOREIGN KEY (pid) REFERENCES parent, ADD FOREIGN KEY (pid) REFERENCES parent, ADD UNIQUE (nn, id), ADD UNIQUE (nn, id)",
	"ALTER TABLE child ADD FOREIGN KEY (bad) REFERENCES parent, ADD CHECK (bad < 5)",
	"ALTER TABLE empty ADD CHECK (a > 0), ADD UNIQUE (a), ADD FOREIGN KEY (b) REFERENCES empty (a)",
	"ALTER TABLE child ADD CHECK (id > 0), ADD CONSTRAINT many UNIQUE (id, pid), ADD FOREIGN KEY (bad) REFERENCES parent",
	"ALTER TABLE empty ADD COLUMN c int REFERENCES parent ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED",
	"ALTER TABLE empty ADD COLUMN d int NULL UNIQUE CHECK (d > 0) REFERENCES parent, ADD e text CONSTRAINT named UNIQUE, ADD f int",
	"ALTER TABLE child ADD COLUMN g int UNIQUE, ADD CONSTRAINT h CHECK (bad < 2)",
	"ALTER TABLE child ADD COLUMN pid int UNIQUE",
	"ALTER TABLE child ADD COLUMN g int REFERENCES nothing",
	"ALTER TABLE child ADD COLUMN g int REFERENCES parent, ADD COLUMN g2 int REFERENCES parent (k)",
}

// standing is what the catalog has.
const standing = `SELECT string_agg(x, E'\n' ORDER BY x) FROM (
	SELECT format('%s %s %s %s %s %s %s', conrelid::regclass, conname, contype, convalidated, condeferrable, condeferred, pg_get_constraintdef(oid)) x
		FROM pg_constraint WHERE conrelid IN (SELECT oid FROM pg_class WHERE relnamespace IN ('public'::regnamespace, 'other'::regnamespace))
	UNION ALL SELECT format('%s %s %s', pg_get_indexdef(indexrelid), indisvalid, indimmediate) FROM pg_index WHERE indrelid IN (SELECT oid FROM pg_class WHERE relnamespace IN ('public'::regnamespace, 'other'::regnamespace))
	UNION ALL SELECT format('%s %s %s %s', attrelid::regclass, attname, atttypid::regtype, attnotnull) FROM pg_attribute
		WHERE attnum > 0 AND NOT attisdropped AND attrelid IN (SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace IN ('public'::regnamespace, 'other'::regnamespace))) y`

// whole is all that drivers read of an error, places and hints aside.
func whole(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.Join([]string{e.Severity, e.Code, e.Message, e.Detail, e.SchemaName, e.TableName, e.ColumnName, e.ConstraintName}, "|")
	}
	if e, ok := errors.AsType[*pq.Error](err); ok {
		return strings.Join([]string{e.Severity, string(e.Code), e.Message, e.Detail, e.Schema, e.Table, e.Column, e.Constraint}, "|")
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// plainAndSluice are PostgreSQL's own database, and one behind Sluice and the stand-in, on the
// same server.
func plainAndSluice(t *testing.T, env harness.Env, args ...string) (*pgtest.Server, *harness.DSQLSim, *harness.Sluice) {
	t.Helper()
	pg := pgtest.Start(t, pgtest.MaxConnections(200))
	bin := harness.Binaries(t)
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg, Args: append([]string{"--job-delay", "10ms"}, args...)})
	pg.SQL(t, "postgres", "CREATE DATABASE plain TEMPLATE template0")
	return pg, sim, harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env().With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "10"}).With(env)})
}

// ALTER TABLE that adds constraints leaves what PostgreSQL leaves, valid, under the same names,
// and fails as it does there, with nothing left: for each driver, prepared or not.
func TestConstraintsAsInPostgreSQL(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, _, sluice := plainAndSluice(t, nil)
	for n, way := range clients {
		for _, database := range []string{"postgres", "plain"} {
			pg.SQL(t, database, constrained)
		}
		added := 0
		for i, sql := range additions {
			if n > 0 && i%5 != n%5 { // the first has them all
				continue
			}
			wantOut, wantErr := way.run(ctx, pg.DSN("plain"), sql, nil)
			out, err := way.run(ctx, sluice.DSN("postgres"), sql, nil)
			if out != wantOut || whole(err) != whole(wantErr) {
				t.Errorf("%s, %s:\n got %q %s (%s)\nwant %q %s", way.name, sql, out, whole(err), hintOf(err), wantOut, whole(wantErr))
			}
			got, want := pg.SQL(t, "postgres", standing), pg.SQL(t, "plain", standing)
			if got != want {
				t.Fatalf("%s, %s:\n%s", way.name, sql, differing(got, want))
			}
			if err == nil {
				added++
			}
		}
		t.Logf("%s: %d of %d statements succeed", way.name, added, len(additions))
		if added < 3 {
			t.Errorf("%s: only %d statements succeed", way.name, added)
		}
	}
}

// What random statements leave, and how they fail, is as in PostgreSQL: of names that are taken or
// chosen, of several constraints in one statement, over what the statements before have left.
func TestRandomConstraintsAsInPostgreSQL(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, _, sluice := plainAndSluice(t, nil)
	seed := uint64(time.Now().UnixNano())
	t.Log("seed ", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	column := func() string { return pick("id", "pid", "bad", "a", "b", "twice", "nn", "nothing") }
	constraint := func() string {
		name := pick("", "", "", "CONSTRAINT c ", "CONSTRAINT \"C d\" ", "CONSTRAINT child_a_key ", "CONSTRAINT child_a_check ", "CONSTRAINT parent ")
		switch random.IntN(3) {
		case 0:
			return name + "UNIQUE " + pick("", "", "NULLS NOT DISTINCT ") + "(" + pick(column(), column(), "id, a", "pid, b", "yes, \"order\"") + ") " + pick("", "", "INCLUDE (b)") + pick("", "", " DEFERRABLE", " DEFERRABLE INITIALLY DEFERRED")
		case 1:
			return name + "CHECK (" + pick(column()+" < 5", column()+" > 0", column()+" < "+column(), "pk <> 'two'", "yes", "length(\"Odd \"\"name\") < 9") + ")" + pick("", "", " NO INHERIT")
		}
		return name + "FOREIGN KEY (" + pick(column()+") REFERENCES parent", column()+") REFERENCES parent (id)", "a, b) REFERENCES parent (a, b)", column()+") REFERENCES child (id)", "pk) REFERENCES parent (k)") +
			pick("", "", " MATCH FULL") + pick("", " ON DELETE CASCADE", " ON UPDATE SET NULL") + pick("", "", " DEFERRABLE INITIALLY DEFERRED")
	}
	run, values := clients[0].run, regexp.MustCompile(`=\(.*?\)`)
	succeed, failed := 0, map[string]int{}
	for i := range 60 {
		if i%12 == 0 {
			for _, database := range []string{"postgres", "plain"} {
				pg.SQL(t, database, constrained)
			}
		}
		sql := "ALTER TABLE child ADD " + constraint()
		for random.IntN(3) == 0 {
			sql += ", ADD " + pick(constraint(), constraint(), "COLUMN "+pick("x", "y", "pid")+" int "+pick("UNIQUE", "REFERENCES parent", "CHECK (x > 0)", "NULL"))
		}
		_, want := run(ctx, pg.DSN("plain"), sql, nil)
		_, err := run(ctx, sluice.DSN("postgres"), sql, nil)
		// Of several mistakes in one statement one is told, and of several rows: which, is not compared.
		one := !strings.Contains(sql, ", ADD ") && (code(err) != "42710" || code(want) != "42703") // a name that is taken, a column that is not there
		if values.ReplaceAllString(whole(err), "") != values.ReplaceAllString(whole(want), "") && (one || (err == nil) != (want == nil)) {
			t.Errorf("%s:\n got %s (%s)\nwant %s", sql, whole(err), hintOf(err), whole(want))
		}
		if got, want := pg.SQL(t, "postgres", standing), pg.SQL(t, "plain", standing); got != want {
			t.Fatalf("%s:\n%s", sql, differing(got, want))
		}
		if failed[code(err)]++; err == nil {
			succeed++
		}
	}
	if t.Log(failed); succeed < 8 || len(failed) < 5 {
		t.Errorf("%d statements succeed, others fail by %v", succeed, failed)
	}
}

// differing are the lines that only one of two texts has.
func differing(got, want string) string {
	var out strings.Builder
	has := func(text, line string) bool { return strings.Contains("\n"+text+"\n", "\n"+line+"\n") }
	for line := range strings.SplitSeq(got, "\n") {
		if !has(want, line) {
			fmt.Fprintln(&out, " got", line)
		}
	}
	for line := range strings.SplitSeq(want, "\n") {
		if !has(got, line) {
			fmt.Fprintln(&out, "want", line)
		}
	}
	return out.String()
}

// Where a statement does not stand alone it is refused, and says so; where a key is added it
// says where keys are made.
func TestConstraintsElsewhere(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, sim, sluice := plainAndSluice(t, nil)
	pg.SQL(t, "postgres", constrained)
	before := pg.SQL(t, "postgres", standing)
	conn := dialled(t, sluice, pgx.QueryExecModeSimpleProtocol)
	const add = "ALTER TABLE child ADD UNIQUE (pid)"
	for sql, hint := range map[string]string{
		"SELECT 1; " + add: "Or send the statement alone", add + "; " + add: "CREATE UNIQUE INDEX ASYNC",
		"ALTER TABLE child ADD UNIQUE (a, a)":                                    "create a unique index ASYNC first",
		"ALTER TABLE child ADD CHECK (a > 0), DROP COLUMN b":                     "VALIDATE by ALTER TABLE ASYNC",
		"ALTER TABLE empty ADD PRIMARY KEY (a)":                                  "Name the key in CREATE TABLE",
		"ALTER TABLE empty ADD CONSTRAINT x EXCLUDE (a WITH =)":                  "Check it in the application",
		"ALTER TABLE child ALTER a SET NOT NULL":                                 "ddl.set_not_null",
		"ALTER TABLE child ADD COLUMN IF NOT EXISTS z int REFERENCES parent (k)": "ADD COLUMN name type",
		"ALTER TABLE child ADD COLUMN z int[] UNIQUE":                            "Store it as text",
	} {
		if _, err := conn.Exec(ctx, sql); code(err) != "0A000" || !strings.Contains(hintOf(err), hint) {
			t.Errorf("%s: %v (%s)", sql, err, hintOf(err))
		}
	}
	for _, sql := range []string{"BEGIN", "BEGIN; SELECT 1"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(ctx, add); code(err) != "0A000" || !strings.Contains(hintOf(err), "alone outside of a transaction") {
			t.Errorf("in a block: %v (%s)", err, hintOf(err))
		}
		if _, err := conn.Exec(ctx, add); code(err) != "25P02" {
			t.Errorf("in a block that has failed: %v", err)
		}
		if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
	}
	batched := dialled(t, sluice, pgx.QueryExecModeExec)
	for _, order := range [][2]string{{add, "INSERT INTO empty VALUES (1)"}, {"INSERT INTO empty VALUES (1)", add}, {add, add}} {
		batch := &pgx.Batch{}
		batch.Queue(order[0])
		batch.Queue(order[1])
		if err := batched.SendBatch(ctx, batch).Close(); code(err) != "0A000" {
			t.Errorf("in a pipeline: %v", err)
		}
	}
	if got := pg.SQL(t, "postgres", standing); got != before {
		t.Errorf("something stands:\n%s", differing(got, before))
	}
	if n := pg.SQL(t, "postgres", "SELECT count(*) FROM empty"); n != "0" {
		t.Errorf("%s rows", n)
	}
	// A prepared statement is carried out each time that it is run.
	if _, err := batched.Prepare(ctx, "add", add); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := batched.Exec(ctx, "add"); err != nil {
			t.Error(err)
		}
	}
	if got := pg.SQL(t, "postgres", "SELECT string_agg(conname, ' ' ORDER BY conname) FROM pg_constraint WHERE conrelid = 'child'::regclass AND contype = 'u'"); got != "child_pid_key child_pid_key1" {
		t.Errorf("there are %s", got)
	}
	refusing := harness.StartSluice(t, harness.SluiceConfig{Bin: harness.Binaries(t), Env: sim.Env().With(harness.Env{"DSQL_DDL_ADD_CONSTRAINT": "refuse"})})
	if _, err := dialled(t, refusing, pgx.QueryExecModeExec).Exec(ctx, add); code(err) != "0A000" {
		t.Errorf("switched off: %v", err)
	}
}

// NOT NULL is a CHECK where that is asked for: said by a warning, validated, once, and with the
// error of PostgreSQL where rows are against it.
func TestNotNullAsCheck(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, _, sluice := plainAndSluice(t, harness.Env{"DSQL_DDL_SET_NOT_NULL": "check"})
	for _, database := range []string{"postgres", "plain"} {
		pg.SQL(t, database, constrained)
	}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeCacheStatement} {
		pg.SQL(t, "postgres", constrained)
		config, err := pgx.ParseConfig(sluice.DSN("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		var notices []string
		config.DefaultQueryExecMode = mode
		config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { notices = append(notices, told((*pgconn.PgError)(n))) }
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		const warning = `WARNING|01000|column "%s" is held to NOT NULL by the constraint "%s"|DSQL refuses SET NOT NULL.`
		for _, test := range []struct{ sql, want, constraint string }{
			{"ALTER TABLE child ALTER COLUMN id SET NOT NULL", "", ""},
			{"ALTER TABLE child ALTER nn SET NOT NULL", "", ""},
			{"ALTER TABLE child ALTER COLUMN pid SET NOT NULL", `ERROR|23502|column "pid" of relation "child" contains null values||`, ""},
			{"ALTER TABLE child ALTER COLUMN nothing SET NOT NULL", `ERROR|42703|column "nothing" of relation "child" does not exist||`, ""},
			{"ALTER TABLE self ALTER other SET NOT NULL", fmt.Sprintf(warning, "other", "self_other_sluice_not_null"), "self_other_sluice_not_null CHECK ((other IS NOT NULL)) t"},
			{"ALTER TABLE self ALTER other SET NOT NULL", "", "self_other_sluice_not_null CHECK ((other IS NOT NULL)) t"},
			{"ALTER TABLE self ALTER other DROP NOT NULL", "", ""},
			{"ALTER TABLE self ALTER other DROP NOT NULL, ALTER up SET DEFAULT 1", "", ""},
			{"ALTER TABLE self ALTER other SET NOT NULL", fmt.Sprintf(warning, "other", "self_other_sluice_not_null"), "self_other_sluice_not_null CHECK ((other IS NOT NULL)) t"},
			{"ALTER TABLE child ALTER nn DROP NOT NULL", "", ""},
			{"ALTER TABLE empty ADD COLUMN late int NOT NULL", fmt.Sprintf(warning, "late", "empty_late_sluice_not_null"), "empty_late_sluice_not_null CHECK ((late IS NOT NULL)) t"},
			{"ALTER TABLE child ADD COLUMN late int NOT NULL", `ERROR|23502|column "late" of relation "child" contains null values||`, ""},
		} {
			notices = nil
			_, err := conn.Exec(ctx, test.sql)
			got := strings.Join(notices, "\n")
			if e, ok := errors.AsType[*pgconn.PgError](err); ok {
				got = told(e)
			} else if err != nil {
				got = err.Error()
			}
			if got != test.want && !(strings.HasPrefix(test.want, "WARNING") && strings.HasPrefix(got, test.want)) {
				t.Errorf("%s, %s: %s", mode, test.sql, got)
			}
			if strings.HasPrefix(test.want, "ERROR") {
				if _, want := pqRemoves(ctx, pg.DSN("plain"), test.sql); strings.Join(strings.SplitN(whole(err), "|", 9)[:4], "|") != strings.Join(strings.SplitN(whole(want), "|", 9)[:4], "|") {
					t.Errorf("%s: %s, PostgreSQL says %s", test.sql, whole(err), whole(want))
				}
			}
			table := strings.Fields(test.sql)[2]
			if made := pg.SQL(t, "postgres", "SELECT coalesce(string_agg(concat_ws(' ', conname, pg_get_constraintdef(oid), convalidated), '; '), '') FROM pg_constraint WHERE contype = 'c' AND conrelid = '"+table+"'::regclass"); made != test.constraint {
				t.Errorf("%s, %s: there is %q", mode, test.sql, made)
			}
		}
		if _, err := conn.Exec(ctx, "INSERT INTO self VALUES (9, 1, NULL)"); code(err) != "23514" {
			t.Errorf("a NULL is taken: %v", err)
		}
	}
}

// psql, as people use it: its answers and errors are those of PostgreSQL.
func TestConstraintsByPsql(t *testing.T) {
	t.Parallel()
	pg, _, sluice := plainAndSluice(t, nil)
	const script = `\set VERBOSITY verbose
ALTER TABLE child ADD CONSTRAINT u UNIQUE (a);
ALTER TABLE child ADD FOREIGN KEY (bad) REFERENCES parent;
ALTER TABLE IF EXISTS nothing ADD CHECK (a > 0);
ALTER TABLE child
	ADD CHECK (a > 0) /* ; */,
	ADD FOREIGN KEY (pid)
	REFERENCES parent; -- done
\d child
`
	var got [2]string
	for i, dsn := range []string{sluice.DSN("postgres"), pg.DSN("plain")} {
		pg.SQL(t, []string{"postgres", "plain"}[i], constrained)
		got[i] = printed(t, pg.Program("psql", "-X", "-d", dsn), script)
		got[i] = regexp.MustCompile(`(?m)^LOCATION: .*\n`).ReplaceAllString(got[i], "")
	}
	if got[0] != got[1] || !strings.Contains(got[0], `"child_pid_fkey" FOREIGN KEY (pid) REFERENCES parent(id)`) {
		t.Errorf("psql printed\n%s\nand of PostgreSQL\n%s", got[0], got[1])
	}
}

// A table with mapped columns gets constraints over its other columns. One over a mapped column
// is refused, and its hint has what to write, which works.
func TestConstraintsOfMappedTables(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, _, sluice := plainAndSluice(t, nil)
	conn := dialled(t, sluice, pgx.QueryExecModeExec)
	run := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(sql, err, hintOf(err))
		}
	}
	pg.SQL(t, "postgres", "CREATE SCHEMA other")
	run("CREATE TABLE keyed (k bytea PRIMARY KEY, n int, v bytea)")
	run("CREATE TABLE pointing (id int PRIMARY KEY, k bytea UNIQUE, n int)")
	run(`INSERT INTO keyed VALUES ('\x00ff', 1, '\x01'), ('\x01', 2, '\x01')`)
	run(`INSERT INTO pointing VALUES (1, '\x00ff', 1)`)
	run("ALTER TABLE keyed ADD UNIQUE (n)")
	run("ALTER TABLE keyed ADD CHECK (n > 0)")
	run("ALTER TABLE pointing ADD FOREIGN KEY (n) REFERENCES keyed (n)")
	before := pg.SQL(t, "postgres", standing)
	for _, sql := range []string{"ALTER TABLE keyed ADD UNIQUE (k, n)", `ALTER TABLE keyed ADD CHECK (k <> '\x77')`, "ALTER TABLE pointing ADD FOREIGN KEY (k) REFERENCES keyed",
		"ALTER TABLE keyed ADD UNIQUE (v)", "ALTER TABLE keyed ADD COLUMN w bytea UNIQUE", "ALTER TABLE pointing ADD COLUMN w bytea REFERENCES keyed"} {
		if _, err := conn.Exec(ctx, sql); err == nil {
			t.Errorf("%s is carried out", sql)
		}
		if got := pg.SQL(t, "postgres", standing); got != before {
			t.Errorf("%s:\n%s", sql, differing(got, before))
		}
	}
	_, err := conn.Exec(ctx, "ALTER TABLE pointing ADD FOREIGN KEY (k) REFERENCES keyed (k)")
	if code(err) != "0A000" {
		t.Fatal(err)
	}
	steps, ok := strings.CutPrefix(hintOf(err), "Write, each in a transaction of its own: ")
	if !ok {
		t.Fatal(hintOf(err))
	}
	for sql := range strings.SplitSeq(strings.TrimSuffix(steps, "."), "; ") {
		run(sql)
	}
	if _, err := conn.Exec(ctx, `INSERT INTO pointing VALUES (2, '\x05', 1)`); code(err) != "23503" {
		t.Errorf("a key that is not there is taken: %v", err)
	}
	var k []byte
	if err := conn.QueryRow(ctx, "SELECT p.k FROM pointing p JOIN keyed USING (k) WHERE keyed.n = 1").Scan(&k); err != nil || string(k) != "\x00\xff" {
		t.Errorf("%x %v", k, err)
	}
}

// A unique index whose rows have duplicates fails as it does in PostgreSQL, again and again, and nothing
// of it is left. IF NOT EXISTS does not succeed on one that somebody else has left.
func TestUniqueIndexThatFails(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, sim, sluice := plainAndSluice(t, nil)
	for _, database := range []string{"postgres", "plain"} {
		pg.SQL(t, database, constrained)
	}
	before := pg.SQL(t, "postgres", standing)
	for _, way := range clients {
		for _, sql := range []string{
			"CREATE UNIQUE INDEX failing ON child (twice)",
			"CREATE UNIQUE INDEX IF NOT EXISTS failing ON child (twice)",
			"CREATE UNIQUE INDEX CONCURRENTLY failing ON child (twice, \"Odd \"\"name\") INCLUDE (id)",
			"CREATE UNIQUE INDEX failing ON child ((twice + nn), lower(\"Odd \"\"name\"))",
			"CREATE UNIQUE INDEX failing ON child (pk) NULLS NOT DISTINCT",
			"CREATE UNIQUE INDEX failing ON child (twice) WHERE id < 3",
			"CREATE UNIQUE INDEX ON child (\"order\", twice)",
		} {
			_, want := way.run(ctx, pg.DSN("plain"), sql, nil)
			_, err := way.run(ctx, sluice.DSN("postgres"), sql, nil)
			pg.SQL(t, "plain", "DROP INDEX IF EXISTS failing") // CONCURRENTLY leaves it there
			if code(err) != "23505" || whole(err) != whole(want) {
				t.Errorf("%s, %s:\n got %s\nwant %s", way.name, sql, whole(err), whole(want))
			}
			if got := pg.SQL(t, "postgres", standing); got != before {
				t.Fatalf("%s, %s leaves:\n%s", way.name, sql, differing(got, before))
			}
		}
	}

	const ifNotExists = "CREATE UNIQUE INDEX IF NOT EXISTS failing ON public.child (twice)"
	run := func(sql string) error {
		_, err := dialled(t, sluice, pgx.QueryExecModeSimpleProtocol).Exec(ctx, sql)
		return err
	}
	// begun has a client without Sluice begin the index, and go.
	begun := func(sql string) {
		config, err := pgx.ParseConfig(direct(t, sim))
		if err != nil {
			t.Fatal(err)
		}
		config.LookupFunc, config.DefaultQueryExecMode = loopback, pgx.QueryExecModeSimpleProtocol
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	begun("CREATE UNIQUE INDEX ASYNC failing ON child (twice)")
	// Its job is still at work, or has failed by then: both ways it is no success.
	if err := run(ifNotExists); code(err) != "23505" && code(err) != "55000" {
		t.Errorf("while its job is at work: %v", err)
	}
	begun("CREATE UNIQUE INDEX ASYNC IF NOT EXISTS failing ON child (twice)")
	for pg.SQL(t, "postgres", "SELECT count(*) FROM sys.jobs WHERE status = 'submitted'") != "0" {
		time.Sleep(5 * time.Millisecond)
	}
	if err := run(ifNotExists); code(err) != "55000" || !strings.Contains(hintOf(err), "DROP INDEX") {
		t.Errorf("of an index that is not valid: %v (%s)", err, hintOf(err))
	}
	notLookedAt(ctx, t, sluice.DSN("postgres"), ifNotExists)
	pg.SQL(t, "postgres", "DROP INDEX failing; UPDATE child SET twice = id")
	for range 2 { // the second finds a valid one
		if err := run(ifNotExists); err != nil {
			t.Errorf("of rows that differ: %v", err)
		}
	}
	if valid := pg.SQL(t, "postgres", "SELECT indisvalid FROM pg_index WHERE indexrelid = 'failing'::regclass"); valid != "t" {
		t.Errorf("valid: %s", valid)
	}
}

// notLookedAt has IF NOT EXISTS find an index that is not valid where nobody looks: a WARNING says so, and is not
// sent for an index that is begun.
func notLookedAt(ctx context.Context, t *testing.T, dsn, sql string) {
	t.Helper()
	config, err := pgconn.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	warned, builds := false, 0
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.Code == "01000" && strings.Contains(n.Message, "nobody waits for it") {
			builds++
		}
		warned = warned || n.Code == "01000" && strings.Contains(n.Message, `"failing"`)
	}
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	text := func(sql string) func() error {
		return func() error { return conn.Exec(ctx, sql).Close() }
	}
	piped := func(texts ...string) func() error {
		return func() error {
			batch := &pgconn.Batch{}
			for _, sql := range texts {
				batch.ExecParams(sql, nil, nil, nil, nil)
			}
			return conn.ExecBatch(ctx, batch).Close()
		}
	}
	for name, run := range map[string]func() error{
		"in a block":               text("BEGIN; " + sql + "; ROLLBACK"),
		"in front of a read":       text(sql + "; SELECT 1"),
		"in front of one, piped":   piped(sql, "SELECT 1"),
		"in a block, and extended": func() error { return errors.Join(text("BEGIN")(), piped(sql)(), text("ROLLBACK")()) },
	} {
		if warned = false; run() != nil || !warned {
			t.Errorf("%s: %v, warned %t", name, run(), warned)
		}
	}
	if warned = false; text("BEGIN; CREATE INDEX IF NOT EXISTS other_failing ON child (id); ROLLBACK")() != nil || warned {
		t.Error("an index that is begun is warned of")
	}
	const begins = "CREATE UNIQUE INDEX begun ON child (twice)" // over duplicates: it never becomes valid
	for i, run := range []func() error{text("BEGIN; " + begins + "; ROLLBACK"), piped("BEGIN", begins, "ROLLBACK"), func() error {
		return errors.Join(text("BEGIN")(), text(begins)(), text("ROLLBACK")())
	}} {
		if builds = 0; run() != nil || builds != 0 {
			t.Errorf("%d: %v, warned %d times of an index that is rolled back", i, run(), builds)
		}
	}
	if builds = 0; text("CREATE INDEX other_failing ON child (id)")() != nil || builds != 0 {
		t.Errorf("warned %d times of an index whose job is awaited", builds)
	}
}
