package values

import (
	"testing"

	"github.com/sluice-proxy/sluice/rewrite"
)

// newPlanner returns a planner of the default rules.
func newPlanner(t testing.TB) *rewrite.Planner { return plannerBy(t, func(*rewrite.Rules) {}) }

// plannerBy returns a planner of the default rules with a change.
func plannerBy(t testing.TB, change func(*rewrite.Rules)) *rewrite.Planner {
	t.Helper()
	config := rewrite.Defaults()
	change(&config.Rules)
	p, err := rewrite.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// allRules turns on those rules that are off by default and change texts.
func allRules(r *rewrite.Rules) {
	r.Policies, r.NotNullCheck, r.Retype, r.CopyIn = []rewrite.LockPolicy{{Tables: []string{"u"}, Policy: rewrite.Strip, FencedBy: "n"}, {Tables: []string{"plain"}, Policy: rewrite.KeyShare}}, true, true, true
}
