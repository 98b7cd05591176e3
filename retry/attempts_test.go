package retry

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Feature: dsql-locking-compatibility, Property 3: Serialization conflict retry:
// 40001 is retried with exponential backoff and jitter, within count and time.
func TestAttempts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			MaxRetries:   rapid.IntRange(0, mostRetries).Draw(t, "retries"),
			FirstDelay:   time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "first")),
			BaseDelay:    time.Duration(rapid.Int64Range(1, int64(time.Second)).Draw(t, "base")),
			MaxDelay:     time.Duration(rapid.Int64Range(int64(time.Second), int64(time.Minute)).Draw(t, "most")),
			JitterFactor: rapid.Float64Range(0, 1).Draw(t, "jitter"),
			MaxElapsed:   time.Duration(rapid.Int64Range(1, int64(mostElapsed)).Draw(t, "elapsed")),
		}
		now := time.Unix(1, 0)
		first := now
		var a Attempts
		lost, schemas := false, 0
		want := float64(p.BaseDelay) // without jitter
		short, quick, paused := p.FirstDelay, 0, false
		for n := 0; ; n++ {
			cause := rapid.SampledFrom([]ReplayCause{UnknownConflict, DataConflict, SchemaConflict, BackendLost, FormRefused}).Draw(t, "cause")
			crowd := rapid.IntRange(0, 3).Draw(t, "crowd")
			pause, why := a.NextDelay(&p, cause, now, rapid.Float64Range(0, 0.999).Draw(t, "random"), crowd)
			if why != Replayable {
				if why != Exhausted || a.Count() != n {
					t.Fatalf("refused for %v after %d attempts, counted %d", why, n, a.Count())
				}
				longest := min(want*(1+p.JitterFactor), float64(p.MaxDelay)) + 1
				left := n < p.MaxRetries+quick+schemas
				if cause == SchemaConflict {
					left = schemas < 3*p.MaxRetries
				}
				if left && now.Add(time.Duration(longest)).Before(first.Add(p.MaxElapsed)) {
					t.Fatalf("refused at attempt %d of %d, %v after the first conflict of %v", n, p.MaxRetries, now.Sub(first), p.MaxElapsed)
				}
				return
			}
			if cause == SchemaConflict {
				most := float64(min(p.FirstDelay, p.BaseDelay))*(1+p.JitterFactor) + 1
				if schemas++; schemas > 3*p.MaxRetries || schemas == 1 && pause != 0 || float64(pause) > most || now.Add(pause).Sub(first) > p.MaxElapsed {
					t.Fatalf("attempt %d for the schema, of %d for conflicts, behind a pause of %v", schemas, p.MaxRetries, pause)
				}
				now = now.Add(pause + time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "ran")))
				continue
			}
			waits := !(cause == BackendLost && !lost || cause == FormRefused)
			isQuick := waits && !paused && quick < 2-crowd && short < p.BaseDelay && p.MaxRetries > 0
			if isQuick {
				quick++
			}
			if n >= p.MaxRetries+quick+schemas || now.Add(pause).Sub(first) > p.MaxElapsed || a.Deadline(&p) != first.Add(p.MaxElapsed) {
				t.Fatalf("attempt %d of %d, %v after the first conflict of %v", n, p.MaxRetries, now.Add(pause).Sub(first), p.MaxElapsed)
			}
			if !waits {
				if pause != 0 {
					t.Fatalf("the first %v, or any %v, waits %v", cause, FormRefused, pause)
				}
			} else if isQuick {
				if f := float64(short); float64(pause) < f*(1-p.JitterFactor)-1 || float64(pause) > f*(1+p.JitterFactor)+1 {
					t.Fatalf("quick pause %d is %v, want about %v", quick, pause, short)
				}
				short *= 8
			} else {
				paused = true
				low, high := want*(1-p.JitterFactor)-1, min(want*(1+p.JitterFactor), float64(p.MaxDelay))+1
				if float64(pause) < low || float64(pause) > high {
					t.Fatalf("pause %v, want %v to %v", pause, time.Duration(low), time.Duration(high))
				}
				want = min(want*2, float64(p.MaxDelay))
			}
			lost = lost || cause == BackendLost
			now = now.Add(pause + time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "ran")))
		}
	})
}

// The replays of the defaults, the two quick ones and five more, fit their time whatever the jitter.
func TestDefaultsFit(t *testing.T) {
	t.Parallel()
	c := Defaults()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1, 0)
	var a Attempts
	if !a.Deadline(&c.Policy).IsZero() {
		t.Fatal("a deadline before the first conflict")
	}
	for range 2 + DefaultMaxRetries {
		pause, why := a.NextDelay(&c.Policy, DataConflict, now, math.Nextafter(1, 0), 0)
		if why != Replayable {
			t.Fatalf("%v after %d attempts", why, a.Count())
		}
		now = now.Add(pause)
	}
	if _, why := a.NextDelay(&c.Policy, DataConflict, now, 0, 0); why != Exhausted {
		t.Fatalf("an eighth attempt: %v", why)
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	p := Policy{BaseDelay: 100 * time.Millisecond, MaxDelay: time.Second, JitterFactor: 0.25}
	for _, test := range []struct {
		n      int
		random float64
		want   time.Duration
	}{
		{0, 0.5, 100 * time.Millisecond}, {0, 0, 75 * time.Millisecond}, {0, 1, 125 * time.Millisecond},
		{2, 0.5, 400 * time.Millisecond}, {3, 1, time.Second}, {4, 0.5, time.Second}, {4, 0, 750 * time.Millisecond},
		{4, 1, time.Second}, {1000, 0.5, time.Second},
	} {
		if got := p.backoffDelay(test.n, test.random); got != test.want {
			t.Errorf("pause %d at %v: %v, want %v", test.n, test.random, got, test.want)
		}
	}
}

func TestValidateReportsAll(t *testing.T) {
	t.Parallel()
	c := Config{Policy: Policy{MaxRetries: -1, FirstDelay: -1, BaseDelay: -1, MaxDelay: -2, JitterFactor: math.NaN(), MaxElapsed: time.Hour},
		BudgetPerCommit: math.Inf(1), BudgetPerSecond: math.NaN(), LogTotalBytes: -1, HeldBytes: -1, HeldTotalBytes: -2}
	err := c.Validate()
	var all interface{ Unwrap() []error }
	if !errors.As(err, &all) {
		t.Fatalf("error %v", err)
	}
	keys := []string{"max_retries", "first_delay", "base_delay", "max_delay", "jitter_factor", "max_elapsed", "budget_burst", "budget_per_commit",
		"budget_per_second", "gate_hold", "log_bytes", "log_total_bytes", "held_bytes", "held_total_bytes", "hold_time"}
	errs := all.Unwrap()
	if len(errs) != len(keys) {
		t.Fatalf("%d errors, want %d:\n%v", len(errs), len(keys), err)
	}
	for i, key := range keys {
		text := errs[i].Error()
		if !strings.HasPrefix(text, "retry."+key+": ") || !strings.Contains(text, ": want ") {
			t.Errorf("%q does not say key, value and remedy", text)
		}
	}
}
