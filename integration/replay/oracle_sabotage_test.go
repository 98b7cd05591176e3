package replay

import (
	"errors"
	"slices"
	"testing"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/replay/oracle"
)

// sabotageBatches bounds how long a mistake may go unnoticed.
const sabotageBatches = 8

// The oracle notices mistakes, and as what they are. Each is made in a copy of one
// source file.
func TestOracleCatchesSabotage(t *testing.T) {
	for _, test := range []struct {
		name, file string
		changes    []string
		want       []oracle.BrokenRule // one of them; nil: errNotKept
	}{
		// What a client was told of its row is generated anew, and the replay is refused.
		{"a value not kept", "proxy/resendvalues.go", []string{
			"if last && !s.t.attempt.keepsLast || kept != nil && !kept.Whole {", "if true {",
		}, nil},
		// A client keeps what it read in an attempt that was not the one to commit.
		{"digests ignored", "retry/verify.go", []string{
			"got != t.sum && !t.blind {", "got != t.sum && false {",
		}, []oracle.BrokenRule{oracle.Phantom, oracle.LostUpdate, oracle.Cycle}},
		// What it read in a part that it discarded holds in another snapshot.
		{"discarded parts not compared", "proxy/discarded.go", []string{
			"if len(s.tx.parts) == 0 {", "if true {",
		}, []oracle.BrokenRule{oracle.Phantom, oracle.LostUpdate, oracle.Cycle}},
		// What was committed is committed again.
		{"COMMIT replayed after a loss", "proxy/replay.go", []string{
			"t.rec.logs && !t.server.outcome.MayCommit() && !(", "t.rec.logs && !(",
		}, []oracle.BrokenRule{oracle.Twice}},
		// What the first turn wrote is lost.
		{"a statement dropped", "retry/verify.go", []string{
			"\tl.at = 0\n\tl.out.reset()\n\tl.diff", "\tl.at = min(1, len(l.turns))\n\tl.out.reset()\n\tl.diff",
		}, []oracle.BrokenRule{oracle.Lost}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, harness.BuildMutant(t, test.file, test.changes...), *oracleSeed, batchSize)
			seen := map[oracle.BrokenRule]int{}
			for number := range sabotageBatches {
				breaches, errs := w.batch(t, number)
				for _, b := range breaches {
					seen[b.Rule]++
				}
				if test.want == nil && slices.ContainsFunc(errs, func(err error) bool { return errors.Is(err, errNotKept) }) {
					t.Logf("after %d programs", (number+1)*batchSize)
					return
				}
				if len(errs) > 0 {
					seen["an error that no client may get"] += len(errs)
					t.Log(errs[0])
				}
				if i := slices.IndexFunc(breaches, func(b oracle.Violation) bool { return slices.Contains(test.want, b.Rule) }); i >= 0 {
					t.Logf("after %d programs: %v", (number+1)*batchSize, seen)
					t.Log(breaches[i])
					return
				}
			}
			t.Errorf("not noticed as one of %q in %d programs: %v", test.want, sabotageBatches*batchSize, seen)
		})
	}
}
