package reservoir

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-proxy/sluice/lease"
)

// Defaults, as the specification has them unless another source is named.
const (
	DefaultMaxOpen        = 100
	DefaultCheckoutWait   = 10 * time.Second // below the 15 s or more that clients commonly give a statement
	DefaultBaseLifetime   = 11 * time.Minute
	DefaultLifetimeJitter = 2 * time.Minute
	DefaultGuardWindow    = 45 * time.Second
	DefaultInitialFill    = 30 * time.Second
	DefaultProbeInterval  = 30 * time.Second // one small round trip
	DefaultRateLimit      = 10               // a tenth of what a cluster takes per second
	DefaultBurstLimit     = 100              // a tenth of a cluster's burst
	// PostgresRateLimit is for a server without quotas: no login of a thousand clients at
	// once waits for more than a second.
	PostgresRateLimit = 1000
)

const (
	// maxLifetime is the greatest age that a backend may be given. DSQL closes a
	// connection at 60 minutes, and a transaction lent at the last moment may
	// run for 5 (documented quotas, 2026).
	maxLifetime = 55 * time.Minute
	// scanEvery is how often the clock and the lease are read and the shelf
	// searched for backends to retire.
	scanEvery = lease.StateEvery
	// maxDials bounds dials in flight for the shelf. At 100 ms a dial it is
	// above the 100 connections per second that a cluster accepts.
	maxDials = 16
	// trickleEvery is the time between two dials above the low watermark.
	trickleEvery = time.Second
	// replacedPart of MaxOpen (1/10) may be missing for replacement at once.
	replacedPart = 10
)

// LeastGuard is how long before the end of a lease closing the last backends must
// begin: until a scan notices, and the good-bye.
const LeastGuard = scanEvery + terminateWait

// Config of a Reservoir.
type Config struct {
	// MaxOpen bounds backends in use, ready, being dialled and being closed,
	// together.
	MaxOpen int
	// TargetReady is how many backends, in use and ready together, the fill
	// keeps open ahead of demand. 0 dials on demand only.
	TargetReady int
	// LowWatermark is how many of them are dialled as fast as admitted; above it
	// the fill trickles, unless somebody waits. MaxOpen or more never trickles.
	LowWatermark int
	// InitialFillTimeout is how long Stats.Filled waits for the first LowWatermark
	// backends. 0 does not wait.
	InitialFillTimeout time.Duration
	// ProbeInterval is how often a ready backend that is not used must answer a
	// round trip. 0 asks none but behind a Suspect.
	ProbeInterval time.Duration
	// CheckoutWait is how long Acquire waits for a backend.
	CheckoutWait time.Duration
	// BaseLifetime + a random part of LifetimeJitter is the age that a backend
	// reaches at most; it is not lent in the GuardWindow before.
	BaseLifetime   time.Duration
	LifetimeJitter time.Duration
	GuardWindow    time.Duration
	// RateLimit and BurstLimit bound dials: tokens per second, and how many
	// may be saved up.
	RateLimit  int
	BurstLimit int

	// Lease admits every dial; nil shares nothing with other processes. When it
	// paces dials, RateLimit does not apply.
	Lease Lease
	// Precheck, when not nil, is asked before the next admission when a dial
	// failed before it reached for the network. Its error is a *DialError.
	Precheck func(context.Context) error
}

// Defaults is the configuration of a reservoir that nobody configured.
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

// Validate reports every bad value at once.
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
		// What is left of a lifetime must hold a replacement of every backend.
		least := c.GuardWindow + retireMargin + time.Duration(c.MaxOpen)*c.replaceEvery()
		check(c.BaseLifetime > least, "reservoir.base_lifetime", c.BaseLifetime,
			fmt.Sprintf("want more than %v: reservoir.guard_window plus the time to replace reservoir.max_open backends at connection.rate_limit", least))
	}
	return errors.Join(errs...)
}

// batch is how many backends may be missing for replacement at once.
func (c Config) batch() int { return max(1, c.MaxOpen/replacedPart) }

// replaceEvery is the least time between two retirements: no more often than
// dials are allowed, and no more per scan than may be missing at once.
func (c Config) replaceEvery() time.Duration {
	every := max(time.Second/time.Duration(c.RateLimit), scanEvery/time.Duration(c.batch()))
	if c.LowWatermark < c.TargetReady {
		every = max(every, trickleEvery)
	}
	return every
}
