package retry

import (
	"sync"
	"time"
)

// Alert counts the conflicts of a minute, for a line in the log when a process meets many. It is safe for
// concurrent use.
type Alert struct {
	threshold int // 0: never

	mu    sync.Mutex
	since time.Time // when the minute that is counted began
	n     int
}

// NewAlert returns an alert at more than threshold conflicts in a minute; 0 is none.
func NewAlert(threshold int) *Alert { return &Alert{threshold: threshold} }

// Conflict counts one, and returns how many the minute has had; over is true for one of
// them at most, the one that passes the threshold. A minute begins with the first conflict
// behind the end of the last.
func (a *Alert) Conflict(now time.Time) (n int, over bool) {
	if a.threshold == 0 {
		return 0, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.since) >= time.Minute {
		a.since, a.n = now, 0
	}
	a.n++
	return a.n, a.n == a.threshold+1
}
