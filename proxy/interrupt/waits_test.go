package interrupt

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-proxy/sluice/reservoir"
)

// socket is a backend's connection that records its read deadline.
type socket struct {
	net.Conn
	mu sync.Mutex
	at time.Time
}

func (c *socket) SetReadDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
	return nil
}

func (c *socket) deadline() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// newWaits returns the waits of a session that has begun a turn.
func newWaits() *Waits {
	w := new(Waits)
	w.UseClock(new(Clock))
	return w
}

// withBackend returns waits as newWaits does, of a session that has a backend.
func withBackend() (*Waits, *socket) {
	w, c := newWaits(), &socket{}
	w.Attach(&reservoir.Conn{Net: c})
	return w, c
}

const grace = 3 * time.Second

// request makes the session's client ask for a cancel that the server ignores.
func request(w *Waits) string {
	return w.HandleCancelRequest(context.Background(), Policy{Grace: grace})
}

// A cancel in front of or behind a statement is dropped. One during the statement is due after the grace, once.
func TestCancelOfAStatement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := withBackend()
		if got := request(w); got != Dropped {
			t.Errorf("before the statement: %s", got)
		}
		w.Begin(0)
		if got := request(w); got != noted {
			t.Errorf("during the statement: %s", got)
		}
		at := time.Now().Add(grace)
		if !c.deadline().Equal(at) {
			t.Errorf("the read ends at %v, want %v", c.deadline(), at)
		}
		time.Sleep(time.Second)
		if request(w); !c.deadline().Equal(at) {
			t.Error("a second request prolongs the grace")
		}
		if err := w.Due(time.Now()); err != nil {
			t.Errorf("within the grace: %v", err)
		}
		time.Sleep(grace)
		if err := w.Due(time.Now()); err != ErrCanceled {
			t.Errorf("after the grace: %v", err)
		}
		w.Consume(ErrCanceled)
		if err := w.Due(time.Now()); err != nil || w.IsCancelRequested() {
			t.Errorf("the cancel is returned again: %v", err)
		}
		w.End()
		if got := request(w); got != Dropped || w.IsCancelRequested() {
			t.Errorf("after the statement: %s", got)
		}
	})
}

// A cancel that comes before the session has its backend is returned with the backend.
func TestCancelBeforeTheBackend(t *testing.T) {
	w := newWaits()
	w.Begin(0)
	if got := request(w); got != waiting {
		t.Errorf("without a backend: %s", got)
	}
	if !w.Attach(&reservoir.Conn{Net: &socket{}}) {
		t.Error("the cancel is forgotten")
	}
	if asked, reached := w.FinishCancel(); !asked || reached {
		t.Errorf("finished with %v and %v", asked, reached)
	}
	if asked, _ := w.FinishCancel(); asked {
		t.Error("finished twice")
	}
}

// A statement that has failed answers the cancel.
func TestAbandonedCancel(t *testing.T) {
	w := newWaits()
	w.Begin(time.Hour)
	request(w)
	w.Abandon()
	if w.IsCancelRequested() || w.Tick()&1 == 1 || !w.clock.Deadline().IsZero() {
		t.Error("the next statement is cancelled")
	}
}

// While the turn waits for its client without a pending answer, there is nothing to cancel.
func TestSuspendedTurn(t *testing.T) {
	w, c := withBackend()
	w.Suspend()()
	if w.Tick() != 0 {
		t.Error("a turn that cannot be cancelled can be, after a suspension")
	}
	w.Begin(time.Hour)
	request(w)
	resume := w.Suspend()
	if w.IsCancelRequested() || !c.deadline().Equal(w.clock.Deadline()) {
		t.Error("an earlier cancel ends the turn")
	}
	if got := request(w); got != Dropped {
		t.Errorf("meanwhile: %s", got)
	}
	resume()
	if got := request(w); got != noted {
		t.Errorf("afterwards: %s", got)
	}
}

// Each cancellable part has an odd number of its own.
func TestTicks(t *testing.T) {
	w := newWaits()
	seen := map[uint64]bool{}
	for range 3 {
		w.Begin(0)
		w.Begin(0)
		if tick := w.Tick(); tick&1 == 0 || seen[tick] {
			t.Errorf("part with tick %d", tick)
		} else {
			seen[tick] = true
		}
		w.End()
		w.End()
	}
	before := w.Tick()
	w.Begin(0)
	if w.EndSince(before); w.Tick()&1 == 1 || w.Tick() == before {
		t.Errorf("tick %d after a part since tick %d", w.Tick(), before)
	}
	w.Begin(0)
	within := w.Tick()
	w.Begin(0)
	if w.EndSince(within); w.Tick() != within {
		t.Error("an outer part is ended")
	}
}

// send is a server that gets a cancel request. The request arrives when the test closes arrive.
type send struct {
	begun, arrive chan struct{}
	err           error
}

func newSend() *send { return &send{begun: make(chan struct{}), arrive: make(chan struct{})} }

func (s *send) policy() Policy {
	return Policy{Grace: grace, Send: func(context.Context, *reservoir.Conn) error {
		close(s.begun)
		<-s.arrive
		return s.err
	}}
}

// A request to the server that is on its way when the turn ends is awaited, and cancels no later turn.
func TestForwardedCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := withBackend()
		w.Begin(0)
		s, got := newSend(), make(chan string, 1)
		go func() { got <- w.HandleCancelRequest(context.Background(), s.policy()) }()
		<-s.begun
		if second := w.HandleCancelRequest(context.Background(), s.policy()); second != noted {
			t.Errorf("a request beside another: %s", second)
		}
		w.End()
		if asked, reached := w.FinishCancel(); !asked || !reached {
			t.Errorf("finished with %v and %v", asked, reached)
		}
		time.AfterFunc(time.Second, func() { close(s.arrive) })
		began := time.Now()
		if reached, arrived := w.AwaitDelivery(time.Minute, nil); !reached || !arrived || time.Since(began) != time.Second {
			t.Errorf("delivery: %v, %v after %v", reached, arrived, time.Since(began))
		}
		if outcome := <-got; outcome != Forwarded {
			t.Errorf("outcome %s", outcome)
		}
		if w.IsCancelRequested() || !c.deadline().IsZero() {
			t.Error("the cancel ends the next turn")
		}
		if reached, arrived := w.AwaitDelivery(time.Minute, nil); reached || !arrived {
			t.Errorf("awaited again: %v, %v", reached, arrived)
		}
	})
}

// After a request to the server, Sluice acts by itself when the grace is over.
func TestGraceOfAForwardedCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := withBackend()
		w.Begin(0)
		s := newSend()
		s.err = errors.New("no connection")
		close(s.arrive)
		began := time.Now()
		if got := w.HandleCancelRequest(context.Background(), s.policy()); got != failed {
			t.Errorf("outcome %s", got)
		}
		if !c.deadline().Equal(began.Add(grace)) {
			t.Errorf("the read ends at %v", c.deadline())
		}
		time.Sleep(grace)
		w.RestartGrace(grace)
		if err := w.Due(time.Now()); err != nil || !c.deadline().Equal(time.Now().Add(grace)) {
			t.Errorf("after the grace began again: %v", err)
		}
	})
}

// A request that does not arrive in time leaves the backend in doubt.
func TestLateDelivery(t *testing.T) {
	for name, closing := range map[string]bool{"patience": false, "shutdown": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _ := withBackend()
				w.Begin(0)
				s, closed, done := newSend(), make(chan struct{}), make(chan struct{})
				go func() {
					w.HandleCancelRequest(context.Background(), s.policy())
					close(done)
				}()
				<-s.begun
				if closing {
					close(closed)
				}
				if reached, arrived := w.AwaitDelivery(time.Second, closed); !reached || arrived {
					t.Errorf("delivery: %v, %v", reached, arrived)
				}
				w.End()
				w.Detach()
				close(s.arrive)
				<-done
				if w.IsCancelRequested() {
					t.Error("the cancel ends the next turn")
				}
			})
		})
	}
}

// A new backend has got no cancel.
func TestCancelOfAnotherBackend(t *testing.T) {
	w, c := withBackend()
	w.Begin(0)
	s := newSend()
	close(s.arrive)
	w.HandleCancelRequest(context.Background(), s.policy())
	w.Swap(&reservoir.Conn{Net: &socket{}})
	if _, reached := w.FinishCancel(); !reached {
		t.Error("a swap forgets a cancel of the turn")
	}
	c.SetReadDeadline(time.Time{})
	w.Attach(&reservoir.Conn{Net: c})
	if _, reached := w.FinishCancel(); reached || !c.deadline().IsZero() {
		t.Error("a new backend has got a cancel")
	}
}

// A read ends at the earliest event of the session, and has no deadline without one.
func TestReadDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		in := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
		for name, c := range map[string]struct {
			timeout, hold int
			cancel        bool
			at            time.Time
			want          time.Time
		}{
			"no event":            {},
			"the timeout":         {timeout: 1, hold: 2, cancel: true, at: in(5), want: in(1)},
			"the end of holding":  {timeout: 2, hold: 1, cancel: true, want: in(1)},
			"a cancel":            {timeout: 5, hold: 4, cancel: true, want: in(3)},
			"the caller's time":   {timeout: 5, hold: 4, cancel: true, at: in(2), want: in(2)},
			"only a caller's":     {at: in(2), want: in(2)},
			"only the last event": {cancel: true, at: in(9), want: in(3)},
		} {
			w, conn := withBackend()
			w.Begin(time.Duration(c.timeout) * time.Second)
			if c.hold > 0 {
				w.clock.Hold(time.Duration(c.hold) * time.Second)
			}
			if c.cancel {
				request(w)
			}
			conn.SetReadDeadline(time.Unix(1, 0))
			if w.ArmBy(c.at); !conn.deadline().Equal(c.want) {
				t.Errorf("%s: %v, want %v", name, conn.deadline(), c.want)
			}
		}
	})
}

// Without a timeout or withheld answers, the end of a turn sets no deadline. Otherwise it removes the deadline.
func TestEndRemovesDeadlines(t *testing.T) {
	for name, prepare := range map[string]func(*Waits){
		"timeout": func(w *Waits) { w.Begin(time.Hour) },
		"holding": func(w *Waits) { w.Begin(0); w.clock.Hold(time.Hour) },
	} {
		for end, do := range map[string]func(*Waits){"End": (*Waits).End, "Detach": (*Waits).Detach} {
			w, c := withBackend()
			prepare(w)
			w.Arm()
			if do(w); !c.deadline().IsZero() || !w.clock.holdEnd.IsZero() {
				t.Errorf("%s, %s: a deadline is left", name, end)
			}
		}
	}
	w, c := withBackend()
	w.Begin(0)
	c.SetReadDeadline(wakeNow)
	if w.End(); !c.deadline().Equal(wakeNow) {
		t.Error("a deadline is set without need")
	}
	w.UseClock(nil)
	w.End()
	w.Detach()
	if w.HasBackend() {
		t.Error("the backend is still attached")
	}
}

// A timeout that is over before a statement is sent is returned once.
func TestArmTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := withBackend()
		w.Begin(time.Second)
		if err := w.ArmTimeout(); err != nil || !c.deadline().Equal(time.Now().Add(time.Second)) {
			t.Errorf("before the end: %v", err)
		}
		time.Sleep(time.Second)
		if err := w.ArmTimeout(); err != ErrTimedOut {
			t.Errorf("at the end: %v", err)
		}
		if err := w.ArmTimeout(); err != nil {
			t.Errorf("again: %v", err)
		}
	})
}

// Of several events at once, each is returned once: Cut, which remains, before all others.
func TestEventsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			next func(*Waits) error
			want []error
		}{
			"in front of a statement": {(*Waits).CheckInterruption, []error{ErrCanceled, ErrTimedOut, nil}},
			"while the server works":  {func(w *Waits) error { return w.Due(time.Now()) }, []error{ErrTimedOut, ErrCanceled, nil}},
		} {
			w, _ := withBackend()
			w.Begin(time.Second)
			request(w)
			time.Sleep(grace)
			for _, want := range c.want {
				err := c.next(w)
				if err != want {
					t.Errorf("%s: %v, want %v", name, err, want)
				}
				w.Consume(err)
			}
			request(w)
			w.Cut()
			for range 2 {
				if err := c.next(w); err != ErrCut {
					t.Errorf("%s: %v at the end of a drain", name, err)
				}
				w.Consume(ErrCut)
			}
			if !w.IsCancelRequested() || w.CheckCut() != ErrCut {
				t.Errorf("%s: an event is lost at the end of a drain", name)
			}
		}
	})
}

// Cut and WakeRead end a read from the backend, or from one that only answers a question.
func TestWokenReads(t *testing.T) {
	for name, wake := range map[string]func(*Waits){"cut": (*Waits).Cut, "woken": func(w *Waits) { w.WakeRead() }} {
		w, c := withBackend()
		if wake(w); !c.deadline().Equal(wakeNow) {
			t.Errorf("%s: the read goes on", name)
		}
		w, c = newWaits(), &socket{}
		end := w.BeginQuestions(&reservoir.Conn{Net: c})
		if wake(w); !c.deadline().Equal(wakeNow) {
			t.Errorf("%s: the question goes on", name)
		}
		met := false
		if w.WithBackend(func(got *reservoir.Conn) { met = got.Net == c }); !met || w.HasBackend() {
			t.Errorf("%s: the backend that is asked is not found, or is the session's", name)
		}
		end()
		w.WithBackend(func(*reservoir.Conn) { t.Errorf("%s: a backend is left", name) })
	}
}

// The statement timeout starts once a turn. A nested turn has the same timeout, but withholds its own answers.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var c Clock
		c.Start(0)
		if !c.Deadline().IsZero() || c.hasExpired(began.AddDate(9, 0, 0)) {
			t.Error("no timeout has an end")
		}
		c.Start(time.Minute)
		time.Sleep(time.Second)
		c.Start(time.Hour)
		if want := began.Add(time.Minute); !c.Deadline().Equal(want) || c.hasExpired(want.Add(-1)) || !c.hasExpired(want) {
			t.Errorf("the timeout ends at %v, want %v", c.Deadline(), want)
		}
		if !c.Hold(time.Second) || c.Hold(time.Hour) || c.EndHold(time.Now()) {
			t.Error("holding ends too early")
		}
		if n := c.Nested(); !n.holdEnd.IsZero() || !n.Deadline().Equal(c.Deadline()) {
			t.Error("a nested turn has another timeout, or withholds the outer turn's answers")
		} else if n.Start(time.Hour); !n.Deadline().Equal(c.Deadline()) {
			t.Error("a nested turn starts another timeout")
		}
		time.Sleep(time.Second)
		if !c.EndHold(time.Now()) || c.EndHold(time.Now()) {
			t.Error("holding does not end once")
		}
		c.Restart(time.Minute)
		if want := time.Now().Add(time.Minute); !c.Deadline().Equal(want) {
			t.Errorf("the new timeout ends at %v, want %v", c.Deadline(), want)
		}
		if c.Restart(0); !c.Deadline().IsZero() {
			t.Error("the timeout that was switched off has an end")
		}
		c.SetDeadline(began)
		c.Stop()
		if c.Start(time.Minute); !c.Deadline().IsZero() {
			t.Error("a second timeout starts in the turn")
		}
	})
}

// The zero time means never.
func TestEarlier(t *testing.T) {
	a, never := time.Now(), time.Time{}
	b := a.Add(1)
	for _, c := range [][3]time.Time{{a, b, a}, {b, a, a}, {a, never, a}, {never, a, a}, {never, never, never}, {a, a, a}} {
		if got := Earlier(c[0], c[1]); got != c[2] {
			t.Errorf("the earlier of %v and %v is %v", c[0], c[1], got)
		}
	}
}
