package proxy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-proxy/sluice/rewrite"
)

// splitting sends what older clusters refuse to lock in two parts.
func splitting(s *setup) { s.rules = rewrite.Rules{Split: true} }

// tooMuch is the refusal of an older cluster.
const tooMuch = "locking clause such as FOR UPDATE can be applied on a single table"

// splitTables has tables whose joins are locked, and complain(n), which refuses
// the locking clause as an older cluster does, until the query is sent anew.
const splitTables = `
CREATE TABLE split_a (id int PRIMARY KEY, k text, v bigint); CREATE TABLE split_b (a bigint, w text);
INSERT INTO split_a SELECT i, 'k' || i, i * 10 FROM generate_series(1, 3) i;
INSERT INTO split_b SELECT i % 3 + 1, 'w' || i FROM generate_series(1, 9) i;
CREATE FUNCTION complain(said text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
	IF said LIKE '%split_b%FOR UPDATE%' THEN RAISE EXCEPTION 'locking clause such as FOR UPDATE can be applied on a single table' USING ERRCODE = '0A000'; END IF;
	RETURN 1; END $$;`

// Queries in two parts. complain() looks at the statement that runs: through
// Sluice it is refused first.
var splitTexts = []string{
	"SELECT a.v, b.w FROM split_a a JOIN split_b b ON b.a = a.id WHERE a.id = 2 ORDER BY 2 FOR UPDATE",
	"SELECT b.w, $1 + 1 AS n FROM split_a a, split_b b WHERE b.a = $1 AND a.id = $1 ORDER BY 1 FOR UPDATE OF a",
	"SELECT a.k FROM split_a a LEFT JOIN split_b b ON b.a > $1 WHERE a.id = 3 AND a.k = 'k' || 3 FOR UPDATE OF a",
	"SELECT count(*) FROM (SELECT 1) one, split_a WHERE split_a.id = 1",
	"SELECT a.v / 0 FROM split_a a, split_b b WHERE a.id = 1 FOR UPDATE",
	"SELECT a.nosuch FROM split_a a, split_b b WHERE a.id = 1 FOR UPDATE",
	"SELECT a.v FROM split_a a, split_b b WHERE a.id = 77 FOR UPDATE",
}

// inTwo has the server's planner take all these texts for refused.
func inTwo(t *testing.T, s *sluice, texts []string) {
	t.Helper()
	n := 0
	for _, text := range texts {
		for _, spelling := range []string{text, strings.ReplaceAll(text, "$1", "1")} {
			if _, again := s.planner.HandleRefusal(s.planner.Plan([]byte(spelling)), nil, "0A000", []byte(tooMuch)); again {
				n++
			}
		}
	}
	if n < len(texts) {
		t.Errorf("only %d of the texts have two parts", n)
	}
}

// TestRandomSplits plays random dialogues with queries that are sent in two
// parts, with and without conflicts, which must be answered as in one.
func TestRandomSplits(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling+splitTables+"CREATE TABLE random (a int)")
	texts := slices.Concat(splitTexts, []string{"SELECT 1 AS one", "SELECT $1::int AS n", "SELECT 1/0", "", "BEGIN", "COMMIT", "ROLLBACK",
		"INSERT INTO random VALUES (1)", "SET TimeZone = 'Asia/Tokyo'", "SET search_path = public", "PREPARE p2 AS SELECT 5 AS five", "DISCARD ALL"})
	run := func(name string, texts []string, reset func(yes bool), opts ...option) {
		s := startSluice(t, pg, append(opts, splitting)...)
		inTwo(t, s, splitTexts)
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				script := strings.Replace("Q WITH d AS (DELETE FROM random) SELECT 1\n< Z\n"+drawDialogue(r, texts), "to_regclass('random_t')", "1", 1)
				play := func(addr string) string { return bindComplaint.ReplaceAllString(perform(t, addr, script), `$1""`) }
				reset(false)
				want := play(pg.addr)
				reset(true)
				got := play(s.addr)
				if m := detail.FindStringSubmatch(got); m != nil && !strings.Contains(m[1], "result of") {
					return // the client was told of the conflict; what follows differs
				}
				if got != want {
					r.Fatalf("%s\nthrough Sluice:\n%s", script, firstDifference(got, want))
				}
			})
		})
	}
	run("transaction", texts, func(bool) {}, maxOpen(3))
	run("session", texts, func(bool) {}, sessionPairing, maxOpen(5), asDSQL)
	run("replay", slices.Concat(splitTexts, stumbleTexts), func(yes bool) { stumbles(t, pg, yes) }, fastReplay, maxOpen(3))
}

// A refused query is sent in two parts, and its client cannot tell.
func TestRefusalIsInvisible(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", splitTables)
	const (
		query = "SELECT b.w, complain(current_query()) AS c FROM split_a a JOIN split_b b ON b.a = a.id WHERE a.id = 2 ORDER BY 1 FOR UPDATE"
		with  = "SELECT b.w, $2::text AS s, complain(current_query()) AS c FROM split_a a, split_b b WHERE b.a = $1 AND a.id = $1 ORDER BY 1 FOR UPDATE"
	)
	for name, script := range map[string]string{
		"autocommit":             "Q QUERY\n< Z\nQ QUERY\n< Z",
		"in a block":             "Q BEGIN\nQ UPDATE split_a SET v = v + 1 WHERE id = 1 RETURNING v\n< Z Z\nQ QUERY\n< Z\nQ SELECT 1 AS one\n< Z\nQ ROLLBACK\n< Z",
		"first in it":            "Q BEGIN\n< Z\nQ QUERY\nQ QUERY\n< Z Z\nQ COMMIT\n< Z",
		"prepared":               "P s | QUERY\nD S s\nS\n< Z\nB - | s\nE -\nS\n< Z\nB - | s\nE -\nS\n< Z",
		"parameters":             "P s | WITH\nD S s\nS\n< Z\nB - | s | 2,x\nD P -\nE -\nS\n< Z\nB - | s | 3,\\N\nE -\nS\n< Z",
		"one group":              "P - | WITH\nB - | - | 2,x\nD P -\nE -\nS\n< Z\nP - | WITH\nB - | - | 1,y\nD P -\nE -\nS\n< Z",
		"rows at a time":         "Q BEGIN\n< Z\nP s | WITH\nB c1 | s | 2,x\nE c1 2\nH\n< s\nP - | SELECT 1 AS one\nB - | -\nE -\nE c1 2\nS\n< Z\nC P c1\nS\n< Z\nQ COMMIT\n< Z",
		"typed otherwise":        "P s | WITH | 20\nD S s\nB - | s | 2,x\nE -\nS\n< Z",
		"a change of the schema": "P s | WITH\nD S s\nB - | s | 2,x\nE -\nS\n< Z\nQ CREATE INDEX split_i ON split_b (a)\n< Z\nB - | s | 2,x\nE -\nS\n< Z\nQ DROP INDEX split_i\n< Z\nB - | s | 2,x\nE -\nS\n< Z",
		"another search path":    "P s | WITH\nD S s\nB - | s | 2,x\nE -\nS\n< Z\nQ SET search_path = public\n< Z\nB - | s | 2,x\nE -\nS\n< Z",
		"wrong parameters":       "P s | WITH\nB - | s | 2,x\nE -\nS\n< Z\nB - | s | 2\nE -\nS\n< Z\nB - | s | x,x\nE -\nS\n< Z\nB - | s | 2,y\nE -\nS\n< Z",
		"a pipeline":             "P - | INSERT INTO split_b VALUES (2, 'new')\nB - | -\nE -\nP - | WITH\nB - | - | 2,x\nE -\nP - | DELETE FROM split_b WHERE w = 'new'\nB - | -\nE -\nS\n< Z",
	} {
		for _, opts := range [][]option{{maxOpen(2)}, {maxOpen(2), plainConn}, {asDSQL, sessionPairing, maxOpen(2)}} {
			t.Run(name, func(t *testing.T) {
				s := startSluice(t, pg, append(opts, splitting, fastReplay)...)
				script := strings.NewReplacer("QUERY", query, "WITH", with).Replace(script)
				without := strings.ReplaceAll(script, " FOR UPDATE", "") // PostgreSQL's function would complain
				clause := func(got string) string {
					return bindComplaint.ReplaceAllString(strings.ReplaceAll(got, " FOR UPDATE", ""), `$1""`)
				}
				want := clause(perform(t, pg.addr, without))
				if got := clause(perform(t, s.addr, script)); got != want {
					t.Errorf("through Sluice:\n%s", firstDifference(got, want))
				}
				if n := replayed(t, s); n < 1 {
					t.Error("nothing was refused")
				}
			})
		}
	}
}

// Where the transaction cannot be run again the client gets the refusal, and
// the next try is in two parts; where there is no other form it gets it always.
func TestRefusalIsTold(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", splitTables)
	const (
		query = "SELECT b.w, complain(current_query()) AS c FROM split_a a JOIN split_b b ON b.a = a.id WHERE a.id = 2 ORDER BY 1 FOR UPDATE"
		whole = "SELECT b.w, complain(current_query()) AS c FROM split_a a JOIN split_b b ON b.a = a.id ORDER BY 1 FOR UPDATE"
		each  = "SELECT b.w, complain(current_query() || 'FOR UPDATE') AS c FROM split_a a JOIN split_b b ON b.a = a.id WHERE a.id = 2 ORDER BY 1 FOR UPDATE"
	)
	for _, test := range []struct {
		name, query string
		opts        []option
		hints       [2]string
	}{
		{"no replay", query, nil, [2]string{rewrite.SplitNextHint, ""}},
		{"opted out", query, []option{fastReplay, configureNever}, [2]string{rewrite.SplitNextHint + " Retry the whole", ""}},
		{"no other form", whole, []option{fastReplay}, [2]string{rewrite.SplitHint, rewrite.SplitHint}},
		{"no other form helps", each, []option{fastReplay}, [2]string{rewrite.SplitHint, rewrite.SplitHint}},
	} {
		for _, ask := range []string{"Q %s\n< Z", "P - | %s\nB - | -\nE -\nS\n< Z"} {
			s := startSluice(t, pg, append(test.opts, splitting)...)
			for i, hint := range test.hints {
				got := perform(t, s.addr, fmt.Sprintf(ask, test.query))
				refused := strings.Contains(got, "C=0A000 M="+tooMuch)
				if refused != (hint != "") || !strings.Contains(got, hint) || hint == "" && !strings.Contains(got, "C SELECT 3") {
					t.Errorf("%s, time %d, want the hint %q:\n%s", test.name, i+1, hint, got)
				}
			}
		}
	}
}

// configureNever takes replay from every client.
func configureNever(s *setup) { s.proxy.UsersWithoutReplay = []string{"postgres"} }
