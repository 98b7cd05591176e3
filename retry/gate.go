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
	// keyParamBytes is the number of bytes of a statement's parameters that are hashed for the ContentionKey.
	keyParamBytes = 1 << 10
	// maxPasses bounds the number of transactions that have or await a GatePass, the right to compete for rows.
	maxPasses = 8 << 10
)

// ContentionKey identifies the rows for which a transaction competes. ContentionKey is a hash of the transaction's
// first statement that locks or changes existing rows.
type ContentionKey uint64

// ConflictGate orders the transactions of a process that want the same rows. Without a ConflictGate, new transactions
// could make a replay conflict for ever.
//
// A replay takes a GatePass, the right to compete for the rows of its ContentionKey. From then on every transaction
// with that key takes a GatePass too. It waits in line while as many passes are held as the window allows. The
// window is one transaction wide at first, and widens while transactions end without a conflict. The queue closes
// when the window is so wide that none waits. So a contended key is served one transaction after the other, and
// transactions with other keys are not slowed.
type ConflictGate struct {
	// keys is the number of keys that have a queue of transactions.
	keys atomic.Int64
	seed maphash.Seed
	hold time.Duration

	mu     sync.Mutex
	queues map[ContentionKey]*keyQueue
	passes int // held or in line
}

// keyQueue is the line of transactions that want the rows of one ContentionKey. It closes when none waits and either
// no GatePass is held or cleanEndsToClose transactions have ended without a conflict.
type keyQueue struct {
	concurrencyWindow
	key    ContentionKey
	out    int
	closed bool // passes may still be held
	// sole is the GatePass of a replay that must run alone, or nil. While sole is held, no other GatePass for the key is
	// granted.
	sole *GatePass
	// replays are the waiting replays. They go before newcomers, which are transactions that had no conflict. Both
	// lists hold values of type *GatePass.
	replays, newcomers list.List
}

// NewConflictGate returns a ConflictGate that takes a GatePass, a right to compete for rows, back after c.GateHold.
// So a client that pauses within its transaction delays others no longer than GateHold.
func NewConflictGate(c Config) *ConflictGate {
	return &ConflictGate{seed: maphash.MakeSeed(), hold: c.GateHold, queues: map[ContentionKey]*keyQueue{}}
}

// NewContentionKey returns the ContentionKey of a statement with its parameters in wire format. Only the first
// keyParamBytes of the parameters count.
func NewContentionKey[T string | []byte](g *ConflictGate, text T, params []byte) ContentionKey {
	parts := [2]uint64{1: maphash.Bytes(g.seed, params[:min(len(params), keyParamBytes)])}
	switch text := any(text).(type) {
	case string:
		parts[0] = maphash.String(g.seed, text)
	case []byte:
		parts[0] = maphash.Bytes(g.seed, text)
	}
	return ContentionKey(maphash.Comparable(g.seed, parts))
}

// Idle reports whether no ContentionKey has a queue of transactions.
func (g *ConflictGate) Idle() bool { return g.keys.Load() == 0 }

// GateStats is a snapshot of a ConflictGate.
type GateStats struct {
	// Keys is the number of ContentionKeys that have a queue. Waiting is the number of transactions in these queues.
	Keys, Waiting int
}

// Stats returns a snapshot of the ConflictGate.
func (g *ConflictGate) Stats() GateStats {
	if g.Idle() {
		return GateStats{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := GateStats{Keys: len(g.queues)}
	for _, q := range g.queues {
		s.Waiting += q.waitingCount()
	}
	return s
}

// GatePass is the right of a transaction to compete for the rows of a key while other transactions wait. A nil
// GatePass gives no right.
type GatePass struct {
	gate    *ConflictGate
	queue   *keyQueue
	alone   bool
	out     bool
	lost    bool          // it met a conflict
	ended   bool          // Release was called
	version int           // version of the window that granted it
	granted chan struct{} // closed when the pass is granted; nil if it was granted at once
	lapse   *time.Timer
}

// AcquireForReplay gets a GatePass for a replay after a conflict. It waits for the replay's turn, ahead of
// transactions without a conflict. If ctx ends first, it returns the cause. If alone is true, it waits until no other
// pass for key is held, and none is granted meanwhile. The pass is nil if the gate has reached maxPasses.
func (g *ConflictGate) AcquireForReplay(ctx context.Context, key ContentionKey, alone bool) (*GatePass, error) {
	g.mu.Lock()
	q := g.queues[key]
	if g.passes == maxPasses {
		g.mu.Unlock()
		return nil, nil
	}
	if q == nil {
		q = &keyQueue{concurrencyWindow: newConcurrencyWindow(), key: key}
		g.queues[key] = q
		g.keys.Add(1)
	}
	return g.enqueueAndWait(ctx, &GatePass{gate: g, queue: q, alone: alone}, &q.replays)
}

// WaitIfContended gets a GatePass for a transaction that is about to send key's statement for the first time. If key
// has no queue, WaitIfContended returns at once, without a pass. Otherwise it waits for the transaction's turn. A
// caller that gives up the wait may go on without a pass, as if key had no queue.
func (g *ConflictGate) WaitIfContended(ctx context.Context, key ContentionKey) (*GatePass, error) {
	if g.Idle() {
		return nil, nil
	}
	g.mu.Lock()
	q := g.queues[key]
	if q == nil || g.passes == maxPasses {
		g.mu.Unlock()
		return nil, nil
	}
	return g.enqueueAndWait(ctx, &GatePass{gate: g, queue: q}, &q.newcomers)
}

// enqueueAndWait puts p in line and waits until p is granted. The caller holds g.mu, and enqueueAndWait unlocks it.
func (g *ConflictGate) enqueueAndWait(ctx context.Context, p *GatePass, line *list.List) (*GatePass, error) {
	g.passes++
	place := line.PushBack(p)
	g.grantPassesLocked(p.queue)
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
	case <-p.granted: // granted at the same moment
		return p, nil
	default:
	}
	line.Remove(place)
	g.passes--
	g.grantPassesLocked(p.queue) // those behind it, if it excluded others
	return nil, context.Cause(ctx)
}

func (q *keyQueue) waitingCount() int { return q.replays.Len() + q.newcomers.Len() }

// grantPassesLocked grants GatePasses while q's window has room. It closes the queue if that is no longer needed.
func (g *ConflictGate) grantPassesLocked(q *keyQueue) {
	for q.out < q.width && q.sole == nil {
		line := &q.replays
		if line.Len() == 0 {
			line = &q.newcomers
		}
		first := line.Front()
		if first == nil {
			break
		}
		p := first.Value.(*GatePass)
		if p.alone && q.out > 0 {
			break
		}
		line.Remove(first)
		g.grantLocked(q, p)
	}
	if !q.closed && q.waitingCount() == 0 && (q.out == 0 || q.calm >= cleanEndsToClose) {
		q.closed = true
		delete(g.queues, q.key)
		g.keys.Add(-1)
	}
}

// grantLocked grants the GatePass p, which expires after the gate's hold time (Config.GateHold).
func (g *ConflictGate) grantLocked(q *keyQueue, p *GatePass) {
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

// returnLocked takes back a held GatePass, and grants passes to transactions that wait for the same rows.
func (p *GatePass) returnLocked() {
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
	p.gate.grantPassesLocked(q)
}

// IsHeld reports whether the transaction still holds the GatePass, its right to compete for rows. A pass expires
// after GateHold, and a conflict may end it.
func (p *GatePass) IsHeld() bool {
	if p == nil {
		return false
	}
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	return p.out
}

// RecordConflict records that this GatePass's transaction met a conflict. It returns the number of transactions in
// line for the key. If other passes for the key are held, this pass is taken back and the replay takes a new one.
// Otherwise the conflicting transaction is in another process. Then the replay retains its pass, so that no
// transaction of this process delays it.
func (p *GatePass) RecordConflict() (waiting int) {
	if p == nil {
		return 0
	}
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	p.lost = true
	p.queue.recordConflictAt(p.version)
	if p.queue.out > 1 {
		p.returnLocked()
	}
	return p.queue.waitingCount()
}

// Release ends the GatePass when its transaction ends. Repeated calls have no effect.
func (p *GatePass) Release() {
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
		p.queue.recordCleanEnd(p.version) // an expired pass counts too: a slow transaction is not a conflict
		if !p.out {
			p.gate.grantPassesLocked(p.queue)
		}
	}
	p.returnLocked()
}
