package reservoir

import (
	"bytes"
	"context"
	"io"
	"time"
)

// probeWait is how long a ready backend may take to answer.
const probeWait = 2 * time.Second

// A Sync, and what an idle server outside a transaction answers: ReadyForQuery.
var (
	syncFrame  = []byte{'S', 0, 0, 0, 4}
	readyFrame = []byte{'Z', 0, 0, 0, 5, 'I'}
)

// probe asks the ready backends, one after the other, for a sign of life, until
// ctx ends. The one that is asked is away from the shelf meanwhile.
func (r *Reservoir) probe(ctx context.Context) {
	ticker := time.NewTicker(scanEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for c := r.beginProbe(); c != nil && ctx.Err() == nil; c = r.beginProbe() {
			r.endProbe(c, c.answers())
		}
	}
}

// beginProbe takes the backend that was not used for longest and is due to be
// asked, unless it is the only one or somebody waits.
func (r *Reservoir) beginProbe() *Conn {
	now := r.age()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.shelf.ready) < 2 {
		return nil
	}
	for i, c := range r.shelf.ready {
		if now-max(c.probedAt, c.began) >= r.cfg.ProbeInterval {
			c.probedAt = now
			r.shelf.take(i)
			r.shelf.lend(c)
			return c
		}
	}
	return nil
}

// endProbe puts a backend back to where it was, or ends it.
func (r *Reservoir) endProbe(c *Conn, alive bool) {
	if !alive {
		r.discard(c, ProbeFailed)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unlendLocked(c)
	r.returnLocked(c, r.shelf.putNew)
}

// answers makes a round trip to the server. What is not the expected answer, be
// it a notice of its end, is none.
func (c *Conn) answers() bool {
	answer := make([]byte, len(readyFrame))
	if c.Net.SetDeadline(time.Now().Add(probeWait)) != nil {
		return false
	}
	if _, err := c.Net.Write(syncFrame); err != nil {
		return false
	}
	if _, err := io.ReadFull(c.Net, answer); err != nil {
		return false
	}
	return bytes.Equal(answer, readyFrame) && c.Net.SetDeadline(time.Time{}) == nil
}
