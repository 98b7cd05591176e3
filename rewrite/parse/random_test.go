package parse

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/integration/sqltexts"
)

// TestDepthOfRandomQueries checks the guard against the tree for texts that,
// unlike those of a fuzzer, are mostly valid.
func TestDepthOfRandomQueries(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	valid := 0
	for range 20_000 {
		text := sqltexts.RandomText(r, "query", 0)
		if _, err := Tree(text); err == nil {
			valid++
		}
		checkDepth(t, text)
	}
	if valid < 10_000 {
		t.Errorf("%d valid of 20,000: the test has lost its force", valid)
	}
}

// TestNestedForms nests every two forms of an expression in each other, many
// times, at every place.
func TestNestedForms(t *testing.T) {
	t.Parallel()
	var holes [][2]string
	for _, form := range append(sqltexts.Grammar["e"], sqltexts.Grammar["call"]...) {
		for i := range strings.Count(form, "{e}") {
			parts := strings.Split(strings.ReplaceAll(form, "{call}", "f()"), "{e}")
			holes = append(holes, [2]string{strings.Join(parts[:i+1], "a"), strings.Join(parts[i+1:], "a")})
		}
	}
	for _, outer := range holes {
		for _, inner := range holes {
			p := sqltexts.RepeatedText{Head: "SELECT ", Term: outer[0] + inner[0], Mid: "1", End: inner[1] + outer[1]}
			checkDepth(t, p.Text(20))
		}
	}
}
