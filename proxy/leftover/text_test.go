package leftover

import "testing"

// Words and tags decide, wherever a text is cut into pieces.
func TestLeavesNothing(t *testing.T) {
	for _, test := range []struct {
		text string
		tags []string
		want bool
	}{
		{"INSERT INTO t VALUES (1)", []string{"INSERT 0 1"}, true},
		{"SELECT 1", []string{"SELECT 1"}, true},
		{"BEGIN; UPDATE t SET a = 1; COMMIT", []string{"BEGIN", "UPDATE 3", "COMMIT"}, true},
		{"SELECT template, temperature FROM t", []string{"SELECT 0"}, true},
		{"CREATE TABLE t (a int)", []string{"CREATE TABLE"}, true},
		{"INSERT INTO t VALUES ('temp', 'u', 'set configuration')", []string{"INSERT 0 1"}, true},
		{"CREATE TEMP TABLE t (a int)", []string{"CREATE TABLE"}, false},
		{"SELECT 1 INTO temporary t", []string{"SELECT 1"}, false},
		{"INSERT INTO pg_temp.t VALUES (1)", []string{"INSERT 0 1"}, false},
		{"SELECT Set_Config('a.b', 'c', false)", []string{"SELECT 1"}, false},
		{`SELECT "set_config"('a.b', 'c', false)`, []string{"SELECT 1"}, false},
		{`SELECT U&"\0073et_config"('a.b', 'c', false)`, []string{"SELECT 1"}, false},
		{`SELECT u&"\0073et_config"('a.b', 'c', false)`, []string{"SELECT 1"}, false},
		{"UPDATE pg_settings SET setting = 'a' WHERE name = 'b'", []string{"UPDATE 0"}, false},
		{"SELECT pg_advisory_lock(1)", []string{"SELECT 1"}, false},
		{"SELECT setseed(1)", []string{"SELECT 1"}, false},
		{"SELECT nextval('s')", []string{"SELECT 1"}, false},
		{"SET a.b = 1; INSERT INTO t VALUES (1)", []string{"SET", "INSERT 0 1"}, false},
		{"LISTEN x", []string{"LISTEN"}, false},
		{"PREPARE p AS SELECT 1", []string{"PREPARE"}, false},
		{"DECLARE c CURSOR WITH HOLD FOR SELECT 1", []string{"DECLARE CURSOR"}, false},
		{"DO $$ BEGIN END $$", []string{"DO"}, false},
		{"CALL p()", []string{"CALL"}, false},
		{"LOAD 'x'", []string{"LOAD"}, false},
		{"CREATE TABLESPACE x", []string{"CREATE TABLESPACE"}, false},
		{"SELECT 1; nothing came of it", nil, true},
		{"SELECT set_config", nil, false},
	} {
		for cut := range len(test.text) {
			var x Scanner
			x.ScanPiece([]byte(test.text[:cut]))
			x.ScanPiece([]byte(test.text[cut:]))
			for _, tag := range test.tags {
				x.RecordTag([]byte(tag))
			}
			if got := x.LeavesNothing(); got != test.want || x.TagCount() != len(test.tags) {
				t.Errorf("%s, cut at %d: %v, %d tags", test.text, cut, got, x.TagCount())
			}
		}
	}
}
