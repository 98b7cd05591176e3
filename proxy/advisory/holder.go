package advisory

import "time"

// Terms are what holders promise.
type Terms struct {
	// Lease is for how long others leave a lock alone whose owner is silent.
	Lease time.Duration
	// Longest is for how long a statement of DDL may run at the server.
	Longest time.Duration
}

// Promise is the lease to be written: a longer one for whoever may have DDL under way.
func (t Terms) Promise(ddl bool) time.Duration {
	if ddl {
		return t.Lease + t.Longest
	}
	return t.Lease
}

// RenewEvery is how often a lock is renewed.
func (t Terms) RenewEvery() time.Duration { return t.Lease / 3 }

// Holder is one lock that is held, as its holder knows it.
type Holder struct {
	Name string
	Row  Row
	// Confirmed is when the first request was sent that the row's state was confirmed for,
	// by the holder's clock.
	Confirmed time.Duration
	// Doubt: a renewal was sent whose outcome nobody knows, and which may still arrive. It changes
	// nothing once one behind it is confirmed, which has the next number.
	Doubt bool
}

// Renewed is the holder behind a renewal that was sent at that time and confirmed.
func (h Holder) Renewed(lease, sent time.Duration) Holder {
	h.Row.Seq++
	h.Row.Lease, h.Confirmed, h.Doubt = lease, sent, false
	return h
}

// Doubted is the holder behind a renewal whose outcome nobody knows.
func (h Holder) Doubted() Holder {
	h.Doubt = true
	return h
}

// Found is the holder behind a look at its row, which such a renewal may have changed; ok is
// false where the lock is not the holder's any more.
func (h Holder) Found(row *Row) (found Holder, ok bool) {
	if row == nil || row.Epoch != h.Row.Epoch || row.Owner != h.Row.Owner {
		return h, false
	}
	h.Row.Seq, h.Row.Lease = row.Seq, row.Lease
	return h, true
}

// Promises reports whether DDL that is sent now has ended before anybody can take the lock: the
// long lease is in the table, and of the ordinary one half is left, which is for the way to the
// server. The caller has no renewal under way, and sends none with a short lease until the DDL
// has ended.
func (h Holder) Promises(t Terms, now time.Duration) bool {
	return !h.Doubt && h.Row.Lease >= t.Promise(true) && now-h.Confirmed < t.Lease/2
}
