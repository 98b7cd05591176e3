package retry

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// contest is a simulation of clients on a database where the first committer
// wins. They come through processes with a gate each.
type contest struct {
	processes, clients int // clients of each process
	ungated            bool
	lasts              func() time.Duration                        // how long a transaction lasts
	row                func(client int) int                        // what a transaction changes
	key                func(row int) ContentionKey                 // of its statement
	injected           func() bool                                 // a conflict that is nobody's
	apart              time.Duration                               // between the first transactions of two clients
	watch              func(stop context.Context, g *ConflictGate) // nil: nobody looks
	policy             func(*Policy)                               // nil: the defaults
	// before is how long a transaction lasts before it comes to the gate: what waits there has an
	// older snapshot then. nil: it begins there.
	before func() time.Duration

	mu       sync.Mutex
	versions map[int]int
	outcome
}

// outcome is what became of a contest's transactions.
type outcome struct{ committed, lost, told int }

// snapshot is what a transaction sees of a row from now on.
func (c *contest) snapshot(row int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.versions[row]
}

// attempt runs a transaction in that snapshot, and reports whether it committed.
func (c *contest) attempt(row, snapshot int) bool {
	time.Sleep(c.lasts())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.versions[row] != snapshot || c.injected != nil && c.injected() {
		c.lost++
		return false
	}
	c.versions[row]++
	return true
}

// transact does what a session does for a client.
func (c *contest) transact(ctx context.Context, g *ConflictGate, b *Budget, row int) bool {
	policy := Defaults().Policy
	if c.policy != nil {
		c.policy(&policy)
	}
	var pass *GatePass
	snapshot := c.snapshot(row)
	if c.before != nil {
		time.Sleep(c.before())
	}
	if !c.ungated {
		waits, cancel := context.WithTimeout(ctx, policy.QueueTimeout())
		pass, _ = g.WaitIfContended(waits, c.key(row))
		cancel()
	}
	if c.before == nil {
		snapshot = c.snapshot(row)
	}
	defer func() { pass.Release() }()
	var a Attempts
	for !c.attempt(row, snapshot) {
		gated := pass.IsHeld()
		pause, why := a.NextDelay(&policy, DataConflict, time.Now(), rand.Float64(), pass.RecordConflict())
		if why != Replayable || !gated && !b.Take() {
			return false
		}
		time.Sleep(pause)
		if !c.ungated && !pass.IsHeld() {
			waits, cancel := context.WithDeadline(ctx, a.Deadline(&policy))
			next, err := g.AcquireForReplay(waits, c.key(row), a.NeedsExclusivePass(&policy))
			cancel()
			if err != nil {
				return false
			}
			pass = next
		}
		if snapshot = c.snapshot(row); c.before != nil {
			time.Sleep(c.before())
		}
	}
	b.RecordCommit()
	return true
}

// run has the clients go on for some time, and says what came of it.
func (c *contest) run(t *testing.T, lasts time.Duration) outcome {
	t.Helper()
	before := c.outcome
	if c.versions == nil {
		c.versions = map[int]int{}
	}
	ctx, stop := context.WithTimeout(t.Context(), lasts)
	defer stop()
	var all sync.WaitGroup
	for range c.processes {
		g, b := NewConflictGate(Defaults()), NewBudget(Defaults(), time.Now)
		if c.watch != nil {
			all.Go(func() { c.watch(ctx, g) })
		}
		for client := range c.clients {
			all.Go(func() {
				time.Sleep(time.Duration(client) * c.apart)
				for ctx.Err() == nil {
					done := c.transact(t.Context(), g, b, c.row(client))
					c.mu.Lock()
					if done {
						c.committed++
					} else {
						c.told++
					}
					c.mu.Unlock()
				}
			})
		}
		defer g.empty(t)
	}
	all.Wait()
	return outcome{c.committed - before.committed, c.lost - before.lost, c.told - before.told}
}

// What a contest is made of.
var (
	quick   = func() time.Duration { return time.Duration(2000+rand.IntN(6000)) * time.Microsecond }
	slow    = func() time.Duration { return time.Duration(20+rand.IntN(10)) * time.Millisecond }
	steady  = func() time.Duration { return 20 * time.Millisecond }
	oneRow  = func(int) int { return 0 }
	ownRow  = func(client int) int { return client }
	oneKey  = func(int) ContentionKey { return 1 }
	keyEach = func(row int) ContentionKey { return ContentionKey(row) }
)

// sometimes is true for that share of its calls.
func sometimes(share float64) func() bool {
	return func() bool { return rand.Float64() < share }
}

// once is true for one call, when some time has passed.
func once(when time.Duration) func() bool {
	start, done := time.Now(), false
	return func() bool {
		due := !done && time.Since(start) >= when
		done = done || due
		return due
	}
}

// Feature: dsql-locking-compatibility, Property 4: Concurrency safety: of
// transactions that fight for one row all commit, one after the other, when the
// gate orders them; without it most conflicts reach their clients.
func TestGateEndsTheFight(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]*contest{
		"quick": {clients: 64, lasts: quick}, "slow": {clients: 64, lasts: slow}, "steady": {clients: 64, lasts: steady},
		"a long line": {clients: 64, lasts: func() time.Duration { return 2 * DefaultMaxElapsed / 64 }, apart: 250 * time.Millisecond},
		"few":         {clients: 8, lasts: slow}, "three": {clients: 3, lasts: slow},
		"no gate":  {clients: 64, lasts: quick, ungated: true},
		"no pause": {clients: 64, lasts: quick, policy: firstAfter(0)}, "no pause, no gate": {clients: 64, lasts: quick, policy: firstAfter(0), ungated: true},
	} {
		c.processes, c.row, c.key = 1, oneRow, oneKey
		synctest.Test(t, func(t *testing.T) {
			got := c.run(t, 30*time.Second)
			t.Logf("%s: %+v", name, got)
			if c.versions[0] != got.committed {
				t.Errorf("%s: %d committed, the row says %d", name, got.committed, c.versions[0])
			}
			if c.ungated != (got.told > 0) || c.ungated && got.told < got.committed {
				t.Errorf("%s: %d committed, %d told of a conflict", name, got.committed, got.told)
			}
			if !c.ungated && got.lost > 64+got.committed/20 {
				t.Errorf("%s: %d attempts lost, of %d", name, got.lost, got.committed)
			}
		})
	}
}

// Two processes fight for one row, and neither gate knows of the other. Most of
// what meets conflicts commits all the same: a transaction that loses while it
// alone has the pass keeps it, so that its process stays out of the other's way.
func TestGatesOfTwoProcesses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]*contest{"quick": {lasts: quick}, "slow": {lasts: slow}} {
		c.processes, c.clients, c.row, c.key = 2, 32, oneRow, oneKey
		synctest.Test(t, func(t *testing.T) {
			got := c.run(t, time.Minute)
			t.Logf("%s: %+v", name, got)
			if got.told*20 > got.committed || got.lost*3 > got.committed {
				t.Errorf("%s: %d committed, %d attempts lost, %d told of a conflict", name, got.committed, got.lost, got.told)
			}
		})
	}
}

// What has a snapshot before it comes to the gate, as a transaction that inserts before it updates a
// row, loses its first attempt whenever it waits there. Its replay begins with the pass: none is told
// of a conflict, and the budget is not for these.
func TestSnapshotBeforeTheGate(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{1, 4} {
		for name, lasts := range map[string]func() time.Duration{"quick": quick, "slow": slow} {
			synctest.Test(t, func(t *testing.T) {
				c := &contest{processes: 1, clients: 16, lasts: lasts, before: lasts, row: func(int) int { return rand.IntN(rows) }, key: keyEach}
				got := c.run(t, 2*time.Minute)
				t.Logf("%s, %d rows: %+v", name, rows, got)
				if got.told > 0 || got.lost > got.committed*5/4 {
					t.Errorf("%s, %d rows: %+v", name, rows, got)
				}
			})
		}
	}
}

// One conflict does not slow a key down for good: under a constant load, whether
// its clients have the key in common or not, the rate is soon that of no gate, and
// the gate is closed. So it is after a fight.
func TestGateForgetsConflicts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		key func(int) ContentionKey
		row func() func(int) int
	}{
		"one key":       {oneKey, func() func(int) int { return ownRow }},
		"keys of one's": {keyEach, func() func(int) int { return ownRow }},
		"after a fight": {oneKey, func() func(int) int {
			start := time.Now()
			return func(client int) int {
				if time.Since(start) < 10*time.Second {
					return 0
				}
				return client
			}
		}},
	} {
		for _, clients := range []int{2, 16, 64} {
			synctest.Test(t, func(t *testing.T) {
				c := &contest{processes: 1, clients: clients, lasts: steady, row: test.row(), key: test.key, injected: once(10 * time.Second)}
				var late, slowest int
				c.watch = func(stop context.Context, g *ConflictGate) {
					time.Sleep(20 * time.Second) // at the load of one client about 500 commits after the conflict
					c.mu.Lock()
					before := c.committed
					c.mu.Unlock()
					if s := g.Stats(); s != (GateStats{}) {
						t.Errorf("%s, %d clients: %+v are at the gate", name, clients, s)
					}
					<-stop.Done()
					c.mu.Lock()
					late = c.committed - before
					c.mu.Unlock()
				}
				got := c.run(t, 30*time.Second)
				slowest = clients * int(10*time.Second/steady())
				if got.told > 0 || got.lost == 0 || late < slowest*99/100 {
					t.Errorf("%s, %d clients: %+v, and %d commits in 10 s, want %d", name, clients, got, late, slowest)
				}
			})
		}
	}
}

// A key of which few transactions conflict is not served one after the other.
func TestGateBearsFewConflicts(t *testing.T) {
	t.Parallel()
	rate := func(c *contest) int {
		c.processes, c.clients, c.row, c.key, c.lasts = 1, 64, ownRow, oneKey, slow
		var got outcome
		synctest.Test(t, func(t *testing.T) { got = c.run(t, time.Minute) })
		t.Logf("gate %v: %+v", !c.ungated, got)
		if got.told > got.committed/1000 {
			t.Errorf("%d told of a conflict", got.told)
		}
		return got.committed
	}
	for _, share := range []float64{0.01, 0.1} {
		gated, ungated := rate(&contest{injected: sometimes(share)}), rate(&contest{injected: sometimes(share), ungated: true})
		if gated < ungated/2 {
			t.Errorf("%v of the attempts in conflict: %d commits, %d without a gate", share, gated, ungated)
		}
	}
}

// Transactions that last longer than a pass, all of them, are not served one
// after the other for good either.
func TestGateBearsLongTransactions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lasts := 3 * DefaultGateHold
		c := &contest{processes: 1, clients: 16, lasts: func() time.Duration { return lasts }, row: ownRow, key: oneKey, injected: once(0)}
		const rounds = 40
		if got := c.run(t, rounds*lasts); got.committed < 16*(rounds-10) || got.told > 0 {
			t.Errorf("%+v", got)
		}
	})
}
