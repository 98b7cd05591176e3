package fleetsim

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-proxy/sluice/lease"
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
		{200, 16, 120, 0.98},
		{2000, 64, 130, 0.91},
	} {
		t.Run(fmt.Sprint(size.n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(config(), size.shards, 1)
				f.start(size.n, 50)
				time.Sleep(180 * time.Second)
				shares := f.report(t)
				if f.reachedAt() == 0 || f.reachedAt() > time.Duration(size.seconds)*time.Second {
					t.Errorf("95 %% open after %v, want %d s", f.reachedAt(), size.seconds)
				}
				if n := f.load(t); n > 50 && *format == lease.Format && *partitions > 1 {
					t.Errorf("%d calls were throttled", n)
				}
				if *steady > 0 {
					f.cost(t, *steady)
				}
				if j := jain(shares); j < size.jain {
					t.Errorf("fairness %.3f, want %.3f", j, size.jain)
				}
				f.end()
			})
		})
	}
}

// Two thousand sidecars start within five seconds on 64 shards. Under one key they are
// throttled; TestFleetStartsCold has the same with a key for each shard.
func TestOneKeyIsThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(config(), 64, 1)
		f.table.settings.Format = 1
		f.start(2000, 50)
		time.Sleep(7 * time.Second)
		if f.load(t) < 1000 {
			t.Error("it is not throttled: the figures of the other format say little")
		}
		f.end()
	})
}

// load prints what the table has taken, and returns how many calls it has refused.
func (f *fleet) load(t *testing.T) (throttled int) {
	f.table.mu.Lock()
	defer f.table.mu.Unlock()
	hottest := 0.0
	for _, units := range f.table.hottest {
		hottest = max(hottest, units)
	}
	t.Logf("format %d: %d throttled; at most %.0f write units in a second, %.0f of one partition", f.table.settings.Format, f.table.throttle, slices.Max(f.table.units), hottest)
	return f.table.throttle
}

var steady = flag.Duration("steady", 0, "TestFleetStartsCold: for how long to watch what a fleet costs that has started")

// cost prints what the table is used for while nothing happens.
func (f *fleet) cost(t *testing.T, d time.Duration) {
	now := func() (units float64, looks int) {
		f.table.mu.Lock()
		defer f.table.mu.Unlock()
		for _, u := range f.table.units {
			units += u
		}
		return units, f.table.looks
	}
	time.Sleep(5 * time.Minute) // everybody has what it gets
	units, looks := now()
	time.Sleep(d)
	unitsAfter, looksAfter := now()
	t.Logf("%d sidecars: %.1f write units and %.1f looks per second", len(f.sidecar), (unitsAfter-units)/d.Seconds(), float64(looksAfter-looks)/d.Seconds())
}

// Half of a fleet joins when the other half has everything.
func TestLateHalfGetsItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Limit = 2000
		f := newFleet(cfg, 16, 2)
		f.start(40, 50)
		time.Sleep(60 * time.Second)
		if f.opened() < cfg.Limit*97/100 {
			t.Errorf("%d open before the others come", f.opened())
		}
		f.start(40, 50)
		served := time.Now()
		for f.with(f.sidecar[40:]) < 40 && time.Since(served) < 6*time.Minute {
			time.Sleep(time.Second)
		}
		t.Logf("each of those who came late has a backend after %v", time.Since(served))
		time.Sleep(6*time.Minute - time.Since(served))
		shares := f.report(t)
		if shares[0]*2 < shares[len(shares)-1] {
			t.Errorf("somebody has %d, somebody %d: more than twice as much", shares[0], shares[len(shares)-1])
		}
		f.end()
	})
}

// A tenth of a fleet dies without a word while the rest wants more than there is:
// what it held is used again after the reap time, and not before.
func TestCrashedTenthIsReaped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Limit = 2000
		f := newFleet(cfg, 16, 3)
		f.start(80, 50)
		time.Sleep(300 * time.Second)
		for _, s := range f.sidecar[:8] {
			s.crash()
		}
		lost := cfg.Limit - f.opened()
		time.Sleep(cfg.ReapAfter - 2*cfg.Heartbeat)
		if f.opened() > cfg.Limit-lost*9/10 {
			t.Errorf("%d open before the dead may be reaped, %d died with them", f.opened(), lost)
		}
		time.Sleep(4 * cfg.Heartbeat)
		f.report(t)
		if f.opened() < cfg.Limit*97/100 {
			t.Errorf("%d open after the dead were reaped, of %d", f.opened(), cfg.Limit)
		}
		f.end()
	})
}

// A tenth of a fleet is cut off from the table for twice the reap time, while the
// rest takes what becomes free: never is more open than the limit. Then it comes
// back by itself.
func TestCutOffTenthNeverExceedsTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Limit = 2000
		f := newFleet(cfg, 16, 4)
		f.start(80, 50)
		time.Sleep(300 * time.Second)
		f.cut(f.sidecar[:8], true)
		open := f.count(f.sidecar[:8])
		time.Sleep(cfg.ReapAfter / 2)
		if now := f.count(f.sidecar[:8]); now != open {
			t.Errorf("of %d backends %d are left after half of the reap time", open, now)
		}
		time.Sleep(cfg.ReapAfter * 3 / 2)
		if now := f.count(f.sidecar[:8]); now != 0 {
			t.Errorf("%d backends are open without a lease", now)
		}
		f.cut(f.sidecar[:8], false)
		time.Sleep(300 * time.Second)
		if f.count(f.sidecar[:8]) == 0 {
			t.Error("nobody came back")
		}
		f.report(t)
		f.end()
	})
}

// The table is away for everybody for half of the reap time: nothing closes.
func TestOutageClosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		f := newFleet(cfg, 16, 5)
		f.start(100, 50)
		time.Sleep(120 * time.Second)
		f.cut(f.sidecar, true)
		time.Sleep(cfg.ReapAfter / 2)
		f.cut(f.sidecar, false)
		time.Sleep(time.Minute)
		for _, s := range f.sidecar {
			if n := s.closedOnDemand(); n > 0 {
				t.Errorf("sidecar %s closed %d backends", s.name, n)
			}
		}
		if f.opened() != 5000 {
			t.Errorf("%d open", f.opened())
		}
		f.report(t)
		f.end()
	})
}

// cut takes sidecars off the table, or brings them back.
func (f *fleet) cut(sidecars []*sidecar, away bool) {
	f.table.mu.Lock()
	defer f.table.mu.Unlock()
	for _, s := range sidecars {
		f.table.away[s.name] = away
	}
}

func (f *fleet) count(sidecars []*sidecar) int {
	n := 0
	for _, s := range sidecars {
		n += s.count()
	}
	return n
}

// with is how many of some sidecars have a backend.
func (f *fleet) with(sidecars []*sidecar) int {
	n := 0
	for _, s := range sidecars {
		n += min(1, s.count())
	}
	return n
}

// report prints a row of the table, and fails for what must never be.
func (f *fleet) report(t *testing.T) (shares []int) {
	t.Helper()
	shares = f.shares()
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
	none := 0
	for none < len(shares) && shares[none] == 0 {
		none++
	}
	over := max(0, f.mostOpen-f.table.most)
	t.Logf("| %d | %.0f | %d | %d | %d | %d | %.0f (%.0f) | %d | %.3f | %d–%d | %d |",
		len(f.sidecar), f.reached.Seconds(), f.open, over, slices.Max(f.opens), f.violations,
		units/120, peak, f.table.throttle, jain(shares), shares[0], shares[len(shares)-1], none)
	if over > 0 && f.cfg.Slots {
		t.Errorf("%d backends over the limit", over)
	}
	if f.violations > 0 {
		t.Errorf("%d dials over the cluster's rate", f.violations)
	}
	if none*50 > len(shares) {
		t.Errorf("%d of %d have nothing", none, len(shares))
	}
	for i, s := range f.table.shards {
		if s.Drift() != 0 {
			t.Errorf("shard %d drifts by %d", i, s.Drift())
		}
	}
	return shares
}
