package values

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sluice-proxy/sluice/integration/sqltexts"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

var allSplices = flag.Bool("rewrite.splices", false, "try every call in every place, not a fifth of them")

// spliced are the calls and constants that rules rewrite, read as a clock, or give a value.
var spliced = []string{"uuid_generate_v4()", "now()", "nextval('q')", "(SELECT uuid_generate_v4() FROM t FOR SHARE)", "k", "set_config('a', 'b', true)", "'public'", "DEFAULT"}

// splices are the texts in which each of spliced has the place of each token of a statement that may be, or
// end, an expression.
func splices(sql string, yield func(string)) {
	ph := parse.LexTokens([]byte(sql), 0, len(sql))
	for i := range ph.Tokens {
		switch ph.Tokens[i].Kind {
		case parse.WordToken, parse.QuotedToken, parse.StringToken, parse.NumberToken, parse.ParamToken:
		default:
			continue
		}
		for _, call := range spliced {
			yield(applySplice(sql, int(ph.Tokens[i].Start), int(ph.Tokens[i].End), call))
		}
	}
}

func applySplice(sql string, start, end int, call string) string {
	return sql[:start] + call + sql[end:]
}

// spliceSeeds are statements of PostgreSQL's grammar in which the parser repeats, moves or makes up nodes.
var spliceSeeds = []string{
	"UPDATE t SET (a, v) = (1, 2)", "UPDATE t SET (k, a) = (1, 2), v = 3 WHERE a = 4 RETURNING v", "UPDATE t SET (a, v, k) = (SELECT 1, 2, 3 FROM u WHERE n = 4)",
	"UPDATE t SET (a, v) = ROW (1, 2) FROM plain WHERE plain.a = t.a", "UPDATE t SET (a) = (1)", "UPDATE t SET (a, v) = (DEFAULT, 1)",
	"INSERT INTO t (a, k, v) VALUES (1, 2, 3) ON CONFLICT (a, k) DO UPDATE SET (a, v) = (4, excluded.v) WHERE t.v > 5 RETURNING a",
	"INSERT INTO plain (a, k) SELECT 1, 2 FROM t ON CONFLICT (a) DO UPDATE SET (k, a) = (SELECT 1, 2)",
	"WITH x AS (UPDATE plain SET (a, k) = (1, 2) RETURNING a) SELECT a FROM x", "MERGE INTO plain USING t ON plain.a = t.a WHEN MATCHED THEN UPDATE SET (a, k) = (1, 2) WHEN NOT MATCHED THEN INSERT (a, k) VALUES (1, 2)",
	"UPDATE t SET (a, v) = (WITH x AS (UPDATE plain SET (a, k) = (1, 2) RETURNING a) SELECT a, 3 FROM x)",
	"PREPARE p AS UPDATE t SET (a, v) = (1, 2)", "EXPLAIN UPDATE t SET (a, v) = (1, 2)", "CREATE RULE r AS ON UPDATE TO t DO ALSO UPDATE plain SET (a, k) = (1, 2)",
	"COPY (SELECT a, 1 FROM t WHERE v = 2) TO STDOUT", "DECLARE c CURSOR FOR SELECT a, 1 FROM t ORDER BY 2", "SELECT a FROM t WHERE (a, v) = (1, 2) AND k IN (3, 4) GROUP BY a HAVING max(v) > 5",
	"SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_name = 'x'", "SELECT (1, 2) OVERLAPS (3, 4), 1 BETWEEN SYMMETRIC 2 AND 3, NOT 1 IS DISTINCT FROM 2",
}

// TestSplicedExpressions puts every rewritten call into every place where an expression may stand, in statements of
// PostgreSQL's whole grammar. No reader of texts panics, no two edits of a text overlap, and what goes out parses.
func TestSplicedExpressions(t *testing.T) {
	t.Parallel()
	every := 5
	if *allSplices {
		every = 1
	}
	r := readersOfTexts(t)
	random := rand.New(rand.NewPCG(1, 2))
	texts, valid := 0, 0
	try := func(sql string) {
		if texts++; every > 1 && random.IntN(every) > 0 {
			return
		}
		if len(r.planners[0].StatementTrees(sql)) == 0 {
			return
		}
		valid++
		if err := r.read(sql); err != nil {
			t.Errorf("%q: %v", sql, err)
		}
	}
	for _, sql := range sqltexts.ReadCorpus(t, "../testdata/corpus/postgres.txt") {
		splices(sql, try)
	}
	every = 1
	for _, sql := range spliceSeeds {
		splices(sql, try)
	}
	t.Logf("%d texts, %d valid of those tried", texts, valid)
	if valid < 2000 {
		t.Errorf("%d of %d texts are valid: the test has lost its force", valid, texts)
	}
}

// FuzzSplice is TestSplicedExpressions for texts of a fuzzer.
func FuzzSplice(f *testing.F) {
	for _, seed := range spliceSeeds {
		f.Add(seed, "uuid_generate_v4()", uint8(3))
	}
	f.Fuzz(func(t *testing.T, sql, call string, place uint8) {
		ph := parse.LexTokens([]byte(sql), 0, len(sql))
		if len(ph.Tokens) == 0 {
			return
		}
		at := ph.Tokens[int(place)%len(ph.Tokens)]
		if err := readersOfTexts(t).read(applySplice(sql, int(at.Start), int(at.End), call)); err != nil {
			t.Fatal(err)
		}
	})
}

// overlap is what a statement is refused with where two changes to it overlap.
const overlap = "cannot rewrite the statement: two changes to it overlap"

// textReaders are what reads texts of clients, in each configuration of rules.
type textReaders struct {
	planners []*rewrite.Planner
	names    *schema.NameResolver
	given    FirstRunValues
}

func readersOfTexts(t testing.TB) *textReaders {
	names := schema.New([]schema.Relation{
		{ID: "1", Schema: "public", Name: "t", Columns: []schema.Column{{Name: "a"}, {Name: "k", Mapped: true}, {Name: "v", Kind: instantType, Fill: schema.Clock, Time: ExactTxTimeKind}}, Key: []string{"a", "k"}},
		{ID: "2", Schema: "public", Name: "u", Columns: []schema.Column{{Name: "Id", Mapped: true}, {Name: "n", Fill: schema.Drawn}}, Key: []string{"Id"}},
		{ID: "3", Schema: "public", Name: "plain", Columns: []schema.Column{{Name: "a", Fill: schema.Drawn, Always: true}, {Name: "k"}}, Key: []string{"a"}},
	}).ResolverFor([]string{"public"})
	return &textReaders{
		planners: []*rewrite.Planner{newPlanner(t), plannerBy(t, allRules), plannerBy(t, func(r *rewrite.Rules) { r.Bytea = rewrite.ByteaHex }), plannerBy(t, func(r *rewrite.Rules) { r.Bytea = rewrite.ByteaHexCast })},
		names:    names,
		given: FirstRunValues{Knows: func(string) bool { return true }, Time: func(string) string { return "'T'" }, Clock: true,
			Value: func(c AnswerCell) string { return fmt.Sprintf("'%d of %d'", c.Column, c.Row) }},
	}
}

// read has everybody read a text. An error is a panic, a rewrite that overlaps itself, or one that is no text.
func (r *textReaders) read(sql string) (err error) {
	defer func() {
		if caught := recover(); caught != nil {
			err = fmt.Errorf("panic: %v", caught)
		}
	}()
	for i, p := range r.planners {
		for _, names := range []*schema.NameResolver{nil, r.names} {
			plan := p.PlanWithNames([]byte(sql), names)
			for _, st := range plan.Statements {
				if st.Refusal != nil && st.Refusal.Message == overlap {
					return fmt.Errorf("planner %d: %s", i, st.Refusal.Message)
				}
			}
			p.SplitPlan(plan)
			p.BatchedDelete(plan)
			if plan.Text == "" {
				continue
			}
			if len(p.StatementTrees(plan.Text)) == 0 {
				return fmt.Errorf("planner %d: became %q, which is no text", i, plan.Text)
			}
		}
		p.NewLinter().LintStatements(sql)
	}
	return r.readTimes(sql)
}

// readTimes has a text read by what gives it values when its transaction is run again.
func (r *textReaders) readTimes(sql string) error {
	p := r.planners[0]
	p.AdaptToSchema([]byte(sql), "x")
	MayHideTxTime(p, sql, r.names)
	TxTimeColumns(p, sql)
	EffectsOf(p, sql, r.names)
	DependsOnData(p, sql, r.names)
	ClassifyGenerated(p, sql)
	p.SplitStatements(sql)
	var stored StoredTxTimes
	stored.RecordText(p, sql, r.names)
	stored.MayReturnStored(p, sql, r.names)
	made := []string{ReplaceTxTime(p, sql, func() string { return "'T'" })}
	if in := ParseTimed(p, sql, r.names); in != nil {
		in.EffectsWith(r.given)
		in.TakesTxTime(r.given)
		made = append(made, in.WithFirstRun(r.given))
	}
	for _, text := range made {
		if text != "" && len(p.StatementTrees(text)) == 0 {
			return fmt.Errorf("given a time, it became %q, which is no text", text)
		}
	}
	return nil
}
