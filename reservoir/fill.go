package reservoir

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"
)

// fill keeps as many backends open as the shelf wants, until ctx ends. Dials
// run in parallel; what paces them is admit and, after a failure, the backoff.
func (r *Reservoir) fill(ctx context.Context) {
	for {
		pause, wanted := r.nextDial()
		if !wanted || pause > 0 {
			if !r.sleep(ctx, pause) {
				return
			}
			continue
		}
		if r.admit(ctx) != nil {
			return
		}
		if generation, ok := r.beginDial(); ok {
			r.work.Go(func() { r.dialReady(ctx, generation) })
		}
	}
}

// nextDial says whether a dial for the shelf is wanted, and after which pause.
func (r *Reservoir) nextDial() (pause time.Duration, wanted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.dialWantedLocked() {
		return 0, false
	}
	return time.Until(r.backoff.until), true
}

func (r *Reservoir) dialWantedLocked() bool {
	parallel := maxDials
	if r.backoff.failures > 0 {
		parallel = 1
	}
	return r.filling < parallel && r.shelf.need() > 0
}

// sleep waits until there may be something to do: at the latest after pause,
// if that is more than 0. It reports false when ctx has ended.
func (r *Reservoir) sleep(ctx context.Context, pause time.Duration) bool {
	var elapsed <-chan time.Time
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		elapsed = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-r.kick:
	case <-elapsed:
	}
	return true
}

// admit waits for the permission to dial once. Every dial asks here and nowhere
// else, before it is counted and with no lock held.
func (r *Reservoir) admit(ctx context.Context) error {
	if r.limiter.Allow() {
		return nil
	}
	r.throttled.Add(1)
	defer r.throttled.Add(-1)
	return r.limiter.Wait(ctx)
}

// beginDial takes a slot for a dial, if one is still wanted.
func (r *Reservoir) beginDial() (generation int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.dialWantedLocked() {
		return 0, false
	}
	r.filling++
	r.shelf.dialing++
	return r.backoff.generation, true
}

// dialReady dials a backend for the shelf.
func (r *Reservoir) dialReady(ctx context.Context, generation int) {
	began := r.age()
	c, err := r.timedDial(ctx, nil)

	r.mu.Lock()
	r.filling--
	r.shelf.dialing--
	var pause time.Duration
	var news, recovered bool
	switch {
	case r.closed || (err != nil && ctx.Err() != nil):
		// Run's end has overtaken the dial.
	case err != nil:
		r.lastErr = err
		pause, news = r.backoff.failed(generation, time.Now(), quotaRefusal(err))
		r.slotFreedLocked()
	default:
		r.lastErr = nil
		recovered = r.backoff.succeeded(generation)
		r.addLocked(c, began)
	}
	late := r.closed && c != nil
	r.mu.Unlock()
	r.wake()

	switch {
	case late:
		c.terminate()
		r.metrics.Discarded(string(Shutdown))
	case news:
		r.log.Warn("dial failed", slog.Any("error", err), slog.Duration("retry_in", pause))
	case recovered:
		r.log.Info("dials succeed again")
	}
}

// addLocked draws a new backend's lifetime, which counts from the beginning of
// its dial, and puts it on the shelf.
func (r *Reservoir) addLocked(c *Conn, began time.Duration) {
	life := r.cfg.BaseLifetime
	if r.cfg.LifetimeJitter > 0 {
		life += rand.N(r.cfg.LifetimeJitter)
	}
	c.owner = r
	c.endAt = began + life
	c.guardAt = c.endAt - r.cfg.GuardWindow
	c.hour = r.calendar.book(c.guardAt - retireMargin)
	c.retireAt = r.calendar.time(c.hour)
	r.params = c.Params
	r.shelf.putNew(c)
	r.offerLocked(0)
}

// timedDial dials, and counts how that went.
func (r *Reservoir) timedDial(ctx context.Context, s *Startup) (*Conn, error) {
	began := time.Now()
	c, err := r.dial(ctx, s)
	switch {
	case err == nil:
		r.metrics.Dialed(time.Since(began))
	case ctx.Err() == nil:
		r.metrics.DialFailed(failure(err))
	}
	return c, err
}

// SQLSTATEs by which a cluster refuses a connection for its quotas: the number
// of connections, and their rate.
const (
	tooManyConnections = "53300"
	rateExceeded       = "53400"
)

func quotaRefusal(err error) bool {
	e, ok := errors.AsType[*DialError](err)
	return ok && (e.SQLState == tooManyConnections || e.SQLState == rateExceeded)
}

// failure is the label under which a failed dial is counted.
func failure(err error) string {
	e, ok := errors.AsType[*DialError](err)
	switch {
	case !ok:
		return "other"
	case e.SQLState == tooManyConnections:
		return "too_many_connections"
	case e.SQLState == rateExceeded:
		return "rate_exceeded"
	}
	return string(e.Step)
}
