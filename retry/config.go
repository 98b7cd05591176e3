package retry

import (
	"errors"
	"fmt"
	"time"
)

// These are defaults of a Config. Values without a named source come from the specification.
const (
	DefaultMaxRetries = 5
	// DefaultFirstDelay is the default of Policy.FirstDelay. It was measured: see
	// docs/decisions/0066-the-first-two-pauses-are-short.md.
	DefaultFirstDelay   = 2 * time.Millisecond
	DefaultBaseDelay    = 100 * time.Millisecond
	DefaultMaxDelay     = 5 * time.Second
	DefaultJitterFactor = 0.25
	// DefaultMaxElapsed is the default of Policy.MaxElapsed. It leaves time for the last attempt within the 5 s that
	// Temporal gives a write of a shard.
	DefaultMaxElapsed = 4 * time.Second

	DefaultBudgetBurst     = 100
	DefaultBudgetPerCommit = 0.5
	DefaultBudgetPerSecond = 10
	DefaultGateHold        = time.Second

	// DefaultLogBytes is the default bound of one transaction's log. DefaultLogBytes is enough for 3,000 rows with an
	// INSERT each, also for many INSERTs in a query, and a transaction on DSQL changes at most 3,000 rows.
	DefaultLogBytes       = 4 << 20
	DefaultLogTotalBytes  = 64 << 20
	DefaultHeldBytes      = 64 << 10
	DefaultHeldTotalBytes = 32 << 20
	DefaultHoldTime       = time.Second
)

// These constants bound the values of a configuration.
const (
	mostRetries  = 50 // java-spanner's bound for a transaction (MAX_INTERNAL_RETRIES)
	mostElapsed  = 5 * time.Minute
	mostLogBytes = 16 << 20
	mostTokens   = 1e6
	leastRate    = 0.1
)

// Policy says when and how often a transaction is run again.
type Policy struct {
	// MaxRetries is the greatest number of replays of a transaction, 0 for none. Quick replays (with a short pause) and
	// replays after changes of the schema do not count.
	MaxRetries int
	// FirstDelay is the pause before the first replay, if it is less than BaseDelay. The pause lets the transaction that
	// won the conflict commit first.
	FirstDelay time.Duration
	// BaseDelay is the first pause before those replays that are not quick (a quick replay has a short pause). The
	// pause doubles with each replay, up to MaxDelay.
	BaseDelay, MaxDelay time.Duration
	// JitterFactor is the part of a pause by which the pause is made longer or shorter at random.
	JitterFactor float64
	// MaxElapsed bounds the time from a transaction's first conflict to the start of its last attempt, waits included.
	MaxElapsed time.Duration
}

// Config holds the settings of replays: when and how often, and how much memory they use.
type Config struct {
	Policy Policy
	// BudgetBurst is the size of the process's token bucket, from which each replay takes a token. BudgetPerCommit and
	// BudgetPerSecond refill the bucket.
	BudgetBurst                      int
	BudgetPerCommit, BudgetPerSecond float64
	// GateHold is how long one transaction may make other transactions wait for its rows.
	GateHold time.Duration
	// LogBytes bounds the log of one transaction, and LogTotalBytes all logs together.
	LogBytes, LogTotalBytes int
	// HeldBytes bounds the output of one turn that is held back for a possible replay. HeldTotalBytes bounds that output
	// of all turns, and HoldTime the time of holding.
	HeldBytes, HeldTotalBytes int
	HoldTime                  time.Duration
	Savepoints                SavepointMode
}

// SavepointMode says how ROLLBACK TO is emulated: by a replay up to the savepoint, or not at all. It also says which
// answers from after the savepoint must be the same in a replay.
type SavepointMode uint8

const (
	// NoSavepoints means that the server gets the client's commands for savepoints, and Sluice emulates nothing.
	NoSavepoints SavepointMode = iota
	// Relaxed means that a replay compares only the answers of reads between the savepoint and the first write after it.
	Relaxed
	// Strict means that a replay compares all answers that were sent to the client, also those from after the
	// savepoint.
	Strict
)

// String returns s as a value of the setting retry.savepoints.
func (s SavepointMode) String() string { return [...]string{"off", "relaxed", "strict"}[s] }

// ParseSavepointMode returns the SavepointMode for a value of retry.savepoints, the inverse of String. Any other text
// means NoSavepoints.
func ParseSavepointMode(value string) SavepointMode {
	for s := Relaxed; s <= Strict; s++ {
		if s.String() == value {
			return s
		}
	}
	return NoSavepoints
}

// Defaults returns the Config of replays with every setting at its default.
func Defaults() Config {
	return Config{
		Policy: Policy{
			MaxRetries:   DefaultMaxRetries,
			FirstDelay:   DefaultFirstDelay,
			BaseDelay:    DefaultBaseDelay,
			MaxDelay:     DefaultMaxDelay,
			JitterFactor: DefaultJitterFactor,
			MaxElapsed:   DefaultMaxElapsed,
		},
		BudgetBurst:     DefaultBudgetBurst,
		BudgetPerCommit: DefaultBudgetPerCommit,
		BudgetPerSecond: DefaultBudgetPerSecond,
		GateHold:        DefaultGateHold,
		LogBytes:        DefaultLogBytes,
		LogTotalBytes:   DefaultLogTotalBytes,
		HeldBytes:       DefaultHeldBytes,
		HeldTotalBytes:  DefaultHeldTotalBytes,
		HoldTime:        DefaultHoldTime,
	}
}

// Validate returns one error that lists every invalid value as "key: value: remedy", or nil.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, key string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %v: %s", key, value, want))
		}
	}
	p := c.Policy
	check(p.MaxRetries >= 0 && p.MaxRetries <= mostRetries, "retry.max_retries", p.MaxRetries,
		fmt.Sprintf("want 0 (never run again) to %d", mostRetries))
	check(p.FirstDelay >= 0, "retry.first_delay", p.FirstDelay, "want 0 (at once) or more; from retry.base_delay on it changes nothing")
	check(p.BaseDelay > 0, "retry.base_delay", p.BaseDelay, "want more than 0")
	check(p.MaxDelay >= p.BaseDelay, "retry.max_delay", p.MaxDelay, fmt.Sprintf("want at least retry.base_delay, %v", p.BaseDelay))
	check(p.JitterFactor >= 0 && p.JitterFactor <= 1, "retry.jitter_factor", p.JitterFactor, "want 0 (none) to 1")
	check(p.MaxElapsed > 0 && p.MaxElapsed <= mostElapsed, "retry.max_elapsed", p.MaxElapsed,
		fmt.Sprintf("want more than 0 and at most %v, the longest that a transaction on DSQL lasts", mostElapsed))
	check(c.BudgetBurst >= 1 && c.BudgetBurst <= mostTokens, "retry.budget_burst", c.BudgetBurst, "want 1 to 1000000")
	check(c.BudgetPerCommit >= 0 && c.BudgetPerCommit <= mostTokens, "retry.budget_per_commit", c.BudgetPerCommit, "want 0 to 1000000")
	check(c.BudgetPerSecond >= leastRate && c.BudgetPerSecond <= mostTokens, "retry.budget_per_second", c.BudgetPerSecond, "want 0.1 to 1000000")
	check(c.GateHold > 0 && c.GateHold <= mostElapsed, "retry.gate_hold", c.GateHold, fmt.Sprintf("want more than 0 and at most %v", mostElapsed))
	check(c.LogBytes >= chunkSize && c.LogBytes <= mostLogBytes, "retry.log_bytes", c.LogBytes,
		fmt.Sprintf("want %d to %d; to turn replay off, set retry.enabled to false", chunkSize, mostLogBytes))
	check(c.LogTotalBytes >= c.LogBytes, "retry.log_total_bytes", c.LogTotalBytes,
		fmt.Sprintf("want at least retry.log_bytes, %d", c.LogBytes))
	check(c.HeldBytes >= 0 && c.HeldBytes <= mostLogBytes, "retry.held_bytes", c.HeldBytes,
		fmt.Sprintf("want 0 (hold nothing back) to %d", mostLogBytes))
	check(c.HeldTotalBytes >= c.HeldBytes, "retry.held_total_bytes", c.HeldTotalBytes,
		fmt.Sprintf("want at least retry.held_bytes, %d", c.HeldBytes))
	check(c.HoldTime > 0, "retry.hold_time", c.HoldTime, "want more than 0; to hold nothing back, set retry.held_bytes to 0")
	return errors.Join(errs...)
}
