package proxy

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Waits of Sluice's own in a turn: for a backend (borrow), before a replay (waitOut), at the gate (waitAtGate), for
// the answer to settings (exchange). A cancel and the statement timeout end them, as they end PostgreSQL's waits. So
// does a client that is gone.

// How often a wait checks whether the client is still connected.
const (
	lookEvery       = 50 * time.Millisecond
	lookInLineEvery = sweepEvery // for waits of thousands of sessions at a time
)

// errWaitedEnough ends a wait at the caller's limit. No client gets this error.
var errWaitedEnough = errors.New("waited long enough")

// wait starts a wait of Sluice's own. ctx ends, with its cause, at limit (errWaitedEnough; zero means none), at a
// cancel or statement timeout, when the client is gone, or when the session is cut. The client is checked at the
// given interval, on another goroutine. Call over before the session goes on, since a check may be running until
// then.
func (s *session) wait(limit time.Time, every time.Duration) (ctx context.Context, over func()) {
	s.tick.Store(s.tick.Load() | 1)
	s.startClock()
	// A statement timeout ends the wait too. That includes a timeout that the server enforces, because the server
	// does not know of this wait.
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
	// A cancel from before this wait counts too.
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

// lineUp waits in line for a backend. Unlike wait it makes no context and no timer, to add no cost to a query that
// waits. A cancel, interrupt, or lookFromLine ends the wait through the session's place in line. With a statement
// timeout, a timer does too.
func (s *session) lineUp() (*reservoir.Conn, error) {
	s.startWaiting()
	place := s.srv.backends.NewPlace()
	var timer *time.Timer
	if limit := earlier(s.t.deadline, s.carriedDeadline()); !limit.IsZero() {
		timer = time.AfterFunc(time.Until(limit), func() { place.Leave(errTimedOut) })
	}
	s.takePlace(place)
	conn, err := place.Acquire()
	s.leavePlace()
	if timer == nil || timer.Stop() {
		place.Free() // else the timer may still use the place
	}
	s.heeded(err)
	return conn, err
}

// takePlace publishes the session's place in line. A cancel or cut from before ends the wait: interrupt stores cutOff
// first and looks for a place then.
func (s *session) takePlace(place *reservoir.Place) {
	s.looks.Lock()
	defer s.looks.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel.place = place
	switch {
	case !s.cancel.asked.IsZero():
		place.Leave(errCanceled)
	case s.cutOff.Load():
		place.Leave(errCut)
	}
}

// leavePlace withdraws the place. After it returns, no check of the client is running.
func (s *session) leavePlace() {
	s.looks.Lock()
	defer s.looks.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel.place = nil
}

// lookFromLine checks the client of a session that has waited in line for long. The sweeper starts it on a goroutine
// of its own, because it may write to the client. At most one check runs at a time, and the session only waits
// meanwhile.
func (s *session) lookFromLine() {
	if !s.looks.TryLock() {
		return
	}
	defer s.looks.Unlock()
	s.mu.Lock()
	place := s.cancel.place // valid until leavePlace, which needs looks
	s.mu.Unlock()
	if place == nil {
		return
	}
	if err := s.unawaited(); err != nil {
		place.Leave(err)
	}
}

// waited returns why a wait's ctx has ended, or nil. It clears a cancel or timeout that it returns, because the
// caller sends that error. Call it before over: over ends ctx too, and would look like a shutdown.
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

// heeded clears a cancel or statement timeout whose error is about to be sent, so that it does not end the client's
// next statement. Other causes change nothing.
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

// waitOut waits for the pause before a replay and, if queued, at the gate for a pass. The error is why no replay is
// made. If too many wait at the gate, the replay goes on without a pass.
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

// exchange sends msg to the backend in a turn and waits for the answer: see asking. refusal is the server's error.
func (s *session) exchange(msg []byte) (refusal []byte, err error) {
	err = s.asking(func(b *backend) error {
		refusal, err = b.exchangeUntil(msg, s.t.deadline, s.stopped)
		return err
	})
	return refusal, err
}

// asking calls ask for a round trip of Sluice's own in a turn. A cancel, timeout or cut ends the round trip; the
// backend is then broken if the question was sent. Any other error (stops is false) means a lost backend.
func (s *session) asking(ask func(*backend) error) error {
	b := s.b
	s.mu.Lock()
	s.cancel.stop = func(error) { b.conn.Net.SetReadDeadline(time.Unix(1, 0)) }
	s.mu.Unlock()
	err := ask(b)
	s.mu.Lock()
	s.cancel.stop = nil
	s.mu.Unlock()
	if stops(err) {
		s.heeded(err)
	}
	return err
}

// stops reports whether err is a cancel, a timeout or a cut, which end the turn.
func stops(err error) bool { return err == errCanceled || err == errTimedOut || err == errCut }

// stopped returns why the turn must not go on, or nil, at a point where nothing of the turn was sent. It does not
// clear the cause: see heeded.
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

// reasonOf returns the reason for no replay that err, from a wait or borrow, stands for.
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

// lookOut checks at the given interval whether the client still waits, and calls leave when it does not. The
// session's goroutine must only wait meanwhile. After stop returns, no check is running.
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

// unawaited returns why nobody waits for the turn any more, or nil. After a client's Terminate its last statements
// still run, as in PostgreSQL, but are not replayed. A drain also gives up a replay: the client gets the first error
// and can retry elsewhere.
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

// lasts reports whether the turn's text can commit without another message from the client: a write outside a block,
// or the end of a block. All else in a block is rolled back when the client is gone. A turn without a plan commits
// nothing.
func (s *session) lasts() bool {
	plan := s.t.plan
	if plan == nil || plan.Kind <= rewrite.Read {
		return false
	}
	ends := func(st *rewrite.Statement) bool {
		return st.Tx.Verb == rewrite.Commit || st.Tx.Verb == rewrite.PrepareTransaction
	}
	inBlock := s.deferredBegin != nil || s.b != nil && s.b.status != 'I'
	return !inBlock || plan.Kind == rewrite.Unknown || plan.Any(ends)
}
