package rewrite

import (
	"strings"
	"testing"
	"time"

	"github.com/pganalyze/pg_query_go/v6/parser"
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
		if plan.Text != out || plan.Single().Refusal != nil {
			t.Errorf("%s\nbecame %q, %+v", in, plan.Text, plan.Single().Refusal)
		}
		newPlanner(t).Linter().Read(in)
	}
	const timed = "UPDATE t SET (u, at) = (1, now()) WHERE at < now()"
	if got := newPlanner(t).AtInstant(timed, func() string { return "'T'" }); strings.Count(got, "'T'") != 2 {
		t.Errorf("%s\nbecame %q", timed, got)
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
	tree, err := parseTree(sql)
	if err != nil {
		t.Fatal(err)
	}
	p := newPlanner(t)
	plan, parts := p.draft(sql, message{shape: tree.shape, wire: wire})
	plan = p.rewrite(sql, tree, nil, plan, parts)
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

// Edits that overlap, or lie outside of a text, make no text.
func TestApplyEditsRefuses(t *testing.T) {
	t.Parallel()
	for _, edits := range [][]edit{{{1, 3, "x"}, {2, 4, "y"}}, {{1, 3, "x"}, {1, 3, "x"}}, {{3, 2, ""}}, {{-1, 2, ""}}, {{4, 9, ""}}, {{0, 5, ""}, {3, 3, "x"}}} {
		if made, ok := applyEdits("01234", edits); ok || made != "" {
			t.Errorf("%v made %q", edits, made)
		}
	}
}

// bomb is a text of an assignment to n columns, whose source has another one in it, and so on.
func bomb(n, depth int) string {
	columns, ones := strings.TrimSuffix(strings.Repeat("a,", n), ","), strings.TrimSuffix(strings.Repeat("1,", n), ",")
	source := "(SELECT " + ones + ")"
	for range depth {
		source = "(WITH x AS (UPDATE t SET (" + columns + ") = " + source + " RETURNING 1) SELECT " + ones + ")"
	}
	return "UPDATE t SET b = 1, (" + columns + ") = " + source
}

// The parser is given no text whose tree is much larger than the text.
func TestGuardCountsCopies(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		sql string
		why reason
	}{
		{bomb(2, 0), fits}, {bomb(100, 0), fits}, {bomb(8, 2), fits}, {bomb(8, 7), tooLong}, {bomb(2, 30), tooLong}, {bomb(1, 30), fits}, {bomb(1000, 0), tooLong},
		{strings.Replace(bomb(8, 7), ") =", ") /* = */ = -- =\n", -1), tooLong}, {strings.Replace(bomb(8, 7), "SET b = 1,", "Set b = CASE WHEN true THEN 1 END,", -1), tooLong},
		{strings.Replace(bomb(8, 7), "(a,", "(a.where,", -1), tooLong}, {strings.Replace(bomb(8, 7), "(a,", "(a[1],", -1), tooLong},
		{"UPDATE t SET (a, b, c) = (1, 2, 3) WHERE d IN (" + strings.Repeat("1, ", 100_000) + "1)", fits},
		{"UPDATE t SET (a, b, c) = (1, 2, 3), d = ARRAY[" + strings.Repeat("1, ", 100_000) + "1]", fits},
		{"UPDATE t SET (a, b) = (1, 2) RETURNING ARRAY[" + strings.Repeat("1, ", 100_000) + "1]", fits},
		{"UPDATE t SET (a, b, c) = (1, 2, 3); SELECT " + strings.Repeat("1, ", 100_000) + "1", fits},
		{"UPDATE t SET (a, b, c) = (1, a.where + ARRAY[" + strings.Repeat("1, ", 100_000) + "1], 3)", tooLong},
		{"INSERT INTO t (a, b) VALUES " + strings.Repeat("(1, 2), ", 50_000) + "(1, 2)", fits},
	} {
		if why := Defaults().guard([]byte(test.sql)); why != test.why {
			t.Errorf("%.80s ... of %d bytes: %d, want %d", test.sql, len(test.sql), why, test.why)
		}
		if test.why != fits || len(test.sql) > 10_000 {
			continue
		}
		wire, err := parser.ParseToProtobuf(test.sql)
		if err != nil {
			t.Error(err)
		} else if most := 200 * (len(test.sql) + copiedTokens); len(wire) > most {
			t.Errorf("%.80s ... of %d bytes has a tree of %d", test.sql, len(test.sql), len(wire))
		}
	}
	if t.Failed() { // or the parser takes minutes
		return
	}
	start := time.Now()
	if plan := newPlanner(t).Plan([]byte(bomb(8, 6))); plan.Pin != PinUnparsed {
		t.Errorf("a text of which the parser makes 500 MB is parsed, in %s", time.Since(start))
	}
}
