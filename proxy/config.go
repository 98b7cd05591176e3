package proxy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/proxy/account"
	"github.com/sluice-proxy/sluice/proxy/advisory"
	"github.com/sluice-proxy/sluice/proxy/database"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/startup"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file has the configuration of a Server and its validation. Package cmd/sluice/config fills Config in and calls
// Validate, as New does.

// PairingMode says for how long a client has the same backend.
type PairingMode string

const (
	// Transaction lends a client a backend for one transaction. It is the default PairingMode.
	Transaction PairingMode = "transaction"
	// Session pairs a client with its first backend until the client leaves.
	Session PairingMode = "session"
)

// BackendKind is the kind of database server that Sluice connects to.
type BackendKind string

const (
	// DSQL is the BackendKind of Amazon Aurora DSQL, which has an allow-list of settings and ignores cancels.
	DSQL BackendKind = "dsql"
	// Postgres is the BackendKind of a plain PostgreSQL server.
	Postgres BackendKind = "postgres"
)

// ResetPolicy says when Sluice resets all of a backend's settings before its next transaction. At other times it
// resets only settings that a statement or the server's reports have named. Functions may change others unreported.
type ResetPolicy string

const (
	// ResetAuto resets a backend's settings after a query that calls functions which may change settings.
	ResetAuto ResetPolicy = "auto"
	// ResetAlways resets a backend's settings after every transaction.
	ResetAlways ResetPolicy = "always"
	// ResetNever resets only those settings of a backend that Sluice has seen change.
	ResetNever ResetPolicy = "never"
)

// SessionLogging selects the sessions whose start and end Sluice logs. It always logs refused startups, and the
// metrics count every session.
type SessionLogging string

const (
	// LogAll logs the start and the end of each session.
	LogAll SessionLogging = "all"
	// LogUnusual logs the end of a session, except if its client has ended the session between two transactions.
	LogUnusual SessionLogging = "unusual"
	// LogNone logs neither the start nor the end of sessions.
	LogNone SessionLogging = "none"
)

// These are the default lease terms of advisory locks. A transaction of DSQL ends after 5 minutes at the latest. The
// sixth minute allows for packets that a broken network delivers late.
const (
	DefaultLockLease   = 30 * time.Second
	DefaultLockLongest = 6 * time.Minute
)

// leastLockLease is the shortest lease of advisory locks that Validate accepts. A lease is renewed several times, by
// round trips that may take seconds each.
const leastLockLease = time.Second

// Config configures a Server. The zero value is not valid. Package cmd/sluice/config has the keys and defaults.
type Config struct {
	Kind    BackendKind
	Pairing PairingMode
	// Database is the name of the database on the server.
	Database string
	// Databases lists the database names that clients may ask for (forms: database.New). If the list is empty, clients may
	// use any name, and every name means Database, unless each client has a dedicated backend.
	Databases []string

	// Startup configures encryption and authentication of new client connections. Server sets Startup.Replication.
	Startup startup.Config

	// MaxClients bounds open client connections. Further clients get error 53300.
	MaxClients int
	// ClientIdleTimeout is how long a client may be idle outside a transaction before it is closed. 0 means no limit.
	ClientIdleTimeout time.Duration
	// IdleTransactionTimeout ends a session that is idle in a transaction for this long, with 25P03. 0 means never.
	IdleTransactionTimeout time.Duration

	// BackendPathLimit bounds how long the server's host may leave TCP packets unacknowledged. ClientPathLimit bounds
	// this for a client's host, while the client has a backend. 0 means no bound.
	BackendPathLimit, ClientPathLimit time.Duration

	// MaxMessageBytes is the longest message that the server accepts. Sluice refuses a longer one before sending any part.
	// 0 means no bound.
	MaxMessageBytes int
	// AnswerTimeout bounds how long the server may take to answer a request of Sluice itself. 0 means 5 s.
	AnswerTimeout time.Duration
	// SilenceTimeout bounds how long the server may send no byte while its answer is pending. 0 means no bound.
	SilenceTimeout time.Duration

	// CommitGrace is how long a turn that may commit continues after its client has left. 0 means until the turn ends.
	CommitGrace time.Duration

	// MaxPins bounds the pinned sessions (they retain one backend, for state on it). Others that need a pin get 53300.
	MaxPins int
	// CancelGrace is how long the server may take to stop a statement after a cancel, before Sluice discards the backend.
	CancelGrace time.Duration
	// ForwardCancel makes Sluice send clients' CancelRequests to the server.
	ForwardCancel bool

	// IgnoredSettings lists settings that Sluice answers and counts, but does not send to DSQL. An entry "name=value"
	// ignores only that harmless value.
	IgnoredSettings []string
	// ReapplyApplicationName sets the client's application_name on each backend that the client gets.
	ReapplyApplicationName bool
	// Reset says when Sluice resets a backend's settings. An empty Reset means ResetAuto.
	Reset ResetPolicy

	// PreparedPerBackend bounds the prepared statements on one backend.
	PreparedPerBackend int
	// PreparedPerClient bounds the named prepared statements of one client.
	PreparedPerClient int
	// PreparedBytesPerClient bounds the texts of one client's prepared statements, in bytes. PreparedTotalBytes bounds
	// those of all clients, cached descriptions included.
	PreparedBytesPerClient, PreparedTotalBytes int
	// StoredBytes bounds the stored rows of one session's cursors WITH HOLD, in bytes. StoredTotalBytes bounds those of
	// all sessions. If StoredBytes is 0, Sluice refuses WITH HOLD.
	StoredBytes, StoredTotalBytes int
	// MemoryBytesPerClient bounds the state of one client, in bytes. MemoryTotalBytes bounds that of all clients, without
	// prepared statements and rows of cursors WITH HOLD, and is at most a quarter of MemoryLimit.
	MemoryBytesPerClient, MemoryTotalBytes int
	// MemoryLimit is GOMEMLIMIT in bytes. Above nine tenths of it Sluice begins no new work. 0 means no limit.
	MemoryLimit int64
	// PreparedTexts bounds the number of cached descriptions of prepared statements, which all clients share.
	PreparedTexts int
	// DescribeMemory is how long Sluice answers Describe from its cache after the server has confirmed the answer. 0 means
	// never. A client may see a change of the schema later by this duration.
	DescribeMemory time.Duration
	// MaxStatementBytes bounds a Query or Parse frame that Sluice parses. A longer Query passes to the server unparsed. A
	// longer Parse is refused.
	MaxStatementBytes int

	// WatchMapped makes Sluice refuse queries on tables with mapped columns (bytea stored as text) if mapping is off.
	WatchMapped bool

	// MaySet lists the configuration keys that a client may set for itself, at startup or by SET
	// (rewrite.ClientOptions). Sluice refuses other keys.
	MaySet []string
	// Users has options for each login name. These options need no entry in MaySet, and a client's options override them.
	Users map[string]rewrite.ClientOptions

	// Locks has the lease terms of advisory locks, which are rows of a table. rewrite.Rules.Advisory turns advisory locks
	// on. LockClock measures leases, and must run on while the machine is suspended. nil means Go's clock.
	Locks     advisory.LeaseTerms
	LockClock func() time.Duration

	// Replay makes Sluice run transactions again after a conflict, by the rules in Retry. Replay has no effect if each
	// client has a dedicated backend.
	Replay bool
	Retry  retry.Config
	// UsersWithoutReplay lists login names whose clients get the error of a conflict instead of a replay.
	UsersWithoutReplay []string
	// AlertConflictsPerMinute is how many conflicts in a minute make Sluice log a warning. 0 means never.
	AlertConflictsPerMinute int

	// LogSessions selects the sessions that Sluice logs. An empty value means LogUnusual.
	LogSessions SessionLogging

	// PlainConn makes Sluice use net.Conn alone, without the raw socket layer (package rawconn).
	PlainConn bool
}

// hasDedicatedBackends reports whether each client has a dedicated backend from its startup on. On DSQL no client has
// one. With pairing session, a client of DSQL has one backend to its end, but Sluice emulates missing features.
func (c *Config) hasDedicatedBackends() bool { return c.Kind == Postgres && c.Pairing == Session }

// disablesReplayFor reports whether transactions of a user's clients are never replayed.
func (c *Config) disablesReplayFor(user string) bool {
	return slices.Contains(c.UsersWithoutReplay, user)
}

// parseDatabases parses Databases, the names that clients may ask for. The error describes a malformed entry.
func (c Config) parseDatabases() (database.Names, error) {
	return database.New(c.Databases, c.Database, c.hasDedicatedBackends())
}

// SchemaOf returns the planner's map from database names to schemas (rewrite.Rules.SchemaOf), or nil if Databases maps
// none to a schema.
func (c Config) SchemaOf() func(database string) (schema string, ok bool) {
	if d, err := c.parseDatabases(); err == nil && d.HasSchemas() {
		return d.SchemaOf
	}
	return nil
}

// Validate returns an error that lists all bad values of the configuration. The error names each value's key and the
// accepted values. Other packages validate their own parts.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, key, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
		}
	}
	check(c.Kind == DSQL || c.Kind == Postgres, "backend.kind", "%q: want dsql or postgres", c.Kind)
	check(c.Pairing == Transaction || c.Pairing == Session, "pairing", "%q: want transaction or session", c.Pairing)
	check(c.Reset == "" || c.Reset == ResetAuto || c.Reset == ResetAlways || c.Reset == ResetNever, "reservoir.reset", "%q: want auto, always or never", c.Reset)
	check(c.LogSessions == "" || c.LogSessions == LogAll || c.LogSessions == LogUnusual || c.LogSessions == LogNone, "log.sessions", "%q: want all, unusual or none", c.LogSessions)
	check(c.Database != "", "backend.database", "empty: name the backend's database")
	if _, err := c.parseDatabases(); err != nil {
		errs = append(errs, err)
	}
	check(c.MaxClients > 0, "listen.max_clients", "%d: want at least 1", c.MaxClients)
	check(c.ClientIdleTimeout >= 0, "client.idle_timeout", "%s: want 0 (off) or more", c.ClientIdleTimeout)
	check(c.BackendPathLimit >= 0, "backend.tcp_user_timeout", "%s: want 0 (off) or more", c.BackendPathLimit)
	check(c.MaxMessageBytes >= 0, "backend.max_message_bytes", "%d: want 0 (any) or more", c.MaxMessageBytes)
	check(c.SilenceTimeout >= 0, "backend.silence_timeout", "%s: want 0 (off) or more", c.SilenceTimeout)
	check(c.ClientPathLimit >= 0, "client.tcp_keepalive", "%s: want 0 (off) or more", c.ClientPathLimit)
	check(c.CommitGrace >= 0, "client.commit_grace", "%s: want 0 (off) or more", c.CommitGrace)
	check(c.IdleTransactionTimeout >= 0, "client.idle_transaction_timeout", "%s: want 0 (off) or more", c.IdleTransactionTimeout)
	check(c.MaxPins > 0, "pins.max", "%d: want at least 1", c.MaxPins)
	check(c.CancelGrace > 0, "cancel.grace", "%s: want more than 0", c.CancelGrace)
	check(c.PreparedPerBackend > 0, "prepared.per_backend", "%d: want at least 1", c.PreparedPerBackend)
	check(c.PreparedPerClient > 0, "prepared.per_client", "%d: want at least 1", c.PreparedPerClient)
	check(c.PreparedBytesPerClient > 0, "prepared.bytes_per_client", "%d: want at least 1", c.PreparedBytesPerClient)
	check(c.PreparedTotalBytes >= c.PreparedBytesPerClient, "prepared.total_bytes", "%d: want at least prepared.bytes_per_client, %d", c.PreparedTotalBytes, c.PreparedBytesPerClient)
	check(c.MemoryBytesPerClient >= max(c.PreparedBytesPerClient, c.StoredBytes), account.ClientKey, "%d: want at least prepared.bytes_per_client, %d, and cursor.stored_bytes, %d", c.MemoryBytesPerClient, c.PreparedBytesPerClient, c.StoredBytes)
	check(c.MemoryTotalBytes >= c.MemoryBytesPerClient, account.TotalKey, "%d: want at least %s, %d", c.MemoryTotalBytes, account.ClientKey, c.MemoryBytesPerClient)
	check(c.Locks == (advisory.LeaseTerms{}) || c.Locks.Lease >= leastLockLease, rewrite.AdvisoryKey+"_lease", "%s: want at least %s", c.Locks.Lease, leastLockLease)
	check(c.Locks.LongestDDL >= 0, rewrite.AdvisoryKey+"_longest", "%s: want 0 or more", c.Locks.LongestDDL)
	check(c.StoredBytes >= 0, "cursor.stored_bytes", "%d: want 0 (none) or more", c.StoredBytes)
	check(c.StoredTotalBytes >= c.StoredBytes, "cursor.stored_total_bytes", "%d: want at least cursor.stored_bytes, %d", c.StoredTotalBytes, c.StoredBytes)
	check(c.PreparedTexts > 0, "prepared.texts", "%d: want at least 1", c.PreparedTexts)
	check(c.DescribeMemory >= 0, "prepared.describe_memory", "%s: want 0 (off) or more", c.DescribeMemory)
	check(c.AlertConflictsPerMinute >= 0, "alert_threshold_conflicts_per_minute", "%d: want 0 (off) or more", c.AlertConflictsPerMinute)
	emulated := c.Retry.Savepoints != retry.NoSavepoints
	check(c.Replay || !emulated || c.Kind != DSQL, "retry.savepoints", "%s needs retry.enabled: savepoints are emulated by replay", c.Retry.Savepoints)
	check(c.Kind == DSQL || c.Retry.Savepoints != retry.Strict, "retry.savepoints", "strict is for kind dsql: discarded parts are run again on a second connection, which would wait for row locks; set off, since PostgreSQL has savepoints, or relaxed")
	if c.Replay {
		errs = append(errs, c.Retry.Validate())
	}
	for _, entry := range c.IgnoredSettings {
		allowed, weakens := c.weakensGuarantee(entry)
		check(!weakens, "settings.ignored", "%q: a client would be told that it has what it has not; leave it out, or ignore a harmless value only: %s", entry, allowed)
	}
	check(c.MaxStatementBytes >= 64<<10, "rewrite.max_bytes", "%d: want at least 65536", c.MaxStatementBytes)
	errs = append(errs, c.Startup.Validate())
	return errors.Join(errs...)
}

// guaranteeSettings lists settings by which clients ask for a guarantee, with the values that ask for none. If Sluice
// ignored another value, clients would wrongly rely on an isolation level, READ ONLY, another user or string escapes.
var guaranteeSettings = map[string][]string{
	"transaction_isolation":         {"read uncommitted", "read committed", "repeatable read"},
	"default_transaction_isolation": {"read uncommitted", "read committed", "repeatable read"},
	"transaction_read_only":         {"off"},
	"default_transaction_read_only": {"off"},
	"session_authorization":         {"default"},
	"standard_conforming_strings":   {"on"},
}

// weakensGuarantee reports whether an entry of IgnoredSettings would silently deny clients a guarantee. allowed lists
// harmless entries for the same setting. weakens is false for kind postgres, which ignores no setting.
func (c Config) weakensGuarantee(entry string) (allowed string, weakens bool) {
	name, value, _ := strings.Cut(entry, "=")
	name = strings.ToLower(strings.TrimSpace(name))
	harmless, promise := guaranteeSettings[name]
	if c.Kind != DSQL || !promise {
		return "", false
	}
	return name + "=" + strings.Join(harmless, ", "+name+"="),
		!slices.ContainsFunc(harmless, func(v string) bool { return settings.EqualValues(v, value) })
}
