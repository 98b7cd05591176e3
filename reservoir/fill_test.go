package reservoir

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sluice-proxy/sluice/metrics"
)

func TestFailedDialsBackOffOneAtATime(t *testing.T) {
	t.Parallel()
	tests := []struct {
		err         error
		first, most time.Duration
	}{
		{&DialError{Step: StepTCP, Err: errors.New("refused")}, firstPause, mostPause},
		{&DialError{Step: StepStartup, SQLState: "53300", Err: errors.New("too many")}, firstQuotaPause, mostQuotaPause},
		{&DialError{Step: StepStartup, SQLState: "53400", Err: errors.New("too fast")}, firstQuotaPause, mostQuotaPause},
	}
	for _, tt := range tests {
		t.Run(tt.err.Error(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &server{fail: func(int) error { return tt.err }}
				cfg := small(50)
				cfg.BurstLimit, cfg.RateLimit = 1000, 1000
				running(t, cfg, s.dial)
				sleep(5 * time.Minute)
				times := s.times()
				// Those that were under way when the first failed do not count.
				burst := 0
				for times[burst] == 0 {
					burst++
				}
				if burst > maxDials {
					t.Errorf("%d dials at once, want at most %d", burst, maxDials)
				}
				pause := tt.first
				for i, at := range times[burst:] {
					gap := at - times[burst+i-1]
					if gap < pause/2 || gap > pause {
						t.Errorf("pause %d is %v, want %v to %v", i, gap, pause/2, pause)
					}
					pause = min(2*pause, tt.most)
				}
				if n := len(times) - burst; n < int(5*time.Minute/tt.most) {
					t.Errorf("only %d dials in 5 minutes", n)
				}
			})
		})
	}
}

func TestQuotaRefusalDoesNotEmptyTheShelf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{fail: func(attempt int) error {
			if attempt > 3 {
				return &DialError{Step: StepStartup, SQLState: "53300", Err: errors.New("too many")}
			}
			return nil
		}}
		r := running(t, small(10), s.dial)
		sleep(5 * time.Minute)
		if got := r.Stats(); got.Ready != 3 || got.LastDialErr == nil {
			t.Errorf("%d ready, want 3; last error %v", got.Ready, got.LastDialErr)
		}
		c := mustAcquire(t, r)
		c.Release()
	})
}

func TestDialsRecoverAfterAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := &server{delay: 50 * time.Millisecond}
		began := time.Now()
		s.fail = func(int) error {
			if time.Since(began) < time.Minute {
				return &DialError{Step: StepTLS, Address: "db:5432", Err: errors.New("no handshake")}
			}
			return nil
		}
		set := metrics.New(metrics.Options{})
		cfg := small(20)
		r, err := New(cfg, s.dial, set.Reservoir, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 70*time.Second)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Fatal(err)
		}
		attempts, _, most := s.counts()
		if most != 20 || r.Stats().LastDialErr != nil {
			t.Errorf("%d open at most, want 20; last error %v", most, r.Stats().LastDialErr)
		}
		// Each failure that slowed the dials is a line, and so is their end.
		if n := strings.Count(log.String(), "dial db:5432: tls: no handshake"); n == 0 || n > attempts-20 {
			t.Errorf("%d lines for %d failures:\n%s", n, attempts-20, log.String())
		}
		if n := strings.Count(log.String(), "dials succeed again"); n != 1 {
			t.Errorf("%d lines of recovery:\n%s", n, log.String())
		}
		want := fmt.Sprintf("# HELP dsql_reservoir_refills_total Dials that succeeded.\n"+
			"# TYPE dsql_reservoir_refills_total counter\ndsql_reservoir_refills_total %d\n", 20)
		if err := testutil.GatherAndCompare(set.Registry, strings.NewReader(want), "dsql_reservoir_refills_total"); err != nil {
			t.Error(err)
		}
	})
}

// After an outage of any length somebody who waits has a backend within a moment: the pauses of dials are short for
// as long as anybody waits.
func TestWhoWaitsIsDialledForSoon(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		outage, comes := time.Duration(random.Int64N(int64(90*time.Second))), time.Duration(random.Int64N(int64(90*time.Second)))
		silent := time.Duration(random.Int64N(int64(300 * time.Millisecond)))
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			s := &server{delay: silent}
			s.fail = func(int) error {
				if time.Since(began) < outage {
					return &DialError{Step: StepTCP, Address: "db:5432", Err: errors.New("connection refused")}
				}
				return nil
			}
			cfg := small(4)
			cfg.BurstLimit, cfg.RateLimit, cfg.CheckoutWait = 1000, 1000, 5*time.Second
			r := running(t, cfg, s.dial)
			sleep(comes) // long pauses have begun by then
			for {
				c, err := r.Acquire(t.Context())
				now := time.Since(began)
				if err == nil {
					if late := now - max(outage, comes); late > mostWaitedPause+2*silent {
						t.Errorf("an outage of %v, who came after %v had a backend %v too late", outage, comes, late)
					}
					c.Release()
					return
				}
				if now > outage+time.Minute {
					t.Fatal(err)
				}
				if !strings.Contains(err.Error(), " dials have failed in ") {
					t.Errorf("nothing of the failed dials: %v", err)
				}
			}
		})
	}
}

func TestBackoffIgnoresOldNews(t *testing.T) {
	t.Parallel()
	var b dialBackoff
	now := time.Now()
	generation := b.generation
	if _, news := b.recordFailure(generation, now, false); !news {
		t.Error("the first failure is no news")
	}
	if _, news := b.recordFailure(generation, now, false); news {
		t.Error("the failure of a dial that began before the first failure is news")
	}
	if b.recordSuccess(generation) || b.failures != 1 {
		t.Error("the success of a dial that began before the failure ends it")
	}
	if !b.recordSuccess(b.generation) || b.failures != 0 {
		t.Error("a success after the failure does not end it")
	}
	for range 100 {
		if pause, _ := b.recordFailure(b.generation, now, true); pause > mostQuotaPause {
			t.Fatalf("pause %v", pause)
		}
	}
	if pause := b.until.Sub(now); pause < mostQuotaPause/2 {
		t.Errorf("pause %v after 100 failures, want at least %v", pause, mostQuotaPause/2)
	}
}

// Package metrics knows every reason and step: none is counted as "other".
func TestReasonsAndStepsAreLabels(t *testing.T) {
	t.Parallel()
	set := metrics.New(metrics.Options{})
	for _, reason := range CloseReasons {
		set.Reservoir.CountDiscard(string(reason))
	}
	for _, step := range []DialStep{StepCredentials, StepToken, StepDNS, StepTCP, StepTLS, StepAuth, StepStartup} {
		set.Reservoir.CountDialFailure(failureLabel(&DialError{Step: step}))
	}
	for _, state := range []string{"53300", "53400"} {
		set.Reservoir.CountDialFailure(failureLabel(&DialError{Step: StepStartup, SQLState: state}))
	}
	families, err := set.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, f := range families {
		if f.GetName() != "dsql_reservoir_discards_total" && f.GetName() != "dsql_reservoir_refill_failures_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			want := 1.0
			if m.GetLabel()[0].GetValue() == metrics.Other {
				want = 0
			}
			checked++
			if got := m.GetCounter().GetValue(); got != want {
				t.Errorf("%s{%s} = %v, want %v", f.GetName(), m.GetLabel()[0].GetValue(), got, want)
			}
		}
	}
	if want := len(CloseReasons) + 1 + 9 + 1; checked != want {
		t.Errorf("%d series, want %d", checked, want)
	}
}
