package lease

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
)

// rig is a Lease on a table in memory, inside a synctest bubble.
type rig struct {
	*Lease
	table *flaky
	began time.Time
	log   bubbleLog
	stop  context.CancelFunc
	ended chan struct{}
	err   error // Run's, once it has ended
}

// bubbleLog is the log of a Lease in a bubble. Who reads it reads whole lines: whoever
// woke at the same instant has written its own by then.
type bubbleLog struct{ bytes.Buffer }

func (l *bubbleLog) String() string {
	synctest.Wait()
	return l.Buffer.String()
}

// flaky is a table that may be out of reach.
type flaky struct {
	*memory
	away atomic.Bool
}

func (f *flaky) reach(ctx context.Context) error {
	if f.away.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(5 * time.Millisecond)
	return nil
}

func (f *flaky) Settings(ctx context.Context) (Settings, TableTime, error) {
	if err := f.reach(ctx); err != nil {
		return Settings{}, TableTime{}, err
	}
	return f.memory.Settings(ctx)
}

func (f *flaky) Look(ctx context.Context, shard int) (Shard, error) {
	if err := f.reach(ctx); err != nil {
		return Shard{}, err
	}
	return f.memory.Look(ctx, shard)
}

func (f *flaky) Change(ctx context.Context, c ShardChange) (Shard, bool, error) {
	if err := f.reach(ctx); err != nil {
		return Shard{}, false, err
	}
	return f.memory.Change(ctx, c)
}

func (f *flaky) Reserve(ctx context.Context, r Reservation) (int64, bool, TableTime, error) {
	if err := f.reach(ctx); err != nil {
		return 0, false, TableTime{}, err
	}
	return f.memory.Reserve(ctx, r)
}

// newRig runs a Lease until the test ends. It must be called in a bubble.
func newRig(t *testing.T, cfg Config, table *flaky) *rig {
	t.Helper()
	if table == nil {
		table = &flaky{memory: newMemory(cfg.tableSettings(), time.Now)}
	}
	r := newRigOn(t, cfg, table)
	r.table = table
	return r
}

// newRigOn is newRig on any table.
func newRigOn(t *testing.T, cfg Config, table Store) *rig {
	t.Helper()
	r := &rig{began: time.Now(), ended: make(chan struct{})}
	var err error
	r.Lease, err = New(cfg, table, func() time.Duration { return time.Since(r.began) }, nil, slog.New(slog.NewTextHandler(&r.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	go func() {
		r.err = r.Run(ctx)
		close(r.ended)
	}()
	t.Cleanup(func() {
		stop()
		<-r.ended
	})
	return r
}

// end stops the Lease and waits for its end.
func (r *rig) end(t *testing.T) {
	t.Helper()
	r.stop()
	if <-r.ended; r.err != nil {
		t.Error(r.err)
	}
}

// admit gets n permits, or fails the test.
func (r *rig) admit(t *testing.T, n int) []*Permit {
	t.Helper()
	var permits []*Permit
	for range n {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		p, err := r.Admit(ctx, n-len(permits))
		cancel()
		if err != nil {
			t.Fatalf("permit %d of %d: %v; %+v", len(permits)+1, n, err, r.State())
		}
		permits = append(permits, p)
	}
	synctest.Wait() // what the Lease does besides is done
	return permits
}

// refused tries for three seconds to get a permit, and should not get one.
func (r *rig) refused(t *testing.T) {
	t.Helper()
	r.refusedFor(t, 3*time.Second)
}

func (r *rig) refusedFor(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if p, err := r.Admit(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Admit returned %v, %v; want to wait in vain", p, err)
	}
}

// free is what the table has free in all shards.
func (r *rig) free() int {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	free := 0
	for _, s := range r.table.shards {
		free += s.Free
	}
	return free
}

func TestSlotsAreHeldBeforeTheyAreUsedAndGivenBackAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := worldConfig()
		r := newRig(t, cfg, nil)
		permits := r.admit(t, 20)
		if s := r.State(); s.Phase != OK || s.InUse != 20 || s.Held < 20 || s.Held != cfg.Limit-r.free() {
			t.Errorf("%+v, %d free in the table", s, r.free())
		}
		for _, p := range permits[:8] {
			p.Release()
		}
		time.Sleep(3 * cfg.IdleRelease)
		if s := r.State(); s.InUse != 12 || s.Held >= 20 {
			t.Errorf("unused slots were kept: %+v", s)
		}
		go func() {
			time.Sleep(time.Second) // later than the end: leaving waits for them
			for _, p := range permits[8:] {
				p.Release()
			}
		}()
		r.end(t)
		if r.free() != cfg.Limit {
			t.Errorf("%d slots are free in the end, want %d", r.free(), cfg.Limit)
		}
		if _, err := r.Admit(t.Context(), 1); !errors.Is(err, ErrClosed) {
			t.Errorf("Admit after the end: %v", err)
		}
	})
}

func TestLimitIsNeverExceeded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := worldConfig()
		r := newRig(t, cfg, nil)
		permits := r.admit(t, cfg.Limit)
		r.refused(t)
		permits[0].Release()
		r.admit(t, 1)
		r.refused(t)
		for _, p := range permits[1:] {
			p.Release()
		}
	})
}

func TestDoubleReleasePanics(t *testing.T) {
	t.Parallel()
	p, err := Unlimited{}.Admit(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	p.Release()
	defer func() {
		if recover() == nil {
			t.Error("the second Release did not panic")
		}
	}()
	p.Release()
}

// The table goes away: everything stays, replacement goes on by the local share,
// then idle backends close, at last all; and back again it recovers by itself.
func TestTableAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := worldConfig()
		r := newRig(t, cfg, nil)
		permits := r.admit(t, 20)
		time.Sleep(cfg.Heartbeat)
		r.table.away.Store(true)
		at := func(age time.Duration) State {
			for r.State().Age < age {
				time.Sleep(10 * time.Millisecond)
			}
			synctest.Wait() // the Lease knows the time too
			return r.State()
		}

		s := at(cfg.degradedAfter())
		if s.Phase != Degraded || !s.Postpone || s.Excess != 0 || s.Revoked != 0 {
			t.Errorf("degraded: %+v", s)
		}
		permits[0].Release()
		permits[0] = r.admit(t, 1)[0] // by the local share
		if s := r.State(); !s.Local || s.Held != 20 {
			t.Errorf("after a replacement: %+v", s)
		}
		r.refusedFor(t, cfg.ReapAfter/2-r.State().Age) // no growth
		if s := at(cfg.ReapAfter / 2); s.Excess != 0 {
			t.Errorf("after half of the reap time backends must close: %+v", s)
		}
		if s := at(cfg.drainAfter() + (cfg.idleClosedAfter()-cfg.drainAfter())/2); s.Phase != Draining || s.Excess < 10 || s.Excess > 11 || s.Revoked != 0 {
			t.Errorf("half-way through the drain: %+v", s)
		}
		if left := cfg.lostAfter() - cfg.idleClosedAfter(); left < cfg.TransactionLimit+StateEvery {
			t.Errorf("%v are left to the last transactions, which may begin %v later", left, StateEvery)
		}
		if s := at(cfg.idleClosedAfter()); s.Excess != 20 || s.Revoked != 0 {
			t.Errorf("when the last transactions begin to end: %+v", s)
		}
		for r.State().Phase != Lost {
			time.Sleep(time.Millisecond)
		}
		if s := r.State(); s.Revoked != 20 || s.Held != 0 {
			t.Errorf("lost: %+v", s)
		}
		for _, p := range permits {
			p.Release()
		}
		r.refused(t)

		r.table.away.Store(false)
		again := r.admit(t, 5)
		if s := r.State(); s.Phase != OK || s.InUse != 5 {
			t.Errorf("back again: %+v", s)
		}
		// What was lost lies in the table until somebody reaps it: this process,
		// which is alone.
		time.Sleep(2*cfg.ReapAfter + 2*cfg.Heartbeat)
		if s := r.State(); cfg.Limit-r.free() != s.Held {
			t.Errorf("%d slots are taken in the table, %d held", cfg.Limit-r.free(), s.Held)
		}
		for _, p := range again {
			p.Release()
		}
		r.end(t)
		for _, line := range []string{"phase=degraded", "phase=draining", "phase=lost", "phase=ok"} {
			if !strings.Contains(r.log.String(), line) {
				t.Errorf("%s is not in the log:\n%s", line, r.log.String())
			}
		}
	})
}

// A machine that slept for longer than the lease lasts has nothing when it wakes, and says why until
// it has slots again.
func TestOversleptLeaseIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := worldConfig()
		r := newRig(t, cfg, nil)
		r.admit(t, 3)
		r.mu.Lock()
		r.began = r.began.Add(-cfg.ReapAfter) // the clock jumps ahead
		s := r.core.state(r.clock())
		r.mu.Unlock()
		if s.Phase != Lost || s.Revoked != 3 {
			t.Errorf("%+v, want everything revoked", s)
		}
		if p := s.Problem; p == nil || p.Cause != metrics.CauseSuspended || !strings.Contains(s.ShortfallReason().Error(), "renewing the lease failed: suspended") {
			t.Errorf("the problem is %v, want that the process did not run", p)
		}
		r.logChanges()
		if line := r.log.String(); !strings.Contains(line, "phase=lost") || !strings.Contains(line, "problem.cause=suspended") {
			t.Errorf("the log has %s", line)
		}
		if got := r.Gauges().Problem; got != metrics.CauseSuspended {
			t.Errorf("the metric has the cause %q", got)
		}
		r.admit(t, 1)[0].Release()
		if s := r.State(); s.Phase != OK || s.Problem != nil {
			t.Errorf("with slots again: %+v", s)
		}
	})
}

// Only by another format, or by what cannot be, a sidecar refuses to work.
func TestUnusableSettingsAreRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Settings){
		"format":             func(s *Settings) { s.Format++ },
		"shards":             func(s *Settings) { s.Shards = maxShards + 1 },
		"conn_limit":         func(s *Settings) { s.Limit = 0 },
		"rate_limiter_limit": func(s *Settings) { s.Rate = 0 },
		"rate_limiter_burst": func(s *Settings) { s.Burst = burstQuota + 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg := worldConfig()
				table := &flaky{memory: newMemory(cfg.tableSettings(), time.Now)}
				change(table.settings)
				r := newRig(t, cfg, table)
				select {
				case <-r.ended:
				case <-time.After(time.Minute):
					t.Fatal("it works by them")
				}
				if mismatch, ok := errors.AsType[*MismatchError](r.err); !ok || !strings.Contains(mismatch.Key, name) {
					t.Errorf("Run returned %v", r.err)
				}
				if _, err := r.Admit(t.Context(), 1); !errors.Is(err, ErrClosed) {
					t.Errorf("Admit: %v", err)
				}
			})
		})
	}
}

// A sidecar that is configured otherwise takes the table's limits, says so once with
// both figures, and shows it. What it cannot work by changes nothing while it runs.
func TestTablesLimitsHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := worldConfig()
		table := &flaky{memory: newMemory(cfg.tableSettings(), time.Now)}
		configured := table.become(&Settings{Format: Format, Shards: cfg.Shards, Limit: 40, Rate: 50, Burst: 20})
		r := newRig(t, cfg, table)
		r.admit(t, 5)
		time.Sleep(20 * cfg.Heartbeat)
		count := func(line string, want int) {
			t.Helper()
			if n := strings.Count(r.log.String(), line); n != want {
				t.Errorf("%d times %q, want %d, in the log:\n%s", n, line, want, r.log.String())
			}
		}
		count("table=40 configured=60", 1)
		count("table=50 configured=90", 1)
		count("table=20 configured=400", 1)
		if g := r.Gauges(); g.Limit != 40 || !g.Differs["limit"] || !g.Differs["rate"] || !g.Differs["burst"] || g.Differs["unusable"] {
			t.Errorf("%+v", g)
		}
		for _, impossible := range []Settings{{Format: Format + 1, Shards: cfg.Shards, Limit: 9, Rate: 9, Burst: 9},
			{Format: Format, Shards: cfg.Shards + 1, Limit: 9, Rate: 9, Burst: 9}, {Format: Format, Shards: cfg.Shards}} {
			table.become(&impossible)
			time.Sleep(2 * cfg.Heartbeat)
			if g := r.Gauges(); g.Limit != 40 || g.Held < 5 || !g.Differs["unusable"] {
				t.Errorf("%+v", g)
			}
		}
		count("goes on by those before", 1)
		table.become(nil)
		time.Sleep(2 * cfg.Heartbeat)
		if s := r.State(); s.Limit != 40 || s.Problem == nil || s.Problem.Cause != "not_initialised" {
			t.Errorf("without settings: %+v", s)
		}
		table.become(configured)
		time.Sleep(6 * cfg.Heartbeat)
		if g := r.Gauges(); g.Limit != 60 || len(r.State().Differences) > 0 || g.Differs["unusable"] {
			t.Errorf("%+v", g)
		}
		count("the configured limits again", 1)
		count("limit=60 rate=90 burst=400", 1)
		r.end(t)
	})
}

// The table may be out of reach for a while: what was known holds.
func TestLimitsAreKeptWhileTheTableIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := worldConfig()
		r := newRig(t, cfg, nil)
		r.admit(t, 20)
		r.table.away.Store(true)
		time.Sleep(4 * cfg.Heartbeat)
		if s := r.State(); s.Limit != cfg.Limit || s.Reason != nil || s.Held != 20 {
			t.Errorf("%+v", s)
		}
		r.table.away.Store(false)
		r.end(t)
	})
}

func TestWithoutSettingsNothingIsGranted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := worldConfig()
		table := &flaky{memory: newMemory(cfg.tableSettings(), time.Now)}
		settings := table.become(nil)
		r := newRig(t, cfg, table)
		r.refused(t)
		if s := r.State(); !errors.Is(s.Reason, ErrNoSettings) {
			t.Errorf("%+v", s)
		}
		if n := strings.Count(r.log.String(), "the lease grants nothing"); n != 1 || !strings.Contains(r.log.String(), "run sluice lease init") {
			t.Errorf("said %d times in the log:\n%s", n, r.log.String())
		}
		table.become(settings) // lease init
		r.admit(t, 1)[0].Release()
		r.end(t)
	})
}

// Tickets alone: the count is not shared, the rate is, and it holds.
func TestRateAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := worldConfig()
		cfg.Slots = false
		r := newRig(t, cfg, nil)
		began := time.Now()
		const dials = 1000
		permits := r.admit(t, dials)
		// All but the burst come at the rate.
		want := time.Duration(dials-cfg.Burst) * time.Second / time.Duration(cfg.ticketRate())
		if took := time.Since(began); took < want*9/10 || took > want*12/10 {
			t.Errorf("%d dials took %v, want %v", dials, took, want)
		}
		if s := r.State(); s.Phase != OK || s.Excess != 0 {
			t.Errorf("%+v", s)
		}
		for _, p := range permits {
			p.Release()
		}
		r.mu.Lock()
		if r.core.open != 0 { // it is first again: it has none
			t.Errorf("it has none and queues as one that has %d", r.core.open)
		}
		r.mu.Unlock()
		r.end(t)
	})
}

func TestRefusalsOfTheCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := worldConfig()
		r := newRig(t, cfg, nil)
		r.admit(t, 1)
		r.RecordRefusal(Rate)
		began := time.Now()
		r.admit(t, 1)
		if waited := time.Since(began); waited < refusedRateLeast {
			t.Errorf("a dial was admitted %v after the cluster refused one for the rate", waited)
		}
		held := r.State().Held
		r.RecordRefusal(Count)
		r.admit(t, held-2) // what is held may be used
		ctx, cancel := context.WithTimeout(t.Context(), refusedPause)
		defer cancel()
		if _, err := r.Admit(ctx, 1); err == nil {
			t.Error("the lease grew after the cluster refused a connection for their number")
		}
	})
}
