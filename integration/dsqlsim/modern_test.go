package dsqlsim_test

import (
	"strings"
	"testing"
)

// Syntax of PostgreSQL 16 works over 15.
func TestModernSyntax(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	conn := c.connect(t)
	must(t, conn, "CREATE TABLE t (id int PRIMARY KEY, v text STORAGE EXTERNAL NOT NULL, storage int)")
	must(t, conn, `ALTER TABLE t ADD COLUMN "W" text STORAGE PLAIN -- behind it`)
	must(t, conn, "INSERT INTO t VALUES (1_000, 'a'), (0xff, 'b')")
	for _, test := range []struct{ sql, column, want string }{
		{"SELECT sum(id) FROM (SELECT id FROM t)", "sum", "1255"},
		{"SELECT a + b FROM (VALUES (1)) v (a), (SELECT 2 AS b)", "?column?", "3"},
		{"SELECT 1_000 + 0b11 + 0o7", "?column?", "1010"},
		{"SELECT any_value(v) FROM t WHERE id > 500", "any_value", "a"},
		{"SELECT JSON_OBJECT('a': 1, 'b' VALUE v) FROM t WHERE id = 255", "json_object", `{"a" : 1, "b" : "b"}`},
		{"SELECT JSON_OBJECT('a': 1 RETURNING jsonb) ->> 'a'", "?column?", "1"},
		{"SELECT JSON_ARRAY(1, NULL, 'x') AS a", "a", `[1, "x"]`},
		{"SELECT JSON_ARRAY(1, NULL NULL ON NULL)", "json_array", "[1, null]"},
		{"SELECT JSON_OBJECTAGG(v: id) FROM t WHERE id = 255", "json_objectagg", `{ "b" : 255 }`},
		{"SELECT JSON_ARRAYAGG(v ORDER BY v) FROM t", "json_arrayagg", `["a", "b"]`},
		{"SELECT '{}' IS JSON OBJECT", "?column?", "t"},
		{"SELECT '[' IS NOT JSON", "?column?", "t"},
		{"SELECT string_agg(attstorage::text, '' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0", "string_agg", "pxpp"},
		{"SELECT current_database() || current_setting('server_version')", "?column?", "postgres16.15"},
	} {
		got := runStep(t, conn, false, test.sql, nil)
		if got.Code != "" || got.Columns[0] != test.column || strings.TrimSpace(got.Rows[0][0]) != strings.TrimSpace(test.want) {
			t.Errorf("%s: got %+v, want %s %q", test.sql, got, test.column, test.want)
		}
	}
}
