package reservoir

import "time"

// This file has the line of borrowers that wait for a backend: their places in line, and the end of each wait.

// Place is a borrower's place in line. Another goroutine may end the wait, so a wait needs no context. A Place belongs
// to the borrower until Free.
type Place struct {
	r *Reservoir
	waiter[*Conn]
	left error // why the wait must not begin; guarded by r.mu
}

// NewPlace returns a place in the line, perhaps one that Free returned.
func (r *Reservoir) NewPlace() *Place {
	if p, _ := r.places.Get().(*Place); p != nil {
		return p
	}
	return &Place{r: r, waiter: *newWaiter[*Conn]()}
}

// Acquire lends a backend like Reservoir.Acquire, and Leave ends its wait. Acquire is called once for a Place.
func (p *Place) Acquire() (*Conn, error) { return p.r.wait(p, false) }

// Leave ends the place's wait with an error, even a wait that has not begun. After the wait, Leave does nothing. Any
// goroutine may call Leave before Free.
func (p *Place) Leave(why error) {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	if p.left == nil {
		p.left = why
	}
	if p.r.waiters.refuse(&p.waiter, why) {
		p.r.shelf.waiting--
	}
}

// Free returns the place for reuse. Free is called after the wait, and Leave must not be called afterwards.
func (p *Place) Free() {
	p.left = nil
	p.r.places.Put(p)
}

// wait waits at p for a backend. If a backend has become ready meanwhile, wait returns it at once.
func (r *Reservoir) wait(p *Place, ahead bool) (*Conn, error) {
	r.mu.Lock()
	c := r.lendLocked()
	switch {
	case c != nil:
		r.mu.Unlock()
		return c, nil
	case r.closed:
		r.mu.Unlock()
		return nil, ErrClosed
	case p.left != nil:
		r.mu.Unlock()
		return nil, p.left
	}
	r.stats.empty++
	r.shelf.waiting++
	began := time.Now()
	r.waiters.join(&p.waiter, ahead, r.expireLocked(began))
	dials := r.shelf.need() > 0
	r.mu.Unlock()
	if dials { // else the fill has no new work
		r.wake()
	}

	a := <-p.answer
	switch a.err {
	case nil:
		r.metrics.Waited(time.Since(began))
	case errExpired:
		return nil, r.WhyEmpty(began)
	}
	return a.served, a.err
}

// expireLocked returns the time when a wait that begins now ends. If necessary, expireLocked sets the timer that ends
// waits.
func (r *Reservoir) expireLocked(now time.Time) (until time.Time) {
	if !r.expiring { // else the timer is set for an earlier wait
		r.expiring = true
		if r.expiry == nil {
			r.expiry = time.AfterFunc(r.cfg.CheckoutWait, r.expire)
		} else {
			r.expiry.Reset(r.cfg.CheckoutWait)
		}
	}
	return now.Add(r.cfg.CheckoutWait)
}

// expire is called by the timer. It ends the waits that have lasted for Config.CheckoutWait.
func (r *Reservoir) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	borrowers, next := r.waiters.expire(now)
	claims, nextClaim := r.claims.expire(now)
	r.shelf.waiting -= borrowers
	r.shelf.claimed -= claims
	if next.IsZero() || !nextClaim.IsZero() && nextClaim.Before(next) {
		next = nextClaim
	}
	if r.expiring = !next.IsZero() && !r.closed; r.expiring {
		r.expiry.Reset(next.Sub(now))
	}
}
