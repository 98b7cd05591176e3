package rewrite

import (
	"math/rand/v2"
	"testing"

	"github.com/sluice-proxy/sluice/integration/sqltexts"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// TestRandomQueries checks the scan against the tree for texts
// that, unlike those of a fuzzer, are mostly valid.
func TestRandomQueries(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	valid, scanned := 0, 0
	for range 20_000 {
		text := sqltexts.RandomText(r, "query", 0)
		if cleared, _ := planByWords([]byte(text)); cleared != nil {
			scanned++
		}
		if _, err := parse.Tree(text); err == nil {
			valid++
		}
		agree(t, text)
	}
	if valid < 10_000 || scanned < 2000 {
		t.Errorf("%d valid and %d cleared of 20,000: the test has lost its force", valid, scanned)
	}
}
