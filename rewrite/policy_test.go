package rewrite

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite/finding"
)

func TestPolicyValidation(t *testing.T) {
	t.Parallel()
	config := Defaults()
	config.MaxBytes = -1
	config.Rules.Policies = []LockPolicy{
		{Tables: []string{"t"}, Policy: Update},
		{Tables: []string{"queue_*"}, Policy: Strip},
		{Policy: "lock", FencedBy: "x"},
		{Tables: []string{"a.b.c", ""}, Clauses: []string{"update"}, Policy: KeyShare, FencedBy: "x", Name: "Lock Me"},
	}
	config.Rules.ByteaColumns = []string{"t.c", "t." + strings.Repeat("x", 53), "t." + strings.Repeat("y", 54), "t.", ".c"}
	_, err := New(config)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"rewrite.max_bytes: -1: ",
		"rewrite.locking_policies: policy 2: fenced_by: strip takes a guarantee away",
		"policy 3: tables: want at least one",
		`policy 3: policy: "lock": want update`,
		`policy 4: tables: "a.b.c": want`, `policy 4: tables: "": want`,
		`policy 4: clauses: "update": want`,
		`policy 4: fenced_by: "x": has a meaning with policy strip only`,
		`policy 4: name: "Lock Me": want`,
		`rewrite.bytea_columns: "t.": want`, `rewrite.bytea_columns: ".c": want`,
		`rewrite.bytea_columns: "t.` + strings.Repeat("y", 54) + `": want a column's name of at most 53 bytes`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "policy 1") || strings.Contains(err.Error(), `"t.c"`) || strings.Contains(err.Error(), "xxx") {
		t.Errorf("what is good is refused: %v", err)
	}
}

func TestPolicyMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, table string
		want           bool
	}{
		{"t", "t", true}, {"t", "T", false}, {"t", "s.t", true}, {"t", "db.s.t", true}, {"t", "tt", false},
		{"*", "", true}, {"*", "x", true}, {"queue_*", "queue_", true}, {"queue_*", "queue", false}, {"queue_*", "s.queue_a", true},
		{"s.t", "t", false}, {"s.t", "s.t", true}, {"s.t", "db.s.t", true}, {"s.t", "r.t", false}, {"s.*", "s.t", true}, {"s.*", "t", false},
		{"*.t", "s.t", true}, {"?", "x", true}, {"?", "", false}, {"a?c*", "abc", true}, {"a*b*c", "aXbYbZc", true}, {"a*b*c", "aXbY", false},
		{"**a**", "bab", true}, {strings.Repeat("*a", 30), strings.Repeat("a", 60) + "b", false},
	} {
		p := LockPolicy{Tables: []string{c.pattern}}
		if got := p.matchesTable(c.table); got != c.want {
			t.Errorf("%q for %q: %v", c.pattern, c.table, got)
		}
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	rules := Rules{Policies: []LockPolicy{
		{Tables: []string{"a"}, Clauses: []string{ShareClause}, Policy: Strip, FencedBy: "x", Name: "first"},
		{Tables: []string{"a"}, Policy: Reject, Name: "second"},
		{Tables: []string{"k"}, Policy: KeyShare},
		{Tables: []string{"f*"}, Policy: Flag},
	}}
	for _, c := range []struct {
		tables, clauses, want, name string
	}{
		{"", "share", "update", ""},
		{"t", "share", "update", ""},
		{"a", "share", "strip", "first"},
		{"a", "no key update", "reject", "second"},
		{"a", "share,no key update", "reject", "second"},
		{"a k", "share", "key-share", ""},
		{"a k t", "share", "update", ""},
		{"a k t f1", "share", "flag", ""},
		{"f1 a", "no key update", "reject", "second"},
	} {
		policy, name := rules.strongestPolicy(strings.Fields(c.tables), strings.Split(c.clauses, ","))
		if string(policy) != c.want || name != c.name {
			t.Errorf("%s for %s: %s %q, want %s %q", c.tables, c.clauses, policy, name, c.want, c.name)
		}
	}
}

// TestRulesAreSwitchedOffAlone holds that each rule's switch stops that rule and
// no other, and that what is off is still told.
func TestRulesAreSwitchedOffAlone(t *testing.T) {
	t.Parallel()
	type example struct {
		sql     string
		rule    finding.Rule
		feature finding.Feature
	}
	examples := []example{
		{"SELECT a FROM t FOR SHARE", finding.LockingRule, finding.ForShare},
		{"CREATE INDEX i ON t (a)", finding.IndexRule, finding.CreateIndex},
		{"CREATE TABLE t (a serial)", finding.SerialRule, finding.Serial},
		{"CREATE DATABASE d", finding.DatabaseRule, finding.CreateDatabase},
		{"DROP DATABASE d", finding.DatabaseRule, finding.DropDatabase},
		{"BEGIN ISOLATION LEVEL READ COMMITTED", finding.IsolationRule, finding.IsolationLevel},
		{"SET TRANSACTION ISOLATION LEVEL READ COMMITTED", finding.IsolationRule, finding.TransactionMode},
		{"DISCARD PLANS", finding.SessionRule, ""},
		{"FETCH ALL FROM c", finding.CursorRule, finding.CursorUse},
	}
	switches := map[finding.Rule]func(*Rules){
		finding.LockingRule: func(r *Rules) { r.Locking = false }, finding.IndexRule: func(r *Rules) { r.Index = false },
		finding.SerialRule: func(r *Rules) { r.Serial = false }, finding.DatabaseRule: func(r *Rules) { r.Databases = false },
		finding.IsolationRule: func(r *Rules) { r.Isolation = false }, finding.SessionRule: func(r *Rules) { r.Session = false },
		finding.CursorRule: func(r *Rules) { r.Cursors = false },
	}
	for rule, turn := range switches {
		config := Defaults()
		turn(&config.Rules)
		p, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range examples {
			plan := p.Plan([]byte(e.sql))
			st := plan.SingleStatement()
			touched := plan.Text != "" || st.Tag != "" || st.Refusal != nil || st.Job != NoJob || st.Cursor != nil
			if touched != (e.rule != rule) {
				t.Errorf("without %s: %q: %q %+v", rule, e.sql, plan.Text, st)
			}
			if e.rule != rule || e.feature == "" {
				continue
			}
			if len(plan.Findings) != 1 || plan.Findings[0].Feature != e.feature || plan.Findings[0].Severity != finding.Error || plan.Findings[0].Outcome != finding.Flagged {
				t.Errorf("without %s: %q: %+v", rule, e.sql, plan.Findings)
			}
		}
	}
	none, err := New(Config{MaxBytes: 1 << 20, MaxNesting: 100, CacheEntries: 10, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"SELECT a FROM t FOR SHARE", "TRUNCATE t", "CREATE TABLE a (a serial); CREATE DATABASE b"} {
		if plan := none.Plan([]byte(sql)); plan.Text != "" || len(plan.Findings) > 0 {
			t.Errorf("without any rule: %q: %q %+v", sql, plan.Text, plan.Findings)
		}
	}
}
