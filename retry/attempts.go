package retry

import "time"

// Attempts counts the replays of one transaction and determines the pauses between them. The zero value is ready for
// use. Each transaction needs its own Attempts.
type Attempts struct {
	count  int
	pauses int       // attempts with a pause, without the quick ones
	quick  int       // attempts after a short pause, up to maxQuickRetries
	schema int       // attempts after a change of the schema, up to maxSchemaRetries for each of MaxRetries
	first  time.Time // time of the first conflict of the client's current request; zero for none
	lost   bool      // a backend was lost before
}

// Count returns the number of replays of the transaction.
func (a *Attempts) Count() int { return a.count }

// Deadline returns the latest start of the last replay for the current request, or the zero time before any conflict.
func (a *Attempts) Deadline(p *Policy) time.Time {
	if a.first.IsZero() {
		return time.Time{}
	}
	return a.first.Add(p.MaxElapsed)
}

// StartRequest sets the time from which MaxElapsed counts to now, the first conflict of a client's request. So time
// in which the client awaited no answer does not count. The numbers of replays remain.
func (a *Attempts) StartRequest(now time.Time) { a.first = now }

// queueTimeoutFactor is a factor. A transaction without a conflict waits at the gate (the queue for contended rows) for
// up to queueTimeoutFactor times MaxElapsed. The wait costs the transaction nothing. Without its turn, the transaction
// would meet a conflict and cause others. 64 clients of one row with 100 ms each are served in 1.6 times MaxElapsed.
const queueTimeoutFactor = 8

// QueueTimeout returns how long a transaction without a conflict waits in ConflictGate for transactions that had one.
func (p *Policy) QueueTimeout() time.Duration { return queueTimeoutFactor * p.MaxElapsed }

const (
	// maxQuickRetries is the number of replays with a short pause. These replays are made while no other transaction waits
	// for the same rows.
	maxQuickRetries = 2
	// quickDelayShift is a number of bits: the second short pause is FirstDelay << quickDelayShift.
	quickDelayShift = 3
	// maxSchemaRetries is a factor. Replays after changes of the schema are bounded by maxSchemaRetries times MaxRetries.
	maxSchemaRetries = 3
)

// NextDelay counts one more replay and returns the pause before it, or the RefusalReason Exhausted. random is in [0,
// 1). The replay after the first loss of a backend has no pause, since no other transaction caused it. A replay that
// sends a differently rewritten statement has no pause either.
//
// A schema conflict has renewed the backend's catalog, and does not show contention. If other sessions change the
// schema all the time, a pause would make the catalog old again. So the first replay after a schema conflict has no
// pause, and the next ones wait for FirstDelay. These replays count separately: up to maxSchemaRetries for each of
// MaxRetries.
//
// After any other cause, the first two replays are quick and do not count as retries. They wait for FirstDelay, and
// for eight times that. crowd is the number of transactions of this process that wait for this transaction's rows.
// Each of them takes one quick replay away. If many wait here, transactions of other processes probably wait too,
// and a longer pause lets them commit.
func (a *Attempts) NextDelay(p *Policy, cause ReplayCause, now time.Time, random float64, crowd int) (time.Duration, RefusalReason) {
	if a.first.IsZero() {
		a.first = now
	}
	next := *a
	var pause time.Duration
	exhausted := a.countedRetries() >= p.MaxRetries
	switch {
	case cause == SchemaConflict:
		if exhausted = a.schema >= maxSchemaRetries*p.MaxRetries; a.schema > 0 {
			pause = p.addJitter(min(p.FirstDelay, p.BaseDelay), random)
		}
		next.schema++
	case cause.MayConflict() && (cause != BackendLost || a.lost):
		short := p.FirstDelay << (quickDelayShift * a.quick)
		if a.pauses == 0 && a.quick < maxQuickRetries-crowd && short < p.BaseDelay && p.MaxRetries > 0 {
			pause = p.addJitter(short, random)
			next.quick++
			exhausted = next.countedRetries() >= p.MaxRetries
		} else {
			pause = p.backoffDelay(a.pauses, random)
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

// countedRetries returns how many replays count as retries, which MaxRetries bounds.
func (a *Attempts) countedRetries() int { return a.count - a.quick - a.schema }

// NeedsExclusivePass reports whether the last counted replay must run while no other transaction with its
// ContentionKey (for the same rows) runs. It returns true from the third counted replay on, and for the last replay.
func (a *Attempts) NeedsExclusivePass(p *Policy) bool {
	return a.countedRetries() >= min(3, p.MaxRetries)
}

// backoffDelay returns the n-th pause (from 0) before replays that are not quick.
func (p *Policy) backoffDelay(n int, random float64) time.Duration {
	d := p.MaxDelay
	if n < 62 && p.BaseDelay <= p.MaxDelay>>n {
		d = p.BaseDelay << n
	}
	return min(p.addJitter(d, random), p.MaxDelay)
}

// addJitter returns d, made longer or shorter at random by JitterFactor.
func (p *Policy) addJitter(d time.Duration, random float64) time.Duration {
	return d + time.Duration(float64(d)*p.JitterFactor*(2*random-1))
}
