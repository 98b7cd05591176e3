package lease

import (
	"flag"
	"strings"
	"testing"
	"time"
)

var (
	firstSeed = flag.Uint64("seed", 1, "first seed of the random schedules")
	schedules = flag.Int("schedules", memorySchedules, "random schedules to run in memory")
)

// play runs one random schedule of some steps, and reports what broke.
func play(w *world, steps int) error {
	for range 2 + w.rng.IntN(4) {
		w.add(w.rng.IntN(40))
	}
	for range steps {
		if err := w.step(); err != nil {
			return err
		}
	}
	return w.heal()
}

// repeat runs schedules, several at once. open returns the store of one.
func repeat(t *testing.T, n, steps int, cfg Config, open func(t *testing.T, w *world) Store) {
	const workers = 4
	run := func(t *testing.T, seed uint64, traced bool) (*world, error) {
		w := newWorld(seed, cfg, nil)
		w.table, w.traced = open(t, w), traced
		return w, play(w, steps)
	}
	for worker := range uint64(workers) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for seed := *firstSeed + worker; seed < *firstSeed+uint64(n); seed += workers {
				if _, err := run(t, seed, false); err != nil {
					w, again := run(t, seed, true)
					t.Fatalf("seed %d: %v (go test ./lease -run '%s' -seed %[1]d -schedules 1); again: %[4]v\n%[5]s",
						seed, err, strings.SplitN(t.Name(), "/", 2)[0], again, strings.Join(w.trace, "\n"))
				}
			}
		})
	}
}

func TestRandomSchedules(t *testing.T) {
	t.Parallel()
	cfg := worldConfig()
	repeat(t, *schedules, 100, cfg, func(_ *testing.T, w *world) Store { return newMemory(cfg.tableSettings(), w.clock) })
}

// The same on a table that is not ours.
func TestRandomSchedulesOnTable(t *testing.T) {
	t.Parallel()
	cfg := worldConfig()
	cfg.Limit, cfg.Shards = 30, 2
	cfg.Heartbeat, cfg.ReapAfter = 2*time.Second, 14*time.Second
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	repeat(t, min(*schedules, tableSchedules), 40, cfg, func(t *testing.T, _ *world) Store { return newTable(t, cfg) })
}
