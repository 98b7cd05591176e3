package proxy

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// How often a wait of Sluice's own looks for its client.
const (
	lookEvery       = 50 * time.Millisecond
	lookInLineEvery = sweepEvery // for those who wait for a backend: they may be thousands
)

// errWaitedEnough ends a wait at the limit that its caller set.
var errWaitedEnough = errors.New("waited long enough")

// wait begins a wait that Sluice itself makes in a turn: at the gate, between two
// attempts, for a backend. The context ends, with its cause, at the limit
// (errWaitedEnough), when the client cancels or its statement times out, when
// nobody waits any more, and when the session is cut. over ends the wait.
func (s *session) wait(limit time.Time, every time.Duration) (ctx context.Context, over func()) {
	s.tick.Store(s.tick.Load() | 1)
	s.startClock()
	cause := errWaitedEnough
	if end := earlier(s.t.deadline, s.carriedDeadline()); earlier(limit, end) != limit || limit.IsZero() {
		limit, cause = end, errTimedOut
	}
	ctx, leave := context.WithCancelCause(s.srv.ctx)
	cancelled, expire := ctx, func() {}
	if !limit.IsZero() {
		ctx, expire = context.WithDeadlineCause(cancelled, limit, cause)
	}
	s.mu.Lock()
	s.cancel.stop = leave
	if !s.cancel.asked.IsZero() {
		leave(errCanceled)
	}
	s.mu.Unlock()
	stopLooking := s.lookOut(every, leave)
	return ctx, func() {
		stopLooking()
		s.mu.Lock()
		s.cancel.stop = nil
		s.mu.Unlock()
		expire()
		leave(nil)
	}
}

// waited is what a wait is over for: nil when its context has not ended.
func (s *session) waited(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	cause := context.Cause(ctx)
	if cause == context.Canceled {
		return errCut
	}
	s.heeded(cause)
	return cause
}

// heeded forgets a cancel or a statement timeout that is about to be told.
func (s *session) heeded(cause error) {
	switch cause {
	case errCanceled:
		s.mu.Lock()
		s.cancel.asked = time.Time{}
		s.mu.Unlock()
	case errTimedOut:
		s.t.deadline = time.Time{}
	}
}

// waitOut waits for the pause before a replay, and at the gate. The error is why
// the replay is not made.
func (s *session) waitOut(pause time.Duration, queued bool) error {
	if pause == 0 && !queued {
		return nil
	}
	r := s.srv.replays
	ctx, over := s.wait(s.tx.attempts.Deadline(&r.cfg.Policy).Add(pause), lookEvery)
	defer over()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return s.waited(ctx)
	}
	if !queued {
		return nil
	}
	pass, err := r.gate.Enter(ctx, s.tx.key, s.tx.attempts.Alone(&r.cfg.Policy))
	s.tx.pass = pass
	if ended := s.waited(ctx); err != nil || ended != errWaitedEnough {
		return ended
	}
	return nil
}

// exchange is a round trip of Sluice's own in a turn, which ends when the turn must
// not go on; then nobody knows what the backend has done.
func (s *session) exchange(msg []byte) (refusal []byte, err error) {
	b := s.b
	s.mu.Lock()
	s.cancel.stop = func(error) { b.conn.Net.SetReadDeadline(time.Unix(1, 0)) }
	s.mu.Unlock()
	refusal, err = b.exchangeUntil(msg, s.t.deadline, s.stopped)
	s.mu.Lock()
	s.cancel.stop = nil
	s.mu.Unlock()
	if stops(err) {
		b.suspect = true
		s.heeded(err)
	}
	return refusal, err
}

// stops reports whether an error says that the turn must not go on.
func stops(err error) bool { return err == errCanceled || err == errTimedOut || err == errCut }

// stopped is why the turn must not go on, at a place where nothing of it has been
// sent; nil where it may.
func (s *session) stopped() error {
	switch deadline := s.t.deadline; {
	case s.cutOff.Load():
		return errCut
	case s.cancelAsked():
		return errCanceled
	case !deadline.IsZero() && !time.Now().Before(deadline):
		return errTimedOut
	}
	return nil
}

// reasonOf is the reason of a replay that is not made because of err.
func reasonOf(err error) retry.Reason {
	switch err {
	case errCanceled:
		return retry.Cancelled
	case errTimedOut:
		return retry.TimedOut
	case errWaitedEnough:
		return retry.Exhausted
	case errClientGone:
		return retry.ClientGone
	case errDraining:
		return retry.Draining
	}
	return retry.NoBackend
}

// lookOut looks every so often whether anybody waits for the session, whose
// goroutine must do nothing but wait meanwhile. stop ends it.
func (s *session) lookOut(every time.Duration, leave context.CancelCauseFunc) (stop func()) {
	var mu sync.Mutex
	over := false
	mu.Lock()
	defer mu.Unlock()
	var timer *time.Timer
	timer = time.AfterFunc(every, func() {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		if err := s.unawaited(); err != nil {
			leave(err)
			return
		}
		timer.Reset(every)
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		timer.Stop()
	}
}

// unawaited is why nobody waits for the turn in progress any more. What the client
// sent before it said goodbye is still run, as in PostgreSQL, but not run again.
func (s *session) unawaited() error {
	replaying := s.state == replaying
	if replaying && s.srv.draining.Load() {
		return errDraining
	}
	switch s.presence() {
	case gone:
		return errClientGone
	case leaving:
		if replaying || !s.lasts() {
			return errClientGone
		}
	}
	return nil
}

// lasts reports whether the turn's text may leave something behind that no frame
// has to follow.
func (s *session) lasts() bool {
	plan := s.t.plan
	if plan == nil || plan.Kind <= rewrite.Read {
		return false
	}
	ends := func(st rewrite.Statement) bool {
		return st.Tx.Verb == rewrite.Commit || st.Tx.Verb == rewrite.PrepareTransaction
	}
	inBlock := s.deferredBegin != nil || s.b != nil && s.b.status != 'I'
	return !inBlock || plan.Kind == rewrite.Unknown || slices.ContainsFunc(plan.Statements, ends)
}
