package rewrite

import (
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// init keeps a child of TestDeepTexts on the first thread: that one's stack is as
// big as the process may have, whichever C library gives the others theirs.
func init() {
	if os.Getenv(childVar) != "" {
		runtime.LockOSThread()
	}
}

// TestMain runs a child of TestDeepTexts instead of the tests when it is one.
func TestMain(m *testing.M) {
	if name := os.Getenv(childVar); name != "" {
		name, stack, _ := strings.Cut(name, " ")
		needStack(stack)
		children[name]()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const childVar = "REWRITE_TEST_CHILD"

// children are run in processes of their own, because they may crash.
var children = map[string]func(){"far": far, "near": near}

// needStack starts the process again if its first thread has not got that stack.
func needStack(kib string) {
	n, err := strconv.ParseUint(kib, 10, 64)
	if err != nil {
		panic(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_STACK, &limit); err != nil {
		panic(err)
	}
	if limit.Cur == n<<10 {
		return
	}
	limit.Cur = n << 10
	if err := syscall.Setrlimit(syscall.RLIMIT_STACK, &limit); err != nil {
		panic(err)
	}
	panic(syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
}

// far plans 30,000 terms of everything: without the guard, three dozen of the
// texts crash the process (counted); the others are long.
func far() {
	p, err := New(Defaults())
	if err != nil {
		panic(err)
	}
	for _, name := range slices.Sorted(maps.Keys(deep)) {
		fmt.Println(name)
		p.Plan([]byte(deep[name].text(30_000)))
	}
}

// near parses as many terms of everything as pass the guard. Where the parser
// refuses them for its own limit, it parses as many as it takes.
func near() {
	for _, name := range slices.Sorted(maps.Keys(deep)) {
		n := largest(deep[name])
		fmt.Println(name, n)
		for n > 0 {
			text := deep[name].text(n)
			tree, err := parseTree(text)
			if err == nil {
				build(text, tree)
			} else if strings.HasPrefix(err.Error(), "memory exhausted") {
				n -= n/20 + 1
				continue
			}
			break
		}
	}
}

// largest is the most terms that pass the guard, of up to 5,000.
func largest(p pump) int {
	return sort.Search(5000, func(n int) bool { return Defaults().guard([]byte(p.text(n+1))) != fits })
}

// TestDeepTexts holds that no text crashes the process: not with the stack that
// is usual (8 MiB), and not at the guard's limit with the least there is (2 MiB).
func TestDeepTexts(t *testing.T) {
	t.Parallel()
	for _, child := range []string{"far 8192", "near 2048"} {
		t.Run(child, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), childVar+"="+child)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				lines := strings.Split(strings.TrimSpace(string(out)), "\n")
				t.Fatalf("%v at %q\n%.2000s", err, lines[len(lines)-1], stderr.String())
			}
			if got := strings.Count(string(out), "\n"); got != len(deep) {
				t.Errorf("%d of %d texts", got, len(deep))
			}
		})
	}
}

// treeDepth is how many messages lie above one another.
func treeDepth(m message) int {
	deepest := 0
	for child := range m.nodes() {
		deepest = max(deepest, treeDepth(child))
	}
	return deepest + 1
}

// checkDepth holds that the guard's depth bounds the tree's: a constant apart,
// one level of the guard stands for no more than three messages, which is what
// the stack was measured with (near).
func checkDepth(t *testing.T, text string) {
	t.Helper()
	depth, why := depthOf([]byte(text), DefaultMaxNesting, math.MaxInt)
	if why != fits {
		return
	}
	tree, err := parseTree(text)
	if err != nil {
		return
	}
	if got, most := treeDepth(tree), 3*depth+12; got > most {
		t.Fatalf("%.200q: the tree is %d deep, the guard says %d and allows %d", text, got, depth, most)
	}
}

func TestDepthBoundsTheTree(t *testing.T) {
	t.Parallel()
	for _, p := range deep {
		for _, n := range []int{0, 1, 2, 3, 10, 50} {
			checkDepth(t, p.text(n))
		}
	}
	// Each inside each other: what is cheap alone must not be cheap together.
	for _, outer := range deep {
		for _, inner := range deep {
			if mid := inner.text(9); strings.HasPrefix(outer.head, "SELECT") && strings.HasPrefix(mid, "SELECT") {
				middle := strings.TrimSuffix(strings.TrimPrefix(mid, "SELECT"), " FOR UPDATE")
				checkDepth(t, outer.head+strings.Repeat(outer.term, 9)+middle+strings.Repeat(outer.end, 9)+outer.tail)
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
		if got, why := depthOf([]byte(c.text), DefaultMaxNesting, math.MaxInt); got != c.want || why != fits {
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
		if why := Defaults().guard([]byte(text)); why != fits {
			t.Errorf("%s: refused (%d)", name, why)
		}
	}
}

func TestGuardRefuses(t *testing.T) {
	t.Parallel()
	c := Config{MaxBytes: 200, MaxNesting: 20}
	for text, want := range map[string]reason{
		"SELECT 1":                              fits,
		strings.Repeat(" ", 200):                fits,
		strings.Repeat(" ", 201):                tooLong,
		"SELECT 1" + strings.Repeat(",", 90):    fits,
		"SELECT 1" + strings.Repeat(",", 110):   tooLong, // all tokens
		"SELECT 1" + strings.Repeat(" + 1", 17): fits,
		"SELECT 1" + strings.Repeat(" + 1", 18): tooDeep,
		"SELECT " + strings.Repeat("(", 21):     tooDeep,
		"SELECT a.b\x00":                        notText,
		"SELECT '\xc3'":                         notText,
		"SELECT 'open":                          notText,
		"SELECT 1 /* open":                      notText,
		"SELECT " + strings.Repeat("/**/", 40):  fits,
		strings.Repeat("+", 40) + "1":           tooDeep,
	} {
		if got := c.guard([]byte(text)); got != want {
			t.Errorf("%.40q: got %d, want %d", text, got, want)
		}
	}
}
