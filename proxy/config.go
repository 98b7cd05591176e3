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

// This file is the configuration of a Server as values, and the judgement over them.
// Package cmd/sluice/config fills it in and calls Validate; so does New.

// Pairing says for how long a client keeps a backend.
type Pairing string

const (
	// Transaction lends a backend for one transaction. The default.
	Transaction Pairing = "transaction"
	// Session keeps the first backend until the client leaves.
	Session Pairing = "session"
)

// BackendKind is the kind of server behind Sluice.
type BackendKind string

const (
	// DSQL is Amazon Aurora DSQL: an allow-list of settings, cancels ignored.
	DSQL BackendKind = "dsql"
	// Postgres is a plain PostgreSQL.
	Postgres BackendKind = "postgres"
)

// Reset says when a backend's settings are reset before its next transaction, beyond those
// that clients are seen to set. Settings that only a function has set, and that no report
// shows, are told by nothing else.
type Reset string

const (
	// ResetAuto resets them behind a text that calls functions which may change settings.
	ResetAuto Reset = "auto"
	// ResetAlways resets them behind every transaction.
	ResetAlways Reset = "always"
	// ResetNever resets only what was seen to be set.
	ResetNever Reset = "never"
)

// LogSessions says of which sessions the log has lines. Startups that are refused are logged
// in any case, and the metrics count all.
type LogSessions string

const (
	// LogAll logs each start and each end.
	LogAll LogSessions = "all"
	// LogUnusual logs the ends that are not a client's that left of its own accord, between
	// two transactions.
	LogUnusual LogSessions = "unusual"
	// LogNone logs neither.
	LogNone LogSessions = "none"
)

// Terms of advisory locks where nobody says otherwise. A transaction of DSQL ends after 5 minutes;
// a minute more is for what a broken network may still bring there.
const (
	DefaultLockLease   = 30 * time.Second
	DefaultLockLongest = 6 * time.Minute
)

// leastLockLease bounds the lease from below: it must be renewed several times, by round trips
// that may take seconds.
const leastLockLease = time.Second

// Config of a Server. The zero value is not valid; cmd/sluice/config fills it from its
// table of keys, where each default stands.
type Config struct {
	Kind    BackendKind
	Pairing Pairing
	// Database is the backend's database.
	Database string
	// Databases are the database names that clients may ask for: see database.New for the
	// forms. Empty: any, and unless a backend is dialled for each client every one means
	// Database.
	Databases []string

	// Startup is how connections begin: encryption, authentication. Server sets its Replication.
	Startup startup.Config

	// MaxClients bounds open client connections; more get 53300.
	MaxClients int
	// ClientIdleTimeout closes a client idle outside a transaction; 0 never.
	ClientIdleTimeout time.Duration
	// IdleTransactionTimeout ends a session idle inside a transaction (25P03); 0 never.
	IdleTransactionTimeout time.Duration

	// BackendPathLimit is for how long the server's host may owe an acknowledgement, and
	// ClientPathLimit for how long that of a client which holds a backend; 0 without end.
	BackendPathLimit, ClientPathLimit time.Duration

	// MaxMessageBytes is the longest message that the server takes; a longer one is refused
	// before the server sees any of it. 0: any.
	MaxMessageBytes int
	// AnswerTimeout is for how long the server's answer to a question of Sluice's own may take;
	// 0: 5 s.
	AnswerTimeout time.Duration
	// SilenceTimeout is for how long the server may send nothing while it owes an answer;
	// 0 without end.
	SilenceTimeout time.Duration

	// CommitGrace is for how long a turn that may commit goes on behind the goodbye of its
	// client; 0: until it ends.
	CommitGrace time.Duration

	// MaxPins bounds sessions that keep a backend; more get 53300.
	MaxPins int
	// CancelGrace is how long a cancel may stay without effect before Sluice
	// acts by discarding the backend.
	CancelGrace time.Duration
	// ForwardCancel sends cancels on to the backend.
	ForwardCancel bool

	// IgnoredSettings are answered locally and counted when the kind is DSQL:
	// "name", or "name=value" where only that value does no harm.
	IgnoredSettings []string
	// ReapplyApplicationName carries application_name to each backend.
	ReapplyApplicationName bool
	// Reset says when a backend's settings are reset; empty: ResetAuto.
	Reset Reset

	// PreparedPerBackend bounds server-side prepared statements of a backend.
	PreparedPerBackend int
	// PreparedPerClient bounds named statements of a client.
	PreparedPerClient int
	// PreparedBytesPerClient bounds the texts of those, PreparedTotalBytes those of all
	// clients and what is remembered of them: see textCost.
	PreparedBytesPerClient, PreparedTotalBytes int
	// StoredBytes bounds the rows of a session's cursors WITH HOLD, StoredTotalBytes those of
	// all sessions; 0: there are no such cursors.
	StoredBytes, StoredTotalBytes int
	// MemoryBytesPerClient bounds what one client has Sluice remember, MemoryTotalBytes what all have beside
	// prepared texts and the rows of cursors WITH HOLD; of MemoryLimit it has a quarter at most.
	MemoryBytesPerClient, MemoryTotalBytes int
	// MemoryLimit is the process's GOMEMLIMIT in bytes, above nine tenths of which nothing new
	// is begun; 0: none.
	MemoryLimit int64
	// PreparedTexts bounds the descriptions cached for all clients.
	PreparedTexts int
	// DescribeMemory is for how long Describe is answered from memory after the server
	// has shown that the answer holds; 0: never. DDL of others is told of that much later.
	DescribeMemory time.Duration
	// MaxStatementBytes bounds a Query or Parse frame that must be held in
	// memory; a longer Query passes unread, a longer Parse is refused.
	MaxStatementBytes int

	// WatchMapped refuses texts that name a table with mapped columns, where the planner maps
	// none.
	WatchMapped bool

	// MaySet are the configuration keys that clients may choose otherwise (rewrite.Choices), by
	// their startup and by SET. Empty: none, and such a setting is refused.
	MaySet []string
	// Users is what users have otherwise, by the name that a client logs in by. It does not ask
	// MaySet, and stands under what the client chooses.
	Users map[string]rewrite.Choices

	// Locks are the terms of advisory locks that are kept in a table, which the planner decides
	// (rewrite.Rules.Advisory). LockClock is the clock that they are kept by, which goes on while the
	// machine is suspended; nil: Go's.
	Locks     advisory.Terms
	LockClock func() time.Duration

	// Replay runs transactions that met a conflict again, by Retry's rules. It is
	// without effect where each client has a backend of its own.
	Replay bool
	Retry  retry.Config
	// UsersWithoutReplay are clients' users that get their conflicts themselves.
	UsersWithoutReplay []string
	// AlertConflictsPerMinute is how many conflicts in a minute are worth a line
	// in the log; 0: none are.
	AlertConflictsPerMinute int

	// LogSessions says which sessions have lines in the log. Empty: LogUnusual.
	LogSessions LogSessions

	// PlainConn turns the raw socket layer off.
	PlainConn bool
}

// dedicated reports whether each client has a backend of its own from the start. On DSQL
// none has: with pairing session a client there keeps the first backend that it is lent
// (session.keeps), and Sluice still answers for what the cluster lacks.
func (c *Config) dedicated() bool { return c.Kind == Postgres && c.Pairing == Session }

// withoutReplay reports whether a user's clients want no replay.
func (c *Config) withoutReplay(user string) bool { return slices.Contains(c.UsersWithoutReplay, user) }

// databases is the table that Databases describe, or why they cannot be.
func (c Config) databases() (database.Names, error) {
	return database.New(c.Databases, c.Database, c.dedicated())
}

// SchemaOf is what the planner is to know of Databases (rewrite.Rules.SchemaOf): nil where
// no name stands for a schema.
func (c Config) SchemaOf() func(database string) (schema string, ok bool) {
	if d, err := c.databases(); err == nil && d.HasSchemas() {
		return d.SchemaOf
	}
	return nil
}

// Validate reports every bad value at once, each by the name of its configuration key and
// with what is wanted. Bounds that concern other packages are theirs to check.
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
	if _, err := c.databases(); err != nil {
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
	check(c.Locks == (advisory.Terms{}) || c.Locks.Lease >= leastLockLease, rewrite.AdvisoryKey+"_lease", "%s: want at least %s", c.Locks.Lease, leastLockLease)
	check(c.Locks.Longest >= 0, rewrite.AdvisoryKey+"_longest", "%s: want 0 or more", c.Locks.Longest)
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
		allowed, weakens := c.weakening(entry)
		check(!weakens, "settings.ignored", "%q: a client would be told that it has what it has not; leave it out, or ignore a harmless value only: %s", entry, allowed)
	}
	check(c.MaxStatementBytes >= 64<<10, "rewrite.max_bytes", "%d: want at least 65536", c.MaxStatementBytes)
	errs = append(errs, c.Startup.Validate())
	return errors.Join(errs...)
}

// promises are settings by which a client asks for something that it then relies on, with
// the values that ask for nothing. To ignore any other value of theirs would tell a client
// that it has an isolation level, READ ONLY, another user or escaping strings, which it has
// not.
var promises = map[string][]string{
	"transaction_isolation":         {"read uncommitted", "read committed", "repeatable read"},
	"default_transaction_isolation": {"read uncommitted", "read committed", "repeatable read"},
	"transaction_read_only":         {"off"},
	"default_transaction_read_only": {"off"},
	"session_authorization":         {"default"},
	"standard_conforming_strings":   {"on"},
}

// weakening reports whether a setting, ignored as that entry says, would take a guarantee
// from a client that asks for it; allowed are the entries that do not. Only for kind dsql
// are settings ignored at all.
func (c Config) weakening(entry string) (allowed string, weakens bool) {
	name, value, _ := strings.Cut(entry, "=")
	name = strings.ToLower(strings.TrimSpace(name))
	harmless, promise := promises[name]
	if c.Kind != DSQL || !promise {
		return "", false
	}
	return name + "=" + strings.Join(harmless, ", "+name+"="),
		!slices.ContainsFunc(harmless, func(v string) bool { return settings.SameValue(v, value) })
}
