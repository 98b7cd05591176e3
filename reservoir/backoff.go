package reservoir

import (
	"math/rand/v2"
	"time"
)

// Pauses after a dial that failed double from first to most. Those of ordinary
// failures are the ones of AWS' own DSQL connectors (100 ms to 5 s, 2026-08); a
// refusal by quota concerns every sidecar of the cluster, so it slows ten
// times more at first.
const (
	firstPause      = 100 * time.Millisecond
	mostPause       = 5 * time.Second
	firstQuotaPause = time.Second
	mostQuotaPause  = 30 * time.Second
	// mostWaitedPause bounds a pause while somebody waits for a backend, save behind a refusal by quota: who waits is to
	// have one soon after the server is back.
	mostWaitedPause = 500 * time.Millisecond
)

// backoff paces dials after failures. Until a dial succeeds again those for the
// shelf go out one at a time. The Reservoir's mutex guards it.
type backoff struct {
	failures   int
	generation int // a dial that began before the last failure is old news
	until      time.Time
	soon       time.Time // the same while somebody waits
	quota      bool      // the last failure was a refusal by quota: no dial at all before until
	// failed dials since the last that has succeeded: how many, the first and the last.
	count       int
	since, last time.Time
}

// next is when the next dial may be made; waited: somebody waits for a backend.
func (b *backoff) next(waited bool) time.Time {
	if waited {
		return b.soon
	}
	return b.until
}

// failed books the failure of a dial that began in a generation, and reports
// whether it is news, and the pause before the next dial.
func (b *backoff) failed(generation int, now time.Time, quota bool) (pause time.Duration, news bool) {
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
	if b.failures < 10 { // 2^10 times first is over most
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

// succeeded books a success, and reports whether it ends a time of failures.
func (b *backoff) succeeded(generation int) (recovered bool) {
	b.count = 0
	if generation != b.generation || b.failures == 0 {
		return false
	}
	b.failures, b.quota = 0, false
	return true
}
