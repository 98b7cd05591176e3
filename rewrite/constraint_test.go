package rewrite

import (
	"strings"
	"testing"
)

// addition is the first constraint that a statement adds.
func addition(t *testing.T, sql string) *Addition {
	t.Helper()
	plan := goldenPlanner(t).Plan([]byte(sql))
	st := plan.Single()
	if st == nil || st.Constraints == nil {
		t.Fatalf("%s: nothing is added", sql)
	}
	return &st.Constraints.Adds[0]
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
		if got := addition(t, "ALTER TABLE t ADD "+c.sql).Is(c.shown); got != c.want {
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
	st := p.Plan([]byte("ALTER TABLE t ADD CHECK (a > 0)")).Single()
	if st.Constraints != nil || !strings.Contains(st.Hint, "NOT VALID") {
		t.Errorf("switched off: %+v", st)
	}
	if st := p.Plan([]byte("ALTER TABLE t ALTER a SET NOT NULL")).Single(); st.Constraints != nil {
		t.Errorf("NOT NULL: %+v", st)
	}
}
