package retry

import (
	"container/list"
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// keyedBytes is how much of a statement's parameters counts for its key.
	keyedBytes = 1 << 10
	// maxPasses bounds the transactions that hold or await a pass.
	maxPasses = 8 << 10
)

// Key stands for what a transaction fights for: its first statement that locks
// or writes.
type Key uint64

// Gate orders the transactions of a process that fight for the same rows.
// Without it a replay loses to newcomers for ever. A replay takes a pass for its
// key; while one is out, whoever comes with the same key waits in line and holds
// the pass in turn. So a key that is fought for is served one transaction after
// the other, and one that is not is not slowed.
type Gate struct {
	// keys is how many have a pass out.
	keys atomic.Int64
	seed maphash.Seed
	hold time.Duration

	mu     sync.Mutex
	queues map[Key]*queue
	passes int // out and awaited
}

// queue is the line for one key.
type queue struct {
	holder  *Pass
	waiting list.List // of *Pass
}

// NewGate returns a gate whose passes lapse after c.GateHold: a client that
// stops in the middle of its transaction holds nobody up for longer.
func NewGate(c Config) *Gate {
	return &Gate{seed: maphash.MakeSeed(), hold: c.GateHold, queues: map[Key]*queue{}}
}

// KeyOf returns the key of a statement and its parameters, as they are on the
// wire. Only the first kilobyte of the parameters counts.
func KeyOf[T string | []byte](g *Gate, text T, params []byte) Key {
	parts := [2]uint64{1: maphash.Bytes(g.seed, params[:min(len(params), keyedBytes)])}
	switch text := any(text).(type) {
	case string:
		parts[0] = maphash.String(g.seed, text)
	case []byte:
		parts[0] = maphash.Bytes(g.seed, text)
	}
	return Key(maphash.Comparable(g.seed, parts))
}

// Idle reports whether no pass is out: nobody waits at an idle gate.
func (g *Gate) Idle() bool { return g.keys.Load() == 0 }

// Pass is the right to fight for a key while others wait. A nil Pass is none.
type Pass struct {
	gate    *Gate
	key     Key
	granted chan struct{} // closed when its turn has come; nil when it came at once
	lapse   *time.Timer
}

// Enter is for a replay. It waits for its turn and returns a pass, or the cause
// why ctx ended. The pass is nil at a gate that has too many in line already.
func (g *Gate) Enter(ctx context.Context, key Key) (*Pass, error) {
	return g.enter(ctx, key, true)
}

// Follow is for a transaction about to send the statement of its key for the
// first time. It returns at once, without a pass, when none is out for the key;
// else it waits as Enter does. Whoever gives up waiting may go on without a
// pass: that is no worse than having come earlier.
func (g *Gate) Follow(ctx context.Context, key Key) (*Pass, error) {
	if g.Idle() {
		return nil, nil
	}
	return g.enter(ctx, key, false)
}

func (g *Gate) enter(ctx context.Context, key Key, first bool) (*Pass, error) {
	g.mu.Lock()
	q := g.queues[key]
	if q == nil && !first || g.passes == maxPasses {
		g.mu.Unlock()
		return nil, nil
	}
	g.passes++
	p := &Pass{gate: g, key: key}
	if q == nil {
		q = new(queue)
		g.queues[key] = q
		g.keys.Add(1)
		g.grantLocked(q, p)
		g.mu.Unlock()
		return p, nil
	}
	p.granted = make(chan struct{})
	place := q.waiting.PushBack(p)
	g.mu.Unlock()

	select {
	case <-p.granted:
		return p, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-p.granted: // in the same moment
		return p, nil
	default:
	}
	q.waiting.Remove(place)
	g.passes--
	return nil, context.Cause(ctx)
}

// grantLocked makes p the holder of its key.
func (g *Gate) grantLocked(q *queue, p *Pass) {
	q.holder = p
	p.lapse = time.AfterFunc(g.hold, p.Release)
	if p.granted != nil {
		close(p.granted)
	}
}

// Held reports whether the pass is out still: it lapses when it is held for too
// long.
func (p *Pass) Held() bool {
	if p == nil {
		return false
	}
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	q := p.gate.queues[p.key]
	return q != nil && q.holder == p
}

// Release ends the pass and lets the next in line go. Once is enough; more does
// no harm.
func (p *Pass) Release() {
	if p == nil {
		return
	}
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.queues[p.key]
	if q == nil || q.holder != p {
		return // lapsed, or released before
	}
	p.lapse.Stop()
	g.passes--
	if next := q.waiting.Front(); next != nil {
		g.grantLocked(q, q.waiting.Remove(next).(*Pass))
		return
	}
	delete(g.queues, p.key)
	g.keys.Add(-1)
}
