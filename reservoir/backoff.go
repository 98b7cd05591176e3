package reservoir

import (
	"math/rand/v2"
	"time"
)

// These constants bound the pause after a failed dial: the first pause, which doubles with each failure, and the
// longest. The values for ordinary failures are those of AWS's own DSQL connectors (100 ms to 5 s, 2026-08). A
// refusal by quota concerns every sidecar of the cluster, so the first pause after it is ten times longer.
const (
	firstPause      = 100 * time.Millisecond
	mostPause       = 5 * time.Second
	firstQuotaPause = time.Second
	mostQuotaPause  = 30 * time.Second
	// mostWaitedPause bounds a pause while a borrower waits for a backend. So the borrower gets a backend soon after the
	// server is back. Pauses after a refusal by quota are not shortened.
	mostWaitedPause = 500 * time.Millisecond
)

// dialBackoff paces dials after failures. Until a dial succeeds, dials for the shelf (ready backends) are made one at a
// time. The Reservoir's mutex guards a dialBackoff.
type dialBackoff struct {
	failures   int
	generation int // failures of dials that began in an earlier generation do not count
	until      time.Time
	soon       time.Time // like until, while a borrower waits
	quota      bool      // the last failure was a refusal by quota: no dial before until
	// count is the number of failed dials since the last success. since is the time of the first of these failures, and
	// last the time of the latest.
	count       int
	since, last time.Time
}

// nextDialTime returns the time at which the next dial may be made. waited says that a borrower waits for a backend.
func (b *dialBackoff) nextDialTime(waited bool) time.Time {
	if waited {
		return b.soon
	}
	return b.until
}

// recordFailure records a failed dial that began in generation, the time between two failures that set pauses. It
// returns the pause before the next dial. If generation has ended, news is false and no pause is set.
func (b *dialBackoff) recordFailure(generation int, now time.Time, quota bool) (pause time.Duration, news bool) {
	if b.last = now; b.count == 0 {
		b.since = now
	}
	b.count++
	if generation != b.generation {
		return 0, false
	}
	first, most := firstPause, mostPause
	if quota {
		first, most = firstQuotaPause, mostQuotaPause
	}
	pause = most
	if b.failures < 10 { // firstPause << 10 is more than every bound
		pause = min(most, first<<b.failures)
	}
	pause = pause/2 + rand.N(pause/2)
	b.failures++
	b.generation++
	b.until, b.quota = now.Add(pause), quota
	if b.soon = b.until; !quota {
		b.soon = now.Add(min(pause, mostWaitedPause/2+rand.N(mostWaitedPause/2)))
	}
	return pause, true
}

// recordSuccess records a successful dial, and reports whether the success ends a period of failed dials.
func (b *dialBackoff) recordSuccess(generation int) (recovered bool) {
	b.count = 0
	if generation != b.generation || b.failures == 0 {
		return false
	}
	b.failures, b.quota = 0, false
	return true
}
