package advisory

import "time"

// Row is the row of an advisory lock in the table of locks.
type Row struct {
	Epoch int64
	Owner string // "" for a free lock
	Seq   int64
	Lease time.Duration
}

// Step is the next step of a process that wants an advisory lock.
type Step uint8

const (
	// Take is the step when the lock is free, or its owner's lease has run out.
	Take Step = iota
	// Wait is the step when another process holds the lock.
	Wait
)

// Observer is what one process knows of a lock that another process holds. The zero Observer has seen no row.
type Observer struct {
	seen  Row
	since time.Duration // by the observer's clock; not before the row had this state
	any   bool
}

// Saw records the lock's row, or nil for none, and returns the next step. The row was requested at the time asked and
// received at the time answered, and had this state at some moment between them. So an unchanged row had the state at
// least from the earlier answer to the later request.
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

// Left returns how long, from now on, the lock's row must stay unchanged before the lock can be taken.
func (o *Observer) Left(now time.Duration) time.Duration {
	if !o.any {
		return 0
	}
	return max(0, withDrift(o.seen.Lease)-(now-o.since))
}

// withDrift returns a lease, made longer because clocks may differ by one in a thousand.
func withDrift(lease time.Duration) time.Duration { return lease + lease/500 + time.Millisecond }
