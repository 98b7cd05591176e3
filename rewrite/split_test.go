package rewrite

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	p := newPlanner(t)
	for _, c := range []struct {
		sql, lock, read string
		params          []int
	}{
		{"SELECT ce.a, e.b FROM current_executions ce INNER JOIN executions e ON e.shard_id = ce.shard_id AND e.run_id = ce.run_id WHERE ce.shard_id = $1 AND ce.namespace_id = $2 AND ce.workflow_id = $3 FOR UPDATE",
			"SELECT 1 FROM current_executions ce WHERE ce.shard_id = $1 AND ce.namespace_id = $2 AND ce.workflow_id = $3 FOR UPDATE",
			"SELECT ce.a, e.b FROM current_executions ce INNER JOIN executions e ON e.shard_id = ce.shard_id AND e.run_id = ce.run_id WHERE ce.shard_id = $1 AND ce.namespace_id = $2 AND ce.workflow_id = $3",
			[]int{1, 2, 3}},
		{"SELECT 1 FROM a, b WHERE b.x = $1 AND a.id = $3 AND $2 = a.k AND a.v > $1 AND (a.w = 1 OR a.w = 2) FOR UPDATE",
			"SELECT 1 FROM a WHERE a.id = $1 AND $2 = a.k FOR UPDATE",
			"SELECT 1 FROM a, b WHERE b.x = $1 AND a.id = $3 AND $2 = a.k AND a.v > $1 AND (a.w = 1 OR a.w = 2)", []int{3, 2}},
		{"SELECT 1 FROM s.a LEFT JOIN b ON true WHERE a.id = -5 FOR SHARE OF a",
			"SELECT 1 FROM s.a WHERE a.id = -5 FOR UPDATE", "SELECT 1 FROM s.a LEFT JOIN b ON true WHERE a.id = -5", nil},
		{"SELECT 1 FROM a x, b WHERE x.id = 'it''s \\ é' AND x.k = $1::uuid AND x.j = $1 FOR UPDATE;",
			// The parser's deparser writes it, in words of its own.
			"SELECT 1 FROM a x WHERE x.id = E'it''s \\\\ é' AND x.k = $1::uuid AND x.j = $1 FOR UPDATE", "SELECT 1 FROM a x, b WHERE x.id = 'it''s \\ é' AND x.k = $1::uuid AND x.j = $1;", []int{1}},
	} {
		plan := p.Plan([]byte(c.sql))
		s := p.SplitPlan(plan)
		if s == nil {
			t.Errorf("%q has no split form", c.sql)
			continue
		}
		if s.Lock != c.lock || s.Read != c.read || !slices.Equal(s.Params, c.params) || s.Text() != c.lock+"; "+c.read {
			t.Errorf("%q\n lock %s\n want %s\n read %s\n want %s\n params %v", c.sql, s.Lock, c.lock, s.Read, c.read, s.Params)
		}
		if p.SplitPlan(plan) != s {
			t.Error("it is made twice")
		}
	}
}

// TestNoSplit has the queries for which the companion would lock other rows than
// the query, or too few.
func TestNoSplit(t *testing.T) {
	t.Parallel()
	p := newPlanner(t)
	for _, sql := range []string{
		"SELECT 1 FROM a WHERE a.id = 1 FOR UPDATE", // one table: the companion would be refused as well
		"SELECT 1 FROM a, b WHERE a.id = b.id FOR UPDATE",
		"SELECT 1 FROM a, b WHERE a.id = 1 OR b.id = 2 FOR UPDATE",
		"SELECT 1 FROM a, b WHERE id = 1 FOR UPDATE", // whose column?
		"SELECT 1 FROM a, b WHERE a.id = random() FOR UPDATE",
		"SELECT 1 FROM a, b WHERE a.id > 1 FOR UPDATE",
		"SELECT 1 FROM a, b WHERE a.id = 1::text::int FOR UPDATE",
		"SELECT 1 FROM a, b WHERE a.id = ANY ($1) FOR UPDATE",
		"SELECT 1 FROM a RIGHT JOIN b ON true WHERE a.id = 1 FOR UPDATE",
		"SELECT 1 FROM a LEFT JOIN b ON true WHERE a.id = 1 FOR UPDATE", // PostgreSQL wants OF a
		"SELECT 1 FROM a, b JOIN c LEFT JOIN d ON true ON true WHERE a.id = 1 FOR UPDATE",
		"SELECT b.x FROM a, b WHERE a.id = 1 GROUP BY b.x FOR UPDATE",
		"SELECT DISTINCT b.x FROM a, b WHERE a.id = 1 FOR UPDATE",
		"SELECT 1 FROM a FULL JOIN b ON true WHERE a.id = 1 FOR UPDATE",
		"SELECT 1 FROM (a JOIN b ON true) AS a WHERE a.id = 1 FOR UPDATE",
		"SELECT 1 FROM (SELECT 1 AS id) a, b WHERE a.id = 1 FOR UPDATE",
		"SELECT 1 FROM a, b WHERE a.id = 1 FOR UPDATE OF b",
		"SELECT 1 FROM a, b WHERE a.id = 1 FOR UPDATE SKIP LOCKED",
		"SELECT 1 AS x INTO c FROM a, b WHERE a.id = 1 FOR UPDATE", // its answer has no rows
		"SELECT 1 FROM a, b WHERE a.id = 1 FOR KEY SHARE",
		"SELECT 1 FROM a, b WHERE a.id = 1 FOR UPDATE OF a FOR KEY SHARE OF b",
		"WITH a AS (SELECT 1 AS id) SELECT 1 FROM a, b WHERE a.id = 1 FOR UPDATE",
		"SELECT 1 FROM a, (SELECT 1 FROM c FOR UPDATE) b WHERE a.id = 1 FOR UPDATE",
		"SELECT 1 FROM a, b WHERE a.id = 1 FOR UPDATE; SELECT 1",
		"INSERT INTO c SELECT 1 FROM a, b WHERE a.id = 1 FOR UPDATE",
		"EXPLAIN SELECT 1 FROM a, b WHERE a.id = 1 FOR UPDATE",
		"SELECT message_id FROM queue WHERE message_id >= (SELECT 1) FOR UPDATE",
		"SELECT 1 FROM a, b FOR UPDATE", "SELECT 1", "SELEC", "",
	} {
		if s := p.SplitPlan(p.Plan([]byte(sql))); s != nil {
			t.Errorf("%q: %+v", sql, s)
		}
	}
	config := Defaults()
	config.Rules.Split = false
	off, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	if s := off.SplitPlan(off.Plan([]byte("SELECT 1 FROM a, b WHERE a.id = 1 FOR UPDATE"))); s != nil {
		t.Errorf("switched off: %+v", s)
	}
}

func TestSplitPositions(t *testing.T) {
	t.Parallel()
	p := newPlanner(t)
	const sql = "SELECT 1 FROM a, b WHERE a.id = 1 AND 'é' = '' FOR NO KEY UPDATE OF a LIMIT mark"
	plan := p.Plan([]byte(sql))
	s := p.SplitPlan(plan)
	if s == nil {
		t.Fatal("no split form")
	}
	at := func(text string) int { return utf8.RuneCountInString(text[:strings.Index(text, "mark")]) + 1 }
	if got := plan.ClientPosition(s.RefusedPosition(at(s.Read))); got != at(sql) {
		t.Errorf("position %d of %q is %d of %q, want %d", at(s.Read), s.Read, got, sql, at(sql))
	}
}

// Positions in a simple Query lie in the companion, or in the query.
func TestSplitTextPositions(t *testing.T) {
	t.Parallel()
	p := newPlanner(t)
	s := p.SplitPlan(p.Plan([]byte("SELECT b.v FROM a, b WHERE a.id = 'é' FOR UPDATE")))
	if s == nil {
		t.Fatal("no split form")
	}
	begin := utf8.RuneCountInString(s.Lock) + 3
	for position, want := range map[int]int{1: 0, begin - 3: 0, begin - 1: 0, begin: 1, begin + 7: 8} {
		if got, ok := s.RefusedTextPosition(position); got != want || ok != (want > 0) {
			t.Errorf("position %d of %q: %d, %v, want %d", position, s.Text(), got, ok, want)
		}
	}
}

const (
	single = "locking clause such as FOR UPDATE can be applied on a single table"
	key    = "locking clause such as FOR UPDATE can be applied only on tables with equality predicates on the key"
)

func TestWantsSplit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code, message string
		want          bool
	}{
		{"0A000", single, true}, {"0A000", "ERROR: " + key + ".", true}, {"XX000", single, false},
		{"0A000", "locking clauses other than FOR UPDATE/FOR KEY SHARE are not supported", false}, {"0A000", "", false},
	} {
		if got := isSplitRefusal(c.code, []byte(c.message)); got != c.want {
			t.Errorf("%s %s: %v", c.code, c.message, got)
		}
	}
}

// A plan changes to its split form once, when the cluster has refused its text.
func TestRefused(t *testing.T) {
	t.Parallel()
	p := newPlanner(t)
	ask := func(plan *Plan, sent *SplitQuery, code, message, hint string, again bool) {
		t.Helper()
		if h, a := p.HandleRefusal(plan, sent, code, []byte(message)); h != hint || a != again {
			t.Errorf("%q, %v; want %q, %v", h, a, hint, again)
		}
	}
	plan := p.Plan([]byte("SELECT 1 FROM a, b WHERE a.id = 1 FOR UPDATE"))
	ask(plan, nil, "0A000", "unsupported statement: Listen", "", false)
	if plan.ActiveSplit() != nil {
		t.Fatal("in two parts before it was refused")
	}
	ask(plan, nil, "0A000", single, SplitNextHint, true)
	s := plan.ActiveSplit()
	if s == nil || s != p.SplitPlan(plan) || p.Plan([]byte("SELECT 1 FROM a, b WHERE a.id = 1 FOR UPDATE")).ActiveSplit() != s {
		t.Fatalf("not in two parts: %+v", s)
	}
	ask(plan, nil, "0A000", single, SplitNextHint, true) // it was on its way when another was refused
	ask(plan, s, "0A000", key, SplitHint, false)
	ask(p.Plan([]byte("SELECT 1 FROM a WHERE a.id = 1 FOR UPDATE")), nil, "0A000", key, SplitHint, false)
	p.config.Rules.Split = false
	ask(plan, nil, "0A000", single, "", false)
}
