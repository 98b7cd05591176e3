package rewrite

import (
	"fmt"
	"strings"
	"testing"
)

// advisoryPlanner has the rules of a configuration that keeps advisory locks, or not.
func advisoryPlanner(t *testing.T, on bool) *Planner {
	t.Helper()
	rules := AllRules()
	rules.Advisory = on
	p, err := New(Config{MaxBytes: DefaultMaxBytes, MaxNesting: DefaultMaxNesting, CacheEntries: 100, CacheBytes: 1 << 20, Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// showAdvisory writes what a plan says of advisory locks.
func showAdvisory(st *Statement) string {
	switch a := st.Advisory; {
	case st.Refusal != nil:
		return "refused"
	case a == nil:
		return "none"
	default:
		out := []string{[]string{"lock", "try", "unlock", "all"}[a.Verb], a.Column}
		for _, arg := range a.Args {
			switch {
			case arg.Null:
				out = append(out, "NULL")
			case arg.Param > 0:
				out = append(out, fmt.Sprintf("$%d:%d", arg.Param, arg.Type))
			default:
				out = append(out, fmt.Sprint(arg.Value))
			}
		}
		return strings.Join(out, " ")
	}
}

func TestAdvisory(t *testing.T) {
	t.Parallel()
	p := advisoryPlanner(t, true)
	for _, test := range []struct{ sql, want string }{
		{"SELECT pg_advisory_lock($1)", "lock pg_advisory_lock $1:0"},
		{"SELECT pg_advisory_unlock($1)", "unlock pg_advisory_unlock $1:0"},
		{"SELECT pg_try_advisory_lock(4847427389173527425)", "try pg_try_advisory_lock 4847427389173527425"},
		{"SELECT pg_advisory_lock(72707369)", "lock pg_advisory_lock 72707369"},
		{"select Pg_Catalog.PG_ADVISORY_LOCK ( -1 ) as \"a b\" ;", "lock a b -1"},
		{"/* a */ SELECT pg_advisory_lock(1) -- b", "lock pg_advisory_lock 1"},
		{"SELECT ALL pg_advisory_lock(1)", "lock pg_advisory_lock 1"},
		{"SELECT pg_advisory_lock(1, 2)", "lock pg_advisory_lock 1 2"},
		{"SELECT pg_advisory_lock($2, $1)", "lock pg_advisory_lock $2:0 $1:0"},
		{"SELECT pg_advisory_lock($1, $1)", "lock pg_advisory_lock $1:0 $1:0"},
		{"SELECT pg_advisory_lock(1, $1::int)", "lock pg_advisory_lock 1 $1:23"},
		{"SELECT pg_advisory_lock($1::bigint)", "lock pg_advisory_lock $1:20"},
		{"SELECT pg_advisory_lock(CAST(5 AS int8))", "lock pg_advisory_lock 5"},
		{"SELECT pg_advisory_lock('5')", "lock pg_advisory_lock 5"},
		{"SELECT pg_advisory_lock(NULL)", "lock pg_advisory_lock NULL"},
		{"SELECT pg_advisory_lock(9223372036854775807)", "lock pg_advisory_lock 9223372036854775807"},
		{"SELECT pg_advisory_unlock_all()", "all pg_advisory_unlock_all"},

		{"SELECT pg_advisory_lock(9223372036854775808)", "refused"},
		{"SELECT pg_advisory_lock(1.0)", "refused"},
		{"SELECT pg_advisory_lock(1, 3000000000)", "refused"},
		{"SELECT pg_advisory_lock(1, 2::bigint)", "refused"},
		{"SELECT pg_advisory_lock(3000000000::int)", "refused"},
		{"SELECT pg_advisory_lock($2)", "refused"},
		{"SELECT pg_advisory_lock(1, $2)", "refused"},
		{"SELECT pg_advisory_lock($1, $3)", "refused"},
		{"SELECT pg_advisory_lock($1::text)", "refused"},
		{"SELECT pg_advisory_lock('{1}'::int[])", "refused"},
		{"SELECT pg_advisory_lock()", "refused"},
		{"SELECT pg_advisory_lock(1, 2, 3)", "refused"},
		{"SELECT pg_advisory_unlock_all(1)", "refused"},
		{"SELECT pg_advisory_xact_lock(1)", "refused"},
		{"SELECT pg_try_advisory_xact_lock(1)", "refused"},
		{"SELECT pg_advisory_lock_shared(1)", "refused"},
		{"SELECT pg_advisory_unlock_shared(1)", "refused"},
		{"SELECT pg_advisory_lock(1) WHERE false", "refused"},
		{"SELECT pg_advisory_lock(1) LIMIT 0", "refused"},
		{"SELECT pg_advisory_lock(1) FROM t", "refused"},
		{"SELECT pg_advisory_lock(1), 2", "refused"},
		{"SELECT pg_advisory_lock(1) UNION SELECT pg_advisory_lock(2)", "refused"},
		{"SELECT DISTINCT pg_try_advisory_lock(1)", "refused"},
		{"SELECT pg_advisory_lock(VARIADIC ARRAY[1, 2])", "refused"},
		{"SELECT pg_advisory_lock(key => 1)", "refused"},
		{"SELECT pg_try_advisory_lock(1)::text", "refused"},
		{"SELECT NOT pg_try_advisory_lock(1)", "refused"},
		{"SELECT pg_try_advisory_lock(1) INTO t", "refused"},
		{"SELECT pg_advisory_lock(1 + 1)", "refused"},
		{"SELECT pg_advisory_lock(hashtext('a'))", "refused"},
		{"SELECT * FROM pg_advisory_lock(1)", "refused"},
		{"WITH a AS (SELECT pg_advisory_lock(1)) SELECT 1", "refused"},
		{"INSERT INTO t SELECT pg_advisory_lock(1)", "refused"},
		{"VALUES (pg_advisory_lock(1))", "refused"},
		{"EXPLAIN ANALYZE SELECT pg_advisory_lock(1)", "refused"},
		{"DECLARE c CURSOR FOR SELECT pg_advisory_lock(1)", "refused"},
		{"COPY (SELECT pg_advisory_lock(1)) TO STDOUT", "refused"},
		{"UPDATE t SET a = 1 WHERE pg_try_advisory_lock(a)", "refused"},

		{"SELECT other.pg_advisory_lock(1)", "none"},
		{"SELECT 'pg_advisory_lock(1)'", "none"},
		{"SELECT pg_advisory_lock FROM t", "none"},
	} {
		st := p.Plan([]byte(test.sql)).SingleStatement()
		if got := showAdvisory(st); got != test.want {
			t.Errorf("%s: %s, want %s", test.sql, got, test.want)
		}
		if st.Refusal != nil && (!st.Refusal.Unsent || st.Refusal.Code != "0A000" || st.Refusal.Hint == "") {
			t.Errorf("%s: %+v", test.sql, st.Refusal)
		}
		if st.Pin != NoPin && test.want != "none" {
			t.Errorf("%s pins the session", test.sql)
		}
	}
	for _, sql := range []string{"SELECT pg_advisory_lock(1); SELECT 1", "SELECT 1; SELECT pg_advisory_unlock(1)"} {
		plan := p.Plan([]byte(sql))
		if showAdvisory(&plan.Statements[0]) != "refused" && showAdvisory(&plan.Statements[1]) != "refused" {
			t.Errorf("%s: a lock in a string is not refused", sql)
		}
	}
}

// Without the rule nothing changes: the statement goes to the cluster, which refuses it.
func TestAdvisoryOff(t *testing.T) {
	t.Parallel()
	p := advisoryPlanner(t, false)
	for _, sql := range []string{"SELECT pg_advisory_lock(1)", "SELECT pg_advisory_xact_lock(1)", "SELECT pg_try_advisory_lock($1)"} {
		plan := p.Plan([]byte(sql))
		if st := plan.SingleStatement(); st.Advisory != nil || st.Refusal != nil || plan.Text != "" || st.Tag != "" {
			t.Errorf("%s: %+v", sql, st)
		}
	}
}
