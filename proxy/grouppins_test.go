package proxy_test

import (
	"strings"
	"testing"
)

// A group that fails gives its backend back only where nothing of it may have stayed
// there: a lock of the session does, beside whatever else the group was to keep.
func TestPinsOfAFailedGroup(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	const fails = "P - | SELECT 1/0\nB - | -\nE -\nS\n< Z\n"
	run := func(texts ...string) (script string) {
		for _, sql := range texts {
			script += "P - | " + sql + "\nB - | -\nE -\n"
		}
		return script + fails
	}
	const lock, held = "SELECT pg_advisory_lock(7801)", "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
	for name, test := range map[string]struct {
		script string
		keeps  bool
	}{
		"LISTEN":                {run("LISTEN x"), false},
		"LISTEN, a lock":        {run("LISTEN x", lock), true},
		"a lock, LISTEN":        {run(lock, "LISTEN x"), true},
		"LISTEN, a table":       {run("LISTEN x", "CREATE TEMP TABLE tt (n int)"), false},
		"a table, a lock":       {run("CREATE TEMP TABLE tt (n int)", lock), true},
		"LISTEN, then a Query":  {"P - | LISTEN x\nB - | -\nE -\nQ " + lock + "; SELECT 1/0\n< Z\n", true},
		"LISTEN, a locking one": {run("LISTEN x", "DO $$ BEGIN PERFORM pg_advisory_lock(7801); END $$"), true},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSluice(t, pg, maxOpen(2))
			first := dialRaw(t, s.addr)
			if got := first.say(t, test.script); !strings.Contains(got, "C=22012") {
				t.Fatalf("got:\n%s", got)
			}
			if n := s.backends.Stats().InUse; (n == 1) != test.keeps {
				t.Errorf("%d backends are held", n)
			}
			got := dialRaw(t, s.addr).say(t, "Q "+held+"\n< Z\n")
			if !strings.Contains(got, "\\x010\n") && !strings.Contains(got, "10\n") {
				t.Errorf("another client's backend holds locks:\n%s", got)
			}
		})
	}
}
