package rewrite

import (
	"slices"
	"testing"

	pg_query "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/sluice-proxy/sluice/integration/sqltexts"
	"github.com/sluice-proxy/sluice/rewrite/finding"
)

// unsupportedLock is a locking clause in a text that DSQL refuses; "" for none.
func unsupportedLock(t *rapid.T, sql string) (found string) {
	tree, err := pg_query.Parse(withoutAsyncWords(sql))
	if err != nil {
		t.Fatalf("%q: %v", sql, err)
	}
	visit(tree.ProtoReflect(), func(m protoreflect.Message) {
		if clause, ok := m.Interface().(*pg_query.LockingClause); ok {
			switch clause.Strength {
			case pg_query.LockClauseStrength_LCS_FORUPDATE, pg_query.LockClauseStrength_LCS_FORKEYSHARE:
			default:
				found = clause.Strength.String()
			}
		}
	})
	return found
}

// sent is what a server gets of a text; "" when it gets nothing.
func sent(sql string, plan *Plan) string {
	if st := plan.SingleStatement(); st != nil && st.Refusal != nil {
		return ""
	}
	if plan.Text != "" {
		return plan.Text
	}
	return sql
}

// Feature: dsql-locking-compatibility, Property 1: Locking compatibility: only
// locking that DSQL supports ever reaches it, by every policy but flag; where a
// rewrite could not be verified, the plan says that it passes and fails there.
func TestOnlySupportedLocksAreSent(t *testing.T) {
	t.Parallel()
	planners := map[string]*Planner{"default": newPlanner(t)}
	for _, policy := range []LockClausePolicy{Update, KeyShare, Strip, Reject} {
		config := Defaults()
		lock := LockPolicy{Tables: []string{"*"}, Policy: policy}
		if policy == Strip {
			lock.FencedBy = "version"
		}
		config.Rules.Policies = []LockPolicy{lock}
		planner, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		planners[string(policy)] = planner
	}
	locks, drawn := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		sql := drawText(t, "text", 0)
		if _, err := pg_query.Parse(withoutAsyncWords(sql)); err != nil {
			return // the server refuses it as it is
		}
		if drawn++; unsupportedLock(t, sql) != "" {
			locks++
		}
		for name, planner := range planners {
			plan := planner.Plan([]byte(sql))
			if slices.ContainsFunc(plan.Findings, func(f finding.Finding) bool { return f.Outcome == finding.Unverified }) {
				continue
			}
			if name == string(Reject) && plan.SingleStatement() == nil {
				continue // among others it stands for the server's error
			}
			if lock := unsupportedLock(t, sent(sql, plan)); lock != "" {
				t.Fatalf("%s: %q sends %s in %q", name, sql, lock, sent(sql, plan))
			}
		}
	})
	if locks < drawn/10 {
		t.Errorf("%d of %d had a lock that DSQL refuses: the test has lost its force", locks, drawn)
	}
}

// Feature: dsql-locking-compatibility, Property 8: Initialization: no statement of
// Temporal's services or schema tool, however it is spaced and commented and in
// whatever order they come, meets an error about locking.
func TestTemporalMeetsNoLockingError(t *testing.T) {
	t.Parallel()
	planner := newPlanner(t)
	cases := append(sqltexts.ReadGolden(t, "testdata/temporal_locks.sql"), sqltexts.ReadGolden(t, "testdata/temporal_schema.sql")...)
	locking := 0
	rapid.Check(t, func(t *rapid.T) {
		for range rapid.IntRange(1, 10).Draw(t, "statements") {
			c := rapid.SampledFrom(cases).Draw(t, "statement")
			around := rapid.SampledFrom([]string{"", " ", "\n", "/* FOR SHARE */ ", "-- FOR SHARE\n"})
			sql := around.Draw(t, "before") + c.In + around.Draw(t, "behind")
			plan := planner.Plan([]byte(sql))
			if lock := unsupportedLock(t, sent(sql, plan)); lock != "" {
				t.Fatalf("%q sends %s", sql, lock)
			}
			for _, f := range plan.Findings {
				if f.Rule == finding.LockingRule && (f.Severity == finding.Error || f.Outcome != finding.Rewritten) {
					t.Fatalf("%q: %+v", sql, f)
				}
			}
			if unsupportedLock(t, sql) != "" {
				locking++
			}
		}
	})
	if locking == 0 {
		t.Error("no statement had a lock to rewrite")
	}
}
