package rewriting

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// timeText is a timestamptz as PostgreSQL writes it.
var timeText = regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?`)

// All parts of a transaction have one time, which is that of the first that reads the clock: in what is returned and
// in what is stored, by every word for it and by defaults, by both protocols, in strings without a block too, and
// where a conflict has the part that has told no time run again.
func TestPartsTime(t *testing.T) {
	t.Parallel()
	const conflict = `[{"at": "commit", "action": "fail", "error": "conflict"}]`
	for _, way := range []struct {
		name, fault string
		env         harness.Env
		requests    []string
	}{
		{"default and word", "", nil, []string{"BEGIN", "INSERT INTO stamps (n) VALUES (1) RETURNING at", "CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO stamps (n) VALUES (2)", "SELECT now()",
			"INSERT INTO stamps VALUES (3, CURRENT_TIMESTAMP)", "CREATE TABLE b (id int PRIMARY KEY)", "INSERT INTO stamps (n) SELECT 4", "COMMIT"}},
		{"stored alone", "", nil, []string{"BEGIN", "INSERT INTO stamps (n) VALUES (1)", "CREATE TABLE a (id int PRIMARY KEY)", "UPDATE stamps SET n = n WHERE at = now()", "INSERT INTO stamps (n) VALUES (2) ON CONFLICT DO NOTHING", "COMMIT"}},
		{"new table", "", nil, []string{"BEGIN", "INSERT INTO stamps (n) VALUES (1)", "CREATE TABLE a (id int PRIMARY KEY, at timestamptz DEFAULT now())", "INSERT INTO a (id) VALUES (1)",
			"INSERT INTO stamps SELECT 2, at FROM a", "COMMIT"}},
		{"first in the second part", "", nil, []string{"BEGIN", "CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO stamps (n) VALUES (1)", "CREATE TABLE b (id int PRIMARY KEY)", "INSERT INTO stamps (n) VALUES (2) RETURNING at", "COMMIT"}},
		{"statement outside", "", harness.Env{"DSQL_DDL_ADD_COLUMN_DEFAULT": "backfill"}, []string{"BEGIN", "INSERT INTO stamps (n) VALUES (1) RETURNING at", "ALTER TABLE old ADD COLUMN w text DEFAULT 'x'", "INSERT INTO stamps (n) VALUES (2) RETURNING at", "COMMIT"}},
		{"savepoints", "", nil, []string{"BEGIN", "INSERT INTO stamps (n) VALUES (1) RETURNING at", "CREATE TABLE a (id int PRIMARY KEY)", "SAVEPOINT s", "INSERT INTO stamps (n) VALUES (2)", "ROLLBACK TO s",
			"INSERT INTO stamps (n) VALUES (3) RETURNING at", "COMMIT"}},
		{"string", "", nil, []string{"CREATE TABLE a (id int PRIMARY KEY); INSERT INTO stamps (n) VALUES (1); CREATE TABLE b (id int PRIMARY KEY); INSERT INTO stamps (n) VALUES (2) RETURNING at"}},
		{"string that begins a block", "", nil, []string{"INSERT INTO stamps (n) VALUES (1); CREATE TABLE a (id int PRIMARY KEY); BEGIN; INSERT INTO stamps (n) VALUES (2)", "SELECT now()", "COMMIT"}},
		{"conflict", conflict, harness.Env{"DSQL_RETRY_BASE_DELAY": "1ms"}, []string{"BEGIN", "INSERT INTO stamps (n) VALUES (1)", "CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO stamps (n) VALUES (2) RETURNING at", "COMMIT"}},
		{"conflict of what was told", conflict, harness.Env{"DSQL_RETRY_BASE_DELAY": "1ms"}, []string{"BEGIN", "INSERT INTO stamps (n) VALUES (1) RETURNING at", "CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO stamps (n) VALUES (2) RETURNING at", "COMMIT"}},
		{"kept backend", "", harness.Env{"DSQL_PAIRING": "session"}, []string{"BEGIN", "INSERT INTO stamps (n) VALUES (1) RETURNING at", "CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO stamps (n) VALUES (2) RETURNING at", "COMMIT"}},
	} {
		t.Run(way.name, func(t *testing.T) {
			r := startParts(t, "autocommit-destructive", way.env)
			if way.fault != "" {
				r.sim.Admin(t, http.MethodPost, "/faults", way.fault)
			}
			for i, extended := range []bool{false, true} {
				schema := fmt.Sprintf("times%d", i)
				r.pg.SQL(t, "postgres", fmt.Sprintf("CREATE SCHEMA %s; CREATE TABLE %[1]s.stamps (n int PRIMARY KEY, at timestamptz DEFAULT now()); CREATE TABLE %[1]s.old (id int PRIMARY KEY, v int)", schema))
				c, _ := r.dial(t, r.sluice.DSN("postgres"))
				times := map[string]string{}
				for _, sql := range append([]string{"SET search_path = " + schema}, way.requests...) {
					for _, answer := range answers(t.Context(), c, sql, extended && !strings.Contains(sql, "; ")) {
						if strings.HasPrefix(answer, "error") {
							t.Fatalf("%s: %s", sql, answer)
						}
						if at := timeText.FindString(answer); at != "" {
							times[at] = sql
						}
					}
				}
				stored := r.pg.SQL(t, "postgres", fmt.Sprintf("SELECT string_agg(DISTINCT at::text, ' ') FROM %s.stamps", schema))
				for _, at := range timeText.FindAllString(stored, -1) {
					times[at] = "stored"
				}
				if len(times) != 1 {
					t.Errorf("extended %v: %d times in one transaction: %v", extended, len(times), times)
				}
			}
		})
	}
}
