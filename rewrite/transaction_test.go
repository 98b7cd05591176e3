package rewrite

import (
	"slices"
	"testing"
)

// What texts ask of their transaction; where the words alone tell the plan it says the same.
func TestDemand(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]TxDemand{
		"SELECT 1": {}, "SELECT * FROM t FOR UPDATE": {}, "SELECT f(1)": {}, "SHOW timezone": {}, "ANALYZE t": {}, "EXPLAIN INSERT INTO t VALUES (1)": {},
		"SET CONSTRAINTS ALL IMMEDIATE": {}, "DECLARE c CURSOR FOR SELECT 1": {}, "COPY t TO STDOUT": {}, "CREATE EXTENSION pgcrypto": {},
		"PREPARE p AS INSERT INTO t VALUES (1)": {},
		"INSERT INTO t VALUES (1)":              {Rows: true}, "UPDATE t SET a = 1 WHERE b = $1": {Rows: true}, "DELETE FROM t": {Rows: true}, "COPY t FROM STDIN": {Rows: true},
		"WITH w AS (DELETE FROM t RETURNING a) SELECT a FROM w": {Rows: true}, "EXPLAIN ANALYZE DELETE FROM t": {Rows: true},
		"CREATE TABLE t (a int)": {DDL: true}, "CREATE VIEW v AS SELECT 1": {DDL: true}, "GRANT SELECT ON t TO u": {DDL: true}, "COMMENT ON TABLE t IS 'x'": {DDL: true},
		"DROP VIEW v": {DDL: true}, "CREATE INDEX ON t (a)": {DDL: true}, "ALTER TABLE t ADD a int": {DDL: true}, "ALTER TABLE t RENAME a TO b": {DDL: true},
		"CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'INSERT INTO t VALUES (1) RETURNING a'": {DDL: true},
		"DROP TABLE t": {DDL: true, Drops: true}, "DROP SCHEMA s": {DDL: true, Drops: true}, "ALTER TABLE t ADD a int, DROP b": {DDL: true, Drops: true},
		"DROP DOMAIN d": {DDL: true}, "DROP DOMAIN d CASCADE": {DDL: true, Drops: true},
		"SET CONSTRAINTS a DEFERRED": {Local: true}, "SET LOCAL search_path = s": {Local: true}, "SELECT set_config('a.b', 'c', true)": {Local: true},
		"SET search_path = s": {Sets: true}, "RESET search_path": {Sets: true},
		"INSERT INTO t VALUES (1); CREATE TABLE u (a int); SET a.b = 1": {Rows: true, DDL: true, Sets: true},
	} {
		for name, p := range map[string]*Planner{"rules": goldenPlanner(t), "words": newPlanner(t)} {
			if got, ok := p.Plan([]byte(sql)).Demand(); got != want || !ok {
				t.Errorf("%s, %s: %+v, %v, want %+v", name, sql, got, ok, want)
			}
		}
	}
	for _, sql := range []string{"not SQL", "CREATE TRIGGER a BEFORE INSERT ON t EXECUTE FUNCTION f()", "CREATE TABLE t (a int); TRUNCATE t"} {
		if got, ok := goldenPlanner(t).Plan([]byte(sql)).Demand(); ok {
			t.Errorf("%s: %+v", sql, got)
		}
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string][][2]int{
		"SELECT 1; INSERT INTO t VALUES (1)": nil, "CREATE TABLE t (a int)": nil, "ANALYZE t; INSERT INTO t VALUES (1)": nil,
		"CREATE TABLE t (a int); CREATE TABLE u (a int)":                                               {{0, 1}, {1, 2}},
		"INSERT INTO t VALUES (1); SELECT 1; SET a.b = 1; CREATE TABLE u (a int); SELECT 1; ANALYZE u": {{0, 3}, {3, 4}, {4, 6}},
		"BEGIN; SELECT 1; SELECT 2; COMMIT; DROP TABLE t; SELECT 3":                                    {{0, 1}, {1, 3}, {3, 4}, {4, 5}, {5, 6}},
	} {
		if got := goldenPlanner(t).Plan([]byte(sql)).TxGroups(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", sql, got, want)
		}
	}
}
