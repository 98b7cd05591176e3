package rewriting

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// retyped are the tables whose columns get other types.
const retyped = `DROP TABLE IF EXISTS book, author, keyless, other.book CASCADE; DROP SCHEMA IF EXISTS other CASCADE; DROP DOMAIN IF EXISTS word; CREATE SCHEMA other;
	CREATE DOMAIN word AS varchar(9);
	CREATE TABLE author (id int PRIMARY KEY, "Odd ""name" varchar(5) UNIQUE, tag varchar(3) UNIQUE);
	CREATE TABLE book (id int PRIMARY KEY, title varchar(10) NOT NULL, code varchar(8) UNIQUE, kind char(4) DEFAULT 'ab', n int NOT NULL DEFAULT 7, cents numeric(8,2), ratio real,
		"Odd ""name" varchar(5) DEFAULT 'it''s', author int REFERENCES author, checked varchar(5) CHECK (checked <> 'x'), seen varchar(5), w word, late varchar(4), day date, grown int GENERATED ALWAYS AS (ratio + 1) STORED,
		low int, high int DEFAULT 150, tag varchar(3) REFERENCES author (tag) ON UPDATE CASCADE ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED,
		CONSTRAINT span CHECK (low < high AND high IS NOT NULL), CONSTRAINT "Odd check" CHECK (low IS NOT NULL), CHECK (low + 0 > -9 OR low * 2 < high) NO INHERIT,
		CONSTRAINT book_once UNIQUE (author, title), CONSTRAINT late UNIQUE (late, id) DEFERRABLE INITIALLY DEFERRED);
	CREATE INDEX book_title ON book (title); CREATE INDEX book_n ON book (n, title) INCLUDE (cents); CREATE UNIQUE INDEX "Odd index" ON book ("Odd ""name", id);
	CREATE INDEX book_part ON book (lower(code)) WHERE code <> 'x'; CREATE INDEX book_down ON book (kind DESC); ALTER TABLE book ADD CONSTRAINT loose CHECK (cents > -5) NOT VALID, ADD CONSTRAINT loose_author FOREIGN KEY (author) REFERENCES author NOT VALID; CREATE VIEW seers AS SELECT seen FROM book;
	INSERT INTO author VALUES (1, 'one', 'a'), (2, 'two', 'b');
	INSERT INTO book (id, low, tag, title, code, n, cents, ratio, author, seen, late, "Odd ""name") SELECT i, i, CASE WHEN i < 9 THEN 'a' END, 'title ' || i, 'c' || i, i, i / 7.0, i / 3.0, i % 2 + 1, 's', CASE WHEN i % 3 > 0 THEN 'l' || i END,
		CASE i % 4 WHEN 0 THEN 'ab   ' WHEN 1 THEN '' WHEN 2 THEN NULL ELSE 'x' END FROM generate_series(1, 40) i;
	CREATE TABLE keyless (a varchar(3), b int); INSERT INTO keyless SELECT i::text, i FROM generate_series(1, 30) i;
	CREATE TABLE other.book (id int PRIMARY KEY, title varchar(3) NOT NULL)`

// held is what the catalog and the rows of these tables are, but for the order of the columns, and for
// NOT NULL, which may be a CHECK.
const held = `SELECT string_agg(x, E'\n' ORDER BY x) FROM (
	SELECT format('%s %s %s', attrelid::regclass, attname, format_type(atttypid, atttypmod)) ||
			CASE WHEN attnotnull OR EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conrelid = attrelid AND conkey = ARRAY[attnum] AND convalidated AND pg_get_constraintdef(c.oid) LIKE 'CHECK%IS NOT NULL))') THEN ' not null' ELSE '' END ||
			coalesce(' ' || substring(pg_get_expr(adbin, adrelid) from '^[^:]*'), '') x
		FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
		WHERE attnum > 0 AND NOT attisdropped AND attrelid IN (SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace IN ('public'::regnamespace, 'other'::regnamespace))
	UNION ALL SELECT format('%s %s %s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid), convalidated, condeferred) FROM pg_constraint
		WHERE conrelid <> 0 AND contype <> 'n' AND pg_get_constraintdef(oid) NOT LIKE 'CHECK%IS NOT NULL))' AND connamespace IN ('public'::regnamespace, 'other'::regnamespace)
	UNION ALL SELECT format('%s %s', pg_get_indexdef(indexrelid), indisvalid) FROM pg_index WHERE indrelid IN (SELECT oid FROM pg_class WHERE relnamespace IN ('public'::regnamespace, 'other'::regnamespace))
	UNION ALL SELECT 'row ' || (SELECT string_agg(key || '=' || coalesce(value, '-'), ' ' ORDER BY key) FROM jsonb_each_text(to_jsonb(of_book))) FROM book of_book
	UNION ALL SELECT 'key ' || (SELECT string_agg(key || '=' || coalesce(value, '-'), ' ' ORDER BY key) FROM jsonb_each_text(to_jsonb(of_keyless))) FROM keyless of_keyless) y`

// retypings are statements that change types, in this order, each over what those before have
// left. Those of the second list are refused here alone.
var (
	retypings = []string{
		"ALTER TABLE book ALTER COLUMN title TYPE varchar(20)",
		"ALTER TABLE book ALTER COLUMN missing TYPE text",
		`ALTER TABLE "book" ALTER COLUMN "title" TYPE varchar(200) USING "title"::varchar(200)`,
		`alter table only public.book alter title set data type varchar(19) using ("title"::varchar(19));`,
		"ALTER TABLE book ALTER COLUMN title TYPE varchar(3)",
		"ALTER TABLE book ALTER COLUMN title TYPE text",
		"ALTER TABLE book ALTER COLUMN title TYPE character varying(12) USING title",
		"ALTER TABLE book ALTER COLUMN code TYPE text",
		"ALTER TABLE book ALTER COLUMN code TYPE varchar(2)",
		"ALTER TABLE book ALTER COLUMN code TYPE varchar(1) USING code::varchar(1)",
		"ALTER TABLE book ALTER COLUMN n TYPE bigint",
		"ALTER TABLE book ALTER COLUMN n TYPE smallint",
		"ALTER TABLE book ALTER COLUMN n TYPE numeric(3,1)",
		"ALTER TABLE book ALTER COLUMN n TYPE numeric(1,0)",
		"ALTER TABLE book ALTER COLUMN cents TYPE numeric(12,4)",
		"ALTER TABLE book ALTER COLUMN cents TYPE numeric",
		"ALTER TABLE book ALTER COLUMN cents TYPE int",
		"ALTER TABLE book ALTER COLUMN cents TYPE double precision",
		`ALTER TABLE book ALTER COLUMN "Odd ""name" TYPE text`,
		`ALTER TABLE book ALTER COLUMN "Odd ""name" TYPE char(6)`,
		`ALTER TABLE book ALTER COLUMN "Odd ""name" TYPE varchar(4)`,
		"ALTER TABLE book ALTER COLUMN late TYPE varchar(40)",
		"ALTER TABLE book ALTER COLUMN late TYPE varchar(40)",
		"ALTER TABLE book ALTER COLUMN author TYPE bigint",
		"ALTER TABLE book ALTER COLUMN author TYPE smallint",
		"ALTER TABLE book ALTER COLUMN checked TYPE text",
		"ALTER TABLE book ALTER COLUMN checked TYPE varchar(7)",
		"ALTER TABLE book ALTER COLUMN low TYPE bigint",
		"ALTER TABLE book ALTER COLUMN high TYPE numeric(2,0)",
		"ALTER TABLE book ALTER COLUMN high TYPE numeric(5,1)",
		"ALTER TABLE book ALTER COLUMN low TYPE real",
		"ALTER TABLE book ALTER COLUMN tag TYPE varchar(9)",
		"ALTER TABLE book ALTER COLUMN tag TYPE text USING tag",
		"ALTER TABLE keyless ALTER COLUMN a TYPE varchar(30)",
		"ALTER TABLE keyless ALTER COLUMN b TYPE bigint",
		"ALTER TABLE other.book ALTER COLUMN title TYPE varchar(30)",
		"ALTER TABLE nothing ALTER COLUMN title TYPE varchar(30)",
		"ALTER TABLE book ALTER COLUMN title TYPE nothing",
	}
	leftAlone = map[string]string{
		"ALTER TABLE book ALTER COLUMN id TYPE bigint":                        "in the primary key",
		"ALTER TABLE author ALTER COLUMN tag TYPE text":                       `constraint "book_tag_fkey"`,
		"ALTER TABLE book ALTER COLUMN seen TYPE text":                        "rule _RETURN on view seers",
		"ALTER TABLE book ALTER COLUMN kind TYPE text":                        `index "book_down"`,
		"ALTER TABLE book ALTER COLUMN ratio TYPE float8":                     "column grown of table book",
		"ALTER TABLE book ALTER COLUMN grown TYPE bigint":                     "a generation expression",
		"ALTER TABLE book ALTER COLUMN w TYPE text":                           "both must be strings",
		"ALTER TABLE book ALTER COLUMN day TYPE timestamp":                    "both must be strings",
		"ALTER TABLE book ALTER COLUMN code TYPE text COLLATE \"C\"":          "",
		"ALTER TABLE book ALTER COLUMN code TYPE text USING lower(code)":      "",
		"ALTER TABLE book ALTER COLUMN code TYPE varchar(9) USING code::text": "",
		"ALTER TABLE book ALTER COLUMN code TYPE text, ALTER n TYPE bigint":   "",
	}
)

// A column gets another type as it does in PostgreSQL, with all that it has but its place, or with
// PostgreSQL's error and nothing changed: for each driver, prepared or not.
func TestRetypesAsInPostgreSQL(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, _, sluice := plainAndSluice(t, harness.Env{"DSQL_DDL_ALTER_COLUMN_TYPE": "rewrite", "DSQL_DDL_SET_NOT_NULL": "check"})
	for n, way := range clients {
		for _, database := range []string{"postgres", "plain"} {
			pg.SQL(t, database, retyped)
		}
		done := 0
		for i, sql := range retypings {
			if n > 0 && i%5 != n%5 { // the first has them all
				continue
			}
			wantOut, wantErr := way.run(ctx, pg.DSN("plain"), sql, nil)
			out, err := way.run(ctx, sluice.DSN("postgres"), sql, nil)
			if out != wantOut || whole(err) != whole(wantErr) {
				t.Errorf("%s, %s:\n got %q %s (%s)\nwant %q %s", way.name, sql, out, whole(err), hintOf(err), wantOut, whole(wantErr))
			}
			if got, want := ofBareNumerics(pg.SQL(t, "postgres", held)), ofBareNumerics(pg.SQL(t, "plain", held)); got != want {
				t.Fatalf("%s, %s:\n%s", way.name, sql, differing(got, want))
			}
			if err == nil {
				done++
			}
		}
		if t.Logf("%s: %d of %d statements succeed", way.name, done, len(retypings)); done < 3 {
			t.Errorf("%s: only %d statements succeed", way.name, done)
		}
		for sql, words := range leftAlone {
			if n > 1 {
				break
			}
			before := pg.SQL(t, "postgres", held)
			_, err := way.run(ctx, sluice.DSN("postgres"), sql, nil)
			if e := pgError(err); e == nil || e.Code != "0A000" || e.Hint == "" || !strings.Contains(e.Detail+e.Hint, words) {
				t.Errorf("%s, %s: %v, %s", way.name, sql, err, whole(err))
			}
			if got := pg.SQL(t, "postgres", held); got != before {
				t.Errorf("%s, %s:\n%s", way.name, sql, differing(got, before))
			}
		}
	}
}

var decimals = regexp.MustCompile(`=-?\d+\.\d+`)

// ofBareNumerics is a list of columns and rows as it is where numeric without a precision has none, and
// shows no zeros at its end: Sluice gives it one with 38 decimals (rewrite.numeric).
func ofBareNumerics(list string) string {
	list = strings.ReplaceAll(list, "numeric(128,38)", "numeric")
	return decimals.ReplaceAllStringFunc(list, func(value string) string { return strings.TrimRight(strings.TrimRight(value, "0"), ".") })
}

// pgError is the error that a driver tells; nil for none.
func pgError(err error) *pgconn.PgError {
	parts := strings.Split(whole(err), "|")
	if len(parts) < 4 {
		return nil
	}
	return &pgconn.PgError{Code: parts[1], Message: parts[2], Detail: parts[3], Hint: hintOf(err)}
}

// What others write while a column gets another type is kept, and what they are told is that there is
// no such column, or that their transaction is to be sent again.
func TestRetypeWhileOthersWrite(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, _, sluice := plainAndSluice(t, harness.Env{"DSQL_DDL_ALTER_COLUMN_TYPE": "rewrite", "DSQL_DDL_SET_NOT_NULL": "check"})
	pg.SQL(t, "postgres", `CREATE TABLE counted (id int PRIMARY KEY, name varchar(20) NOT NULL DEFAULT 'none', UNIQUE (name, id)); CREATE INDEX counted_name ON counted (name);
		INSERT INTO counted SELECT i, '0' FROM generate_series(1, 9000) i`)
	stop := make(chan struct{})
	var writers sync.WaitGroup
	var mu sync.Mutex
	wrote, told := map[int]string{}, map[string]int{}
	for n := range 4 {
		conn := dialled(t, sluice, pgx.QueryExecModeExec)
		writers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 1))
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(10 * time.Millisecond):
				}
				id, value := random.IntN(50)*4+n+1, fmt.Sprint(n, " ", i)
				sql := "UPDATE counted SET name = $2 WHERE id = $1"
				if kind := random.IntN(4); kind < 2 {
					id = 10000 + i*4 + n
					sql = [...]string{"INSERT INTO counted (id, name) VALUES ($1, $2)", "INSERT INTO counted VALUES ($1, $2)"}[kind]
				}
				_, err := conn.Exec(ctx, sql, id, value)
				mu.Lock()
				if told[code(err)]++; err == nil {
					wrote[id] = value
				}
				mu.Unlock()
			}
		})
	}
	conn := dialled(t, sluice, pgx.QueryExecModeSimpleProtocol)
	for i, kind := range []string{"varchar(30)", "text"} {
		if _, err := conn.Exec(ctx, "ALTER TABLE counted ALTER COLUMN name TYPE "+kind); err != nil {
			t.Fatalf("%s: %v (%s)", kind, err, hintOf(err))
		}
		time.Sleep(time.Duration(i) * 50 * time.Millisecond)
	}
	close(stop)
	writers.Wait()
	t.Log(told, len(wrote))
	for is := range told {
		if is != "" && is != "42703" && is != "40001" && is != "23514" {
			t.Errorf("others are told %s %d times", is, told[is])
		}
	}
	if told["23514"] > told[""]/4 {
		t.Errorf("others are refused %d INSERTs by place", told["23514"])
	}
	if told[""] < 50 {
		t.Errorf("others have written %d times only", told[""])
	}
	values := map[string]bool{}
	for row := range strings.Lines(pg.SQL(t, "postgres", "SELECT id || '=' || name FROM counted") + "\n") {
		values[strings.TrimSpace(row)] = true
	}
	for id, value := range wrote {
		if !values[fmt.Sprint(id, "=", value)] {
			t.Errorf("row %d is not %q", id, value)
		}
	}
	if got := pg.SQL(t, "postgres", "SELECT string_agg(attname, ' ' ORDER BY attname) FROM pg_attribute WHERE attrelid = 'counted'::regclass AND attnum > 0 AND NOT attisdropped"); got != "id name" {
		t.Errorf("columns: %s", got)
	}
}

// What others do while a column gets another type, and no lock keeps them from: a value that differs in digits which
// the client's own setting hides is kept; an index that is made meanwhile is not lost, and the statement is refused
// with nothing changed.
func TestRetypeBesideOthers(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg := pgtest.Start(t, pgtest.MaxConnections(100))
	bin := harness.Binaries(t)
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg, Args: []string{"--job-delay", "500ms"}})
	sluice := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env().With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "10", "DSQL_DDL_ALTER_COLUMN_TYPE": "rewrite", "DSQL_DDL_SET_NOT_NULL": "check"})})
	for _, test := range []struct{ name, meanwhile, code, want string }{
		{"digits", "UPDATE measured SET ratio = 0.30000000000000004 WHERE id = 1", "", "0.30000000000000004"},
		{"index", "CREATE INDEX meanwhile ON measured (ratio, id)", "55000", "0.3"},
		{"check", "ALTER TABLE measured ADD CONSTRAINT meanwhile CHECK (ratio < 2)", "55000", "0.3"},
		{"changed check", "ALTER TABLE measured DROP CONSTRAINT meant, ADD CONSTRAINT meant CHECK (ratio < 8), ADD CONSTRAINT meanwhile CHECK (id > 0)", "55000", "0.3"},
	} {
		pg.SQL(t, "postgres", "DROP TABLE IF EXISTS measured; CREATE TABLE measured (id int PRIMARY KEY, ratio float8 CONSTRAINT meant CHECK (ratio < 9)); CREATE INDEX of_ratio ON measured (ratio); INSERT INTO measured VALUES (1, 0.3)")
		conn := dialled(t, sluice, pgx.QueryExecModeSimpleProtocol)
		if _, err := conn.Exec(ctx, "SET extra_float_digits = -5"); err != nil {
			t.Fatal(err)
		}
		end := make(chan error, 1)
		go func() {
			_, err := conn.Exec(ctx, "ALTER TABLE measured ALTER COLUMN ratio TYPE numeric")
			if test.name == "digits" {
				_, err = conn.Exec(ctx, "ALTER TABLE measured ALTER COLUMN ratio TYPE float8")
			}
			end <- err
		}()
		if test.name == "digits" { // the second statement
			until(t, pg, "SELECT EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = 'measured'::regclass AND attname = 'ratio' AND atttypid = 'numeric'::regtype)")
		}
		until(t, pg, "SELECT EXISTS (SELECT 1 FROM pg_class WHERE relname LIKE 'ratio\\_\\_new\\_%\\_0')")
		pg.SQL(t, "postgres", test.meanwhile)
		if err := <-end; code(err) != test.code {
			t.Errorf("%s: %v (%s)", test.name, err, hintOf(err))
		}
		if got := pg.SQL(t, "postgres", "SELECT ratio FROM measured"); got != test.want {
			t.Errorf("%s: the value is %s, want %s", test.name, got, test.want)
		}
		if test.code == "" {
			continue
		}
		if got := pg.SQL(t, "postgres", "SELECT count(*) FROM pg_class WHERE relname = 'meanwhile'") + pg.SQL(t, "postgres", "SELECT count(*) FROM pg_constraint WHERE conname = 'meanwhile'"); got != "10" && got != "01" {
			t.Errorf("%s: what was made meanwhile is lost", test.name)
		}
		if got := pg.SQL(t, "postgres", "SELECT string_agg(attname, ' ' ORDER BY attname) FROM pg_attribute WHERE attrelid = 'measured'::regclass AND attnum > 0 AND NOT attisdropped"); got != "id ratio" {
			t.Errorf("%s: columns %s", test.name, got)
		}
	}
}

// A value that is written by its place, while a job has the CHECK for NOT NULL looked at, is not lost.
func TestRetypeBesideAnInsertByPlace(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg := pgtest.Start(t, pgtest.MaxConnections(100))
	bin := harness.Binaries(t)
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg, Args: []string{"--job-delay", "1s"}})
	sluice := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env().With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "5", "DSQL_DDL_CARRY_OUT": "all"})})
	pg.SQL(t, "postgres", "CREATE TABLE placed (id int PRIMARY KEY, n int NOT NULL DEFAULT 7); INSERT INTO placed VALUES (1, 1)")
	conn, end := dialled(t, sluice, pgx.QueryExecModeSimpleProtocol), make(chan error, 1)
	go func() { _, err := conn.Exec(ctx, "ALTER TABLE placed ALTER COLUMN n TYPE bigint"); end <- err }()
	until(t, pg, "SELECT EXISTS (SELECT 1 FROM pg_constraint WHERE conname = 'placed_n_sluice_not_null')")
	pg.SQL(t, "postgres", "INSERT INTO placed VALUES (2, 5)")
	if err := <-end; err != nil && code(err) != "23514" {
		t.Errorf("%v (%s)", err, hintOf(err))
	}
	if got := pg.SQL(t, "postgres", "SELECT string_agg(n::text, ' ' ORDER BY id) FROM placed"); got != "1 5" {
		t.Errorf("values %s", got)
	}
}
