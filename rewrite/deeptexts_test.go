package rewrite

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-proxy/sluice/integration/sqltexts"
	"github.com/sluice-proxy/sluice/rewrite/parse"
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
	for _, name := range slices.Sorted(maps.Keys(sqltexts.DeepTexts)) {
		fmt.Println(name)
		p.Plan([]byte(sqltexts.DeepTexts[name].Text(30_000)))
	}
}

// near parses as many terms of everything as pass the guard. Where the parser
// refuses them for its own limit, it parses as many as it takes.
func near() {
	for _, name := range slices.Sorted(maps.Keys(sqltexts.DeepTexts)) {
		n := largest(sqltexts.DeepTexts[name])
		fmt.Println(name, n)
		for n > 0 {
			text := sqltexts.DeepTexts[name].Text(n)
			tree, err := parse.Tree(text)
			if err == nil {
				buildPlan(text, tree)
			} else if strings.HasPrefix(err.Error(), "memory exhausted") {
				n -= n/20 + 1
				continue
			}
			break
		}
	}
}

// largest is the most terms that pass the guard, of up to 5,000.
func largest(p sqltexts.RepeatedText) int {
	return sort.Search(5000, func(n int) bool { return Defaults().checkLimits([]byte(p.Text(n+1))) != parse.Fits })
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
			if got := strings.Count(string(out), "\n"); got != len(sqltexts.DeepTexts) {
				t.Errorf("%d of %d texts", got, len(sqltexts.DeepTexts))
			}
		})
	}
}
