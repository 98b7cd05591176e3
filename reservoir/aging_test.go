package reservoir

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestReadyBackendIsRetiredBeforeItsGuardWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		cfg := small(1)
		running(t, cfg, s.dial)
		sleep(cfg.BaseLifetime - cfg.GuardWindow - retireMargin - 2*scanEvery)
		if attempts, _, _ := s.counts(); attempts != 1 {
			t.Fatalf("replaced too early: %d dials", attempts)
		}
		sleep(retireMargin + scanEvery)
		if attempts, open, most := s.counts(); attempts != 2 || open != 1 || most != 1 {
			t.Errorf("%d dials, %d open, %d at most, want 2, 1, 1", attempts, open, most)
		}
	})
}

// A transaction is never cut, but its backend goes when it ends.
func TestBackendInUseIsRetiredAtItsRelease(t *testing.T) {
	t.Parallel()
	for _, age := range []time.Duration{DefaultBaseLifetime - DefaultGuardWindow, DefaultBaseLifetime + time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{}
			r := running(t, small(1), s.dial)
			c := r.TryAcquire()
			sleep(age)
			if attempts, open, _ := s.counts(); attempts != 1 || open != 1 {
				t.Fatalf("%d dials, %d open, want 1 each", attempts, open)
			}
			c.Release()
			sleep(time.Second)
			if attempts, open, _ := s.counts(); attempts != 2 || open != 1 {
				t.Errorf("after %v: %d dials, %d open, want 2 and 1", age, attempts, open)
			}
		})
	}
}

// However it is used, no backend is lent inside its guard window, even when
// none can be replaced.
func TestNothingIsLentInsideTheGuardWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		s.fail = func(attempt int) error {
			if attempt > 5 {
				return errors.New("down")
			}
			return nil
		}
		cfg := small(5)
		cfg.BaseLifetime += 300 * time.Millisecond // between two scans
		r := running(t, cfg, s.dial)
		lends := 0
		for range 4 * 13 * 60 {
			sleep(250 * time.Millisecond)
			var loans []*Conn
			for c := r.TryAcquire(); c != nil; c = r.TryAcquire() {
				if left := c.endAt - r.elapsed(); left <= cfg.GuardWindow {
					t.Fatalf("lent %v before its end", left)
				}
				lends++
				loans = append(loans, c)
			}
			for _, c := range loans {
				c.Release()
			}
			r.verify()
		}
		if _, open, _ := s.counts(); open != 0 || lends < 5*4*10*60 {
			t.Errorf("%d still open, %d loans", open, lends)
		}
	})
}

// Fifty backends that were dialled in the same second are replaced without a
// dip, at most a tenth at a time, and none is left to its guard window.
func TestCrowdIsReplacedWithoutADip(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: 300 * time.Millisecond}
		cfg := small(50)
		cfg.BurstLimit = 50
		r := running(t, cfg, s.dial)
		sleep(10 * time.Second)
		for range 60 * 60 {
			sleep(time.Second)
			if got := r.Stats(); got.Ready+got.Dialing+got.Closing < 45 || got.Ready < 45 {
				t.Fatalf("at %v only %d of 50 are ready", r.elapsed(), got.Ready)
			}
			r.mu.Lock()
			for _, c := range r.shelf.ready {
				if c.guardAt <= r.elapsed() {
					t.Fatalf("at %v a backend is %v inside its guard window", r.elapsed(), r.elapsed()-c.guardAt)
				}
			}
			r.mu.Unlock()
		}
		// An hour is five or six lifetimes.
		if attempts, _, most := s.counts(); attempts < 5*50 || attempts > 7*50 || most > 50 {
			t.Errorf("%d dials, %d at most open", attempts, most)
		}
	})
}

// With slots left, the replacement comes first: nothing is ever missing.
func TestBelowMaxOpenTheReplacementComesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: 300 * time.Millisecond}
		cfg := small(20)
		cfg.TargetReady = 10
		r := running(t, cfg, s.dial)
		sleep(5 * time.Second)
		for range 30 * 60 {
			sleep(time.Second)
			if got := r.Stats(); got.Ready < 10 || got.Ready > 12 {
				t.Fatalf("at %v %d are ready, want 10 to 12", r.elapsed(), got.Ready)
			}
			r.verify()
		}
		if attempts, _, _ := s.counts(); attempts < 30 || attempts > 40 {
			t.Errorf("%d dials in half an hour, want two or three for each of 10", attempts)
		}
	})
}

// While dials fail, backends are kept as long as they may be lent, save the few
// that were already given up for a replacement.
func TestReplacementIsPutOffWhileDialsFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		var down atomic.Bool
		down.Store(true)
		s.fail = func(attempt int) error {
			if attempt > 50 && down.Load() {
				return &DialError{Step: StepTCP, Err: errors.New("down")}
			}
			return nil
		}
		cfg := small(50)
		r := running(t, cfg, s.dial)
		sleep(cfg.BaseLifetime - cfg.GuardWindow - 2*scanEvery)
		if got := r.Stats(); got.Ready != 45 {
			t.Errorf("%d ready just before the guard window, want 45", got.Ready)
		}
		sleep(4 * scanEvery)
		if got := r.Stats(); got.Ready != 0 {
			t.Errorf("%d ready inside the guard window", got.Ready)
		}
		down.Store(false)
		sleep(time.Minute)
		if got := r.Stats(); got.Ready != 50 {
			t.Errorf("%d ready a minute after dials succeed again, want 50", got.Ready)
		}
	})
}

// Backends beyond the target, left from a time of more demand, go without a
// replacement when their time has come.
func TestSurplusIsNotReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		cfg := small(10)
		cfg.TargetReady = 2
		r := running(t, cfg, s.dial)
		var loans []*Conn
		for range 10 {
			loans = append(loans, mustAcquire(t, r))
		}
		for _, c := range loans {
			c.Release()
		}
		sleep(cfg.BaseLifetime)
		if got := r.Stats(); got.Ready != 2 {
			t.Errorf("%d ready a lifetime later, want 2", got.Ready)
		}
	})
}

func TestLifetimesAreJittered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := Defaults()
		r := running(t, cfg, new(server).dial)
		sleep(time.Minute)
		least, most := time.Hour, time.Duration(0)
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, c := range r.shelf.ready {
			least, most = min(least, c.endAt), max(most, c.endAt)
			if c.retireAt > c.guardAt-retireMargin || c.guardAt != c.endAt-cfg.GuardWindow {
				t.Errorf("retired at %v, guarded at %v, ended at %v", c.retireAt, c.guardAt, c.endAt)
			}
		}
		// 100 draws leave a quarter of the range empty with odds of 1 to 10^12.
		if least < cfg.BaseLifetime || most > cfg.BaseLifetime+cfg.LifetimeJitter+time.Second || most-least < cfg.LifetimeJitter/2 {
			t.Errorf("lifetimes from %v to %v", least, most)
		}
	})
}

func TestCalendarGivesEachHourOnce(t *testing.T) {
	t.Parallel()
	c := newRetirementCalendar(100 * time.Millisecond)
	seen := map[int64]bool{}
	for range 50 {
		hour := c.bookHour(10*time.Second + 70*time.Millisecond)
		if seen[hour] || c.hourStart(hour) > 10*time.Second {
			t.Errorf("hour %d at %v, seen %v", hour, c.hourStart(hour), seen[hour])
		}
		seen[hour] = true
	}
	if got := c.hourStart(c.bookHour(10 * time.Second)); got != 5*time.Second {
		t.Errorf("the 51st is at %v, want 5s", got)
	}
	c.freeHour(100)
	if got := c.bookHour(20 * time.Second); got != 200 {
		t.Errorf("hour %d, want 200", got)
	}
	if got := c.bookHour(11 * time.Second); got != 110 {
		t.Errorf("hour %d, want 110", got)
	}
	if got := c.bookHour(10 * time.Second); got != 100 {
		t.Errorf("hour %d, want 100, which was freed", got)
	}
}

// Run may be late, or a test may never call it.
func TestNothingHappensBeforeRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		r := made(t, small(1), s.dial)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if c, err := r.Acquire(ctx); err == nil {
			t.Errorf("lent %v", c)
		}
		if attempts, _, _ := s.counts(); attempts != 0 || r.TryAcquire() != nil || r.Params() != nil {
			t.Errorf("%d dials before Run", attempts)
		}
	})
}
