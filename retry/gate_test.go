package retry

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func newGate(t testing.TB) *Gate {
	t.Helper()
	return NewGate(Defaults())
}

// empty fails the test when the gate still knows somebody.
func (g *Gate) empty(t *testing.T) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.Idle() || len(g.queues) != 0 || g.passes != 0 {
		t.Errorf("%d keys, %d queues and %d passes leaked", g.keys.Load(), len(g.queues), g.passes)
	}
}

func TestGateKeys(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	same := KeyOf(g, "UPDATE t", []byte("1"))
	if KeyOf(g, []byte("UPDATE t"), []byte("1")) != same {
		t.Error("the key depends on the type of the text")
	}
	for _, other := range []Key{KeyOf(g, "UPDATE t", []byte("2")), KeyOf(g, "UPDATE t1", nil), KeyOf(g, "UPDATE t", nil),
		KeyOf(g, "1", []byte("UPDATE t"))} {
		if other == same {
			t.Error("two statements have one key")
		}
	}
	long := make([]byte, keyedBytes+5)
	if KeyOf(g, "", long) != KeyOf(g, "", long[:keyedBytes]) {
		t.Error("more than the first bytes count")
	}
}

func TestGateIsFirstInFirstOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		ctx := t.Context()
		if p, err := g.Follow(ctx, 1); p != nil || err != nil {
			t.Fatalf("a newcomer at an idle gate: %v, %v", p, err)
		}
		first, err := g.Enter(ctx, 1)
		if err != nil || !first.Held() {
			t.Fatal(err)
		}
		if p, err := g.Follow(ctx, 2); p != nil || err != nil {
			t.Fatalf("a newcomer with another key: %v, %v", p, err)
		}
		var order []int // each writes it while it holds the pass
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				enter := g.Enter
				if i%2 == 0 {
					enter = g.Follow
				}
				p, err := enter(ctx, 1)
				if err != nil {
					t.Error(err)
				}
				order = append(order, i)
				time.Sleep(10 * time.Millisecond)
				p.Release()
			})
			synctest.Wait()
		}
		if len(order) != 0 {
			t.Fatalf("%v went before the pass came back", order)
		}
		first.Release()
		first.Release()
		all.Wait()
		if !slices.Equal(order, []int{0, 1, 2, 3, 4, 5}) {
			t.Fatalf("order %v", order)
		}
		g.empty(t)
	})
}

func TestGateGivingUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		holder, _ := g.Enter(t.Context(), 1)
		why := errors.New("cancelled by the client")
		ctx, cancel := context.WithCancelCause(t.Context())
		var gone sync.WaitGroup
		for range 10 {
			gone.Go(func() {
				if p, err := g.Enter(ctx, 1); p != nil || err != why {
					t.Errorf("%v, %v", p, err)
				}
			})
		}
		patient := make(chan *Pass)
		go func() {
			p, _ := g.Follow(t.Context(), 1)
			patient <- p
		}()
		synctest.Wait()
		cancel(why)
		gone.Wait()
		holder.Release()
		p := <-patient
		if !p.Held() || holder.Held() {
			t.Fatal("the pass did not go to the one that waited on")
		}
		// Its turn comes in the moment in which it gives up: the pass must not be lost.
		ctx, cancel = context.WithCancelCause(t.Context())
		go func() {
			p, _ := g.Enter(ctx, 1)
			patient <- p
		}()
		synctest.Wait()
		g.mu.Lock()
		cancel(why)
		q := g.queues[1]
		p.lapse.Stop()
		g.passes--
		g.grantLocked(q, q.waiting.Remove(q.waiting.Front()).(*Pass))
		g.mu.Unlock()
		if p = <-patient; !p.Held() {
			t.Fatal("the pass is lost")
		}
		ctx, cancel = context.WithCancelCause(t.Context())
		cancel(why)
		if q, err := g.Enter(ctx, 1); q != nil || err != why {
			t.Fatalf("%v, %v", q, err)
		}
		p.Release()
		g.empty(t)
	})
}

// A race of giving up and being served, for the race detector and for leaks.
func TestGateStorm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(uint64(i), 1))
				for range 20 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(5))*time.Millisecond)
					enter := g.Enter
					if random.IntN(2) == 0 {
						enter = g.Follow
					}
					p, _ := enter(ctx, Key(random.IntN(3)))
					time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
					p.Release()
					cancel()
				}
			})
		}
		all.Wait()
		g.empty(t)
	})
}

func TestGatePassLapses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		start := time.Now()
		stopped, _ := g.Enter(t.Context(), 1)
		next, err := g.Enter(t.Context(), 1)
		if waited := time.Since(start); err != nil || waited != DefaultGateHold {
			t.Fatalf("waited %v for a client that stopped, want %v: %v", waited, DefaultGateHold, err)
		}
		stopped.Release() // too late: not its pass any more
		if stopped.Held() || !next.Held() {
			t.Fatal("a lapsed pass ends another's")
		}
		next.Release()
		g.empty(t)
	})
}

func TestGateIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		passes := make([]*Pass, maxPasses)
		for i := range passes {
			passes[i], _ = g.Enter(t.Context(), Key(i))
		}
		for _, enter := range []func(context.Context, Key) (*Pass, error){g.Enter, g.Follow} {
			if p, err := enter(t.Context(), 0); p != nil || err != nil || p.Held() {
				t.Fatalf("one more: %v, %v", p, err)
			}
		}
		for _, p := range passes {
			p.Release()
		}
		(*Pass)(nil).Release()
		g.empty(t)
	})
}

// contention lets clients fight for one row on a database where the first
// committer wins, and returns how many transactions their clients saw fail.
func contention(t *testing.T, gated bool) (failed, committed int) {
	c := Defaults()
	g, b := NewGate(c), NewBudget(c, time.Now)
	version := 0 // of the row
	var mu sync.Mutex
	// attempt runs a transaction and reports whether it committed.
	attempt := func() bool {
		mu.Lock()
		snapshot := version
		mu.Unlock()
		time.Sleep(time.Duration(2+rand.IntN(6)) * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		if version != snapshot {
			return false
		}
		version++
		return true
	}
	work := func() bool {
		var pass *Pass
		if gated {
			pass, _ = g.Follow(t.Context(), 1)
		}
		defer func() { pass.Release() }()
		var a Attempts
		for !attempt() {
			pause, why := a.Next(&c.Policy, DataConflict, time.Now(), rand.Float64())
			if why != Replayable || !b.Take() {
				return false
			}
			time.Sleep(pause)
			if gated && !pass.Held() {
				ctx, cancel := context.WithDeadline(t.Context(), a.Deadline(&c.Policy))
				var err error
				pass, err = g.Enter(ctx, 1)
				cancel()
				if err != nil {
					return false
				}
			}
		}
		b.Committed()
		return true
	}
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for range 100 {
				done := work()
				mu.Lock()
				if done {
					committed++
				} else {
					failed++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	g.empty(t)
	if version != committed {
		t.Errorf("%d committed, the row says %d", committed, version)
	}
	return failed, committed
}

// Feature: dsql-locking-compatibility, Property 4: Concurrency safety: of
// transactions that fight for one row all commit, one after the other, when the
// gate orders them; without it most conflicts reach their clients.
func TestGateEndsTheFight(t *testing.T) {
	t.Parallel()
	for _, gated := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			failed, committed := contention(t, gated)
			t.Logf("gate %v: %d committed in %v, %d told of a conflict", gated, committed, time.Since(start), failed)
			if gated && failed > 0 || !gated && failed < 50 {
				t.Errorf("gate %v: %d transactions failed", gated, failed)
			}
		})
	}
}
