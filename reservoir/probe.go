package reservoir

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"sync"
	"time"
)

// probeWait is the time within which a ready backend must answer a probe.
const probeWait = 2 * time.Second

// syncFrame is a Sync message. readyFrame is ReadyForQuery, the answer of an idle server outside a transaction.
var (
	syncFrame  = []byte{'S', 0, 0, 0, 4}
	readyFrame = []byte{'Z', 0, 0, 0, 5, 'I'}
)

// ProbeAllReady reports that a backend failed without a message, so that other backends may have failed too.
// ProbeAllReady removes all ready backends from the shelf and has them probed at once. No backend is lent before it has
// answered. While these probes run, further calls do nothing.
func (r *Reservoir) ProbeAllReady() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.suspecting || r.closed {
		return
	}
	r.suspecting = true
	r.suspects = r.lendToProberLocked(func(*Conn) bool { return true })
	r.suspected <- struct{}{} // at most one, because suspecting is set
}

// runProber probes ready backends until ctx ends: backends that have not answered for long, and all backends after a
// call of ProbeAllReady. The probes after ProbeAllReady do not wait for other probes.
func (r *Reservoir) runProber(ctx context.Context) {
	var asking sync.WaitGroup
	defer asking.Wait()
	ticker := time.NewTicker(scanEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return // close ends the suspects
		case <-r.suspected:
			r.mu.Lock()
			asked := r.suspects
			r.suspects = nil
			r.mu.Unlock()
			asking.Go(func() {
				r.probeConns(ctx, asked)
				r.mu.Lock()
				defer r.mu.Unlock()
				r.suspecting = false
			})
		case <-ticker.C:
			if r.cfg.ProbeInterval > 0 {
				r.mu.Lock()
				now := r.elapsed()
				asked := r.lendToProberLocked(func(c *Conn) bool { return now-c.provenAt >= c.probeFreeFor })
				r.mu.Unlock()
				asking.Go(func() { r.probeConns(ctx, asked) })
			}
		}
	}
}

// lendToProberLocked takes off the shelf those ready backends for which due returns true. It lends them to the prober.
func (r *Reservoir) lendToProberLocked(due func(*Conn) bool) (asked []*Conn) {
	for i := len(r.shelf.ready) - 1; i >= 0; i-- {
		if c := r.shelf.ready[i]; due(c) {
			r.shelf.takeAt(i)
			r.shelf.markLent(c)
			asked = append(asked, c)
		}
	}
	return asked
}

// probeConns makes a round trip on each backend, in parallel. A backend that answers returns to the shelf at once, and
// any other backend is closed. probeConns returns when all have answered or ended, or when ctx ends.
func (r *Reservoir) probeConns(ctx context.Context, asked []*Conn) {
	var asking sync.WaitGroup
	for _, c := range asked {
		asking.Go(func() {
			alive := c.answersProbe(ctx)
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
			r.recordAnswerLocked(c, r.elapsed())
			r.endLoanLocked(c)
			r.returnLocked(c, r.shelf.putNew)
		})
	}
	asking.Wait()
}

// recordAnswerLocked records that a backend answered at the time at. The time to its next probe varies by half an
// interval, so that many sidecars do not probe at once.
func (r *Reservoir) recordAnswerLocked(c *Conn, at time.Duration) {
	c.provenAt = at
	r.provenAt = max(r.provenAt, at)
	if r.cfg.ProbeInterval > 0 {
		c.probeFreeFor = r.cfg.ProbeInterval*3/4 + rand.N(r.cfg.ProbeInterval/2+1)
	}
}

// answersProbe makes a round trip to the server and reports whether the backend is usable. Only a ReadyForQuery before
// the end of ctx counts as an answer.
func (c *Conn) answersProbe(ctx context.Context) bool {
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
			<-woken // terminate sets its own deadline
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
