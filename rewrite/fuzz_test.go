package rewrite

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// FuzzPlan holds that planning never panics, that plans are in order, that the
// scan says what the tree says, and that a carried setting can be set again.
func FuzzPlan(f *testing.F) {
	for _, seed := range []string{
		"", ";", "-- ping", "SELECT 1", benchSelect, benchLocking, "SELECT 1; UPDATE t SET a = 'b' ; ",
		"SELECT count(*) FILTER (WHERE a) OVER (PARTITION BY b) FROM pg_catalog.pg_class c WHERE c.x IN (1, 2)",
		"INSERT INTO \"a\".b (c) VALUES ($1, f(2)) ON CONFLICT DO NOTHING RETURNING lastval()",
		"WITH RECURSIVE a AS (SELECT 1 UNION SELECT * FROM a) DELETE FROM b USING a WHERE (a.x).y = b.z[1]",
		"SET a.b = 'it''s', 1, -2.5, on", "SET LOCAL search_path TO \"$user\", E'\\n'", "SET TIME ZONE INTERVAL '1' HOUR",
		"RESET ALL; DISCARD ALL; DEALLOCATE ALL; SHOW x.y", "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
		"BEGIN ISOLATION LEVEL SERIALIZABLE; SAVEPOINT a; ROLLBACK TO a; COMMIT AND CHAIN",
		"PREPARE a AS SELECT 1; EXECUTE a; LISTEN b; DO ''; CALL c(); LOAD 'd'",
		"DECLARE a CURSOR WITH HOLD FOR SELECT 1; FETCH a", "COPY a TO STDOUT", "EXPLAIN (ANALYZE off) SELECT set_config('a', 'b', false)",
		"CREATE TEMP TABLE a AS SELECT 1", "SELECT * INTO TEMP a FROM b", "DROP TABLE a.b, c", "CREATE UNIQUE INDEX ASYNC a ON b (c)",
		"SELECT U&\"\\0066\"('x'), N'a', B'1', E'\\'', $$a$$, $b$c$b$, 1.5e3, 0x1F, ('s'::regclass).nextval",
		"SELECT CASE WHEN a THEN b END, NOT c, ARRAY[1], d::int[], e COLLATE \"C\" FROM f JOIN g USING (h) FOR UPDATE OF f",
		"SELECT E'a'\n'\\'b' /* /* c */ */ -- d\n", "SELECT \"pg_temp\".f(), pg_temp_1.g()", "SELEC SET TEMP", "\x00", "\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		p := newPlanner(t)
		plan := p.Plan([]byte(sql))
		if again := p.Plan([]byte(sql)); describe(again) != describe(plan) {
			t.Fatalf("%q: %s, then %s", sql, describe(plan), describe(again))
		}
		checkOrder(t, sql, plan)
		agree(t, sql)
		for i := range plan.Statements {
			for _, c := range plan.Statements[i].Changes {
				checkCarried(t, c)
			}
		}
	})
}

// checkOrder checks what holds for every plan.
func checkOrder(t *testing.T, sql string, plan *Plan) {
	t.Helper()
	kind, pin, end := Empty, NoPin, 0
	for i, st := range plan.Statements {
		kind = max(kind, st.Kind)
		if pin == NoPin {
			pin = st.Pin
		}
		if st.End == 0 {
			if cleared, _ := planByWords([]byte(sql)); cleared == nil {
				t.Fatalf("%q: statement %d has no end", sql, i)
			}
			continue
		}
		if st.Start < end || st.End <= st.Start || st.End > len(sql) {
			t.Fatalf("%q: statement %d from %d to %d behind %d", sql, i, st.Start, st.End, end)
		}
		end = st.End
	}
	if len(plan.Statements) > 0 && (plan.Kind != kind || plan.Pin != pin) {
		t.Fatalf("%q: kind %d and pin %d of %s", sql, plan.Kind, plan.Pin, describe(plan))
	}
}

// checkCarried sets a changed setting again.
func checkCarried(t *testing.T, c SettingChange) {
	t.Helper()
	if c.SQL == "" {
		return
	}
	name := `"` + strings.ReplaceAll(strings.ReplaceAll(c.Name, `"`, `""`), ".", `"."`) + `"`
	sql := "SET " + name + " TO " + c.SQL
	tree, err := parse.Tree(sql)
	if err != nil {
		if strings.HasPrefix(c.Name, ".") || strings.HasSuffix(c.Name, ".") || strings.Contains(c.Name, "..") {
			return // a quoted name with dots in it: no setting of PostgreSQL
		}
		t.Fatalf("%q: %v", sql, err)
	}
	plan, _ := buildPlan(sql, tree)
	again := plan.SingleStatement()
	if again == nil || len(again.Changes) != 1 || again.Changes[0].SQL != c.SQL || again.Changes[0].Text != c.Text {
		t.Fatalf("%q: %+v, want %+v", sql, again, c)
	}
}
