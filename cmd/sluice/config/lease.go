package config

import (
	"fmt"

	"github.com/sluice-proxy/sluice/lease"
	"github.com/sluice-proxy/sluice/reservoir"
)

// leaseKeys are the keys of the limits that the sidecars of a cluster share. Their fields are those of
// lease.Config, which checks them.
var leaseKeys = []Key{
	{Name: "distributed.conn_lease_enabled", Default: false, field: func(c *Config) any { return &c.Lease.Slots },
		help: "Share the cluster's connection count among all sidecars."},
	{Name: "distributed.conn_lease_table", Default: "", field: func(c *Config) any { return &c.Lease.Table },
		help: "DynamoDB table of the connection leases (sluice lease init makes it)."},
	{Name: "distributed.conn_lease_file", Default: "", field: func(c *Config) any { return &c.Lease.File },
		help: "File on this machine, in a pod's emptyDir or below /run, by whose lock a restarted process knows that the one before it is gone, and gives back what that held at once. Each process its own; the folder must exist. Empty: a killed process's slots stay blocked for distributed.reap_after."},
	{Name: "distributed.conn_limit", Default: lease.DefaultLimit, field: func(c *Config) any { return &c.Lease.Limit },
		help: "Connections that the cluster takes."},
	{Name: "distributed.conn_margin", Default: lease.DefaultMargin, field: func(c *Config) any { return &c.Lease.Margin },
		help: "How many of distributed.conn_limit stay unused: for people, for hosts that vanished without closing theirs, and for a frozen sidecar's (at least reservoir.max_open)."},
	{Name: "distributed.conn_shards", Default: lease.DefaultShards, field: func(c *Config) any { return &c.Lease.Shards },
		help: "Items that a new table spreads the slots over: 4 for up to 50 sidecars, 16 up to 500, 64 above. Fixed by sluice lease init."},
	{Name: "distributed.heartbeat", Default: lease.DefaultHeartbeat, field: func(c *Config) any { return &c.Lease.Heartbeat },
		help: "How often a lease is renewed."},
	{Name: "distributed.reap_after", Default: lease.DefaultReapAfter, field: func(c *Config) any { return &c.Lease.ReapAfter },
		help: "How long a lease must not have been renewed before others take its slots: so long a dead sidecar's slots are blocked, and half of it an outage of DynamoDB goes unnoticed."},
	{Name: "distributed.guard", Default: lease.DefaultGuard, field: func(c *Config) any { return &c.Lease.Guard },
		help: "How long before that the last backend is closed."},
	{Name: "distributed.transaction_limit", Default: lease.DefaultTransactionLimit, field: func(c *Config) any { return &c.Lease.TransactionLimit },
		help: "Longest transaction (DSQL allows 5 minutes): with less than this left to the lease no backend is lent."},
	{Name: "distributed.idle_release", Default: lease.DefaultIdleRelease, field: func(c *Config) any { return &c.Lease.IdleRelease },
		help: "How long slots stay unused before they are given back."},
	{Name: "distributed.rate_limiter_enabled", Default: false, field: func(c *Config) any { return &c.Lease.Rate },
		help: "Share the cluster's connection rate among all sidecars."},
	{Name: "distributed.rate_limiter_table", Default: "", field: func(c *Config) any { return &c.Lease.RateTable },
		help: "DynamoDB table of the shared rate. Empty: distributed.conn_lease_table."},
	{Name: "distributed.rate_limiter_limit", Default: lease.DefaultRate, field: func(c *Config) any { return &c.Lease.RateLimit },
		help: "New connections per second that the cluster takes."},
	{Name: "distributed.rate_limiter_reserve", Default: lease.DefaultReserve, field: func(c *Config) any { return &c.Lease.Reserve },
		help: "How many of those are for sidecars that cannot reach the table."},
	{Name: "distributed.rate_limiter_burst", Default: lease.DefaultBurst, field: func(c *Config) any { return &c.Lease.Burst },
		help: "New connections that may be saved up (the cluster takes 1,000 at once)."},
	{Name: "distributed.rate_limiter_max_wait", Default: lease.DefaultMaxWait, field: func(c *Config) any { return &c.Lease.MaxWait },
		help: "How far ahead a dial is booked, at most a few seconds short of 10m. While the queue is longer, it waits unbooked."},
	{Name: "distributed.max_instances", Default: lease.DefaultMaxInstances, field: func(c *Config) any { return &c.Lease.MaxInstances },
		help: "Sidecars that there may be: each that cannot reach the table dials by this part of distributed.rate_limiter_reserve."},
	{Name: "distributed.call_timeout", Default: lease.DefaultCallTimeout, field: func(c *Config) any { return &c.Lease.CallTimeout },
		help: "How long one call of DynamoDB may take, at most 5s."},
}

func (c *Config) deriveLease() {
	c.Lease.Cluster, c.Lease.Earlier = lease.ClusterNames(c.Backend.Endpoint, c.Backend.Port)
	c.Lease.Lifetime = c.Reservoir.BaseLifetime + c.Reservoir.LifetimeJitter
}

// checkLease checks that Sluice has time to close its backends before a lease that it cannot renew expires. After the
// expiry other sidecars use the lease's slots, its part of the cluster's connection count.
func (v *validator) checkLease() {
	l := v.config.Lease
	v.require(!l.Slots || l.Guard >= reservoir.LeastGuard, "distributed.guard",
		fmt.Sprintf("want at least %v: so long may the last backend take to close", reservoir.LeastGuard))
	most := l.TransactionLimit + l.Guard
	v.require(!l.Slots || v.config.Backend.Timeout <= most, "reservoir.dial_timeout",
		fmt.Sprintf("want at most %v, distributed.transaction_limit and distributed.guard: a dial must end before its slot is others'", most))
}
