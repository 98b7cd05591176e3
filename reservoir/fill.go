package reservoir

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/sluice-proxy/sluice/lease"
)

// fill dials backends, in parallel, until ctx ends: as many as wantedDialsLocked returns. admit delays dials for the
// lease and the rate limit, and dialBackoff delays them after failures.
func (r *Reservoir) fill(ctx context.Context) {
	for ctx.Err() == nil {
		pause, wanted := r.nextDial()
		if wanted == 0 || pause > 0 {
			if !r.sleep(ctx, pause) {
				return
			}
			continue
		}
		if !r.passesPrecheck(ctx) {
			continue
		}
		permit, err := r.admit(ctx, wanted)
		if err != nil {
			return
		}
		if generation, ok := r.beginDial(); ok {
			r.work.Go(func() { r.dialForShelf(ctx, generation, permit) })
		} else {
			permit.Release()
		}
	}
}

// nextDial returns the number of dials that the shelf needs now, and the pause before the first of them.
func (r *Reservoir) nextDial() (pause time.Duration, wanted int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if wanted = r.wantedDialsLocked(); wanted == 0 {
		return 0, 0
	}
	until := r.backoff.nextDialTime(r.shelf.waiting > 0)
	if r.isTrickling() && r.trickle.After(until) {
		until = r.trickle
	}
	return time.Until(until), wanted
}

// wantedDialsLocked returns how many dials for the shelf should begin now. After a failure, and above
// Config.LowWatermark, at most one dial runs at a time.
func (r *Reservoir) wantedDialsLocked() int {
	most, parallel := r.shelf.missingDials(), maxDials
	if r.backoff.failures > 0 || r.isTrickling() {
		most, parallel = min(most, 1), 1
	}
	if r.filling >= parallel {
		return 0
	}
	return most
}

// isTrickling reports whether Config.LowWatermark is reached and no borrower waits. Dials are then slow, so that
// sidecars do not race for the cluster's last slots. The caller holds mu.
func (r *Reservoir) isTrickling() bool {
	return r.shelf.waiting == 0 && r.shelf.heldCount()+r.shelf.dialing >= r.cfg.LowWatermark
}

// passesPrecheck reports whether a dial may be made. If the last dial failed before it used the network,
// Config.Precheck decides. So a hopeless dial uses no slot and no part of the rate.
func (r *Reservoir) passesPrecheck(ctx context.Context) bool {
	r.mu.Lock()
	failed, generation := failedBeforeNetwork(r.lastErr), r.backoff.generation
	r.mu.Unlock()
	if r.cfg.Precheck == nil || !failed {
		return true
	}
	err := r.cfg.Precheck(ctx)
	if err == nil || ctx.Err() != nil {
		return err == nil
	}
	r.metrics.CountDialFailure(failureLabel(err))
	r.mu.Lock()
	pause, news := r.recordFailureLocked(generation, err)
	r.mu.Unlock()
	r.logDialFailure(news, err, pause)
	return false
}

// sleep waits until wakeFill is called or, with a positive pause, until the pause has passed. sleep returns false when
// ctx has ended.
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

// beginDial counts a new dial for the shelf as in progress, if the shelf still needs one.
func (r *Reservoir) beginDial() (generation int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wantedDialsLocked() == 0 || time.Until(r.backoff.nextDialTime(r.shelf.waiting > 0)) > 0 {
		return 0, false
	}
	if r.isTrickling() {
		r.trickle = time.Now().Add(trickleEvery)
	}
	r.filling++
	r.shelf.dialing++
	return r.backoff.generation, true
}

// dialForShelf dials a backend and puts it on the shelf. permit is the right to this dial.
func (r *Reservoir) dialForShelf(ctx context.Context, generation int, permit *lease.Permit) {
	began := r.elapsed()
	c, err := r.timedDial(ctx, nil)

	r.mu.Lock()
	r.filling--
	r.shelf.dialing--
	var pause time.Duration
	var news, recovered bool
	switch {
	case r.closed || (err != nil && ctx.Err() != nil):
		// If Run has ended before the dial failed, the failure does not count.
	case err != nil:
		pause, news = r.recordFailureLocked(generation, err)
		r.serveClaimLocked()
	default:
		r.lastErr = nil
		recovered = r.backoff.recordSuccess(generation)
		c.permit = permit
		r.shelveNewLocked(c, began)
	}
	late := r.closed && c != nil
	if c == nil {
		permit.Release()
	}
	r.mu.Unlock()
	r.wakeFill()

	r.logDialFailure(news, err, pause)
	switch {
	case late:
		c.setCloseDeadline(closingWait)
		c.terminate()
		permit.Release()
		r.metrics.CountDiscard(string(Shutdown))
	case recovered:
		r.log.Info("dials succeed again")
	}
}

// recordFailureLocked records a failed dial for the shelf, and delays all further dials for the shelf. The results
// are those of dialBackoff.recordFailure.
func (r *Reservoir) recordFailureLocked(generation int, err error) (pause time.Duration, news bool) {
	r.lastErr = err
	if isServerRefusal(err) {
		r.provenAt = max(r.provenAt, r.elapsed()) // a refusal proves that the server answers
	} else {
		r.failedAt = r.elapsed()
	}
	_, refused := quotaRefusal(err)
	return r.backoff.recordFailure(generation, time.Now(), refused)
}

func (r *Reservoir) logDialFailure(news bool, err error, pause time.Duration) {
	if news {
		r.log.Warn("dial failed", slog.Any("error", err), slog.Duration("retry_in", pause))
	}
}

// shelveNewLocked puts a new backend on the shelf, with a random lifetime. The lifetime begins at the start of the
// backend's dial.
func (r *Reservoir) shelveNewLocked(c *Conn, began time.Duration) {
	life := r.cfg.BaseLifetime
	if r.cfg.LifetimeJitter > 0 {
		life += rand.N(r.cfg.LifetimeJitter)
	}
	c.owner = r
	c.began = began
	r.recordAnswerLocked(c, began)
	r.scheduleRetirementLocked(c, began+life)
	r.params = c.Params
	r.alive[c] = struct{}{}
	r.shelf.putNew(c)
	r.obeyLeaseLocked()
	if c.state == ready {
		r.lendOrShelveLocked(c)
	}
	r.checkInitialFillLocked(r.elapsed())
}

// scheduleRetirementLocked sets the end of a backend's lifetime, and its earlier time of retirement.
func (r *Reservoir) scheduleRetirementLocked(c *Conn, end time.Duration) {
	c.endAt = end
	c.guardAt = end - r.cfg.GuardWindow
	c.hour = r.calendar.bookHour(c.guardAt - retireMargin)
	c.retireAt = r.calendar.hourStart(c.hour)
}

// checkInitialFillLocked sets filled once enough backends are in use or ready, or after InitialFillTimeout.
func (r *Reservoir) checkInitialFillLocked(now time.Duration) {
	goal := min(r.cfg.LowWatermark, r.cfg.TargetReady)
	switch {
	case r.filled:
	case r.shelf.heldCount() >= goal:
		r.filled = true
	case now >= r.cfg.InitialFillTimeout:
		r.filled = true
		if r.cfg.InitialFillTimeout > 0 {
			r.log.Warn("the initial fill goes on after its time", slog.Int("open", r.shelf.heldCount()), slog.Int("wanted", goal),
				slog.String("lease", r.lease.State().Phase.String()), slog.Any("last_dial_error", r.lastErr))
		}
	}
}

// timedDial dials a backend and counts the outcome in the metrics.
func (r *Reservoir) timedDial(ctx context.Context, s *Startup) (*Conn, error) {
	began := time.Now()
	c, err := r.dial(ctx, s)
	switch {
	case err == nil:
		r.metrics.CountDial(time.Since(began))
	case ctx.Err() == nil:
		r.metrics.CountDialFailure(failureLabel(err))
	}
	if quota, refused := quotaRefusal(err); refused {
		r.lease.RecordRefusal(quota)
	}
	return c, err
}

// These are the SQLSTATEs by which a cluster refuses a connection because of a quota: the number of connections, and
// their rate.
const (
	tooManyConnections = "53300"
	rateExceeded       = "53400"
)

// quotaRefusal returns the quota because of which the cluster refused a dial. If err has another cause, quotaRefusal
// returns false.
func quotaRefusal(err error) (lease.ConnQuota, bool) {
	e, ok := errors.AsType[*DialError](err)
	switch {
	case ok && e.SQLState == tooManyConnections:
		return lease.Count, true
	case ok && e.SQLState == rateExceeded:
		return lease.Rate, true
	}
	return 0, false
}

// isServerRefusal reports whether err is the server's refusal of a dial.
func isServerRefusal(err error) bool {
	e, ok := errors.AsType[*DialError](err)
	return ok && e.SQLState != ""
}

// failedBeforeNetwork reports whether err is the error of a dial that failed before it used the network.
func failedBeforeNetwork(err error) bool {
	e, ok := errors.AsType[*DialError](err)
	return ok && (e.Step == StepCredentials || e.Step == StepToken)
}

// failureLabel returns the metrics label for the error of a dial.
func failureLabel(err error) string {
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
