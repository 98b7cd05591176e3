package advisory

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Queue has those of one process who wait for the same lock wait in the order of their arrival: the
// first looks at the lock's row, the others look at nothing. The zero value is ready to use. All
// methods may be called by any goroutine.
type Queue struct {
	mu    sync.Mutex
	lines map[string][]chan struct{} // by the lock's name; the first of each is at its turn
}

// Join puts the caller at the end of a lock's line, and returns when its turn has come, or with the
// cause of ctx's end. Behind a nil error the caller calls leave once, when it waits no more.
func (q *Queue) Join(ctx context.Context, name string) (leave func(), err error) {
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

// Waiting is how many are in the line of a lock.
func (q *Queue) Waiting(name string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.lines[name])
}

func (q *Queue) leave(name string, turn chan struct{}) {
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

// Patience paces the looks of one who waits for a lock that another process holds. The zero value has
// not looked yet.
type Patience struct {
	began, epoch int64
	looks        int // since the lock has changed hands
}

const (
	pauseFirst = 200 * time.Millisecond
	pauseLeast = 5 * time.Millisecond
	pauseMost  = time.Second
)

// Pause is how long one who waits pauses behind a look that has found that epoch.
//
// While the lock stays with one holder the pauses grow to a second. Each time that it has changed
// hands they begin again, and are the shorter the more others were served meanwhile: nobody knows an
// order among processes, and so who was passed over most often looks most often.
func (p *Patience) Pause(epoch int64) time.Duration {
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
