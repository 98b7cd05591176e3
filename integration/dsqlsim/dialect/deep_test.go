package dialect

import (
	"strings"
	"testing"
)

// pumps are ways to make a tree deep: n times term, then middle, n times end.
var pumps = []struct{ head, term, middle, end string }{
	{"SELECT 1", "+1", "", ""},
	{"SELECT x", "::int", "", ""},
	{"SELECT ", "- ", "1", ""},
	{"SELECT ", "NOT ", "true", ""},
	{"SELECT ", "(", "1", ")"},
	{"SELECT ", "f(", "1", ")"},
	{"SELECT ", "CASE WHEN true THEN ", "1", " END"},
	{"SELECT a", "[a", "", "]"},
	{"SELECT a", " COLLATE x", "", ""},
	{"SELECT a", " IS NULL", "", ""},
	{"SELECT a", " BETWEEN 1 AND 2", "", ""},
	{"SELECT true", " AND true OR true", "", ""},
	{"SELECT 'a'", " || 'a'", "", ""},
	{"SELECT 1", " UNION SELECT 1", "", ""},
	{"", "SELECT (", "SELECT 1", ")"},
	{"", "SELECT * FROM (", "SELECT 1", ") s"},
	{"", "SELECT FROM (", "SELECT", ")"},
	{"SELECT 1 FROM t", " JOIN t ON true", "", ""},
	{"SELECT 1 FROM t", " JOIN t", "", " ON true"},
	{"", "WITH a AS (", "SELECT 1", ") SELECT 1"},
	{"SELECT ", "JSON_ARRAY(", "1", ")"},
	{"SELECT ", "JSON_OBJECT('a': ", "1", ")"},
	{"SELECT ", "any_value(", "1", ")"},
	{"SELECT 1", " IS JSON", "", ""},
	{"SELECT ", "point(", "1", ")"},
	{"SELECT ", "version() || ", "'a'", ""},
	{"CREATE TABLE t (a int CHECK (1", "+1", " > 0))", ""},
	{"CREATE VIEW v AS SELECT 1", "+1", "", ""},
	{"TRUNCATE t; SELECT 1", "+1", " FOR UPDATE", ""},
}

// No text crashes the parser, nor what writes a tree back: a deep one is not
// looked at, and one that is just not too deep is read. Clues make sure that a
// parse would be needed.
func TestDeepTexts(t *testing.T) {
	t.Parallel()
	d := New(Options{})
	for _, p := range pumps {
		for _, n := range pumpings {
			for _, tail := range []string{" FOR UPDATE", "; SELECT JSON_ARRAY(1) FROM (SELECT 1)"} {
				sql := p.head + strings.Repeat(p.term, n) + p.middle + strings.Repeat(p.end, n) + tail
				text := d.Analyze(sql)
				if n >= 5000 && !text.Unread {
					t.Errorf("%s %s %d times: read", p.head, p.term, n)
				}
			}
		}
	}
}

func TestLongListsAreRead(t *testing.T) {
	t.Parallel()
	sql := "INSERT INTO t VALUES (1, 'a'" + strings.Repeat("), (1 + 1, 'a'", longList) + ") RETURNING version()"
	if text := New(Options{}).Analyze(sql); text.Unread || !text.Statements[0].Listed {
		t.Error("not read")
	}
}
