package reservoir

import "time"

// This file has the line in which borrowers wait for a backend, with their places and the ends of their waits.

// WaitPlace is a borrower's place in the line of borrowers that wait for a backend. Any goroutine can end the wait
// by EndWait, so no context is needed. A WaitPlace belongs to the borrower until Recycle.
type WaitPlace struct {
	r *Reservoir
	waiter[*Conn]
	leftErr error // why the wait must not begin; guarded by r.mu
}

// NewWaitPlace returns a place in the line, perhaps one that Recycle returned.
func (r *Reservoir) NewWaitPlace() *WaitPlace {
	if p, _ := r.places.Get().(*WaitPlace); p != nil {
		return p
	}
	return &WaitPlace{r: r, waiter: *newWaiter[*Conn]()}
}

// Acquire lends a backend like Reservoir.Acquire; EndWait ends its wait. Acquire is called once for a WaitPlace.
func (p *WaitPlace) Acquire() (*Conn, error) { return p.r.waitInLine(p, false) }

// EndWait makes the wait in Acquire end with the error why, also if Acquire is called later. After the end of the
// wait, EndWait does nothing. Any goroutine may call EndWait before Recycle.
func (p *WaitPlace) EndWait(why error) {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	if p.leftErr == nil {
		p.leftErr = why
	}
	if p.r.waiters.refuseWaiter(&p.waiter, why) {
		p.r.shelf.waiting--
	}
}

// Recycle returns the place for reuse. Recycle is called after the wait, and EndWait must not be called afterwards.
func (p *WaitPlace) Recycle() {
	p.leftErr = nil
	p.r.places.Put(p)
}

// waitInLine returns a ready backend, or waits for one at place p of the line. If ahead is set, p goes first.
func (r *Reservoir) waitInLine(p *WaitPlace, ahead bool) (*Conn, error) {
	r.mu.Lock()
	c := r.lendLocked()
	switch {
	case c != nil:
		r.mu.Unlock()
		return c, nil
	case r.closed:
		r.mu.Unlock()
		return nil, ErrClosed
	case p.leftErr != nil:
		r.mu.Unlock()
		return nil, p.leftErr
	}
	r.stats.empty++
	r.shelf.waiting++
	began := time.Now()
	r.waiters.enqueue(&p.waiter, ahead, r.waitDeadlineLocked(began))
	dials := r.shelf.missingDials() > 0
	r.mu.Unlock()
	if dials { // else the fill has no new work
		r.wakeFill()
	}

	a := <-p.answer
	switch a.err {
	case nil:
		r.metrics.ObserveWait(time.Since(began))
	case errExpired:
		return nil, r.EmptyReason(began)
	}
	return a.served, a.err
}

// waitDeadlineLocked returns the time when a wait that begins now ends. If necessary, waitDeadlineLocked sets the timer
// that ends waits.
func (r *Reservoir) waitDeadlineLocked(now time.Time) (until time.Time) {
	if !r.expiring { // else the timer is set for an earlier wait
		r.expiring = true
		if r.expiry == nil {
			r.expiry = time.AfterFunc(r.cfg.CheckoutWait, r.expireWaits)
		} else {
			r.expiry.Reset(r.cfg.CheckoutWait)
		}
	}
	return now.Add(r.cfg.CheckoutWait)
}

// expireWaits ends the waits that have lasted for Config.CheckoutWait. The timer calls it.
func (r *Reservoir) expireWaits() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	borrowers, next := r.waiters.expireWaits(now)
	claims, nextClaim := r.claims.expireWaits(now)
	r.shelf.waiting -= borrowers
	r.shelf.claimed -= claims
	if next.IsZero() || !nextClaim.IsZero() && nextClaim.Before(next) {
		next = nextClaim
	}
	if r.expiring = !next.IsZero() && !r.closed; r.expiring {
		r.expiry.Reset(next.Sub(now))
	}
}
