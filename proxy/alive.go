package proxy

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Whether the Server hangs: the sweeper takes the lock that sessions take on their way in and
// out, and wakes each by the lock that guards its backend. So a round of it is a sign of life.
// It says nothing of a server that does not answer: a restart would not mend that one, and
// would cut the sessions of all clients.

// errNoRound is what Alive says of a Server that gives no sign of life.
var errNoRound = errors.New("no round of the sessions has ended")

// beat tells of rounds. The zero value has had none. The sweeper marks them; whoever asks
// Alive waits for them.
type beat struct {
	mu    sync.Mutex
	last  time.Time
	next  chan struct{} // closed by the next round, where somebody waits; guarded by mu
	ended bool
}

// mark tells that a round has ended.
func (b *beat) mark() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = time.Now()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}

// stop tells that there will be no more.
func (b *beat) stop() {
	b.mark()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
}

// recent returns nil where a round ended within the time, or none will come any more, and
// else a channel that the next one closes.
func (b *beat) recent(within time.Duration) <-chan struct{} {
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

// Alive returns nil once the Server has gone round its sessions, as it does each second, and
// an error when ctx ends first. A process that was asleep is given a round.
func (srv *Server) Alive(ctx context.Context) error {
	next := srv.swept.recent(2 * sweepEvery)
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
