package advisory

import "time"

// Terms are the durations of leases.
type Terms struct {
	// Lease is the time after which others may take the lock of a silent owner.
	Lease time.Duration
	// Longest bounds a DDL statement at the server.
	Longest time.Duration
}

// Promise returns the lease to write. It is longer for a holder that may have DDL running.
func (t Terms) Promise(ddl bool) time.Duration {
	if ddl {
		return t.Lease + t.Longest
	}
	return t.Lease
}

// RenewEvery returns the interval of renewals.
func (t Terms) RenewEvery() time.Duration { return t.Lease / 3 }

// Holder is the holder's view of one lock.
type Holder struct {
	Name string
	Row  Row
	// Confirmed is when the first request with the row's current state was sent, by the holder's
	// clock.
	Confirmed time.Duration
	// Doubt is set after a renewal with an unknown outcome, which may still arrive. It has no
	// effect once a later renewal, which has the next number, is confirmed.
	Doubt bool
}

// Renewed returns the holder after a confirmed renewal that was sent at that time.
func (h Holder) Renewed(lease, sent time.Duration) Holder {
	h.Row.Seq++
	h.Row.Lease, h.Confirmed, h.Doubt = lease, sent, false
	return h
}

// Doubted returns the holder after a renewal with an unknown outcome.
func (h Holder) Doubted() Holder {
	h.Doubt = true
	return h
}

// Found returns the holder after a look at its row, which a renewal in doubt may have changed. ok
// is false if another process has the lock.
func (h Holder) Found(row *Row) (found Holder, ok bool) {
	if row == nil || row.Epoch != h.Row.Epoch || row.Owner != h.Row.Owner {
		return h, false
	}
	h.Row.Seq, h.Row.Lease = row.Seq, row.Lease
	return h, true
}

// Promises reports whether DDL that is sent now ends before another process can take the lock. The
// long lease is in the table, and half of the ordinary lease is left for the way to the server. The
// caller has no renewal in progress, and sends none with a short lease until the DDL has ended.
func (h Holder) Promises(t Terms, now time.Duration) bool {
	return !h.Doubt && h.Row.Lease >= t.Promise(true) && now-h.Confirmed < t.Lease/2
}
