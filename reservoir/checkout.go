package reservoir

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/lease"
)

// NoBackendError says why no backend was available within Config.CheckoutWait.
type NoBackendError struct {
	Waited    time.Duration
	InUse     int
	Dialing   int
	MaxOpen   int
	Throttled bool // a dial waited for the connection rate
	Unleased  bool // a dial waited for a slot of the cluster's connection count
	// Lease is the phase of the lease, or "" for the phase OK. Reason says why a lease in another phase grants nothing, or
	// is nil.
	Lease  string
	Reason error
	// LastDialErr is the error of the last dial, or nil if that dial succeeded.
	LastDialErr error
	// FailedDials is the number of failed dials since the last success, and FailedFor the time
	// since the first of them. LastFailed is the time since the last failure.
	FailedDials           int
	FailedFor, LastFailed time.Duration
}

func (e *NoBackendError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no backend within %v: %d of %d in use", e.Waited.Round(time.Millisecond), e.InUse, e.MaxOpen)
	if e.Dialing > 0 {
		fmt.Fprintf(&b, ", %d being dialled", e.Dialing)
	}
	if e.Throttled {
		b.WriteString(", waiting for rate")
	}
	if e.Unleased {
		b.WriteString(", waiting for slots")
	}
	if e.Lease != "" {
		b.WriteString("; lease " + e.Lease)
	}
	if e.Reason != nil {
		fmt.Fprintf(&b, ": %v", e.Reason)
	}
	if e.LastDialErr != nil {
		if e.FailedDials > 1 {
			fmt.Fprintf(&b, "; %d dials have failed in %v, the last %v ago", e.FailedDials, e.FailedFor.Round(time.Millisecond), e.LastFailed.Round(time.Millisecond))
		}
		fmt.Fprintf(&b, "; last dial failed: %v", e.LastDialErr)
	}
	return b.String()
}

// Remedy returns what the client's operator should do, in one or two sentences.
func (e *NoBackendError) Remedy() string {
	// In the phase Degraded the lease closes no backend, so it is not the cause if all backends are in use.
	granting := e.Lease == "" && e.Reason == nil
	full := e.InUse >= e.MaxOpen && (granting || e.Lease == lease.Degraded.String())
	switch {
	case full && e.LastDialErr != nil:
		return "Every backend is in use, and Sluice cannot open others in the place of those that end; the detail says why. Retry."
	case full:
		return "Every backend is in use. Retry; if it stays so, shorten transactions or raise reservoir.max_open."
	case !granting:
		return "The fleet's lease grants no connection; sluice lease status says how it stands. Retry."
	case e.LastDialErr != nil:
		return "Sluice cannot open connections to the server; the detail says why. Retry."
	case e.Unleased:
		return "The cluster has no connection slot left for this process. Retry; if it stays so, raise the lease's limit or close connections elsewhere."
	case e.Throttled:
		return "The connection rate is used up. Retry."
	}
	return "Retry; if it stays so, look at the reservoir's metrics."
}

func (e *NoBackendError) Unwrap() []error {
	return slices.DeleteFunc([]error{e.LastDialErr, e.Reason}, func(err error) bool { return err == nil })
}

// TryAcquire lends the ready backend that was used last. TryAcquire returns nil when no backend is ready, or when a
// borrower waits. TryAcquire never blocks and allocates nothing. The borrower ends the loan with exactly one Release or
// Discard.
func (r *Reservoir) TryAcquire() *Conn {
	r.mu.Lock()
	c := r.lendLocked()
	r.mu.Unlock()
	return c
}

// Acquire lends a backend. When none is ready, Acquire waits in line, up to Config.CheckoutWait, and then returns a
// *NoBackendError. Acquire returns ctx's error when ctx ends. The borrower ends the loan with exactly one Release or
// Discard.
func (r *Reservoir) Acquire(ctx context.Context) (*Conn, error) { return r.acquire(ctx, false) }

// AcquireAhead lends a backend like Acquire, but before all borrowers that wait in Acquire. AcquireAhead is for the
// replay of a transaction, whose first backend is gone or given back.
func (r *Reservoir) AcquireAhead(ctx context.Context) (*Conn, error) { return r.acquire(ctx, true) }

func (r *Reservoir) acquire(ctx context.Context, ahead bool) (*Conn, error) {
	if c := r.TryAcquire(); c != nil {
		return c, nil
	}
	p := r.NewWaitPlace() // not freed for reuse: the end of ctx may still call EndWait
	defer context.AfterFunc(ctx, func() { p.EndWait(ctx.Err()) })()
	return r.waitInLine(p, ahead)
}

// DialDedicated dials a backend for one session, with that session's startup parameters, on the caller's goroutine.
// It first waits for a slot, for the end of a pause after a refusal by quota, and for the rate limit. If no slot is
// free, it closes a ready backend. If the waits exceed Config.CheckoutWait, it returns a *NoBackendError. If the dial
// fails, it returns the dial's error. Release closes a dedicated backend.
func (r *Reservoir) DialDedicated(ctx context.Context, s Startup) (*Conn, error) {
	began := time.Now()
	if err := r.claimSlot(ctx, began); err != nil {
		return nil, err
	}
	c, permit, err := r.dialDedicated(ctx, &s, began)

	r.mu.Lock()
	defer r.mu.Unlock()
	r.shelf.dialing--
	if err != nil {
		if permit != nil {
			permit.Release()
		}
		r.serveClaimLocked()
		return nil, err
	}
	c.owner, c.permit, c.dedicated, c.state = r, permit, true, lent
	r.alive[c] = struct{}{}
	r.shelf.inUse++
	r.obeyLeaseLocked()
	if r.closed {
		r.endLoanLocked(c)
		r.closeConnLocked(c, Shutdown)
		return nil, ErrClosed
	}
	return c, nil
}

// dialDedicated dials a dedicated backend in a slot that claimSlot has taken. The caller must release a returned
// permit, even when an error is returned too.
func (r *Reservoir) dialDedicated(ctx context.Context, s *Startup, began time.Time) (*Conn, *lease.Permit, error) {
	waiting, cancel := context.WithTimeout(ctx, r.cfg.CheckoutWait-time.Since(began))
	defer cancel()
	if !r.waitQuotaPause(waiting) {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		return nil, nil, r.EmptyReason(began)
	}
	permit, err := r.admit(waiting, 1)
	switch {
	case err == nil:
		r.mu.Lock()
		generation := r.backoff.generation
		r.mu.Unlock()
		c, err := r.timedDial(ctx, s)
		r.recordQuotaRefusal(generation, err)
		return c, permit, err
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case errors.Is(err, lease.ErrClosed):
		return nil, nil, ErrClosed
	}
	empty := r.EmptyReason(began)
	l := r.lease.State()
	empty.Throttled = errors.Is(err, errThrottled) || l.InUse < l.Held || l.Limit == 0 && l.Phase == lease.OK
	empty.Unleased = !empty.Throttled
	return nil, nil, empty
}

// waitQuotaPause waits until the pause after a refusal by the cluster's quota is over. If ctx ends first,
// waitQuotaPause returns false.
func (r *Reservoir) waitQuotaPause(ctx context.Context) bool {
	for {
		r.mu.Lock()
		pause := time.Until(r.backoff.until)
		if !r.backoff.quota {
			pause = 0
		}
		r.mu.Unlock()
		if pause <= 0 {
			return true
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
	}
}

// recordQuotaRefusal records that the cluster refused a dedicated dial by quota, because quotas concern all dials.
// Any other failure of a dedicated dial concerns only the session for which the backend was dialled.
func (r *Reservoir) recordQuotaRefusal(generation int, err error) {
	_, refused := quotaRefusal(err)
	var pause time.Duration
	var news, recovered bool
	r.mu.Lock()
	switch {
	case refused:
		pause, news = r.recordFailureLocked(generation, err)
	case err == nil && r.backoff.quota:
		if recovered = r.backoff.recordSuccess(generation); recovered {
			r.lastErr = nil
		}
	}
	r.mu.Unlock()
	r.logDialFailure(news, err, pause)
	if recovered {
		r.log.Info("dials succeed again")
	}
}

// claimSlot waits for a free slot, takes it for a dedicated backend, and counts a dial as in progress.
func (r *Reservoir) claimSlot(ctx context.Context, began time.Time) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return ErrClosed
	}
	if r.shelf.claimed == 0 && r.shelf.openCount() < r.shelf.maxOpen {
		r.shelf.dialing++
		r.mu.Unlock()
		return nil
	}
	if len(r.shelf.ready) > 0 {
		r.closeConnLocked(r.shelf.takeAt(0), Surplus)
	}
	r.shelf.claimed++
	w := newWaiter[struct{}]()
	r.claims.enqueue(w, false, r.waitDeadlineLocked(time.Now()))
	r.mu.Unlock()

	defer context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.claims.refuseWaiter(w, ctx.Err()) {
			r.shelf.claimed--
		}
	})()
	a := <-w.answer
	if a.err == errExpired {
		return r.EmptyReason(began)
	}
	return a.err
}

// lendLocked lends the backend that was shelved last. lendLocked returns nil if no backend is ready.
func (r *Reservoir) lendLocked() *Conn {
	n := len(r.shelf.ready)
	if n == 0 {
		return nil
	}
	c := r.shelf.takeAt(n - 1)
	r.shelf.markLent(c)
	r.stats.checkouts++
	r.stats.immediate++
	return c
}

// release ends a loan: the backend returns to the shelf or is closed.
func (r *Reservoir) release(c *Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endLoanLocked(c)
	c.provenAt = r.shelf.horizon // up to a second late, without reading a clock
	r.provenAt = max(r.provenAt, c.provenAt)
	r.returnLocked(c, r.shelf.putReturned)
}

// returnLocked closes a backend that a borrower has returned, or puts it on the shelf with the function put. From
// the shelf, the backend may be lent or retired at once.
func (r *Reservoir) returnLocked(c *Conn, put func(*Conn)) {
	switch {
	case c.dedicated:
		r.closeConnLocked(c, Dedicated)
	case r.closed:
		r.closeConnLocked(c, Shutdown)
	case c.socketClosed:
		r.closeConnLocked(c, Revoked)
	case r.shelf.mustEnd > 0:
		r.closeConnLocked(c, Unleased)
	default:
		put(c)
		r.lendOrShelveLocked(c)
	}
}

// lendOrShelveLocked closes a backend that was just put on the shelf, lends it to a waiting borrower, or leaves it
// ready.
func (r *Reservoir) lendOrShelveLocked(c *Conn) {
	if !r.postponeRetirementLocked(c) {
		if reason, due := r.shelf.shouldRetire(c); due {
			r.closeConnLocked(r.shelf.remove(c), reason)
			r.wakeFill()
			return
		}
	}
	switch {
	case r.shelf.waiting > 0:
		r.shelf.markLent(r.shelf.remove(c))
		r.shelf.waiting--
		r.stats.checkouts++
		r.waiters.serveFirst(c)
	case r.shelf.claimed > r.shelf.closing:
		r.closeConnLocked(r.shelf.remove(c), Surplus)
	case c.replacing:
		r.wakeFill()
	}
}

// EmptyReason returns the error for a borrower that has waited since began and gives up now.
func (r *Reservoir) EmptyReason(began time.Time) *NoBackendError {
	s, l := r.Stats(), r.lease.State()
	e := &NoBackendError{Waited: time.Since(began), InUse: s.InUse, Dialing: s.Dialing, MaxOpen: s.MaxOpen,
		Throttled: s.Throttled, Unleased: s.Unleased, Reason: l.ShortfallReason(), LastDialErr: s.LastDialErr}
	r.mu.Lock()
	if f := &r.backoff; f.count > 0 {
		e.FailedDials, e.FailedFor, e.LastFailed = f.count, time.Since(f.since), time.Since(f.last)
	}
	r.mu.Unlock()
	if l.Phase != lease.OK {
		e.Lease = l.Phase.String()
	}
	if e.Reason == nil && e.Throttled && l.Local && l.Problem != nil {
		e.Reason = l.Problem // the reason that dials use the local share
	}
	return e
}
