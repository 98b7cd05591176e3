package config

import (
	"math"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/sluice-proxy/sluice/lease"
	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Config is everything that one process runs by. The table in keys.go says
// which key fills which field; Load makes one, and nothing changes it after.
type Config struct {
	Listen ListenConfig
	TLS    TLSFiles
	Admin  AdminConfig
	Drain  DrainConfig
	Cancel CancelConfig
	Retry  RetryConfig
	Log    LogConfig
	// Runtime is about the Go runtime.
	Runtime RuntimeConfig

	Proxy     proxy.Config
	Reservoir reservoir.Config
	// ReservoirEnabled is whether backends are dialled ahead of demand.
	ReservoirEnabled bool
	Dial             reservoir.DialConfig
	Lease            lease.Config
	Rewrite          rewrite.Config
	// RewriteEnabled is not decided until the backend's kind is known: auto, true or false.
	RewriteEnabled string
	// CredentialsRequire is a kind of AWS credentials, or any.
	CredentialsRequire string
	// SilenceTimeout is auto or a duration.
	SilenceTimeout string
	// RewriteIsolation, RewriteSession, RewriteExtensions and RewriteCursors are about what is so on DSQL alone:
	// auto, true or false.
	RewriteIsolation, RewriteSession, RewriteExtensions, RewriteCursors string
	// RewriteSerializable is refuse or repeatable_read.
	RewriteSerializable string
	// DDLCarryOut is exact, or all: it says what other keys are that are at auto (resolveDDL).
	DDLCarryOut string
	// AddColumnDefault is refuse, or backfill.
	AddColumnDefault string
	// RewriteNumeric is a value of rewrite.NumericKey, or auto.
	RewriteNumeric string
	// Truncate is a rewrite.TruncatePolicy.
	Truncate string
	// AlterColumnType is refuse, or rewrite.
	AlterColumnType string
	// CreateEnum is refuse, or domain.
	CreateEnum string
	// DDLInTransactions is refuse, autocommit, or autocommit-destructive.
	DDLInTransactions string
	// SetNotNull is refuse, or check.
	SetNotNull string
	// AddConstraint is steps, or refuse.
	AddConstraint string
	// CopyFrom is server, or insert.
	CopyFrom string
	// Users are what users have otherwise, each as user:key=value.
	Users []string
	// AdvisoryLocks is refuse, or table.
	AdvisoryLocks string
	// RewriteSerial is a rewrite.SerialForm, identity, true or false.
	RewriteSerial string
	// RewriteBytea is off, or a rewrite.ByteaMapping; auto until the backend's kind is known.
	RewriteBytea string

	// values and origins have one entry per key of the table: the effective
	// value, decoded, and where it came from.
	values  map[string]any
	origins map[string]string
	// Warnings are for the log: things that are odd but have no effect.
	Warnings []string
}

// Origin returns where the value of a key came from, such as "default" or "flag --pins-max".
func (c *Config) Origin(key string) string { return c.origins[key] }

// Value returns the decoded value of a key as its source had it.
func (c *Config) Value(key string) any { return c.values[key] }

// ListenConfig says where clients connect.
type ListenConfig struct {
	Address          string // host:port, "" for none
	UnixSocket       string // a directory, "" for none
	UnixSocketMode   string // octal, or auto; see socketMode
	AllowRemoteTrust bool
}

// TLSFiles are the PEM files behind the TLS that clients are offered.
type TLSFiles struct {
	Cert, Key, ClientCA string
}

// AdminConfig says where the admin endpoints are.
type AdminConfig struct {
	Address string // host:port, "" for nowhere
}

// DrainConfig says how the daemon ends, and bounds it.
type DrainConfig struct {
	Mode           string // DrainStop, DrainPlain or DrainNative
	Timeout, Quiet time.Duration
}

// CancelConfig holds what is not decided until the backend's kind is known.
type CancelConfig struct {
	Forward string // auto, true or false
}

// RetryConfig holds what is not decided until the backend's kind is known.
type RetryConfig struct {
	Enabled    string // auto, true or false
	Savepoints string // auto, strict, relaxed or off
}

// LogConfig is the form of the log.
type LogConfig struct {
	Level, Format string
}

// RuntimeConfig is about the Go runtime.
type RuntimeConfig struct {
	Procs int // 0: see setProcs
}

// fillAll is the value of reservoir.target_ready and reservoir.low_watermark
// that means reservoir.max_open.
const fillAll = -1

// byKind is the value that means what is right for backend.kind, of the keys that derive gives
// to defaultTo.
const byKind = -1

// defaultTo is what a value means that may be byKind.
func (c *Config) defaultTo(value *int, dsql, postgres int) {
	switch {
	case *value != byKind:
	case c.Proxy.Kind == proxy.DSQL:
		*value = dsql
	default:
		*value = postgres
	}
}

// dedicated reports whether every backend is dialled for its one client.
func (c *Config) dedicated() bool {
	return c.Proxy.Kind == proxy.Postgres && c.Proxy.Pairing == proxy.Session
}

// namesItself reports whether Sluice has the application_name of a client, and no server does.
func (c *Config) namesItself() bool {
	return c.Proxy.Kind == proxy.Postgres && !c.dedicated() && !c.Proxy.ReapplyApplicationName
}

// rewrites reports whether statements are rewritten at all.
func (c *Config) rewrites() bool {
	return c.RewriteEnabled == "true" || c.RewriteEnabled == "auto" && c.Proxy.Kind == proxy.DSQL
}

// onDSQL is a choice whose auto is for kind dsql only.
func (c *Config) onDSQL(choice string) bool {
	return choice == "true" || choice == "auto" && c.Proxy.Kind == proxy.DSQL
}

// silence is the duration that SilenceTimeout means, or what is wrong with it. A statement
// of DSQL ends at 300 s; half a minute more is for its answer.
func (c *Config) silence() (time.Duration, error) {
	switch {
	case c.SilenceTimeout != "auto":
		return time.ParseDuration(c.SilenceTimeout)
	case c.Proxy.Kind == proxy.DSQL:
		return 330 * time.Second, nil
	}
	return 0, nil
}

// derive fills the fields that follow from others. Every key is filled before.
func (c *Config) derive() {
	c.Proxy.Kind = proxy.BackendKind(c.Dial.Kind)
	c.Proxy.Database = c.Dial.Database
	c.Proxy.MaxStatementBytes = c.Rewrite.MaxBytes
	c.Lease.Cluster, c.Lease.Earlier = lease.Cluster(c.Dial.Endpoint, c.Dial.Port)
	c.Lease.Lifetime = c.Reservoir.BaseLifetime + c.Reservoir.LifetimeJitter
	c.defaultTo(&c.Reservoir.RateLimit, reservoir.DefaultRateLimit, reservoir.PostgresRateLimit)
	c.defaultTo(&c.Reservoir.BurstLimit, reservoir.DefaultBurstLimit, reservoir.PostgresRateLimit)
	c.defaultTo(&c.Proxy.MaxMessageBytes, 10<<20, 0)
	c.Proxy.SilenceTimeout, _ = c.silence() // validate tells of an error
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		c.Proxy.MemoryLimit = limit
	}
	if c.Reservoir.LowWatermark == fillAll {
		c.Reservoir.LowWatermark = c.Reservoir.MaxOpen
	}
	switch {
	case !c.ReservoirEnabled:
		c.Reservoir.TargetReady = 0
	case c.Reservoir.TargetReady != fillAll:
	case c.dedicated():
		c.Reservoir.TargetReady = 0 // nobody would use what was dialled ahead
	default:
		c.Reservoir.TargetReady = c.Reservoir.MaxOpen
	}
	if c.RewriteBytea == "auto" {
		c.RewriteBytea = "off"
		if c.rewrites() && c.Proxy.Kind == proxy.DSQL {
			c.RewriteBytea = string(rewrite.ByteaHex)
		}
	}
	c.resolveDDL()
	if c.rewrites() {
		c.Rewrite.Rules.Dialect = true
		c.Rewrite.Rules.Isolation = c.onDSQL(c.RewriteIsolation)
		c.Rewrite.Rules.Session = c.onDSQL(c.RewriteSession)
		c.deriveCarried()
		if c.RewriteBytea != "off" {
			c.Rewrite.Rules.Bytea = rewrite.ByteaMapping(c.RewriteBytea)
		}
	} else { // what lists tables stays, to be validated
		c.Rewrite.Rules = rewrite.Rules{Policies: c.Rewrite.Rules.Policies, ByteaColumns: c.Rewrite.Rules.ByteaColumns, Chunked: c.Rewrite.Rules.Chunked,
			SequenceCache: c.Rewrite.Rules.SequenceCache, Named: c.namesItself()}
	}
	switch c.Cancel.Forward {
	case "auto":
		c.Proxy.ForwardCancel = c.Proxy.Kind == proxy.Postgres
	default:
		c.Proxy.ForwardCancel, _ = strconv.ParseBool(c.Cancel.Forward) // one of the key's choices
	}
	switch c.Retry.Enabled {
	case "auto":
		c.Proxy.Replay = c.Proxy.Kind == proxy.DSQL
	default:
		c.Proxy.Replay, _ = strconv.ParseBool(c.Retry.Enabled) // one of the key's choices
	}
	c.Proxy.WatchMapped = c.Proxy.Kind == proxy.DSQL // of use where nothing is mapped
	c.Rewrite.Rules.SchemaOf = c.Proxy.SchemaOf()
	c.deriveSavepoints()
}

// deriveSerial says what becomes of serial columns. Sequences are made by the relay, on kind dsql only.
func (c *Config) deriveSerial() {
	rules := &c.Rewrite.Rules
	rules.Serial = c.RewriteSerial != "false"
	rules.SerialForm, rules.SerialKeys = rewrite.SerialIdentity, false
	if c.Proxy.Kind != proxy.DSQL || !rules.Serial {
		return
	}
	rules.SerialKeys = c.RewriteSerial != string(rewrite.SerialSequence)
	switch c.RewriteSerial {
	case "identity":
	case string(rewrite.SerialSequence):
		rules.SerialForm = rewrite.SerialSequence
	default:
		rules.SerialForm = rewrite.SerialAuto
	}
}

// resolveDDL says what the keys are, at auto, that carry out what DSQL refuses: as ddl.carry_out says.
func (c *Config) resolveDDL() {
	c.RewriteNumeric = c.numeric()
	c.takeChoices() // as the keys are written
	all := c.DDLCarryOut == carryOutAll && c.rewrites() && c.Proxy.Kind == proxy.DSQL
	for _, key := range []struct {
		value   *string
		carried string
		can     bool
	}{
		{&c.AddColumnDefault, "backfill", true},
		{&c.AlterColumnType, "rewrite", true},
		{&c.CreateEnum, "domain", true},
		{&c.DDLInTransactions, rewrite.CommitDrops.String(), true},
		{&c.SetNotNull, "check", c.AddConstraint == "steps"},
		{&c.AdvisoryLocks, "table", true},
		{&c.Truncate, string(rewrite.TruncateBatches), true},
	} {
		switch {
		case *key.value != "auto":
		case all && key.can:
			*key.value = key.carried
		default:
			*key.value = "refuse"
		}
	}
}

// carryOutAll is the value of ddl.carry_out that carries out what cannot be exact.
const carryOutAll = "all"

// numeric is the value of rewrite.NumericKey without auto.
func (c *Config) numeric() string {
	switch {
	case c.RewriteNumeric != "auto":
		return c.RewriteNumeric
	case c.rewrites() && c.Proxy.Kind == proxy.DSQL:
		return rewrite.NumericWide
	}
	return rewrite.NumericAsIs
}

// deriveCarried says what of that which DSQL has not is answered or carried out, where
// statements are rewritten.
func (c *Config) deriveCarried() {
	c.deriveSerial()
	c.Rewrite.Rules.Named = c.namesItself()
	c.Rewrite.Rules.Weaken = c.Rewrite.Rules.Isolation && c.RewriteSerializable != "refuse"
	c.Rewrite.Rules.Cursors = c.onDSQL(c.RewriteCursors)
	c.Rewrite.Rules.Extensions = c.onDSQL(c.RewriteExtensions)
	c.Rewrite.Rules.Backfill = c.AddColumnDefault == "backfill"
	c.Rewrite.Rules.Numeric, _ = rewrite.NumericDigits(c.RewriteNumeric) // validate has said what is wrong
	c.Rewrite.Rules.Truncate = rewrite.TruncatePolicy(c.Truncate)
	c.Rewrite.Rules.Retype = c.AlterColumnType == "rewrite"
	c.Rewrite.Rules.Enums = c.CreateEnum == "domain"
	c.Rewrite.Rules.InTransactions = rewrite.ParseInTransactions(c.DDLInTransactions)
	c.Rewrite.Rules.Constraints = c.AddConstraint == "steps" && c.Proxy.Kind == proxy.DSQL
	c.Rewrite.Rules.NotNullCheck = c.SetNotNull == "check"
	c.Rewrite.Rules.CopyIn = c.CopyFrom == "insert"
	c.Rewrite.Rules.Advisory = c.AdvisoryLocks == "table" && c.Proxy.Kind == proxy.DSQL
	c.Rewrite.Rules.Role = c.Dial.User
	c.Proxy.LockClock = lease.MachineClock
}

// deriveSavepoints says whether savepoints are emulated, and to whom that matters.
func (c *Config) deriveSavepoints() {
	c.Proxy.Retry.Savepoints = retry.ParseSavepoints(c.Retry.Savepoints)
	if c.Retry.Savepoints == "auto" && c.Proxy.Replay && c.Proxy.Kind == proxy.DSQL {
		c.Proxy.Retry.Savepoints = retry.Strict
	}
	c.Rewrite.Rules.Savepoints = c.Proxy.Replay && c.Proxy.Retry.Savepoints != retry.NoSavepoints
}
