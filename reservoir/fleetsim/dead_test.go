package fleetsim

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

const (
	// lull is how long a slot may be free while somebody wants it, and so how
	// late the healthy may have what the living leave them: in three minutes each
	// sidecar has looked at all of 16 shards by itself, three a heartbeat. Mostly
	// half of that is the longest of a run. With more shards than sidecars nobody
	// looks at some of them for longer.
	lull   = 3 * time.Minute
	sparse = 5 * time.Minute
	// least is the part of what is allowed to them that the healthy must have. Pods
	// that live for longer than a heartbeat are owed their whole share each time, and
	// what they die before they have taken comes back a little later.
	least     = 0.92
	leastLong = 0.88
)

// sample is a second of a fleet of which a part is healthy and the rest dies.
type sample struct {
	open    int   // backends of the healthy
	free    []int // slots, by shard
	blocked int   // slots in the records of the dead
	allowed int   // what the healthy may have: see allow
}

// watch looks at a fleet once a second while others of it come and go.
type watch struct {
	fleet   *fleet
	healthy []*sidecar
	want    int // backends of all healthy together
	samples []sample
}

// run watches for a time. It logs a line for each five minutes.
func (w *watch) run(t *testing.T, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
		s := w.sample()
		if len(w.samples)%300 == 0 {
			t.Logf("%3.0f min: the healthy have %d of %d allowed, the dead %d, %d free", time.Since(w.fleet.began).Minutes(), s.open, s.allowed, s.blocked, sum(s.free))
		}
		w.samples = append(w.samples, s)
	}
}

func (w *watch) sample() sample {
	f := w.fleet
	living, others := 0, 0
	for _, s := range f.sidecar {
		s.mu.Lock()
		dead := s.dead
		s.mu.Unlock()
		if !dead {
			living++
			others += s.lease.State().Held
		}
	}
	s := sample{open: f.count(w.healthy)}
	for _, h := range w.healthy {
		others -= h.lease.State().Held
	}
	f.table.mu.Lock()
	recorded := 0
	for _, shard := range f.table.shards {
		s.free = append(s.free, max(0, shard.Free))
		recorded += shard.HeldSlots()
	}
	limit := f.table.settings.Limit
	f.table.mu.Unlock()
	for _, h := range w.healthy {
		recorded -= h.lease.State().Held
	}
	s.blocked = max(0, recorded-others)
	// What is free and what the healthy have, as far as they want it; but others
	// that live may have their share.
	s.allowed = min(w.want, limit*len(w.healthy)/living, limit-s.blocked-others)
	return s
}

// judge fails when the healthy had too little at any moment, of what was allowed
// or as such, or slots lay free.
func (w *watch) judge(t *testing.T, floor int, least float64, lull time.Duration) {
	t.Helper()
	worst, fewest, idle := 1.0, w.want, time.Duration(0)
	seconds := int(lull / time.Second)
	since := make([]int, len(w.samples[0].free)) // when the shard was last without
	for i, s := range w.samples {
		allowed := s.allowed
		for _, before := range w.samples[max(0, i-seconds):i] {
			allowed = min(allowed, before.allowed)
		}
		worst, fewest = min(worst, float64(s.open)/float64(allowed)), min(fewest, s.open)
		for shard, free := range s.free {
			if free == 0 || s.open >= w.want {
				since[shard] = i
			}
			idle = max(idle, time.Duration(i-since[shard])*time.Second)
		}
	}
	last := w.samples[len(w.samples)-1]
	t.Logf("the healthy had at least %d, %.3f of what was allowed; at the end %d, with %d free and %d of the dead; some slot was free for %v",
		fewest, worst, last.open, sum(last.free), last.blocked, idle)
	if worst < least {
		t.Errorf("the healthy had %.3f of what free slots and fairness among the living allow, want %.2f", worst, least)
	}
	if fewest < floor {
		t.Errorf("the healthy had %d backends, want at least %d", fewest, floor)
	}
	if idle > lull {
		t.Errorf("a slot was free for %v while somebody wanted it, want at most %v", idle, lull)
	}
}

func sum(numbers []int) int {
	n := 0
	for _, one := range numbers {
		n += one
	}
	return n
}

// loop is a pod that crashes again and again.
type loop struct {
	at      time.Duration // of its next start or end
	backoff time.Duration
	pod     *sidecar // nil while it is down
}

// Ten pods in crash back-off must not take from the forty healthy what they cannot
// use, whether they live for moments or for longer than a heartbeat.
func TestCrashLoopsDoNotDrainTheHealthy(t *testing.T) {
	const healthy, looping, want = 40, 10, 50
	for _, test := range []struct {
		life   time.Duration
		shards int
		// floor of the backends of the healthy. Each life shorter than a heartbeat
		// costs them a block for the reap time, a longer one the pod's fair share.
		floor int
		least float64
		lull  time.Duration
	}{
		{3 * time.Second, 16, 1700, least, lull}, {20 * time.Second, 16, 1430, least, lull}, {75 * time.Second, 16, 1230, leastLong, lull},
		{20 * time.Second, 4, 1320, least, lull}, {20 * time.Second, 64, 1480, least, sparse},
	} {
		t.Run(fmt.Sprintf("alive for %v, %d shards", test.life, test.shards), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config()
				cfg.Limit = healthy * want
				f := newFleet(cfg, test.shards, 6)
				f.start(healthy, want)
				time.Sleep(2 * time.Minute)
				w := &watch{fleet: f, healthy: f.sidecar[:healthy:healthy], want: healthy * want}
				loops := make([]loop, looping)
				for i := range loops {
					loops[i] = loop{at: time.Duration(i) * time.Second, backoff: 10 * time.Second}
				}
				began := time.Now()
				for time.Since(began) < 45*time.Minute {
					for i := range loops {
						loops[i].turn(f, time.Since(began), test.life, want)
					}
					w.run(t, time.Second)
				}
				w.judge(t, test.floor, test.least, test.lull)
				f.report(t)
				f.end()
			})
		})
	}
}

// turn starts or ends the pod when it is time.
func (l *loop) turn(f *fleet, now, life time.Duration, want int) {
	switch {
	case now < l.at:
	case l.pod == nil:
		f.start(1, want)
		l.pod, l.at = f.sidecar[len(f.sidecar)-1], now+life
	default:
		l.pod.crash()
		l.pod, l.at = nil, now+l.backoff
		l.backoff = min(2*l.backoff, 5*time.Minute)
	}
}

// A pod that is killed every 30 s, and comes again as another one, is one pod:
// its records make no homes among which the limit is shared.
func TestKilledPodIsOneHome(t *testing.T) {
	const healthy = 10
	for want, floor := range map[int]int{50: 500, 100: 600} {
		t.Run(fmt.Sprintf("%d wanted", want), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config()
				cfg.Limit = 1000
				f := newFleet(cfg, 16, 7)
				f.start(healthy, want)
				time.Sleep(2 * time.Minute)
				w := &watch{fleet: f, healthy: f.sidecar[:healthy:healthy], want: healthy * want}
				for range 90 {
					f.start(1, 50)
					w.run(t, 30*time.Second)
					f.sidecar[len(f.sidecar)-1].crash()
				}
				w.judge(t, floor, least, lull)
				f.report(t)
				f.end()
			})
		})
	}
}
