package rewrite

import (
	"strings"
	"testing"
)

// TestMappingChangesNothingElse holds that a text over tables without mapped columns is planned
// as if there were no mapping at all.
func TestMappingChangesNothingElse(t *testing.T) {
	t.Parallel()
	p, stock := mappedPlanner(t, nil), goldenPlanner(t)
	names := NewSchema([]Relation{
		{Schema: "public", Name: "t", Columns: []Column{{Name: "a"}, {Name: "k"}, {Name: "v"}}},
		{Schema: "public", Name: "elsewhere", Columns: []Column{{Name: "k", Mapped: true}}},
	}).In([]string{"public"})
	for _, c := range readGolden(t, "testdata/mapped/queries.sql") {
		if got, want := p.PlanIn([]byte(c.in), names).Text, stock.Plan([]byte(c.in)).Text; got != want {
			t.Errorf("%s\n became %q, want %q", c.in, got, want)
		}
	}
}

// TestMappedTextIsLeftAlone holds that what goes out means the same when it comes in.
func TestMappedTextIsLeftAlone(t *testing.T) {
	t.Parallel()
	p := mappedPlanner(t, nil)
	for _, c := range readGolden(t, "testdata/mapped/queries.sql") {
		if c.out == "same" || strings.Contains(c.rules, "bytea_followed") {
			continue
		}
		if again := p.PlanIn([]byte(c.out), mappedNames()); again.Text != "" && !strings.Contains(c.in, "INSERT INTO t ") && !strings.Contains(c.in, "z (x, y)") {
			t.Errorf("%s\n is rewritten again, to %s", c.out, again.Text)
		}
	}
}

// TestUnknownPathRefuses holds that a name which the search path decides is not guessed.
func TestUnknownPathRefuses(t *testing.T) {
	t.Parallel()
	p := mappedPlanner(t, nil)
	names := mappedNames().Schema().InUnknown()
	if plan := p.PlanIn([]byte("SELECT k FROM t"), names); plan.Statements[0].Refusal == nil || plan.Text != "" {
		t.Errorf("got %q, want a refusal", plan.Text)
	}
	if plan := p.PlanIn([]byte("SELECT k FROM public.t"), names); !strings.Contains(plan.Text, MappedSuffix) {
		t.Errorf("got %q, want a mapped column", plan.Text)
	}
	if plan := p.PlanIn([]byte("WITH t AS (SELECT 1 AS k) SELECT k FROM t"), names); plan.Statements[0].Refusal != nil {
		t.Errorf("refused: %s", plan.Statements[0].Refusal.Detail)
	}
}

// places are statements over a mapped table with expressions and clauses of many kinds.
var places = []string{
	"SELECT xmlelement(name x, k) FROM t",
	"SELECT xmlserialize(CONTENT xmlelement(name x, k) AS text) FROM t",
	"SELECT json_object('a' : k) FROM t",
	"SELECT json_array(k) FROM t",
	"SELECT json_array(SELECT k FROM t)",
	"SELECT json_objectagg(a : k) FROM t",
	"SELECT json_arrayagg(k ORDER BY k) FROM t",
	"SELECT json_scalar(k) FROM t",
	"SELECT json_serialize(v RETURNING bytea) FROM t",
	"SELECT k IS JSON FROM t",
	"SELECT json_value(v, '$.a' PASSING k AS b) FROM t",
	"SELECT 1 FROM t, json_table(t.k, '$' COLUMNS (x text PATH '$'))",
	"SELECT 1 FROM t, xmltable('/a' PASSING t.k COLUMNS x text)",
	"SELECT 1 FROM t TABLESAMPLE system (1) WHERE k = $1",
	"SELECT (ARRAY[k])[1], k COLLATE \"C\", k AT TIME ZONE v, COALESCE(k, v), GREATEST(k, v), NULLIF(k, v) FROM t",
	"SELECT extract(year FROM k), overlay(k PLACING v FROM 1), position(k IN v), trim(k FROM v), substring(k FROM 1 FOR 2) FROM t",
	"SELECT f(VARIADIC k), f(x => k), count(*) FILTER (WHERE k > v), sum(a) OVER w FROM t WINDOW w AS (PARTITION BY k ORDER BY k)",
	"SELECT 1 FROM ROWS FROM (f((SELECT k FROM t)), g()) WITH ORDINALITY",
	"SELECT 1 FROM t, LATERAL (SELECT k) AS x, LATERAL f(t.k) AS y",
	"SELECT k IS TRUE, NOT k, k ISNULL, (k, a) OVERLAPS (k, a), k LIKE v, k SIMILAR TO v FROM t LIMIT (SELECT length(k) FROM t)",
	"WITH RECURSIVE r AS (SELECT k FROM t UNION ALL SELECT t.k FROM t JOIN r ON r.k = t.k) SEARCH DEPTH FIRST BY k SET o SELECT * FROM r",
	"WITH RECURSIVE r AS (SELECT k FROM t UNION ALL SELECT t.k FROM t JOIN r ON r.k = t.k) CYCLE k SET c USING p SELECT k FROM r",
	"SELECT k INTO x FROM t",
	"SELECT 1 FROM (t JOIN u ON t.k = u.\"Id\") AS j WHERE j.k = $1",
	"INSERT INTO t (k[1]) VALUES ($1)",
	"UPDATE t SET k[1] = $1",
	"DELETE FROM t WHERE CURRENT OF c",
	"DELETE FROM t WHERE k = ANY (SELECT k FROM t) RETURNING t.*, ROW(t.*), (t).k",
	"TABLE t", "VALUES ((TABLE t))", "EXPLAIN ANALYZE TABLE t",
	"DECLARE c CURSOR FOR SELECT k FROM t",
	"MERGE INTO u USING t ON true WHEN NOT MATCHED THEN INSERT VALUES (t.k)",
	"CREATE RULE r AS ON INSERT TO plain DO INSTEAD DELETE FROM t WHERE k = NEW.k",
	"CREATE POLICY p ON t USING (k = $1)",
	"CREATE TRIGGER g BEFORE UPDATE ON t FOR EACH ROW WHEN (NEW.k = OLD.k) EXECUTE FUNCTION f()",
	"CREATE FUNCTION f() RETURNS bytea BEGIN ATOMIC SELECT k FROM t; END",
	"CREATE STATISTICS s ON k, a FROM t",
	"LOCK TABLE t",
	"COPY (SELECT k FROM t) TO STDOUT",
	"COPY (DELETE FROM t RETURNING k) TO STDOUT",
}

// TestNoColumnIsMissed holds that in whatever place of the grammar a mapped column stands, it
// is rewritten or the statement refused: none goes out under the name that clients know.
func TestNoColumnIsMissed(t *testing.T) {
	t.Parallel()
	p := mappedPlanner(t, nil)
	for _, sql := range places {
		plan := p.PlanIn([]byte(sql), mappedNames())
		for _, st := range plan.Statements {
			if plan.Text == "" && st.Refusal == nil && !strings.HasPrefix(sql, "LOCK") && !strings.Contains(sql, "CURRENT OF") {
				t.Errorf("%s\n passes as it is", sql)
			}
		}
		for _, f := range plan.Findings {
			if f.Outcome == Unverified {
				t.Errorf("%s\n made a text that does not mean what was intended", sql)
			}
		}
	}
}

// FuzzPlanIn plans texts over schemas in which other columns are mapped each time.
func FuzzPlanIn(f *testing.F) {
	for i, c := range readGolden(&testing.T{}, "testdata/mapped/queries.sql") {
		f.Add(c.in, uint8(i))
	}
	for i, sql := range places {
		f.Add(sql, uint8(i))
	}
	f.Fuzz(func(t *testing.T, sql string, mapped uint8) {
		bit := func(n int) bool { return mapped>>n&1 != 0 }
		names := NewSchema([]Relation{
			{Schema: "public", Name: "t", Columns: []Column{{Name: "a", Mapped: bit(0)}, {Name: "k", Mapped: bit(1)}, {Name: "v", Mapped: bit(2)}}},
			{Schema: "public", Name: "u", Columns: []Column{{Name: "Id", Mapped: bit(3)}, {Name: "k", Mapped: bit(4)}}},
			{Schema: "public", Name: "plain", Columns: []Column{{Name: "a"}, {Name: "k"}}},
		}).In([]string{"public"})
		p := mappedPlanner(t, nil)
		plan := p.PlanIn([]byte(sql), names)
		if plan.Text == "" {
			return
		}
		if _, err := parseDialect(plan.Text); err != nil {
			t.Errorf("%q became %q, which is none: %v", sql, plan.Text, err)
		}
	})
}
