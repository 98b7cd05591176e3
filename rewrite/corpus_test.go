package rewrite

import (
	"strings"
	"testing"
)

// readCorpus reads statements of PostgreSQL's grammar, one a line, with \n, \r,
// \t and \\ in them.
func readCorpus(t testing.TB) []string {
	t.Helper()
	text := readFile(t, "testdata/corpus/postgres.txt")
	unescape := strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\t`, "\t", `\\`, `\`)
	var all []string
	for line := range strings.Lines(text) {
		all = append(all, unescape.Replace(strings.TrimSuffix(line, "\n")))
	}
	return all
}

// TestCorpusPasses holds that statements that concern no rule go to the server
// byte for byte, and that nothing of them is answered or hidden.
func TestCorpusPasses(t *testing.T) {
	t.Parallel()
	p := newPlanner(t)
	corpus := readCorpus(t)
	if len(corpus) < 500 {
		t.Fatalf("%d statements", len(corpus))
	}
	for _, sql := range corpus {
		if _, err := parseDialect(sql); err != nil {
			t.Errorf("%q is no statement: %v", sql, err)
		}
		plan := p.Plan([]byte(sql))
		if plan.Text != "" {
			t.Errorf("%q became %q", sql, plan.Text)
		}
		for _, st := range plan.Statements {
			if st.Tag != "" || st.Refusal != nil || st.Job != NoJob {
				t.Errorf("%q: %+v", sql, st)
			}
		}
		for _, f := range plan.Findings {
			if f.Outcome != Flagged {
				t.Errorf("%q: %+v", sql, f)
			}
		}
	}
	if n := p.Stats().Unverified; n > 0 {
		t.Errorf("%d rewrites were tried and not verified", n)
	}
}
