package reservoir

import "time"

// The line of borrowers that wait for a backend: who waits (Place), and when each wait ends.

// Place is where a borrower waits in line whose wait others end, without a context for each
// wait. It is the borrower's own until Free.
type Place struct {
	r *Reservoir
	waiter[*Conn]
	left error // why the wait is not to be; guarded by r.mu
}

// NewPlace returns a place, which may have been another's before.
func (r *Reservoir) NewPlace() *Place {
	if p, _ := r.places.Get().(*Place); p != nil {
		return p
	}
	return &Place{r: r, waiter: *newWaiter[*Conn]()}
}

// Acquire is Reservoir's; what ends the wait is Leave. It is called once.
func (p *Place) Acquire() (*Conn, error) { return p.r.wait(p, false) }

// Leave ends the wait with that error, also one that has not begun. It does nothing where the
// wait is over. Anybody may call it, up to Free.
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

// Free gives the place to others. Nobody calls Leave any more, and the wait is over.
func (p *Place) Free() {
	p.left = nil
	p.r.places.Put(p)
}

// wait waits in line at p, unless a backend has come meanwhile.
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
	if dials { // else the fill has nothing to do that it has not been told of
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

// expireLocked says when a wait that begins now ends, and sees to it that it does.
func (r *Reservoir) expireLocked(now time.Time) (until time.Time) {
	if !r.expiring { // else it is set for an earlier wait, and then for the next
		r.expiring = true
		if r.expiry == nil {
			r.expiry = time.AfterFunc(r.cfg.CheckoutWait, r.expire)
		} else {
			r.expiry.Reset(r.cfg.CheckoutWait)
		}
	}
	return now.Add(r.cfg.CheckoutWait)
}

// expire ends the waits that have lasted for Config.CheckoutWait.
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
