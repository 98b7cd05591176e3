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
)

// backoff paces dials after failures. Until a dial succeeds again those for the
// shelf go out one at a time. The Reservoir's mutex guards it.
type backoff struct {
	failures   int
	generation int // a dial that began before the last failure is old news
	until      time.Time
	quota      bool // the last failure was a refusal by quota: no dial at all before until
}

// failed books the failure of a dial that began in a generation, and reports
// whether it is news, and the pause before the next dial.
func (b *backoff) failed(generation int, now time.Time, quota bool) (pause time.Duration, news bool) {
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
	return pause, true
}

// succeeded books a success, and reports whether it ends a time of failures.
func (b *backoff) succeeded(generation int) (recovered bool) {
	if generation != b.generation || b.failures == 0 {
		return false
	}
	b.failures, b.quota = 0, false
	return true
}
