package lease

import (
	"context"
	crand "crypto/rand"
	"encoding/base64"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
)

// ErrClosed is the error that Lease.Admit returns after Lease.Run has begun to end.
var ErrClosed = errors.New("lease: closed")

// Clock returns a time that never goes back and that advances while the machine sleeps. The origin of the time is
// arbitrary.
type Clock func() time.Duration

// Lease is a sidecar's right, for a limited time, to a part of the cluster's connection count and rate. Lease is safe
// for concurrent use, and grants nothing before Run is called.
type Lease struct {
	cfg     Config
	store   Store
	clock   Clock
	metrics *metrics.Lease
	log     *slog.Logger
	kick    chan struct{} // capacity 1: wakes Run
	file    *LockFile     // nil for none

	mu            sync.Mutex
	core          *leaseState
	changed       chan struct{} // closed and replaced when Admit should try again
	closed        bool
	phase         Phase    // as last logged
	barred        bool     // logged that nothing can be granted
	warned        *Problem // the last problem that was logged
	warnedAt      time.Duration
	differed      []SettingDifference // as last logged
	settings      Settings            // as last logged
	unusable      bool                // logged
	drifts        uint64
	placesWritten bool // the file is locked and names the places of this process's records
}

// New returns a Lease on the DynamoDB table of store, or the errors in cfg. m, the metrics, may be nil.
func New(cfg Config, store Store, clock Clock, m *metrics.Lease, log *slog.Logger) (*Lease, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // never fails
	name := base64.RawURLEncoding.EncodeToString(seed[:12])
	return &Lease{
		cfg: cfg, store: store, clock: clock, metrics: m, log: log,
		kick:    make(chan struct{}, 1),
		core:    newLeaseState(cfg, name, rand.New(rand.NewChaCha8(seed))),
		changed: make(chan struct{}),
	}, nil
}

// Run renews the lease, and gets slots and tickets (rights to dial once) for Admit, until ctx ends. Run then returns
// every slot that no permit covers, and waits up to leaveWait for the other permits. When Run cannot work with the
// table's settings, it returns a *MismatchError at once. Run is called once.
func (l *Lease) Run(ctx context.Context) error {
	l.acquireLockFile()
	for ctx.Err() == nil {
		wake, err := l.runStep(ctx)
		if err != nil {
			l.failAdmits()
			return err
		}
		if wake > 0 {
			l.sleep(ctx, wake)
		}
	}
	l.failAdmits()
	l.returnSlots()
	l.writeRemainingPlaces()
	return nil
}

// runStep makes one call of the Store. If no call is due, runStep returns the time until the next one.
func (l *Lease) runStep(ctx context.Context) (pause time.Duration, err error) {
	l.mu.Lock()
	now := l.clock()
	c, wake := l.core.nextCall(now)
	fatal := l.core.fatal
	l.mu.Unlock()
	if fatal != nil {
		return 0, fatal
	}
	if c == nil {
		l.logChanges()
		return wake - now, nil
	}
	l.writeNewPlace(c)
	// The call of the Store goes on after the end of ctx, because the call is short and may renew the lease.
	a := l.callStore(context.WithoutCancel(ctx), c)
	l.mu.Lock()
	l.core.handleAnswer(c, a, l.clock())
	l.wakeAdmitsLocked()
	l.mu.Unlock()
	l.logChanges()
	return 0, nil
}

// callStore makes the call c of the Store (the DynamoDB table) within Config.CallTimeout.
func (l *Lease) callStore(ctx context.Context, c *storeCall) (a storeAnswer) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CallTimeout)
	defer cancel()
	began := l.clock()
	switch c.kind {
	case callSettings:
		a.settings, a.at, a.err = l.store.Settings(ctx)
		a.follows = l.store.FindsMovedShards()
	case callLook:
		a.shard, a.err = l.store.Look(ctx, c.look)
	case callChange:
		a.shard, a.done, a.err = l.store.Change(ctx, c.change)
	case callReserve:
		a.next, a.done, a.at, a.err = l.store.Reserve(ctx, c.reserve)
	}
	l.metrics.CountCall(c.kind.String(), callOutcome(a.err), l.clock()-began)
	return a
}

// callOutcome returns the metrics label for the error of a call of the Store.
func callOutcome(err error) string {
	switch {
	case err == nil:
		return metrics.CallAnswered
	case errors.Is(err, ErrThrottled):
		return metrics.CallThrottled
	case errors.Is(err, context.DeadlineExceeded):
		return metrics.CallTimeout
	}
	return metrics.CallFailed
}

// sleep waits for the pause, or until wakeRun is called, or until ctx ends.
func (l *Lease) sleep(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-l.kick:
	case <-timer.C:
	}
}

// leaveWait bounds the return of slots at the end of Run, including the wait for permits that are in use.
const leaveWait = 5 * time.Second

// returnSlots returns this process's slots at the end of Run. Slots that are not returned within leaveWait stay
// taken until other processes take them after ReapAfter.
func (l *Lease) returnSlots() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveWait)
	defer cancel()
	for ctx.Err() == nil {
		l.mu.Lock()
		now := l.clock()
		c, wake := l.core.nextCall(now)
		over := len(l.core.ledger.parts) == 0
		l.mu.Unlock()
		switch {
		case over:
			return
		case c == nil:
			l.sleep(ctx, wake-now)
			continue
		}
		a := l.callStore(ctx, c)
		l.mu.Lock()
		l.core.handleAnswer(c, a, l.clock())
		l.mu.Unlock()
	}
}

// failAdmits makes all waiting calls of Admit fail with ErrClosed.
func (l *Lease) failAdmits() {
	l.mu.Lock()
	l.closed = true
	l.core.ledger.leaving = true
	l.wakeAdmitsLocked()
	l.mu.Unlock()
}

// wakeAdmitsLocked makes all waiting calls of Admit try again. The caller holds l.mu.
func (l *Lease) wakeAdmitsLocked() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// wakeRun wakes Run, so that it looks for the next call of the Store.
func (l *Lease) wakeRun() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// logChanges logs changes of the lease's phase, and problems that an operator must solve. If a problem will close
// every backend, logChanges logs it as soon as it is known.
func (l *Lease) logChanges() {
	l.mu.Lock()
	now := l.clock()
	s := l.core.state(now)
	before, drifts := l.phase, l.core.ledger.stats.Drifts-l.drifts
	l.phase, l.drifts = s.Phase, l.core.ledger.stats.Drifts
	if s.Phase != before {
		l.wakeAdmitsLocked()
	}
	news := s.Reason != nil && !l.barred
	l.barred = s.Reason != nil
	warn := l.shouldWarnLocked(s, now)
	unusable := l.unusable
	l.unusable = s.Unusable != nil
	differ := !slices.Equal(s.Differences, l.differed)
	l.differed = s.Differences
	settings, changed := l.core.ledger.settings, false
	if l.core.known && settings != l.settings {
		changed, l.settings = l.settings != Settings{}, settings
	}
	l.mu.Unlock()
	if s.Unusable != nil && !unusable {
		l.log.Error("this process cannot work by the settings of the lease table now, and goes on by those before", slog.Any("error", s.Unusable))
	}
	l.logSettings(s, settings, changed, differ)
	if news {
		l.log.Error("the lease grants nothing", append(problemAttrs(s), reasonAttrs(s)...)...)
	}
	switch {
	case warn && l.cfg.Slots && s.Problem.kind == callChange:
		l.log.Error("the lease table refuses this process: every backend will close unless somebody acts", append(problemAttrs(s),
			slog.Duration("closing_begins_in", max(0, l.cfg.drainAfter()-s.Age)), slog.Duration("all_closed_in", max(0, l.cfg.lostAfter()-s.Age)))...)
	case warn:
		l.log.Error("the lease table refuses this process", problemAttrs(s)...)
	}
	if drifts > 0 {
		l.log.Error("the lease table's numbers disagree: see sluice lease status")
	}
	if s.Phase == before {
		return
	}
	level := map[Phase]slog.Level{OK: slog.LevelInfo, Draining: slog.LevelError, Lost: slog.LevelError}
	severity, ok := level[s.Phase]
	if !ok {
		severity = slog.LevelWarn
	}
	l.log.Log(context.Background(), severity, "lease", append([]any{slog.String("phase", s.Phase.String()),
		slog.String("owner", l.core.ledger.process), slog.Int("held", s.Held),
		slog.Int("in_use", s.InUse), slog.Duration("age", s.Age)}, problemAttrs(s)...)...)
}

// logSettings logs changes of the limits in the DynamoDB table, and limits that differ from the configured ones.
func (l *Lease) logSettings(s State, now Settings, changed, differ bool) {
	if changed {
		l.log.Info("the lease table has other limits now", slog.Int("limit", now.Limit), slog.Int("rate", now.Rate), slog.Int("burst", now.Burst))
	}
	if !differ {
		return
	}
	for _, d := range s.Differences {
		l.log.Warn("the lease table has another limit than this configuration, and the table's holds: change the configuration, or run sluice lease init with it",
			slog.String("key", d.Key), slog.Int("table", d.Table), slog.Int("configured", d.Configured))
	}
	if len(s.Differences) == 0 {
		l.log.Info("the lease table has the configured limits again")
	}
}

// warnEvery is the interval at which a lasting problem is logged again. A problem with another cause is logged earlier,
// but at most once a heartbeat. A problem that will close every backend is always logged at once.
const warnEvery = 10 * time.Minute

// shouldWarnLocked reports whether the state's problem lasts and should be logged now. The caller holds l.mu.
func (l *Lease) shouldWarnLocked(s State, now time.Duration) bool {
	if s.Reason != nil || s.Problem == nil || !s.Problem.needsOperator() {
		return false
	}
	before, since := l.warned, now-l.warnedAt
	worse := before == nil || s.Problem.kind == callChange && before.kind != callChange
	if !worse && since < warnEvery && (since < l.cfg.Heartbeat || s.Problem.Cause == before.Cause) {
		return false
	}
	l.warned, l.warnedAt = s.Problem, now
	return true
}

// problemAttrs returns the state's problem, if any, as attributes of a log line.
func problemAttrs(s State) []any {
	if s.Problem == nil {
		return nil
	}
	return []any{slog.Any("problem", s.Problem)}
}

// reasonAttrs returns, as attributes of a log line, the reason that nothing is granted. reasonAttrs returns none if the
// state's problem is the reason.
func reasonAttrs(s State) []any {
	if p, ok := s.Reason.(*Problem); ok && p == s.Problem {
		return nil
	}
	return []any{slog.Any("error", s.Reason)}
}

// State returns a snapshot of the lease. The owner of the backends reads State at least every StateEvery.
func (l *Lease) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.core.state(l.clock())
}

// LimitsRate reports whether Admit limits the rate of dials to the cluster's rate. If not, the caller must limit its
// dials.
func (l *Lease) LimitsRate() bool { return l.cfg.Rate }

// RecordRefusal records that the cluster refused a connection because of the quota q: for the number of connections
// (Count) or for their rate (Rate).
func (l *Lease) RecordRefusal(q ConnQuota) {
	l.mu.Lock()
	now := l.clock()
	if q == Count {
		l.core.ledger.pauseGrowth(now)
	} else {
		l.core.tickets.delayAfterRefusal(now)
	}
	l.mu.Unlock()
	l.wakeRun()
}
