package occ_test

import (
	"testing"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/occ"
)

func TestRead(t *testing.T) {
	t.Parallel()
	const place = `.tableoid::pg_catalog.text, `
	for _, test := range []struct{ sql, stripped, capture string }{
		{"SELECT v FROM t WHERE id = $1 FOR UPDATE", "SELECT v FROM t WHERE id = $1           ",
			"SELECT v, t" + place + "t.ctid::pg_catalog.text FROM t WHERE id = $1"},
		{"select 'for update' from a join b on a.x = b.x for update of b nowait", "select 'for update' from a join b on a.x = b.x                       ",
			"SELECT 'for update', b" + place + "b.ctid::pg_catalog.text FROM a JOIN b ON a.x = b.x"},
		{"SELECT * FROM t u, s.v ORDER BY 1 LIMIT 1 FOR KEY SHARE SKIP LOCKED", "SELECT * FROM t u, s.v ORDER BY 1 LIMIT 1                          ",
			"SELECT *, u" + place + "u.ctid::pg_catalog.text, v" + place + "v.ctid::pg_catalog.text FROM t u, s.v ORDER BY 1 LIMIT 1"},
		{"WITH c AS (SELECT 1) SELECT * FROM c, t FOR UPDATE", "WITH c AS (SELECT 1) SELECT * FROM c, t           ",
			"WITH c AS (SELECT 1) SELECT *, t" + place + "t.ctid::pg_catalog.text FROM c, t"},
		{"UPDATE t SET v = 1 WHERE id IN (SELECT id FROM t FOR UPDATE SKIP LOCKED)", "UPDATE t SET v = 1 WHERE id IN (SELECT id FROM t                       )", ""},
		{"SELECT 1 FOR UPDATE", "SELECT 1           ", ""},
	} {
		p := occ.NewLockPlan(test.sql)
		if p == nil {
			t.Errorf("%s: not planned", test.sql)
			continue
		}
		if p.SQL != test.stripped || p.Capture != test.capture {
			t.Errorf("%s:\n got %q\nand  %q\nwant %q\nand  %q", test.sql, p.SQL, p.Capture, test.stripped, test.capture)
		}
		if !occ.MayHaveLocking(test.sql) {
			t.Errorf("MayLock denies %s", test.sql)
		}
	}
	for _, sql := range []string{
		"SELECT 1", "SELECT substring(a for 2) FROM t", "SELECT DISTINCT v FROM t FOR UPDATE", "SELECT v FROM t GROUP BY v FOR UPDATE",
		"SELECT 1; SELECT 2 FOR UPDATE", "nonsense for update",
	} {
		if p := occ.NewLockPlan(sql); p != nil {
			t.Errorf("%s: planned as %+v", sql, p)
		}
	}
	for _, sql := range []string{"UPDATE t SET v = 1", "SELECT format FROM t", ""} {
		if occ.MayHaveLocking(sql) {
			t.Errorf("MayLock suspects %q", sql)
		}
	}
}

func TestStrengths(t *testing.T) {
	t.Parallel()
	p := occ.NewLockPlan("SELECT 1 FROM a, b, c FOR KEY SHARE OF a, b FOR UPDATE OF b")
	if p == nil || len(p.Strengths) != 2 || p.Strengths[0] != occ.Share || p.Strengths[1] != occ.Update {
		t.Errorf("got %+v", p)
	}
}

func TestMakeGuess(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ sql, guess, tag string }{
		{"UPDATE t SET v = v + $1 WHERE id = $2", "SELECT 1 FROM t WHERE id = $2", "UPDATE 3"},
		{"UPDATE t SET v = v + 1 WHERE id = 2 RETURNING id, t.v, v * 2, *",
			"SELECT id, CASE 1 WHEN 1 THEN v + 1 ELSE t.v END AS v, v * 2, * FROM t WHERE id = 2", "UPDATE 3"},
		{"UPDATE t x SET v = s.v FROM s WHERE s.id = x.id RETURNING x.v",
			"SELECT DISTINCT ON (x.ctid) CASE 1 WHEN 1 THEN s.v ELSE x.v END AS v FROM t x, s WHERE s.id = x.id", "UPDATE 3"},
		{"DELETE FROM t USING s WHERE s.id = t.id", "SELECT DISTINCT ON (t.ctid) 1 FROM t, s WHERE s.id = t.id", "DELETE 3"},
		{"WITH c AS (SELECT 1 AS x) DELETE FROM t WHERE id IN (SELECT x FROM c FOR UPDATE) RETURNING *",
			"WITH c AS (SELECT 1 AS x) SELECT * FROM t WHERE id IN (SELECT x FROM c)", "DELETE 3"},
		{"INSERT INTO t VALUES (1, DEFAULT), (2, $1) ON CONFLICT DO NOTHING", "VALUES (1, NULL), (2, $1)", "INSERT 0 3"},
		{"INSERT INTO t (a) SELECT x FROM s UNION SELECT 1", "SELECT x FROM s UNION SELECT 1", "INSERT 0 3"},
		{"INSERT INTO t DEFAULT VALUES", "SELECT 1", "INSERT 0 3"},
	} {
		g := occ.NewGuessQuery(test.sql)
		if g == nil {
			t.Errorf("%s: no guess", test.sql)
			continue
		}
		if g.SQL != test.guess || g.CommandTag("SELECT 3") != test.tag {
			t.Errorf("%s:\n got %s, %s\nwant %s, %s", test.sql, g.SQL, g.CommandTag("SELECT 3"), test.guess, test.tag)
		}
	}
	for _, sql := range []string{"SELECT 1", "INSERT INTO t VALUES (1) RETURNING id", "CREATE TABLE t (id int)", "nonsense"} {
		if g := occ.NewGuessQuery(sql); g != nil {
			t.Errorf("%s: guessed as %s", sql, g.SQL)
		}
	}
}

func TestCertifier(t *testing.T) {
	t.Parallel()
	var c occ.Certifier
	key := func(row string) []occ.RowKey { return []occ.RowKey{{Table: "t", Condition: row}} }
	against := func(name string, snapshot uint64, want int) {
		t.Helper()
		if got := c.KeysSince(snapshot); len(got) != want {
			t.Errorf("%s: %v, want %d keys", name, got, want)
		}
	}
	early := c.OpenSnapshot()
	shares := c.OpenSnapshot()
	against("nothing has happened", early, 0)
	c.AnnounceKeys(shares, key("1"))
	against("its own keys", shares, 0)
	against("under way", early, 1)
	middle := c.OpenSnapshot()
	against("under way, and perhaps not in the snapshot", middle, 1)
	c.CloseSnapshot(shares, true)
	late := c.OpenSnapshot()
	against("committed", early, 1)
	against("committed before the snapshot", late, 0)
	failed := c.OpenSnapshot()
	c.AnnounceKeys(failed, key("2"))
	c.CloseSnapshot(failed, false)
	against("rolled back", early, 1)
	c.CloseSnapshot(early, false)
	c.CloseSnapshot(middle, true)
	c.CloseSnapshot(late, true)
	next := c.OpenSnapshot()
	against("forgotten", next, 0)
	if n := c.KeyCount(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}
