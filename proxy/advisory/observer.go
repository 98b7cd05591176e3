package advisory

import "time"

// LockRow is the row of an advisory lock in the table of locks.
type LockRow struct {
	Epoch int64
	Owner string // "" for a free lock
	Seq   int64
	Lease time.Duration
}

// NextStep says what a process that wants an advisory lock does next: it takes the lock, or waits.
type NextStep uint8

const (
	// Take is the step when the lock is free, or its owner's lease has run out.
	Take NextStep = iota
	// Wait is the step when another process holds the lock.
	Wait
)

// LockObserver is one process's record of a lock that another process holds. The zero LockObserver has seen no row.
type LockObserver struct {
	seen  LockRow
	since time.Duration // by the observer's clock; not before the row had this state
	any   bool
}

// RecordRow records the lock's row, or nil for none, and returns the next step. The row was requested at the time asked
// and received at the time answered, and had this state at some moment between them. So an unchanged row had the state
// at least from the earlier answer to the later request.
func (o *LockObserver) RecordRow(row *LockRow, asked, answered time.Duration) NextStep {
	if row == nil || row.Owner == "" {
		*o = LockObserver{}
		return Take
	}
	if !o.any || o.seen != *row {
		*o = LockObserver{seen: *row, since: answered, any: true}
		return Wait
	}
	if asked-o.since < extendForDrift(row.Lease) {
		return Wait
	}
	return Take
}

// TimeLeft returns how long, from now on, the lock's row must stay unchanged before the lock can be taken.
func (o *LockObserver) TimeLeft(now time.Duration) time.Duration {
	if !o.any {
		return 0
	}
	return max(0, extendForDrift(o.seen.Lease)-(now-o.since))
}

// extendForDrift returns a lease, extended for wrong clocks. Each of two machines may be wrong by one in a thousand.
func extendForDrift(lease time.Duration) time.Duration { return lease + lease/500 + time.Millisecond }
