package rewrite

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	pg_query "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"
)

// touched has statements that the rules rewrite; the first form of each symbol is
// the plainest, to which rapid shrinks.
var touched = map[string][]string{
	"text": {"{s}", "{s}", "{s}; {s}", "/* FOR SHARE */ {s};", "BEGIN; {s}; COMMIT", "{begin}; {s}"},
	"s":    {"{q}", "{q}", "{q}", "{index}", "{table}", "{begin}", "PREPARE p AS {q}", "EXPLAIN {q}", "INSERT INTO u {q}", "SELECT 1"},
	"q": {"SELECT {e} FROM {t}{w}{l}", "SELECT {e} FROM {t}{w}{l}", "SELECT {e} FROM ({q}) s{w}{l}", "WITH c AS ({q}) SELECT {e} FROM c, {t}{l}",
		"({q}) UNION ALL ({q})", "SELECT {e} FROM {t}{w} LIMIT 1{l}", "SELECT {e} FROM {t}{l} LIMIT ({q})"},
	"e":     {"a", "'FOR SHARE'", "$$ FOR NO KEY UPDATE $$", "substring(a FOR share)", "({q})", "a AS for", "\"for share\"", "t.for", "f(a)", "1 + 1"},
	"t":     {"t", "t x", "stripped_a", "keyed", "half", "s.\"t\"", "t JOIN u ON true"},
	"w":     {"", " WHERE a = {e1}", " WHERE EXISTS ({q})", " -- FOR SHARE\n"},
	"e1":    {"1", "$1", "'x'", "(SELECT 1)"},
	"l":     {"", " FOR SHARE", " FOR NO KEY UPDATE", " for share nowait", " FOR UPDATE", " FOR KEY SHARE SKIP LOCKED", " FOR SHARE FOR NO KEY UPDATE SKIP LOCKED", "\nFOR /* x */ SHARE"},
	"index": {"CREATE INDEX i ON t ({k})", "CREATE UNIQUE INDEX CONCURRENTLY i ON t USING btree ({k}, {k}) WHERE a > 0", "create index if not exists i on t using btree({k})", "CREATE INDEX i ON t USING gin ({k})", "CREATE INDEX ASYNC i ON t (a)"},
	"k":     {"a", "a ASC", "b asc NULLS LAST", "(lower(a)) ASC", "a DESC", "(CASE WHEN a THEN b END)"},
	"table": {"CREATE TABLE v (a serial)", "CREATE TABLE v (a int, b BigSerial NOT NULL UNIQUE, c text)", "CREATE TABLE v (\n a smallserial /* serial */ PRIMARY KEY,\n b \"serial8\"\n)", "CREATE TABLE v (a serial STORAGE PLAIN)"},
	"begin": {"BEGIN", "BEGIN ISOLATION LEVEL READ COMMITTED", "start transaction read write, isolation level read uncommitted"},
}

// drawText draws a text of the grammar.
func drawText(t *rapid.T, symbol string, depth int) string {
	return expand(touched, symbol, depth, func(forms []string, symbol string, depth int) string {
		if depth < 6 {
			return rapid.SampledFrom(forms).Draw(t, symbol)
		}
		return forms[0]
	})
}

// TestRewritesAreAsIntended compares trees as Go values, by other code than the
// rules are checked with: what goes out is what came in, but for what the rules say.
func TestRewritesAreAsIntended(t *testing.T) {
	t.Parallel()
	p := newPlanner(t)
	policies := goldenPlanner(t)
	rewritten, drawn := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		sql := drawText(t, "text", 0)
		before, err := pg_query.Parse(withoutAsyncWords(sql))
		if err != nil {
			return // such as a clause in a UNION
		}
		drawn++
		plan := p.Plan([]byte(sql))
		again := policies.Plan([]byte(sql))
		for _, plan := range []*Plan{plan, again} {
			if plan.Text == "" {
				continue
			}
			if _, err := pg_query.Parse(withoutAsyncWords(plan.Text)); err != nil {
				t.Fatalf("%q became %q: %v", sql, plan.Text, err)
			}
		}
		for _, f := range plan.Findings {
			if f.Outcome == Unverified && !strings.Contains(sql, "STORAGE") {
				t.Fatalf("%q: %+v", sql, f)
			}
		}
		if plan.Text == "" {
			return
		}
		rewritten++
		after, err := pg_query.Parse(withoutAsyncWords(plan.Text))
		if err != nil {
			t.Fatal(err)
		}
		intend(before)
		plain(before.ProtoReflect())
		plain(after.ProtoReflect())
		if !proto.Equal(before, after) {
			t.Fatalf("%q became %q", sql, plan.Text)
		}
		if twice := p.Plan([]byte(plan.Text)); twice.Text != "" {
			t.Fatalf("%q became %q and then %q", sql, plan.Text, twice.Text)
		}
		if twice := policies.Plan([]byte(again.Text)); twice.Text != "" {
			t.Fatalf("%q became %q and then %q", sql, again.Text, twice.Text)
		}
	})
	if drawn == 0 || rewritten < drawn/4 {
		t.Errorf("%d of %d were rewritten: the test has lost its force", rewritten, drawn)
	}
}

var asyncWord = regexp.MustCompile(`(?i)\bindex async\b`)

func withoutAsyncWords(sql string) string { return asyncWord.ReplaceAllString(sql, "INDEX") }

// intend makes the changes that the rules mean to make, in a tree of Go values.
func intend(tree *pg_query.ParseResult) {
	visit(tree.ProtoReflect(), func(m protoreflect.Message) {
		switch m := m.Interface().(type) {
		case *pg_query.LockingClause:
			if s := int(m.Strength); s == forShare || s == forNoKeyUpdate {
				m.Strength = pg_query.LockClauseStrength_LCS_FORUPDATE
			}
		case *pg_query.IndexStmt:
			intendIndex(m)
		case *pg_query.ColumnDef:
			intendColumn(m)
		case *pg_query.DefElem:
			if m.Defname == "transaction_isolation" {
				m.Arg.GetAConst().GetSval().Sval = "repeatable read"
			}
		}
	})
}

func intendIndex(m *pg_query.IndexStmt) {
	m.Concurrent = false
	if m.AccessMethod != "btree" {
		return
	}
	for _, key := range m.IndexParams {
		if key.GetIndexElem().Ordering == pg_query.SortByDir_SORTBY_DESC {
			return
		}
	}
	for _, key := range m.IndexParams {
		key.GetIndexElem().Ordering = pg_query.SortByDir_SORTBY_DEFAULT
	}
}

func intendColumn(m *pg_query.ColumnDef) {
	names := m.TypeName.GetNames()
	if len(names) != 1 || !strings.Contains(names[0].GetString_().GetSval(), "serial") || m.StorageName != "" {
		return
	}
	tree, err := pg_query.Parse("CREATE TABLE t (c " + identity + ")")
	if err != nil {
		panic(err)
	}
	model := tree.Stmts[0].Stmt.GetCreateStmt().TableElts[0].GetColumnDef()
	m.TypeName = model.TypeName
	m.Constraints = append(model.Constraints, m.Constraints...)
}

// plain takes the places in the text out of a tree.
func plain(tree protoreflect.Message) {
	visit(tree, func(m protoreflect.Message) {
		fields := m.Descriptor().Fields()
		for i := range fields.Len() {
			if isPlace(string(fields.Get(i).Name())) {
				m.Clear(fields.Get(i))
			}
		}
	})
}

// visit calls f for every message of a tree, parents first.
func visit(m protoreflect.Message, f func(protoreflect.Message)) {
	f(m)
	m.Range(func(d protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case d.Message() == nil:
		case d.IsList():
			for i := range v.List().Len() {
				visit(v.List().Get(i).Message(), f)
			}
		default:
			visit(v.Message(), f)
		}
		return true
	})
}

// FuzzRewrite holds that the rules never panic, that what goes out is left alone
// when it comes in, and that every position in it has a place in what came in.
func FuzzRewrite(f *testing.F) {
	for _, name := range []string{"locking", "hard", "index", "serial", "others", "refused"} {
		for _, c := range goldenCases(f, name) {
			f.Add(c)
		}
	}
	f.Add("CREATE TABLE t (LIKE٩Ϩƌ u, id serial)") // fewer characters than bytes
	f.Fuzz(func(t *testing.T, sql string) {
		p := goldenPlanner(t)
		plan := p.Plan([]byte(sql))
		checkIdempotent(t, p, plan)
		for n := range utf8.RuneCountInString(plan.Text) + 2 {
			if at := plan.Position(n); at < 0 || n > 0 && at > utf8.RuneCountInString(sql)+1 {
				t.Fatalf("%q: position %d of %q is %d", sql, n, plan.Text, at)
			}
		}
		for i := range plan.Findings {
			if at := plan.Findings[i].At; at < 0 || at > len(sql) {
				t.Fatalf("%q: %+v", sql, plan.Findings[i])
			}
		}
		if s := p.Split(plan); s != nil {
			if _, err := parseTree(s.Text()); err != nil {
				t.Fatalf("%q: %q: %v", sql, s.Text(), err)
			}
		}
		linter := p.Linter()
		for s := range Script(sql) {
			linter.Read(s.SQL)
		}
	})
}

func goldenCases(t testing.TB, name string) []string {
	var all []string
	for part := range strings.SplitSeq(readFile(t, "testdata/"+name+".sql"), "-- in\n") {
		if sql, _, found := strings.Cut(part, "\n-- out\n"); found {
			all = append(all, sql)
		}
	}
	return all
}
