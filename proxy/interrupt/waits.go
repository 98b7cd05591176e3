package interrupt

import (
	"cmp"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
)

// These errors say what has ended a wait.
var (
	ErrCanceled = &wire.Error{Code: "57014", Message: "canceling statement due to user request"}
	ErrTimedOut = &wire.Error{Code: "57014", Message: "canceling statement due to statement timeout"}
	ErrCut      = errors.New("cut at the end of a drain")
	// ErrLimit ends a wait at the caller's limit. No client gets this error.
	ErrLimit = errors.New("waited long enough")
)

// EndsTurn reports whether err is a cancel, a timeout or the end of a drain, which end the turn.
func EndsTurn(err error) bool { return err == ErrCanceled || err == ErrTimedOut || err == ErrCut }

// Waits has the waits of one session, and the events that end them. The zero Waits has neither. Any goroutine may call
// HandleCancelRequest, Cut, IsCut, Tick, WakeRead, CheckInLine, HasBackend and WithBackend. The session's goroutine
// calls the other methods.
//
// mu guards the fields below it. checkMu is taken before mu.
type Waits struct {
	// tick is odd while the turn can be cancelled. Each cancellable part of a turn has a different value.
	tick  atomic.Uint64
	clock *Clock // of the running turn; nil between turns
	// checkMu is held while another goroutine checks the client of a session in the queue for a backend.
	checkMu sync.Mutex
	mu      sync.Mutex
	backend *reservoir.Conn // nil while the session has none
	// questioned is the backend that answers a question of Sluice before the session gets that backend, or nil.
	questioned *reservoir.Conn
	stopWait   func(cause error)    // ends a wait inside Sluice; nil: there is no such wait
	place      *reservoir.WaitPlace // in the queue for a backend; nil: the session is not queued
	actsAt     time.Time            // when Sluice itself acts on the turn's cancel; zero: no cancel was requested
	delivered  chan struct{}        // closed when inFlight becomes false
	inFlight   bool                 // a cancel connection to the backend is not yet at EOF
	reached    bool                 // a cancel reached the backend since it was lent
	cut        atomic.Bool
}

// UseClock sets the clock of the turn that begins, or nil after a turn.
func (w *Waits) UseClock(c *Clock) { w.clock = c }

// Begin begins the part of a turn that can be cancelled and timed out, in which the turn waits for a backend or its
// answer. It makes the tick odd, so that the sweeper checks the session. timeout is the statement timeout, or 0.
func (w *Waits) Begin(timeout time.Duration) {
	w.resume()
	w.clock.Start(timeout)
}

func (w *Waits) resume() { w.tick.Store(w.tick.Load() | 1) }

// End ends the cancellable part of a turn, once the turn has been answered. A new tick tells the sweeper, which checks
// waiting sessions, that the session's next wait is a new one.
func (w *Waits) End() {
	if v := w.tick.Load(); v&1 == 1 {
		w.tick.Store(v + 1)
	}
	w.disarm()
	if w.clock != nil {
		w.clock.Stop()
	}
}

// EndSince ends a cancellable part that has begun after Tick had returned tick. The turn may end without a backend.
// EndSince stops no timeout.
func (w *Waits) EndSince(tick uint64) {
	if tick&1 == 0 {
		w.tick.Store((tick | 1) + 1)
	}
}

// Abandon ends the cancellable part of a turn that has failed and has no backend. The failure has answered any cancel,
// and no statement is left to stop.
func (w *Waits) Abandon() {
	w.End()
	w.Consume(ErrCanceled)
}

// Suspend makes a turn not cancellable while the turn waits for its client and has no answer pending. Suspend clears
// earlier cancels, and until the caller calls resume, Sluice drops new ones.
func (w *Waits) Suspend() (resume func()) {
	if w.tick.Load()&1 == 0 {
		return func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tick.Add(1)
	if !w.inFlight && !w.actsAt.IsZero() {
		w.actsAt = time.Time{}
		if w.backend != nil {
			w.armLocked(time.Time{}) // clear the deadline of the cancel's grace
		}
	}
	return w.resume
}

// Tick returns a number that is odd while the turn can be cancelled. Each cancellable part of a turn has another one.
func (w *Waits) Tick() uint64 { return w.tick.Load() }

// Attach makes c the session's backend. From then on cancel requests reach c. asked reports whether the turn was
// cancelled earlier, while the session had no backend.
func (w *Waits) Attach(c *reservoir.Conn) (asked bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.backend = c
	w.reached = false
	return !w.actsAt.IsZero()
}

// Swap changes the session's backend to c, which may be nil. From then on, cancels and deadlines apply to c.
func (w *Waits) Swap(c *reservoir.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.backend = c; c != nil {
		w.armLocked(time.Time{})
	}
}

// Detach removes the read deadline of the session's backend, and takes the backend from the session. From then on,
// cancels and sweeps do not reach it.
func (w *Waits) Detach() {
	w.disarm()
	w.mu.Lock()
	w.backend = nil
	w.mu.Unlock()
}

// HasBackend reports whether the session has a backend.
func (w *Waits) HasBackend() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.backend != nil
}

// WithBackend calls f with the backend whose answer the session may await, if there is one. The session keeps that
// backend until f returns. So f must not wait.
func (w *Waits) WithBackend(f func(*reservoir.Conn)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := cmp.Or(w.backend, w.questioned); c != nil {
		f(c)
	}
}

// Arm sets the backend's read deadline to the next event of the session: the statement timeout, the end of hold_time,
// Sluice's action on a cancel. Code that has set another deadline must call Arm afterwards.
func (w *Waits) Arm() { w.ArmBy(time.Time{}) }

// ArmBy sets the backend's read deadline to the session's next event, or to at if that is earlier and not zero.
func (w *Waits) ArmBy(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armLocked(at)
}

// armLocked implements ArmBy. The caller holds mu, since a cancel sets the same deadline under mu. The session must
// have its backend.
func (w *Waits) armLocked(at time.Time) {
	at = Earlier(at, Earlier(w.clock.deadline, w.clock.holdEnd))
	w.backend.Net.SetReadDeadline(Earlier(at, w.actsAt))
}

// disarm removes the turn's read deadline from its backend. Most turns have none.
func (w *Waits) disarm() {
	if w.clock == nil || w.clock.deadline.IsZero() && w.clock.holdEnd.IsZero() {
		return
	}
	w.clock.holdEnd = time.Time{}
	if w.backend != nil {
		w.backend.Net.SetReadDeadline(time.Time{})
	}
}

// ArmTimeout sets the backend's read deadline to the end of the statement timeout. After the end of the timeout, the
// result is ErrTimedOut, for the client, and the session still has its backend.
func (w *Waits) ArmTimeout() error {
	if w.clock.deadline.IsZero() {
		return nil
	}
	if w.clock.hasExpired(time.Now()) {
		w.clock.Stop()
		return ErrTimedOut
	}
	w.Arm()
	return nil
}

// CheckInterruption returns ErrCut, ErrCanceled or ErrTimedOut if the turn must not go on, or nil. The turn must not
// have sent anything yet. Unlike Consume, CheckInterruption does not clear the cause.
func (w *Waits) CheckInterruption() error {
	switch {
	case w.cut.Load():
		return ErrCut
	case w.IsCancelRequested():
		return ErrCanceled
	case w.clock.hasExpired(time.Now()):
		return ErrTimedOut
	}
	return nil
}

// Due returns which event a read that has ended at its deadline must handle: ErrCut, ErrTimedOut, or ErrCanceled once
// Sluice itself acts on the cancel. nil means none. Due clears no event.
func (w *Waits) Due(now time.Time) error {
	if w.cut.Load() {
		return ErrCut
	}
	if w.clock.hasExpired(now) {
		return ErrTimedOut
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.actsAt.IsZero() && !now.Before(w.actsAt) {
		return ErrCanceled
	}
	return nil
}

// TakeRequested returns ErrTimedOut or ErrCanceled, for a statement that cannot stop yet, and clears both events. It
// returns a cancel at once, without the time Policy.Grace. nil means that there is neither.
func (w *Waits) TakeRequested(now time.Time) (e *wire.Error) {
	switch {
	case w.clock.hasExpired(now):
		e = ErrTimedOut
	case w.IsCancelRequested():
		e = ErrCanceled
	default:
		return nil
	}
	w.DropRequested()
	return e
}

// DropRequested clears the cancel and the timeout of a statement that needs neither, and sets the backend's read
// deadline to the session's next event.
func (w *Waits) DropRequested() {
	w.Consume(ErrCanceled)
	w.clock.Stop()
	w.Arm()
}

// Consume clears a cancel or statement timeout whose error is about to be sent, so that it does not end the client's
// next statement. Other causes change nothing.
func (w *Waits) Consume(cause error) {
	switch cause {
	case ErrCanceled:
		w.mu.Lock()
		w.actsAt = time.Time{}
		w.mu.Unlock()
	case ErrTimedOut:
		w.clock.Stop()
	}
}

// Cut ends the session wherever it waits for a backend or the server, because the process is closing. Cut stores its
// reason first, since a read that a deadline ends looks for its reason.
func (w *Waits) Cut() {
	w.cut.Store(true)
	w.WakeRead()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.place != nil {
		w.place.EndWait(ErrCut)
	}
}

// IsCut reports whether Cut was called.
func (w *Waits) IsCut() bool { return w.cut.Load() }

// CheckCut returns ErrCut once Cut was called, and nil before. Cut makes a session give up even a running round trip.
func (w *Waits) CheckCut() error {
	if w.cut.Load() {
		return ErrCut
	}
	return nil
}

// WakeRead ends a read from the backend as a timeout would. The session needs mu to return the backend, so that the
// deadline meets no other session. A session that finds no reason for the wake-up sets its deadline again and goes on.
// inLine reports that the session waits in the queue for a backend instead.
func (w *Waits) WakeRead() (inLine bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := cmp.Or(w.backend, w.questioned); c != nil {
		c.Net.SetReadDeadline(wakeNow)
	}
	return w.place != nil
}

// wakeNow is a read deadline in the past, which ends a read at once.
var wakeNow = time.Unix(1, 0)
