package reservoir

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestFillTricklesAboveTheLowWatermark(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: 10 * time.Millisecond}
		cfg := small(20)
		cfg.LowWatermark = 10
		r := running(t, cfg, s.dial)
		sleep(100 * time.Millisecond)
		if got := r.Stats(); got.Ready < 10 || got.Ready > 11 || !got.Filled {
			t.Errorf("%d ready at once, filled %v, want the low watermark of 10", got.Ready, got.Filled)
		}
		sleep(5 * time.Second)
		if got := r.Stats().Ready; got < 15 || got > 16 {
			t.Errorf("%d ready 5 s later, want 15 or 16", got)
		}
		// Whoever waits makes it run.
		for range 20 {
			mustAcquire(t, r)
		}
		if got := r.elapsed(); got > 6*time.Second {
			t.Errorf("20 were lent after %v", got)
		}
	})
}

func TestInitialFillIsOverInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := &server{fail: func(attempt int) error {
			if attempt > 3 {
				return &DialError{Step: StepTCP, Err: errors.New("down")}
			}
			return nil
		}}
		r, err := New(small(10), s.dial, nil, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), DefaultInitialFill+2*scanEvery)
		defer cancel()
		finished := make(chan error, 1)
		go func() { finished <- r.Run(ctx) }()
		sleep(DefaultInitialFill - 2*scanEvery)
		if r.Stats().Filled {
			t.Error("filled with 3 of 10")
		}
		if err := <-finished; err != nil {
			t.Fatal(err)
		}
		if !r.Stats().Filled || strings.Count(log.String(), "initial fill") != 1 || !strings.Contains(log.String(), "open=3 wanted=10") {
			t.Errorf("filled %v after the timeout, log:\n%s", r.Stats().Filled, log.String())
		}
	})
}
