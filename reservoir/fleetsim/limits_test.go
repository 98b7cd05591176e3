package fleetsim

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// adopt gives the table other limits, as sluice lease init does while sidecars run:
// the settings first, then one shard after the other.
func (f *fleet) adopt(limit, rate int) {
	t := f.table
	t.mu.Lock()
	t.settings.Limit, t.settings.Rate, t.most = limit, rate, max(t.most, limit)
	t.mu.Unlock()
	for i := range t.shards {
		time.Sleep(2 * latency)
		t.mu.Lock()
		s := *t.shards[i]
		part := limit / t.settings.Shards
		if i < limit%t.settings.Shards {
			part++
		}
		s.Limit, s.Free = part, s.Free+part-s.Limit
		t.shards[i] = &s
		t.mu.Unlock()
	}
}

// restart ends a sidecar as SIGTERM does and starts another in its place.
func (f *fleet) restart(i, want int) {
	old := f.sidecar[i]
	old.mu.Lock()
	old.dead = true
	old.mu.Unlock()
	old.kill()
	old.drop(old.count())
	f.start(1, want)
	last := len(f.sidecar) - 1
	f.sidecar[i] = f.sidecar[last]
	f.sidecar = f.sidecar[:last]
}

// course is how a fleet gets from one limit to another.
type course struct {
	took     time.Duration // until what is open is within the limit, or 95 % of it
	closed   int           // most backends closed within a heartbeat
	deprived time.Duration // longest time that a sidecar had nothing
	poor     int           // most sidecars that had nothing at once
}

// follow watches a fleet for a time after its limit was changed; each second it
// calls turn.
func (f *fleet) follow(t *testing.T, d time.Duration, turn func(second int)) course {
	t.Helper()
	limit := f.table.settings.Limit
	falling := f.opened() > limit
	var c course
	var before []int
	without := map[*sidecar]int{}
	for second := range int(d / time.Second) {
		if turn != nil {
			turn(second)
		}
		time.Sleep(time.Second)
		open := f.opened()
		before = append(before, open)
		c.closed = max(c.closed, before[max(0, len(before)-31)]-open)
		c.poor = max(c.poor, len(f.sidecar)-f.with(f.sidecar))
		for _, s := range f.sidecar {
			if without[s]++; s.count() > 0 {
				without[s] = 0
			}
			c.deprived = max(c.deprived, time.Duration(without[s])*time.Second)
		}
		if done := falling && open <= limit || !falling && open >= limit*95/100; done && c.took == 0 {
			c.took = time.Duration(second+1) * time.Second
		}
		if second%60 == 59 {
			shares := f.shares()
			t.Logf("%2d min: %d open of %d, each %d to %d", second/60+1, open, limit, shares[0], shares[len(shares)-1])
		}
	}
	return c
}

// A limit is halved and doubled again while everything is open: all sidecars follow
// within minutes, none of them has nothing, and none closes more at once than it must.
func TestLimitIsLoweredAndRaised(t *testing.T) {
	for _, size := range []struct{ n, shards, low int }{{40, 16, 1000}, {40, 4, 400}, {10, 16, 1000}} {
		t.Run(fmt.Sprintf("%d sidecars, %d shards, to %d", size.n, size.shards, size.low), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config()
				cfg.Limit = 2000
				f := newFleet(cfg, size.shards, 8)
				f.start(size.n, 2*cfg.Limit/size.n)
				time.Sleep(4 * time.Minute)
				before := f.opened()
				f.adopt(size.low, f.table.settings.Rate)
				c := f.follow(t, lowered+time.Minute, nil)
				shares := f.shares()
				t.Logf("lowered: %d of %d after %v, at most %d closed within a heartbeat, each %d to %d, nobody without for longer than %v", f.opened(), size.low, c.took, c.closed, shares[0], shares[len(shares)-1], c.deprived)
				if fair := size.low / size.n; c.took == 0 || c.took > lowered || shares[0] < fair/2 || shares[len(shares)-1] > fair*8/5+5 {
					t.Errorf("want it within %v and each near %d", lowered, fair)
				}
				if c.closed > before*2/5 {
					t.Errorf("%d of %d backends were closed within a heartbeat", c.closed, before)
				}
				f.adopt(cfg.Limit, f.table.settings.Rate)
				c = f.follow(t, raised, nil)
				shares = f.shares()
				t.Logf("raised: 95 %% of %d open after %v, each %d to %d", cfg.Limit, c.took, shares[0], shares[len(shares)-1])
				// Who is first takes no more than the fair share for two heartbeats, so that the others get theirs.
				if fair := cfg.Limit / size.n; c.took == 0 || shares[len(shares)-1] > fair*11/10 {
					t.Errorf("want it within %v, and none above %d", raised, fair)
				}
				f.report(t)
				f.end()
			})
		})
	}
}

// lowered and raised are how long it may take until a fleet follows another limit.
const (
	lowered = 12 * time.Minute // mostly a third of that; of a hundred runs with ten sidecars one took 7
	raised  = 55 * time.Second
)

// The limit is lowered, and the sidecars are restarted with it one after the other,
// as a rolling update does: those that come first are not those that starve.
func TestRestartWithALowerLimit(t *testing.T) {
	for _, every := range []time.Duration{5 * time.Second, 20 * time.Second} {
		t.Run(fmt.Sprintf("every %v", every), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config()
				cfg.Limit = 1500
				f := newFleet(cfg, 4, 9)
				f.start(30, 50)
				time.Sleep(3 * time.Minute)
				f.cfg.Limit = 750
				f.adopt(750, f.table.settings.Rate)
				next := 0
				c := f.follow(t, 12*time.Minute, func(second int) {
					if next < 30 && time.Duration(second)*time.Second >= time.Duration(next)*every {
						f.restart(next, 50)
						next++
					}
				})
				shares := f.shares()
				t.Logf("%d open after %v, each %d to %d; one had nothing for %v, %d had nothing at once", f.opened(), c.took, shares[0], shares[len(shares)-1], c.deprived, c.poor)
				if c.deprived > deprived {
					t.Errorf("want nobody without for longer than %v", deprived)
				}
				f.report(t)
				f.end()
			})
		})
	}
}

// deprived is how long a sidecar that starts may have nothing while a limit is being
// lowered: twice the longest of sixteen runs.
const deprived = 4 * time.Minute

// A sidecar whose configuration has other limits than the table takes part by the
// table's, and a rate that changes reaches all that run.
func TestTableWinsOverConfigurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		f := newFleet(cfg, 4, 10)
		f.cfg.Limit, f.cfg.RateLimit, f.cfg.Burst = 500, 60, 100
		f.start(10, 100)
		time.Sleep(time.Minute)
		if f.opened() != 1000 {
			t.Errorf("%d open by another configuration, want 1000", f.opened())
		}
		f.adopt(cfg.Limit, 10)
		time.Sleep(2 * time.Minute)
		f.mu.Lock()
		before := len(f.opens)
		f.mu.Unlock()
		for _, s := range f.sidecar {
			s.mu.Lock()
			s.want = 500
			s.mu.Unlock()
		}
		time.Sleep(time.Minute)
		f.mu.Lock()
		opens := slices.Clone(f.opens[min(before, len(f.opens)):])
		f.mu.Unlock()
		if n := sum(opens); n > 400+10*70 || n < 400 {
			t.Errorf("%d dials in a minute at a rate of 10 with 400 saved up", n)
		}
		f.report(t)
		f.end()
	})
}
