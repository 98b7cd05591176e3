package advisory

import "time"

// Row is what the table says of a lock.
type Row struct {
	Epoch int64
	Owner string // "": nobody holds it
	Seq   int64
	Lease time.Duration
}

// Step is what one who wants a lock does next.
type Step uint8

const (
	// Take: the lock is nobody's, or its owner's lease has run out.
	Take Step = iota
	// Wait: somebody holds it.
	Wait
)

// Observer is what one process has seen of a lock that somebody else holds. The zero value has
// seen nothing.
type Observer struct {
	seen  Row
	since time.Duration // by the observer's clock; not before the row was as it is
	any   bool
}

// Saw is told of the row, which was asked for at one moment and answered at another; nil: there
// is none. The row was as it is at some moment between the two: so an unchanged one was so at
// least from the earlier answer to the later question.
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

// Left is how long the row must stay as it is, from now on, to be taken.
func (o *Observer) Left(now time.Duration) time.Duration {
	if !o.any {
		return 0
	}
	return max(0, withDrift(o.seen.Lease)-(now-o.since))
}

// withDrift is a lease by a clock that may be slow, or whose owner's may be: one in a thousand.
func withDrift(lease time.Duration) time.Duration { return lease + lease/500 + time.Millisecond }
