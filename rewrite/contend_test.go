package rewrite

import "testing"

// TestContends has what a transaction may fight for with another: rows that are
// there already.
func TestContends(t *testing.T) {
	t.Parallel()
	p := goldenPlanner(t)
	for want, texts := range map[bool][]string{
		true: {
			"UPDATE t SET a = 1 WHERE b = 2", "DELETE FROM t", "update t set a = nextval('s')", "DELETE FROM t WHERE a IN (SELECT f(b) FROM u)",
			"SELECT a FROM t FOR UPDATE", "SELECT a FROM t WHERE b = $1 FOR NO KEY UPDATE", "SELECT a FROM t FOR SHARE", "SELECT a FROM t FOR KEY SHARE SKIP LOCKED",
			"SELECT * FROM (SELECT a FROM t FOR UPDATE) s", "INSERT INTO t SELECT a FROM u FOR UPDATE",
			"INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET b = 1", "INSERT INTO t VALUES (nextval('s')) ON CONFLICT (a) DO UPDATE SET b = 1",
			"INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET b = 1; ",
			"MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN UPDATE SET b = 1",
			"WITH w AS (UPDATE t SET a = 1 RETURNING a) SELECT * FROM w", "WITH w AS (DELETE FROM t RETURNING a) INSERT INTO u SELECT a FROM w",
			"WITH w AS (INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET b = 2 RETURNING a) SELECT * FROM w",
			"BEGIN; SELECT nextval('s'); UPDATE t SET a = 1; COMMIT", "INSERT INTO t VALUES (1); DELETE FROM u",
			"EXPLAIN ANALYZE UPDATE t SET a = 1", "DECLARE c CURSOR FOR SELECT a FROM t FOR UPDATE", "COPY (DELETE FROM t RETURNING a) TO STDOUT",
		},
		false: {
			"", "SELECT 1", "SELECT a FROM t", "VALUES (1)", "SELECT nextval('s')", "SELECT setval('s', 1)", "SELECT f(1)", "SELECT pg_advisory_xact_lock(1)",
			"INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (nextval('s')) RETURNING a", "INSERT INTO t SELECT a FROM u",
			"INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", "INSERT INTO t VALUES (nextval('s')) ON CONFLICT (a) DO NOTHING",
			"WITH w AS (INSERT INTO t VALUES (1) RETURNING a) SELECT * FROM w",
			"BEGIN", "COMMIT", "SET a = 1", "SHOW a", "BEGIN; INSERT INTO t VALUES (1); COMMIT", "TRUNCATE t", "LOCK TABLE t",
			"COPY t FROM STDIN", "COPY t TO STDOUT", "EXPLAIN UPDATE t SET a = 1", "PREPARE p AS UPDATE t SET a = 1", "EXECUTE p", "FETCH c", "NOTIFY c",
			"CREATE TABLE t (a int)", "CREATE TABLE t AS SELECT a FROM u", "CREATE RULE r AS ON INSERT TO t DO UPDATE u SET a = 1", "ALTER TABLE t ADD b int", "CALL p()", "DO 'x'", "NO SQL",
		},
	} {
		for _, text := range texts {
			plan := p.Plan([]byte(text))
			if plan.Contends != want {
				t.Errorf("%q: %v", text, plan.Contends)
			}
			if cleared, _ := planByWords([]byte(text)); cleared != nil && cleared.Contends != want {
				t.Errorf("%q: the scan says %v", text, cleared.Contends)
			}
		}
	}
}
