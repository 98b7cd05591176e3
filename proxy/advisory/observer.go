package advisory

import "time"

// Row is a lock's row in the table.
type Row struct {
	Epoch int64
	Owner string // "" for a free lock
	Seq   int64
	Lease time.Duration
}

// Step is the next step of a process that wants a lock.
type Step uint8

const (
	// Take: the lock is free, or its owner's lease has run out.
	Take Step = iota
	// Wait: another process holds the lock.
	Wait
)

// Observer is one process's view of a lock that another process holds. The zero value has seen no
// row.
type Observer struct {
	seen  Row
	since time.Duration // by the observer's clock; not before the row had this state
	any   bool
}

// Saw records the row, nil for none, that was requested at asked and received at answered, and
// returns the next step. The row had this state at some moment between the two. So an unchanged row
// had it at least from the earlier answer to the later request.
func (o *Observer) Saw(row *Row, asked, answered time.Duration) Step {
	if row == nil || row.Owner == "" {
		*o = Observer{}
		return Take
	}
	if !o.any || o.seen != *row {
		*o = Observer{seen: *row, since: answered, any: true}
		return Wait
	}
	if asked-o.since < withDrift(row.Lease) {
		return Wait
	}
	return Take
}

// Left returns how long the row must stay unchanged, from now on, before the lock can be taken.
func (o *Observer) Left(now time.Duration) time.Duration {
	if !o.any {
		return 0
	}
	return max(0, withDrift(o.seen.Lease)-(now-o.since))
}

// withDrift returns a lease extended for clocks that differ by one in a thousand.
func withDrift(lease time.Duration) time.Duration { return lease + lease/500 + time.Millisecond }
