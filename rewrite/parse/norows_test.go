package parse

import "testing"

func TestReturnsNothing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		sql    string
		params int
		ok     bool
	}{
		{"INSERT INTO t VALUES ($1, $3)", 3, true},
		{"/* c */ insert into t values (1);", 0, true},
		{"UPDATE t SET a = 'returning'", 0, true},
		{"CREATE TABLE t (a int)", 0, true},
		{"DELETE FROM t RETURNING a", 0, false},
		{`DELETE FROM t WHERE "returning"`, 0, true},
		{"DELETE FROM t; SELECT 1", 0, false},
		{"SELECT 1", 0, false},
		{"WITH d AS (DELETE FROM t) SELECT 1", 0, false},
		{"EXECUTE p", 0, false},
		{"FETCH c", 0, false},
		{"", 0, false},
		{";", 0, false},
		{"'insert'", 0, false},
		{"INSERT INTO t VALUES ('a", 0, false},
	} {
		if params, ok := ReturnsNoRows([]byte(test.sql)); params != test.params || ok != test.ok {
			t.Errorf("%s: %d, %v", test.sql, params, ok)
		}
	}
}
