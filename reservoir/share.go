package reservoir

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/sluice-proxy/sluice/lease"
)

// Lease is this process's part in what the cluster takes: *lease.Lease, or
// lease.Static where nothing is shared. It must not call the Reservoir back.
type Lease interface {
	// Admit waits until one backend may be dialled. wanted is how many dials the
	// caller would make now.
	Admit(ctx context.Context, wanted int) (*lease.Permit, error)
	// Paced reports whether Admit waits for the cluster's connection rate.
	Paced() bool
	// Refused is told that the cluster itself refused a connection.
	Refused(lease.Quota)
	// State says what must be closed.
	State() lease.State
}

// errThrottled marks an admit that ended while it waited for the local limit.
var errThrottled = errors.New("waiting for rate")

// admit waits for the permission to dial once. Every dial asks here and nowhere
// else, before it is counted and with no lock held. The permit must be released
// when the backend's socket is closed, or was never opened.
func (r *Reservoir) admit(ctx context.Context, wanted int) (*lease.Permit, error) {
	for {
		r.admitting.Add(1)
		permit, err := r.lease.Admit(ctx, wanted)
		r.admitting.Add(-1)
		if err != nil || r.lease.Paced() || r.limiter.Allow() {
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
		permit.Release() // its slot went while it waited
	}
}

// waitsFor says what dials wait for just now.
func (r *Reservoir) waitsFor(s lease.State) (throttled, unleased bool) {
	admitting := r.admitting.Load() > 0
	unleased = admitting && s.Waiting > 0 && s.Unticketed == 0
	return r.throttled.Load() > 0 || admitting && !unleased, unleased
}

// heedLocked does what the lease asks for. What backends are closing already
// counts. Between two calls release goes by what the last one left in
// shelf.owed: the way of a request asks nobody.
func (r *Reservoir) heedLocked() {
	s := r.lease.State()
	r.shelf.leased = 0
	if s.Limit > 0 {
		r.shelf.leased = s.Held
	}
	r.shelf.owed = max(0, s.Excess-r.shelf.closing)
	for r.shelf.owed > 0 && len(r.shelf.ready) > 0 {
		oldest := slices.MinFunc(r.shelf.ready, func(a, b *Conn) int { return cmp.Compare(a.endAt, b.endAt) })
		r.endLocked(r.shelf.remove(oldest), Unleased)
	}
	if s.Revoked > r.shelf.closing {
		r.severLocked(s.Revoked - r.shelf.closing)
	}
}

// severLocked cuts the sockets of lent backends until n of them are cut. Their
// borrowers find out, and discard them.
func (r *Reservoir) severLocked(n int) {
	var cut []*Conn
	for c := range r.alive {
		switch {
		case c.state == lent && c.severed:
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
		c.severed = true
	}
	r.startLocked(func() {
		for _, c := range cut {
			c.sever()
		}
	})
}

// putOffLocked gives a backend whose hour has come a later one, while the lease
// asks for that and the server's own limit is far. The hours are spread, for the
// time when backends can be replaced again. The lease is asked only once the hour has come.
func (r *Reservoir) putOffLocked(c *Conn) bool {
	if c.dedicated || r.shelf.horizon < c.retireAt || !r.lease.State().Postpone {
		return false
	}
	least := r.shelf.horizon + r.cfg.GuardWindow + retireMargin
	end := min(c.began+maxLifetime, least+rand.N(r.cfg.BaseLifetime))
	if end < least {
		return false
	}
	r.shelf.unmark(c)
	r.calendar.free(c.hour)
	r.scheduleLocked(c, end)
	return true
}
