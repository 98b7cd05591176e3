package main

import (
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/lease"
	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// envPrefix starts every variable that Sluice reads.
const envPrefix = "DSQL_"

// key is one row of the configuration table. Defaults, environment variables,
// flags, --help, the check command and the reference in docs/configuration.md all come from
// these rows and from nowhere else.
type key struct {
	// name in the file, dotted: "listen.address".
	name string
	// def is the default. Its type is the key's type: string, int, bool,
	// float64, time.Duration, []string or []rewrite.LockPolicy.
	def any
	// help is one sentence for --help and for the reference.
	help string
	// field is where the value goes: a pointer to def's type.
	field func(*Config) any
	// choices, when any, are the only values accepted.
	choices []string
	// secret values are never printed, and have no flag: flags show in ps.
	secret bool
}

// env is the environment variable of a key.
func (k *key) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(k.name, ".", "_"))
}

// flag is the flag of a key, without dashes; "" when it has none.
func (k *key) flag() string {
	if k.secret {
		return ""
	}
	return strings.NewReplacer(".", "-", "_", "-").Replace(k.name)
}

// explain is the help with what follows from the rest of the row.
func (k *key) explain() string {
	text := k.help
	if k.choices != nil {
		text += " One of: " + strings.Join(k.choices, ", ") + "."
	}
	return text
}

// flagAliases are short spellings of flags that are typed often.
var flagAliases = map[string]string{
	"endpoint": "backend-endpoint",
}

// habitual are settings that clients send without needing an effect: DSQL
// refuses each of them (0A000, fatal at startup), and none changes what a
// statement means or returns on DSQL, which has no locks, no row security, one
// kind of durability and no planner memory to set. pg_dump, psql scripts and
// the pools of common drivers send them. standard_conforming_strings is always
// on there, and literals would mean something else with off: so only "on". Of
// default_transaction_read_only "off" is what is so anyway, and "on" is refused.
var habitual = []string{
	"check_function_bodies",
	"client_connection_check_interval",
	"client_min_messages",
	"default_table_access_method",
	"default_tablespace",
	"default_transaction_read_only=off",
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

// keys is the table, in the order of the reference.
var keys = []key{
	{name: "listen.address", def: "127.0.0.1:5432", field: func(c *Config) any { return &c.Listen.Address },
		help: "Where clients connect, host:port. Empty: no TCP listener."},
	{name: "listen.unix_socket", def: "", field: func(c *Config) any { return &c.Listen.UnixSocket },
		help: "Directory of a Unix socket named .s.PGSQL.<port of listen.address>. Empty: none."},
	{name: "listen.unix_socket_mode", def: "auto", field: func(c *Config) any { return &c.Listen.UnixSocketMode },
		help: "Mode of the Unix socket in octal, such as 0770: who may connect. auto: 0777 where auth.method asks for a proof, 0770 with trust."},
	{name: "listen.databases", def: []string{}, field: func(c *Config) any { return &c.Proxy.Databases },
		help: "Database names that clients may ask for; others get 3D000. Empty: any name, and all mean backend.database. name=schema:<schema> and <prefix>*=schema:* stand for schemas (docs/databases.md). For kind postgres with pairing session also name=database."},
	{name: "listen.max_clients", def: 5000, field: func(c *Config) any { return &c.Proxy.MaxClients },
		help: "Client connections open at once; more get 53300. The default follows the limit of file descriptors (ulimit -n) where that leaves fewer."},
	{name: "listen.startup_timeout", def: 15 * time.Second, field: func(c *Config) any { return &c.Proxy.Startup.Timeout },
		help: "How long a client may take to start up and authenticate."},

	{name: "tls.cert_file", def: "", field: func(c *Config) any { return &c.TLS.Cert },
		help: "Certificate chain (PEM) offered to clients. Empty: TLS is not offered. Reloaded on change and on SIGHUP."},
	{name: "tls.key_file", def: "", field: func(c *Config) any { return &c.TLS.Key },
		help: "Private key (PEM) of tls.cert_file."},
	{name: "tls.client_ca_file", def: "", field: func(c *Config) any { return &c.TLS.ClientCA },
		help: "Authorities (PEM) that client certificates are verified against."},
	{name: "tls.required", def: false, field: func(c *Config) any { return &c.Proxy.Startup.TLSRequired },
		help: "Refuse clients that come by TCP without TLS."},

	{name: "auth.method", def: "trust", field: func(c *Config) any { return (*string)(&c.Proxy.Startup.Method) },
		choices: []string{"trust", "scram-sha-256", "cert"},
		help:    "How clients prove who they are: trust asks nothing, cert wants a client certificate whose CN is the user."},
	{name: "auth.users_file", def: "", field: func(c *Config) any { return &c.Proxy.Startup.UsersFile },
		help: "Users and SCRAM verifiers in the form of PgBouncer's userlist.txt. Reloaded on change and on SIGHUP."},
	{name: "auth.allow_remote_trust", def: false, field: func(c *Config) any { return &c.Listen.AllowRemoteTrust },
		help: "Allow auth.method trust on a listener that other machines can reach."},

	{name: "admin.address", def: "127.0.0.1:9432", field: func(c *Config) any { return &c.Admin.Address },
		help: "Where /metrics, /startupz, /livez and /readyz are served, host:port; nothing there changes any state. Empty: nowhere."},

	{name: "pairing", def: "transaction", field: func(c *Config) any { return (*string)(&c.Proxy.Pairing) },
		choices: []string{"transaction", "session"},
		help:    "For how long a client keeps a backend: one transaction, or its whole session."},

	{name: "backend.kind", def: "dsql", field: func(c *Config) any { return &c.Dial.Kind },
		choices: []string{"dsql", "postgres"},
		help:    "What is behind Sluice: Aurora DSQL (IAM tokens, verified TLS) or a plain PostgreSQL."},
	{name: "backend.endpoint", def: "", field: func(c *Config) any { return &c.Dial.Endpoint },
		help: "Name of the cluster, <id>.dsql.<region>.on.aws: host of the token, SNI and verified name. Also --endpoint. For kind postgres: the server's host name."},
	{name: "backend.address", def: "", field: func(c *Config) any { return &c.Dial.Address },
		help: "Host to dial instead of backend.endpoint (PrivateLink, tunnels)."},
	{name: "backend.port", def: 5432, field: func(c *Config) any { return &c.Dial.Port },
		help: "Port to dial."},
	{name: "backend.region", def: "", field: func(c *Config) any { return &c.Dial.Region },
		help: "AWS region that tokens are signed for. Empty: the one in backend.endpoint."},
	{name: "backend.ca_file", def: "", field: func(c *Config) any { return &c.Dial.CAFile },
		help: "Authorities (PEM) that the backend's certificate is verified against. Empty: the system's. Reloaded on change and on SIGHUP."},
	{name: "backend.user", def: "admin", field: func(c *Config) any { return &c.Dial.User },
		help: "Database role of every backend connection."},
	{name: "backend.database", def: "postgres", field: func(c *Config) any { return &c.Dial.Database },
		help: "Database of every backend connection, whatever name a client asks for."},
	{name: "backend.password", def: "", field: func(c *Config) any { return &c.Dial.Password }, secret: true,
		help: "Password of backend.user; kind postgres only. It has no flag: a command line is public."},
	{name: "backend.sslmode", def: "prefer", field: func(c *Config) any { return &c.Dial.SSLMode },
		choices: []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"},
		help:    "TLS to the backend as in libpq; kind postgres only: DSQL is always verify-full."},
	{name: "backend.channel_binding", def: "prefer", field: func(c *Config) any { return &c.Dial.ChannelBinding },
		choices: []string{"disable", "prefer", "require"},
		help:    "Channel binding of SCRAM as in libpq; kind postgres only. require: the server must know the password and hold the certificate of the connection."},

	{name: "backend.max_message_bytes", def: byKind, field: func(c *Config) any { return &c.Proxy.MaxMessageBytes },
		help: "The longest message that the backend takes; a longer one gets 54000 and costs no backend. 0: any. -1: 10 MiB for kind dsql, whose clusters close the connection over a longer one, any for kind postgres. COPY data and sessions with a backend of their own are not looked at."},
	{name: "backend.silence_timeout", def: "auto", field: func(c *Config) any { return &c.SilenceTimeout },
		help: "How long the backend may send nothing while it owes an answer before it is given up, and nothing of it is sent again; not for COPY and CALL. auto: 330s for kind dsql, whose statements end at 300 s, off for kind postgres. 0: for ever."},
	{name: "backend.tcp_user_timeout", def: 20 * time.Second, field: func(c *Config) any { return &c.Proxy.BackendPathLimit },
		help: "How long the backend's host may leave what it was sent unacknowledged before the connection is lost; as tcp_user_timeout, but a host that only takes nothing more does not count. 0: as long as the kernel tries."},
	{name: "backend.tcp_keepalive", def: 20 * time.Second, field: func(c *Config) any { return &c.Dial.KeepAlive },
		help: "How soon the kernel finds out that the backend's host is gone while nothing is under way. 0: never."},

	{name: "connection.rate_limit", def: byKind, field: func(c *Config) any { return &c.Reservoir.RateLimit },
		help: "Backend connections dialled per second by this process. -1: 10 for kind dsql, whose clusters take 100/s from all, and 1000 for kind postgres."},
	{name: "connection.burst_limit", def: byKind, field: func(c *Config) any { return &c.Reservoir.BurstLimit },
		help: "Backend connections that may be dialled at once before the rate applies. -1: 100 for kind dsql, whose clusters take 1,000 from all, and 1000 for kind postgres."},

	{name: "reservoir.max_open", def: reservoir.DefaultMaxOpen, field: func(c *Config) any { return &c.Reservoir.MaxOpen },
		help: "Backends in use, ready and being dialled, together."},
	{name: "reservoir.enabled", def: true, field: func(c *Config) any { return &c.ReservoirEnabled },
		help: "Dial backends ahead of demand. false: on demand, as reservoir.target_ready 0."},
	{name: "reservoir.target_ready", def: fillAll, field: func(c *Config) any { return &c.Reservoir.TargetReady },
		help: "Backends, in use and ready together, that are kept open ahead of demand. 0: dial on demand. -1: reservoir.max_open."},
	{name: "reservoir.low_watermark", def: fillAll, field: func(c *Config) any { return &c.Reservoir.LowWatermark },
		help: "Backends that are dialled as fast as the limits allow; above it one per second, unless somebody waits. -1: reservoir.max_open."},
	{name: "reservoir.initial_fill_timeout", def: reservoir.DefaultInitialFill, field: func(c *Config) any { return &c.Reservoir.InitialFillTimeout },
		help: "How long /readyz waits for reservoir.low_watermark backends after the start. 0: not at all."},
	{name: "reservoir.probe_interval", def: reservoir.DefaultProbeInterval, field: func(c *Config) any { return &c.Reservoir.ProbeInterval },
		help: "How often a ready backend that is not used must answer a round trip, so that a dead one is found before a client gets it. 0: only when another backend fails without a word."},
	{name: "reservoir.checkout_wait", def: reservoir.DefaultCheckoutWait, field: func(c *Config) any { return &c.Reservoir.CheckoutWait },
		help: "How long a transaction waits for a backend before it gets 53300."},
	{name: "reservoir.base_lifetime", def: reservoir.DefaultBaseLifetime, field: func(c *Config) any { return &c.Reservoir.BaseLifetime },
		help: "Age at which a backend is retired (DSQL closes at 60 minutes)."},
	{name: "reservoir.lifetime_jitter", def: reservoir.DefaultLifetimeJitter, field: func(c *Config) any { return &c.Reservoir.LifetimeJitter },
		help: "Random addition to each backend's lifetime, so that they do not end together."},
	{name: "reservoir.guard_window", def: reservoir.DefaultGuardWindow, field: func(c *Config) any { return &c.Reservoir.GuardWindow },
		help: "A backend this close to its end is not lent."},
	{name: "reservoir.dial_timeout", def: 10 * time.Second, field: func(c *Config) any { return &c.Dial.Timeout },
		help: "How long one dial may take, from DNS to the first ReadyForQuery."},
	{name: "reservoir.reset", def: "auto", field: func(c *Config) any { return (*string)(&c.Proxy.Reset) },
		choices: []string{"auto", "always", "never"},
		help: "When a backend's settings are reset before its next transaction, beyond what clients are seen to set: auto, behind a text that calls a function which may change settings unseen (kind postgres; functions of DSQL cannot); " +
			"always, behind every transaction, at the price of a round trip: triggers, views, defaults and operators may call functions as well; never."},

	{name: "client.idle_timeout", def: time.Duration(0), field: func(c *Config) any { return &c.Proxy.ClientIdleTimeout },
		help: "Close a client that is idle outside a transaction for so long. 0: never."},
	{name: "client.idle_transaction_timeout", def: time.Duration(0), field: func(c *Config) any { return &c.Proxy.IdleTransactionTimeout },
		help: "End a session that is idle inside a transaction for so long (25P03). 0: never."},

	{name: "client.commit_grace", def: 10 * time.Second, field: func(c *Config) any { return &c.Proxy.CommitGrace },
		help: "How long a statement that may commit goes on for a client that has said goodbye, before its backend is given up without stopping it. 0: until it ends."},
	{name: "client.tcp_keepalive", def: 30 * time.Second, field: func(c *Config) any { return &c.Proxy.ClientPathLimit },
		help: "How soon a client whose host is gone loses its connection, and with it its transaction. A client that only reads nothing does not count. 0: when the kernel gives up."},
	{name: maySetKey, def: []string{}, field: func(c *Config) any { return &c.Proxy.MaySet },
		help: "Keys that clients may choose otherwise for themselves, by the startup options (options=-c sluice.<key>=<value>) and by SET sluice.<key>; a NOTICE says what is given up. Of " + strings.Join(rewrite.ChoiceKeys(), ", ") + ". Kind dsql only."},
	{name: usersKey, def: []string{}, field: func(c *Config) any { return &c.Users },
		help: "What users have otherwise, each as user:key=value, of the same keys, whatever client.may_set says: migrator:ddl.carry_out=all. The user is the name that the client logs in by. Kind dsql only."},

	// Kubernetes kills 30 s after SIGTERM; five seconds are left for the end.
	{name: "drain.mode", def: drainStop, field: func(c *Config) any { return &c.Drain.Mode },
		choices: []string{drainStop, drainPlain, drainNative},
		help:    "How SIGTERM is taken. stop: no new clients, sessions end between transactions. plain: SIGTERM reaches the application at the same time (a container beside it): new clients are served until none came for drain.quiet, then as stop. native: the application has ended before (a sidecar of Kubernetes): as stop, for 0.3 s at most."},
	{name: "drain.timeout", def: 25 * time.Second, field: func(c *Config) any { return &c.Drain.Timeout },
		help: "How long the end may take after SIGTERM before transactions are cut, below Kubernetes' grace of 30 s."},
	{name: "drain.quiet", def: 3 * time.Second, field: func(c *Config) any { return &c.Drain.Quiet },
		help: "With drain.mode plain: for how long no client must have come before new ones are refused, at most half of drain.timeout."},

	{name: "credentials.require", def: anyCredentials, field: func(c *Config) any { return &c.CredentialsRequire },
		choices: []string{anyCredentials, webIdentity, container, instance, environment, profile},
		help:    "The kind of AWS credentials to insist on, so that a pod without a role of its own does not get its node's: web-identity (IRSA), container (EKS Pod Identity, ECS), instance (a node's role), environment, profile (shared files). The log says which were found."},

	{name: "pins.max", def: 50, field: func(c *Config) any { return &c.Proxy.MaxPins },
		help: "Sessions that may keep a backend (LISTEN, temporary tables, session pairing, ...); more get 53300."},

	{name: "cancel.grace", def: time.Second, field: func(c *Config) any { return &c.Proxy.CancelGrace },
		help: "How long a cancel may stay without effect before Sluice gives up the backend to end the statement."},
	{name: "cancel.forward", def: "auto", field: func(c *Config) any { return &c.Cancel.Forward },
		choices: []string{"auto", "true", "false"},
		help:    "Send cancels on to the backend. auto: for kind postgres only, DSQL ignores them."},

	{name: "settings.ignored", def: habitual, field: func(c *Config) any { return &c.Proxy.IgnoredSettings },
		help: "Settings that DSQL refuses and that Sluice answers itself without effect; name, or name=value for that value only. Replaces the default list."},
	{name: "settings.reapply_application_name", def: false, field: func(c *Config) any { return &c.Proxy.ReapplyApplicationName },
		help: "Carry each client's application_name to its backends (a round trip whenever it differs)."},

	{name: "prepared.per_backend", def: 200, field: func(c *Config) any { return &c.Proxy.PreparedPerBackend },
		help: "Prepared statements kept on one backend, least recently used first out."},
	{name: "prepared.per_client", def: 5000, field: func(c *Config) any { return &c.Proxy.PreparedPerClient },
		help: "Named statements of one client."},
	{name: "prepared.bytes_per_client", def: 16 << 20, field: func(c *Config) any { return &c.Proxy.PreparedBytesPerClient },
		help: "Bytes that the texts of one client's named statements may take, with their plans; a Parse beyond gets 53200."},
	{name: "prepared.total_bytes", def: 256 << 20, field: func(c *Config) any { return &c.Proxy.PreparedTotalBytes },
		help: "Bytes that the texts of all prepared statements and the descriptions of their columns may take, those that are only remembered included: of these the least recently used go first. Beyond, a Parse or a Describe gets 53200."},
	{name: "prepared.texts", def: 5000, field: func(c *Config) any { return &c.Proxy.PreparedTexts },
		help: "Statement descriptions remembered for all clients together."},
	{name: "prepared.describe_memory", def: 2 * time.Second, field: func(c *Config) any { return &c.Proxy.DescribeMemory },
		help: "Answer Describe from memory for so long after the server has last shown that the answer holds: saves lib/pq a round trip. 0: always ask."},

	{name: "cursor.stored_bytes", def: 16 << 20, field: func(c *Config) any { return &c.Proxy.StoredBytes },
		help: "Memory for the rows of one client's cursors WITH HOLD, which outlive their transaction. A cursor of more rows fails with 54000. 0: none. Kind dsql only."},
	{name: "cursor.stored_total_bytes", def: 256 << 20, field: func(c *Config) any { return &c.Proxy.StoredTotalBytes },
		help: "The same for all clients together."},

	{name: "rewrite.max_bytes", def: rewrite.DefaultMaxBytes, field: func(c *Config) any { return &c.Rewrite.MaxBytes },
		help: "Longer statements are passed on unread and pin their session; a longer Parse is refused."},
	{name: "rewrite.max_nesting", def: rewrite.DefaultMaxNesting, field: func(c *Config) any { return &c.Rewrite.MaxNesting },
		help: "Statements nested or chained deeper are passed on unread and pin their session (the parser's stack is finite)."},
	{name: "rewrite.cache_entries", def: rewrite.DefaultCacheEntries, field: func(c *Config) any { return &c.Rewrite.CacheEntries },
		help: "Statement texts whose plan is remembered."},
	{name: "rewrite.cache_bytes", def: rewrite.DefaultCacheBytes, field: func(c *Config) any { return &c.Rewrite.CacheBytes },
		help: "Memory for remembered plans."},
	{name: "rewrite.enabled", def: "auto", field: func(c *Config) any { return &c.RewriteEnabled },
		choices: []string{"auto", "true", "false"},
		help:    "Rewrite what DSQL spells differently. auto: for kind dsql only."},
	{name: "rewrite.locking", def: true, field: func(c *Config) any { return &c.Rewrite.Rules.Locking },
		help: "Rewrite FOR SHARE and FOR NO KEY UPDATE, to FOR UPDATE where rewrite.locking_policies say nothing else."},
	{name: "rewrite.locking_policies", def: []rewrite.LockPolicy{}, field: func(c *Config) any { return &c.Rewrite.Rules.Policies },
		help: "What becomes of locking clauses, by table; the first that matches counts. Each has tables (patterns), policy (update, key-share, strip, flag, reject), " +
			"and may have clauses (share, no key update), fenced_by (the column that fences instead; strip needs it) and name (the operation in metrics). As JSON outside of the file."},
	{name: "rewrite.chunked_delete", def: []string{}, field: func(c *Config) any { return &c.Rewrite.Rules.Chunked },
		help: "Tables (patterns: * stands for any text, ? for one character) whose DELETEs are carried out in batches where one is over the 3,000 rows of a transaction, which fails on DSQL. Each batch is a transaction of its own: one that fails leaves those before it deleted. Only for a DELETE that is sent alone, outside a transaction, by comparisons of columns with constants or parameters. Kind dsql only."},
	{name: "rewrite.split_for_update", def: true, field: func(c *Config) any { return &c.Rewrite.Rules.Split },
		help: "Split FOR UPDATE over several tables on clusters that refuse it."},
	{name: "rewrite.create_index", def: true, field: func(c *Config) any { return &c.Rewrite.Rules.Index },
		help: "Rewrite CREATE INDEX to CREATE INDEX ASYNC."},
	{name: rewrite.CreateIndexWaitKey, def: true, field: func(c *Config) any { return &c.Rewrite.Rules.AwaitIndex },
		help: "Answer a rewritten CREATE INDEX when its job is done; inside a transaction block nobody waits."},
	{name: "rewrite.serial", def: true, field: func(c *Config) any { return &c.Rewrite.Rules.Serial },
		help: "Rewrite serial and identity columns to bigint identity columns, and give them and sequences the cache of rewrite.sequence_cache where they have none that DSQL takes."},
	{name: rewrite.SequenceCacheKey, def: 1, field: func(c *Config) any { return &c.Rewrite.Rules.SequenceCache },
		help: "The CACHE that rewrite.serial writes: 1, or 65536 and more. 1 keeps the order of numbers close to that of commits, and each number is asked of the cluster; a larger one gives each session a range of its own."},
	{name: "rewrite.add_column", def: true, field: func(c *Config) any { return &c.Rewrite.Rules.AddColumn },
		help: "Take NULL out of ALTER TABLE ... ADD COLUMN, which DSQL refuses as a constraint."},
	{name: "rewrite.databases", def: true, field: func(c *Config) any { return &c.Rewrite.Rules.Databases },
		help: "Answer CREATE DATABASE (42P04) and DROP DATABASE (success): there is one database. Names that stand for schemas (listen.databases) do not ask this key."},
	{name: "rewrite.isolation", def: "auto", field: func(c *Config) any { return &c.RewriteIsolation },
		choices: []string{"auto", "true", "false"},
		help:    "Take isolation levels up to REPEATABLE READ for DSQL's own. auto: for kind dsql only."},
	{name: rewrite.SerializableKey, def: "refuse", field: func(c *Config) any { return &c.RewriteSerializable },
		choices: []string{"refuse", "repeatable_read"},
		help: "What becomes of a transaction that asks for SERIALIZABLE, which DSQL has not. refuse: the statement fails, with a hint. repeatable_read: it is taken for REPEATABLE READ, with a WARNING each time: " +
			"two transactions of which each reads what the other writes may then both commit (write skew). Kind dsql only, with rewrite.isolation."},
	{name: "rewrite.session", def: "auto", field: func(c *Config) any { return &c.RewriteSession },
		choices: []string{"auto", "true", "false"},
		help:    "Answer DISCARD PLANS, SEQUENCES and TEMP, take SELECT set_config() of constants for a SET, and LOCK TABLE IN ACCESS SHARE MODE for a look at the tables. auto: for kind dsql only."},
	{name: rewrite.ExtensionsKey, def: "auto", field: func(c *Config) any { return &c.RewriteExtensions },
		choices: []string{"auto", "true", "false"},
		help:    "Answer CREATE, DROP and COMMENT ON EXTENSION of uuid-ossp, pgcrypto and plpgsql, with a notice that names which of their functions there are, and rewrite uuid_generate_v4() to gen_random_uuid(). auto: for kind dsql only."},
	{name: "rewrite.cursors", def: "auto", field: func(c *Config) any { return &c.RewriteCursors },
		choices: []string{"auto", "true", "false"},
		help:    "Carry DECLARE, FETCH, MOVE and CLOSE out over portals of the protocol, forward and inside a transaction, and cursors WITH HOLD in memory (cursor.stored_bytes). auto: for kind dsql only."},
	{name: rewrite.TruncateKey, def: string(rewrite.TruncateRefuse), field: func(c *Config) any { return &c.Truncate },
		choices: []string{string(rewrite.TruncateRefuse), string(rewrite.TruncateDelete), string(rewrite.TruncateBatches)},
		help: "What becomes of TRUNCATE, which DSQL refuses. refuse: its error gets a hint. delete: a DELETE of all rows in the transaction at hand, which fails (54000) beyond 3,000 rows. " +
			"batches: likewise, but where that fails and the statement was sent alone outside of a transaction the rows are deleted in batches, each a transaction of its own, with a warning. " +
			"A table that another one refers to is refused as PostgreSQL does; so are CASCADE where it would have an effect, and RESTART IDENTITY of a table with a sequence. Kind dsql only."},
	{name: rewrite.AdvisoryKey, def: "refuse", field: func(c *Config) any { return &c.AdvisoryLocks },
		choices: []string{"refuse", "table"},
		help: "What becomes of advisory locks, which DSQL has not. refuse: the cluster refuses the functions. table: exclusive locks of sessions (pg_advisory_lock, pg_try_advisory_lock, pg_advisory_unlock, pg_advisory_unlock_all), each in a SELECT of its own, are rows of the table sluice.advisory_locks, " +
			"which is made at the first use; whoever holds one renews it, and loses it where its Sluice is silent for longer than rewrite.advisory_locks_lease. Locks of a transaction and shared ones are refused. Kind dsql only."},
	{name: rewrite.AdvisoryKey + "_lease", def: proxy.DefaultLockLease, field: func(c *Config) any { return &c.Proxy.Locks.Lease },
		help: "For how long an advisory lock is left alone whose holder's Sluice is silent. It is renewed three times as often. A transaction of a holder that was overtaken fails at COMMIT (40001)."},
	{name: rewrite.AdvisoryKey + "_longest", def: proxy.DefaultLockLongest, field: func(c *Config) any { return &c.Proxy.Locks.Longest },
		help: "For how long more, where its holder may have DDL under way, with which no takeover conflicts: the longest that a statement takes from when it is sent to its end. DSQL ends transactions after 5 minutes."},
	{name: "rewrite.bytea", def: "auto", field: func(c *Config) any { return &c.RewriteBytea },
		choices: []string{"auto", "off", "hex", "hex-cast"},
		help:    "How columns of type bytea that are in keys, which DSQL refuses, are stored. hex: as text of hexadecimal digits under the name with __byteahex behind it, and statements over them are rewritten, so that clients see bytea; for kind dsql only. hex-cast: the same columns, by casts, for a cluster without encode() and decode() (sluice doctor tells). off: not at all. auto: hex where statements are rewritten for kind dsql, else off."},
	{name: "rewrite.bytea_check", def: true, field: func(c *Config) any { return &c.Rewrite.Rules.ByteaCheck },
		help: "Give each such column of a new table a CHECK that takes lower-case hexadecimal digits only, and take a column for one of them only where it has the CHECK."},
	{name: "rewrite.bytea_columns", def: []string{}, field: func(c *Config) any { return &c.Rewrite.Rules.ByteaColumns },
		help: "Columns of type bytea, each as table.column, that CREATE TABLE stores so though they are in no key: for an index to come."},

	{name: rewrite.CarryOutKey, def: "exact", field: func(c *Config) any { return &c.DDLCarryOut },
		choices: []string{"exact", carryOutAll},
		help: "Whether DDL is carried out that DSQL has nothing exactly like, as migration tools send it. exact: where the key for it says so. " +
			"all: ddl.add_column_default is backfill, ddl.alter_column_type rewrite, ddl.in_transactions autocommit-destructive and ddl.set_not_null check, each where it is at auto; the client is told of each use by a WARNING. Kind dsql only."},
	{name: "ddl.add_column_default", def: "auto", field: func(c *Config) any { return &c.AddColumnDefault },
		choices: []string{"auto", "refuse", "backfill"},
		help: "What becomes of ALTER TABLE ... ADD COLUMN with a DEFAULT, which DSQL refuses. refuse: its error gets a hint with the statements to write. backfill: for a constant, and sent alone outside of a transaction, " +
			"the column is added under another name, its default is set, the rows are given it in batches, each a transaction of its own, and then it gets its name; NOT NULL is given up, with a warning. Kind dsql only."},
	{name: "ddl.add_constraint", def: "steps", field: func(c *Config) any { return &c.AddConstraint },
		choices: []string{"steps", "refuse"},
		help: "What becomes of ALTER TABLE that adds UNIQUE, FOREIGN KEY or CHECK, also with a column, which DSQL refuses. steps: where the statement is sent alone outside of a transaction, it is carried out in the steps that DSQL has, each a transaction of its own " +
			"(a unique index ASYNC and USING INDEX; NOT VALID and ALTER TABLE ASYNC ... VALIDATE CONSTRAINT), answered when the constraint is valid, and undone when one fails. refuse: its error gets a hint. On kind dsql only."},
	{name: "ddl.set_not_null", def: "auto", field: func(c *Config) any { return &c.SetNotNull },
		choices: []string{"auto", "refuse", "check"},
		help:    "What becomes of ALTER COLUMN ... SET NOT NULL, and of ADD COLUMN ... NOT NULL without a DEFAULT, which DSQL refuses. refuse: its error gets a hint. check: a validated CHECK (column IS NOT NULL) is added as ddl.add_constraint adds others, with a warning: the errors of it have the code 23514, and the catalog shows the column as nullable. Kind dsql only."},
	{name: rewrite.RetypeKey, def: "auto", field: func(c *Config) any { return &c.AlterColumnType },
		choices: []string{"auto", "refuse", "rewrite"},
		help: "What becomes of ALTER COLUMN ... TYPE, which DSQL refuses, between strings (varchar, text, char) or between numbers. refuse: its error gets a hint with the statements to write. rewrite: sent alone outside of a transaction, " +
			"a column of the type is added, is given the values in batches and indexes like the old one's, and takes its place, each step a transaction of its own, with a warning: it is the table's last column then, " +
			"and other clients are told for a moment that the column does not exist (42703). A column that is in the primary key, or in a foreign key, a CHECK, a view or an expression, is left as it is, and so is one with NOT NULL unless ddl.set_not_null is check. Kind dsql only."},

	{name: rewrite.InTransactionsKey, def: "auto", field: func(c *Config) any { return &c.DDLInTransactions },
		choices: append([]string{"auto"}, rewrite.InTransactionsChoices()...),
		help: "What becomes of DDL in a transaction beside other statements, which DSQL refuses. refuse: its error gets a hint with the migration tools' own switches. autocommit: the transaction is committed in front of DDL and behind it, " +
			"as late as can be, with a WARNING each time, and a ROLLBACK says what stays; one that holds a single statement of DDL is run as it is asked. autocommit-destructive: also behind DROP of a table, column or schema. Kind dsql only."},

	{name: rewrite.CopyFromKey, def: "server", field: func(c *Config) any { return &c.CopyFrom },
		choices: []string{"server", "insert"},
		help: "What becomes of COPY ... FROM STDIN, which DSQL is not known to take. server: it is sent as it is. insert: it is carried out by INSERTs, in all formats; in a transaction they are part of that; outside, in batches of at most 3,000 rows and 8 MiB, " +
			"each a transaction of its own, so that a COPY of more than one batch is not atomic: the client is told by a WARNING, and by an error how many rows stay. Kind dsql only."},

	{name: "retry.enabled", def: "auto", field: func(c *Config) any { return &c.Retry.Enabled },
		choices: []string{"auto", "true", "false"},
		help:    "Run transactions that met a conflict (40001), or lost their backend, again where the client cannot tell. auto: for kind dsql only. Without effect for kind postgres with pairing session."},
	{name: "retry.max_retries", def: retry.DefaultMaxRetries, field: func(c *Config) any { return &c.Proxy.Retry.Policy.MaxRetries },
		help: "How often one transaction is run again, beside the first replay where retry.first_delay is less than retry.base_delay. 0: never."},
	{name: "retry.first_delay", def: retry.DefaultFirstDelay, field: func(c *Config) any { return &c.Proxy.Retry.Policy.FirstDelay },
		help: "Pause before the first replay: whoever won has mostly committed by then. From retry.base_delay on it changes nothing. The first schema conflict and the first lost backend do not wait."},
	{name: "retry.base_delay", def: retry.DefaultBaseDelay, field: func(c *Config) any { return &c.Proxy.Retry.Policy.BaseDelay },
		help: "Pause before the replay behind that, doubled each time."},
	{name: "retry.max_delay", def: retry.DefaultMaxDelay, field: func(c *Config) any { return &c.Proxy.Retry.Policy.MaxDelay },
		help: "Longest pause."},
	{name: "retry.jitter_factor", def: retry.DefaultJitterFactor, field: func(c *Config) any { return &c.Proxy.Retry.Policy.JitterFactor },
		help: "A pause varies by up to this part of it, both ways. 0 to 1."},
	{name: "retry.max_elapsed", def: retry.DefaultMaxElapsed, field: func(c *Config) any { return &c.Proxy.Retry.Policy.MaxElapsed },
		help: "Longest time from the first conflict to the start of the last attempt."},
	{name: "retry.budget_burst", def: retry.DefaultBudgetBurst, field: func(c *Config) any { return &c.Proxy.Retry.BudgetBurst },
		help: "Replays of this process that may be saved up; without one left, clients get their conflicts at once."},
	{name: "retry.budget_per_commit", def: retry.DefaultBudgetPerCommit, field: func(c *Config) any { return &c.Proxy.Retry.BudgetPerCommit },
		help: "Replays that each commit adds."},
	{name: "retry.budget_per_second", def: float64(retry.DefaultBudgetPerSecond), field: func(c *Config) any { return &c.Proxy.Retry.BudgetPerSecond },
		help: "Replays that each second adds."},
	{name: "retry.gate_hold", def: retry.DefaultGateHold, field: func(c *Config) any { return &c.Proxy.Retry.GateHold },
		help: "How long one transaction that is run again may keep others from what it fights for."},
	{name: "retry.log_bytes", def: retry.DefaultLogBytes, field: func(c *Config) any { return &c.Proxy.Retry.LogBytes },
		help: "What one transaction may send and still be run again."},
	{name: "retry.log_total_bytes", def: retry.DefaultLogTotalBytes, field: func(c *Config) any { return &c.Proxy.Retry.LogTotalBytes },
		help: "The same for all transactions together."},
	{name: "retry.held_bytes", def: retry.DefaultHeldBytes, field: func(c *Config) any { return &c.Proxy.Retry.HeldBytes },
		help: "Output of a request that is held back while a conflict may still replace it. 0: none."},
	{name: "retry.held_total_bytes", def: retry.DefaultHeldTotalBytes, field: func(c *Config) any { return &c.Proxy.Retry.HeldTotalBytes },
		help: "The same for all requests together."},
	{name: "retry.hold_time", def: retry.DefaultHoldTime, field: func(c *Config) any { return &c.Proxy.Retry.HoldTime },
		help: "How long output is held back at most."},
	{name: "retry.savepoints", def: "auto", field: func(c *Config) any { return &c.Retry.Savepoints },
		choices: []string{"auto", "strict", "relaxed", "off"},
		help:    "Emulate SAVEPOINT, RELEASE and ROLLBACK TO: to return to a savepoint the transaction is rolled back and run again up to it, and fails with 40001 where it answers otherwise than it did. strict: what ROLLBACK TO has discarded is run again, too, on a second connection, and must answer what it answered; relaxed: only what was read before its first write is; off: the server is asked. auto: strict for kind dsql, where retry.enabled is on, else off."},
	{name: "retry.off_users", def: []string{}, field: func(c *Config) any { return &c.Proxy.UsersWithoutReplay },
		help: "Users whose clients get their conflicts themselves. A client may also ask for that with the startup option sluice.retry=off, a statement with the comment /* sluice: no-retry */."},
	{name: "alert_threshold_conflicts_per_minute", def: 100, field: func(c *Config) any { return &c.Proxy.AlertConflictsPerMinute },
		help: "Conflicts in a minute above which a warning is logged. 0: never."},

	{name: "relay.plain_conn", def: false, field: func(c *Config) any { return &c.Proxy.PlainConn },
		help: "Use Go's ordinary socket calls instead of the raw ones: slower, for comparison and for trouble."},

	{name: "runtime.procs", def: 0, field: func(c *Config) any { return &c.Runtime.Procs },
		help: "CPUs that run Go code. 0: 1 on machines with two CPUs or fewer, else Go's choice. A GOMAXPROCS variable wins."},

	{name: "log.level", def: "info", field: func(c *Config) any { return &c.Log.Level },
		choices: []string{"debug", "info", "warn", "error"},
		help:    "Least important lines that are logged."},
	{name: "log.format", def: "text", field: func(c *Config) any { return &c.Log.Format },
		choices: []string{"text", "json"},
		help:    "Form of the log on standard error."},

	{name: "distributed.conn_lease_enabled", def: false, field: func(c *Config) any { return &c.Lease.Slots },
		help: "Share the cluster's connection count among all sidecars."},
	{name: "distributed.conn_lease_table", def: "", field: func(c *Config) any { return &c.Lease.Table },
		help: "DynamoDB table of the connection leases (sluice lease init makes it)."},
	{name: "distributed.conn_limit", def: lease.DefaultLimit, field: func(c *Config) any { return &c.Lease.Limit },
		help: "Connections that the cluster takes."},
	{name: "distributed.conn_margin", def: lease.DefaultMargin, field: func(c *Config) any { return &c.Lease.Margin },
		help: "How many of distributed.conn_limit stay unused: for people, for hosts that vanished without closing theirs, and for a frozen sidecar's (at least reservoir.max_open)."},
	{name: "distributed.conn_shards", def: lease.DefaultShards, field: func(c *Config) any { return &c.Lease.Shards },
		help: "Items that a new table spreads the slots over: 4 for up to 50 sidecars, 16 up to 500, 64 above. Fixed by sluice lease init."},
	{name: "distributed.heartbeat", def: lease.DefaultHeartbeat, field: func(c *Config) any { return &c.Lease.Heartbeat },
		help: "How often a lease is renewed."},
	{name: "distributed.reap_after", def: lease.DefaultReapAfter, field: func(c *Config) any { return &c.Lease.ReapAfter },
		help: "How long a lease must not have been renewed before others take its slots: so long a dead sidecar's slots are blocked, and half of it an outage of DynamoDB goes unnoticed."},
	{name: "distributed.guard", def: lease.DefaultGuard, field: func(c *Config) any { return &c.Lease.Guard },
		help: "How long before that the last backend is closed."},
	{name: "distributed.transaction_limit", def: lease.DefaultTransactionLimit, field: func(c *Config) any { return &c.Lease.TransactionLimit },
		help: "Longest transaction (DSQL allows 5 minutes): with less than this left to the lease no backend is lent."},
	{name: "distributed.idle_release", def: lease.DefaultIdleRelease, field: func(c *Config) any { return &c.Lease.IdleRelease },
		help: "How long slots stay unused before they are given back."},
	{name: "distributed.rate_limiter_enabled", def: false, field: func(c *Config) any { return &c.Lease.Rate },
		help: "Share the cluster's connection rate among all sidecars."},
	{name: "distributed.rate_limiter_table", def: "", field: func(c *Config) any { return &c.Lease.RateTable },
		help: "DynamoDB table of the shared rate. Empty: distributed.conn_lease_table."},
	{name: "distributed.rate_limiter_limit", def: lease.DefaultRate, field: func(c *Config) any { return &c.Lease.RateLimit },
		help: "New connections per second that the cluster takes."},
	{name: "distributed.rate_limiter_reserve", def: lease.DefaultReserve, field: func(c *Config) any { return &c.Lease.Reserve },
		help: "How many of those are for sidecars that cannot reach the table."},
	{name: "distributed.rate_limiter_burst", def: lease.DefaultBurst, field: func(c *Config) any { return &c.Lease.Burst },
		help: "New connections that may be saved up (the cluster takes 1,000 at once)."},
	{name: "distributed.rate_limiter_max_wait", def: lease.DefaultMaxWait, field: func(c *Config) any { return &c.Lease.MaxWait },
		help: "How far ahead a dial is booked, at most a few seconds short of 10m. While the queue is longer, it waits unbooked."},
	{name: "distributed.max_instances", def: lease.DefaultMaxInstances, field: func(c *Config) any { return &c.Lease.MaxInstances },
		help: "Sidecars that there may be: each that cannot reach the table dials by this part of distributed.rate_limiter_reserve."},
	{name: "distributed.call_timeout", def: lease.DefaultCallTimeout, field: func(c *Config) any { return &c.Lease.CallTimeout },
		help: "How long one call of DynamoDB may take, at most 5s."},
}

// keyNamed returns the row of a key, or nil.
func keyNamed(name string) *key {
	for i := range keys {
		if keys[i].name == name {
			return &keys[i]
		}
	}
	return nil
}
