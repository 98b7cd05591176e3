package proxy_test

import (
	"fmt"
	"strings"
	"testing"
)

// execs runs statements by the extended protocol, without a Sync.
func execs(statements ...string) string {
	var b strings.Builder
	for _, sql := range statements {
		fmt.Fprintf(&b, "P - | %s\nB - | -\nE -\n", sql)
	}
	return b.String()
}

// What stands behind the end of a transaction is another one: where it may have been
// applied, the client is told so, and it is not run again.
func TestAppliedBehindTheEnd(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE applied_behind (a text)")
	const (
		insert = "INSERT INTO applied_behind VALUES ('%[1]s')"
		hidden = "INSERT INTO applied_behind VALUES (convert_from(decode('%[2]s', 'hex'), 'UTF8'))" // no cut at this one
		block  = "Q BEGIN\n< Z\nQ INSERT INTO applied_behind VALUES ('block')\n< Z\n"
	)
	for name, opts := range map[string][]option{"": nil, "replay": {fastReplay, func(s *setup) { s.proxy.Retry.Policy.MaxRetries = 2 }}} {
		var cut cutter
		s := startSluice(t, pg, append(opts, cut.option, maxOpen(3))...)
		for i, test := range []struct {
			script, code, status string
			rows                 int // of the write that is cut behind
		}{
			{block + "Q ROLLBACK; " + insert + "\n< Z\n", "08007", "Z I", 1},
			{block + execs("ROLLBACK", insert) + "S\n< Z\n", "08007", "Z I", 1},
			{block + execs("ROLLBACK", insert) + "H\n< E\nS\n< Z\n", "08006", "Z I", 0},
			{block + "Q ROLLBACK; BEGIN; " + insert + "\n< Z\nQ ROLLBACK\n< Z\n", "08006", "Z E", 0},
			{block + "Q ROLLBACK AND CHAIN; " + insert + "\n< Z\nQ ROLLBACK\n< Z\n", "08006", "Z E", 0},
			{block + "Q ROLLBACK; SELECT '%[1]s'\n< Z\n", "08006", "Z I", 0},
			{block + execs("ROLLBACK") + "H\n< C\n" + execs(insert) + "S\n< Z\n", "08007", "Z I", 1},
			{"Q BEGIN\n< Z\nQ SELECT 1\n< Z\n" + execs("COMMIT") + "H\n< C\n" + execs(insert) + "S\n< Z\n", "08007", "Z I", 1},
			{"Q BEGIN\n< Z\nQ SELECT 1\n< Z\n" + execs("COMMIT") + "H\n< C\n" + execs(insert) + "H\n< E\nS\n< Z\n", "08006", "Z I", 0},
			{execs("COMMIT") + "H\n< C\n" + execs("SELECT '%[1]s'") + "S\n< Z\n", "08006", "Z I", 0},
			{execs(insert) + "Q SELECT 1\nS\n< Z\n", "08006", "Z I", 0}, // a Query waits for what stands before it
			{execs(hidden) + "Q SELECT '%[1]s'\n< Z\n", "08007", "Z I", 1},
			{execs(hidden) + "Q -- %[1]s\n< Z\n", "08007", "Z I", 1},
			{execs(insert, "ROLLBACK") + "S\n< Z\n", "08006", "Z I", 0},
			{execs(insert, "BEGIN") + "S\n< Z\nQ ROLLBACK\n< Z\n", "08006", "Z E", 0},
		} {
			mark := fmt.Sprintf("%s/%d", name, i)
			script := strings.NewReplacer("%[1]s", mark, "%[2]s", fmt.Sprintf("%x", mark)).Replace(test.script)
			cut.again.Store(true) // a replay meets the same end
			cut.arm(mark, true)
			got := perform(t, s.addr, script)
			cut.word.Store(nil)
			if !strings.Contains(got, "C="+test.code) || !strings.Contains(got, test.status) || strings.Contains(got, "TIMEOUT") {
				t.Errorf("%s: want %s and %s:\n%s", mark, test.code, test.status, got)
			}
			rows := pg.SQL(t, "postgres", "SELECT count(*) FROM applied_behind WHERE a = '"+mark+"'")
			if rows != fmt.Sprint(test.rows) {
				t.Errorf("%s: %s rows, want %d:\n%s", mark, rows, test.rows, got)
			}
		}
		if n := pg.SQL(t, "postgres", "SELECT count(*) FROM applied_behind WHERE a = 'block'"); n != "0" {
			t.Errorf("%s rows of blocks that were rolled back", n)
		}
	}
}
