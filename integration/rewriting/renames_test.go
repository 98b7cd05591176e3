package rewriting

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

var (
	renamesCount = flag.Int("renames.count", 8, "how many random migrations with renames are played")
	renamesSeed  = flag.Uint64("renames.seed", 0, "seed of the random migrations with renames; 0: another one each time")
)

// heldAlike is what the catalog holds columns to, with NOT NULL and a CHECK that replaces it alike.
// CHECKs that Sluice makes for NOT NULL are left out: PostgreSQL has none.
const heldAlike = `SELECT coalesce(string_agg(x, E'\n' ORDER BY x), '') FROM (
	SELECT format('column %s.%s.%s %s null:%s', n.nspname, c.relname, a.attname,
			CASE WHEN t.typtype IN ('d', 'e') THEN 'own' ELSE format_type(a.atttypid, a.atttypmod) END,
			NOT (a.attnotnull OR EXISTS (SELECT 1 FROM pg_constraint p WHERE p.conrelid = c.oid AND p.contype = 'c' AND p.conkey = ARRAY[a.attnum]
				AND p.convalidated AND pg_get_constraintdef(p.oid) = format('CHECK ((%I IS NOT NULL))', a.attname)))) x
		FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_type t ON t.oid = a.atttypid
		WHERE c.relkind = 'r' AND n.nspname IN ('public', 's1', 's2', 's3') AND a.attnum > 0 AND NOT a.attisdropped
	UNION ALL SELECT format('constraint %s %s %s %s', p.conrelid::regclass, p.conname, p.convalidated, pg_get_constraintdef(p.oid))
		FROM pg_constraint p JOIN pg_class c ON c.oid = p.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname IN ('public', 's1', 's2', 's3') AND p.conname !~ '_sluice_not_null\d*$'
	UNION ALL SELECT format('index %s valid:%s', pg_get_indexdef(i.indexrelid), i.indisvalid)
		FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname IN ('public', 's1', 's2', 's3')) y`

// renamer makes random statements of migrations that rename what earlier statements have made.
type renamer struct {
	*rand.Rand
	pg *pgtest.Server
	t  *testing.T
}

func (r *renamer) pick(of ...string) string { return of[r.IntN(len(of))] }

// there is a random row of a query at PostgreSQL; without one it is otherwise. Once in eight it is too.
func (r *renamer) there(otherwise, query string) string {
	rows := strings.Split(r.pg.SQL(r.t, "plain", query), "\n")
	if rows[0] == "" || r.IntN(8) == 0 {
		return otherwise
	}
	return r.pick(rows...)
}

// Few names, so that they are taken, and come back for something else.
func (r *renamer) newTable() string  { return r.pick("t", "u", `"T 3"`) }
func (r *renamer) newColumn() string { return r.pick("a", "b", "c", `"C d"`) }
func (r *renamer) newName() string {
	return r.pick("n1", "n2", `"N 3"`, "t_a_key", "n_not_null", "t_a_not_null")
}

// statement is one of a migration.
func (r *renamer) statement() string {
	const inOurs = "JOIN pg_class c ON c.oid = %s JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname IN ('public', 's1', 's2', 's3')"
	table := r.there("t", "SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND n.nspname IN ('public', 's1', 's2', 's3') ORDER BY 1")
	column := r.there("a", "SELECT format('%I', attname) FROM pg_attribute WHERE attrelid = to_regclass('"+table+"') AND attnum > 0 AND NOT attisdropped AND attname <> 'id' ORDER BY 1")
	alter := "ALTER TABLE " + table + " "
	constraint := func() string {
		return r.there("t_a_check", "SELECT format('%I', conname) FROM pg_constraint WHERE conrelid = to_regclass('"+table+"') AND contype <> 'p' ORDER BY 1")
	}
	switch r.IntN(15) {
	case 0, 1, 2:
		return alter + "ALTER COLUMN " + column + " SET NOT NULL"
	case 3, 4, 5:
		return alter + "ALTER COLUMN " + column + " DROP NOT NULL"
	case 6, 7:
		return alter + "RENAME COLUMN " + column + " TO " + r.newColumn()
	case 8:
		return r.pick(alter+"RENAME TO "+r.newTable(), "ALTER SCHEMA "+r.pick("s1", "s2")+" RENAME TO "+r.pick("s1", "s2", "s3"))
	case 9:
		return alter + "SET SCHEMA " + r.pick("public", "s1", "s2")
	case 10:
		return alter + "ADD " + r.pick("", "CONSTRAINT "+r.newName()+" ") + r.pick("UNIQUE ("+column+")", "CHECK ("+column+" > 0)", "CHECK ("+column+" <> 7)", "CHECK ("+column+" IS NOT NULL)")
	case 11:
		return alter + "RENAME CONSTRAINT " + constraint() + " TO " + r.newName()
	case 12:
		index := r.there("t_a_key", fmt.Sprintf("SELECT format('%%I.%%I', n.nspname, c.relname) FROM pg_index i "+inOurs+" ORDER BY 1", "i.indexrelid"))
		return "ALTER INDEX " + index + " RENAME TO " + r.newName()
	case 13:
		return r.pick("CREATE UNIQUE INDEX ", "CREATE INDEX ", "CREATE UNIQUE INDEX IF NOT EXISTS ") + r.newName() + " ON " + table + " (" + column + ")"
	}
	return alter + r.pick("DROP CONSTRAINT "+constraint(), "ADD COLUMN "+r.newColumn()+" int UNIQUE", "ADD COLUMN "+r.newColumn()+" int NOT NULL DEFAULT 1",
		"ADD COLUMN "+r.newColumn()+" int", "ALTER COLUMN "+column+" TYPE "+r.pick("bigint", "int"), "DROP COLUMN "+column)
}

// outcomeOf runs one statement and returns its SQLSTATE, "" for success.
func outcomeOf(ctx context.Context, t *testing.T, conn *pgx.Conn, sql string) string {
	t.Helper()
	_, err := conn.Exec(ctx, sql)
	if err != nil && code(err) == "" {
		t.Fatalf("%s: %v", sql, err)
	}
	return code(err)
}

// Random migrations that rename columns, tables, schemas, constraints and indexes leave what PostgreSQL
// holds columns to, and each of their statements fails where it fails there.
func TestRenamesAsInPostgreSQL(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, _, sluice := plainAndSluice(t, harness.Env{"DSQL_DDL_SET_NOT_NULL": "check", "DSQL_DDL_ADD_COLUMN_DEFAULT": "backfill", "DSQL_DDL_ALTER_COLUMN_TYPE": "rewrite"})
	seed := *renamesSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-renames.seed %d", seed)
	plain, through := plainConn(ctx, t, pg), dialled(t, sluice, pgx.QueryExecModeSimpleProtocol)
	codes := map[string]int{}
	for n := range *renamesCount {
		r := &renamer{Rand: rand.New(rand.NewPCG(seed, uint64(n))), pg: pg, t: t}
		for _, database := range []string{"postgres", "plain"} {
			pg.SQL(t, database, `DROP SCHEMA IF EXISTS s1, s2, s3 CASCADE; DROP TABLE IF EXISTS t, u CASCADE; CREATE SCHEMA s1; CREATE SCHEMA s2;
				CREATE TABLE t (id int PRIMARY KEY, a int, b int); CREATE TABLE u (id int PRIMARY KEY, a int, b int); CREATE TABLE s1.t (id int PRIMARY KEY, a int, "C d" int);
				INSERT INTO t VALUES (1, 1, 1), (2, 2, 1); INSERT INTO s1.t VALUES (1, NULL, 3)`)
		}
		var done []string
		for range 30 {
			sql := r.statement()
			got := outcomeOf(ctx, t, through, sql)
			if got == "0A000" {
				continue // refused: nothing of it is carried out
			}
			want := outcomeOf(ctx, t, plain, sql)
			codes[got]++
			done = append(done, fmt.Sprintf("%s -- %s", sql, got))
			if got != want {
				t.Fatalf("migration %d: %q, PostgreSQL has %q:\n%s", n, got, want, strings.Join(done, "\n"))
			}
			if got, want := pg.SQL(t, "postgres", heldAlike), pg.SQL(t, "plain", heldAlike); got != want {
				t.Fatalf("migration %d:\n%s\nbehind:\n%s", n, differing(got, want), strings.Join(done, "\n"))
			}
		}
	}
	if t.Log(codes); codes[""] < *renamesCount || len(codes) < 4 {
		t.Errorf("the statements were of too few kinds: %v", codes)
	}
}

// DROP NOT NULL drops the CHECK that replaces NOT NULL, whatever was renamed since. A CHECK under a name
// that Sluice does not give stays, and a warning names it.
func TestDropNotNullBehindRenames(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, _, sluice := plainAndSluice(t, harness.Env{"DSQL_DDL_SET_NOT_NULL": "check"})
	config, err := pgx.ParseConfig(sluice.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	var notices []string
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { notices = append(notices, n.Message) }
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	long := strings.Repeat("long_", 12)
	for _, c := range []struct {
		name, table, column, constraint string // of the column in the end, and of a CHECK that stays
		renames                         []string
	}{
		{"no rename", "r", "a", "", nil},
		{"the column", "r", "b", "", []string{"ALTER TABLE r RENAME a TO b"}},
		{"the table", "s", "a", "", []string{"ALTER TABLE r RENAME TO s"}},
		{"both, to long names", long + "t", long + "c", "", []string{"ALTER TABLE r RENAME a TO " + long + "c", "ALTER TABLE r RENAME TO " + long + "t"}},
		{"the schema", "s1.r", "a", "", []string{"ALTER TABLE r SET SCHEMA s1"}},
		{"a column that has the old name", "r", "b", "", []string{"ALTER TABLE r RENAME a TO b", "ALTER TABLE r ADD COLUMN a int", "ALTER TABLE r ALTER a SET NOT NULL"}},
		{"its own CHECK behind it", "r", "a", "r_a_not_null", []string{"ALTER TABLE r ADD CONSTRAINT r_a_not_null CHECK (a IS NOT NULL)"}},
		{"the constraint", "r", "a", "other", []string{"ALTER TABLE r RENAME CONSTRAINT r_a_sluice_not_null TO other"}},
	} {
		pg.SQL(t, "postgres", "DROP SCHEMA IF EXISTS s1 CASCADE; DROP TABLE IF EXISTS r, s, "+long+"t; CREATE SCHEMA s1")
		statements := append([]string{"CREATE TABLE r (id int PRIMARY KEY, a int)", "ALTER TABLE r ALTER a SET NOT NULL"}, c.renames...)
		for _, sql := range append(statements, "ALTER TABLE "+c.table+" ALTER "+c.column+" DROP NOT NULL") {
			notices = nil
			if _, err := conn.Exec(ctx, sql); err != nil {
				t.Fatalf("%s: %s: %v", c.name, sql, err)
			}
		}
		_, err := conn.Exec(ctx, "UPDATE "+c.table+" SET "+c.column+" = NULL; INSERT INTO "+c.table+" (id"+strings.Repeat(", a", strings.Count(c.name, "old name"))+") VALUES (1"+strings.Repeat(", 1", strings.Count(c.name, "old name"))+")")
		if stays := c.constraint != ""; stays != (code(err) == "23514") || stays != strings.Contains(strings.Join(notices, "\n"), `still held to NOT NULL by the constraint "`+c.constraint) {
			t.Errorf("%s: a NULL: %v; %q", c.name, err, notices)
		}
	}
}

// A CHECK of the client's own that says NOT NULL is not what SET NOT NULL makes, nor what DROP NOT NULL takes
// away, under each name that people give it and on each way to the other.
func TestNotNullBesideTheClientsCheck(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, _, sluice := plainAndSluice(t, harness.Env{"DSQL_DDL_SET_NOT_NULL": "check"})
	plain, through := plainConn(ctx, t, pg), dialled(t, sluice, pgx.QueryExecModeSimpleProtocol)
	for _, name := range []string{"r_a_not_null", "a_not_null", "r_a_check", "r_a_not_null1"} {
		check := "ALTER TABLE r ADD CONSTRAINT " + name + " CHECK (a IS NOT NULL)"
		for _, statements := range [][]string{
			{check, "ALTER TABLE r ALTER a DROP NOT NULL"},
			{check, "ALTER TABLE r ALTER a SET NOT NULL", "ALTER TABLE r ALTER a DROP NOT NULL"},
			{check, "ALTER TABLE r ALTER a SET NOT NULL", "ALTER TABLE r DROP CONSTRAINT " + name}, // as strong_migrations has it
			{check + " NOT VALID", "ALTER TABLE r ALTER a SET NOT NULL", "ALTER TABLE r DROP CONSTRAINT " + name},
			{"ALTER TABLE r ALTER a SET NOT NULL", check, "ALTER TABLE r ALTER a DROP NOT NULL"},
			{"ALTER TABLE r ALTER a SET NOT NULL", check, "ALTER TABLE r ALTER a SET NOT NULL", "ALTER TABLE r ALTER a DROP NOT NULL", "ALTER TABLE r DROP CONSTRAINT " + name},
		} {
			for _, database := range []string{"postgres", "plain"} {
				pg.SQL(t, database, "DROP TABLE IF EXISTS r; CREATE TABLE r (id int PRIMARY KEY, a int); INSERT INTO r VALUES (1, 1)")
			}
			for _, sql := range append(statements, "SELECT 1") {
				if got, want := outcomeOf(ctx, t, through, sql), outcomeOf(ctx, t, plain, sql); got != want {
					t.Fatalf("%q: %s: %q, PostgreSQL has %q", statements, sql, got, want)
				}
			}
			if got, want := pg.SQL(t, "postgres", heldAlike), pg.SQL(t, "plain", heldAlike); got != want {
				t.Errorf("behind %q:\n%s", statements, differing(got, want))
			}
			refusesNull := func(conn *pgx.Conn) bool { return outcomeOf(ctx, t, conn, "UPDATE r SET a = NULL") != "" }
			if got, want := refusesNull(through), refusesNull(plain); got != want {
				t.Errorf("behind %q a NULL is refused: %t, PostgreSQL has %t", statements, got, want)
			}
		}
	}
}

// A constraint that is added takes nothing that the client has made itself under the name that it is to have, whether
// the client names it or PostgreSQL would, and whether it means the same: both are as in PostgreSQL.
func TestConstraintsBesideTheClientsOwn(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, _, sluice := plainAndSluice(t, harness.Env{"DSQL_DDL_SET_NOT_NULL": "check", "DSQL_DDL_ADD_COLUMN_DEFAULT": "backfill"})
	plain, through := plainConn(ctx, t, pg), dialled(t, sluice, pgx.QueryExecModeSimpleProtocol)
	const unique, check, key = "CREATE UNIQUE INDEX t_a_key ON t (a)", "ALTER TABLE t ADD CHECK (a > 0) NOT VALID", "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES p NOT VALID"
	outcomes := map[string]int{}
	for _, statements := range [][]string{
		{unique, "ALTER TABLE t ADD UNIQUE (a)", "ALTER TABLE t ADD UNIQUE (a)", "DROP INDEX t_a_key"},
		{"CREATE UNIQUE INDEX n ON t (a)", "ALTER INDEX n RENAME TO t_a_key", "ALTER TABLE t ADD UNIQUE (a)"},
		{"CREATE INDEX t_a_key ON t (a)", "ALTER TABLE t ADD UNIQUE (a)"},
		{"CREATE TABLE t_a_key (id int)", "ALTER TABLE t ADD UNIQUE (a)"},
		{"CREATE VIEW t_a_key AS SELECT 1", "ALTER TABLE t ADD UNIQUE (a)"},
		{"ALTER TABLE u ADD CONSTRAINT t_a_key CHECK (a > 0)", "ALTER TABLE t ADD UNIQUE (a)"},
		{unique, "ALTER TABLE t ADD CONSTRAINT t_a_key UNIQUE (a)", "ALTER TABLE t ADD CONSTRAINT n UNIQUE (a)"},
		{unique, "ALTER TABLE t ADD CONSTRAINT t_a_key CHECK (a > 0)", "ALTER TABLE t ADD CONSTRAINT t_a_key CHECK (a > 0)"},
		{check, "ALTER TABLE t ADD CHECK (a > 0)", "ALTER TABLE t ADD CHECK (a > 0)", "ALTER TABLE t DROP CONSTRAINT t_a_check"},
		{check, "ALTER TABLE t ADD CONSTRAINT t_a_check CHECK (a > 0)", "ALTER TABLE t ADD CONSTRAINT n CHECK (a > 0)"},
		{"ALTER TABLE u ADD CONSTRAINT t_a_check CHECK (a > 0)", "ALTER TABLE t ADD CHECK (a > 0)", "ALTER TABLE t ADD CONSTRAINT t_a_check CHECK (a > 1 OR a > 0)"},
		{"ALTER TABLE t ADD CHECK (a > 0), ADD CHECK (a > 0), ADD CHECK (a < 9)"},
		{"ALTER TABLE t ADD CONSTRAINT n CHECK (a > 0), ADD CONSTRAINT n CHECK (a > 0)"},
		{"ALTER TABLE t ADD CONSTRAINT n UNIQUE (a), ADD CONSTRAINT n CHECK (a > 0)"},
		{"ALTER TABLE t ADD CONSTRAINT t_a_check CHECK (a > 0), ADD CHECK (a > 0)"},
		{key, "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES p", "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES p", "ALTER TABLE t VALIDATE CONSTRAINT t_a_fkey"},
		{key, "ALTER TABLE t ADD CONSTRAINT t_a_fkey FOREIGN KEY (a) REFERENCES p"},
		{"CREATE UNIQUE INDEX t_c_key ON t (a)", "ALTER TABLE t ADD COLUMN c int UNIQUE"},
		{"CREATE UNIQUE INDEX t_c_key ON t (a)", "ALTER TABLE t ADD COLUMN c int DEFAULT 1 CHECK (c > 0) UNIQUE"},
		{"ALTER TABLE u ADD CONSTRAINT t_c_check CHECK (a > 0)", "ALTER TABLE t ADD COLUMN c int DEFAULT 1 CHECK (c > 0)", "ALTER TABLE t ADD COLUMN d int CHECK (d > 0)"},
		{"ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0)", "ALTER TABLE t ADD COLUMN d int DEFAULT 1 CONSTRAINT c CHECK (a > 0)", "ALTER TABLE t ADD COLUMN d int CONSTRAINT c CHECK (a > 0)"},
		{"ALTER TABLE t ADD CHECK (a > 0)", "ALTER TABLE t ADD COLUMN d int DEFAULT 1 CHECK (a > 0)", "ALTER TABLE t ADD COLUMN e int CHECK (a > 0)"},
		{"CREATE SEQUENCE t_s_seq", "ALTER TABLE t ADD COLUMN s serial", "CREATE SEQUENCE v_id_seq", "CREATE TABLE v (id serial PRIMARY KEY)", "DROP SEQUENCE v_id_seq"},
		{"CREATE SEQUENCE v_id_seq OWNED BY t.a", "CREATE TABLE v (id serial PRIMARY KEY)", "ALTER TABLE t DROP COLUMN a"},
	} {
		for _, database := range []string{"postgres", "plain"} {
			pg.SQL(t, database, `DROP TABLE IF EXISTS t, u, p, v CASCADE; DO $$ BEGIN DROP VIEW IF EXISTS t_a_key; EXCEPTION WHEN wrong_object_type THEN DROP TABLE t_a_key; END $$; DROP SEQUENCE IF EXISTS t_s_seq, v_id_seq;
				CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE t (id int PRIMARY KEY, a int); CREATE TABLE u (id int PRIMARY KEY, a int); INSERT INTO p VALUES (1); INSERT INTO t VALUES (1, 1)`)
		}
		for i, sql := range statements {
			got, want := outcomeOf(ctx, t, through, sql), ""
			if got == "0A000" && (i == 0 || strings.Contains(sql, "VALIDATE")) { // as clusters do: it is the client's own, from elsewhere
				pg.SQL(t, "postgres", sql)
				got = ""
			}
			if want = outcomeOf(ctx, t, plain, sql); got != want {
				t.Errorf("%q: %q, PostgreSQL has %q", statements[:i+1], got, want)
			}
			outcomes[want]++
			if got, want := pg.SQL(t, "postgres", heldAlike+ownedAlike), pg.SQL(t, "plain", heldAlike+ownedAlike); got != want {
				t.Errorf("behind %q:\n%s", statements[:i+1], differing(got, want))
			}
		}
	}
	if len(outcomes) < 3 {
		t.Errorf("the statements have too few outcomes: %v", outcomes)
	}
}

// ownedAlike adds sequences and what owns them.
const ownedAlike = ` UNION ALL SELECT string_agg(x, E'\n' ORDER BY x) FROM (SELECT format('sequence %s %s', c.oid::regclass,
	(SELECT pg_catalog.pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid) FROM pg_depend d WHERE d.objid = c.oid AND d.deptype IN ('a', 'i') AND d.classid = 'pg_class'::regclass)) x
	FROM pg_class c WHERE c.relkind = 'S' AND c.relnamespace = 'public'::regnamespace) z`

// plainConn is a connection to the database beside Sluice's, by no proxy.
func plainConn(ctx context.Context, t *testing.T, pg *pgtest.Server) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(pg.DSN("plain"))
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	config.OnNotice = func(*pgconn.PgConn, *pgconn.Notice) {}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}
