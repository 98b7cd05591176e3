package config

import (
	"strconv"

	"github.com/sluice-proxy/sluice/retry"
)

// Retry is the part of the configuration that selects the transactions that are replayed. The limits are fields of
// retry.Config.
type Retry struct {
	Enabled    string // auto, true or false
	Savepoints string // auto, strict, relaxed or off
}

var retryKeys = []Key{
	{Name: "retry.enabled", Default: "auto", field: func(c *Config) any { return &c.Retry.Enabled },
		Choices: []string{"auto", "true", "false"},
		help:    "Run transactions that met a conflict (40001), or lost their backend, again where the client cannot tell. auto: for kind dsql only. Without effect for kind postgres with pairing session."},
	{Name: "retry.max_retries", Default: retry.DefaultMaxRetries, field: func(c *Config) any { return &c.Proxy.Retry.Policy.MaxRetries },
		help: "How often one transaction is run again, beside the replays behind a short pause (retry.first_delay). 0: never."},
	{Name: "retry.first_delay", Default: retry.DefaultFirstDelay, field: func(c *Config) any { return &c.Proxy.Retry.Policy.FirstDelay },
		help: "Pause before the first replay, and eight times that before the second: whoever won has mostly committed by then. For each transaction of this Sluice that waits for the same rows there is one short pause less. A pause that would be retry.base_delay or more is that. The first schema conflict and the first lost backend do not wait."},
	{Name: "retry.base_delay", Default: retry.DefaultBaseDelay, field: func(c *Config) any { return &c.Proxy.Retry.Policy.BaseDelay },
		help: "Pause before the replays behind those, doubled each time."},
	{Name: "retry.max_delay", Default: retry.DefaultMaxDelay, field: func(c *Config) any { return &c.Proxy.Retry.Policy.MaxDelay },
		help: "Longest pause."},
	{Name: "retry.jitter_factor", Default: retry.DefaultJitterFactor, field: func(c *Config) any { return &c.Proxy.Retry.Policy.JitterFactor },
		help: "A pause varies by up to this part of it, both ways. 0 to 1."},
	{Name: "retry.max_elapsed", Default: retry.DefaultMaxElapsed, field: func(c *Config) any { return &c.Proxy.Retry.Policy.MaxElapsed },
		help: "Longest time from a request's first conflict to the start of its last attempt."},
	{Name: "retry.budget_burst", Default: retry.DefaultBudgetBurst, field: func(c *Config) any { return &c.Proxy.Retry.BudgetBurst },
		help: "Replays of this process that may be saved up; without one left, clients get their conflicts at once."},
	{Name: "retry.budget_per_commit", Default: retry.DefaultBudgetPerCommit, field: func(c *Config) any { return &c.Proxy.Retry.BudgetPerCommit },
		help: "Replays that each commit adds."},
	{Name: "retry.budget_per_second", Default: float64(retry.DefaultBudgetPerSecond), field: func(c *Config) any { return &c.Proxy.Retry.BudgetPerSecond },
		help: "Replays that each second adds."},
	{Name: "retry.gate_hold", Default: retry.DefaultGateHold, field: func(c *Config) any { return &c.Proxy.Retry.GateHold },
		help: "How long one transaction that is run again may keep others from what it fights for."},
	{Name: "retry.log_bytes", Default: retry.DefaultLogBytes, field: func(c *Config) any { return &c.Proxy.Retry.LogBytes },
		help: "What one transaction may send and still be run again."},
	{Name: "retry.log_total_bytes", Default: retry.DefaultLogTotalBytes, field: func(c *Config) any { return &c.Proxy.Retry.LogTotalBytes },
		help: "The same for all transactions together."},
	{Name: "retry.held_bytes", Default: retry.DefaultHeldBytes, field: func(c *Config) any { return &c.Proxy.Retry.HeldBytes },
		help: "Output of a request that is held back while a conflict may still replace it. 0: none."},
	{Name: "retry.held_total_bytes", Default: retry.DefaultHeldTotalBytes, field: func(c *Config) any { return &c.Proxy.Retry.HeldTotalBytes },
		help: "The same for all requests together."},
	{Name: "retry.hold_time", Default: retry.DefaultHoldTime, field: func(c *Config) any { return &c.Proxy.Retry.HoldTime },
		help: "How long output is held back at most."},
	{Name: "retry.savepoints", Default: "auto", field: func(c *Config) any { return &c.Retry.Savepoints },
		Choices: []string{"auto", "strict", "relaxed", "off"},
		help:    "Emulate SAVEPOINT, RELEASE and ROLLBACK TO: to return to a savepoint the transaction is rolled back and run again up to it, and fails with 40001 where it answers otherwise than it did. strict: what ROLLBACK TO has discarded is run again, too, on a second connection, and must answer what it answered; relaxed: only what was read before its first write is; off: the server is asked. auto: strict for kind dsql, where retry.enabled is on, else off."},
	{Name: "retry.off_users", Default: []string{}, field: func(c *Config) any { return &c.Proxy.UsersWithoutReplay },
		help: "Users whose clients get their conflicts themselves. A client may also ask for that with the startup option sluice.retry=off, a statement with the comment /* sluice: no-retry */."},
	{Name: "alert_threshold_conflicts_per_minute", Default: 100, field: func(c *Config) any { return &c.Proxy.AlertConflictsPerMinute },
		help: "Conflicts in a minute above which a warning is logged. 0: never."},
}

// deriveRetry decides whether transactions are replayed, and whether savepoints are emulated. deriveRetry runs after
// deriveRewrite, whose rules it changes.
func (c *Config) deriveRetry() {
	switch c.Retry.Enabled {
	case "auto":
		c.Proxy.Replay = c.isDSQL()
	default:
		c.Proxy.Replay, _ = strconv.ParseBool(c.Retry.Enabled) // the key's choices are booleans
	}
	c.Proxy.Retry.Savepoints = retry.ParseSavepointMode(c.Retry.Savepoints)
	if c.Retry.Savepoints == "auto" && c.Proxy.Replay && c.isDSQL() {
		c.Proxy.Retry.Savepoints = retry.Strict
	}
	c.Rewrite.Rules.Savepoints = c.Proxy.Replay && c.Proxy.Retry.Savepoints != retry.NoSavepoints
}
