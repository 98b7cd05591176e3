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
		first, err := g.Enter(ctx, 1, false)
		if err != nil || !first.Held() {
			t.Fatal(err)
		}
		if p, err := g.Follow(ctx, 2); p != nil || err != nil {
			t.Fatalf("a newcomer with another key: %v, %v", p, err)
		}
		var order []int // each writes it while it holds the pass
		var all sync.WaitGroup
		for i := range 9 {
			all.Go(func() {
				enter := g.Follow
				if i >= 6 { // replays go first
					enter = func(ctx context.Context, key Key) (*Pass, error) { return g.Enter(ctx, key, i == 8) }
				}
				p, err := enter(ctx, 1)
				if err != nil {
					t.Error(err)
				}
				order = append(order, i)
				time.Sleep(10 * time.Millisecond)
				if p.Conflicted(); !p.Held() { // of another process: the window stays
					t.Error("a pass is gone although no other is out")
				}
				p.Release()
			})
			synctest.Wait()
		}
		if len(order) != 0 {
			t.Fatalf("%v went before the pass came back", order)
		}
		if s := g.Stats(); s != (GateStats{Keys: 1, Waiting: 9}) {
			t.Errorf("%+v", s)
		}
		first.Conflicted()
		first.Release()
		first.Release()
		all.Wait()
		if !slices.Equal(order, []int{6, 7, 8, 0, 1, 2, 3, 4, 5}) {
			t.Fatalf("order %v", order)
		}
		g.empty(t)
	})
}

func TestGateGivingUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		holder, _ := g.Enter(t.Context(), 1, false)
		why := errors.New("cancelled by the client")
		ctx, cancel := context.WithCancelCause(t.Context())
		var gone sync.WaitGroup
		for range 10 {
			gone.Go(func() {
				if p, err := g.Enter(ctx, 1, true); p != nil || err != why {
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
		holder.Conflicted()
		holder.Release()
		p := <-patient
		if !p.Held() || holder.Held() {
			t.Fatal("the pass did not go to the one that waited on")
		}
		// Its turn comes in the moment in which it gives up: the pass must not be lost.
		ctx, cancel = context.WithCancelCause(t.Context())
		go func() {
			p, _ := g.Enter(ctx, 1, false)
			patient <- p
		}()
		synctest.Wait()
		g.mu.Lock()
		cancel(why)
		p.returnLocked()
		g.mu.Unlock()
		if p = <-patient; !p.Held() {
			t.Fatal("the pass is lost")
		}
		ctx, cancel = context.WithCancelCause(t.Context())
		cancel(why)
		if q, err := g.Enter(ctx, 1, false); q != nil || err != why {
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
					key := Key(random.IntN(3))
					p, _ := g.Follow(ctx, key)
					for range random.IntN(3) {
						time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
						if p.Conflicted(); !p.Held() {
							p, _ = g.Enter(ctx, key, random.IntN(2) == 0)
						}
					}
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
		stopped, _ := g.Enter(t.Context(), 1, false)
		next, err := g.Enter(t.Context(), 1, false)
		if waited := time.Since(start); err != nil || waited != DefaultGateHold {
			t.Fatalf("waited %v for a client that stopped, want %v: %v", waited, DefaultGateHold, err)
		}
		stopped.Release() // too late: not its pass any more, but an end without a conflict
		if stopped.Held() || !next.Held() {
			t.Fatal("a lapsed pass ends another's")
		}
		if w := next.queue.width; w != 2 {
			t.Errorf("the window is %d wide", w)
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
			passes[i], _ = g.Enter(t.Context(), Key(i), false)
		}
		if p, err := g.Enter(t.Context(), 0, true); p != nil || err != nil || p.Held() {
			t.Fatalf("one more: %v, %v", p, err)
		}
		if p, err := g.Follow(t.Context(), 0); p != nil || err != nil {
			t.Fatalf("one more: %v, %v", p, err)
		}
		for _, p := range passes {
			p.Release()
		}
		(*Pass)(nil).Release()
		g.empty(t)
	})
}

// The window is as wide as it says, a pass that wants to be alone is, and one of
// several that meets a conflict goes back.
func TestGateWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		var mu sync.Mutex // several are let in at once
		var passes []*Pass
		var alone *Pass
		follow := func() {
			go func() {
				if p, err := g.Follow(t.Context(), 1); err == nil {
					mu.Lock()
					passes = append(passes, p)
					mu.Unlock()
				}
			}()
			synctest.Wait()
		}
		first, _ := g.Enter(t.Context(), 1, false)
		for range 5 {
			follow()
		}
		first.Release() // one clean end: the window is two wide
		synctest.Wait()
		if len(passes) != 2 || g.Stats().Waiting != 3 {
			t.Fatalf("%d have a pass, %d wait", len(passes), g.Stats().Waiting)
		}
		passes[0].Conflicted()
		passes[0].Conflicted() // once is enough
		synctest.Wait()
		if passes[0].Held() || !passes[1].Held() || len(passes) != 2 {
			t.Fatal("with a conflict the window is one wide again")
		}
		go func() { alone, _ = g.Enter(t.Context(), 1, true) }()
		synctest.Wait()
		passes[1].Release()
		synctest.Wait()
		if !alone.Held() || len(passes) != 2 {
			t.Fatal("a replay that is alone does not go first")
		}
		alone.queue.width = 8
		follow()
		if len(passes) != 2 {
			t.Fatal("a replay is not alone")
		}
		alone.Release()
		synctest.Wait()
		if len(passes) != 6 || g.Stats().Waiting != 0 {
			t.Fatalf("%d have a pass, %d wait", len(passes), g.Stats().Waiting)
		}
		for _, p := range passes {
			p.Release()
		}
		g.empty(t)
	})
}

// A gate closes as soon as nobody has waited for a while, also for those that have
// a pass then.
func TestGateCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		p, _ := g.Enter(t.Context(), 1, false)
		p.queue.width = 2
		for n := 0; !g.Idle(); n++ {
			next, err := g.Follow(t.Context(), 1)
			if err != nil || n > calmEnough {
				t.Fatal("still open", n, err)
			}
			p.Release()
			p = next
		}
		if !p.Held() {
			t.Fatal("the pass that is out is lost")
		}
		if next, err := g.Follow(t.Context(), 1); next != nil || err != nil {
			t.Fatal(next, err)
		}
		p.Conflicted()
		p.Release()
		g.empty(t)
	})
}
