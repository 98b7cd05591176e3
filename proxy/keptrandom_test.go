package proxy_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/proxy"
)

// madeColumns are columns of many types, whose values the server makes anew each time.
var madeColumns = []struct{ kind, made string }{
	{"bigint", "nextval('numbers')"}, {"int", "(random() * 1e9)::int"}, {"smallint", "(random() * 1e4)::smallint"},
	{"text", `'it''s \ ' || nextval('numbers') || E'\n"\\x41'`}, {"varchar(3)", "left(random()::text, 3)"}, {"char(5)", "left(random()::text, 2)"},
	{"float8", "random()"}, {"float4", "random()::float4"}, {"numeric", "random()::numeric * 1e20"}, {"numeric(8,2)", "(random() * 1000)::numeric"},
	{"uuid", "gen_random_uuid()"}, {"bytea", "decode(md5(random()::text), 'hex')"}, {"bool", "random() < 0.5"},
	{"int[]", "ARRAY[(random() * 100)::int, NULL]"}, {"text[]", `ARRAY[random()::text, 'a"b,\', NULL]`},
	{"jsonb", "jsonb_build_object('r', random(), 's', 'it''s')"}, {"json", `('{"r":  ' || random() || '}')::json`},
	{"interval", "random() * '1000 hours'::interval"}, {"timestamptz", "to_timestamp(random() * 2e9)"}, {"timestamp", "to_timestamp(random() * 2e9)::timestamp"},
	{"date", "to_timestamp(random() * 2e9)::date"}, {"time", "to_timestamp(random() * 2e9)::time"}, {"point", "point(random(), random())"},
	{"int4range", "int4range(0, 1 + (random() * 100)::int)"}, {"bit(8)", "(random() * 255)::int::bit(8)"}, {"text", "nullif(random(), random() + 2)::text"},
	{"text", "CASE WHEN random() < 0.5 THEN NULL ELSE random()::text END"}, {"mood", "CASE WHEN random() < 0.5 THEN 'sad'::mood ELSE 'it''s \\ ok'::mood END"},
	{"small", "random() * 100"},
}

// madeSettings change how values are written and read.
var madeSettings = []string{"extra_float_digits = 0", "DateStyle = 'SQL, DMY'", "DateStyle = 'German'", "DateStyle = 'Postgres, MDY'", "IntervalStyle = 'sql_standard'", "IntervalStyle = 'iso_8601'",
	"TimeZone = 'Asia/Kolkata'", "TimeZone = 'Europe/Berlin'", "bytea_output = 'escape'", "intervalstyle = 'postgres_verbose'", "client_encoding = 'LATIN1'"}

// Whatever the types, settings, formats and losses: when a client is told that its transaction
// has committed, the tables have what it was told. Most of these replays keep the values.
func TestKeptValuesAtRandom(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling+`CREATE SEQUENCE numbers; CREATE TYPE mood AS ENUM ('sad', 'it''s \ ok'); CREATE DOMAIN small AS float8 CHECK (VALUE < 1000);
		CREATE TABLE fatal (n int); CREATE FUNCTION fatal() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM die(2); RETURN NULL; END $$;
		CREATE TRIGGER fatal AFTER INSERT ON fatal FOR EACH ROW EXECUTE FUNCTION fatal();
		CREATE VIEW shown AS SELECT v FROM (VALUES ('a')) x (v);
		CREATE TABLE early (n int); CREATE TRIGGER early AFTER INSERT ON early FOR EACH ROW EXECUTE FUNCTION late();`)
	s := startSluice(t, pg, asDSQL, fastReplay, mapping, withSavepoints, maxOpen(3))
	r := rand.New(rand.NewPCG(1, 2))
	modes := []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}
	replays, refusals := 0, 0
	beside := connectTo(t, s, "postgres", pgx.QueryExecModeSimpleProtocol)
	for n := range max(40, 400/proxy.OneIn) {
		table, columns, names := fmt.Sprintf("made_%d", n), "", []string{}
		for i := range 1 + r.IntN(4) {
			c := madeColumns[r.IntN(len(madeColumns))]
			columns += fmt.Sprintf(", c%d %s DEFAULT %s", i, c.kind, c.made)
			names = append(names, fmt.Sprintf("c%d", i))
		}
		run(t, beside, fmt.Sprintf("CREATE TABLE %s (id bigint GENERATED %s AS IDENTITY, v text%s)", table, [2]string{"ALWAYS", "BY DEFAULT"}[r.IntN(2)], columns))
		returned := "id, " + strings.Join(names, ", ")
		insert := fmt.Sprintf("INSERT INTO %s (v) VALUES ('a'), ('it''s')%s RETURNING %s", table, [3]string{"", ", (NULL)", " ON CONFLICT DO NOTHING"}[r.IntN(3)], returned)
		fails := [...]string{"INSERT INTO late VALUES (1)", "INSERT INTO fatal VALUES (1)", "INSERT INTO early VALUES (1)", "INSERT INTO late VALUES (1), (3)"}[r.IntN(4)]
		mode := modes[r.IntN(len(modes))]
		stumbles(t, pg, true, "early", "fatal")
		c := connectTo(t, s, "postgres", mode)
		var said []string
		for range r.IntN(3) {
			set := madeSettings[r.IntN(len(madeSettings))]
			if mode == pgx.QueryExecModeSimpleProtocol && strings.HasPrefix(set, "client") {
				continue // pgx does not speak simply then
			}
			said = append(said, set)
			run(t, c, "SET "+set)
		}
		what := fmt.Sprintf("%d: %v, SET %v, %s %s; %s", n, mode, said, columns, insert, fails)
		run(t, c, "BEGIN")
		// Views may read the clock. So may what makes a column of such a type, or of a user's, and then the time is
		// kept where nothing else reads the clock, and the transaction is at its end.
		timed := strings.Contains(columns, "time") || strings.Contains(columns, "date") || strings.Contains(columns, "mood")
		if r.IntN(2) == 0 && !timed {
			read := [...]string{"SELECT count(*) FROM pg_class WHERE relname = 'made_0'", "SELECT v FROM shown", "SELECT count(*) FROM information_schema.tables WHERE table_name = 'made_0'"}[r.IntN(3)]
			what += ", behind " + read
			run(t, c, read)
		}
		var told string
		inString, long := r.IntN(4) == 0, false // a string whose rows are too many keeps nothing
		if inString {
			what += ", in a string"
			told, long = toldInString(t, c, insert, r)
		} else {
			told = printedRows(t, c, insert)
		}
		if r.IntN(3) == 0 { // what was asked of the schema is out of date
			what += ", a view made beside"
			run(t, beside, fmt.Sprintf("CREATE VIEW beside_%d AS SELECT 1", n))
		}
		if r.IntN(3) == 0 {
			what += ", behind a savepoint"
			for _, sql := range []string{"SAVEPOINT a", "INSERT INTO stumbled VALUES (1)", "ROLLBACK TO a"} {
				if _, err := c.Exec(t.Context(), sql); err != nil && !long {
					t.Errorf("%s: %s: %v", what, sql, detailOf(err))
				}
			}
		}
		_, err := c.Exec(t.Context(), fails)
		if err == nil {
			_, err = c.Exec(t.Context(), "COMMIT")
		}
		if !long {
			replays++
		}
		if err != nil {
			if long || timed && !strings.Contains(fails, "late") {
				run(t, c, "ROLLBACK")
				continue
			}
			refusals++
			t.Logf("refused: %s: %v", what, detailOf(err))
			continue
		}
		query := fmt.Sprintf("SELECT %s FROM %s ORDER BY id", returned, table)
		stored := ""
		if inString {
			stored, _ = toldInString(t, c, query, r)
		} else {
			stored = printedRows(t, c, query)
		}
		if stored != told {
			t.Errorf("%s:\ntold\n%s\nstored\n%s", what, told, stored)
		}
	}
	if refusals > 0 {
		t.Errorf("%d of %d replays were refused", refusals, replays)
	}
}

// toldInString sends a statement in one string with others, and is what printedRows would be of it; long says that
// one of the others returns more than is kept.
func toldInString(t *testing.T, c *pgx.Conn, sql string, r *rand.Rand) (told string, long bool) {
	t.Helper()
	beside := []string{"SELECT 1, 'a'", "UPDATE stumbled SET a = a RETURNING a", "SELECT 2 WHERE false", "INSERT INTO stumbled SELECT 1 WHERE false"}
	other := func() string {
		if r.IntN(12) == 0 {
			long = true
			return [...]string{"SELECT repeat('x', 70000)", "SELECT repeat('x', 1000) FROM generate_series(1, 100)"}[r.IntN(2)]
		}
		return beside[r.IntN(len(beside))]
	}
	text, at := "", 0
	for range r.IntN(3) {
		text += other() + "; "
		at++
	}
	if text += sql; at == 0 || r.IntN(2) == 0 {
		text += " ; /* ; */ " + other() + ";"
	}
	results, err := c.PgConn().Exec(t.Context(), text).ReadAll()
	if err != nil {
		t.Fatal(detailOf(err))
	}
	var all []string
	for _, row := range results[at].Rows {
		all = append(all, fmt.Sprintf("%q", row))
	}
	return strings.Join(all, "\n"), long
}

// detailOf is an error with what the server adds.
func detailOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Error() + ": " + e.Detail
	}
	return err.Error()
}
