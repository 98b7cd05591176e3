package rewrite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/pgtest"
	"github.com/sluice-proxy/sluice/integration/sqltexts"
	"github.com/sluice-proxy/sluice/rewrite/finding"
)

// asked runs a text on PostgreSQL and shows its rows, with the names of their columns, or its
// SQLSTATE.
func asked(ctx context.Context, conn *pgconn.PgConn, sql string) string {
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		if e, ok := err.(*pgconn.PgError); ok {
			return e.Code
		}
		return err.Error()
	}
	var out strings.Builder
	for _, r := range results {
		for _, f := range r.FieldDescriptions {
			fmt.Fprintf(&out, "%s:%d ", f.Name, f.DataTypeOID)
		}
		for _, row := range r.Rows {
			fmt.Fprintf(&out, "%s\n", slices.Concat(row...))
		}
	}
	return out.String()
}

// planned is what goes to the server in the place of a text.
func planned(p *Planner, sql string) string {
	if plan := p.Plan([]byte(sql)); plan.Text != "" {
		return plan.Text
	}
	return sql
}

// drawn expands a symbol of a grammar by chance.
func drawn(r *rand.Rand, grammar map[string][]string, symbol string) string {
	return sqltexts.ExpandGrammar(grammar, symbol, 0, func(forms []string, _ string, depth int) string {
		if depth > 8 {
			return forms[0]
		}
		return forms[r.IntN(len(forms))]
	})
}

// TestSequencesCountAsPostgres holds that a sequence that is rewritten has all that its numbers
// come from as PostgreSQL's has it, and is refused where that is.
func TestSequencesCountAsPostgres(t *testing.T) {
	t.Parallel()
	conn, p := pgtest.Start(t).Connect(t), newPlanner(t)
	forms := map[string][]string{
		"create": {"CREATE SEQUENCE s {o}", "CREATE SEQUENCE s {o} {o} {o}", "CREATE SEQUENCE s AS {type} {o} {o} {o}", "CREATE SEQUENCE s {o} AS {type} {o}"},
		"type":   {"int", "smallint", "bigint", "pg_catalog.int4", "INT2", "numeric"},
		"o": {"", "", "INCREMENT {sign}{n}", "INCREMENT BY -1", "MAXVALUE {sign}{n}", "MINVALUE {sign}{n}", "NO MAXVALUE", "NO MINVALUE", "START {sign}{n}", "CYCLE", "NO CYCLE",
			"CACHE {n}", "CACHE 1", "CACHE 20"},
		"sign": {"", "", "-"},
		"n":    {"1", "2", "5", "100", "32766", "32767", "32768", "40000", "2147483646", "2147483647", "2147483648", "3000000000", "0"},
	}
	const facts = "SELECT start_value, min_value, max_value, increment_by, cycle FROM pg_sequences WHERE sequencename = 's'"
	r, made, refused, widened := rand.New(rand.NewPCG(7, 1)), 0, 0, 0
	for range 600 {
		sql := drawn(r, forms, "create")
		text := planned(p, sql)
		var shown [2]string
		for i, create := range []string{sql, text} {
			shown[i] = asked(t.Context(), conn, "DROP SEQUENCE IF EXISTS s; "+create+"; "+facts)
		}
		if shown[0] != shown[1] {
			t.Errorf("%s became %s:\n%s\n%s", sql, text, shown[0], shown[1])
		}
		if len(shown[0]) == 5 {
			refused++
		} else {
			made++
			if strings.Contains(text, "AS bigint") && !strings.Contains(sql, "AS bigint") {
				widened++
			}
		}
	}
	if made < 100 || refused < 40 || widened < 20 {
		t.Errorf("%d made, %d refused, %d of another type: the test has lost its force", made, refused, widened)
	}
}

// TestIndexesOrderAsPostgres holds that an index that is rewritten keeps its rows in the order
// of PostgreSQL's, or from the other end, and that a unique one keeps the same apart.
func TestIndexesOrderAsPostgres(t *testing.T) {
	t.Parallel()
	conn, p := pgtest.Start(t).Connect(t), newPlanner(t)
	if out := asked(t.Context(), conn, `CREATE TABLE x (a text COLLATE "C", b varchar(9) COLLATE "C", c int, d char(3) COLLATE "C", e uuid);
		CREATE EXTENSION IF NOT EXISTS plpgsql`); len(out) == 5 {
		t.Fatal(out)
	}
	forms := map[string][]string{
		"create": {"CREATE INDEX i ON x ({key})", "CREATE UNIQUE INDEX i ON x USING btree ({key}, {key})", "CREATE INDEX i ON x ({key}, {key}, {key})", "CREATE UNIQUE INDEX i ON x ({down}, {down})"},
		"key":    {"a{class}{order}", "b{class}{order}", "c{order}", "d bpchar_pattern_ops{order}", "e uuid_ops{order}", "lower(a) text_pattern_ops{order}", "c int4_ops{order}", "d{order}"},
		"down":   {"a{class} DESC{nulls}", "c DESC{nulls}", "e uuid_ops DESC{nulls}"},
		"class":  {"", "", " text_pattern_ops", " varchar_pattern_ops", " text_ops", " varchar_ops"},
		"order":  {"{nulls}", " ASC{nulls}", " DESC{nulls}"},
		"nulls":  {"", "", " NULLS FIRST", " NULLS LAST"},
	}
	// A key descends by bit 1, and has NULL first by bit 2.
	const facts = "SELECT indoption::text AS o, indisunique, indnatts, pg_get_indexdef(indexrelid, 1, false) AS d FROM pg_index WHERE indexrelid = 'i'::regclass"
	r, mirrored, same := rand.New(rand.NewPCG(7, 2)), 0, 0
	for range 200 {
		sql := drawn(r, forms, "create")
		plan := p.Plan([]byte(sql))
		if slices.ContainsFunc(plan.Findings, func(f finding.Finding) bool { return f.Severity == finding.Error }) {
			continue // it fails there
		}
		var options [2][]string
		for i, create := range []string{sql, withoutAsyncWords(plan.Text)} {
			asked(t.Context(), conn, "DROP INDEX IF EXISTS i")
			if out := asked(t.Context(), conn, create); out != "" {
				t.Fatalf("%s: %s", create, out)
			}
			results, err := conn.Exec(t.Context(), facts).ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			options[i] = strings.Fields(string(results[0].Rows[0][0]))
		}
		flipped := 0
		for k := range options[0] {
			was, is := options[0][k][0]-'0', options[1][k][0]-'0'
			switch is {
			case was:
			case was ^ 3:
				flipped++
			default:
				t.Errorf("%s became %s: %v, %v", sql, plan.Text, options[0], options[1])
			}
		}
		switch flipped {
		case 0:
			same++
		case len(options[0]):
			mirrored++
		default:
			t.Errorf("%s became %s: some keys are turned around: %v, %v", sql, plan.Text, options[0], options[1])
		}
	}
	if mirrored < 10 || same < 25 {
		t.Errorf("%d turned around, %d as they were: the test has lost its force", mirrored, same)
	}
	for class, column := range map[string]string{"text_pattern_ops": "a", "varchar_pattern_ops": "b", "bpchar_pattern_ops": "d", "text_ops": "a"} {
		const strings = `(VALUES (''), ('a'), ('a '), ('A'), ('aa'), ('é'), ('b'), (E'\t'), ('a-'), ('aé'), (' a'), (NULL)) v (v)`
		typ := map[string]string{"a": "text", "b": "varchar(9)", "d": "char(3)"}[column]
		by := asked(t.Context(), conn, "SELECT CASE WHEN opcname LIKE '%pattern%' THEN '~<~' ELSE '<' END FROM pg_opclass WHERE opcname = '"+class+"' LIMIT 1")
		operator := by[len(by)-4:]
		operator = operator[:3]
		if class == "text_ops" {
			operator = "<"
		}
		list := func(order string) string {
			return asked(t.Context(), conn, "SELECT string_agg(quote_nullable(v), ',' ORDER BY v::"+typ+` COLLATE "C" `+order+", v COLLATE \"C\") FROM "+strings)
		}
		if plain, classed := list(""), list("USING "+operator); plain != classed || len(plain) == 5 {
			t.Errorf("%s orders otherwise than its type: %s\n%s", class, plain, classed)
		}
	}
}

// TestGeneratedNamesAsPostgres holds that the columns of queries with uuid_generate_v4() have
// the names and types that they have in PostgreSQL.
func TestGeneratedNamesAsPostgres(t *testing.T) {
	t.Parallel()
	conn, p := pgtest.Start(t).Connect(t), newPlanner(t)
	if out := asked(t.Context(), conn, "CREATE FUNCTION uuid_generate_v4() RETURNS uuid LANGUAGE sql AS 'SELECT gen_random_uuid()'; CREATE TABLE t (a int, b uuid, uuid_generate_v4 int)"); len(out) == 5 {
		t.Fatal(out)
	}
	forms := map[string][]string{
		"q": {"SELECT {l} FROM t WHERE false", "SELECT {l} FROM ({q}) s WHERE false", "SELECT * FROM ({q}) s", "WITH c AS ({q}) TABLE c", "({q}) LIMIT 0", "SELECT {e}, {l} FROM t GROUP BY a, b, t.uuid_generate_v4 HAVING false",
			"INSERT INTO t (b) SELECT {e} FROM t WHERE false RETURNING {e}, a", "UPDATE t SET b = {e} WHERE {e} IS NULL RETURNING {l}", "SELECT s.* FROM {e} AS u (x), LATERAL ({q}) s WHERE false",
			"SELECT {e} WHERE false ORDER BY uuid_generate_v4", "SELECT DISTINCT {e} AS b FROM t ORDER BY b", "SELECT {e} WHERE false UNION ALL SELECT b FROM t", "SELECT a, {e} FROM t WINDOW w AS (ORDER BY {e}) LIMIT 0",
			"SELECT * FROM {e} LIMIT 0", "SELECT * FROM {e} WITH ORDINALITY LIMIT 0", "SELECT {e}, uuid_generate_v4, uuid_generate_v4.* FROM {e} LIMIT 0", "SELECT * FROM ROWS FROM ({e}) WITH ORDINALITY WHERE false", "SELECT * FROM ROWS FROM ({e}) AS r LIMIT 0",
			"SELECT * FROM ROWS FROM ({e}, now()) AS r LIMIT 0", "SELECT * FROM t, LATERAL {e} LIMIT 0", "SELECT * FROM t LEFT JOIN {e} ON false WHERE false", "SELECT r.* FROM {e} WITH ORDINALITY AS r (x) LIMIT 0", "SELECT f FROM {e} f LIMIT 0",
			"INSERT INTO t (b) SELECT * FROM {e} WHERE false RETURNING b", "DELETE FROM t USING {e} WHERE false RETURNING *", "SELECT * FROM {e} AS uuid_generate_v4 (a), {e} LIMIT 0", "SELECT x.uuid_generate_v4 FROM uuid_generate_v4() x, t LIMIT 0", "SELECT row_to_json(s) AS j FROM (SELECT {e}) s LIMIT 0"},
		"l": {"{c}", "{c}, {l}", "{e}, {c}"},
		"c": {"{e}", "{e}::text", "{e} AS \"x y\"", "{e} x", "CASE WHEN true THEN {e} END", "CASE WHEN true THEN b ELSE {e} END", "coalesce({e}, {e})", "({e})", "(SELECT {e})", "(SELECT {e} UNION SELECT {e} LIMIT 1)", "{e} = {e}",
			"ARRAY[{e}]", "(ARRAY[{e}])[1]", "CAST({e} AS varchar(9))", "upper({e}::text)", "{e}::text COLLATE \"C\"", "greatest({e}, {e})", "EXISTS (SELECT {e})", "nullif({e}, {e})", "{e} IS NULL", "ROW({e}, 1)", "1", "'{e}'", "substring({e}::text FROM 1)", "(({e}::text))::varchar"},
		"e": {"uuid_generate_v4()", "public.uuid_generate_v4()", "UUID_Generate_V4 ( )", "\"uuid_generate_v4\"()", "uuid_generate_v4 /* ( */ ()"},
	}
	r, ran, rewritten := rand.New(rand.NewPCG(7, 3)), 0, 0
	for range 700 {
		sql := drawn(r, forms, "q")
		want := asked(t.Context(), conn, sql)
		text := planned(p, sql)
		if got := asked(t.Context(), conn, text); got != want {
			t.Errorf("%s became %s:\n%s\n%s", sql, text, want, got)
		}
		if len(want) != 5 {
			ran++
		}
		if text != sql && !strings.Contains(strings.ToLower(strings.ReplaceAll(text, "'", "")), "uuid_generate_v4(") {
			rewritten++
		}
	}
	if ran < 350 || rewritten < 250 {
		t.Errorf("%d ran, %d are rewritten: the test has lost its force", ran, rewritten)
	}
}
