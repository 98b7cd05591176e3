package parse

import "testing"

func TestOffsetBefore(t *testing.T) {
	t.Parallel()
	const text = "0123456789"
	edits := []Edit{{2, 4, "abcd"}, {6, 6, "x"}, {7, 9, ""}}
	after, ok := Apply(text, edits)
	if after != "01abcd45x69" || !ok {
		t.Fatal(after)
	}
	for offset, want := range []int{0, 1, 2, 2, 2, 2, 4, 5, 6, 6, 9, 10} {
		if got := originalOffset(edits, offset); got != want {
			t.Errorf("offset %d of %q: got %d, want %d", offset, after, got, want)
		}
	}
	for _, position := range []int{-1, 0, len(after) + 2, 1 << 30} {
		if got := OriginalPosition(text, after, edits, position); got != position {
			t.Errorf("position %d became %d", position, got)
		}
	}
}

// Edits that overlap, or lie outside of a text, make no text.
func TestApplyEditsRefuses(t *testing.T) {
	t.Parallel()
	for _, edits := range [][]Edit{{{1, 3, "x"}, {2, 4, "y"}}, {{1, 3, "x"}, {1, 3, "x"}}, {{3, 2, ""}}, {{-1, 2, ""}}, {{4, 9, ""}}, {{0, 5, ""}, {3, 3, "x"}}} {
		if made, ok := Apply("01234", edits); ok || made != "" {
			t.Errorf("%v made %q", edits, made)
		}
	}
}

func TestIntentsTellTreesApart(t *testing.T) {
	t.Parallel()
	tree := func(sql string) TreeNode {
		m, err := Tree(sql)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	same := []string{"SELECT a FROM t", "select  A\nfrom /* x */ T", "SELECT \"a\" FROM t"}
	for _, sql := range same {
		if !(TreeChanges{}).Equal(tree(same[0]), tree(sql)) {
			t.Errorf("%q is taken for another tree", sql)
		}
	}
	for _, sql := range []string{"SELECT a FROM u", "SELECT a, b FROM t", "SELECT a FROM t, t", "SELECT a AS b FROM t", "SELECT a FROM ONLY t",
		"SELECT 'a' FROM t", "SELECT a FROM t; SELECT 1", "SELECT DISTINCT a FROM t", "SELECT a FROM t FOR UPDATE", "SELECT a.b FROM t", "DELETE FROM t"} {
		if (TreeChanges{}).Equal(tree(same[0]), tree(sql)) || (TreeChanges{}).Equal(tree(sql), tree(same[0])) {
			t.Errorf("%q is taken for the same tree", sql)
		}
	}
	for _, pair := range [][2]string{{"SELECT 1", "SELECT 2"}, {"SELECT 0", "SELECT 1"}, {"SELECT true", "SELECT false"}, {"SELECT ''", "SELECT NULL"},
		{"SELECT $1", "SELECT $2"}, {"SELECT 1.0", "SELECT 1.00"}, {"SELECT -1", "SELECT 1"}} {
		if (TreeChanges{}).Equal(tree(pair[0]), tree(pair[1])) {
			t.Errorf("%q is taken for %q", pair[0], pair[1])
		}
	}
}
