package rewriting

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// commanded are the tables that statements of several commands change; held shows them.
const commanded = `DROP TABLE IF EXISTS book, keyless, other.book CASCADE; DROP SCHEMA IF EXISTS other CASCADE; CREATE SCHEMA other; CREATE TABLE keyless (a int);
	CREATE TABLE book (id int PRIMARY KEY, title varchar(10) NOT NULL DEFAULT 'x', n int, m int DEFAULT 3, code varchar(5) UNIQUE, k int, gap int,
		CONSTRAINT once UNIQUE (n), CONSTRAINT pos CHECK (k > 0));
	INSERT INTO book SELECT i, 'title ' || i, i, i % 3, 'c' || i, i, CASE WHEN i <> 4 THEN i END FROM generate_series(1, 12) i; CREATE INDEX of_title ON book (title, m)`

// altering are commands of ALTER TABLE book.
var altering = []string{"DROP CONSTRAINT once", "DROP CONSTRAINT pos", "DROP CONSTRAINT IF EXISTS nothing", "DROP CONSTRAINT nothing", "ALTER title DROP NOT NULL", "ALTER COLUMN m DROP DEFAULT", "ALTER m SET DEFAULT 5",
	"ALTER title SET DEFAULT 'a, ''b'", "ALTER COLUMN title TYPE varchar(20)", "ALTER title TYPE text USING title::text", "ALTER title SET DATA TYPE varchar(2)", "ALTER n TYPE bigint", "ALTER n TYPE numeric(9, 2)", "ALTER m TYPE smallint",
	"ALTER k TYPE bigint", "ALTER n SET NOT NULL", "ALTER m SET NOT NULL", "ALTER gap SET NOT NULL", "ADD COLUMN x int", "ADD y int NOT NULL DEFAULT 7", "ADD COLUMN z int UNIQUE", "ALTER y SET DEFAULT 9", "ALTER x SET DEFAULT 9",
	"ADD CONSTRAINT once UNIQUE (m)", "ADD CONSTRAINT once UNIQUE (n, m)", "ADD CONSTRAINT pos CHECK (n > 0)", "ADD CHECK (n < 5)", "ADD UNIQUE (title, n)", "ADD FOREIGN KEY (n) REFERENCES book", "DROP COLUMN k", "DROP code", "DROP COLUMN IF EXISTS nothing",
	"ADD s serial", "ADD COLUMN bs bigserial UNIQUE", "ADD ss smallserial CHECK (ss < 100)"}

// ordered are statements whose commands are not carried out in the order in which they stand.
var ordered = []string{
	"ALTER m SET DEFAULT 5, ALTER m DROP DEFAULT, ALTER title TYPE text", "ADD CONSTRAINT once UNIQUE (m, id), ALTER n TYPE bigint, DROP CONSTRAINT once", "ALTER x SET DEFAULT 4, ADD COLUMN x int, ALTER n TYPE bigint",
	"ALTER title SET DEFAULT 'longer than it was', ALTER title TYPE varchar(30)", "ALTER n SET NOT NULL, ALTER n DROP NOT NULL", "ADD CONSTRAINT pos CHECK (title <> 'none'), DROP COLUMN k, ALTER title TYPE text, DROP CONSTRAINT pos",
	"ADD COLUMN y int DEFAULT 7, ADD COLUMN z int UNIQUE, ADD COLUMN x int", "ADD COLUMN z int UNIQUE, ADD COLUMN y int DEFAULT 7, ALTER n TYPE bigint", "ADD COLUMN y int DEFAULT 7 CHECK (y > 0), ADD COLUMN x int NOT NULL UNIQUE, ADD z int",
	"ADD COLUMN y int DEFAULT 7 CHECK (y > x), ADD COLUMN x int", "DROP COLUMN code, ADD COLUMN z int CONSTRAINT book_code_key UNIQUE", "ALTER n TYPE bigint, DROP COLUMN k, ADD COLUMN z int UNIQUE",
	"ADD COLUMN x int, ADD COLUMN s serial", "ADD COLUMN s smallserial NOT NULL, ADD bs bigserial UNIQUE, ADD z int", "ADD COLUMN s serial, ADD CONSTRAINT positive CHECK (s > 0)", "ADD COLUMN s serial, DROP CONSTRAINT nothing",
	"ADD COLUMN s serial, ADD x nosuchtype", "ADD x nosuchtype, ADD COLUMN s serial",
}

// inOrder are the columns that such a statement may add, in their order.
const inOrder = "SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'book'::regclass AND attname IN ('x', 'y', 'z')"

// Random statements of several commands leave what PostgreSQL leaves, or fail as there, or are
// refused with a hint and nothing changed. What one that fails half-way has done, its error tells.
func TestCommandsAsInPostgreSQL(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, _, sluice := plainAndSluice(t, harness.Env{"DSQL_DDL_CARRY_OUT": "all"})
	seed := uint64(time.Now().UnixNano())
	t.Log("seed ", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	ends := map[string]int{}
	for i := range 42 {
		for _, database := range []string{"postgres", "plain"} {
			pg.SQL(t, database, commanded)
		}
		before := pg.SQL(t, "postgres", held)
		var cmds []string
		for n := 2 + random.IntN(3); n > 0; n-- {
			cmds = append(cmds, altering[random.IntN(len(altering))])
		}
		sql := "ALTER TABLE " + []string{"book", "public.book", "ONLY book"}[random.IntN(3)] + " " + strings.Join(cmds, ", ")
		if i < len(ordered) {
			sql = "ALTER TABLE book " + ordered[i]
		}
		way := clients[i%len(clients)]
		wantOut, want := way.run(ctx, pg.DSN("plain"), sql, nil)
		out, err := way.run(ctx, sluice.DSN("postgres"), sql, nil)
		got, there := pg.SQL(t, "postgres", held), pg.SQL(t, "plain", held)
		switch e := pgError(err); {
		case err == nil && want == nil:
			if out != wantOut || got != there {
				t.Errorf("%s: %q, want %q:\n%s", sql, out, wantOut, differing(got, there))
			}
			if got, want := pg.SQL(t, "postgres", inOrder), pg.SQL(t, "plain", inOrder); got != want {
				t.Errorf("%s: columns %q, want %q", sql, got, want)
			}
			ends["done"]++
		case err == nil:
			t.Errorf("%s is done, and PostgreSQL says %v", sql, want)
		case e.Code == "0A000", e.Code == "42704" && e.Hint != "" && strings.HasSuffix(e.Message, `serial" does not exist`):
			if e.Hint == "" || got != before {
				t.Errorf("%s: %v (%s)\n%s", sql, err, e.Hint, differing(got, before))
			}
			ends["refused"]++
		case want == nil:
			t.Errorf("%s: %v (%s), and PostgreSQL does it", sql, whole(err), e.Hint)
		case strings.Contains(e.Detail, "Of the statement this is committed: ALTER TABLE"):
			if !strings.Contains(e.Hint, "What is not done, in this order: ALTER TABLE") {
				t.Errorf("%s: %s", sql, e.Hint)
			}
			ends["half"]++
		default:
			if got != before {
				t.Errorf("%s: %s (%s)\n%s", sql, whole(err), e.Hint, differing(got, before))
			}
			ends["failed"]++
		}
	}
	if t.Log(ends); ends["done"] < 5 || ends["half"] < 1 {
		t.Errorf("ends: %v", ends)
	}
}

// What ent writes is carried out by each driver, and the client is told that it is not atomic; where a change
// of type is refused nothing of the statement is done, unless the statement takes away why.
func TestCommandsTold(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, _, sluice := plainAndSluice(t, harness.Env{"DSQL_DDL_CARRY_OUT": "all"})
	pg.SQL(t, "postgres", commanded+"; ALTER TABLE book ADD CONSTRAINT small CHECK (m < 1000) NOT VALID")
	conn := dialled(t, sluice, pgx.QueryExecModeCacheDescribe)
	for _, sql := range []string{
		"ALTER TABLE book DROP CONSTRAINT small, ALTER COLUMN m TYPE bigint", // by itself the change of type is refused
		"ALTER TABLE book ALTER COLUMN n SET NOT NULL",
		`ALTER TABLE "book" DROP CONSTRAINT "book_n_sluice_not_null", ALTER COLUMN "n" SET NOT NULL, ALTER COLUMN "title" TYPE character varying(99)`,
		"ALTER TABLE book DROP CONSTRAINT once, ALTER COLUMN n TYPE bigint, ADD CONSTRAINT once UNIQUE (n)",
		"BEGIN", "INSERT INTO book (id, n) VALUES (90, 91)", "ALTER TABLE book DROP CONSTRAINT once, ALTER COLUMN n TYPE numeric, ADD CONSTRAINT once UNIQUE (n)", "ROLLBACK",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Errorf("%s: %v (%s)", sql, err, hintOf(err))
		}
	}
	before := pg.SQL(t, "postgres", held)
	for sql, words := range map[string]string{
		"ALTER TABLE book DROP CONSTRAINT pos, ALTER COLUMN id TYPE bigint":                  "in the primary key",
		"ALTER TABLE book DROP COLUMN code, ALTER COLUMN title TYPE date":                    "both must be strings",
		"ALTER TABLE book ALTER COLUMN title TYPE text, ADD PRIMARY KEY (n)":                 "A command of it is refused by itself, too. To that one: Name the key in CREATE TABLE",
		"ALTER TABLE book ALTER COLUMN title TYPE text, ALTER COLUMN title TYPE varchar(99)": "Write each command of it in an ALTER TABLE of its own",
	} {
		_, err := conn.Exec(ctx, sql)
		if e := pgError(err); e == nil || e.Code != "0A000" || !strings.Contains(e.Detail+e.Hint, words) {
			t.Errorf("%s: %v, %s", sql, whole(err), hintOf(err))
		}
		if got := pg.SQL(t, "postgres", held); got != before {
			t.Errorf("%s:\n%s", sql, differing(got, before))
		}
	}
}

// A statement that is cancelled between two commands tells what is committed, and nothing of how a command that is
// done was carried out.
func TestCommandsCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, _, sluice := plainAndSluice(t, harness.Env{"DSQL_DDL_CARRY_OUT": "all"})
	pg.SQL(t, "postgres", commanded+`; CREATE FUNCTION waits() RETURNS event_trigger LANGUAGE plpgsql AS $$BEGIN IF current_query() LIKE '%RENAME COLUMN%' THEN PERFORM pg_advisory_xact_lock(1); END IF; END$$;
		CREATE EVENT TRIGGER waits ON ddl_command_start WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION waits()`)
	holder, err := pgx.Connect(ctx, pg.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(ctx)
	if _, err := holder.Exec(ctx, "SELECT pg_advisory_lock(1)"); err != nil {
		t.Fatal(err)
	}
	conn, done := dialled(t, sluice, pgx.QueryExecModeSimpleProtocol), make(chan error, 1)
	go func() {
		_, err := conn.Exec(ctx, "ALTER TABLE book ADD COLUMN y int DEFAULT 7, ALTER n SET NOT NULL")
		done <- err
	}()
	until(t, pg, "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)")
	conn.PgConn().CancelRequest(ctx)
	if _, err := holder.Exec(ctx, "SELECT pg_advisory_unlock(1)"); err != nil {
		t.Fatal(err)
	}
	const want = "Of the statement this is committed: ALTER TABLE book ADD COLUMN y int DEFAULT 7."
	if err := <-done; code(err) != "57014" || detailOf(err) != want || !strings.HasSuffix(hintOf(err), "in this order: ALTER TABLE book ALTER n SET NOT NULL.") {
		t.Errorf("%v: %s (%s)", err, detailOf(err), hintOf(err))
	}
}

// A conflict behind a command that is committed is told as none: who is told of one sends the whole again.
func TestCommandsInConflict(t *testing.T) {
	t.Parallel()
	pg, _, sluice := plainAndSluice(t, harness.Env{"DSQL_DDL_CARRY_OUT": "all"})
	pg.SQL(t, "postgres", commanded+`; CREATE FUNCTION fights() RETURNS event_trigger LANGUAGE plpgsql AS
		$$BEGIN IF current_query() LIKE '%IS NOT NULL%' THEN RAISE 'conflict (OC000)' USING ERRCODE = '40001'; END IF; END$$;
		CREATE EVENT TRIGGER fights ON ddl_command_start WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION fights()`)
	conn := dialled(t, sluice, pgx.QueryExecModeSimpleProtocol)
	_, err := conn.Exec(t.Context(), "ALTER TABLE book ADD COLUMN y int DEFAULT 7, ALTER n SET NOT NULL")
	const want = "Of the statement this is committed: ALTER TABLE book ADD COLUMN y int DEFAULT 7."
	if code(err) != "25000" || !strings.Contains(detailOf(err), want) || !strings.Contains(hintOf(err), "Do not send the whole statement again.") {
		t.Errorf("%v: %s (%s)", err, detailOf(err), hintOf(err))
	}
}
