package parse

import (
	"math"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/integration/sqltexts"
)

// The limits that the configuration has by default.
const (
	usualBytes   = 2 << 20
	usualNesting = 2000
)

// treeDepth is how many messages lie above one another.
func treeDepth(m TreeNode) int {
	deepest := 0
	for child := range m.Children() {
		deepest = max(deepest, treeDepth(child))
	}
	return deepest + 1
}

// checkDepth holds that the guard's depth bounds the tree's: a constant apart,
// one level of the guard stands for no more than three messages, which is what
// the stack was measured with (near).
func checkDepth(t *testing.T, text string) {
	t.Helper()
	depth, why := treeDepthBound([]byte(text), usualNesting, math.MaxInt)
	if why != Fits {
		return
	}
	tree, err := Tree(text)
	if err != nil {
		return
	}
	if got, most := treeDepth(tree), 3*depth+12; got > most {
		t.Fatalf("%.200q: the tree is %d deep, the guard says %d and allows %d", text, got, depth, most)
	}
}

func TestDepthBoundsTheTree(t *testing.T) {
	t.Parallel()
	for _, p := range sqltexts.DeepTexts {
		for _, n := range []int{0, 1, 2, 3, 10, 50} {
			checkDepth(t, p.Text(n))
		}
	}
	// Each inside each other: what is cheap alone must not be cheap together.
	for _, outer := range sqltexts.DeepTexts {
		for _, inner := range sqltexts.DeepTexts {
			if mid := inner.Text(9); strings.HasPrefix(outer.Head, "SELECT") && strings.HasPrefix(mid, "SELECT") {
				middle := strings.TrimSuffix(strings.TrimPrefix(mid, "SELECT"), " FOR UPDATE")
				checkDepth(t, outer.Head+strings.Repeat(outer.Term, 9)+middle+strings.Repeat(outer.End, 9)+outer.Tail)
			}
		}
	}
}

func TestDepth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want int
	}{
		{"", 0},
		{"SET a = 1", 1},
		{"SELECT 1", 3},
		{"SELECT 1 + 1", 4},
		{"SELECT 1 + 1, 1 * 2, 1::int", 4},
		{"SELECT 1 + 1 * 2", 5},
		{"SELECT 1 - -1", 5},
		{"SELECT '+', \"+\", $$+$$ /* + */ -- +", 3},
		{"SELECT a AND b AND c AND d", 4},
		{"SELECT a OR b AND c OR d", 5},
		{"SELECT f(1, 2, 3)", 4},
		{"SELECT f(g(1), h(2))", 5},
		{"SELECT (1 + (1 + 1)) + 1", 8},
		{"SELECT a[1][2][3]", 5},
		{"SELECT CASE WHEN a THEN b ELSE c END", 5},
		{"SELECT CASE WHEN a + b THEN c + d ELSE e + f END", 6},
		{"SELECT x.end, y.case, 1 AS case", 3},
		{"SELECT 1 UNION SELECT 2, 3 UNION SELECT 4", 5},
		{"SELECT 1 FROM a JOIN b ON c = d, e JOIN f ON g = h", 6},
		{"SELECT (SELECT 1)", 7},
		{"SELECT 1; SELECT 2; SELECT 3", 3},
		{"SELECT 1 + 1; SELECT 2", 4},
		{"INSERT INTO t VALUES (1 + 1, 2), (3, 4)", 5},
		{"] ) END", 0},
	} {
		if got, why := treeDepthBound([]byte(c.text), usualNesting, math.MaxInt); got != c.want || why != Fits {
			t.Errorf("%s: depth %d (%d), want %d", c.text, got, why, c.want)
		}
	}
}

func TestGuardLetsBigTextsPass(t *testing.T) {
	t.Parallel()
	row := strings.Repeat("$1::int, ", 19) + "$1::int"
	for name, text := range map[string]string{
		"casts":  "INSERT INTO t VALUES (" + row + ")" + strings.Repeat(", ("+row+")", 9999),
		"in":     "SELECT 1 FROM t WHERE a IN (1" + strings.Repeat(", 123456", 100_000) + ") FOR UPDATE",
		"or":     "SELECT 1 WHERE false" + strings.Repeat(" OR true", 100_000) + " FOR UPDATE",
		"and or": "SELECT 1 WHERE false" + strings.Repeat(" AND a OR b", 50_000) + " FOR UPDATE",
		"rows":   "SELECT 1 FROM t WHERE (a, b) IN ((1, 2)" + strings.Repeat(", (3, 4)", 50_000) + ") FOR UPDATE",
		"terms":  "SELECT 1 FROM t WHERE " + strings.Repeat("(a = 1 AND b = -2) OR ", 20_000) + "c FOR UPDATE",
		"string": "UPDATE t SET a = '" + strings.Repeat("((((+", 200_000) + "'",
		"script": strings.Repeat("UPDATE t SET a = a + 1 WHERE b = 2 AND c::int = nextval('d');\n", 10_000),
	} {
		if why := CheckLimits([]byte(text), usualBytes, usualNesting); why != Fits {
			t.Errorf("%s: refused (%d)", name, why)
		}
	}
}

func TestGuardRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]GuardReason{
		"SELECT 1":                              Fits,
		strings.Repeat(" ", 200):                Fits,
		strings.Repeat(" ", 201):                TooLong,
		"SELECT 1" + strings.Repeat(",", 90):    Fits,
		"SELECT 1" + strings.Repeat(",", 110):   TooLong, // all tokens
		"SELECT 1" + strings.Repeat(" + 1", 17): Fits,
		"SELECT 1" + strings.Repeat(" + 1", 18): TooDeep,
		"SELECT " + strings.Repeat("(", 21):     TooDeep,
		"SELECT a.b\x00":                        NotText,
		"SELECT '\xc3'":                         NotText,
		"SELECT 'open":                          NotText,
		"SELECT 1 /* open":                      NotText,
		"SELECT " + strings.Repeat("/**/", 40):  Fits,
		strings.Repeat("+", 40) + "1":           TooDeep,
	} {
		if got := CheckLimits([]byte(text), 200, 20); got != want {
			t.Errorf("%.40q: got %d, want %d", text, got, want)
		}
	}
}
