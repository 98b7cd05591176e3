package config

import (
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/rewrite"
)

// sessionKeys say what a session may hold, and how it ends.
var sessionKeys = []Key{
	{Name: "client.idle_timeout", Default: time.Duration(0), field: func(c *Config) any { return &c.Proxy.ClientIdleTimeout },
		help: "Close a client that is idle outside a transaction for so long. 0: never."},
	{Name: "client.idle_transaction_timeout", Default: time.Duration(0), field: func(c *Config) any { return &c.Proxy.IdleTransactionTimeout },
		help: "End a session that is idle inside a transaction for so long (25P03). 0: never."},

	{Name: "client.commit_grace", Default: 10 * time.Second, field: func(c *Config) any { return &c.Proxy.CommitGrace },
		help: "How long a statement that may commit goes on for a client that has said goodbye, before its backend is given up without stopping it. 0: until it ends."},
	{Name: "client.tcp_keepalive", Default: 30 * time.Second, field: func(c *Config) any { return &c.Proxy.ClientPathLimit },
		help: "How soon a client whose host is gone loses its connection, and with it its transaction. A client that only reads nothing does not count. 0: when the kernel gives up."},
	{Name: maySetKey, Default: []string{}, field: func(c *Config) any { return &c.Proxy.MaySet },
		help: "Keys that clients may choose otherwise for themselves, by the startup options (options=-c sluice.<key>=<value>) and by SET sluice.<key>; a NOTICE says what is given up. Of " + strings.Join(rewrite.ChoiceKeys(), ", ") + ". Kind dsql only."},
	{Name: usersKey, Default: []string{}, field: func(c *Config) any { return &c.Users },
		help: "What users have otherwise, each as user:key=value, of the same keys, whatever client.may_set says: migrator:ddl.carry_out=all. The user is the name that the client logs in by. Kind dsql only."},

	// Kubernetes kills 30 s after SIGTERM; five seconds are left for the end.
	{Name: "drain.mode", Default: DrainStop, field: func(c *Config) any { return &c.Drain.Mode },
		Choices: []string{DrainStop, DrainPlain, DrainNative},
		help:    "How SIGTERM is taken. stop: no new clients, sessions end between transactions. plain: SIGTERM reaches the application at the same time (a container beside it): new clients are served until none came for drain.quiet, then as stop. native: the application has ended before (a sidecar of Kubernetes): as stop, for 0.3 s at most."},
	{Name: "drain.timeout", Default: 25 * time.Second, field: func(c *Config) any { return &c.Drain.Timeout },
		help: "How long the end may take after SIGTERM before transactions are cut, below Kubernetes' grace of 30 s."},
	{Name: "drain.quiet", Default: 3 * time.Second, field: func(c *Config) any { return &c.Drain.Quiet },
		help: "With drain.mode plain: for how long no client must have come before new ones are refused, at most half of drain.timeout."},

	{Name: "credentials.require", Default: CredentialsAny, field: func(c *Config) any { return &c.CredentialsRequire },
		Choices: []string{CredentialsAny, CredentialsWebIdentity, CredentialsContainer, CredentialsInstance, CredentialsEnvironment, CredentialsProfile},
		help:    "The kind of AWS credentials to insist on, so that a pod without a role of its own does not get its node's: web-identity (IRSA), container (EKS Pod Identity, ECS), instance (a node's role), environment, profile (shared files). The log says which were found."},

	{Name: "pins.max", Default: 50, field: func(c *Config) any { return &c.Proxy.MaxPins },
		help: "Sessions that may keep a backend (LISTEN, temporary tables, session pairing, ...); more get 53300."},

	{Name: "cancel.grace", Default: time.Second, field: func(c *Config) any { return &c.Proxy.CancelGrace },
		help: "How long a cancel may stay without effect before Sluice gives up the backend to end the statement."},
	{Name: "cancel.forward", Default: "auto", field: func(c *Config) any { return &c.Cancel.Forward },
		Choices: []string{"auto", "true", "false"},
		help:    "Send cancels on to the backend. auto: for kind postgres only, DSQL ignores them."},

	{Name: "settings.ignored", Default: habitual, field: func(c *Config) any { return &c.Proxy.IgnoredSettings },
		help: "Settings that DSQL refuses and that Sluice answers itself without effect; name, or name=value for that value only. Replaces the default list."},
	{Name: "settings.reapply_application_name", Default: false, field: func(c *Config) any { return &c.Proxy.ReapplyApplicationName },
		help: "Carry each client's application_name to its backends (a round trip whenever it differs)."},

	{Name: "prepared.per_backend", Default: 200, field: func(c *Config) any { return &c.Proxy.PreparedPerBackend },
		help: "Prepared statements kept on one backend, least recently used first out."},
	{Name: "prepared.per_client", Default: 5000, field: func(c *Config) any { return &c.Proxy.PreparedPerClient },
		help: "Named statements of one client."},
	{Name: "prepared.bytes_per_client", Default: 16 << 20, field: func(c *Config) any { return &c.Proxy.PreparedBytesPerClient },
		help: "Bytes that the texts of one client's named statements may take, with their plans; a Parse beyond gets 53200."},
	{Name: "prepared.total_bytes", Default: 256 << 20, field: func(c *Config) any { return &c.Proxy.PreparedTotalBytes },
		help: "Bytes that the texts of all prepared statements and the descriptions of their columns may take, those that are only remembered included: of these the least recently used go first. Beyond, a Parse or a Describe gets 53200."},
	{Name: "prepared.texts", Default: 5000, field: func(c *Config) any { return &c.Proxy.PreparedTexts },
		help: "Statement descriptions remembered for all clients together."},
	{Name: "prepared.describe_memory", Default: 2 * time.Second, field: func(c *Config) any { return &c.Proxy.DescribeMemory },
		help: "Answer Describe from memory for so long after the server has last shown that the answer holds: saves lib/pq a round trip. 0: always ask."},

	{Name: "cursor.stored_bytes", Default: 16 << 20, field: func(c *Config) any { return &c.Proxy.StoredBytes },
		help: "Memory for the rows of one client's cursors WITH HOLD, which outlive their transaction. A cursor of more rows fails with 54000. 0: none. Kind dsql only."},
	{Name: "cursor.stored_total_bytes", Default: 256 << 20, field: func(c *Config) any { return &c.Proxy.StoredTotalBytes },
		help: "The same for all clients together."},

	{Name: "memory.bytes_per_client", Default: 24 << 20, field: func(c *Config) any { return &c.Proxy.MemoryBytesPerClient },
		help: "Bytes that one client may have Sluice remember: settings, savepoints, names and values of portals, prepared statements, rows of cursors WITH HOLD, data that are being read. Beyond, a request gets 53200."},
	{Name: "memory.total_bytes", Default: 256 << 20, field: func(c *Config) any { return &c.Proxy.MemoryTotalBytes },
		help: "The same for all clients together, beside prepared.total_bytes and cursor.stored_total_bytes. Of GOMEMLIMIT it is a quarter at most."},
}

// habitual are settings that clients send without needing an effect: DSQL
// refuses each of them (0A000, fatal at startup), and none changes what a
// statement means or returns on DSQL, which has no locks, no row security, one
// kind of durability and no planner memory to set. pg_dump, psql scripts and
// the pools of common drivers send them. standard_conforming_strings is always
// on there, and literals would mean something else with off: so only "on".
var habitual = []string{
	"check_function_bodies",
	"client_connection_check_interval",
	"client_min_messages",
	"default_table_access_method",
	"default_tablespace",
	"jit",
	"lock_timeout",
	"maintenance_work_mem",
	"row_security",
	"standard_conforming_strings=on",
	"synchronize_seqscans",
	"synchronous_commit",
	"tcp_keepalives_count",
	"tcp_keepalives_idle",
	"tcp_keepalives_interval",
	"tcp_user_timeout",
	"work_mem",
	"xmloption",
}

// processKeys are of the process.
var processKeys = []Key{
	{Name: "relay.plain_conn", Default: false, field: func(c *Config) any { return &c.Proxy.PlainConn },
		help: "Use Go's ordinary socket calls instead of the raw ones: slower, for comparison and for trouble."},

	{Name: "runtime.procs", Default: 0, field: func(c *Config) any { return &c.Runtime.Procs },
		help: "CPUs that run Go code. 0: 1 on machines with two CPUs or fewer, else Go's choice. A GOMAXPROCS variable wins."},

	{Name: "log.level", Default: "info", field: func(c *Config) any { return &c.Log.Level },
		Choices: []string{"debug", "info", "warn", "error"},
		help:    "Least important lines that are logged."},
	{Name: "log.sessions", Default: "unusual", field: func(c *Config) any { return (*string)(&c.Proxy.LogSessions) },
		Choices: []string{"all", "unusual", "none"},
		help:    "Sessions of clients that are logged: all have a line at their start and one at their end; unusual have one at an end that is not a client's who left of its own accord, between two transactions; none have any. Startups that are refused are logged in any case, and the metrics count all."},
	{Name: "log.format", Default: "text", field: func(c *Config) any { return &c.Log.Format },
		Choices: []string{"text", "json"},
		help:    "Form of the log on standard error."},
}
