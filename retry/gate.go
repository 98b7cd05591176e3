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
// or changes rows that exist.
type Key uint64

// Gate orders the transactions of a process that fight for the same rows.
// Without it a replay loses to newcomers for ever. A replay takes a pass for its
// key; from then on whoever comes with the same key takes one too, and waits in
// line for it while a window full of them is out. The window is one transaction
// wide at first, widens while they end without a conflict, and is gone when it is
// so wide that nobody waits. So a key that is fought for is served one transaction
// after the other, and one that is not is not slowed.
type Gate struct {
	// keys is how many have a queue.
	keys atomic.Int64
	seed maphash.Seed
	hold time.Duration

	mu     sync.Mutex
	queues map[Key]*queue
	passes int // out and awaited
}

// queue is the line for one key. It is closed as soon as no pass is out or awaited.
type queue struct {
	window
	key    Key
	out    int
	closed bool // passes may be out still
	// sole is the pass that is out and suffers no other; nil for none.
	sole *Pass
	// Replays go ahead of newcomers. Of *Pass.
	replays, newcomers list.List
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

// Idle reports whether there is no queue: nobody waits at an idle gate.
func (g *Gate) Idle() bool { return g.keys.Load() == 0 }

// GateStats is a snapshot of a gate.
type GateStats struct {
	// Keys are those that have a queue. Waiting are the transactions in line.
	Keys, Waiting int
}

// Stats counts who is at the gate.
func (g *Gate) Stats() GateStats {
	if g.Idle() {
		return GateStats{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := GateStats{Keys: len(g.queues)}
	for _, q := range g.queues {
		s.Waiting += q.waiting()
	}
	return s
}

// Pass is the right to fight for a key while others wait. A nil Pass is none.
type Pass struct {
	gate    *Gate
	queue   *queue
	alone   bool
	out     bool
	lost    bool          // it met a conflict
	ended   bool          // Release was called
	version int           // of the window that let it out
	granted chan struct{} // closed when its turn has come; nil when it came at once
	lapse   *time.Timer
}

// Enter is for a replay after a conflict. It waits for its turn, ahead of
// newcomers, and returns a pass, or the cause why ctx ended; alone, it waits until
// no other pass is out, and none is given out beside it. The pass is nil at a gate
// that has too many in line already.
func (g *Gate) Enter(ctx context.Context, key Key, alone bool) (*Pass, error) {
	g.mu.Lock()
	q := g.queues[key]
	if g.passes == maxPasses {
		g.mu.Unlock()
		return nil, nil
	}
	if q == nil {
		q = &queue{window: newWindow(), key: key}
		g.queues[key] = q
		g.keys.Add(1)
	}
	return g.await(ctx, &Pass{gate: g, queue: q, alone: alone}, &q.replays)
}

// Follow is for a transaction about to send the statement of its key for the
// first time. It returns at once, without a pass, when there is no queue for the
// key; else it waits for its turn as a replay does. Whoever gives up waiting may go
// on without a pass: that is no worse than having come earlier.
func (g *Gate) Follow(ctx context.Context, key Key) (*Pass, error) {
	if g.Idle() {
		return nil, nil
	}
	g.mu.Lock()
	q := g.queues[key]
	if q == nil || g.passes == maxPasses {
		g.mu.Unlock()
		return nil, nil
	}
	return g.await(ctx, &Pass{gate: g, queue: q}, &q.newcomers)
}

// await puts p in line and waits for its turn. It is called with the lock, and
// gives the lock back.
func (g *Gate) await(ctx context.Context, p *Pass, line *list.List) (*Pass, error) {
	g.passes++
	place := line.PushBack(p)
	g.serveLocked(p.queue)
	if p.out {
		g.mu.Unlock()
		return p, nil
	}
	p.queue.calm = 0
	p.granted = make(chan struct{})
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
	line.Remove(place)
	g.passes--
	g.serveLocked(p.queue) // those behind it, if it wanted to be alone
	return nil, context.Cause(ctx)
}

func (q *queue) waiting() int { return q.replays.Len() + q.newcomers.Len() }

// serveLocked gives out the passes that the window has room for, and closes the
// queue when nobody needs it.
func (g *Gate) serveLocked(q *queue) {
	for q.out < q.width && q.sole == nil {
		line := &q.replays
		if line.Len() == 0 {
			line = &q.newcomers
		}
		first := line.Front()
		if first == nil {
			break
		}
		p := first.Value.(*Pass)
		if p.alone && q.out > 0 {
			break
		}
		line.Remove(first)
		g.grantLocked(q, p)
	}
	if !q.closed && q.waiting() == 0 && (q.out == 0 || q.calm >= calmEnough) {
		q.closed = true
		delete(g.queues, q.key)
		g.keys.Add(-1)
	}
}

// grantLocked gives p out.
func (g *Gate) grantLocked(q *queue, p *Pass) {
	q.out++
	p.out, p.version = true, q.version
	if p.alone {
		q.sole = p
	}
	p.lapse = time.AfterFunc(g.hold, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		p.returnLocked()
	})
	if p.granted != nil {
		close(p.granted)
	}
}

// returnLocked takes a pass back, if it is out, and lets others go.
func (p *Pass) returnLocked() {
	if !p.out {
		return
	}
	q := p.queue
	p.out = false
	p.lapse.Stop()
	p.gate.passes--
	q.out--
	if q.sole == p {
		q.sole = nil
	}
	p.gate.serveLocked(q)
}

// Held reports whether the pass is out still: it lapses when it is held for too
// long, and may be lost by a conflict.
func (p *Pass) Held() bool {
	if p == nil {
		return false
	}
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	return p.out
}

// Conflicted tells the gate that the holder met a conflict. If others of its key
// are under way, the pass goes back, and the replay takes a new one. If not, the
// other party is not of this process: the replay keeps its pass, so that nobody of
// this process stands in its way. Conflicted returns how many wait in line for the key.
func (p *Pass) Conflicted() (waiting int) {
	if p == nil {
		return 0
	}
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	p.lost = true
	p.queue.conflicted(p.version)
	if p.queue.out > 1 {
		p.returnLocked()
	}
	return p.queue.waiting()
}

// Release ends the pass with its transaction. Once is enough; more does no harm.
func (p *Pass) Release() {
	if p == nil {
		return
	}
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	if !p.lost {
		p.queue.ended(p.version) // also when it has lapsed: slow is not wrong
		if !p.out {
			p.gate.serveLocked(p.queue)
		}
	}
	p.returnLocked()
}
