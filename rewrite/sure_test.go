package rewrite

import "testing"

func TestSureRead(t *testing.T) {
	p, err := New(Defaults())
	if err != nil {
		t.Fatal(err)
	}
	for sql, want := range map[string]bool{
		"": true, "-- ping": true, "SELECT 1": true, "select 'a', $1, 2.5 AS x;": true, "SELECT current_user": true,
		"SHOW TimeZone": true, "EXPLAIN SELECT * FROM v": true, "WITH x AS (SELECT 1) SELECT 1 WHERE EXISTS (SELECT 1)": true,
		"WITH x AS (SELECT 1) SELECT 1 FROM pg_catalog.pg_class":               true,
		"WITH w AS (SELECT 1 AS a) SELECT a FROM w":                            true,
		"WITH x AS (SELECT 1) SELECT '1'::int, '2020-01-01'::pg_catalog.date":  true,
		"WITH x AS (SELECT 1) SELECT * FROM information_schema.tables LIMIT 1": true,

		"SELECT * FROM v": false, "TABLE v": false, "SELECT k.wk FROM k": false, "SELECT (k).wk FROM pg_catalog.pg_class k": false,
		"WITH k AS (SELECT 1 AS a) SELECT k.wk FROM k": false, "SELECT a FROM pg_class": false,
		"SELECT $1 + 1": false, "SELECT lower($1)": false, "SELECT $1::text": false, "SELECT '1'::mine": false, "SELECT mine '1'": false,
		"SELECT 1 OPERATOR(public.+) $1": false, "SELECT CAST(a AS text) FROM v": false, "VALUES ((SELECT a FROM v))": false,
		"SELECT 1 UNION SELECT a FROM v": false, "SELECT 1 UNION TABLE v": false, "SELECT (SELECT max(a) FROM v)": false,
		"DECLARE c CURSOR FOR SELECT * FROM v": false, "COPY (SELECT * FROM v) TO STDOUT": false, "COPY v TO STDOUT": false,
		"EXPLAIN ANALYZE SELECT * FROM v": false, "SELECT 1; SELECT * FROM v": false, "SELECT f.a FROM generate_series(1, 2) f(a)": false,
		"WITH w AS (SELECT * FROM w) SELECT * FROM w": false, "SELECT 1 IN (SELECT $1)": false, `SELECT "now"()`: false, "SELECT now()": false, "SELECT pg_sleep(1)": false, "SELECT 1 + 1": false,

		"INSERT INTO t VALUES (1)": false, "SELECT f()": false, "SELECT nextval('s')": false, "SELECT 1 FOR UPDATE": false,
		"DO $$ $$": false, "CALL p()": false, "SELECT 1 INTO t": false, "LOCK t": false, "FETCH c": false, "SELECT '": false, "BEGIN": false,
		"WITH w AS (INSERT INTO t VALUES (1)) SELECT 1": false, "SET a = 1": false, "EXPLAIN ANALYZE INSERT INTO t VALUES (1)": false,
	} {
		plan := p.Plan([]byte(sql))
		if got := plan.IsSureRead(); got != want {
			t.Errorf("%q: %v", sql, got)
		}
		if w := plan.AsWrite(); plan.Kind == Read && (w.Kind == Read) != plan.IsSureRead() || w.AsWrite() != w || len(w.Statements) != len(plan.Statements) {
			t.Errorf("%q as a write: %+v", sql, w)
		}
	}
}

// In a string of several the end of a block may stand before a read.
func TestMixedReadAsWrite(t *testing.T) {
	p, err := New(Defaults())
	if err != nil {
		t.Fatal(err)
	}
	plan := p.Plan([]byte("ROLLBACK; SELECT * FROM v; SHOW TimeZone"))
	w := plan.AsWrite()
	if plan.Kind != Control || w.Kind != Write || w.Statements[0].Kind != Control || w.Statements[1].Kind != Write || w.Statements[2].Kind != Read {
		t.Errorf("%+v", w)
	}
}
