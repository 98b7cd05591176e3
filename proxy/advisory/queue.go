package advisory

import (
	"context"
	"slices"
	"sync"
	"time"
)

// WaitQueue orders the sessions of one process that wait for the same advisory lock in a line. The first session of a
// line looks at the lock's row, and the others only wait. The zero WaitQueue is ready for use, and safe for
// concurrent use.
type WaitQueue struct {
	mu    sync.Mutex
	lines map[string][]chan struct{} // by the lock's name; the first of each has its turn
}

// Join appends the caller to the line of waiters for a lock. Join returns when the caller is the first, or with the
// cause of ctx's end. After a nil error the caller calls leave once, when it waits no longer.
func (q *WaitQueue) Join(ctx context.Context, name string) (leave func(), err error) {
	turn := make(chan struct{})
	q.mu.Lock()
	if q.lines == nil {
		q.lines = map[string][]chan struct{}{}
	}
	line := append(q.lines[name], turn)
	q.lines[name] = line
	if len(line) == 1 {
		close(turn)
	}
	q.mu.Unlock()
	leave = func() { q.leave(name, turn) }
	select {
	case <-turn:
		return leave, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

// LineLength returns the number of sessions in the line of a lock.
func (q *WaitQueue) LineLength(name string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.lines[name])
}

func (q *WaitQueue) leave(name string, turn chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.lines[name]
	at := slices.Index(line, turn)
	line = slices.Delete(line, at, at+1)
	switch {
	case len(line) == 0:
		delete(q.lines, name)
		return
	case at == 0:
		close(line[0])
	}
	q.lines[name] = line
}

// PollPacer paces a session's looks at a lock that another process holds. The zero PollPacer has not looked yet.
type PollPacer struct {
	began, epoch int64
	looks        int // since the last change of the holder
}

const (
	pauseFirst = 200 * time.Millisecond
	pauseLeast = 5 * time.Millisecond
	pauseMost  = time.Second
)

// NextPause returns the pause after a look that found an epoch, the count of the lock's holders.
//
// While the holder stays the same, the pauses grow to a second. After each change of the holder they start again, and
// are shorter the more holders there have been. Processes have no common order, so a process that was passed over more
// often looks more often.
func (p *PollPacer) NextPause(epoch int64) time.Duration {
	if p.looks == 0 || epoch < p.epoch { // the row was deleted by hand
		p.began = epoch
	}
	if epoch != p.epoch {
		p.looks = 0
	}
	p.epoch = epoch
	passed := time.Duration(epoch - p.began)
	first := max(pauseLeast, pauseFirst/(1+passed*passed/4))
	pause := min(first<<min(p.looks, 10), pauseMost)
	p.looks++
	return pause
}
