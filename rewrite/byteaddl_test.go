package rewrite

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// mappedNames are the names of a schema public with the tables that the tests of mapped
// columns speak about.
func mappedNames() *Names {
	return NewSchema([]Relation{
		{Schema: "public", Name: "t", Columns: []Column{{Name: "a"}, {Name: "k", Mapped: true}, {Name: "v"}}, Key: []string{"a", "k"}},
		{Schema: "public", Name: "u", Columns: []Column{{Name: "Id", Mapped: true}, {Name: "n"}}, Key: []string{"Id"}},
		{Schema: "public", Name: "plain", Columns: []Column{{Name: "a"}, {Name: "k"}}, Key: []string{"a"}},
		{Schema: "other", Name: "t", Columns: []Column{{Name: "k"}}},
	}).In([]string{"public"})
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

// mapping is a text and what becomes of it: "same", another text, or "refused:" with the
// beginning of the detail.
type mapping struct{ in, want string }

func checkMapping(t *testing.T, p *Planner, names *Names, cases []mapping) {
	t.Helper()
	for _, c := range cases {
		plan := p.PlanIn([]byte(c.in), names)
		got := plan.Text
		if got == "" {
			got = "same"
		}
		for _, st := range plan.Statements {
			if st.Refusal != nil {
				got = "refused: " + st.Refusal.Detail
				if st.Refusal.Code != "0A000" || st.Refusal.Hint == "" {
					t.Errorf("%s\n refused with %+v", c.in, st.Refusal)
				}
			}
		}
		if got != c.want && !(strings.HasPrefix(c.want, "refused: ") && strings.HasPrefix(got, c.want)) {
			t.Errorf("%s\n got  %s\n want %s", c.in, got, c.want)
		}
		mapped := got != "same" && strings.Contains(got, MappedSuffix) && !strings.HasPrefix(got, "refused: ")
		if told := strings.Contains(fmt.Sprint(showFindings(plan)), "bytea_key rewritten info"); told != mapped {
			t.Errorf("%s\n findings %s", c.in, showFindings(plan))
		}
	}
}

func TestCreateTableMapped(t *testing.T) {
	t.Parallel()
	checkMapping(t, mappedPlanner(t, nil), mappedNames(), []mapping{
		{"CREATE TABLE x (k bytea PRIMARY KEY)", "CREATE TABLE x (k__byteahex text PRIMARY KEY)"},
		{"CREATE TABLE x (k bytea, v bytea)", "same"},
		{"CREATE TABLE x (k BYTEA NOT NULL, n int, v bytea, PRIMARY KEY (n, k))",
			"CREATE TABLE x (k__byteahex text NOT NULL, n int, v bytea, PRIMARY KEY (n, k__byteahex))"},
	})
}

// TestTemporalMapped reads Temporal's schema, one statement after another, each with the
// tables that those before have made: what goes out stands in a golden file.
func TestTemporalMapped(t *testing.T) {
	t.Parallel()
	const file = "testdata/mapped/temporal_schema.sql"
	p := mappedPlanner(t, func(r *Rules) { r.ByteaCheck = true })
	l := p.Linter()
	var fresh strings.Builder
	cases := readGolden(t, file)
	for _, c := range cases {
		plan := p.PlanIn([]byte(c.in), l.names())
		tree, err := parseDialect(c.in)
		if err != nil {
			t.Fatal(err)
		}
		_, parts := p.draft(c.in, tree)
		l.learn(parts)
		out, rules := plan.Text, showFindings(plan)
		if out == "" {
			out = "same"
		}
		fmt.Fprintf(&fresh, "-- in\n%s\n-- out\n%s\n-- rules\n%s\n\n", c.in, out, rules)
		if !*update && (out != c.out || rules != c.rules) {
			t.Errorf("%s:%d\n%s\n got  %s\n want %s\n rules %s\n want  %s", file, c.line, c.in, out, c.out, rules, c.rules)
		}
	}
	if *update {
		head, _, _ := strings.Cut(readFile(t, file), "-- in\n")
		if err := os.WriteFile(file, []byte(head+fresh.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
