package reservoir

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestShelfIsFilledAtTheRateLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: 100 * time.Millisecond}
		cfg := small(40)
		cfg.RateLimit, cfg.BurstLimit = 10, 10
		r := running(t, cfg, s.dial)
		sleep(150 * time.Millisecond)
		if got := r.Stats(); got.Ready != 10 {
			t.Errorf("after the burst %d are ready, want 10", got.Ready)
		}
		// 30 more at 10/s, and the last one's dial.
		sleep(3*time.Second - time.Millisecond)
		if got := r.Stats(); got.Ready != 40 || got.Dialing != 0 {
			t.Errorf("after 3.15 s %d are ready and %d being dialled, want 40 and 0", got.Ready, got.Dialing)
		}
		sleep(time.Minute)
		if attempts, open, most := s.counts(); attempts != 40 || open != 40 || most != 40 {
			t.Errorf("%d dials, %d open, %d at most, want 40 each", attempts, open, most)
		}
		if got := r.Params()["server_version"]; got != "16.40" {
			t.Errorf("Params are those of %s, want the newest backend's", got)
		}
	})
}

func TestDialsRunInParallelWithinBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: time.Second}
		r := running(t, small(100), s.dial)
		if got := r.Stats(); got.Dialing != maxDials {
			t.Errorf("%d dials at once, want %d", got.Dialing, maxDials)
		}
		sleep(time.Second)
		if got := r.Stats(); got.Dialing != maxDials || got.Ready != maxDials {
			t.Errorf("%d being dialled, %d ready, want %d each", got.Dialing, got.Ready, maxDials)
		}
	})
}

func TestLastUsedIsLentFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := running(t, small(3), new(server).dial)
		a, b, c := r.TryAcquire(), r.TryAcquire(), r.TryAcquire()
		if a == nil || b == nil || c == nil || r.TryAcquire() != nil {
			t.Fatal("want three backends and no more")
		}
		b.Release()
		c.Release()
		a.Release()
		for i, want := range []*Conn{a, c, b} {
			if got := r.TryAcquire(); got != want {
				t.Errorf("loan %d is backend %d, want %d", i, got.PID, want.PID)
			}
		}
	})
}

func TestNewBackendsComeBehindThoseInUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := running(t, small(2), new(server).dial)
		warm, other := r.TryAcquire(), r.TryAcquire()
		warm.Release()
		other.Discard(Broken)
		sleep(time.Second)
		if got := r.Stats().Ready; got != 2 {
			t.Fatalf("%d ready, want 2", got)
		}
		if got := r.TryAcquire(); got != warm {
			t.Errorf("lent backend %d, want %d, which was used last", got.PID, warm.PID)
		}
	})
}

func TestAttachmentStaysWithItsBackend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := running(t, small(1), new(server).dial)
		c := r.TryAcquire()
		c.Attachment = "prepared"
		c.Release()
		if got := r.TryAcquire().Attachment; got != "prepared" {
			t.Errorf("attachment %v after a loan", got)
		}
	})
}

func TestWaitersAreServedInOrderAndBeforeOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := running(t, small(1), new(server).dial)
		c := r.TryAcquire()
		var order []int
		for i := range 4 {
			go func() {
				acquire := r.Acquire
				if i == 2 {
					acquire = r.AcquireAhead
				}
				c, err := acquire(t.Context())
				if err != nil {
					t.Errorf("waiter %d: %v", i, err)
					return
				}
				order = append(order, i)
				if r.TryAcquire() != nil {
					t.Error("somebody overtook the queue")
				}
				time.Sleep(time.Second)
				c.Release()
			}()
			synctest.Wait()
		}
		if got := r.Stats(); got.Waiting != 4 {
			t.Errorf("%d wait, want 4", got.Waiting)
		}
		c.Release()
		sleep(5 * time.Second)
		if !slices.Equal(order, []int{2, 0, 1, 3}) {
			t.Errorf("served in order %v", order)
		}
		if got := r.Stats(); got.Checkouts != 5 || got.Immediate != 1 || got.Empty != 4 || got.Ready != 1 {
			t.Errorf("stats %+v", got)
		}
	})
}

var failedDials = regexp.MustCompile(`; [1-9]\d+ dials have failed in [\d.]+s, the last \d+m?s ago`)

func TestAcquireSaysWhatItWaitedFor(t *testing.T) {
	t.Parallel()
	refused := errors.New("nobody listens")
	tests := []struct {
		name   string
		server *server
		limit  int
		lend   int
		want   string
	}{
		{name: "in use", server: &server{}, limit: 10, lend: 2, want: "no backend within 10s: 2 of 2 in use"},
		{name: "dialled", limit: 10, server: &server{delay: time.Minute},
			want: "no backend within 10s: 0 of 2 in use, 2 being dialled"},
		{name: "failing", limit: 10, server: &server{fail: func(int) error { return refused }},
			want: "no backend within 10s: 0 of 2 in use; dials have failed; last dial failed: nobody listens"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg := small(2)
				cfg.RateLimit = tt.limit
				r := running(t, cfg, tt.server.dial)
				for range tt.lend {
					r.TryAcquire()
				}
				began := time.Now()
				_, err := r.Acquire(t.Context())
				if got := time.Since(began); got != cfg.CheckoutWait {
					t.Errorf("waited %v, want %v", got, cfg.CheckoutWait)
				}
				empty, ok := errors.AsType[*NoBackendError](err)
				if said := failedDials.ReplaceAllString(err.Error(), "; dials have failed"); !ok || said != tt.want {
					t.Errorf("got %v, want %s", err, tt.want)
				}
				if ok && empty.LastDialErr != nil && !errors.Is(err, refused) {
					t.Errorf("%v does not wrap the dial's error", err)
				}
				if got := r.Stats().Waiting; got != 0 {
					t.Errorf("%d still wait", got)
				}
			})
		})
	}
}

func TestAcquireTellsOfTheRateLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := small(30)
		cfg.RateLimit, cfg.BurstLimit, cfg.BaseLifetime = 1, 1, 20*time.Minute
		cfg.CheckoutWait = 9500 * time.Millisecond
		r := running(t, cfg, new(server).dial)
		errs := make(chan error, 30)
		for range cap(errs) {
			go func() {
				_, err := r.Acquire(t.Context())
				errs <- err
			}()
		}
		refused := 0
		for range cap(errs) {
			if err := <-errs; err != nil {
				refused++
				if want := "no backend within 9.5s: 10 of 30 in use, waiting for rate"; err.Error() != want {
					t.Errorf("got %q, want %q", err, want)
				}
			}
		}
		if refused != 20 {
			t.Errorf("%d refused, want all but one a second", refused)
		}
	})
}

func TestCancelledAcquireDoesNotCancelTheDial(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: 5 * time.Second}
		r := running(t, small(1), s.dial)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
		sleep(5 * time.Second)
		if attempts, _, _ := s.counts(); attempts != 1 || r.Stats().Ready != 1 {
			t.Errorf("%d dials and %d ready, want 1 each", attempts, r.Stats().Ready)
		}
	})
}

func TestDiscardClosesAndIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		r := running(t, small(2), s.dial)
		r.TryAcquire().Discard(Unclean)
		sleep(time.Second)
		if attempts, open, most := s.counts(); attempts != 3 || open != 2 || most != 2 {
			t.Errorf("%d dials, %d open, %d at most, want 3, 2, 2", attempts, open, most)
		}
		if len(s.says) != 1 || s.says[0] != "X\x00\x00\x00\x04" {
			t.Errorf("the server read %q, want a Terminate", s.says)
		}
	})
}

// A slot is free when the socket is closed, not before.
func TestDiscardHoldsItsSlotUntilTheSocketIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		deaf := func(ctx context.Context, _ *Startup) (*Conn, error) {
			c, err := s.dial(ctx, nil)
			if err == nil {
				c.Net = stuck{c.Net}
			}
			return c, err
		}
		r := running(t, small(1), deaf)
		began := time.Now()
		r.TryAcquire().Discard(Broken)
		if time.Since(began) != 0 {
			t.Error("Discard blocked")
		}
		synctest.Wait()
		if got := r.Stats(); got.Closing != 1 || got.Dialing != 0 || r.TryAcquire() != nil {
			t.Errorf("stats %+v, want one closing and nothing else", got)
		}
		sleep(terminateWait)
		if got := r.Stats(); got.Closing != 0 || got.Ready != 1 {
			t.Errorf("stats %+v, want one ready", got)
		}
	})
}

// Servers that do not listen hold the end of Run up for closingWait, also those whose goodbye
// had begun before.
func TestGoodbyesAreShortAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		r := made(t, small(2), func(ctx context.Context, _ *Startup) (*Conn, error) {
			c, err := s.dial(ctx, nil)
			if err == nil {
				c.Net = stuck{c.Net}
			}
			return c, err
		})
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			r.Run(ctx)
			close(ended)
		}()
		sleep(time.Second)
		r.TryAcquire().Discard(Cancelled)
		began := time.Now()
		end()
		<-ended
		if took := time.Since(began); took > closingWait {
			t.Errorf("it took %v, want %v at most", took, closingWait)
		}
	})
}

func TestSecondEndOfALoanPanics(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*Conn){"Release": (*Conn).Release, "Discard": func(c *Conn) { c.Discard(Broken) }}
	for first, end := range ends {
		for second, again := range ends {
			t.Run(first+" "+second, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := running(t, small(1), new(server).dial)
					c := r.TryAcquire()
					end(c)
					defer func() {
						if recover() == nil {
							t.Error("no panic")
						}
					}()
					again(c)
				})
			})
		}
	}
}

func TestOnDemandDialsForWhoWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: 100 * time.Millisecond}
		cfg := small(5)
		cfg.TargetReady = 0
		r := running(t, cfg, s.dial)
		sleep(time.Minute)
		if attempts, _, _ := s.counts(); attempts != 0 {
			t.Errorf("%d dials before anybody wanted one", attempts)
		}
		began := time.Now()
		a, b := mustAcquire(t, r), mustAcquire(t, r)
		if got := time.Since(began); got != 200*time.Millisecond {
			t.Errorf("two dials took %v", got)
		}
		a.Release()
		b.Release()
		mustAcquire(t, r).Release()
		if attempts, open, _ := s.counts(); attempts != 2 || open != 2 {
			t.Errorf("%d dials, %d open, want 2 each", attempts, open)
		}
	})
}

func TestTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		r := made(t, small(3), s.dial)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		a, b := r.TryAcquire(), r.TryAcquire()
		s.mu.Lock()
		s.delay = time.Minute // whatever is dialled from now on comes too late
		s.mu.Unlock()
		r.TryAcquire().Discard(Broken)
		waiter := make(chan error, 1)
		go func() { _, err := r.Acquire(t.Context()); waiter <- err }()
		synctest.Wait()

		cancel()
		if err := <-waiter; err != ErrClosed {
			t.Errorf("the waiter got %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if got := r.Stats(); got.Ready != 0 || got.Dialing != 0 || got.Closing != 0 || got.InUse != 2 {
			t.Errorf("stats %+v, want only two in use", got)
		}
		if _, err := r.Acquire(t.Context()); err != ErrClosed || r.TryAcquire() != nil {
			t.Errorf("Acquire after the end: %v", err)
		}
		a.Release()
		b.Discard(Broken)
		synctest.Wait()
		if _, open, _ := s.counts(); open != 0 {
			t.Errorf("%d connections left open", open)
		}
	})
}

// A dial that succeeds although Run has ended is closed.
func TestDialThatComesTooLateIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: time.Second}
		stubborn := func(context.Context, *Startup) (*Conn, error) { return s.dial(context.Background(), nil) }
		r := made(t, small(1), stubborn)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
		synctest.Wait()
		if attempts, open, _ := s.counts(); attempts != 1 || open != 0 || r.Stats().Ready != 0 {
			t.Errorf("%d dials, %d open, %d ready, want 1, 0, 0", attempts, open, r.Stats().Ready)
		}
	})
}

func TestLendingDoesNotAllocate(t *testing.T) {
	s := &server{}
	r := made(t, small(2), s.dial)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	mustAcquire(t, r).Release()
	if n := testing.AllocsPerRun(1000, func() { r.TryAcquire().Release() }); n != 0 {
		t.Errorf("%v allocations a loan, want 0", n)
	}
	cancel()
	<-ended
}
