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

// Waits that Sluice makes on its own account in a turn: for a backend (borrow), for the
// pause and the gate in front of a replay (waitOut), at the gate for the first time
// (waitAtGate), for the answer to settings (exchange). As PostgreSQL's waits they end by
// cancel and statement timeout; besides, when nobody waits for the session any more.

// How often a wait of Sluice's own looks for its client.
const (
	lookEvery       = 50 * time.Millisecond
	lookInLineEvery = sweepEvery // for waits that thousands may be in
)

// errWaitedEnough ends a wait at the limit that its caller set. No client is told of it.
var errWaitedEnough = errors.New("waited long enough")

// wait begins a wait that Sluice itself makes in a turn: at the gate, between two attempts,
// for a backend. The context ends, with its cause, at the limit (errWaitedEnough; a zero
// limit is none), when the client cancels or its statement times out, when nobody waits any
// more, and when the session is cut. Every so often the client is looked for. over ends the
// wait, and must be called before the session goes on: until then looks for the client may
// be under way.
func (s *session) wait(limit time.Time, every time.Duration) (ctx context.Context, over func()) {
	s.tick.Store(s.tick.Load() | 1)
	s.startClock()
	// A statement timeout ends the wait too: the one that Sluice keeps, and the one that
	// the server keeps, which does not know of this wait.
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
	// A cancel that came before this wait, or between two of them, counts as well.
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

// lineUp waits in line for a backend, as wait does, with neither a context nor a timer of its
// own: a query that has to wait is to cost no more than the wait. What ends it is said at the
// session's place in line: by a cancel, by the session's interrupt, by a look for the client
// that the sweeper has made; and by a timer, where a statement timeout is in force.
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
		place.Free() // else the timer may still be about to leave it
	}
	s.heeded(err)
	return conn, err
}

// takePlace shows others the session's place in line. What has come before ends the wait: the
// one who cuts the session stores the flag first, and looks for a place then.
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

// leavePlace ends what takePlace began. When it returns, no look for the client is under way.
func (s *session) leavePlace() {
	s.looks.Lock()
	defer s.looks.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel.place = nil
}

// lookFromLine looks for the client of a session that has waited in line for long; the sweeper
// has it called, in a goroutine of its own, since it may write to the client. One look is under
// way at a time, and the session does nothing but wait meanwhile.
func (s *session) lookFromLine() {
	if !s.looks.TryLock() {
		return
	}
	defer s.looks.Unlock()
	s.mu.Lock()
	place := s.cancel.place // stays until leavePlace, which needs looks
	s.mu.Unlock()
	if place == nil {
		return
	}
	if err := s.unawaited(); err != nil {
		place.Leave(err)
	}
}

// waited is what a wait is over for: nil when its context has not ended. A cancel or
// timeout that it returns is forgotten by that, since the caller is about to tell it. The
// caller asks before it calls over: that ends the context too, and would look like a shutdown here.
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

// heeded forgets a cancel or a statement timeout that is about to be told: neither must end
// the client's next statement. For every other cause nothing is done.
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

// waitOut waits for the pause before a replay, and, where the replay is queued, at the
// gate; the pass that it gets there is the transaction's. The error is why the replay is
// not made. At a gate that has too many in line the replay goes on without a pass.
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

// exchange is a round trip of Sluice's own in a turn: see asking. refusal is the server's
// error.
func (s *session) exchange(msg []byte) (refusal []byte, err error) {
	err = s.asking(func(b *backend) error {
		refusal, err = b.exchangeUntil(msg, s.t.deadline, s.stopped)
		return err
	})
	return refusal, err
}

// asking makes a round trip of Sluice's own in a turn, which ends when the turn must not go
// on; then the backend is broken where the question had been sent. An error that does not stop the
// turn (stops) means that the backend is lost.
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

// stops reports whether an error says that the turn must not go on.
func stops(err error) bool { return err == errCanceled || err == errTimedOut || err == errCut }

// stopped is why the turn must not go on, at a place where nothing of it has been sent; nil
// where it may. It takes no note of the cause being told: see heeded.
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

// reasonOf is the reason of a replay that is not made because of err, an error of a wait or
// of borrow.
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

// lookOut looks every so often whether anybody waits for the session, whose goroutine must
// do nothing but wait meanwhile. leave is told when nobody does. stop ends the looks: when
// it returns none is under way, so that the session's goroutine has the session to itself
// again.
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

// unawaited is why nobody waits for the turn in progress any more; nil when somebody does.
// A client that has said goodbye has sent what is still run, as in PostgreSQL, but not run
// again. A replay is given up in a drain too: its client gets the error that it met, and
// can try elsewhere.
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

// lasts reports whether the turn's text may leave something behind that no frame has to
// follow: a write outside a block, or the end of a block. In a block all else is rolled
// back when its client is gone. A turn whose text is not known yet leaves nothing.
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
