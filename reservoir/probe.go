package reservoir

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"sync"
	"time"
)

// probeWait is how long a ready backend may take to answer.
const probeWait = 2 * time.Second

// A Sync, and what an idle server outside a transaction answers: ReadyForQuery.
var (
	syncFrame  = []byte{'S', 0, 0, 0, 4}
	readyFrame = []byte{'Z', 0, 0, 0, 5, 'I'}
)

// Suspect says that a backend has failed without a word: the others may have as well. When
// it returns, no backend that was ready is lent before it has given a sign of life, for
// which all are asked at once. Suspicions that come while that goes on are part of it.
func (r *Reservoir) Suspect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.suspecting || r.closed {
		return
	}
	r.suspecting = true
	r.suspects = r.takeToAskLocked(func(*Conn) bool { return true })
	r.suspected <- struct{}{} // one at most until it is over
}

// probe asks ready backends for a sign of life, until ctx ends: those that have given none
// for long, and all behind a suspicion, which waits for no other question.
func (r *Reservoir) probe(ctx context.Context) {
	var asking sync.WaitGroup
	defer asking.Wait()
	ticker := time.NewTicker(scanEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return // close ends those that are suspected
		case <-r.suspected:
			r.mu.Lock()
			asked := r.suspects
			r.suspects = nil
			r.mu.Unlock()
			asking.Go(func() {
				r.ask(ctx, asked)
				r.mu.Lock()
				defer r.mu.Unlock()
				r.suspecting = false
			})
		case <-ticker.C:
			if r.cfg.ProbeInterval > 0 {
				r.mu.Lock()
				now := r.age()
				asked := r.takeToAskLocked(func(c *Conn) bool { return now-c.provenAt >= c.patience })
				r.mu.Unlock()
				asking.Go(func() { r.ask(ctx, asked) })
			}
		}
	}
}

// takeToAskLocked lends the ready backends that are due to the prober.
func (r *Reservoir) takeToAskLocked(due func(*Conn) bool) (asked []*Conn) {
	for i := len(r.shelf.ready) - 1; i >= 0; i-- {
		if c := r.shelf.ready[i]; due(c) {
			r.shelf.take(i)
			r.shelf.lend(c)
			asked = append(asked, c)
		}
	}
	return asked
}

// ask makes a round trip on each backend, beside the others. One that answers is back on
// the shelf at once, any other ends; ask returns when that is known of all, or ctx ends.
func (r *Reservoir) ask(ctx context.Context, asked []*Conn) {
	var asking sync.WaitGroup
	for _, c := range asked {
		asking.Go(func() {
			alive := c.answers(ctx)
			switch {
			case ctx.Err() != nil:
				r.discard(c, Shutdown)
				return
			case !alive:
				r.discard(c, ProbeFailed)
				return
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.provenLocked(c, r.age())
			r.unlendLocked(c)
			r.returnLocked(c, r.shelf.putNew)
		})
	}
	asking.Wait()
}

// provenLocked notes that a backend answered at that time. For how long that is enough
// differs by half an interval, so that the questions of a fleet spread.
func (r *Reservoir) provenLocked(c *Conn, at time.Duration) {
	c.provenAt = at
	r.provenAt = max(r.provenAt, at)
	if r.cfg.ProbeInterval > 0 {
		c.patience = r.cfg.ProbeInterval*3/4 + rand.N(r.cfg.ProbeInterval/2+1)
	}
}

// answers makes a round trip to the server. What is not the expected answer, be
// it a notice of its end, is none; nor is one that comes behind the end of ctx.
func (c *Conn) answers(ctx context.Context) bool {
	answer := make([]byte, len(readyFrame))
	if c.Net.SetDeadline(time.Now().Add(probeWait)) != nil {
		return false
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		c.Net.SetDeadline(time.Unix(1, 0))
		close(woken)
	})
	defer func() {
		if !stop() {
			<-woken // the goodbye has a deadline of its own
		}
	}()
	if _, err := c.Net.Write(syncFrame); err != nil {
		return false
	}
	if _, err := io.ReadFull(c.Net, answer); err != nil {
		return false
	}
	return bytes.Equal(answer, readyFrame) && c.Net.SetDeadline(time.Time{}) == nil
}
