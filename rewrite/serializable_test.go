package rewrite

import "testing"

// SERIALIZABLE is what it is unless it is to be taken for less; then the text says so, and the
// relay is told to warn.
func TestSerializableIsTakenForLess(t *testing.T) {
	t.Parallel()
	for _, weaken := range []bool{false, true} {
		config := Defaults()
		config.Rules.Weaken = weaken
		planner, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			sql, text, tag string
			weakened       bool
		}{
			{"BEGIN ISOLATION LEVEL SERIALIZABLE", "BEGIN ISOLATION LEVEL REPEATABLE READ", "", true},
			{"start transaction isolation /* x */ level serializable, READ ONLY", "start transaction isolation /* x */ level repeatable read, READ ONLY", "", true},
			{"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SELECT 1", "SET", true},
			{"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY", "", "", true},
			{"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SELECT 1", "SET", true},
			{"SET default_transaction_isolation = 'serializable'", "SELECT 1", "SET", true},
			{"SET transaction_isolation TO 'SERIALIZABLE'", "SELECT 1", "SET", true},
			{"BEGIN ISOLATION LEVEL REPEATABLE READ", "", "", false},
			{"BEGIN; SELECT 'isolation level serializable'", "", "", false},
		} {
			plan := planner.Plan([]byte(c.sql))
			st := &plan.Statements[0]
			text, tag := c.text, c.tag
			if !weaken && c.weakened {
				text, tag = "", ""
			}
			if plan.Text != text || st.Tag != tag || st.Weakened != (c.weakened && weaken) {
				t.Errorf("weaken %v: %s: %q, tag %q, weakened %v", weaken, c.sql, plan.Text, st.Tag, st.Weakened)
			}
			if c.weakened && len(plan.Findings) == 0 {
				t.Errorf("weaken %v: %s: nothing is found", weaken, c.sql)
			}
		}
	}
}
