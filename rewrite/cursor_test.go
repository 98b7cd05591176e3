package rewrite

import (
	"strings"
	"testing"
	"unicode/utf8"

	pg_query "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/sluice-proxy/sluice/integration/sqltexts"
)

// cursors has the forms of statements that declare cursors, with what could be taken for the
// word in front of the query.
var cursors = map[string][]string{
	"declare": {"DECLARE {name}{gap}{options}CURSOR{gap}{hold}FOR{gap}{q}{tail}"},
	"name":    {"c", `"for"`, `"a "" for"`, "forx", "cursor", `U&"f\006fr"`, `U&"f!006fr" UESCAPE '!'`, "é", "scroll", "binary", "hold"},
	"gap":     {" ", "\n", " /* for ü */ ", " -- for\n", "/**/"},
	"options": {"", "", "NO SCROLL{gap}", "no scroll ", "INSENSITIVE ", "ASENSITIVE{gap}NO SCROLL ", "SCROLL ", "BINARY "},
	"hold":    {"", "", "WITHOUT HOLD{gap}", "without hold ", "WITH HOLD "},
	"q": {"SELECT {e} FROM {t}{l}", "VALUES ({e}, {e})", "TABLE t", "({q})", "WITH for_ AS ({q}) SELECT {e} FROM for_", "SELECT {e} UNION ALL {q}",
		"SELECT a FROM t FOR SHARE", "(SELECT {e} ORDER BY 1)", "SELECT {e} INTO x", "WITH x AS (DELETE FROM t RETURNING a) SELECT a FROM x"},
	"e":    {"1", "'for'", "$1", "substring(a for 2)", "'é'", "(SELECT 1)", "$f$ for $f$", `"for"`},
	"t":    {"t", "t x", "stripped_a", "({q}) s", "s.t"},
	"l":    {"", "", " FOR UPDATE", " FOR KEY SHARE", " WHERE a = $1"},
	"tail": {"", "", ";", " ;;", " -- for", "\n/* for */"},
}

// TestQueriesOfCursors holds that the query that the relay is told is the client's: by trees
// that other code compares, and at the client's own places. What PostgreSQL takes is taken, but
// for the options that are refused.
func TestQueriesOfCursors(t *testing.T) {
	t.Parallel()
	p := goldenPlanner(t)
	taken, drawn := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		sql := sqltexts.ExpandGrammar(cursors, "declare", 0, func(forms []string, symbol string, depth int) string {
			if depth < 5 {
				return rapid.SampledFrom(forms).Draw(t, symbol)
			}
			return forms[0]
		})
		tree, err := pg_query.Parse(sql)
		if err != nil {
			return
		}
		drawn++
		st := p.Plan([]byte(sql)).SingleStatement()
		if st == nil || st.Pin != NoPin || (st.Cursor == nil) == (st.Refusal == nil) {
			t.Fatalf("%q: %+v", sql, st)
		}
		declared := tree.Stmts[0].Stmt.GetDeclareCursorStmt()
		hold, scroll := declared.Options&cursorHold != 0, declared.Options&cursorScroll != 0
		locks := len(declared.Query.GetSelectStmt().GetLockingClause()) > 0
		refused := scroll && !hold || hold && locks || strings.Contains(sql, "BINARY ") || strings.Contains(sql, "INTO x") || strings.Contains(sql, "DELETE") || strings.Contains(sql, "INSENSITIVE ")
		if st.Refusal != nil {
			if !refused {
				t.Fatalf("%q is refused: %s", sql, st.Refusal.Message)
			}
			return
		}
		taken++
		c := st.Cursor
		query, err := pg_query.Parse(c.Query)
		if err != nil || len(query.Stmts) != 1 {
			t.Fatalf("%q: %q: %v", sql, c.Query, err)
		}
		if c.Name != declared.Portalname || c.Verb != DeclareCursor || c.Hold != hold || c.Scroll != scroll {
			t.Fatalf("%q: %+v", sql, c)
		}
		text := sql[:st.End]
		if begin := len(c.Query) - len(strings.TrimLeft(c.Query, " ")); utf8.RuneCountInString(c.Query) != utf8.RuneCountInString(text) ||
			!strings.HasSuffix(text, c.Query[begin:]) {
			t.Fatalf("%q: %q stands elsewhere", sql, c.Query)
		}
		want, got := proto.Clone(declared.Query), query.Stmts[0].Stmt
		plain(want.ProtoReflect())
		plain(got.ProtoReflect())
		if !proto.Equal(want, got) {
			t.Fatalf("%q: the query is %q", sql, c.Query)
		}
	})
	if taken == 0 || taken*10 < drawn {
		t.Errorf("%d of %d are taken", taken, drawn)
	}
}

// TestCursorsCost holds that what is kept of a cursor counts among what the cache holds.
func TestCursorsCost(t *testing.T) {
	t.Parallel()
	p := newPlanner(t)
	long := "DECLARE c CURSOR FOR SELECT '" + strings.Repeat("x", 10_000) + "'"
	if n := p.Plan([]byte(long)).Bytes(); n < len(long) {
		t.Errorf("%d bytes of a text of %d", n, len(long))
	}
}
