package proxy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/retry"
)

// A string of statements that ends a block whose backend was lost goes on behind that
// end, as it does where the block has failed for another reason.
func TestStringsBehindALostBlock(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	texts := []string{"COMMIT; INSERT INTO p VALUES (1)", "ROLLBACK; INSERT INTO p VALUES (2) RETURNING a; SELECT 1 AS one", "ABORT; BEGIN", "END; BEGIN; INSERT INTO p VALUES (3)",
		"COMMIT; SELECT 1 AS one; SELECT nosuch", "COMMIT; INSERT INTO p VALUES (4); SELECT 1/0", "; COMMIT; SELECT 1 AS one", "/* é */ COMMIT /* ü */ WORK ; SELECT 'é', nosuch",
		"COMMIT; COMMIT", "ROLLBACK; SHOW statement_timeout", "ROLLBACK; RESET ALL; SELECT 1 AS one", "COMMIT;", "ROLLBACK; ROLLBACK; INSERT INTO p VALUES (5)", "COMMIT; BEGIN; COMMIT",
		"COMMIT; SET TimeZone TO 'Asia/Tokyo'; SHOW TimeZone", "SELECT 1 AS one; COMMIT", "INSERT INTO p VALUES (6); COMMIT; SELECT 1 AS one", "ROLLBACK; INSERT INTO p VALUES (7); ROLLBACK; SELECT 1 AS one",
		"ROLLBACK; BEGIN; SELECT 1/0"}
	const around = "B Q BEGIN\nB Q INSERT INTO p VALUES (0)\nB Q %s\nB Q %s\nB Q SELECT a FROM p ORDER BY a\nB Q ROLLBACK\nB Q SELECT a FROM p ORDER BY a\nB Q SHOW TimeZone"
	play := func(addr, lost, text string) string {
		pg.SQL(t, "postgres", "DROP TABLE IF EXISTS p; CREATE TABLE p (a int)")
		told := crowd(t, pg, addr, fmt.Sprintf(around, lost, text), func() {})
		_, told, _ = strings.Cut(told, lost)
		_, told, _ = strings.Cut(told, "Z E")
		return told
	}
	want := map[string]string{}
	for _, text := range texts {
		want[text] = play(pg.addr, "SELECT 1/0", text)
	}
	for route, opts := range map[string][]option{"": nil, "replay": {fastReplay}, "dsql": {asDSQL, answering, allIgnored}, "savepoints": {asDSQL, answering, allIgnored, fastReplay,
		func(s *setup) { s.proxy.Retry.Savepoints = retry.Relaxed }}} {
		s := startSluice(t, pg, append(opts, maxOpen(2))...)
		for _, text := range texts {
			got := play(s.addr, "/* sluice: no-retry */ SELECT pg_terminate_backend(pg_backend_pid())", text)
			if got != want[text] {
				t.Errorf("%q, route %q: %s", text, route, firstDifference(got, want[text]))
			}
		}
	}
}

// A string of statements whose backend is lost leaves the client where an error in its
// place would have.
func TestStatusBehindALostString(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE p (a int)")
	statuses := func(addr, lost string, dialogue []string) string {
		script := ""
		for _, text := range dialogue {
			script += "B Q " + strings.ReplaceAll(text, "@", lost) + "\n"
		}
		var all []string
		for line := range strings.Lines(crowd(t, pg, addr, script, func() {})) {
			if strings.HasPrefix(line, "Z ") {
				all = append(all, strings.TrimSpace(line))
			}
		}
		return strings.Join(all, ", ")
	}
	for _, dialogue := range [][]string{{"BEGIN; @"}, {"select 1; BEGIN; @"}, {"select 1; BEGIN; insert into p values (1); @; select 2"}, {"insert into p values (1); BEGIN; @"}, {"select 1; @; select 2"},
		{"BEGIN", "@"}, {"BEGIN", "select 1; @"}, {"BEGIN", "BEGIN; @"}, {"BEGIN", "select 1", "COMMIT; BEGIN; @"}, {"BEGIN", "insert into p values (1)", "ROLLBACK; BEGIN; @"},
		{"BEGIN", "select 1", "ROLLBACK AND CHAIN; @"}, {"BEGIN", "select 1", "COMMIT; @"}, {"BEGIN; select 1; COMMIT; BEGIN; @"}, {"BEGIN", "select 1", "COMMIT; BEGIN; insert into p values (1); @"},
		{"START TRANSACTION; @", "ROLLBACK"}, {"BEGIN ISOLATION LEVEL SERIALIZABLE; @", "COMMIT"}, {"BEGIN", "@", "COMMIT; BEGIN; @"}} {
		want := statuses(pg.addr, "select 1/0", dialogue)
		for route, opts := range map[string][]option{"": nil, "replay": {fastReplay}} {
			s := startSluice(t, pg, append(opts, maxOpen(2))...)
			if got := statuses(s.addr, "select pg_terminate_backend(pg_backend_pid()) /* sluice: no-retry */", dialogue); got != want {
				t.Errorf("%q, route %q: got %s, want %s", dialogue, route, got, want)
			}
		}
	}
}
