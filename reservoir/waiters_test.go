package reservoir

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// Who goes ahead is served before all others, and in both lines first come,
// first served, whoever leaves in between. A wait ends when it has lasted as long as all, neither
// earlier nor later, and each with one answer: also that of a waiter who has waited before.
func TestWaitersAgainstTwoLines(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const long = 10 * time.Second
		var q waitQueue[int]
		var lines [2][]*waiter[int] // those who go ahead, the others
		var idle []*waiter[int]
		now := time.Unix(1, 0)
		left := errors.New("left")
		answers := func(w *waiter[int], want waitResult[int]) {
			t.Helper()
			for i, line := range lines {
				lines[i] = slices.DeleteFunc(slices.Clone(line), func(x *waiter[int]) bool { return x == w })
			}
			idle = append(idle, w)
			select {
			case got := <-w.answer:
				if got != want {
					t.Fatalf("answered %v, want %v", got, want)
				}
			default:
				t.Fatalf("another was answered, want %v", want)
			}
		}
		for i := range rapid.IntRange(0, 60).Draw(t, "steps") {
			waiting := slices.Concat(lines[0], lines[1])
			switch step := rapid.IntRange(0, 4).Draw(t, "step"); {
			case step < 2:
				w := newWaiter[int]()
				if n := len(idle); n > 0 && rapid.Bool().Draw(t, "again") {
					w, idle = idle[n-1], idle[:n-1]
				}
				q.enqueue(w, step == 0, now.Add(long))
				lines[step] = append(lines[step], w)
			case step == 2:
				now = now.Add(time.Duration(rapid.IntRange(0, 6000).Draw(t, "ms")) * time.Millisecond)
				var due []*waiter[int]
				next := time.Time{}
				for _, w := range waiting {
					if !now.Before(w.until) {
						due = append(due, w)
					} else if next.IsZero() || w.until.Before(next) {
						next = w.until
					}
				}
				if ended, then := q.expireWaits(now); ended != len(due) || then != next {
					t.Fatalf("%d waits ended and the next at %v, want %d and %v", ended, then, len(due), next)
				}
				for _, w := range due {
					answers(w, waitResult[int]{err: errExpired})
				}
			case len(waiting) == 0:
			case step == 3:
				w := rapid.SampledFrom(waiting).Draw(t, "who leaves")
				if !q.refuseWaiter(w, left) || q.refuseWaiter(w, left) {
					t.Fatal("left otherwise than once")
				}
				answers(w, waitResult[int]{err: left})
			default:
				q.serveFirst(i)
				answers(waiting[0], waitResult[int]{served: i})
			}
			if q.count != len(lines[0])+len(lines[1]) {
				t.Fatalf("%d wait, want %d and %d", q.count, len(lines[0]), len(lines[1]))
			}
		}
		q.refuseAll(ErrClosed)
		for _, w := range slices.Concat(lines[0], lines[1]) {
			answers(w, waitResult[int]{err: ErrClosed})
		}
		if q.count != 0 || q.first != nil || q.last != nil || q.ahead != nil {
			t.Fatalf("an empty queue is %+v", q)
		}
	})
}

// Every wait ends after Config.CheckoutWait, however the others lie: before it and behind it, ahead
// of it, for a slot in place of a backend, and after a time in which nobody waited.
func TestEachWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := New(Defaults(), func(context.Context, *Startup) (*Conn, error) { return nil, errors.New("not to be dialled") }, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		r.shelf.inUse = r.shelf.maxOpen // and nobody gives one back
		ctx := t.Context()
		waits := map[string]func() error{
			"in line":    func() error { _, err := r.Acquire(ctx); return err },
			"ahead":      func() error { _, err := r.AcquireAhead(ctx); return err },
			"at a place": func() error { _, err := r.NewWaitPlace().Acquire(); return err },
			"for a slot": func() error { _, err := r.DialDedicated(ctx, Startup{}); return err },
		}
		var all sync.WaitGroup
		for _, came := range []time.Duration{0, time.Second, 9 * time.Second, 10 * time.Second, time.Minute, time.Hour} {
			for how, wait := range waits {
				all.Go(func() {
					time.Sleep(came)
					began := time.Now()
					var empty *NoBackendError
					if err := wait(); !errors.As(err, &empty) || time.Since(began) != r.cfg.CheckoutWait {
						t.Errorf("%s, since %s: %v after %s", how, came, err, time.Since(began))
					}
				})
			}
		}
		all.Wait()
		r.verify()
	})
}
