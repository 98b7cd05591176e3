package interrupt

import (
	"context"
	"time"

	"github.com/sluice-proxy/sluice/reservoir"
)

// Policy says how a cancel request stops a statement.
type Policy struct {
	// Grace is the time from a cancel request until Sluice itself acts on the request.
	Grace time.Duration
	// Send asks the server to stop the statement on a backend. nil means that the server ignores such requests.
	Send func(context.Context, *reservoir.Conn) error
}

// These are the outcomes of HandleCancelRequest, as metrics name them.
const (
	Dropped   = "dropped"   // no turn can be cancelled
	waiting   = "waiting"   // the cancel ends the session's current or next wait inside Sluice
	noted     = "noted"     // the session acts after Policy.Grace
	Forwarded = "forwarded" // the server was asked
	failed    = "failed"    // the server was asked, and the request may not have arrived
)

// HandleCancelRequest handles a cancel request of the session's client, on the goroutine of the cancel's connection,
// and returns the outcome. It does not hold w.mu while it asks the server, which takes a connection and a round trip.
func (w *Waits) HandleCancelRequest(ctx context.Context, p Policy) (outcome string) {
	w.mu.Lock()
	if w.tick.Load()&1 == 0 {
		w.mu.Unlock()
		return Dropped
	}
	// Only the first request starts the time p.Grace. Further requests do not prolong it.
	if w.actsAt.IsZero() {
		w.actsAt = time.Now().Add(p.Grace)
	}
	c := w.backend
	if w.stopWait != nil || c == nil { // without both, the session's next wait sees the request
		if w.stopWait != nil {
			w.stopWait(ErrCanceled)
		}
		if w.place != nil {
			w.place.EndWait(ErrCanceled)
		}
		w.mu.Unlock()
		return waiting
	}
	if p.Send == nil || w.inFlight {
		// The deadline wakes the session after p.Grace, since the server ignores cancels, or has already got one.
		c.Net.SetReadDeadline(w.actsAt)
		w.mu.Unlock()
		return noted
	}
	w.delivered = make(chan struct{})
	w.inFlight, w.reached = true, true
	w.mu.Unlock()

	err := p.Send(ctx, c)

	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight = false
	close(w.delivered)
	switch {
	case w.tick.Load()&1 == 0:
		w.actsAt = time.Time{} // the turn has been answered meanwhile
	case w.backend == c && !w.actsAt.IsZero():
		c.Net.SetReadDeadline(w.actsAt)
	}
	if err != nil {
		return failed
	}
	return Forwarded
}

// IsCancelRequested reports whether the client has asked to cancel the running turn.
func (w *Waits) IsCancelRequested() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.actsAt.IsZero()
}

// RestartGrace makes Sluice act on a cancel only after the duration grace, counted from now. At the end of that time
// a read deadline ends the session's read from the backend.
func (w *Waits) RestartGrace(grace time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := time.Now().Add(grace)
	if !w.actsAt.IsZero() {
		w.actsAt = at
	}
	w.armLocked(at)
}

// FinishCancel ends the turn's cancel once the backend has answered every frame. asked reports whether a cancel was
// requested, and reached whether one may have reached the backend. The caller must then call AwaitDelivery.
func (w *Waits) FinishCancel() (asked, reached bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if asked = !w.actsAt.IsZero(); asked {
		w.actsAt = time.Time{}
		w.backend.Net.SetReadDeadline(time.Time{}) // the deadline of the grace
	}
	return asked, w.reached
}

// AwaitDelivery waits until a cancel that was sent to the server has arrived there. reached is false if none was sent
// since the backend was lent. arrived is false if the wait lasted for patience, or if closing was closed.
func (w *Waits) AwaitDelivery(patience time.Duration, closing <-chan struct{}) (reached, arrived bool) {
	w.mu.Lock()
	reached, arrival, inFlight := w.reached, w.delivered, w.inFlight
	w.reached = false
	w.mu.Unlock()
	if !reached || !inFlight {
		return reached, true
	}
	select {
	case <-arrival:
		return true, true
	case <-time.After(patience):
	case <-closing:
	}
	return true, false
}
