package replay

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-proxy/sluice/integration/replay/oracle"
)

var (
	oracleSeed  = flag.Uint64("oracle.seed", 1, "seed of the oracle's programs")
	oracleTotal = flag.Int("oracle.transactions", 1_500, "how many programs the oracle runs; more is its long mode")
)

// batchSize bounds what is checked at a time, and how much runs after a breach.
const batchSize = 1000

// Clients with random programs, conflicts and cut connections: whatever they were
// told is explained by what is committed in the end. See package oracle.
func TestOracle(t *testing.T) {
	w := newWorld(t, "", *oracleSeed, batchSize)
	for number := range (*oracleTotal + batchSize - 1) / batchSize {
		breaches, errs := w.batch(t, number)
		for _, err := range errs[:min(len(errs), 3)] {
			t.Errorf("no client may be told this: %v", err)
		}
		for _, b := range shortest(breaches, 3) {
			t.Errorf("batch %d: %v", number, b)
		}
		if t.Failed() {
			t.Errorf("batch %d: %d errors and %d breaches; again with -oracle.seed %d%s", number, len(errs), len(breaches), *oracleSeed, rules(breaches))
			break
		}
	}
	w.report(t)
	if !t.Failed() {
		w.vacuous(t)
	}
}

// rules says which rules were broken, a line each: the stories in front may be long, and
// whoever reads the end of a log gets no more than this.
func rules(breaches []oracle.Violation) (lines string) {
	for _, b := range breaches {
		lines += fmt.Sprintf("\n%s: %s", b.Rule, b.Text)
	}
	return lines
}

// shortest are the n breaches with the shortest stories.
func shortest(breaches []oracle.Violation, n int) []oracle.Violation {
	sorted := slices.SortedStableFunc(slices.Values(breaches), func(a, b oracle.Violation) int {
		return cmp.Compare(len(a.String()), len(b.String()))
	})
	return sorted[:min(n, len(sorted))]
}
