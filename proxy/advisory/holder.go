package advisory

import "time"

// LeaseTerms are the durations from which the leases of advisory locks are calculated.
type LeaseTerms struct {
	// Lease is the time after which other processes may take the lock of an owner that renews nothing.
	Lease time.Duration
	// LongestDDL bounds the time of a DDL statement at the server.
	LongestDDL time.Duration
}

// LeaseLength returns the lease that a lock's holder writes to the table of locks. ddl says that the holder may have
// DDL running, for which the lease is longer.
func (t LeaseTerms) LeaseLength(ddl bool) time.Duration {
	if ddl {
		return t.Lease + t.LongestDDL
	}
	return t.Lease
}

// RenewInterval returns the interval at which a holder renews its locks.
func (t LeaseTerms) RenewInterval() time.Duration { return t.Lease / 3 }

// LockHolder is the record that a session's process has of an advisory lock that the session holds.
type LockHolder struct {
	Name string
	Row  LockRow
	// Confirmed is when, by the holder's clock, it sent the first request that gave the row its current state.
	Confirmed time.Duration
	// Doubt is set after a renewal with an unknown outcome, which may still reach the server. Once a later renewal,
	// with the next number, is confirmed, the doubtful renewal can have no effect.
	Doubt bool
}

// WithRenewal returns the holder's state after a confirmed renewal of the lease. sent is the time when the renewal was
// sent.
func (h LockHolder) WithRenewal(lease, sent time.Duration) LockHolder {
	h.Row.Seq++
	h.Row.Lease, h.Confirmed, h.Doubt = lease, sent, false
	return h
}

// WithDoubt returns the holder's state after a renewal of the lease whose outcome is unknown.
func (h LockHolder) WithDoubt() LockHolder {
	h.Doubt = true
	return h
}

// WithRow returns the holder's state after a look at the lock's row, which a renewal in doubt may have changed. ok is
// false if another process has the lock.
func (h LockHolder) WithRow(row *LockRow) (found LockHolder, ok bool) {
	if row == nil || row.Epoch != h.Row.Epoch || row.Owner != h.Row.Owner {
		return h, false
	}
	h.Row.Seq, h.Row.Lease = row.Seq, row.Lease
	return h, true
}

// CoversDDL reports whether DDL that is sent now ends before another process can take the lock. That is so if the long
// lease is in the table and half of the ordinary lease is left for the way to the server. The caller has no renewal in
// progress, and sends none with a short lease until the DDL has ended.
func (h LockHolder) CoversDDL(t LeaseTerms, now time.Duration) bool {
	return !h.Doubt && h.Row.Lease >= t.LeaseLength(true) && now-h.Confirmed < t.Lease/2
}
