package rewrite

import (
	"testing"

	"github.com/sluice-proxy/sluice/integration/sqltexts"
	"github.com/sluice-proxy/sluice/rewrite/finding"
)

// TestCorpusPasses holds that statements that concern no rule go to the server
// byte for byte, and that nothing of them is answered or hidden.
func TestCorpusPasses(t *testing.T) {
	t.Parallel()
	p := newPlanner(t)
	corpus := sqltexts.ReadCorpus(t, "testdata/corpus/postgres.txt")
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
			if f.Outcome != finding.Flagged {
				t.Errorf("%q: %+v", sql, f)
			}
		}
	}
	if n := p.Stats().Unverified; n > 0 {
		t.Errorf("%d rewrites were tried and not verified", n)
	}
}
