package config

import "time"

// Drain is the part of the configuration that selects how the daemon ends, and how long that may take.
type Drain struct {
	Mode           string // DrainStop, DrainPlain or DrainNative
	Timeout, Quiet time.Duration
}

// These are the values of the key drain.mode.
const (
	DrainStop   = "stop"
	DrainPlain  = "plain"
	DrainNative = "native"
)

var drainKeys = []Key{
	// Kubernetes kills a container 30 s after SIGTERM. A drain of 25 s leaves five seconds for the end of the process.
	{Name: "drain.mode", Default: DrainStop, field: func(c *Config) any { return &c.Drain.Mode },
		Choices: []string{DrainStop, DrainPlain, DrainNative},
		help:    "How SIGTERM is taken. stop: no new clients, sessions end between transactions. plain: SIGTERM reaches the application at the same time (a container beside it): new clients are served until none came for drain.quiet, then as stop. native: the application has ended before (a sidecar of Kubernetes): as stop, for 0.3 s at most."},
	{Name: "drain.timeout", Default: 25 * time.Second, field: func(c *Config) any { return &c.Drain.Timeout },
		help: "How long the end may take after SIGTERM before transactions are cut, below Kubernetes' grace of 30 s."},
	{Name: "drain.quiet", Default: 3 * time.Second, field: func(c *Config) any { return &c.Drain.Quiet },
		help: "With drain.mode plain: for how long no client must have come before new ones are refused, at most half of drain.timeout."},
}

func (v *validator) checkDrain() {
	d := v.config.Drain
	v.require(d.Timeout >= 0, "drain.timeout", "want 0 (cut at once) or more")
	v.require(d.Mode != DrainPlain || 0 < d.Quiet && d.Quiet <= d.Timeout/2, "drain.quiet",
		"want more than 0, and at most half of drain.timeout")
}
