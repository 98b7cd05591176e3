package rewrite

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A text is cut behind the semicolons that end its statements, and nowhere else.
func TestPieces(t *testing.T) {
	p := newPlanner(t)
	for _, want := range [][]string{
		{""}, {"SELECT 1"}, {"SELECT 1;"}, {" ; "}, {"SELEC 1; SELECT 2"},
		{"SELECT 1;", " SELECT 2"},
		{"SELECT ';';;", "/* ; */ SELECT $a$;$a$ -- ;\n; "},
		{"INSERT INTO t VALUES ('é;') RETURNING v;", "SELECT E'\\';';", "BEGIN;\n"},
	} {
		if got := p.SplitStatements(strings.Join(want, "")); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Whatever statements a text has, its pieces are these, and together they are the text.
func TestPiecesAreTheText(t *testing.T) {
	p := newPlanner(t)
	statements := rapid.SliceOfN(rapid.SampledFrom([]string{"SELECT ';'", `SELECT 1 AS "a;b"`, "SELECT $$ ; $$", "WITH w AS (SELECT 1) SELECT 'ü' FROM w",
		"INSERT INTO t (a) VALUES (1), (2) RETURNING a", "SET x = ';'", "BEGIN", "COMMIT -- ;\n"}), 1, 5)
	between := rapid.SampledFrom([]string{"", " ", "\n", "/* ; */", "-- ;\n", " ;; ", ";/* /* ; */ ; */"})
	rapid.Check(t, func(t *rapid.T) {
		all := statements.Draw(t, "statements")
		text := between.Draw(t, "front")
		for i, sql := range all {
			if text += sql + between.Draw(t, "between"); i < len(all)-1 || rapid.Bool().Draw(t, "ends") {
				text += ";" + between.Draw(t, "behind")
			}
		}
		pieces := p.SplitStatements(text)
		if strings.Join(pieces, "") != text || len(pieces) != len(all) {
			t.Fatalf("%q was cut into %q", text, pieces)
		}
		for i, piece := range pieces {
			if !strings.Contains(piece, all[i]) || len(p.StatementTrees(piece)) != 1 {
				t.Fatalf("piece %d of %q is %q", i, text, piece)
			}
		}
	})
}
