package lease

import (
	"context"
	"time"
)

// A Permit is the right to dial one backend and to keep that backend open. The caller ends a Permit with exactly one
// Release, when the backend's socket is closed or was never opened.
type Permit struct {
	lease    *Lease // nil: nothing is shared
	released bool
}

// Admit waits until a backend may be dialled: a slot is free, and the cluster's connection rate allows one more
// dial. The caller should dial at once.
//
// wanted is the number of dials that the caller would make now, at least 1 for this one. So Run can reserve several
// slots or tickets (rights to dial once) with one call of DynamoDB. Admit fails when ctx ends, or with ErrClosed.
// Admit can take seconds, so a client's request must not wait for it.
func (l *Lease) Admit(ctx context.Context, wanted int) (*Permit, error) {
	w := admitWaiter{lease: l, wanted: max(1, wanted)}
	w.addDemand()
	defer w.withdrawDemand()
	for {
		granted, wake, changed, err := w.tryGrant()
		if granted || err != nil {
			return w.newPermit(), err
		}
		if err := waitForChange(ctx, wake, changed); err != nil {
			return nil, err
		}
	}
}

// Release returns the permit's slot. Release never blocks, because Lease.Run updates the DynamoDB table later. A
// second Release panics, because otherwise two backends could be open with one slot.
func (p *Permit) Release() {
	if p.lease == nil {
		p.markReleased()
		return
	}
	l := p.lease
	l.mu.Lock()
	p.markReleased()
	l.core.releasePermit()
	l.wakeAdmitsLocked()
	l.mu.Unlock()
	l.wakeRun()
}

func (p *Permit) markReleased() {
	if p.released {
		panic("lease: a permit was released twice")
	}
	p.released = true
}

// maxAdmitSleep is the longest sleep of a waiting Admit. Admit must wake up, because a slot or a ticket (right to
// dial once) may become usable by the passing of time alone.
const maxAdmitSleep = time.Second

// admitWaiter is the state of one running call of Lease.Admit, which waits for the permission to dial a backend.
type admitWaiter struct {
	lease   *Lease
	wanted  int
	slot    bool // this Admit has a slot
	granted bool
}

func (w *admitWaiter) addDemand() {
	l := w.lease
	l.mu.Lock()
	l.core.ledger.demand += w.wanted
	l.core.tickets.demand += w.wanted
	l.mu.Unlock()
	l.wakeRun()
}

// withdrawDemand ends the demand for a slot when a call of Admit ends. If the call got no permit, withdrawDemand also
// releases the slot that the call had taken.
func (w *admitWaiter) withdrawDemand() {
	l := w.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	l.core.tickets.demand -= w.wanted
	if w.slot {
		w.setSlot(false)
		if !w.granted {
			l.core.releaseSlot()
			l.wakeAdmitsLocked()
		}
	}
	l.core.ledger.demand -= w.wanted
}

// tryGrant takes a slot first and then a ticket, the right to dial once. If the lease has lost the slot that this
// call of Admit had taken, tryGrant first gives up that slot.
func (w *admitWaiter) tryGrant() (granted bool, wake time.Duration, changed <-chan struct{}, err error) {
	l := w.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false, 0, nil, ErrClosed
	}
	now := l.clock()
	defer l.wakeRun()
	if w.slot && !l.core.canStillDial(now) {
		w.setSlot(false)
		l.core.releaseSlot()
	}
	if !w.slot {
		if !l.core.takeSlot(now) {
			return false, maxAdmitSleep, l.changed, nil
		}
		w.setSlot(true)
	}
	ok, at := l.core.takeTicket(now)
	if !ok {
		return false, min(maxAdmitSleep, at-now), l.changed, nil
	}
	w.granted = true
	return true, 0, nil, nil
}

// setSlot records that the waiting Admit got its slot (true) or lost the slot (false).
func (w *admitWaiter) setSlot(slot bool) {
	n := 1
	if !slot {
		n = -1
	}
	w.slot = slot
	w.lease.core.ledger.demand -= n
	w.lease.core.tickets.holders += n
}

func (w *admitWaiter) newPermit() *Permit {
	if !w.granted {
		return nil
	}
	return &Permit{lease: w.lease}
}

// waitForChange waits until the lease changes, until wake has passed, or until ctx ends.
func waitForChange(ctx context.Context, wake time.Duration, changed <-chan struct{}) error {
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
