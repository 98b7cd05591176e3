package fleetsim

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

var (
	unproved = flag.Bool("unproved", false, "TestMassKillAtTheLimit: the sidecars have no files")
	reap     = flag.Duration("reap", 0, "TestMassKillAtTheLimit: reap_after")
)

// All sidecars of a fleet that uses the whole limit are killed, and started again in
// their pods: what their predecessors held is free as soon as they have started.
func TestMassKillAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, want = 200, 50
		cfg := config()
		cfg.Limit = n * want * 95 / 100
		if *reap > 0 {
			cfg.ReapAfter = *reap
			cfg.Lifetime = cfg.ReapAfter - cfg.TransactionLimit - 2*cfg.Heartbeat
		}
		f := newFleet(cfg, 16, 8)
		if !*unproved {
			f.folder = t.TempDir()
		}
		f.start(n, want)
		time.Sleep(150 * time.Second)
		before := f.opened()
		for _, s := range f.sidecar[:n] {
			s.crash()
		}
		killed := time.Now()
		for _, s := range f.sidecar[:n] {
			s.again()
		}
		last := time.Duration(0)
		for f.opened() < before*95/100 && time.Since(killed) < 2*cfg.ReapAfter {
			time.Sleep(time.Second)
			if d := time.Since(killed); f.with(f.sidecar[n:]) < n {
				last = d
			}
		}
		took := time.Since(killed)
		t.Logf("%d open; everybody has one after %v, 95 %% are open again after %v", before, last, took)
		if !*unproved && took > 2*time.Minute { // 9,025 less the burst at 90 a second
			t.Errorf("it took %v until 95 %% were open again", took)
		}
		f.report(t)
		f.end()
	})
}

// Most of a fleet dies and few are left to reap, with many more shards than these have
// records in: all is free soon after the reap time all the same.
func TestFewSurvivorsReapAll(t *testing.T) {
	for _, left := range []int{1, 12} {
		t.Run(fmt.Sprint(left), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const shards = 64
				cfg := config()
				cfg.Limit = 2000
				f := newFleet(cfg, shards, 10)
				f.start(left, 5)
				f.start(40, 20)
				time.Sleep(3 * time.Minute)
				for _, s := range f.sidecar[left:] {
					s.crash()
				}
				died := time.Now()
				for f.table.held() > left*10 && time.Since(died) < 2*cfg.ReapAfter {
					time.Sleep(time.Second)
				}
				took := time.Since(died)
				t.Logf("%d left, %d shards: the last slot of the dead is free after %v, reap_after is %v", left, shards, took, cfg.ReapAfter)
				if took > cfg.ReapAfter+12*cfg.Heartbeat {
					t.Errorf("it took %v until the slots of the dead were free", took)
				}
				f.end()
			})
		})
	}
}

// Sidecars are killed, suspended and go on at random; at random, the next process starts
// on the file of one that is dead or seems to be, on a copy of it, or where it was
// deleted. Nobody ever writes the record of another, nor removes one of a process that
// exists before its time; and the cluster is never over its limit, unless somebody was
// suspended for longer than the reap time: then by no more than what those held.
func TestNoTwoProcessesShareARecord(t *testing.T) {
	const reapAfter = 4 * time.Minute
	for _, longest := range []time.Duration{reapAfter / 2, 3 * reapAfter} {
		t.Run(fmt.Sprintf("suspended for %v at most", longest), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config()
				cfg.Limit = 150
				cfg.ReapAfter, cfg.TransactionLimit, cfg.Lifetime = reapAfter, time.Minute, time.Minute
				f := newFleet(cfg, 4, *seed)
				f.folder = t.TempDir()
				f.start(15, 15)
				time.Sleep(30 * time.Second)
				p := &pods{fleet: f, rng: rand.New(rand.NewPCG(*seed, 3)), newest: slices.Clone(f.sidecar), longest: longest}
				for range 150 {
					time.Sleep(time.Duration(p.rng.Int64N(int64(20 * time.Second))))
					p.trouble(t)
				}
				time.Sleep(time.Minute)
				p.judge(t)
				f.end()
			})
		})
	}
}

var seed = flag.Uint64("seed", 9, "of TestNoTwoProcessesShareARecord")

// pods are the newest process of each, and older ones that still exist.
type pods struct {
	fleet     *fleet
	rng       *rand.Rand
	newest    []*sidecar
	older     []*sidecar
	suspended []*sidecar    // now or before
	longest   time.Duration // that one is suspended
	most      int           // backends of those that are, or were
}

// trouble ends a process, or seems to, and starts the next one of its pod.
func (p *pods) trouble(t *testing.T) {
	i := p.rng.IntN(len(p.newest))
	s := p.newest[i]
	switch p.rng.IntN(5) {
	case 0, 1:
		s.crash()
	case 2: // who comes after it cannot know whether it lives
		s.freeze()
		p.suspended = append(p.suspended, s)
		end := s.thaw
		if p.rng.IntN(2) == 0 {
			end = s.crash
		}
		time.AfterFunc(p.longest/4+time.Duration(p.rng.Int64N(int64(p.longest*3/4))), end)
	case 3, 4:
		replace(t, s.path, p.rng.IntN(2) == 0)
		p.older = append(p.older, s)
	}
	p.newest[i] = s.again()
	if len(p.older) > 3 {
		j := p.rng.IntN(len(p.older))
		p.older[j].crash()
		p.older = slices.Delete(p.older, j, j+1)
	}
	p.most = max(p.most, p.fleet.count(p.suspended))
}

func (p *pods) judge(t *testing.T) {
	f, buried := p.fleet, uint64(0)
	for _, s := range f.sidecar {
		buried += s.lease.Gauges().PredecessorsRemoved
	}
	f.table.mu.Lock()
	for _, line := range f.table.shared {
		t.Error(line)
	}
	f.table.mu.Unlock()
	over, allowed := max(0, f.mostOpen-f.table.settings.Limit), 0
	if p.longest >= f.cfg.ReapAfter-f.cfg.Guard {
		allowed = p.most
	}
	t.Logf("%d processes, %d records given back for predecessors, %d backends over the limit at most", len(f.sidecar), buried, over)
	if over > allowed {
		t.Errorf("%d backends over the limit, the suspended held %d", over, allowed)
	}
	if buried < 5 {
		t.Errorf("%d records were given back for predecessors: hardly anything was tried", buried)
	}
}

// replace puts a copy in a file's place, or nothing.
func replace(t *testing.T, path string, copied bool) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.Remove(path)
	}
	if err == nil && copied {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}
