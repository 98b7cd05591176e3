package interrupt

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-proxy/sluice/reservoir"
)

// inLine runs with a reservoir that has no backend. lineUp makes a new session wait in its queue, with a statement
// timeout if timeout is more than 0. before is called before the session gets its place.
func inLine(t *testing.T, run func(lineUp func(timeout time.Duration, before func(*Waits)) error)) {
	synctest.Test(t, func(t *testing.T) {
		r := emptyReservoir(t)
		run(func(timeout time.Duration, before func(*Waits)) error {
			w := newWaits()
			w.Begin(timeout)
			before(w)
			_, err := w.AcquireInLine(r, Timeouts{Own: timeout})
			return err
		})
	})
}

// emptyReservoir returns a reservoir whose server accepts no connection.
func emptyReservoir(t *testing.T) *reservoir.Reservoir {
	dial := func(context.Context, *reservoir.Startup) (*reservoir.Conn, error) {
		return nil, errors.New("no server")
	}
	r, err := reservoir.New(reservoir.Defaults(), dial, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A statement timeout that ends at the same time as its wait in the queue ends no wait of the place's next session.
func TestTimeoutAtTheEndOfAWait(t *testing.T) {
	t.Parallel()
	inLine(t, func(lineUp func(time.Duration, func(*Waits)) error) {
		cancelled := func(w *Waits) {
			time.AfterFunc(time.Second, func() { w.HandleCancelRequest(context.Background(), Policy{}) })
		}
		for range 300 {
			lineUp(time.Second, cancelled)
			if err := lineUp(0, cancelled); err != ErrCanceled {
				t.Fatalf("a wait without a timeout has ended with %v", err)
			}
		}
	})
}

// A session that was cut, or cancelled, just before it takes its place in the queue does not wait there.
func TestCutInFrontOfTheLine(t *testing.T) {
	t.Parallel()
	inLine(t, func(lineUp func(time.Duration, func(*Waits)) error) {
		if err := lineUp(0, (*Waits).Cut); err != ErrCut {
			t.Errorf("cut: %v", err)
		}
		cancel := func(w *Waits) { w.HandleCancelRequest(context.Background(), Policy{}) }
		if err := lineUp(0, cancel); err != ErrCanceled {
			t.Errorf("cancelled: %v", err)
		}
	})
}

// The timeouts of Sluice and of the server end a wait in the queue, and so do Cut and the client's leaving.
func TestEndOfAWaitInLine(t *testing.T) {
	gone := errors.New("gone")
	for name, c := range map[string]struct {
		timeouts Timeouts
		event    func(*Waits)
		want     error
		after    time.Duration
	}{
		"Sluice's timeout":                   {Timeouts{Own: time.Second}, nil, ErrTimedOut, time.Second},
		"the server's timeout":               {Timeouts{Server: time.Second}, nil, ErrTimedOut, time.Second},
		"the earlier of the two":             {Timeouts{Own: time.Minute, Server: time.Second}, nil, ErrTimedOut, time.Second},
		"cut":                                {Timeouts{Own: time.Hour}, (*Waits).Cut, ErrCut, 2 * time.Second},
		"the client has left":                {Timeouts{}, func(w *Waits) { w.CheckInLine(func() error { return gone }) }, gone, 2 * time.Second},
		"the client waits until the timeout": {Timeouts{Own: 5 * time.Second}, func(w *Waits) { w.CheckInLine(func() error { return nil }) }, ErrTimedOut, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, began := newWaits(), time.Now()
				if c.event != nil {
					time.AfterFunc(2*time.Second, func() { c.event(w) })
				}
				if _, err := w.AcquireInLine(emptyReservoir(t), c.timeouts); err != c.want {
					t.Errorf("ended with %v, want %v", err, c.want)
				}
				if after := time.Since(began); after != c.after {
					t.Errorf("ended after %v, want %v", after, c.after)
				}
				if w.WakeRead() {
					t.Error("the session is still in the queue")
				}
			})
		})
	}
}

// The queue knows a session only while it waits. A check of the client then ends no wait.
func TestCheckOutsideTheLine(t *testing.T) {
	w := newWaits()
	w.CheckInLine(func() error { t.Error("the client is checked"); return nil })
}
