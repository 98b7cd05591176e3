package fleetsim

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A fleet starts within five seconds; every sidecar wants 50 of 10,000 backends.
func TestFleetStartsCold(t *testing.T) {
	for _, size := range []struct {
		n, shards int
		// Expectations: most seconds to 95 %, least fairness.
		seconds int
		jain    float64
	}{
		{10, 4, 10, 0.999},
		{200, 16, 140, 0.98},
		{2000, 64, 150, 0.85},
	} {
		t.Run(fmt.Sprint(size.n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(config(), size.shards, 1)
				f.start(size.n, 50)
				time.Sleep(300 * time.Second)
				f.report(t)
				shares := f.shares()
				if f.reached == 0 || f.reached > time.Duration(size.seconds)*time.Second {
					t.Errorf("95 %% open after %v, want %d s", f.reached, size.seconds)
				}
				if j := jain(shares); j < size.jain {
					t.Errorf("fairness %.3f, want %.3f", j, size.jain)
				}
				if shares[0] == 0 {
					t.Error("somebody has nothing")
				}
				f.end()
			})
		})
	}
}

// report prints a row of the table, and fails for what must never be.
func (f *fleet) report(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.table.mu.Lock()
	defer f.table.mu.Unlock()
	units, peak := 0.0, 0.0
	for i, u := range f.table.units {
		if i < 120 {
			units += u
		}
		peak = max(peak, u)
	}
	shares := f.shares()
	none := 0
	for none < len(shares) && shares[none] == 0 {
		none++
	}
	over := max(0, f.mostOpen-f.table.settings.Limit)
	t.Logf("| %d | %.0f | %d | %d | %d | %d | %.0f (%.0f) | %d | %.3f | %d–%d | %d | %d |",
		len(f.sidecar), f.reached.Seconds(), f.open, slices.Max(f.opens), over, f.violations,
		units/120, peak, f.table.throttle, jain(shares), shares[0], shares[len(shares)-1], none, f.table.calls)
	if over > 0 {
		t.Errorf("%d backends over the limit", over)
	}
	if f.violations > 0 {
		t.Errorf("%d dials over the cluster's rate", f.violations)
	}
	for i, s := range f.table.shards {
		if s.Drift() != 0 {
			t.Errorf("shard %d drifts by %d", i, s.Drift())
		}
	}
}
