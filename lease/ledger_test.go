package lease

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"
)

// bench is one core on a table in memory, a call at a time.
type bench struct {
	t     *testing.T
	core  *leaseState
	table *memory
	now   time.Duration
}

// newBench returns a core that wants so many slots of the only shard's.
func newBench(t *testing.T, limit, want int) *bench {
	t.Helper()
	cfg := worldConfig()
	cfg.Rate, cfg.Limit, cfg.Shards = false, limit, 1
	b := &bench{t: t, core: newLeaseState(cfg, "p", rand.New(rand.NewPCG(1, 1)))}
	b.table = newMemory(cfg.tableSettings(), func() time.Time { return tableEpoch.Add(b.now) })
	b.core.ledger.demand = want
	return b
}

// until lets calls succeed until one is made that is asked for, and returns it.
func (b *bench) until(is func(*storeCall) bool) *storeCall {
	b.t.Helper()
	for range 1000 {
		c, wake := b.core.nextCall(b.now)
		switch {
		case c == nil:
			b.now = wake
		case is(c):
			return c
		default:
			b.core.handleAnswer(c, b.perform(c), b.now)
		}
	}
	b.t.Fatal("the call was never made")
	return nil
}

func (b *bench) perform(c *storeCall) (a storeAnswer) {
	switch ctx := context.Background(); c.kind {
	case callSettings:
		a.settings, a.at, a.err = b.table.Settings(ctx)
	case callLook:
		a.shard, a.err = b.table.Look(ctx, c.look)
	case callChange:
		a.shard, a.done, a.err = b.table.Change(ctx, c.change)
	}
	return a
}

func renewal(c *storeCall) bool { return c.part != nil && c.change.Old != "" && c.change.Take == 0 }
func growth(c *storeCall) bool  { return c.part != nil && c.change.Old != "" && c.change.Take > 0 }

// Others may have seen a record since it was first sent: the lease counts from
// there, however often it was sent again until an answer came.
func TestLeaseCountsFromTheFirstSending(t *testing.T) {
	t.Parallel()
	b := newBench(t, 20, 5)
	first := b.until(renewal)
	sent := b.now
	b.perform(first) // applied, and nobody hears of it
	b.core.handleAnswer(first, storeAnswer{err: errLost}, b.now)
	for range 3 {
		b.now += time.Second
		again := b.until(renewal)
		if again.change != first.change {
			t.Fatalf("sent again: %+v, first %+v", again.change, first.change)
		}
		b.core.handleAnswer(again, storeAnswer{err: errLost}, b.now)
	}
	b.now += time.Second
	last := b.until(renewal)
	b.core.handleAnswer(last, b.perform(last), b.now)
	if age, _ := b.core.ledger.renewalAge(b.now); age != b.now-sent {
		t.Errorf("the lease is %v old, its record %v", age, b.now-sent)
	}
	if s := b.core.ledger.stats; s.Resolved != 1 || s.ReapedSelf != 0 {
		t.Errorf("%+v", s)
	}
}

// The cluster says that it is full while slots are on their way: nothing grows for
// a while, though they come.
func TestFullClusterEndsGrowth(t *testing.T) {
	t.Parallel()
	b := newBench(t, 50, 50)
	c := b.until(growth)
	b.core.ledger.pauseGrowth(b.now)
	refused := b.now
	b.core.handleAnswer(c, b.perform(c), b.now)
	b.until(growth)
	if b.now < refused+refusedPause {
		t.Errorf("it grows again %v after the refusal, want %v", b.now-refused, refusedPause)
	}
}

// A growth that was refused may yet arrive from an earlier sending. The next
// change fences it; if it comes before that, it counts.
func TestLateGrowthIsFencedOrCounted(t *testing.T) {
	t.Parallel()
	for _, arrives := range []string{"before the fence", "after the fence", "never"} {
		t.Run(arrives, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 10, 10)
			first := b.until(growth)
			b.core.handleAnswer(first, storeAnswer{err: errLost}, b.now) // it is still on its way
			other := ShardChange{Owner: "other.1", New: "1|5|5|12000|h", Take: 5}
			b.perform(&storeCall{kind: callChange, change: other})
			again := b.until(growth)
			b.core.handleAnswer(again, b.perform(again), b.now) // nothing is free now
			b.perform(&storeCall{kind: callChange, change: ShardChange{Owner: "other.1", Old: other.New, New: "2|0|0|12000|h", Take: -5}})

			b.core.ledger.demand = 0
			if arrives == "before the fence" {
				b.perform(first)
			}
			fence := b.until(func(*storeCall) bool { return true })
			if !renewal(fence) {
				t.Fatalf("the call after the refusal is %+v, want a fence", fence)
			}
			b.core.handleAnswer(fence, b.perform(fence), b.now)
			if arrives == "after the fence" {
				b.perform(first)
			}
			next := b.until(renewal)
			b.core.handleAnswer(next, b.perform(next), b.now)

			want := 5
			if arrives == "before the fence" {
				want = 10
			}
			shard := b.table.shards[0]
			if got := b.core.ledger.heldSlots(); got != want || shard.Drift() != 0 || shard.Free != 10-want || b.core.ledger.stats.ReapedSelf != 0 {
				t.Errorf("held %d, want %d; %+v; %+v", got, want, *shard, b.core.ledger.stats)
			}
		})
	}
}

func TestRecordText(t *testing.T) {
	t.Parallel()
	for _, r := range []Record{
		{},
		{Seq: 1<<64 - 1, Slots: 5, Total: 50, ReapAfter: 20 * time.Minute, Home: true, Waiting: true},
		{Seq: 7, ReapAfter: time.Millisecond, Waiting: true},
		{Seq: 8, Slots: 5, Total: 5, ReapAfter: time.Second, Home: true, Lasting: true},
		{Seq: 9, ReapAfter: time.Second, Waiting: true, Lasting: true},
	} {
		if got, err := ParseRecord(r.String()); err != nil || got != r {
			t.Errorf("%q becomes %+v, %v", r, got, err)
		}
	}
	for _, text := range []string{"", "1|2|3|4", "1|2|3|4|x", "-1|2|3|4|", "1|-2|3|4|", "1|2|3|4||", "a|2|3|4|h"} {
		if r, err := ParseRecord(text); err == nil {
			t.Errorf("%q was read as %+v", text, r)
		}
	}
}

func TestConfigIsValidatedTogether(t *testing.T) {
	t.Parallel()
	good := Defaults()
	good.Slots, good.Rate, good.Table = true, true, "leases"
	good.Lifetime = 13 * time.Minute
	if err := errOf(good); err != "" {
		t.Errorf("the defaults: %s", err)
	}
	for want, change := range map[string]func(*Config){
		"distributed.conn_lease_table: empty":                            func(c *Config) { c.Table, c.RateTable = "", "r" },
		"distributed.conn_margin: 10000: ":                               func(c *Config) { c.Margin = 10_000 },
		"distributed.conn_shards: 0: ":                                   func(c *Config) { c.Shards = 0 },
		"distributed.reap_after: 19m0s: want at least 19m0.2s":           func(c *Config) { c.ReapAfter, c.Heartbeat = 19*time.Minute, 30100*time.Millisecond },
		"distributed.reap_after: 20m0s: backends would begin":            func(c *Config) { c.TransactionLimit, c.Lifetime = 15*time.Minute, 0 },
		"distributed.call_timeout: 5.001s: ":                             func(c *Config) { c.CallTimeout = 5001 * time.Millisecond },
		"distributed.rate_limiter_burst: 541: with 450 for":              func(c *Config) { c.Burst = 541 },
		"distributed.rate_limiter_limit: 10: want more than di":          func(c *Config) { c.RateLimit = 10 },
		"distributed.rate_limiter_max_wait: 10m0s: want at most 9m56s: ": func(c *Config) { c.MaxWait = 10 * time.Minute },
		"distributed.rate_limiter_max_wait: 9m50s: want at most 9m47s":   func(c *Config) { c.MaxWait, c.RateLimit = 9*time.Minute+50*time.Second, 11 },
	} {
		c := good
		change(&c)
		if got := errOf(c); len(got) < len(want) || got[:len(want)] != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func errOf(c Config) string {
	if err := c.Validate(); err != nil {
		return err.Error()
	}
	return ""
}

func TestMachineClockMovesOn(t *testing.T) {
	t.Parallel()
	for _, clock := range []Clock{MachineClock, processClock} {
		if a, b := clock(), clock(); b < a {
			t.Errorf("%v, then %v", a, b)
		}
	}
}

// Thousands may be idle and hold nothing: no record tells how many. Each looks at few
// shards, however many there are, or all together use up what a partition has of reads.
func TestWhoHoldsNothingLooksLittle(t *testing.T) {
	t.Parallel()
	cfg := worldConfig()
	cfg.Rate, cfg.Shards = false, 64
	b := &bench{t: t, core: newLeaseState(cfg, "p", rand.New(rand.NewPCG(1, 1)))}
	b.table = newMemory(cfg.tableSettings(), func() time.Time { return tableEpoch.Add(b.now) })
	const beats = 10
	b.until(func(*storeCall) bool { return b.now >= beats*cfg.Heartbeat })
	if looks := b.core.ledger.stats.Looks; looks < beats || looks > beats*looksPerBeat*5/4 {
		t.Errorf("%d looks in %d heartbeats", looks, beats)
	}
}
