package fleetsim

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// firsts watches a fleet that starts, until each sidecar has a backend.
type firsts struct {
	last time.Duration // when the last sidecar got its first backend; 0: not yet
	ten  time.Duration // when some sidecar had ten first; 0: not yet
	// lacking is how many had none then: a dial takes a while, and a call that is lost
	// costs its sender seconds.
	lacking int
}

func (f *fleet) firsts(d time.Duration) (found firsts) {
	const every = 100 * time.Millisecond
	for range int(d / every) {
		time.Sleep(every)
		none, most := 0, 0
		for _, s := range f.sidecar {
			n := s.count()
			most = max(most, n)
			if n == 0 {
				none++
			}
		}
		if none == 0 && found.last == 0 {
			found.last = time.Since(f.began)
		}
		if most >= 10 && found.ten == 0 {
			found.ten, found.lacking = time.Since(f.began), none
		}
	}
	return found
}

// A fleet starts at once, and wants more than the rate gives for minutes: each sidecar
// has its first backend before anybody has ten, and the last one has it soon.
func TestFirstBackendsComeFirst(t *testing.T) {
	for _, test := range []struct {
		n, shards int
		spread    time.Duration
		rateOnly  bool
	}{
		{1000, 64, time.Second, true},
		{1000, 64, 5 * time.Second, false},
	} {
		t.Run(fmt.Sprintf("%d within %v, rate only %v", test.n, test.spread, test.rateOnly), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config()
				cfg.Slots = !test.rateOnly
				f := newFleet(cfg, test.shards, 11)
				f.spread = test.spread
				f.start(test.n, 50)
				found := f.firsts(60 * time.Second)
				at60, none := f.shares(), test.n-f.with(f.sidecar)
				if test.rateOnly { // who else is slow is told by TestFleetStartsCold
					time.Sleep(2 * time.Minute)
				}
				later := f.shares()
				t.Logf("%d sidecars: the last one's first backend after %v, the first ten after %v, when %d had none; after 60 s %d have none, %d to %d, Jain %.3f; after %.0f s %d to %d, Jain %.3f",
					test.n, found.last, found.ten, found.lacking, none, at60[0], at60[len(at60)-1], jain(at60), time.Since(f.began).Seconds(), later[0], later[len(later)-1], jain(later))
				goal := test.spread + time.Duration(max(0, test.n-cfg.Burst))*time.Second*3/2/time.Duration(cfg.RateLimit-cfg.Reserve)
				if found.last == 0 || found.last > goal {
					t.Errorf("want the last first backend within %v", goal)
				}
				// 0 in 26 of 40 runs, else mostly 1 or 2, whose request or dial had failed, and once 11, who had theirs
				// 0.2 s later: who met no queue while it was young may take ten.
				if found.lacking*50 > test.n {
					t.Errorf("somebody had ten backends while %d had none", found.lacking)
				}
				f.report(t)
				f.end()
			})
		})
	}
}
