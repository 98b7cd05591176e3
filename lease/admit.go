package lease

import (
	"context"
	"time"
)

// A Permit is the right to dial one backend and to keep it open. It ends with
// exactly one Release, when the backend's socket is closed or was never opened.
type Permit struct {
	lease    *Lease // nil: nothing is shared
	released bool
}

// Admit waits until a backend may be dialled: a slot is free for it, and the cluster's rate allows
// one more. The dial should begin at once. wanted, at least 1, is the number of dials that the
// caller would make now, this one included. Admit reserves that many with one call of the table. It
// fails when ctx ends, or with ErrClosed. It can take seconds: a client's request must not wait for
// it.
func (l *Lease) Admit(ctx context.Context, wanted int) (*Permit, error) {
	w := waiter{lease: l, wanted: max(1, wanted)}
	w.enter()
	defer w.exit()
	for {
		granted, wake, changed, err := w.try()
		if granted || err != nil {
			return w.permit(), err
		}
		if err := await(ctx, wake, changed); err != nil {
			return nil, err
		}
	}
}

// Release returns the slot. It never blocks: the table is updated later. A second call panics,
// because two backends would be open with one slot.
func (p *Permit) Release() {
	if p.lease == nil {
		p.once()
		return
	}
	l := p.lease
	l.mu.Lock()
	p.once()
	l.core.release()
	l.wakeLocked()
	l.mu.Unlock()
	l.poke()
}

func (p *Permit) once() {
	if p.released {
		panic("lease: a permit was released twice")
	}
	p.released = true
}

// recheck is the longest sleep of an Admit: the answer may change with time alone.
const recheck = time.Second

// waiter is a running Admit.
type waiter struct {
	lease   *Lease
	wanted  int
	slot    bool // it has a slot
	granted bool
}

func (w *waiter) enter() {
	l := w.lease
	l.mu.Lock()
	l.core.ledger.demand += w.wanted
	l.core.tickets.demand += w.wanted
	l.mu.Unlock()
	l.poke()
}

// exit withdraws the demand of an Admit, and releases a slot that led to no permit.
func (w *waiter) exit() {
	l := w.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	l.core.tickets.demand -= w.wanted
	if w.slot {
		w.hold(false)
		if !w.granted {
			l.core.releaseSlot()
			l.wakeLocked()
		}
	}
	l.core.ledger.demand -= w.wanted
}

// try takes the slot first, and the ticket next. It checks the slot again, because the lease may
// have been lost while the Admit waited.
func (w *waiter) try() (granted bool, wake time.Duration, changed <-chan struct{}, err error) {
	l := w.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false, 0, nil, ErrClosed
	}
	now := l.clock()
	defer l.poke()
	if w.slot && !l.core.valid(now) {
		w.hold(false)
		l.core.releaseSlot()
	}
	if !w.slot {
		if !l.core.takeSlot(now) {
			return false, recheck, l.changed, nil
		}
		w.hold(true)
	}
	ok, at := l.core.takeTicket(now)
	if !ok {
		return false, min(recheck, at-now), l.changed, nil
	}
	w.granted = true
	return true, 0, nil, nil
}

// hold records that the waiter got or lost its slot.
func (w *waiter) hold(slot bool) {
	n := 1
	if !slot {
		n = -1
	}
	w.slot = slot
	w.lease.core.ledger.demand -= n
	w.lease.core.tickets.holders += n
}

func (w *waiter) permit() *Permit {
	if !w.granted {
		return nil
	}
	return &Permit{lease: w.lease}
}

// await waits for a change, for wake to pass, or for the end of ctx.
func await(ctx context.Context, wake time.Duration, changed <-chan struct{}) error {
	timer := time.NewTimer(wake)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
	case <-timer.C:
	}
	return nil
}
