package interrupt

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-proxy/sluice/reservoir"
)

// Session is what a wait inside Sluice needs of its session.
type Session interface {
	// Context returns the context that ends when the process cuts its sessions.
	Context() context.Context
	// Timeouts returns the statement timeouts that are in force.
	Timeouts() Timeouts
	// CheckClient returns why the client no longer waits for its answer, or nil. Another goroutine calls CheckClient while
	// the session's goroutine waits.
	CheckClient() error
}

// Timeouts are the statement timeouts of a session. 0 means none.
type Timeouts struct {
	// Own is the timeout that Sluice enforces.
	Own time.Duration
	// Server is the timeout that the server enforces. Sluice enforces it too during a wait inside Sluice, because the
	// server does not know of this wait.
	Server time.Duration
}

// serverEnd returns when a wait that begins now has lasted as long as the server's own timeout allows, or zero.
func (t Timeouts) serverEnd() time.Time {
	if t.Server == 0 {
		return time.Time{}
	}
	return time.Now().Add(t.Server)
}

// Context starts a wait inside Sluice. ctx ends, with its cause, at limit (ErrLimit; zero means none), at a cancel or
// statement timeout, when the client has left, or when the session is cut. Another goroutine checks the client at the
// given interval. The caller must call over before the session goes on, since a check may be running.
func (w *Waits) Context(s Session, limit time.Time, every time.Duration) (ctx context.Context, over func()) {
	timeouts := s.Timeouts()
	w.Begin(timeouts.Own)
	cause := ErrLimit
	if end := Earlier(w.clock.deadline, timeouts.serverEnd()); Earlier(limit, end) != limit || limit.IsZero() {
		limit, cause = end, ErrTimedOut
	}
	ctx, leave := context.WithCancelCause(s.Context())
	cancelled, expire := ctx, func() {}
	if !limit.IsZero() {
		ctx, expire = context.WithDeadlineCause(cancelled, limit, cause)
	}
	w.beginWait(leave)
	// The client is watched for the whole wait. An earlier cancel has already ended ctx above.
	stopLooking := watchClient(s, every, leave)
	return ctx, func() {
		stopLooking()
		w.setStop(nil)
		expire()
		leave(nil)
	}
}

// beginWait makes stop end the wait that begins. An earlier cancel ends the wait at once.
func (w *Waits) beginWait(stop func(cause error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopWait = stop
	if !w.actsAt.IsZero() {
		stop(ErrCanceled)
	}
}

// setStop makes stop the function that ends the session's wait. nil means that there is no wait.
func (w *Waits) setStop(stop func(cause error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopWait = stop
}

// Error returns why a wait's ctx has ended, or nil. It clears a cancel or timeout that it returns, because the caller
// sends that error. It must be called before over (of Context), which also ends ctx, as a shutdown does.
func (w *Waits) Error(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	cause := context.Cause(ctx)
	if cause == context.Canceled {
		return ErrCut
	}
	w.Consume(cause)
	return cause
}

// watchClient checks at the given interval whether the client still waits, and calls leave once the client does not.
// The session's goroutine must only wait meanwhile. After stop returns, no check is running.
func watchClient(s Session, every time.Duration, leave func(cause error)) (stop func()) {
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
		if err := s.CheckClient(); err != nil {
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

// AcquireInLine waits in the queue for a backend. Unlike Context it makes no context and no timer, to add no cost to a
// query that waits. A cancel, Cut, or CheckInLine ends the wait through the session's place in the queue. With a
// statement timeout, a timer may end the wait too.
func (w *Waits) AcquireInLine(r *reservoir.Reservoir, timeouts Timeouts) (*reservoir.Conn, error) {
	w.Begin(timeouts.Own)
	place := r.NewWaitPlace()
	var timer *time.Timer
	if limit := Earlier(w.clock.deadline, timeouts.serverEnd()); !limit.IsZero() {
		timer = time.AfterFunc(time.Until(limit), func() { place.EndWait(ErrTimedOut) })
	}
	w.publishPlace(place)
	conn, err := place.Acquire()
	w.withdrawPlace()
	if timer == nil || timer.Stop() {
		place.Recycle() // else the timer may still use the place
	}
	w.Consume(err)
	return conn, err
}

// publishPlace lets other goroutines see the session's place in the queue for a backend. An earlier cancel or cut
// ends the wait, since Cut stores its reason before it looks for a place.
func (w *Waits) publishPlace(place *reservoir.WaitPlace) {
	w.checkMu.Lock()
	defer w.checkMu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.place = place
	switch {
	case !w.actsAt.IsZero():
		place.EndWait(ErrCanceled)
	case w.cut.Load():
		place.EndWait(ErrCut)
	}
}

// withdrawPlace ends the session's place in the queue for a backend. Afterwards no check of the client is running.
func (w *Waits) withdrawPlace() {
	w.checkMu.Lock()
	defer w.checkMu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.place = nil
}

// CheckInLine checks the client of a session that has waited long in the queue for a backend. check returns why the
// client no longer waits, or nil. The sweeper of waiting sessions calls CheckInLine on a separate goroutine, because
// check may write to the client. At most one check runs at a time, and the session only waits meanwhile.
func (w *Waits) CheckInLine(check func() error) {
	if !w.checkMu.TryLock() {
		return
	}
	defer w.checkMu.Unlock()
	w.mu.Lock()
	place := w.place // valid until withdrawPlace, which needs checkMu
	w.mu.Unlock()
	if place == nil {
		return
	}
	if err := check(); err != nil {
		place.EndWait(err)
	}
}

// Exchange calls ask for a round trip of Sluice's own in a turn. A cancel ends the read of the answer from c. If the
// error of ask ends the turn, Exchange clears the cancel or timeout that the error reports.
func (w *Waits) Exchange(c *reservoir.Conn, ask func() error) error {
	w.setStop(func(error) { c.Net.SetReadDeadline(wakeNow) })
	err := ask()
	w.setStop(nil)
	if EndsTurn(err) {
		w.Consume(err)
	}
	return err
}

// BeginQuestions begins round trips with a backend that the session does not have yet. Until end is called, a cancel
// ends the read of an answer from c, and the session's wait for a backend. After end it ends only that wait.
func (w *Waits) BeginQuestions(c *reservoir.Conn) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	outer := w.stopWait // ends the wait for a backend
	w.questioned = c
	w.stopWait = func(cause error) {
		if outer != nil {
			outer(cause)
		}
		c.Net.SetReadDeadline(wakeNow)
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.questioned, w.stopWait = nil, outer
	}
}
