package dsqlsim_test

import (
	"testing"

	"github.com/sluice-proxy/sluice/integration/dsqlsim"
)

// With OldLocking a locking clause is refused as it was on clusters of early 2026.
func TestOldLocking(t *testing.T) {
	t.Parallel()
	c := start(t, func(config *dsqlsim.Config) { config.OldLocking = true })
	c.direct(t, `CREATE TABLE a (id int, k text, v int, PRIMARY KEY (id, k)); CREATE TABLE b (id int PRIMARY KEY); CREATE SCHEMA s; CREATE TABLE s.a (id int PRIMARY KEY);
		INSERT INTO a VALUES (1, 'x', 1); INSERT INTO b VALUES (1); INSERT INTO s.a VALUES (1)`)
	const (
		single = "locking clause such as FOR UPDATE can be applied on a single table"
		key    = "locking clause such as FOR UPDATE can be applied only on tables with equality predicates on the key"
	)
	for _, test := range []struct{ sql, message string }{
		{"SELECT v FROM a WHERE id = 1 AND k = 'x' FOR UPDATE", ""},
		{"SELECT v FROM a AS l WHERE v > 0 AND 'x'::text = l.k AND (l.id = 1) FOR UPDATE OF l", ""},
		{"SELECT id FROM s.a WHERE id = 1 FOR UPDATE", ""},
		{"SELECT v FROM (SELECT v FROM a WHERE id = 1 AND k = 'x' FOR UPDATE) AS f", ""},
		{"SELECT v FROM a, b", ""},
		{"SELECT v FROM a WHERE id = 1 FOR UPDATE", key},
		{"SELECT v FROM a WHERE id = 1 AND k > 'a' FOR UPDATE", key},
		{"SELECT v FROM a WHERE id = 1 OR k = 'x' FOR UPDATE", key},
		{"SELECT v FROM a FOR UPDATE", key},
		{"SELECT a.v FROM a, b WHERE a.id = 1 AND a.k = 'x' FOR UPDATE", single},
		{"SELECT a.v FROM a JOIN b ON a.id = b.id WHERE a.id = 1 AND a.k = 'x' FOR UPDATE OF a", single},
		{"SELECT v FROM (SELECT v FROM a) AS f FOR UPDATE", single},
		{"EXPLAIN SELECT a.v FROM a, b FOR UPDATE", single},
		{"SELECT v FROM a, b FOR SHARE", "locking clauses other than FOR UPDATE/FOR KEY SHARE are not supported"},
	} {
		for _, block := range []bool{false, true} {
			for _, simple := range []bool{false, true} {
				conn := c.connect(t)
				if block {
					must(t, conn, "BEGIN")
				}
				got := runStep(t, conn, simple, test.sql, nil)
				if got.Message != test.message || (got.Code == "0A000") != (test.message != "") {
					t.Errorf("%s (in a block %v, simple %v): %+v, want %q", test.sql, block, simple, got, test.message)
				}
			}
		}
	}
}
