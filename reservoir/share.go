package reservoir

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/sluice-proxy/sluice/lease"
)

// Lease is this process's part of the cluster's quotas: a *lease.Lease, or a lease.Unlimited if no quota is shared
// with other processes. A Lease must not call the Reservoir.
type Lease interface {
	// Admit waits until one backend may be dialled. wanted is the number of dials that the caller
	// would make now.
	Admit(ctx context.Context, wanted int) (*lease.Permit, error)
	// LimitsRate reports whether Admit waits for the cluster's connection rate.
	LimitsRate() bool
	// RecordRefusal records that the cluster refused a connection because of a quota.
	RecordRefusal(lease.ConnQuota)
	// State returns the lease's state, and with it how many backends must close.
	State() lease.State
}

// errThrottled is the error of a dial whose context ended during its wait for the local rate limit.
var errThrottled = errors.New("waiting for rate")

// admit waits for the permission to dial one backend. Every dial calls admit, before it is counted and with no lock
// held. The caller releases the permit when the backend's socket is closed or was never opened.
func (r *Reservoir) admit(ctx context.Context, wanted int) (*lease.Permit, error) {
	for {
		r.admitting.Add(1)
		permit, err := r.lease.Admit(ctx, wanted)
		r.admitting.Add(-1)
		if err != nil || r.lease.LimitsRate() || r.limiter.Allow() {
			return permit, err
		}
		r.throttled.Add(1)
		err = r.limiter.Wait(ctx)
		r.throttled.Add(-1)
		switch {
		case err != nil:
			permit.Release()
			return nil, errors.Join(errThrottled, err)
		case r.lease.State().Excess == 0:
			return permit, nil
		}
		permit.Release() // the slot was lost during the wait
	}
}

// waitReasons reports whether dials wait for the connection rate, and whether dials wait for a slot of the lease.
func (r *Reservoir) waitReasons(s lease.State) (throttled, unleased bool) {
	admitting := r.admitting.Load() > 0
	unleased = admitting && s.Waiting > 0 && s.Unticketed == 0
	return r.throttled.Load() > 0 || admitting && !unleased, unleased
}

// obeyLeaseLocked closes as many backends as the lease wants back. Backends that are already closing count. release
// later reads the stored number (poolState.mustEnd), so that a client's request never queries the lease.
func (r *Reservoir) obeyLeaseLocked() {
	s := r.lease.State()
	r.shelf.leased = 0
	if s.Limit > 0 {
		r.shelf.leased = s.Held
	}
	r.shelf.mustEnd = max(0, s.Excess-r.shelf.closing)
	for r.shelf.mustEnd > 0 && len(r.shelf.ready) > 0 {
		oldest := slices.MinFunc(r.shelf.ready, func(a, b *Conn) int { return cmp.Compare(a.endAt, b.endAt) })
		r.closeConnLocked(r.shelf.remove(oldest), Unleased)
	}
	if s.Revoked > r.shelf.closing {
		r.closeLentLocked(s.Revoked - r.shelf.closing)
	}
}

// closeLentLocked closes sockets of lent backends, until n lent backends have closed sockets. Sockets that earlier
// calls closed count. The borrowers get an error and discard the backends.
func (r *Reservoir) closeLentLocked(n int) {
	var cut []*Conn
	for c := range r.alive {
		switch {
		case c.state == lent && c.socketClosed:
			n-- // its borrower has not noticed yet
		case c.state == lent:
			cut = append(cut, c)
		}
	}
	cut = cut[:max(0, min(n, len(cut)))]
	if len(cut) == 0 {
		return
	}
	for _, c := range cut {
		c.socketClosed = true
	}
	r.goLocked(func() {
		for _, c := range cut {
			c.closeSocket()
		}
	})
}

// postponeRetirementLocked postpones the retirement of a backend, if the lease wants that and the server's own age
// limit is far. The new retirement time is random, so that not all backends are replaced together.
// postponeRetirementLocked reads the lease only for a backend that is due.
func (r *Reservoir) postponeRetirementLocked(c *Conn) bool {
	if c.dedicated || r.shelf.horizon < c.retireAt || !r.lease.State().Postpone {
		return false
	}
	least := r.shelf.horizon + r.cfg.GuardWindow + retireMargin
	end := min(c.began+maxLifetime, least+rand.N(r.cfg.BaseLifetime))
	if end < least {
		return false
	}
	r.shelf.unmarkReplacing(c)
	r.calendar.freeHour(c.hour)
	r.scheduleRetirementLocked(c, end)
	return true
}
