package interrupt

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-proxy/sluice/reservoir"
)

// planted is a session for waits inside Sluice. Its client has left from gone on, if that is not zero.
type planted struct {
	ctx      context.Context
	timeouts Timeouts
	gone     time.Time
	checks   atomic.Int32
}

var errGone = errors.New("gone")

func (s *planted) Context() context.Context { return s.ctx }
func (s *planted) Timeouts() Timeouts       { return s.timeouts }
func (s *planted) CheckClient() error {
	s.checks.Add(1)
	if !s.gone.IsZero() && !time.Now().Before(s.gone) {
		return errGone
	}
	return nil
}

// Each event ends a wait inside Sluice, with its reason and at its time.
func TestEndOfAWait(t *testing.T) {
	type wait struct {
		timeouts    Timeouts
		limit, gone time.Duration
		event       func(*Waits)
		stop        bool // the process stops its sessions
		want        error
		after       time.Duration
	}
	for name, c := range map[string]wait{
		"limit":                           {limit: time.Second, timeouts: Timeouts{Own: time.Minute}, want: ErrLimit, after: time.Second},
		"timeout":                         {timeouts: Timeouts{Own: time.Second}, want: ErrTimedOut, after: time.Second},
		"timeout before the limit":        {limit: time.Minute, timeouts: Timeouts{Own: time.Second}, want: ErrTimedOut, after: time.Second},
		"the server's timeout":            {limit: time.Minute, timeouts: Timeouts{Own: time.Hour, Server: time.Second}, want: ErrTimedOut, after: time.Second},
		"limit and timeout at once":       {limit: time.Second, timeouts: Timeouts{Own: time.Second}, want: ErrLimit, after: time.Second},
		"the client has left":             {gone: time.Second, want: errGone, after: time.Second},
		"the client has left in between":  {gone: 1010 * time.Millisecond, want: errGone, after: 1100 * time.Millisecond},
		"a cancel":                        {event: func(w *Waits) { request(w) }, want: ErrCanceled, after: 2 * time.Second},
		"shutdown":                        {stop: true, want: ErrCut, after: 2 * time.Second},
		"a cancel after the client left":  {event: func(w *Waits) { request(w) }, gone: time.Second, want: errGone, after: time.Second},
		"a cancel and shutdown after it ": {event: func(w *Waits) { request(w) }, stop: true, want: ErrCanceled, after: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, stop := context.WithCancel(context.Background())
				defer stop()
				s := &planted{ctx: ctx, timeouts: c.timeouts}
				if c.gone > 0 {
					s.gone = began.Add(c.gone)
				}
				var limit time.Time
				if c.limit > 0 {
					limit = began.Add(c.limit)
				}
				w := newWaits()
				time.AfterFunc(2*time.Second, func() {
					if c.event != nil {
						c.event(w)
					}
					if c.stop {
						stop()
					}
				})
				wait, over := w.Context(s, limit, 100*time.Millisecond)
				if err := w.Error(wait); err != nil {
					t.Errorf("ended at once: %v", err)
				}
				<-wait.Done()
				if err := w.Error(wait); err != c.want || time.Since(began) != c.after {
					t.Errorf("ended with %v after %v, want %v after %v", err, time.Since(began), c.want, c.after)
				}
				over()
				if w.IsCancelRequested() || c.want == ErrTimedOut && !w.clock.Deadline().IsZero() {
					t.Error("the event ends the next wait too")
				}
				checks := s.checks.Load()
				if time.Sleep(time.Second); s.checks.Load() != checks {
					t.Error("the client is checked after the wait")
				}
			})
		})
	}
}

// A cancel that comes before a wait ends the wait at once. One that comes after a wait ends the next one.
func TestCancelBetweenWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWaits(), &planted{ctx: context.Background()}
		ctx, over := w.Context(s, time.Time{}, time.Second)
		if over(); ctx.Err() == nil {
			t.Error("the wait's context outlives the wait")
		}
		request(w)
		ctx, over = w.Context(s, time.Time{}, time.Second)
		defer over()
		if err := w.Error(ctx); err != ErrCanceled {
			t.Errorf("the cancel is lost: %v", err)
		}
	})
}

// A cancel ends the round trip that runs, and the cause is cleared with its error.
func TestCancelOfAnExchange(t *testing.T) {
	w, c := withBackend()
	w.Begin(0)
	conn := &reservoir.Conn{Net: c}
	err := w.Exchange(conn, func() error {
		if got := request(w); got != waiting || !c.deadline().Equal(wakeNow) {
			t.Errorf("%s, the read ends at %v", got, c.deadline())
		}
		return errGone
	})
	if err != errGone || !w.IsCancelRequested() {
		t.Errorf("%v clears the cancel", err)
	}
	if err := w.Exchange(conn, func() error { return ErrCanceled }); err != ErrCanceled || w.IsCancelRequested() {
		t.Error("the cancel is returned again")
	}
	if got := request(w); got != noted {
		t.Errorf("after the exchange: %s", got)
	}
}

// A cancel during a question to a new backend ends the question and the wait around it.
func TestCancelOfAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s, c := newWaits(), &planted{ctx: context.Background()}, &socket{}
		ctx, over := w.Context(s, time.Time{}, time.Second)
		defer over()
		end := w.BeginQuestions(&reservoir.Conn{Net: c})
		end()
		end = w.BeginQuestions(&reservoir.Conn{Net: c})
		request(w)
		end()
		if !c.deadline().Equal(wakeNow) || w.Error(ctx) != ErrCanceled {
			t.Error("the cancel does not end both")
		}
		c.SetReadDeadline(time.Time{})
		if request(w); !c.deadline().IsZero() {
			t.Error("the next cancel ends a read of the earlier backend")
		}
	})
}

// A cancel, a timeout and the end of a drain end the turn. Other errors of a wait do not.
func TestEndsTurn(t *testing.T) {
	for err, want := range map[error]bool{ErrCanceled: true, ErrTimedOut: true, ErrCut: true, ErrLimit: false, errGone: false, nil: false} {
		if EndsTurn(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}
