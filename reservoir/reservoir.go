package reservoir

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluice-proxy/sluice/lease"
	"github.com/sluice-proxy/sluice/metrics"
)

// ErrClosed is the error that borrowers get after Run has begun to end.
var ErrClosed = errors.New("reservoir: closed")

// Startup holds the startup parameters of a dedicated backend, without the user.
type Startup struct {
	Database string
	// Params are the client's startup parameters: "options", "application_name", settings.
	Params map[string]string
}

// DialFunc opens a backend, up to and including its first ReadyForQuery. s is nil for a backend that is not dedicated
// to a session. A DialFunc returns in bounded time, and soon after ctx ends. (*Dialer).Dial is a DialFunc.
type DialFunc func(ctx context.Context, s *Startup) (*Conn, error)

// Reservoir is a bounded set of backends. A Reservoir is safe for concurrent use, and empty until Run is called.
type Reservoir struct {
	cfg     Config
	dial    DialFunc
	lease   Lease
	metrics *metrics.Reservoir
	log     *slog.Logger
	born    time.Time
	limiter *rate.Limiter
	kick    chan struct{} // capacity 1: wakes the fill
	// A send on suspected makes the prober probe the backends in the field suspects. The channel's capacity is 1.
	suspected chan struct{}

	places sync.Pool // of *WaitPlace

	// admitting counts the dials that wait for the lease. throttled counts the dials that wait for this process's rate
	// limit.
	admitting, throttled atomic.Int32

	// work counts the goroutines that Run waits for. A goroutine may be added with mu held while closed is false, or
	// by a goroutine that work counts.
	work sync.WaitGroup

	mu       sync.Mutex
	shelf    poolState
	calendar retirementCalendar
	waiters  waitQueue[*Conn]
	claims   waitQueue[struct{}] // waits for slots
	expiry   *time.Timer         // ends waits in both; nil before the first wait
	expiring bool                // expiry is set
	backoff  dialBackoff
	filling  int                // dials in flight for the shelf
	trickle  time.Time          // no dial above the low watermark before
	alive    map[*Conn]struct{} // dialled and not ended, with dedicated ones
	ending   map[*Conn]struct{} // their sockets are being closed
	filled   bool               // the initial fill is over
	closed   bool
	// suspecting is set while the probes after a call of ProbeAllReady run. suspects are the backends that are lent to the
	// prober and not probed yet.
	suspecting bool
	suspects   []*Conn
	params     map[string]string
	lastErr    error
	failedAt   time.Duration // when a dial last failed without an answer of the server
	provenAt   time.Duration // when the server last answered, up to a second late
	stats      checkoutCounts
}

// checkoutCounts holds the counters of checkouts (requests for a backend) for metrics.
type checkoutCounts struct{ checkouts, immediate, empty uint64 }

// New returns a Reservoir that opens backends with the function dial. m may be nil.
func New(cfg Config, dial DialFunc, m *metrics.Reservoir, log *slog.Logger) (*Reservoir, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	shared := cfg.Lease
	if shared == nil {
		shared = lease.Unlimited{}
	}
	return &Reservoir{
		cfg:       cfg,
		dial:      dial,
		lease:     shared,
		metrics:   m,
		log:       log,
		born:      time.Now(),
		limiter:   rate.NewLimiter(rate.Limit(cfg.RateLimit), cfg.BurstLimit),
		kick:      make(chan struct{}, 1),
		suspected: make(chan struct{}, 1),
		shelf:     poolState{maxOpen: cfg.MaxOpen, target: cfg.TargetReady, batch: cfg.maxMissing(), horizon: scanEvery},
		calendar:  newRetirementCalendar(cfg.retireInterval()),
		alive:     make(map[*Conn]struct{}, cfg.MaxOpen),
		ending:    map[*Conn]struct{}{},
	}, nil
}

// Run opens backends and retires old ones until ctx ends. Run then closes the ready backends, and returns when all its
// goroutines have ended. Lent backends stay open until they are returned. Run is called once.
func (r *Reservoir) Run(ctx context.Context) error {
	r.work.Go(func() { r.fill(ctx) })
	r.work.Go(func() { r.runProber(ctx) })
	r.retireUntilDone(ctx)
	r.close()
	r.work.Wait()
	return nil
}

// Stats is a snapshot of a Reservoir: its numbers of backends and checkouts, and its state.
type Stats struct {
	Ready, InUse, Dialing, Closing int // their sum is at most MaxOpen
	Waiting                        int
	MaxOpen, Target                int
	Throttled                      bool   // a dial waits for a rate limit
	Unleased                       bool   // a dial waits for a slot of the cluster's connection count
	Filled                         bool   // the initial fill is over
	LastDialErr                    error  // nil after a success
	Unanswered                     bool   // a dial failed without an answer of the server, and the server has not answered since
	Checkouts                      uint64 // backends lent
	Immediate                      uint64 // of those, without a wait
	Empty                          uint64 // checkouts that found none ready
}

// Stats returns a snapshot of the Reservoir's counters and state.
func (r *Reservoir) Stats() Stats {
	throttled, unleased := r.waitReasons(r.lease.State())
	r.mu.Lock()
	defer r.mu.Unlock()
	return Stats{
		Ready: len(r.shelf.ready), InUse: r.shelf.inUse, Dialing: r.shelf.dialing, Closing: r.shelf.closing,
		Waiting: r.shelf.waiting + r.shelf.claimed,
		MaxOpen: r.shelf.maxOpen, Target: r.shelf.target,
		Throttled: throttled, Unleased: unleased, Filled: r.filled,
		LastDialErr: r.lastErr, Unanswered: r.lastErr != nil && r.provenAt <= r.failedAt,
		Checkouts: r.stats.checkouts, Immediate: r.stats.immediate, Empty: r.stats.empty,
	}
}

// Gauges returns a snapshot of the Reservoir for metrics.
func (r *Reservoir) Gauges() metrics.ReservoirGauges {
	s := r.Stats()
	return metrics.ReservoirGauges{
		Ready: s.Ready, Target: s.Target, InUse: s.InUse, Dialing: s.Dialing, Waiting: s.Waiting,
		Checkouts: s.Checkouts, Immediate: s.Immediate, Empty: s.Empty,
	}
}

// Params returns the ParameterStatus values of the newest backend that is not dedicated, or nil before the first one.
// The map is shared and must not be changed.
func (r *Reservoir) Params() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.params
}

// elapsed returns the time since New created the Reservoir.
func (r *Reservoir) elapsed() time.Duration { return time.Since(r.born) }

// retireUntilDone retires old backends every scanEvery, until ctx ends.
func (r *Reservoir) retireUntilDone(ctx context.Context) {
	ticker := time.NewTicker(scanEvery)
	defer ticker.Stop()
	for {
		r.retireDue()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// retireDue sets the shelf's time and closes the ready backends that are due for retirement.
func (r *Reservoir) retireDue() {
	now := r.elapsed()
	r.mu.Lock()
	r.shelf.horizon = now + scanEvery
	r.obeyLeaseLocked()
	r.checkInitialFillLocked(now)
	for _, c := range r.shelf.dueForRetirement() {
		if r.postponeRetirementLocked(c) {
			continue
		}
		if reason, due := r.shelf.shouldRetire(c); due {
			r.closeConnLocked(r.shelf.remove(c), reason)
		}
	}
	r.mu.Unlock()
	r.wakeFill()
}

// discard ends a loan by closing the backend. A backend whose socket was closed during the loan always gets the
// CloseReason Revoked.
func (r *Reservoir) discard(c *Conn, reason CloseReason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endLoanLocked(c)
	if c.socketClosed {
		reason = Revoked
	}
	r.closeConnLocked(c, reason)
}

// endLoanLocked counts a lent backend as no longer in use. The caller then shelves or closes the backend.
func (r *Reservoir) endLoanLocked(c *Conn) {
	if c.state != lent {
		panic("reservoir: a backend that is not lent was released or discarded")
	}
	r.shelf.inUse--
}

// closeConnLocked closes a backend that is neither lent nor on the shelf. The backend's slot becomes free when its
// socket is closed.
func (r *Reservoir) closeConnLocked(c *Conn, reason CloseReason) {
	if !c.dedicated {
		r.calendar.freeHour(c.hour)
	}
	delete(r.alive, c)
	r.shelf.recordEnd(c)
	r.metrics.CountDiscard(string(reason))
	r.ending[c] = struct{}{}
	r.goLocked(func() {
		// A probe or loan may set deadlines until it ends, so the deadline for terminate is set here, afterwards.
		r.mu.Lock()
		wait := terminateWait
		if r.closed {
			wait = closingWait
		}
		c.setCloseDeadline(wait)
		r.mu.Unlock()
		c.terminate()
		r.mu.Lock()
		delete(r.ending, c)
		r.shelf.closing--
		c.permit.Release()
		r.serveClaimLocked()
		r.mu.Unlock()
	})
}

// goLocked runs f, which ends in bounded time, in a goroutine. Run waits for the goroutine, unless close was called
// before.
func (r *Reservoir) goLocked(f func()) {
	if r.closed {
		go f()
	} else {
		r.work.Go(f)
	}
}

// serveClaimLocked gives a free slot to a waiting dial of a dedicated backend, if there is one.
func (r *Reservoir) serveClaimLocked() {
	if r.shelf.claimed > 0 && r.shelf.openCount() < r.shelf.maxOpen {
		r.shelf.claimed--
		r.shelf.dialing++
		r.claims.serveFirst(struct{}{})
	}
	r.wakeFill()
}

// wakeFill makes fill check again whether backends should be dialled.
func (r *Reservoir) wakeFill() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// close fails all waits and closes all ready backends. Backends that are already closing get at most closingWait from
// now on.
func (r *Reservoir) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.ending {
		c.setCloseDeadline(closingWait)
	}
	for len(r.shelf.ready) > 0 {
		r.closeConnLocked(r.shelf.takeAt(len(r.shelf.ready)-1), Shutdown)
	}
	for _, c := range r.suspects { // the prober may have ended without asking them
		r.endLoanLocked(c)
		r.closeConnLocked(c, Shutdown)
	}
	r.suspects = nil
	r.closed = true
	r.shelf.waiting, r.shelf.claimed = 0, 0
	r.waiters.refuseAll(ErrClosed)
	r.claims.refuseAll(ErrClosed)
	if r.expiry != nil {
		r.expiry.Stop()
	}
}
