package proxy

import (
	"sync"
	"time"
)

// The line in the log when a process meets many conflicts. conflicted counts them.

// alarm watches how many conflicts there are in a minute.
type alarm struct {
	threshold int // 0: never

	mu    sync.Mutex
	since time.Time // when the minute that is counted began
	n     int
}

// newAlarm returns an alarm for more than threshold conflicts in a minute; 0 is none.
func newAlarm(threshold int) *alarm { return &alarm{threshold: threshold} }

// conflict counts one, and returns how many the minute has had; over is true for one of
// them at most, the one that passes the threshold. A minute begins with the first conflict
// behind the end of the last.
func (a *alarm) conflict(now time.Time) (n int, over bool) {
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
