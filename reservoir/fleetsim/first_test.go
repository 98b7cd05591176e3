package fleetsim

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// firsts watches a fleet that starts, until each sidecar has a backend.
type firsts struct {
	last time.Duration // when the last sidecar got its first backend; 0: not yet
	ten  time.Duration // when some sidecar had ten first; 0: not yet
	// lacking is how many had none then, or when others had ten later. unlucky are those of them of which a call
	// was lost or throttled, or a dial failed: it costs its sender seconds.
	lacking, unlucky int
}

// startTime is what a process has from its start until its first backend counts as late.
const startTime = 500 * time.Millisecond

func (f *fleet) firsts(d time.Duration) (found firsts) {
	const every = 100 * time.Millisecond
	for range int(d / every) {
		time.Sleep(every)
		none, lacking, unlucky, most := 0, 0, 0, 0
		for _, s := range f.sidecar {
			n := s.count()
			most = max(most, n)
			if n > 0 {
				continue
			}
			none++
			switch began, lucky := s.luck(); {
			case began.IsZero() || time.Since(began) < startTime:
			case lucky:
				lacking++
			default:
				unlucky++
			}
		}
		if none == 0 && found.last == 0 {
			found.last = time.Since(f.began)
		}
		if most >= 10 && found.ten == 0 {
			found.ten = time.Since(f.began)
		}
		if found.ten > 0 {
			found.lacking, found.unlucky = max(found.lacking, lacking), max(found.unlucky, unlucky)
		}
	}
	return found
}

// luck is when a sidecar began, zero for not yet, and whether nothing of it has failed.
func (s *sidecar) luck() (began time.Time, lucky bool) {
	s.fleet.table.mu.Lock()
	unlucky := s.fleet.table.unlucky[s.name]
	s.fleet.table.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.began, !unlucky && s.failed == 0
}

var moreFirsts = flag.Bool("more-firsts", false, "TestFirstBackendsComeFirst: fleets of other sizes, without bounds for those that start slowly or lack slots")

// A fleet starts at once, and wants more than the rate gives for minutes: each sidecar
// has its first backend before anybody has ten, and the last one has it soon.
func TestFirstBackendsComeFirst(t *testing.T) {
	type size struct {
		n        int
		spread   time.Duration
		rateOnly bool
		failOne  int // one dial in so many fails
	}
	sizes := []size{{1000, time.Second, true, 0}, {1000, 5 * time.Second, false, 0}}
	if *moreFirsts {
		sizes = nil
		for _, n := range []int{300, 1000, 2000} {
			for _, spread := range []time.Duration{1, time.Second, 5 * time.Second, 30 * time.Second} {
				for _, failOne := range []int{0, 20} {
					sizes = append(sizes, size{n, spread, true, failOne}, size{n, spread, false, failOne})
				}
			}
		}
	}
	for _, test := range sizes {
		t.Run(fmt.Sprintf("%d within %v, rate only %v, one dial fails in %d", test.n, test.spread, test.rateOnly, test.failOne), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config()
				cfg.Slots = !test.rateOnly
				f := newFleet(cfg, 64, 11)
				f.spread, f.failOne = test.spread, test.failOne
				f.start(test.n, 50)
				found := f.firsts(60 * time.Second)
				at60, none := f.shares(), test.n-f.with(f.sidecar)
				if test.rateOnly { // who else is slow is told by TestFleetStartsCold
					time.Sleep(2 * time.Minute)
				}
				later := f.shares()
				t.Logf("%d sidecars: the last one's first backend after %v, the first ten after %v, when %d had none, and %d more of which something had failed; after 60 s %d have none, %d to %d, Jain %.3f; after %.0f s %d to %d, Jain %.3f",
					test.n, found.last, found.ten, found.lacking, found.unlucky, none, at60[0], at60[len(at60)-1], jain(at60), time.Since(f.began).Seconds(), later[0], later[len(later)-1], jain(later))
				slow := test.spread > 5*time.Second || !test.rateOnly && test.n*10 > cfg.Limit
				goal := test.spread + time.Duration(max(0, test.n-cfg.Burst))*time.Second*3/2/time.Duration(cfg.RateLimit-cfg.Reserve)
				if (found.last == 0 || found.last > goal) && !slow && test.failOne == 0 && test.n > cfg.Burst {
					t.Errorf("want the last first backend within %v", goal)
				}
				if found.lacking > 0 && !slow {
					t.Errorf("somebody had ten backends while %d had none", found.lacking)
				}
				if !slow {
					f.report(t)
				}
				f.end()
			})
		})
	}
}
