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

func newGate(t testing.TB) *ConflictGate {
	t.Helper()
	return NewConflictGate(Defaults())
}

// empty fails the test when the gate still knows somebody.
func (g *ConflictGate) empty(t *testing.T) {
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
	same := NewContentionKey(g, "UPDATE t", []byte("1"))
	if NewContentionKey(g, []byte("UPDATE t"), []byte("1")) != same {
		t.Error("the key depends on the type of the text")
	}
	for _, other := range []ContentionKey{NewContentionKey(g, "UPDATE t", []byte("2")), NewContentionKey(g, "UPDATE t1", nil), NewContentionKey(g, "UPDATE t", nil),
		NewContentionKey(g, "1", []byte("UPDATE t"))} {
		if other == same {
			t.Error("two statements have one key")
		}
	}
	long := make([]byte, keyParamBytes+5)
	if NewContentionKey(g, "", long) != NewContentionKey(g, "", long[:keyParamBytes]) {
		t.Error("more than the first bytes count")
	}
}

func TestGateIsFirstInFirstOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		ctx := t.Context()
		if p, err := g.WaitIfContended(ctx, 1); p != nil || err != nil {
			t.Fatalf("a newcomer at an idle gate: %v, %v", p, err)
		}
		first, err := g.AcquireForReplay(ctx, 1, false)
		if err != nil || !first.IsHeld() {
			t.Fatal(err)
		}
		if p, err := g.WaitIfContended(ctx, 2); p != nil || err != nil {
			t.Fatalf("a newcomer with another key: %v, %v", p, err)
		}
		var order []int // each writes it while it holds the pass
		var all sync.WaitGroup
		for i := range 9 {
			all.Go(func() {
				enter := g.WaitIfContended
				if i >= 6 { // replays go first
					enter = func(ctx context.Context, key ContentionKey) (*GatePass, error) {
						return g.AcquireForReplay(ctx, key, i == 8)
					}
				}
				p, err := enter(ctx, 1)
				if err != nil {
					t.Error(err)
				}
				order = append(order, i)
				time.Sleep(10 * time.Millisecond)
				if p.RecordConflict(); !p.IsHeld() { // of another process: the window stays
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
		first.RecordConflict()
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
		holder, _ := g.AcquireForReplay(t.Context(), 1, false)
		why := errors.New("cancelled by the client")
		ctx, cancel := context.WithCancelCause(t.Context())
		var gone sync.WaitGroup
		for range 10 {
			gone.Go(func() {
				if p, err := g.AcquireForReplay(ctx, 1, true); p != nil || err != why {
					t.Errorf("%v, %v", p, err)
				}
			})
		}
		patient := make(chan *GatePass)
		go func() {
			p, _ := g.WaitIfContended(t.Context(), 1)
			patient <- p
		}()
		synctest.Wait()
		cancel(why)
		gone.Wait()
		holder.RecordConflict()
		holder.Release()
		p := <-patient
		if !p.IsHeld() || holder.IsHeld() {
			t.Fatal("the pass did not go to the one that waited on")
		}
		// Its turn comes in the moment in which it gives up: the pass must not be lost.
		ctx, cancel = context.WithCancelCause(t.Context())
		go func() {
			p, _ := g.AcquireForReplay(ctx, 1, false)
			patient <- p
		}()
		synctest.Wait()
		g.mu.Lock()
		cancel(why)
		p.returnLocked()
		g.mu.Unlock()
		if p = <-patient; !p.IsHeld() {
			t.Fatal("the pass is lost")
		}
		ctx, cancel = context.WithCancelCause(t.Context())
		cancel(why)
		if q, err := g.AcquireForReplay(ctx, 1, false); q != nil || err != why {
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
					key := ContentionKey(random.IntN(3))
					p, _ := g.WaitIfContended(ctx, key)
					for range random.IntN(3) {
						time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
						if p.RecordConflict(); !p.IsHeld() {
							p, _ = g.AcquireForReplay(ctx, key, random.IntN(2) == 0)
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
		stopped, _ := g.AcquireForReplay(t.Context(), 1, false)
		next, err := g.AcquireForReplay(t.Context(), 1, false)
		if waited := time.Since(start); err != nil || waited != DefaultGateHold {
			t.Fatalf("waited %v for a client that stopped, want %v: %v", waited, DefaultGateHold, err)
		}
		stopped.Release() // too late: not its pass any more, but an end without a conflict
		if stopped.IsHeld() || !next.IsHeld() {
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
		passes := make([]*GatePass, maxPasses)
		for i := range passes {
			passes[i], _ = g.AcquireForReplay(t.Context(), ContentionKey(i), false)
		}
		if p, err := g.AcquireForReplay(t.Context(), 0, true); p != nil || err != nil || p.IsHeld() {
			t.Fatalf("one more: %v, %v", p, err)
		}
		if p, err := g.WaitIfContended(t.Context(), 0); p != nil || err != nil {
			t.Fatalf("one more: %v, %v", p, err)
		}
		for _, p := range passes {
			p.Release()
		}
		(*GatePass)(nil).Release()
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
		var passes []*GatePass
		var alone *GatePass
		follow := func() {
			go func() {
				if p, err := g.WaitIfContended(t.Context(), 1); err == nil {
					mu.Lock()
					passes = append(passes, p)
					mu.Unlock()
				}
			}()
			synctest.Wait()
		}
		first, _ := g.AcquireForReplay(t.Context(), 1, false)
		for range 5 {
			follow()
		}
		first.Release() // one clean end: the window is two wide
		synctest.Wait()
		if len(passes) != 2 || g.Stats().Waiting != 3 {
			t.Fatalf("%d have a pass, %d wait", len(passes), g.Stats().Waiting)
		}
		passes[0].RecordConflict()
		passes[0].RecordConflict() // once is enough
		synctest.Wait()
		if passes[0].IsHeld() || !passes[1].IsHeld() || len(passes) != 2 {
			t.Fatal("with a conflict the window is one wide again")
		}
		go func() { alone, _ = g.AcquireForReplay(t.Context(), 1, true) }()
		synctest.Wait()
		passes[1].Release()
		synctest.Wait()
		if !alone.IsHeld() || len(passes) != 2 {
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
		p, _ := g.AcquireForReplay(t.Context(), 1, false)
		p.queue.width = 2
		for n := 0; !g.Idle(); n++ {
			next, err := g.WaitIfContended(t.Context(), 1)
			if err != nil || n > cleanEndsToClose {
				t.Fatal("still open", n, err)
			}
			p.Release()
			p = next
		}
		if !p.IsHeld() {
			t.Fatal("the pass that is out is lost")
		}
		if next, err := g.WaitIfContended(t.Context(), 1); next != nil || err != nil {
			t.Fatal(next, err)
		}
		p.RecordConflict()
		p.Release()
		g.empty(t)
	})
}
