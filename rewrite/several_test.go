package rewrite

import (
	"strings"
	"testing"
	"time"

	"github.com/pganalyze/pg_query_go/v6/parser"

	"github.com/sluice-proxy/sluice/integration/sqltexts"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// The source of an assignment to several columns is changed once, wherever that assignment stands.
func TestMultiAssignments(t *testing.T) {
	t.Parallel()
	for in, out := range map[string]string{
		"UPDATE t SET (u, tag) = (uuid_generate_v4(), 1)":                                                                  "UPDATE t SET (u, tag) = (gen_random_uuid(), 1)",
		"UPDATE t SET a = 1, (u, tag, x) = ROW (1, uuid_generate_v4(), public.uuid_generate_v4()) WHERE b":                 "UPDATE t SET a = 1, (u, tag, x) = ROW (1, gen_random_uuid(), gen_random_uuid()) WHERE b",
		"UPDATE t SET (u, tag) = (SELECT uuid_generate_v4(), 1)":                                                           "UPDATE t SET (u, tag) = (SELECT gen_random_uuid() AS uuid_generate_v4, 1)",
		"INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET (u, tag) = (uuid_generate_v4(), 1)":                        "INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET (u, tag) = (gen_random_uuid(), 1)",
		"WITH x AS (UPDATE t SET (u, tag) = (uuid_generate_v4(), 1) RETURNING u) SELECT u FROM x":                          "WITH x AS (UPDATE t SET (u, tag) = (gen_random_uuid(), 1) RETURNING u) SELECT u FROM x",
		"UPDATE t SET (u, tag) = (SELECT a, 1 FROM v FOR SHARE)":                                                           "UPDATE t SET (u, tag) = (SELECT a, 1 FROM v FOR UPDATE)",
		"UPDATE t SET (u, v) = (WITH x AS (UPDATE t SET (u, v) = (uuid_generate_v4(), 1) RETURNING u) SELECT u, 2 FROM x)": "UPDATE t SET (u, v) = (WITH x AS (UPDATE t SET (u, v) = (gen_random_uuid(), 1) RETURNING u) SELECT u, 2 FROM x)",
	} {
		plan := newPlanner(t).Plan([]byte(in))
		if plan.Text != out || plan.SingleStatement().Refusal != nil {
			t.Errorf("%s\nbecame %q, %+v", in, plan.Text, plan.SingleStatement().Refusal)
		}
		newPlanner(t).NewLinter().LintStatements(in)
	}
}

// A rule that changes one place twice is an error of the planner: the statement is refused, the others are sent.
func TestOverlapIsRefused(t *testing.T) {
	t.Parallel()
	const sql = "SELECT a FROM t FOR SHARE; UPDATE t SET (u, tag) = (uuid_generate_v4(), 1); SELECT b FROM t FOR SHARE"
	wire, err := parser.ParseToProtobuf(sql) // with copies
	if err != nil {
		t.Fatal(err)
	}
	tree, err := parse.Tree(sql)
	if err != nil {
		t.Fatal(err)
	}
	p := newPlanner(t)
	plan, parts := p.draftPlan(sql, parse.TreeNode{Shape: tree.Shape, Wire: wire})
	plan = p.applyRules(sql, tree, nil, plan, parts)
	if want := strings.ReplaceAll(sql, "SHARE", "UPDATE"); plan.Text != want {
		t.Errorf("it became %q", plan.Text)
	}
	for i, refused := range []bool{false, true, false} {
		if got := plan.Statements[i].Refusal; (got == errOverlap) != refused {
			t.Errorf("statement %d: %+v", i+1, got)
		}
	}
	if p.Stats().Unverified != 1 || len(plan.Findings) != 3 {
		t.Errorf("%+v, %+v", p.Stats(), plan.Findings)
	}
}

// A text whose tree would be much larger than the text is not parsed.
func TestCopiesAreNotParsed(t *testing.T) {
	t.Parallel()
	sql := sqltexts.NestedAssignment(8, 6)
	if Defaults().checkLimits([]byte(sql)) == parse.Fits { // or the parser takes minutes
		t.Fatal("the guard lets it pass")
	}
	start := time.Now()
	if plan := newPlanner(t).Plan([]byte(sql)); plan.Pin != PinUnparsed {
		t.Errorf("a text of which the parser makes 500 MB is parsed, in %s", time.Since(start))
	}
}
