package reservoir

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// dedicated is a configuration that keeps nothing ready.
func dedicated(n int) Config {
	cfg := small(n)
	cfg.TargetReady = 0
	return cfg
}

func TestDedicatedBackendIsClosedAtItsRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: time.Millisecond}
		var got *Startup
		r := running(t, dedicated(2), func(ctx context.Context, startup *Startup) (*Conn, error) {
			got = startup
			return s.dial(ctx, startup)
		})
		c, err := r.DialDedicated(t.Context(), Startup{Database: "app", Params: map[string]string{"TimeZone": "UTC"}})
		if err != nil {
			t.Fatal(err)
		}
		if got == nil || got.Database != "app" || got.Params["TimeZone"] != "UTC" {
			t.Errorf("dialled with %+v", got)
		}
		if r.Params() != nil {
			t.Error("one session's parameters became everybody's")
		}
		sleep(2 * time.Hour) // no age is too old
		if _, open, _ := s.counts(); open != 1 || r.Stats().InUse != 1 {
			t.Errorf("%d open, %d in use, want 1 each", open, r.Stats().InUse)
		}
		c.Release()
		synctest.Wait()
		if _, open, _ := s.counts(); open != 0 || r.Stats().InUse != 0 {
			t.Errorf("%d open, %d in use, want none", open, r.Stats().InUse)
		}
	})
}

func TestDedicatedBackendsKeepToMaxOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: time.Second}
		r := running(t, dedicated(2), s.dial)
		first, err := r.DialDedicated(t.Context(), Startup{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.DialDedicated(t.Context(), Startup{}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = r.DialDedicated(t.Context(), Startup{})
		if _, ok := errors.AsType[*NoBackendError](err); !ok || time.Since(began) != DefaultCheckoutWait {
			t.Errorf("the third got %v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.DialDedicated(ctx, Startup{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the fourth got %v", err)
		}
		go func() {
			time.Sleep(3 * time.Second)
			first.Release()
		}()
		began = time.Now()
		if _, err := r.DialDedicated(t.Context(), Startup{}); err != nil || time.Since(began) != 4*time.Second {
			t.Errorf("the fifth got %v after %v, want a slot after 3 s and a dial of 1 s", err, time.Since(began))
		}
		if _, _, most := s.counts(); most != 2 {
			t.Errorf("%d at most, want 2", most)
		}
	})
}

func TestDedicatedDialMakesRoomOnTheShelf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		r := running(t, small(3), s.dial)
		lent := r.TryAcquire()
		for range 2 { // from the shelf, and nothing is dialled instead
			if _, err := r.DialDedicated(t.Context(), Startup{}); err != nil {
				t.Fatal(err)
			}
		}
		sleep(time.Second)
		if got := r.Stats(); got.InUse != 3 || got.Ready != 0 {
			t.Errorf("%d in use, %d ready, want 3 and 0", got.InUse, got.Ready)
		}
		// What comes back goes to who waits for a slot.
		go func() {
			time.Sleep(time.Second)
			lent.Release()
		}()
		if _, err := r.DialDedicated(t.Context(), Startup{}); err != nil {
			t.Error(err)
		}
		if _, _, most := s.counts(); most != 3 {
			t.Errorf("%d at most, want 3", most)
		}
		r.verify()
	})
}

func TestRefusedDedicatedDialGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refusal := &DialError{Step: StepStartup, SQLState: "3D000", Server: &ServerError{Code: "3D000"}, Err: errors.New("no such database")}
		s := &server{fail: func(attempt int) error {
			if attempt%2 == 1 {
				return refusal
			}
			return nil
		}}
		r := running(t, dedicated(1), s.dial)
		for range 3 {
			if _, err := r.DialDedicated(t.Context(), Startup{}); err != error(refusal) {
				t.Fatalf("got %v, want the refusal itself", err)
			}
			c, err := r.DialDedicated(t.Context(), Startup{})
			if err != nil {
				t.Fatal(err)
			}
			c.Release()
		}
		if got := r.Stats(); got.LastDialErr != nil {
			t.Errorf("one session's refusal became everybody's: %v", got.LastDialErr)
		}
		r.verify()
	})
}

// The cluster's quotas are everybody's: a dedicated dial that it refused slows
// the fill and the other dedicated dials, until one succeeds.
func TestRefusedDedicatedDialSlowsEveryDial(t *testing.T) {
	t.Parallel()
	for _, code := range []string{tooManyConnections, rateExceeded} {
		synctest.Test(t, func(t *testing.T) {
			refusal := &DialError{Step: StepStartup, SQLState: code, Err: errors.New("no room")}
			s := &server{fail: func(attempt int) error {
				if attempt == 3 || attempt == 4 {
					return refusal
				}
				return nil
			}}
			cfg := small(5)
			cfg.TargetReady = 2
			r := running(t, cfg, s.dial) // two dials
			if _, err := r.DialDedicated(t.Context(), Startup{}); err != error(refusal) {
				t.Fatalf("got %v, want the refusal itself", err)
			}
			if err := r.Stats().LastDialErr; err != error(refusal) {
				t.Errorf("the last dial failed with %v", err)
			}
			mustAcquire(t, r).Discard(Broken) // the fill would replace it at once
			ctx, cancel := context.WithTimeout(t.Context(), firstQuotaPause/4)
			defer cancel()
			if _, err := r.DialDedicated(ctx, Startup{}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("during the pause: %v", err)
			}
			synctest.Wait()
			if n, _, _ := s.counts(); n != 3 {
				t.Fatalf("%d dials, want none during the pause", n)
			}
			for range 2 { // the fill or these are refused once more
				if c, err := r.DialDedicated(t.Context(), Startup{}); err == nil {
					defer c.Release()
				}
			}
			sleep(time.Minute)
			times := s.times()
			if first, second := times[3]-times[2], times[4]-times[3]; first < firstQuotaPause/2 || second < firstQuotaPause/2 {
				t.Errorf("dials at %v, want pauses after both refusals", times)
			}
			if got := r.Stats(); got.Ready+got.InUse != 2 || got.LastDialErr != nil || r.backoff.failures != 0 {
				t.Errorf("%d open, last error %v, %d failures after a success", got.Ready+got.InUse, got.LastDialErr, r.backoff.failures)
			}
		})
	}
}

// Where nothing is filled, only dedicated dials can tell that the cluster takes
// connections again.
func TestDedicatedDialEndsTheBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{fail: func(attempt int) error {
			if attempt <= 3 {
				return &DialError{Step: StepStartup, SQLState: tooManyConnections, Err: errors.New("no room")}
			}
			return nil
		}}
		r := running(t, dedicated(2), s.dial)
		for range 3 {
			if _, err := r.DialDedicated(t.Context(), Startup{}); err == nil {
				t.Fatal("not refused")
			}
		}
		if _, err := r.DialDedicated(t.Context(), Startup{}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := r.DialDedicated(t.Context(), Startup{}); err != nil || time.Since(began) != 0 {
			t.Errorf("after a success: %v, %v later", err, time.Since(began))
		}
		if err := r.Stats().LastDialErr; err != nil {
			t.Errorf("the last dial failed with %v", err)
		}
	})
}

func TestDedicatedDialsKeepToTheRateLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := dedicated(10)
		cfg.RateLimit, cfg.BurstLimit = 1, 2
		r := running(t, cfg, new(server).dial)
		began := time.Now()
		for range 4 {
			c, err := r.DialDedicated(t.Context(), Startup{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Release()
		}
		if got := time.Since(began); got != 2*time.Second {
			t.Errorf("4 dials at a burst of 2 and 1/s took %v, want 2s", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := r.DialDedicated(ctx, Startup{})
		if empty, ok := errors.AsType[*NoBackendError](err); !ok || !empty.Throttled {
			t.Errorf("got %v, want an EmptyError that names the rate limit", err)
		}
	})
}

func TestDedicatedDialThatTheEndOvertakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: time.Second}
		r := made(t, dedicated(1), s.dial)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		dialled, queued := make(chan error, 1), make(chan error, 1)
		go func() { _, err := r.DialDedicated(t.Context(), Startup{}); dialled <- err }()
		synctest.Wait()
		go func() { _, err := r.DialDedicated(t.Context(), Startup{}); queued <- err }()
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
		if err := <-queued; err != ErrClosed {
			t.Errorf("the queued got %v", err)
		}
		if err := <-dialled; err != ErrClosed {
			t.Errorf("the dialled got %v", err)
		}
		synctest.Wait()
		if _, open, _ := s.counts(); open != 0 || r.Stats().Closing != 0 {
			t.Errorf("%d open, stats %+v", open, r.Stats())
		}
		if _, err := r.DialDedicated(t.Context(), Startup{}); err != ErrClosed {
			t.Errorf("after the end: %v", err)
		}
	})
}
