package retry

import "time"

// Attempts counts and paces the replays of one transaction. The zero value is ready for use. Each transaction needs its
// own Attempts.
type Attempts struct {
	count  int
	pauses int       // attempts with a pause, without the quick ones
	quick  int       // attempts after a short pause, up to quickMost
	schema int       // attempts after a change of the schema, up to schemaMost for each of MaxRetries
	first  time.Time // time of the first conflict; zero for none
	lost   bool      // a backend was lost before
}

// Count returns the number of replays of the transaction.
func (a *Attempts) Count() int { return a.count }

// Deadline returns the latest start of the transaction's last replay, or the zero time before the first conflict.
func (a *Attempts) Deadline(p *Policy) time.Time {
	if a.first.IsZero() {
		return time.Time{}
	}
	return a.first.Add(p.MaxElapsed)
}

// patience is a factor: a transaction without a conflict waits at the gate for up to patience times MaxElapsed. The
// wait costs the transaction nothing. Without its turn, it would meet a conflict and cause others. 64 clients of one
// row with 100 ms each are served in 1.6 times MaxElapsed.
const patience = 8

// Patience returns how long a transaction without a conflict waits at the gate for transactions that had one.
func (p *Policy) Patience() time.Duration { return patience * p.MaxElapsed }

const (
	// quickMost is the number of replays with a short pause. They are made while no other transaction waits for the same
	// rows.
	quickMost = 2
	// quickGrows is a number of bits: the second short pause is FirstDelay << quickGrows.
	quickGrows = 3
	// schemaMost is a factor: replays after changes of the schema are bounded by schemaMost times MaxRetries.
	schemaMost = 3
)

// Next counts one more replay and returns the pause before it, or the Reason Exhausted. random is in [0, 1). The replay
// after the first loss of a backend has no pause, since no other transaction caused it. Neither has a replay that sends
// a statement in another form.
//
// A schema conflict has renewed the backend's catalog, and does not show contention. A pause would make the catalog old
// again where others change the schema all the time. So the first replay after a schema conflict has no pause, and the
// next ones wait for FirstDelay. These replays count separately: up to schemaMost for each of MaxRetries.
//
// The first two other replays are quick and do not count as retries: they wait for FirstDelay, and for eight times
// that. crowd is the number of transactions of this process that wait for this one's rows. Each of them takes one quick
// replay away. Where many want a row, transactions of other processes do too, and a longer pause lets them commit.
func (a *Attempts) Next(p *Policy, cause Cause, now time.Time, random float64, crowd int) (time.Duration, Reason) {
	if a.first.IsZero() {
		a.first = now
	}
	next := *a
	var pause time.Duration
	exhausted := a.fought() >= p.MaxRetries
	switch {
	case cause == SchemaConflict:
		if exhausted = a.schema >= schemaMost*p.MaxRetries; a.schema > 0 {
			pause = p.vary(min(p.FirstDelay, p.BaseDelay), random)
		}
		next.schema++
	case cause.Conflicts() && (cause != BackendLost || a.lost):
		short := p.FirstDelay << (quickGrows * a.quick)
		if a.pauses == 0 && a.quick < quickMost-crowd && short < p.BaseDelay && p.MaxRetries > 0 {
			pause = p.vary(short, random)
			next.quick++
			exhausted = next.fought() >= p.MaxRetries
		} else {
			pause = p.pause(a.pauses, random)
			next.pauses++
		}
	}
	if exhausted || now.Add(pause).After(a.Deadline(p)) {
		return 0, Exhausted
	}
	next.lost = a.lost || cause == BackendLost
	next.count++
	*a = next
	return pause, Replayable
}

// fought returns how many replays count as retries, up to MaxRetries.
func (a *Attempts) fought() int { return a.count - a.quick - a.schema }

// Alone reports whether the replay that Next counted last must run while no other transaction with its key runs.
// That holds from the third counted replay on, and for the last one.
func (a *Attempts) Alone(p *Policy) bool { return a.fought() >= min(3, p.MaxRetries) }

// pause returns the n-th pause (from 0) before replays that are not quick.
func (p *Policy) pause(n int, random float64) time.Duration {
	d := p.MaxDelay
	if n < 62 && p.BaseDelay <= p.MaxDelay>>n {
		d = p.BaseDelay << n
	}
	return min(p.vary(d, random), p.MaxDelay)
}

// vary returns d, made longer or shorter at random by JitterFactor.
func (p *Policy) vary(d time.Duration, random float64) time.Duration {
	return d + time.Duration(float64(d)*p.JitterFactor*(2*random-1))
}
