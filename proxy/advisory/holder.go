package advisory

import "time"

// Terms are the durations from which the leases of advisory locks are calculated.
type Terms struct {
	// Lease is the time after which others may take the lock of an owner that renews nothing.
	Lease time.Duration
	// Longest bounds the time of a DDL statement at the server.
	Longest time.Duration
}

// Promise returns the lease that a holder writes to the table. The lease is longer for a holder that may have DDL
// running.
func (t Terms) Promise(ddl bool) time.Duration {
	if ddl {
		return t.Lease + t.Longest
	}
	return t.Lease
}

// RenewEvery returns the interval at which a holder renews its locks.
func (t Terms) RenewEvery() time.Duration { return t.Lease / 3 }

// Holder is what the holder of an advisory lock knows of the lock.
type Holder struct {
	Name string
	Row  Row
	// Confirmed is the time when the first request with the row's current state was sent, by the holder's clock.
	Confirmed time.Duration
	// Doubt is set after a renewal with an unknown outcome, which may still arrive. When a later renewal, with the next
	// number, is confirmed, the doubtful one can no longer have an effect.
	Doubt bool
}

// Renewed returns the holder after a renewal that was sent at the time sent and confirmed.
func (h Holder) Renewed(lease, sent time.Duration) Holder {
	h.Row.Seq++
	h.Row.Lease, h.Confirmed, h.Doubt = lease, sent, false
	return h
}

// Doubted returns the holder after a renewal whose outcome is unknown.
func (h Holder) Doubted() Holder {
	h.Doubt = true
	return h
}

// Found returns the holder after a look at the lock's row, which a renewal in doubt may have changed. ok is false if
// another process has the lock.
func (h Holder) Found(row *Row) (found Holder, ok bool) {
	if row == nil || row.Epoch != h.Row.Epoch || row.Owner != h.Row.Owner {
		return h, false
	}
	h.Row.Seq, h.Row.Lease = row.Seq, row.Lease
	return h, true
}

// Promises reports whether DDL that is sent now ends before another process can take the lock. That is so if the long
// lease is in the table and half of the ordinary lease is left for the way to the server. The caller has no renewal in
// progress, and sends none with a short lease until the DDL has ended.
func (h Holder) Promises(t Terms, now time.Duration) bool {
	return !h.Doubt && h.Row.Lease >= t.Promise(true) && now-h.Confirmed < t.Lease/2
}
