package reservoir

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-proxy/sluice/lease"
)

// These are defaults of a Config. Values without a named source come from the specification.
const (
	DefaultMaxOpen        = 100
	DefaultCheckoutWait   = 10 * time.Second // below the 15 s or more that clients commonly give a statement
	DefaultBaseLifetime   = 11 * time.Minute
	DefaultLifetimeJitter = 2 * time.Minute
	DefaultGuardWindow    = 45 * time.Second
	DefaultInitialFill    = 30 * time.Second
	DefaultProbeInterval  = 30 * time.Second // one small round trip
	DefaultRateLimit      = 10               // a tenth of a cluster's rate
	DefaultBurstLimit     = 100              // a tenth of a cluster's burst
	// PostgresRateLimit is the default RateLimit for a server without quotas. When a thousand clients log in at once, none
	// waits for more than a second.
	PostgresRateLimit = 1000
)

const (
	// maxLifetime is the greatest age of a backend. DSQL closes a connection at 60 minutes, and a transaction that gets a
	// backend at the last moment may run for 5 (documented quotas, 2026).
	maxLifetime = 55 * time.Minute
	// scanEvery is the interval at which the clock and the lease are read and the shelf is searched
	// for backends to retire.
	scanEvery = lease.StateEvery
	// maxDials bounds the parallel dials for the shelf. At 100 ms a dial, 16 dials exceed the 100 connections per second
	// that a cluster accepts.
	maxDials = 16
	// trickleEvery is the time between two dials when Config.LowWatermark is reached.
	trickleEvery = time.Second
	// replacedPart is a divisor. At most MaxOpen/replacedPart backends may be missing at once because they are being
	// replaced by new ones.
	replacedPart = 10
)

// LeastGuard is the least time before the end of a lease at which the last backends must start to close. LeastGuard
// covers one scan and the Terminate message.
const LeastGuard = scanEvery + terminateWait

// Config holds the settings of a Reservoir: how many backends it opens, how fast, and for how long.
type Config struct {
	// MaxOpen bounds the number of all backends: in use, ready, being dialled and being closed.
	MaxOpen int
	// TargetReady is the number of backends, in use and ready together, that are opened ahead of demand. With 0, backends
	// are dialled on demand only.
	TargetReady int
	// LowWatermark is the number of backends that are dialled as fast as the lease and the rate limit allow. Further
	// backends, up to TargetReady, are dialled slowly, unless a borrower waits. With a LowWatermark of MaxOpen or more, no
	// dial is slow.
	LowWatermark int
	// InitialFillTimeout is how long Stats.Filled waits for the first LowWatermark backends. With 0, Stats.Filled does not
	// wait.
	InitialFillTimeout time.Duration
	// ProbeInterval is the interval at which an unused ready backend must answer a round trip. With 0, backends are probed
	// only after a call of ProbeAllReady.
	ProbeInterval time.Duration
	// CheckoutWait is how long a borrower waits for a backend.
	CheckoutWait time.Duration
	// BaseLifetime plus a random part of LifetimeJitter is the greatest age of a backend. A backend is not lent in the
	// last GuardWindow of its lifetime.
	BaseLifetime   time.Duration
	LifetimeJitter time.Duration
	GuardWindow    time.Duration
	// RateLimit is the number of dials per second. BurstLimit is the number of unused dials that may accumulate.
	RateLimit  int
	BurstLimit int

	// Lease gives the permit that every dial needs. With a nil Lease, this process shares no limit with other processes.
	// When the Lease paces dials, RateLimit does not apply.
	Lease Lease
	// Precheck, if not nil, is called after a dial that failed before it used the network. The next dial waits until
	// Precheck succeeds. An error of Precheck is a *DialError.
	Precheck func(context.Context) error
}

// Defaults returns the Config of a Reservoir with every setting at its default.
func Defaults() Config {
	return Config{
		MaxOpen:            DefaultMaxOpen,
		TargetReady:        DefaultMaxOpen,
		LowWatermark:       DefaultMaxOpen,
		InitialFillTimeout: DefaultInitialFill,
		CheckoutWait:       DefaultCheckoutWait,
		BaseLifetime:       DefaultBaseLifetime,
		LifetimeJitter:     DefaultLifetimeJitter,
		GuardWindow:        DefaultGuardWindow,
		RateLimit:          DefaultRateLimit,
		BurstLimit:         DefaultBurstLimit,
	}
}

// Validate returns one error that lists everything wrong with the configuration, or nil.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, key string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %v: %s", key, value, want))
		}
	}
	check(c.MaxOpen > 0, "reservoir.max_open", c.MaxOpen, "want at least 1")
	check(c.TargetReady >= 0 && c.TargetReady <= max(c.MaxOpen, 0), "reservoir.target_ready", c.TargetReady,
		"want 0 (dial on demand) to reservoir.max_open")
	check(c.LowWatermark >= 0, "reservoir.low_watermark", c.LowWatermark, "want 0 or more, or -1 (reservoir.max_open)")
	check(c.InitialFillTimeout >= 0, "reservoir.initial_fill_timeout", c.InitialFillTimeout, "want 0 (do not wait) or more")
	check(c.ProbeInterval >= 0, "reservoir.probe_interval", c.ProbeInterval, "want 0 (only behind a failure without a word) or more")
	check(c.CheckoutWait > 0, "reservoir.checkout_wait", c.CheckoutWait, "want more than 0")
	check(c.LifetimeJitter >= 0, "reservoir.lifetime_jitter", c.LifetimeJitter, "want 0 or more")
	check(c.GuardWindow >= 0, "reservoir.guard_window", c.GuardWindow, "want 0 or more")
	check(c.RateLimit > 0, "connection.rate_limit", c.RateLimit, "want at least 1")
	check(c.BurstLimit > 0, "connection.burst_limit", c.BurstLimit, "want at least 1")
	check(c.BaseLifetime+c.LifetimeJitter <= maxLifetime, "reservoir.base_lifetime", c.BaseLifetime,
		fmt.Sprintf("with reservoir.lifetime_jitter of %v want at most %v: DSQL closes a connection at 60m and a transaction may last 5m",
			c.LifetimeJitter, maxLifetime))
	if len(errs) == 0 {
		// Between a backend's retirement and its guard window, there must be time to replace every backend.
		least := c.GuardWindow + retireMargin + time.Duration(c.MaxOpen)*c.retireInterval()
		check(c.BaseLifetime > least, "reservoir.base_lifetime", c.BaseLifetime,
			fmt.Sprintf("want more than %v: reservoir.guard_window plus the time to replace reservoir.max_open backends at connection.rate_limit", least))
	}
	return errors.Join(errs...)
}

// maxMissing returns how many backends may be missing at once because new ones are to replace them.
func (c Config) maxMissing() int { return max(1, c.MaxOpen/replacedPart) }

// retireInterval returns the least time between two retirements of backends. The interval follows the rate of dials. No
// scan may retire more backends than maxMissing returns.
func (c Config) retireInterval() time.Duration {
	every := max(time.Second/time.Duration(c.RateLimit), scanEvery/time.Duration(c.maxMissing()))
	if c.LowWatermark < c.TargetReady {
		every = max(every, trickleEvery)
	}
	return every
}
