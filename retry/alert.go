package retry

import (
	"sync"
	"time"
)

// ConflictAlert counts the conflicts of a minute, so that a process with many conflicts can log them. ConflictAlert is
// safe for concurrent use.
type ConflictAlert struct {
	threshold int // 0: never

	mu    sync.Mutex
	since time.Time // when the minute that is counted began
	n     int
}

// NewConflictAlert returns a ConflictAlert for more than threshold conflicts in a minute. If threshold is 0,
// RecordConflict never returns over.
func NewConflictAlert(threshold int) *ConflictAlert { return &ConflictAlert{threshold: threshold} }

// RecordConflict counts a conflict, and returns the number of conflicts in the current minute. over is true only for
// the conflict that exceeds the threshold. A minute begins with the first conflict after the last minute.
func (a *ConflictAlert) RecordConflict(now time.Time) (n int, over bool) {
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
