package reservoir

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-proxy/sluice/lease"
)

// Defaults. Those without a named source come from the specification.
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
	// PostgresRateLimit is for a server without quotas: when a thousand clients log in at once,
	// none waits for more than a second.
	PostgresRateLimit = 1000
)

const (
	// maxLifetime is the greatest age of a backend. DSQL closes a connection at 60 minutes, and a
	// transaction lent at the last moment may run for 5 (documented quotas, 2026).
	maxLifetime = 55 * time.Minute
	// scanEvery is the interval at which the clock and the lease are read and the shelf is searched
	// for backends to retire.
	scanEvery = lease.StateEvery
	// maxDials bounds dials in flight for the shelf. At 100 ms a dial it is
	// above the 100 connections per second that a cluster accepts.
	maxDials = 16
	// trickleEvery is the time between two dials above the low watermark.
	trickleEvery = time.Second
	// MaxOpen/replacedPart is the number of backends that may be missing at once for replacement.
	replacedPart = 10
)

// LeastGuard is the least time before the end of a lease at which the last backends must start to
// close. It covers one scan and the Terminate.
const LeastGuard = scanEvery + terminateWait

// Config is the configuration of a Reservoir.
type Config struct {
	// MaxOpen bounds the backends in use, ready, being dialled and being closed, together.
	MaxOpen int
	// TargetReady is the number of backends, in use and ready together, that the fill opens ahead
	// of demand. 0 dials on demand only.
	TargetReady int
	// LowWatermark is how many of them are dialled as fast as they are admitted. Above it the fill
	// is slow, unless a borrower waits. With MaxOpen or more it is never slow.
	LowWatermark int
	// InitialFillTimeout is how long Stats.Filled waits for the first LowWatermark
	// backends. 0 does not wait.
	InitialFillTimeout time.Duration
	// ProbeInterval is the interval at which an unused ready backend must answer a round trip. With
	// 0, only a Suspect starts probes.
	ProbeInterval time.Duration
	// CheckoutWait is how long Acquire waits for a backend.
	CheckoutWait time.Duration
	// BaseLifetime plus a random part of LifetimeJitter is the greatest age of a backend. It is not
	// lent in the GuardWindow before that.
	BaseLifetime   time.Duration
	LifetimeJitter time.Duration
	GuardWindow    time.Duration
	// RateLimit is the number of dials per second, and BurstLimit how many unused ones may
	// accumulate.
	RateLimit  int
	BurstLimit int

	// Lease admits every dial; nil shares nothing with other processes. When it
	// paces dials, RateLimit does not apply.
	Lease Lease
	// Precheck, if not nil, is called before the next admission after a dial that failed before it
	// used the network. Its error is a *DialError.
	Precheck func(context.Context) error
}

// Defaults returns the default configuration.
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

// Validate returns all faults of the configuration in one error.
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
		// The rest of a lifetime must suffice to replace every backend.
		least := c.GuardWindow + retireMargin + time.Duration(c.MaxOpen)*c.replaceEvery()
		check(c.BaseLifetime > least, "reservoir.base_lifetime", c.BaseLifetime,
			fmt.Sprintf("want more than %v: reservoir.guard_window plus the time to replace reservoir.max_open backends at connection.rate_limit", least))
	}
	return errors.Join(errs...)
}

// batch returns how many backends may be missing at once for replacement.
func (c Config) batch() int { return max(1, c.MaxOpen/replacedPart) }

// replaceEvery returns the least time between two retirements. They follow the rate of dials, and
// no scan may retire more backends than may be missing at once.
func (c Config) replaceEvery() time.Duration {
	every := max(time.Second/time.Duration(c.RateLimit), scanEvery/time.Duration(c.batch()))
	if c.LowWatermark < c.TargetReady {
		every = max(every, trickleEvery)
	}
	return every
}
