package rewrite

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/sqltexts"
	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// mappedNames are the names of a schema public with the tables that the tests of mapped
// columns speak about.
func mappedNames() *schema.NameResolver {
	return schema.New([]schema.Relation{
		{Schema: "public", Name: "t", Columns: []schema.Column{{Name: "a"}, {Name: "k", Mapped: true}, {Name: "v"}}, Key: []string{"a", "k"}},
		{Schema: "public", Name: "u", Columns: []schema.Column{{Name: "Id", Mapped: true}, {Name: "n"}}, Key: []string{"Id"}},
		{Schema: "public", Name: "plain", Columns: []schema.Column{{Name: "a"}, {Name: "k"}}, Key: []string{"a"}},
		{Schema: "other", Name: "t", Columns: []schema.Column{{Name: "k"}}},
	}).ResolverFor([]string{"public"})
}

// mappedPlanner maps bytea keys, without CHECKs unless told.
func mappedPlanner(t testing.TB, change func(*Rules)) *Planner {
	t.Helper()
	config := Defaults()
	config.Rules.Bytea = ByteaHex
	if change != nil {
		change(&config.Rules)
	}
	p, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestMapped reads statements over the tables of mappedNames: what goes out, and what is
// refused and why, stands in golden files.
func TestMapped(t *testing.T) {
	t.Parallel()
	p := mappedPlanner(t, func(r *Rules) { r.ByteaColumns = []string{"x.later"} })
	for _, file := range []string{"ddl", "queries"} {
		checkMapped(t, "testdata/mapped/"+file+".sql", func(in string) *Plan { return p.PlanWithNames([]byte(in), mappedNames()) })
	}
}

// TestMappedByCasts is TestMapped for a server without encode() and decode().
func TestMappedByCasts(t *testing.T) {
	t.Parallel()
	p := mappedPlanner(t, func(r *Rules) { r.Bytea, r.ByteaCheck = ByteaHexCast, true })
	checkMapped(t, "testdata/mapped/cast.sql", func(in string) *Plan { return p.PlanWithNames([]byte(in), mappedNames()) })
}

// TestTemporalMapped reads Temporal's schema, one statement after another, each with the
// tables that those before have made.
func TestTemporalMapped(t *testing.T) {
	t.Parallel()
	p := mappedPlanner(t, func(r *Rules) { r.ByteaCheck = true })
	l := p.NewLinter()
	checkMapped(t, "testdata/mapped/temporal_schema.sql", func(in string) *Plan {
		plan := p.PlanWithNames([]byte(in), l.nameResolver())
		tree, err := parseDialect(in)
		if err != nil {
			t.Fatal(err)
		}
		_, parts := p.draftPlan(in, tree)
		l.addCreatedTables(parts)
		return plan
	})
}

// checkMapped reads a golden file in order, and holds that what goes out for a mapped column
// is told, and parsed again.
func checkMapped(t *testing.T, file string, plan func(in string) *Plan) {
	t.Helper()
	var fresh strings.Builder
	for _, c := range sqltexts.ReadGolden(t, file) {
		plan := plan(c.In)
		out, rules := plan.Text, showFindings(plan)
		if out == "" {
			out = "same"
		}
		for _, st := range plan.Statements {
			if st.Refusal != nil {
				rules += ": " + st.Refusal.Detail
			}
		}
		fmt.Fprintf(&fresh, "-- in\n%s\n-- out\n%s\n-- rules\n%s\n\n", c.In, out, rules)
		if !*update && (out != c.Out || rules != c.Rules) {
			t.Errorf("%s:%d\n%s\n got  %s\n want %s\n rules %s\n want  %s", file, c.Line, c.In, out, c.Out, rules, c.Rules)
		}
		if told := strings.Contains(rules, "bytea_key rewritten info") || strings.Contains(rules, "bytea_followed rewritten warning"); told != (strings.Contains(out, schema.MappedSuffix) || strings.Contains(out, "pg_catalog.encode(") || strings.Contains(out, "pg_catalog.byteacat(")) {
			t.Errorf("%s\n is mapped to %s\n and told so: %v", c.In, out, told)
		}
		if strings.Contains(rules, "unverified") {
			t.Errorf("%s\n does not mean what was intended", c.In)
		}
	}
	if *update {
		head, _, _ := strings.Cut(sqltexts.ReadFile(t, file), "-- in\n")
		if err := os.WriteFile(file, []byte(head+fresh.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// An index over a bytea column that is stored as such is the server's to refuse, and the
// hint says how to have it.
func TestIndexOverUnmappedColumnHasAHint(t *testing.T) {
	t.Parallel()
	p := mappedPlanner(t, nil)
	for sql, want := range map[string]string{
		"CREATE INDEX ON plain (k)":                              unmappedIndex,
		"CREATE INDEX ON t (k)":                                  unmappedIndex, // v of it may be bytea
		"CREATE INDEX ON plain USING gin (k)":                    finding.Sentence(finding.Remedy(finding.IndexMethod)),
		"ALTER TABLE plain ADD COLUMN z int, ADD COLUMN y bytea": "",
	} {
		if got := p.PlanWithNames([]byte(sql), mappedNames()).Statements[0].Hint; got != want {
			t.Errorf("%s\n hint %q, want %q", sql, got, want)
		}
	}
	if got := goldenPlanner(t).Plan([]byte("CREATE INDEX ON plain (k)")).Statements[0].Hint; got != "" {
		t.Errorf("nothing is mapped, and the hint is %q", got)
	}
}

// Lint reads a script as one that makes its tables: what is mapped is for nobody to look at.
func TestLintReadsMappedTables(t *testing.T) {
	t.Parallel()
	l := mappedPlanner(t, nil).NewLinter()
	for _, c := range []struct{ sql, want string }{
		{"CREATE TABLE x (k bytea PRIMARY KEY, v bytea)", "bytea_key rewritten info"},
		{"CREATE INDEX i ON x (v, k)", "bytea_key rewritten info, create_index rewritten info"},
		{"ALTER TABLE x ALTER COLUMN k TYPE text", "bytea_key rejected error"},
		{"CREATE TABLE y (k jsonb PRIMARY KEY)", "bytea_key flagged error"},
	} {
		var got []string
		for _, f := range l.LintStatements(c.sql) {
			got = append(got, fmt.Sprint(f.Feature, " ", f.Outcome, " ", f.Severity))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s\n got  %q\n want %q", c.sql, got, c.want)
		}
	}
}

// What leaves Sluice is left alone when it comes back, as a dump does.
func TestMappedTextsStay(t *testing.T) {
	t.Parallel()
	p := mappedPlanner(t, func(r *Rules) { r.ByteaCheck = true })
	for _, c := range sqltexts.ReadGolden(t, "testdata/mapped/temporal_schema.sql") {
		if !strings.Contains(c.Out, schema.MappedSuffix) {
			continue
		}
		if plan := p.PlanWithNames([]byte(c.Out), schema.New(nil).ResolverFor([]string{"public"})); plan.Text != "" && plan.Text != c.Out || plan.Statements[0].Refusal != nil {
			t.Errorf("%s\n became %s", c.Out, plan.Text)
		}
	}
}

// TestMappingTakesTimeWithLength is TestTimeGoesWithLength over mapped columns.
func TestMappingTakesTimeWithLength(t *testing.T) {
	for name, text := range map[string][3]string{
		"keys":        {"CREATE TABLE x (k bytea", ", UNIQUE (k, k, k)", ")"},
		"deferred":    {"CREATE TABLE x (k bytea", ", UNIQUE (k) DEFERRABLE, UNIQUE (k)", ")"},
		"checks":      {"CREATE TABLE x (k bytea PRIMARY KEY", " CHECK (k > '')", ")"},
		"defaults":    {"CREATE TABLE x (k bytea PRIMARY KEY", " DEFAULT '' NULL", ")"},
		"columns":     {"CREATE TABLE x (k bytea", ", k bytea PRIMARY KEY DEFAULT ''", ")"},
		"references":  {"CREATE TABLE x (k bytea REFERENCES t (k)", ", FOREIGN KEY (k, k) REFERENCES t", ")"},
		"expression":  {"CREATE TABLE x (k bytea PRIMARY KEY, CHECK (k = ''", " OR k > a", "))"},
		"index":       {"CREATE INDEX ON t (k", ", k", ")"},
		"included":    {"CREATE INDEX ON t (k) INCLUDE (k", ", k", ")"},
		"commands":    {"ALTER TABLE t DROP k", ", ALTER k SET DEFAULT '', ADD UNIQUE (k)", ""},
		"grants":      {"GRANT SELECT (k", ", k", ") ON t TO x"},
		"granted":     {"GRANT SELECT (k, v) ON t", ", t", " TO x"},
		"tables":      {"", "CREATE TABLE x (k bytea PRIMARY KEY);", ""},
		"one of many": {"CREATE SCHEMA s", " CREATE TABLE x (k bytea PRIMARY KEY)", ""},
		"refused":     {"", "ALTER TABLE t ALTER k TYPE text; DROP TABLE t;", ""},
	} {
		t.Run(name, func(t *testing.T) {
			checkLinear(t, func(n int) time.Duration {
				p, sql := mappedPlanner(t, nil), []byte(text[0]+strings.Repeat(text[1], n)+text[2])
				began := cpuTime(t)
				p.PlanWithNames(sql, mappedNames())
				return cpuTime(t) - began
			})
		})
	}
}

// Where no column is mapped, and no key is bytea, a text is planned as without the mapping.
func TestNothingMappedChangesNothing(t *testing.T) {
	t.Parallel()
	plain, mapping := newPlanner(t), mappedPlanner(t, nil)
	names := schema.New([]schema.Relation{{Schema: "public", Name: "t", Columns: []schema.Column{{Name: "a"}, {Name: "b"}}}}).ResolverFor([]string{"public"})
	for _, sql := range sqltexts.ReadCorpus(t, "testdata/corpus/postgres.txt") {
		want, got := plain.Plan([]byte(sql)), mapping.planByTree([]byte(sql), names)
		if got.Text != want.Text || showFindings(got) != showFindings(want) {
			t.Errorf("%s\n became %q, want %q; %s, want %s", sql, got.Text, want.Text, showFindings(got), showFindings(want))
		}
	}
}
