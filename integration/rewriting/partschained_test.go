package rewriting

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// A block that a request begins behind the COMMIT of another is not run again: over a change of the schema by
// others the client gets 40001 (docs/compatibility/transactions.md). A backend that has learned of the change
// answers as PostgreSQL does. Seed 17 of TestParts has this program.
func TestPartsBehindACommit(t *testing.T) {
	t.Parallel()
	r := startParts(t, "autocommit-destructive", harness.Env{"DSQL_PAIRING": "session"})
	others, _ := r.dial(t, r.sluice.DSN("postgres"))
	for _, learns := range []bool{false, true} {
		c, _ := r.dial(t, r.sluice.DSN("postgres"))
		say := func(sql string, extended bool, want ...string) {
			t.Helper()
			if got := answers(t.Context(), c, sql, extended); !slices.Equal(got, want) {
				t.Errorf("learns %v: %s: %q, want %q", learns, sql, got, want)
			}
		}
		say("SELECT 1", false, `row ["1"]`, "SELECT 1", "I")
		// Sluice reads the changed schema for the second statement, at the backend of that session.
		for _, sql := range []string{"CREATE TABLE seen (a int)", "SELECT a FROM seen", "DROP TABLE seen", "SELECT a FROM seen"} {
			answers(t.Context(), others, sql, false)
		}
		code := "error 40001"
		if learns {
			say("SELECT count(*) FROM pg_class WHERE false", false, `row ["0"]`, "SELECT 1", "I")
			code = "error 42P01"
		}
		say("BEGIN", false, "BEGIN", "T")
		say("COMMIT; BEGIN; DROP VIEW s0", true, "COMMIT", "BEGIN", code, "E")
		say("ROLLBACK", false, "ROLLBACK", "I")
	}
}

// The first text of a part that cannot be committed fails, and its session goes on: where the schema has changed
// meanwhile, the question for the time in front of the COMMIT fails, and the COMMIT is skipped.
func TestPartWhoseTimeIsNotAnswered(t *testing.T) {
	t.Parallel()
	r := startParts(t, "autocommit", nil)
	c, _ := r.dial(t, r.sluice.DSN("postgres"))
	other, _ := r.dial(t, r.sluice.DSN("postgres"))
	say := func(c *pgconn.PgConn, sql, want string) {
		t.Helper()
		if got := strings.Join(answers(t.Context(), c, sql, false), " / "); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
	say(c, "CREATE TABLE timed (a int)", "CREATE TABLE")
	for range 3 {
		say(c, "INSERT INTO timed VALUES (1); BEGIN /* sluice: no-retry */", "BEGIN")
		say(other, "CREATE TABLE IF NOT EXISTS beside (a int)", "CREATE TABLE")
		say(c, "CREATE TABLE made (a int)", "40001")
		say(c, "SELECT 1", "25P02")
		say(c, "ROLLBACK", "ROLLBACK")
		say(c, "SELECT count(*) FROM timed", `row ["0"]`)
		say(other, "DROP TABLE beside", "DROP TABLE")
	}
}
