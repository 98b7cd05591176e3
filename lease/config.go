package lease

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
)

// These defaults are for DSQL's quotas as documented in 2026: 10,000 connections, and 100 new ones per second, 1,000 at
// once.
const (
	DefaultLimit            = 10_000
	DefaultMargin           = 500 // for hosts that vanished without releasing slots, and for people with psql
	DefaultShards           = 16
	DefaultHeartbeat        = 30 * time.Second
	DefaultReapAfter        = 20 * time.Minute
	DefaultGuard            = 5 * time.Second
	DefaultTransactionLimit = 5 * time.Minute // DSQL's limit
	DefaultIdleRelease      = 2 * time.Minute
	DefaultRate             = 100
	DefaultReserve          = 10
	DefaultBurst            = 400
	DefaultMaxWait          = 30 * time.Second
	DefaultMaxInstances     = 2000
	DefaultCallTimeout      = 2 * time.Second
)

const (
	// burstQuota is the number of new connections that a cluster accepts at once (documented
	// quotas, 2026).
	burstQuota = 1000
	// maxCallTimeout bounds Config.CallTimeout, the limit of one call of DynamoDB.
	maxCallTimeout = 5 * time.Second
	// ticketValidity is the time for which a ticket (the right to dial once) stays valid after it is due.
	ticketValidity = 3 * time.Second
	// clockError is the largest error in reading DynamoDB's clock, which shows whole seconds.
	clockError = time.Second
	// mostRate is the highest connection rate, per second, that a DynamoDB table may have. With a higher rate, the
	// interval of two tickets (rights to dial once) in microseconds would lose its precision.
	mostRate = 100_000
	// maxShards is the largest number of shards (items with slots) of a DynamoDB table. A sidecar may have to read all.
	maxShards = 256
	// StateEvery is the longest interval at which the owner of the backends must read Lease.State and obey the state.
	StateEvery = time.Second
	// drainPart is a divisor. If the lease is not renewed, idle backends close over a time of ReapAfter/drainPart.
	drainPart = 5
)

// Config holds the settings of a Lease: what sidecars share, by which DynamoDB table, and within which limits.
type Config struct {
	// Slots makes sidecars share the cluster's connection count. Rate makes them share the cluster's connection rate. If
	// neither is set, an Unlimited replaces the Lease.
	Slots, Rate bool
	// Table is the DynamoDB table of the slots, and RateTable that of the tickets, rights to dial once. An empty RateTable
	// means Table.
	Table, RateTable string
	// Cluster is the cluster's name in the DynamoDB table. Earlier is the name that older versions used, or "" if the
	// names are equal. The function ClusterNames returns both names.
	Cluster, Earlier string

	// File is the path of a lock file, or "" for none. Once the process has ended, the lock shows that to the next
	// process.
	File string

	// Limit is the cluster's connection limit. Margin is the part of Limit that no sidecar uses.
	Limit, Margin int
	// Shards is the number of shards (items that divide the slots) in a new table.
	Shards int

	// Heartbeat is the interval at which the lease is renewed. If a lease was not renewed for ReapAfter, other processes
	// take its slots. All its backends are closed earlier, by Guard. No backend is lent when less than TransactionLimit
	// remains until the backends are closed.
	Heartbeat, ReapAfter, Guard, TransactionLimit time.Duration
	// IdleRelease is the time after which a process returns unused slots to the DynamoDB table.
	IdleRelease time.Duration

	// RateLimit is the cluster's connection rate, per second. Reserve is the part of RateLimit for sidecars that cannot
	// reach the DynamoDB table; MaxInstances is their greatest number. Burst is the number of unused tickets (rights to
	// dial once) that may accumulate.
	RateLimit, Reserve, Burst, MaxInstances int
	// MaxWait is how far ahead a ticket (right to dial once) may be reserved. While the queue of tickets is longer, a dial
	// waits without a ticket.
	MaxWait time.Duration

	// CallTimeout bounds each call of DynamoDB.
	CallTimeout time.Duration
	// Lifetime is the greatest age that the reservoir, the pool of backends, gives a backend.
	Lifetime time.Duration
}

// Defaults returns the default Config, with which sidecars share neither slots nor the connection rate.
func Defaults() Config {
	return Config{
		Limit: DefaultLimit, Margin: DefaultMargin, Shards: DefaultShards,
		Heartbeat: DefaultHeartbeat, ReapAfter: DefaultReapAfter, Guard: DefaultGuard,
		TransactionLimit: DefaultTransactionLimit, IdleRelease: DefaultIdleRelease,
		RateLimit: DefaultRate, Reserve: DefaultReserve, Burst: DefaultBurst, MaxInstances: DefaultMaxInstances,
		MaxWait: DefaultMaxWait, CallTimeout: DefaultCallTimeout,
	}
}

// Validate returns one error that lists everything wrong with the configuration, or nil.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, key string, value any, want string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("distributed.%s: %v: %s", key, value, fmt.Sprintf(want, args...)))
		}
	}
	check(!c.Slots || c.Table != "", "conn_lease_table", "empty", "distributed.conn_lease_enabled needs a DynamoDB table")
	check(!c.Rate || c.RateTable != "" || c.Table != "", "rate_limiter_table", "empty", "distributed.rate_limiter_enabled needs a DynamoDB table")
	const tableName = "want the name of a DynamoDB table, 3 to 255 letters, digits, _, - and ., or its ARN"
	check(c.Table == "" || isTableName(c.Table), "conn_lease_table", strconv.Quote(c.Table), tableName)
	check(c.RateTable == "" || isTableName(c.RateTable), "rate_limiter_table", strconv.Quote(c.RateTable), tableName)
	check(c.Limit > 0, "conn_limit", c.Limit, "want at least 1")
	check(c.Margin >= 0 && (c.Limit <= 0 || c.Margin < c.Limit), "conn_margin", c.Margin, "want 0 or more, and less than distributed.conn_limit")
	check(c.Shards > 0 && c.Shards <= maxShards, "conn_shards", c.Shards, "want 1 to %d", maxShards)
	check(c.Heartbeat >= 100*time.Millisecond, "heartbeat", c.Heartbeat, "want at least 100ms")
	check(c.Guard >= 0, "guard", c.Guard, "want 0 or more")
	check(c.TransactionLimit >= 0, "transaction_limit", c.TransactionLimit, "want 0 or more")
	check(c.IdleRelease > 0, "idle_release", c.IdleRelease, "want more than 0")
	check(c.CallTimeout > 0 && c.CallTimeout <= maxCallTimeout, "call_timeout", c.CallTimeout, "want more than 0, at most %v", maxCallTimeout)
	check(c.Reserve >= 0, "rate_limiter_reserve", c.Reserve, "want 0 or more")
	check(c.RateLimit > max(c.Reserve, 0), "rate_limiter_limit", c.RateLimit, "want more than distributed.rate_limiter_reserve")
	check(c.Burst > 0, "rate_limiter_burst", c.Burst, "want at least 1")
	check(c.MaxWait > 0, "rate_limiter_max_wait", c.MaxWait, "want more than 0")
	check(c.MaxInstances > 0, "max_instances", c.MaxInstances, "want at least 1")
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	least := c.Lifetime + 2*c.Heartbeat + c.TransactionLimit
	check(!c.Slots || c.ReapAfter >= least, "reap_after", c.ReapAfter,
		"want at least %v: reservoir.base_lifetime, reservoir.lifetime_jitter, two of distributed.heartbeat and distributed.transaction_limit", least)
	check(!c.Slots || c.drainAfter() > 3*c.Heartbeat, "reap_after", c.ReapAfter,
		"backends would begin to close %v after a renewal failed: four fifths of it less distributed.guard, distributed.transaction_limit and a second must be more than three of distributed.heartbeat", c.drainAfter())
	if c.Rate {
		errs = append(errs, c.validateBurst())
	}
	longest := c.MaxWait + ticketBatch*time.Second/time.Duration(c.ticketRate()) + 2*clockError
	check(!c.Rate || longest < impossibleQueue, "rate_limiter_max_wait", c.MaxWait,
		"want at most %v: a queue of %v is taken for the mistake of some clock, and set back", (c.MaxWait-longest+impossibleQueue).Truncate(time.Second)-time.Second, impossibleQueue)
	return errors.Join(errs...)
}

// validateBurst returns an error if all sidecars together could open more connections at once than the cluster
// accepts. They could use saved tickets (unused rights to dial), tickets that clock errors make early or late, and
// the reserve.
func (c Config) validateBurst() error {
	late := int((ticketValidity+2*clockError)/time.Second) * c.ticketRate()
	if c.Burst+late+c.Reserve <= burstQuota {
		return nil
	}
	return fmt.Errorf("distributed.rate_limiter_burst: %d: with %d for late use and %d in reserve it must stay within %d, what a cluster takes at once",
		c.Burst, late, c.Reserve, burstQuota)
}

// isTableName reports whether DynamoDB may accept a name of a table. DynamoDB itself checks an ARN.
func isTableName(name string) bool {
	return strings.HasPrefix(name, "arn:") || len(name) >= 3 && len(name) <= 255 && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_-.", r)
	})
}

// ticketRate returns the number of tickets (rights to dial once) per second that all sidecars share.
func (c Config) ticketRate() int { return c.RateLimit - c.Reserve }

// totalSlots returns the number of slots that all sidecars share.
func (c Config) totalSlots() int { return c.Limit - c.Margin }

// tableSettings returns the settings that a DynamoDB table for this configuration should have.
func (c Config) tableSettings() Settings {
	return Settings{Format: Format, Shards: c.Shards, Limit: c.totalSlots(), Rate: c.ticketRate(), Burst: c.Burst}
}

// checkSettings returns an error if this process cannot work with s, the settings in a DynamoDB table. Limit and rate
// may differ from the configured ones, because the table's values apply to all sidecars.
func (c Config) checkSettings(s Settings) error {
	var errs []error
	check := func(ok bool, key string, table, want int) {
		if !ok {
			errs = append(errs, &MismatchError{Key: key, Table: table, Configured: want})
		}
	}
	check(s.Format >= formatOneKey && s.Format <= Format, keyFormat, s.Format, Format)
	check(s.Shards >= 1 && s.Shards <= maxShards, "shards", s.Shards, c.Shards)
	check(!c.Slots || s.Limit >= 1, keyLimit, s.Limit, c.totalSlots())
	check(!c.Rate || s.Rate >= 1 && s.Rate <= mostRate, keyRate, s.Rate, c.ticketRate())
	check(!c.Rate || s.Burst >= 1 && s.Burst <= burstQuota, keyBurst, s.Burst, c.Burst)
	return errors.Join(errs...)
}

// These are names of settings for SettingDifference.Key, mostly configuration keys.
const (
	keyFormat = "format of the items"
	keyLimit  = "distributed.conn_limit less distributed.conn_margin"
	keyRate   = "distributed.rate_limiter_limit less distributed.rate_limiter_reserve"
	keyBurst  = "distributed.rate_limiter_burst"
)

// A SettingDifference is a setting whose value in the DynamoDB table differs from the configured value. Sluice uses
// the table's value.
type SettingDifference struct {
	Setting           string // one of metrics.LeaseSettings
	Key               string
	Table, Configured int
}

// settingDifferences returns the settings whose values in the DynamoDB table differ from the configured ones. It does
// not compare the number of shards, because the table decides that number.
func (c Config) settingDifferences(s Settings) []SettingDifference {
	var found []SettingDifference
	check := func(on bool, setting, key string, table, configured int) {
		if on && table != configured {
			found = append(found, SettingDifference{setting, key, table, configured})
		}
	}
	check(c.Slots, metrics.SettingLimit, keyLimit, s.Limit, c.totalSlots())
	check(c.Rate, metrics.SettingRate, keyRate, s.Rate, c.ticketRate())
	check(c.Rate, metrics.SettingBurst, keyBurst, s.Burst, c.Burst)
	return found
}

// These functions return ages of a lease since its last renewal. From degradedAfter on, no slots are taken and no
// backends are replaced for their age. From drainAfter on, idle backends close, the last one at idleClosedAfter. At
// lostAfter all backends are closed.
func (c Config) degradedAfter() time.Duration { return 3 * c.Heartbeat }
func (c Config) drainAfter() time.Duration    { return c.idleClosedAfter() - c.ReapAfter/drainPart }
func (c Config) idleClosedAfter() time.Duration {
	return c.lostAfter() - c.TransactionLimit - StateEvery
}
func (c Config) lostAfter() time.Duration { return c.ReapAfter - c.Guard }
