package config

import (
	"time"

	"github.com/sluice-proxy/sluice/reservoir"
)

// Reservoir is the part of the configuration that limits the connections to the backend, and selects those that are
// dialled ahead of demand.
type Reservoir struct {
	reservoir.Config
	Enabled bool // dial backends ahead of demand
}

var reservoirKeys = []Key{
	{Name: "connection.rate_limit", Default: defaultByKind, field: func(c *Config) any { return &c.Reservoir.RateLimit },
		help: "Backend connections dialled per second by this process. -1: 10 for kind dsql, whose clusters take 100/s from all, and 1000 for kind postgres."},
	{Name: "connection.burst_limit", Default: defaultByKind, field: func(c *Config) any { return &c.Reservoir.BurstLimit },
		help: "Backend connections that may be dialled at once before the rate applies. -1: 100 for kind dsql, whose clusters take 1,000 from all, and 1000 for kind postgres."},

	{Name: "reservoir.max_open", Default: reservoir.DefaultMaxOpen, field: func(c *Config) any { return &c.Reservoir.MaxOpen },
		help: "Backends in use, ready and being dialled, together."},
	{Name: "reservoir.enabled", Default: true, field: func(c *Config) any { return &c.Reservoir.Enabled },
		help: "Dial backends ahead of demand. false: on demand, as reservoir.target_ready 0."},
	{Name: "reservoir.target_ready", Default: fillToMaxOpen, field: func(c *Config) any { return &c.Reservoir.TargetReady },
		help: "Backends, in use and ready together, that Sluice opens ahead of demand. 0: dial on demand. -1: reservoir.max_open."},
	{Name: "reservoir.low_watermark", Default: fillToMaxOpen, field: func(c *Config) any { return &c.Reservoir.LowWatermark },
		help: "Backends that are dialled as fast as the limits allow; above it one per second, unless somebody waits. -1: reservoir.max_open."},
	{Name: "reservoir.initial_fill_timeout", Default: reservoir.DefaultInitialFill, field: func(c *Config) any { return &c.Reservoir.InitialFillTimeout },
		help: "How long /readyz waits for reservoir.low_watermark backends after the start. 0: not at all."},
	{Name: "reservoir.probe_interval", Default: reservoir.DefaultProbeInterval, field: func(c *Config) any { return &c.Reservoir.ProbeInterval },
		help: "How often a ready backend that is not used must answer a round trip, so that a dead one is found before a client gets it. 0: only when another backend fails without a word."},
	{Name: "reservoir.checkout_wait", Default: reservoir.DefaultCheckoutWait, field: func(c *Config) any { return &c.Reservoir.CheckoutWait },
		help: "How long a transaction waits for a backend before it gets 53300."},
	{Name: "reservoir.base_lifetime", Default: reservoir.DefaultBaseLifetime, field: func(c *Config) any { return &c.Reservoir.BaseLifetime },
		help: "Age at which a backend is retired (DSQL closes at 60 minutes)."},
	{Name: "reservoir.lifetime_jitter", Default: reservoir.DefaultLifetimeJitter, field: func(c *Config) any { return &c.Reservoir.LifetimeJitter },
		help: "Random addition to each backend's lifetime, so that they do not end together."},
	{Name: "reservoir.guard_window", Default: reservoir.DefaultGuardWindow, field: func(c *Config) any { return &c.Reservoir.GuardWindow },
		help: "A backend this close to its end is not lent."},
	{Name: "reservoir.dial_timeout", Default: 10 * time.Second, field: func(c *Config) any { return &c.Backend.Timeout },
		help: "How long one dial may take, from DNS to the first ReadyForQuery."},
	{Name: "reservoir.reset", Default: "auto", field: func(c *Config) any { return (*string)(&c.Proxy.Reset) },
		Choices: []string{"auto", "always", "never"},
		help: "When a backend's settings are reset, and it is asked for what functions have left there, before its next transaction, beyond what clients are seen to do: auto, behind a text that calls a function which is not known (kind postgres; functions of DSQL leave nothing), " +
			"and behind all where the database has functions that run unseen and may leave something; always, behind every transaction, at the price of a round trip; never. See docs/security.md."},
}

// fillToMaxOpen is the value of reservoir.target_ready and reservoir.low_watermark that means reservoir.max_open.
const fillToMaxOpen = -1

func (c *Config) deriveReservoir() {
	r := &c.Reservoir
	c.setDefaultByKind(&r.RateLimit, reservoir.DefaultRateLimit, reservoir.PostgresRateLimit)
	c.setDefaultByKind(&r.BurstLimit, reservoir.DefaultBurstLimit, reservoir.PostgresRateLimit)
	if r.LowWatermark == fillToMaxOpen {
		r.LowWatermark = r.MaxOpen
	}
	switch {
	case !r.Enabled:
		r.TargetReady = 0
	case r.TargetReady != fillToMaxOpen:
	case c.usesDedicatedBackends():
		r.TargetReady = 0 // no client would use a connection that was dialled before it came
	default:
		r.TargetReady = r.MaxOpen
	}
}
