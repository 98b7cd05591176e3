package retry

import "time"

// Attempts paces the replays of one transaction. The zero value is ready; a new
// transaction starts with a new one.
type Attempts struct {
	count  int
	pauses int       // of the attempts that had to wait, but for the quick ones
	quick  int       // attempts behind a short pause, up to quickMost
	schema int       // attempts behind a change of the schema, up to schemaMost for each of MaxRetries
	first  time.Time // of the conflicts; zero: there was none
	lost   bool      // a backend was lost
}

// Count is how often the transaction was run again.
func (a *Attempts) Count() int { return a.count }

// Deadline is when the last attempt must have started. Zero before the first
// conflict.
func (a *Attempts) Deadline(p *Policy) time.Time {
	if a.first.IsZero() {
		return time.Time{}
	}
	return a.first.Add(p.MaxElapsed)
}

// patience is how many times MaxElapsed a transaction that has met no conflict stands in
// line: it loses nothing by that, while without its turn it would meet one, and make
// others lose. 64 clients of one row with 100 ms each are served in 1.6 times.
const patience = 8

// Patience is how long a transaction that has met no conflict waits at the gate behind
// those that have.
func (p *Policy) Patience() time.Duration { return patience * p.MaxElapsed }

const (
	// quickMost is how many replays of a transaction have a short pause, where nobody waits for it.
	quickMost = 2
	// quickGrows is by how many bits the second short pause is longer than the first, FirstDelay.
	quickGrows = 3
	// schemaMost is how many replays a transaction has for changes of the schema, for each one of MaxRetries.
	schemaMost = 3
)

// Next books one more attempt and returns the pause before it, or Exhausted.
// random is in [0, 1). The first loss of a backend does not wait, since nobody else wants
// those rows for it; nor does another form of a statement.
//
// A schema conflict has renewed the backend's catalog, and says nothing of a fight. Any pause behind it
// would make the catalog old again, where others change the schema all the time. So the first does not wait,
// the next wait for FirstDelay, and they count by themselves: schemaMost for each one of MaxRetries.
//
// Of the others the first two are quick, and none of MaxRetries: they wait for FirstDelay, and for
// eight times that. Each of the crowd, the transactions of this process that wait for this one's rows,
// takes one of the two away: where many want a row, those of other processes do too, and whoever
// stands back lets them commit.
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

// fought is how many attempts count against MaxRetries.
func (a *Attempts) fought() int { return a.count - a.quick - a.schema }

// Alone reports whether the attempt that was booked last shall be made with no
// other beside it at the gate: it is the last, or the third.
func (a *Attempts) Alone(p *Policy) bool { return a.fought() >= min(3, p.MaxRetries) }

// pause is the n-th one, from 0, of those that are not quick.
func (p *Policy) pause(n int, random float64) time.Duration {
	d := p.MaxDelay
	if n < 62 && p.BaseDelay <= p.MaxDelay>>n {
		d = p.BaseDelay << n
	}
	return min(p.vary(d, random), p.MaxDelay)
}

// vary varies a pause by the jitter.
func (p *Policy) vary(d time.Duration, random float64) time.Duration {
	return d + time.Duration(float64(d)*p.JitterFactor*(2*random-1))
}
