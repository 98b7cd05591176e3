package proxy_test

import (
	"fmt"
	"strings"
	"testing"
)

// declaredParamsFrame are the ways to declare a cursor and read it.
var declaredParamsFrame = map[string]string{
	"simple":          "Q BEGIN\n< Z\nQ DECLARE c NO SCROLL CURSOR FOR SELECT n FROM t\n< Z\nQ FETCH ALL FROM c\n< Z\nQ COMMIT\n< Z\n",
	"extended":        "Q BEGIN\n< Z\n" + ext("DECLARE c NO SCROLL CURSOR FOR SELECT n FROM t") + "S\n< Z\n" + ext("FETCH ALL FROM c") + "S\n< Z\nQ COMMIT\n< Z\n",
	"one group":       ext("BEGIN") + ext("DECLARE c NO SCROLL CURSOR FOR SELECT n FROM t") + ext("FETCH ALL FROM c") + ext("COMMIT") + "S\n< Z\n",
	"only prepared":   "P s | DECLARE c NO SCROLL CURSOR FOR SELECT n FROM t\nS\n< Z\nC S s\nS\n< Z\n",
	"described":       "P s | DECLARE c NO SCROLL CURSOR FOR SELECT k FROM t\nD S s\nS\n< Z\nQ BEGIN\n< Z\nB - | s\nE -\nS\n< Z\nQ COMMIT\n< Z\nC S s\nS\n< Z\n",
	"parameters":      "Q BEGIN\n< Z\nP s | DECLARE c CURSOR FOR SELECT n FROM t WHERE n < $1\nB - | s | 5\nE -\nS\n< Z\nQ FETCH 1 FROM c\n< Z\nQ COMMIT\n< Z\nC S s\nS\n< Z\n",
	"held":            ext("DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT n FROM t") + "S\n< Z\nQ FETCH ALL FROM c\n< Z\nQ CLOSE c\n< Z\n",
	"no such column":  "Q BEGIN\n< Z\n" + ext("DECLARE c CURSOR FOR SELECT nosuch FROM t") + "S\n< Z\nQ ROLLBACK\n< Z\n",
	"prepared before": "Q BEGIN\n< Z\nB - | before\nE -\nS\n< Z\nQ FETCH ALL FROM before\n< Z\nQ COMMIT\n< Z\n",
	"described then":  "D S before\nS\n< Z\n",
}

// A cursor is declared as if nobody changed the schema, where another process does and the statement gets a
// backend that knows it: it is the cursor's query that is planned again, and not the client's text.
func TestDeclareBesideDDL(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	keyed(t, pg, "public", true)
	pg.SQL(t, "postgres", "INSERT INTO t VALUES (1, '00'), (2, '01')")
	s := startSluice(t, pg, asDSQL, withCursors, withReplay, mapping, maxOpen(2))
	changes := 0
	for name, script := range declaredParamsFrame {
		c := dialRaw(t, s.addr)
		c.say(t, "P before | DECLARE before NO SCROLL CURSOR FOR SELECT k FROM t\nS\n< Z\n")
		texts := func(n int) string { return strings.ReplaceAll(script, "FROM t", fmt.Sprintf("FROM t /* %d */", n)) } // none is known
		want := c.say(t, texts(1))
		changes++
		pg.SQL(t, "postgres", fmt.Sprintf("ALTER TABLE t ADD COLUMN late%d int", changes))
		pg.SQL(t, "postgres", killBackends)
		before := loads(t, s, "backend")
		if got := c.say(t, texts(2)); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
		if strings.Contains(want, "E S=") != (name == "no such column") {
			t.Errorf("%s: without DDL beside it\n%s", name, want)
		}
		if loads(t, s, "backend") == before && name != "only prepared" { // its Parse may be answered from memory
			t.Errorf("%s: no newer backend had the schema read", name)
		}
		c.conn.Close()
	}
}
