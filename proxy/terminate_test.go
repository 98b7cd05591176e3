package proxy_test

import (
	"strings"
	"testing"
)

// As in PostgreSQL, a COMMIT that a client has sent in front of its Terminate takes effect, also without a Sync. The
// frames are one write, so that Sluice reads the Terminate before it has sent them.
func TestCommitInFrontOfTerminate(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE ended (a int)")
	for name, opts := range map[string][]option{"postgres": nil, "dsql": {asDSQL}, "replay": {asDSQL, fastReplay}} {
		s := startSluice(t, pg, append(opts, maxOpen(2))...)
		for _, c := range []struct{ script, rows string }{
			{"P - | COMMIT\nB - | -\nE -\nX\n", "1"},
			{"P - | INSERT INTO ended VALUES (2)\nB - | -\nE -\nP - | COMMIT\nB - | -\nE -\nX\n", "2"},
			{"P - | ROLLBACK\nB - | -\nE -\nX\n", "0"},
			{"P - | INSERT INTO ended VALUES (2)\nB - | -\nE -\nX\n", "0"},
			{"P - | COMMIT\nB - | -\nE -\n", "1"},
			{"P - | INSERT INTO ended VALUES (2)\nB - | -\nE -\n", "0"},
			{"P - | SELECT 1/0\nB - | -\nE -\nP - | COMMIT\nB - | -\nE -\nX\n", "0"},
		} {
			for addr, where := range map[string]string{pg.addr: "directly", s.addr: name} {
				pg.SQL(t, "postgres", emptied("ended"))
				client := dialRaw(t, addr)
				client.play(t, "Q BEGIN\n< Z\nQ INSERT INTO ended VALUES (1)\n< Z\n")
				client.say(t, c.script)
				if !strings.HasSuffix(c.script, "X\n") {
					client.conn.Close()
				}
				waitFor(t, "the session to end", func() bool { _, _, err := client.frame(); return err != nil })
				waitFor(t, "its transaction to end", func() bool {
					return pg.SQL(t, "postgres", "SELECT count(*) = 0 FROM pg_stat_activity WHERE state LIKE '%in transaction%' AND pid <> pg_backend_pid()") == "t"
				})
				if got := pg.SQL(t, "postgres", "SELECT count(*) FROM ended"); got != c.rows {
					t.Errorf("%s: %q: %s rows, want %s", where, c.script, got, c.rows)
				}
			}
		}
	}
}

// As in PostgreSQL, a portal of LOCK TABLE runs once, although Sluice sends the server a SELECT in its place.
func TestReplacedStatementsRunOnce(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE once (a int)")
	s := startSluice(t, pg, allFeatures, maxOpen(2))
	const script = "Q BEGIN\n< Z\nP - | LOCK TABLE once IN ACCESS SHARE MODE\nB c1 | -\nE c1\nS\n< Z\nE c1\nS\n< Z\nQ ROLLBACK\n< Z\n"
	if got, want := perform(t, s.addr, script), perform(t, pg.addr, script); got != want || !strings.Contains(want, "C=55000") {
		t.Errorf("%s\ndirectly:\n%s", got, want)
	}
}
