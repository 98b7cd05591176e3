package proxy_test

import (
	"strings"
	"testing"
)

// Where a server lacks what columns are converted with, the error names the setting that does
// without. A value of another type is the client's mistake, and its hint says so.
func TestServerWithoutEncode(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	keyed(t, pg, "public", true)
	s := startSluice(t, pg, asDSQL, withReplay, mapping)
	if got := perform(t, s.addr, "Q SELECT n FROM t WHERE k = 5\n< Z\n"); !strings.Contains(got, "C=42883") || !strings.Contains(got, "cast the value to bytea") || strings.Count(got, " H=") != 1 {
		t.Errorf("a mistake: got\n%s", got)
	}
	pg.SQL(t, "postgres", "SET allow_system_table_mods = on; UPDATE pg_proc SET proname = 'no' || proname WHERE proname IN ('encode', 'decode')")
	for _, script := range []string{"Q SELECT n FROM t WHERE k = 'a'\n< Z\n", "Q SELECT k FROM t\n< Z\n", "P - | SELECT k FROM t\nS\n< Z\n"} {
		if got := perform(t, s.addr, script); !strings.Contains(got, "C=42883") || !strings.Contains(got, "rewrite.bytea: hex-cast") || strings.Count(got, " H=") != 1 {
			t.Errorf("%s: got\n%s", script, got)
		}
	}
}
