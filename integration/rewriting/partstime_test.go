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

// An EXECUTE or a COPY that may read the clock has the time of the parts before it in the first part, and is refused in
// a later one behind a part that has read the clock.
func TestPartsTimeOfExecute(t *testing.T) {
	t.Parallel()
	r := startParts(t, "autocommit", nil)
	r.pg.SQL(t, "postgres", "CREATE TABLE stamps (n int PRIMARY KEY, at timestamptz DEFAULT now())")
	for i, extended := range []bool{false, true} {
		c, _ := r.dial(t, r.sluice.DSN("postgres"))
		for _, sql := range []string{"PREPARE q AS SELECT now()", "PREPARE p AS SELECT 1"} {
			answers(t.Context(), c, sql, extended)
		}
		for k, way := range []struct {
			requests []string
			refused  bool // the last is
		}{
			{[]string{"EXECUTE q", "CREATE TABLE a%d (n int)", "SELECT now()"}, false},
			{[]string{"EXPLAIN (COSTS off) EXECUTE q", "CREATE TABLE a%d (n int)", "INSERT INTO stamps VALUES (1)", "SELECT at FROM stamps", "SELECT now()"}, false},
			{[]string{"INSERT INTO stamps (n, at) VALUES (2, NULL)", "CREATE TABLE a%d (n int)", "EXECUTE q", "SELECT now()"}, false},
			{[]string{"INSERT INTO stamps (n) VALUES (3) RETURNING at", "CREATE TABLE a%d (n int)", "EXECUTE q"}, true},
			{[]string{"INSERT INTO stamps (n) VALUES (3) RETURNING at", "CREATE TABLE a%d (n int)", "EXECUTE p"}, true},
			{[]string{"INSERT INTO stamps (n) VALUES (3) RETURNING at", "CREATE TABLE a%d (n int)", "EXPLAIN ANALYZE EXECUTE q"}, true},
			{[]string{"INSERT INTO stamps (n) VALUES (3) RETURNING at", "CREATE TABLE a%d (n int)", "CREATE TABLE b%d AS EXECUTE q"}, true},
			{[]string{"EXECUTE q", "CREATE TABLE a%d (n int)", "CREATE TABLE b%d (n int)", "EXECUTE q"}, true},
		} {
			r.pg.SQL(t, "postgres", "DELETE FROM stamps")
			times := map[string]bool{}
			answers(t.Context(), c, "BEGIN", extended)
			for at, sql := range way.requests {
				if strings.Contains(sql, "%") {
					sql = fmt.Sprintf(sql, 10*i+k)
				}
				got := answers(t.Context(), c, sql, extended)
				if failed := strings.HasPrefix(got[0], "error"); failed != (way.refused && at == len(way.requests)-1) || failed && got[0] != "error 0A000" {
					t.Errorf("extended %v, %q: %q", extended, way.requests[:at+1], got)
				}
				if text := timeText.FindString(got[0]); text != "" {
					times[text] = true
				}
			}
			answers(t.Context(), c, "ROLLBACK", extended)
			if len(times) > 1 {
				t.Errorf("extended %v, %q: times %v", extended, way.requests, times)
			}
		}
	}
}
