package lease

import (
	"context"
	"testing"
	"time"
)

// stores are the two tables that every crash is tried on.
func stores(t *testing.T, cfg Config) map[string]func(*world) Store {
	return map[string]func(*world) Store{
		"memory": func(w *world) Store { return newMemory(cfg.tableSettings(), w.clock) },
		"table":  func(*world) Store { return newTable(t, cfg) },
	}
}

// crashes are the moments at which a sidecar may die around a call.
var crashes = []struct {
	name            string
	arrives, learns bool
}{
	{"before it is sent", false, false},
	{"after it was applied", true, false},
	{"after the answer", true, true},
}

// operations lead a sidecar to the point where the call in question is the next
// of its kind.
var operations = []struct {
	name  string
	reach func(w *world, p *proc)
	is    func(*storeCall) bool
}{
	{"join", func(w *world, p *proc) {}, func(c *storeCall) bool { return c.kind == callChange && c.change.Old == "" }},
	{"acquire", func(w *world, p *proc) { p.want = 30 }, func(c *storeCall) bool { return c.change.Old != "" && c.change.Take > 0 }},
	{"renew", func(w *world, p *proc) {}, func(c *storeCall) bool { return c.change.Old != "" && c.change.New != "" && c.change.Take == 0 }},
	{"release", func(w *world, p *proc) { w.settle(2); p.want = 1 }, func(c *storeCall) bool { return c.change.New != "" && c.change.Take < 0 }},
	{"leave", func(w *world, p *proc) { w.settle(2); p.want = 0; p.core.ledger.leaving = true },
		func(c *storeCall) bool { return c.part != nil && c.change.Old != "" && c.change.New == "" }},
	{"reap", func(w *world, p *proc) {
		w.settle(2)
		w.kill(w.add(5))
		other := w.procs[len(w.procs)-1]
		other.dead = false
		for range 40 { // it takes its slots, and dies
			w.step()
		}
		w.kill(other)
	}, func(c *storeCall) bool { return c.kind == callChange && c.part == nil }},
	{"reserve", func(w *world, p *proc) {}, func(c *storeCall) bool { return c.kind == callReserve }},
	{"look", func(w *world, p *proc) {}, func(c *storeCall) bool { return c.kind == callLook }},
	{"settings", func(w *world, p *proc) {}, func(c *storeCall) bool { return c.kind == callSettings }},
}

// settle lets everything run without trouble for some heartbeats.
func (w *world) settle(beats time.Duration) {
	for end := w.now + beats*w.cfg.Heartbeat; w.now < end; {
		_ = w.step() // what breaks is found by heal
	}
}

// A sidecar that dies around any call leaves nothing behind that is not free
// again after ReapAfter, and never lets the limit be exceeded.
func TestCrashMatrix(t *testing.T) {
	t.Parallel()
	cfg := worldConfig()
	cfg.IdleRelease = time.Second
	for name, open := range stores(t, cfg) {
		for _, op := range operations {
			for _, crash := range crashes {
				t.Run(name+"/"+op.name+"/"+crash.name, func(t *testing.T) {
					t.Parallel()
					w := newWorld(7, cfg, nil)
					w.table, w.faulty = open(w), false
					victim := w.add(12)
					op.reach(w, victim)
					c := w.reachCall(t, victim, op.is)
					if crash.arrives {
						a := w.perform(c)
						if a.err != nil {
							t.Fatal(a.err)
						}
						if crash.learns {
							victim.core.handleAnswer(c, a, w.at(victim))
						}
					}
					w.kill(victim)
					w.add(cfg.Limit) // who takes everything that is free
					if err := w.heal(); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// reachCall lets a sidecar run until the call in question is its next one.
func (w *world) reachCall(t *testing.T, p *proc, is func(*storeCall) bool) *storeCall {
	t.Helper()
	for end := w.now + 4*w.cfg.ReapAfter; w.now < end; {
		w.now += 20 * time.Millisecond
		w.deliver()
		if p.message != nil && p.message.answered {
			p.core.handleAnswer(p.message.call, p.message.answer, w.at(p))
			p.message = nil
		}
		if p.message != nil {
			continue
		}
		if err := w.dial(p); err != nil {
			t.Fatal(err)
		}
		c, _ := p.core.nextCall(w.at(p))
		switch {
		case c == nil:
		case is(c):
			return c
		default:
			p.message = w.send(p, c)
		}
	}
	t.Fatal("the call was never made")
	return nil
}

// Twenty sidecars see the same one die: exactly one of them takes its slots.
func TestTwentyReapOne(t *testing.T) {
	t.Parallel()
	cfg := worldConfig()
	cfg.Shards, cfg.Limit, cfg.MaxInstances = 1, 200, 30
	for name, open := range stores(t, cfg) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(11, cfg, nil)
			w.table, w.faulty = open(w), false
			for range 21 {
				w.add(5)
			}
			w.settle(10)
			w.kill(w.procs[0])
			if err := w.heal(); err != nil {
				t.Fatal(err)
			}
			var won uint64
			for _, p := range w.procs[1:] {
				won += p.core.ledger.stats.Reaped
			}
			s, err := w.table.Look(context.Background(), 0)
			if won != 1 || err != nil || len(s.Owners) != 20 {
				t.Errorf("%d sidecars reaped it, %d owners are left (%v); want 1 and 20", won, len(s.Owners), err)
			}
		})
	}
}
