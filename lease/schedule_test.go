package lease

import (
	"flag"
	"strings"
	"testing"
)

var (
	firstSeed = flag.Uint64("seed", 1, "first seed of the random schedules")
	schedules = flag.Int("schedules", 10_000, "random schedules to run in memory")
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

func TestRandomSchedules(t *testing.T) {
	t.Parallel()
	run := func(seed uint64, traced bool) (*world, error) {
		cfg := worldConfig()
		w := newWorld(seed, cfg, nil)
		w.table, w.traced = newMemory(cfg.settings(), w.clock), traced
		return w, play(w, 100)
	}
	const workers = 4
	for worker := range uint64(workers) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for seed := *firstSeed + worker; seed < *firstSeed+uint64(*schedules); seed += workers {
				if _, err := run(seed, false); err != nil {
					w, again := run(seed, true)
					t.Fatalf("seed %d: %v (go test ./lease -run RandomSchedules -seed %[1]d -schedules 1); again: %v\n%s",
						seed, err, again, strings.Join(w.trace, "\n"))
				}
			}
		})
	}
}
