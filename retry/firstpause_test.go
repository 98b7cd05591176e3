package retry

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// firstAfter is the default policy with another pause before the first replay.
func firstAfter(d time.Duration) func(*Policy) {
	return func(p *Policy) { p.FirstDelay = d }
}

// Short pauses before the first two replays against BaseDelay, which has no short
// ones: 16 clients on rows at random, of one process and of four. They bring
// more commits wherever there is more than one row, and no more conflicts are
// told. They cost attempts where few rows are fought for, since clients fight that
// slept before: what they may cost is bounded. Where one row is all that there is, a crowd
// waits for it, and they cost nothing. With a tenth of all attempts refused, 1.11 for each commit
// leave 0.90 of the undisturbed rate: the pauses may take little of that.
func TestFirstPause(t *testing.T) {
	t.Parallel()
	var undisturbed [2]int
	for _, test := range []struct {
		rows    int
		refused float64 // share of the attempts, whoever else wants the row
		lasts   time.Duration
		gain    [2]float64 // least, of commits: by one process, by four
		cost    [2]float64 // most, of attempts for a commit
	}{
		{rows: 1, lasts: 4 * time.Minute, gain: [2]float64{0.95, 0.95}, cost: [2]float64{1.02, 1.02}},
		{rows: 10, lasts: time.Minute, gain: [2]float64{1.30, 1.10}, cost: [2]float64{1.10, 1.20}},
		{rows: 10, refused: 0.1, lasts: time.Minute, gain: [2]float64{1.20, 1.10}, cost: [2]float64{1.10, 1.20}},
		{rows: 1000, lasts: 20 * time.Second, gain: [2]float64{1.02, 1.02}, cost: [2]float64{1.02, 1.02}},
		{rows: 1000, refused: 0.1, lasts: 20 * time.Second, gain: [2]float64{1.30, 1.30}, cost: [2]float64{1.03, 1.03}},
	} {
		for i, processes := range []int{1, 4} {
			name := fmt.Sprintf("%d rows, %v refused, %d processes", test.rows, test.refused, processes)
			run := func(policy func(*Policy)) (got outcome) {
				synctest.Test(t, func(t *testing.T) {
					c := &contest{processes: processes, clients: 16 / processes, key: keyEach, policy: policy, injected: sometimes(test.refused),
						lasts: func() time.Duration { return time.Duration(18+rand.IntN(5)) * time.Millisecond },
						row:   func(int) int { return rand.IntN(test.rows) }}
					got = c.run(t, test.lasts)
				})
				return got
			}
			short, long := run(nil), run(firstAfter(DefaultBaseDelay))
			gain := float64(short.committed) / float64(long.committed)
			cost := short.attempts() / long.attempts()
			t.Logf("%s: %+v, with a long pause %+v: commits %.2f, attempts %.3f", name, short, long, gain, cost)
			if gain < test.gain[i] {
				t.Errorf("%s: %.2f times the commits of a long pause, want %v", name, gain, test.gain[i])
			}
			if cost > test.cost[i] {
				t.Errorf("%s: %.3f times the attempts of a long pause, want at most %v", name, cost, test.cost[i])
			}
			if test.refused == 0 {
				undisturbed[i] = short.committed
			} else if kept := float64(short.committed) / float64(undisturbed[i]); test.rows == 1000 && kept < 0.86 {
				t.Errorf("%s: %.3f of the undisturbed rate, want 0.86", name, kept)
			}
			if short.told > long.told*3/2+15 {
				t.Errorf("%s: %d told of a conflict, with a long pause %d", name, short.told, long.told)
			}
		}
	}
}

// attempts is how many there were for each commit.
func (o outcome) attempts() float64 { return float64(o.committed+o.lost) / float64(o.committed) }
