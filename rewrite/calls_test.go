package rewrite

import (
	"testing"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// Only functions that may change settings count as calls.
func TestCalls(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"SELECT now(), count(*) FROM t": false, "SELECT f()": true, "SELECT public.now()": true, "SELECT nextval('s')": false,
		"SELECT set_config('a', 'b', true)": false, "SELECT set_config('a', $1, true)": true, "SELECT pg_advisory_xact_lock(1)": false, "SELECT pg_catalog.set_config('a', n, true) FROM t": true,
		"INSERT INTO t (a, b) VALUES (1, f())": true, "INSERT INTO t (a) VALUES (1) ON CONFLICT (a) DO NOTHING": false,
		"WITH a AS (SELECT f()) SELECT 1": true, "PREPARE p AS SELECT f()": false, "CREATE VIEW v AS SELECT f()": false,
		"UPDATE t SET a = f(a)": true, "DELETE FROM t USING u WHERE f(t.a)": true, "DECLARE c CURSOR FOR SELECT f()": true,
		"COPY (SELECT f()) TO STDOUT": true, "SELECT query_to_xml('SELECT 1', true, true, '')": true, "CREATE TABLE t AS SELECT f()": true,
	} {
		plan := newPlanner(t).Plan([]byte(text))
		if st := plan.SingleStatement(); st == nil || st.Calls != want {
			t.Errorf("%s: %v, want %v", text, !want, want)
		}
	}
}

// No function that leaves something in the session is one of those without side effects.
func TestPinsAreNotHarmless(t *testing.T) {
	t.Parallel()
	for name := range functionPins {
		if parse.RoleOfLowerWord(name)&parse.Harmless != 0 {
			t.Errorf("%s has no side effects, and pins", name)
		}
	}
}
