package admission

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errNoRound is the error of Heartbeat.CheckAlive: the goroutine that visits all sessions has finished no round.
var errNoRound = errors.New("no round of the sessions has ended")

// Heartbeat records rounds of a goroutine that takes the locks of all sessions. A finished round shows that none of
// them hangs. The zero Heartbeat has had no round. Heartbeat does not detect a server that does not answer, because
// a restart of Sluice would only disconnect all clients.
type Heartbeat struct {
	mu    sync.Mutex
	last  time.Time
	next  chan struct{} // closed by the next round; nil without a waiter
	ended bool
}

// Beat records that the goroutine has ended a round, in which it took the locks of all sessions.
func (b *Heartbeat) Beat() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = time.Now()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}

// Stop records that the goroutine will make no more rounds over the sessions.
func (b *Heartbeat) Stop() {
	b.Beat()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
}

// nextRound returns nil if a round over the sessions ended less than within ago, or if Stop was called. Otherwise
// nextRound returns a channel that the next finished round closes.
func (b *Heartbeat) nextRound(within time.Duration) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || time.Since(b.last) < within {
		return nil
	}
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

// CheckAlive returns nil if a round over the sessions ended less than within ago, or ends before ctx does. Otherwise
// it returns an error. So a process that was suspended still has the time of ctx to show that it works.
func (b *Heartbeat) CheckAlive(ctx context.Context, within time.Duration) error {
	next := b.nextRound(within)
	if next == nil {
		return nil
	}
	select {
	case <-next:
		return nil
	case <-ctx.Done():
		return errNoRound
	}
}
