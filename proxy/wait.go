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

// This file has Sluice's own waits in a turn: for a backend (borrowBackend), before a replay (waitBeforeReplay), at the
// gate (waitAtGate), for the answer to settings. A cancel and the statement timeout end these waits, as in PostgreSQL.
// So does the client's leaving.

// lookEvery and lookInLineEvery are how often a wait checks whether the client is still connected.
const (
	lookEvery       = 50 * time.Millisecond
	lookInLineEvery = sweepEvery // for waits of thousands of sessions at a time
)

// errWaitedEnough ends a wait at the caller's limit. No client gets this error.
var errWaitedEnough = errors.New("waited long enough")

// waitContext starts a wait of Sluice's own. ctx ends, with its cause, at limit (errWaitedEnough; zero means none), at
// a cancel or statement timeout, when the client has left, or when the session is cut. Another goroutine checks the
// client at the given interval. The caller must call over before the session goes on, since a check may be running.
func (s *session) waitContext(limit time.Time, every time.Duration) (ctx context.Context, over func()) {
	s.tick.Store(s.tick.Load() | 1)
	s.startStatementTimeout()
	// A statement timeout ends the wait too. Sluice enforces the server's timeout here too, because the server does not
	// know of this wait.
	cause := errWaitedEnough
	if end := earlierDeadline(s.t.deadline, s.serverTimeoutDeadline()); earlierDeadline(limit, end) != limit || limit.IsZero() {
		limit, cause = end, errTimedOut
	}
	ctx, leave := context.WithCancelCause(s.srv.ctx)
	cancelled, expire := ctx, func() {}
	if !limit.IsZero() {
		ctx, expire = context.WithDeadlineCause(cancelled, limit, cause)
	}
	s.mu.Lock()
	s.cancel.stopWait = leave
	if !s.cancel.requestedAt.IsZero() {
		leave(errCanceled)
	}
	s.mu.Unlock()
	// The client is watched for the whole wait. An earlier cancel has already ended ctx above.
	stopLooking := s.watchClient(every, leave)
	return ctx, func() {
		stopLooking()
		s.mu.Lock()
		s.cancel.stopWait = nil
		s.mu.Unlock()
		expire()
		leave(nil)
	}
}

// acquireInLine waits in the queue for a backend. Unlike waitContext it makes no context and no timer, to add no cost
// to a query that waits. A cancel, interrupt, or checkClientInLine ends the wait through the session's place in the
// queue. With a statement timeout, a timer may end the wait too.
func (s *session) acquireInLine() (*reservoir.Conn, error) {
	s.beginCancellable()
	place := s.srv.backends.NewWaitPlace()
	var timer *time.Timer
	if limit := earlierDeadline(s.t.deadline, s.serverTimeoutDeadline()); !limit.IsZero() {
		timer = time.AfterFunc(time.Until(limit), func() { place.EndWait(errTimedOut) })
	}
	s.publishQueuePlace(place)
	conn, err := place.Acquire()
	s.withdrawQueuePlace()
	if timer == nil || timer.Stop() {
		place.Recycle() // else the timer may still use the place
	}
	s.consumeCancel(err)
	return conn, err
}

// publishQueuePlace publishes the session's place in the queue for a backend. An earlier cancel or cut ends the wait,
// since interrupt stores cutOff before it looks for a place.
func (s *session) publishQueuePlace(place *reservoir.WaitPlace) {
	s.clientCheckMu.Lock()
	defer s.clientCheckMu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel.queuePlace = place
	switch {
	case !s.cancel.requestedAt.IsZero():
		place.EndWait(errCanceled)
	case s.cutOff.Load():
		place.EndWait(errCut)
	}
}

// withdrawQueuePlace ends the session's place in the queue for a backend. Afterwards no check of the client is running.
func (s *session) withdrawQueuePlace() {
	s.clientCheckMu.Lock()
	defer s.clientCheckMu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel.queuePlace = nil
}

// checkClientInLine checks the client of a session that has waited long in the queue for a backend. The sweeper starts
// it on a separate goroutine, because it may write to the client. At most one check runs at a time, and the session
// only waits meanwhile.
func (s *session) checkClientInLine() {
	if !s.clientCheckMu.TryLock() {
		return
	}
	defer s.clientCheckMu.Unlock()
	s.mu.Lock()
	place := s.cancel.queuePlace // valid until withdrawQueuePlace, which needs looks
	s.mu.Unlock()
	if place == nil {
		return
	}
	if err := s.checkClientWaits(); err != nil {
		place.EndWait(err)
	}
}

// waitError returns why a wait's ctx has ended, or nil. It clears a cancel or timeout that it returns, because the
// caller sends that error. It must be called before over (of waitContext), which also ends ctx, as a shutdown does.
func (s *session) waitError(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	cause := context.Cause(ctx)
	if cause == context.Canceled {
		return errCut
	}
	s.consumeCancel(cause)
	return cause
}

// consumeCancel clears a cancel or statement timeout whose error is about to be sent, so that it does not end the
// client's next statement. Other causes change nothing.
func (s *session) consumeCancel(cause error) {
	switch cause {
	case errCanceled:
		s.mu.Lock()
		s.cancel.requestedAt = time.Time{}
		s.mu.Unlock()
	case errTimedOut:
		s.t.deadline = time.Time{}
	}
}

// waitBeforeReplay waits for the pause before a replay and, if queued, at the gate (the queue for the same rows). The
// error is the reason why no replay is made. If too many transactions wait at the gate, the replay continues without
// its pass (the right to go next).
func (s *session) waitBeforeReplay(pause time.Duration, queued bool) error {
	if pause == 0 && !queued {
		return nil
	}
	r := s.srv.replays
	ctx, over := s.waitContext(s.tx.attempts.Deadline(&r.cfg.Policy).Add(pause), lookEvery)
	defer over()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return s.waitError(ctx)
	}
	if !queued {
		return nil
	}
	pass, err := r.gate.AcquireForReplay(ctx, s.tx.key, s.tx.attempts.NeedsExclusivePass(&r.cfg.Policy))
	s.tx.pass = pass
	if ended := s.waitError(ctx); err != nil || ended != errWaitedEnough {
		return ended
	}
	return nil
}

// exchangeInTurn sends msg to the backend and waits for the answer (runExchange). refusal is the server's error.
func (s *session) exchangeInTurn(msg []byte) (refusal []byte, err error) {
	err = s.runExchange(func(b *backend) error {
		refusal, err = b.exchangeUntil(msg, s.t.deadline, s.checkInterruption)
		return err
	})
	return refusal, err
}

// runExchange calls ask for a round trip of Sluice's own in a turn. A cancel, timeout or cut ends the round trip, and
// if ask had sent something, the backend is then broken. Any other error is a lost backend.
func (s *session) runExchange(ask func(*backend) error) error {
	b := s.b
	s.mu.Lock()
	s.cancel.stopWait = func(error) { b.conn.Net.SetReadDeadline(time.Unix(1, 0)) }
	s.mu.Unlock()
	err := ask(b)
	s.mu.Lock()
	s.cancel.stopWait = nil
	s.mu.Unlock()
	if isInterruption(err) {
		s.consumeCancel(err)
	}
	return err
}

// isInterruption reports whether err is a cancel, a timeout or the server's shutdown (errCut), which end the turn.
func isInterruption(err error) bool { return err == errCanceled || err == errTimedOut || err == errCut }

// checkInterruption returns why the turn must not go on, or nil. The turn must not have sent anything yet. Unlike
// consumeCancel, it does not clear the cause.
func (s *session) checkInterruption() error {
	switch deadline := s.t.deadline; {
	case s.cutOff.Load():
		return errCut
	case s.isCancelRequested():
		return errCanceled
	case !deadline.IsZero() && !time.Now().Before(deadline):
		return errTimedOut
	}
	return nil
}

// noReplayReason returns why no replay is made after the error err of a wait, such as that for a backend.
func noReplayReason(err error) retry.RefusalReason {
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

// watchClient checks at the given interval whether the client still waits, and calls leave once the client does not.
// The session's goroutine must only wait meanwhile. After stop returns, no check is running.
func (s *session) watchClient(every time.Duration, leave context.CancelCauseFunc) (stop func()) {
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
		if err := s.checkClientWaits(); err != nil {
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

// checkClientWaits returns why the client no longer waits for the turn, or nil. After a client's Terminate its last
// statements still run, as in PostgreSQL, but are not replayed. A drain also gives up a replay, since the client gets
// the first error and can retry elsewhere.
func (s *session) checkClientWaits() error {
	replaying := s.state == replaying
	if replaying && s.srv.draining.Load() {
		return errDraining
	}
	switch s.readClientState() {
	case clientGone:
		return errClientGone
	case clientLeaving:
		if replaying || !s.mayCommitWithoutClient() {
			return errClientGone
		}
	}
	return nil
}

// mayCommitWithoutClient reports whether the turn's text can commit without another message from the client. The text
// must be a write outside a block, or the end of a block. Everything else in a block is rolled back after the client
// has left. A turn without a plan commits nothing.
func (s *session) mayCommitWithoutClient() bool {
	plan := s.t.plan
	if plan == nil || plan.Kind <= rewrite.Read {
		return false
	}
	ends := func(st *rewrite.Statement) bool {
		return st.Tx.Verb == rewrite.Commit || st.Tx.Verb == rewrite.PrepareTransaction
	}
	inBlock := s.deferredBegin != nil || s.b != nil && s.b.status != 'I'
	return !inBlock || plan.Kind == rewrite.Unknown || plan.AnyStatement(ends)
}
