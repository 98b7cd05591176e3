package rewrite

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite/alter"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// addition is the first constraint that a statement adds.
func addition(t *testing.T, sql string) *alter.AddedConstraint {
	t.Helper()
	plan := goldenPlanner(t).Plan([]byte(sql))
	st := plan.SingleStatement()
	if st == nil || stepsOf[*alter.AddedConstraints](st) == nil {
		t.Fatalf("%s: nothing is added", sql)
	}
	return &stepsOf[*alter.AddedConstraints](st).Adds[0]
}

// What a statement has left is taken for its own by what the catalog shows of it, and only
// where that says the same.
func TestShownConstraints(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sql, shown string
		want       bool
	}{
		{"CHECK (a > 0)", "CHECK ((a > 0)) NOT VALID", true},
		{"CHECK (a > 0)", "CHECK ((a > 1)) NOT VALID", false},
		{"CHECK (a > 0)", "CHECK ((b > 0)) NOT VALID", false},
		{"CHECK (a > 0)", "CHECK ((a > 0))", false},
		{"CHECK (a > 0)", "CHECK ((a > 0)) NO INHERIT NOT VALID", false},
		{"CHECK (a > 0)", "CHECK (((a)::integer > 0)) NOT VALID", false},
		{"CHECK (s <> 'x')", "CHECK ((s <> 'x'::text)) NOT VALID", true},
		{"CHECK (s <> 'x')", "CHECK (((s)::text <> 'x'::text)) NOT VALID", true},
		{"CHECK (s::text <> 'x')", "CHECK (((s)::text <> 'x'::text)) NOT VALID", true},
		{"CHECK (a IS NOT NULL)", "CHECK ((a IS NOT NULL)) NOT VALID", true},
		{"CHECK (a IS NOT NULL AND b > 0)", "CHECK (((a IS NOT NULL) AND (b > 0))) NOT VALID", true},
		{"CHECK (a IS NOT NULL)", "FOREIGN KEY (a) REFERENCES u(b) NOT VALID", false},
		{"FOREIGN KEY (a) REFERENCES u", "FOREIGN KEY (a) REFERENCES s.u(id) NOT VALID", true},
		{"FOREIGN KEY (a) REFERENCES s.u (id)", "FOREIGN KEY (a) REFERENCES u(id) NOT VALID", true},
		{"FOREIGN KEY (a) REFERENCES u (id)", "FOREIGN KEY (a) REFERENCES u(other) NOT VALID", false},
		{"FOREIGN KEY (a) REFERENCES u (id) ON DELETE NO ACTION", "FOREIGN KEY (a) REFERENCES u(id) NOT VALID", true},
		{"FOREIGN KEY (a) REFERENCES u (id) ON DELETE CASCADE", "FOREIGN KEY (a) REFERENCES u(id) NOT VALID", false},
		{"FOREIGN KEY (a) REFERENCES u (id)", "FOREIGN KEY (a) REFERENCES u(id) DEFERRABLE NOT VALID", false},
		{"FOREIGN KEY (a) REFERENCES u (id)", "FOREIGN KEY (b) REFERENCES u(id) NOT VALID", false},
		{"FOREIGN KEY (a) REFERENCES u (id)", "no SQL", false},
	} {
		if got := addition(t, "ALTER TABLE t ADD "+c.sql).MatchesShown(c.shown); got != c.want {
			t.Errorf("%s and %s: %t", c.sql, c.shown, got)
		}
	}
}

// Statements that cannot be carried out where they stand have the steps in their hint.
func TestHintsOfConstraints(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]string{
		"ALTER TABLE t ADD UNIQUE (a); SELECT 1":          `CREATE UNIQUE INDEX ASYNC "t_a_key" ON t ("a"); when its job (sys.jobs) is done ALTER TABLE t ADD CONSTRAINT "t_a_key" UNIQUE USING INDEX "t_a_key". Or send the statement alone`,
		"ALTER TABLE t ADD CHECK (a > 0); SELECT 1":       `ALTER TABLE t ADD CONSTRAINT "t_a_check" CHECK (a > 0) NOT VALID; ALTER TABLE ASYNC t VALIDATE CONSTRAINT "t_a_check".`,
		"ALTER TABLE t ADD CHECK (a > 0)":                 "Send the statement alone outside of a transaction",
		"ALTER TABLE t ADD PRIMARY KEY (a)":               "Name the key in CREATE TABLE",
		"ALTER TABLE t ADD EXCLUDE USING gist (a WITH =)": "Check it in the application",
	} {
		if got := goldenPlanner(t).Plan([]byte(sql)).Statements[0].Hint; !strings.Contains(got, want) {
			t.Errorf("%s: %s", sql, got)
		}
	}
	config := Defaults()
	config.Rules.Constraints = false
	p, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	st := p.Plan([]byte("ALTER TABLE t ADD CHECK (a > 0)")).SingleStatement()
	if st.Steps != nil || !strings.Contains(st.Hint, "NOT VALID") {
		t.Errorf("switched off: %+v", st)
	}
	if st := p.Plan([]byte("ALTER TABLE t ALTER a SET NOT NULL")).SingleStatement(); st.Steps != nil {
		t.Errorf("NOT NULL: %+v", st)
	}
}

// The linter says of a statement in a transaction that it is not carried out there.
func TestLinterOfConstraints(t *testing.T) {
	t.Parallel()
	linter := newPlanner(t).NewLinter()
	var got []string
	for s := range parse.SplitScript("ALTER TABLE t ADD CHECK (a > 0); BEGIN; ALTER TABLE t ADD CHECK (a > 0); COMMIT; ALTER TABLE t ADD UNIQUE (a); ALTER TABLE t ADD PRIMARY KEY (a)") {
		for _, f := range linter.LintStatements(s.SQL) {
			got = append(got, fmt.Sprintf("%s %s %s", f.Feature, f.Outcome, f.Severity))
		}
	}
	want := []string{"alter_add_constraint rewritten info", "alter_add_constraint flagged error", "alter_add_constraint rewritten info", "alter_add_primary_key flagged error"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Whatever a statement is made of, its steps are statements of one command each that name its
// table, and no others: what cannot be read so is left alone.
func TestStepsAreWhatIsMeant(t *testing.T) {
	t.Parallel()
	p := goldenPlanner(t)
	tables := []string{"t", "public.t", `"T ;--"`, `"a.b"."c""d"`, "ONLY t", "ONLY ( t )", "t *"}
	constraints := []string{"UNIQUE (a)", `CONSTRAINT "x, y" UNIQUE ("B c", a)`, "CHECK (a IN (1, 2) AND b <> ') NOT VALID; DROP TABLE t; --')", "CHECK (f(a, ',') > 0) NO INHERIT",
		"CHECK (a > ANY (ARRAY[1, 2]))", "FOREIGN KEY (a, b) REFERENCES s.u (c, d) ON DELETE SET NULL (a)", "FOREIGN KEY (a) REFERENCES u DEFERRABLE", "CHECK (a /* , */ > 0 -- ,\n)",
		"CONSTRAINT U&\"d\\0061t\" CHECK (b = E'\\'')", "CHECK (b = $$,)$$)", "CHECK (((a)))", "FOREIGN KEY (a) REFERENCES u NOT VALID", "UNIQUE USING INDEX i", "PRIMARY KEY (a)"}
	columns := []string{"COLUMN a int UNIQUE", `"x y" numeric(3, 1) CHECK ("x y" > 0) NULL`, "a timestamp(3) with time zone REFERENCES u DEFERRABLE INITIALLY DEFERRED", "a varchar(3) STORAGE PLAIN UNIQUE",
		"a int CONSTRAINT c NOT NULL", "a s.\"t y\" CHECK (VALUE > 0)", "a double precision CHECK (a > 0) UNIQUE DEFERRABLE", "a int GENERATED BY DEFAULT AS IDENTITY UNIQUE"}
	random := rand.New(rand.NewPCG(1, 2))
	taken := 0
	for range 3000 {
		var cmds []string
		for range 1 + random.IntN(3) {
			if random.IntN(3) == 0 {
				cmds = append(cmds, "ADD "+columns[random.IntN(len(columns))])
			} else {
				cmds = append(cmds, "ADD "+constraints[random.IntN(len(constraints))])
			}
		}
		sql := "ALTER TABLE " + tables[random.IntN(len(tables))] + " " + strings.Join(cmds, []string{", ", ",\n", " /* , */ , "}[random.IntN(3)]) + []string{"", ";", " -- end", "/* end"}[random.IntN(3)]
		plan := p.Plan([]byte(sql))
		st := plan.SingleStatement()
		if st == nil || stepsOf[*alter.AddedConstraints](st) == nil {
			continue
		}
		adds := stepsOf[*alter.AddedConstraints](st)
		taken++
		tree, err := parse.Tree(sql)
		if err != nil {
			t.Fatal(sql, err)
		}
		of := tree.Child("stmts").Child("stmt").Child("relation")
		if len(adds.Columns)+len(adds.Adds) < len(cmds) {
			t.Errorf("%s: %d columns, %d constraints", sql, len(adds.Columns), len(adds.Adds))
		}
		for _, step := range showSteps(adds) {
			made, err := parseDialect(strings.TrimPrefix(step, "step "))
			if err != nil || len(made.Values("stmts")) != 1 {
				t.Fatalf("%s:\n%s: %v", sql, step, err)
			}
			node := made.Child("stmts").Child("stmt")
			if relation := node.Child("relation"); relation.Text("relname") != of.Text("relname") || relation.Text("schemaname") != of.Text("schemaname") {
				t.Errorf("%s:\n%s is of another table", sql, step)
			}
			if node.Is("AlterTableStmt") && len(node.Values("cmds")) != 1 {
				t.Errorf("%s:\n%s has several commands", sql, step)
			}
		}
	}
	if t.Logf("%d of 3000 are taken", taken); taken < 500 {
		t.Errorf("%d of 3000 are taken", taken)
	}
}
