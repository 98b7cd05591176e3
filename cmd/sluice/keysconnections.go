package main

import (
	"time"

	"github.com/sluice-proxy/sluice/reservoir"
)

// listenKeys say where clients connect, how they prove who they are, and for how long they keep a backend.
var listenKeys = []key{
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
	{name: "auth.salt_secret_file", def: "", field: func(c *Config) any { return &c.Proxy.Startup.SaltSecretFile },
		help: "32 bytes or more, made at random and the same for all sidecars, that SCRAM salts of unknown users are derived from, so that they stay the same. Empty: they change with each start, which tells such users from others."},
	{name: "auth.allow_remote_trust", def: false, field: func(c *Config) any { return &c.Listen.AllowRemoteTrust },
		help: "Allow auth.method trust on a listener that other machines can reach."},

	{name: "admin.address", def: "127.0.0.1:9432", field: func(c *Config) any { return &c.Admin.Address },
		help: "Where /metrics, /startupz, /livez and /readyz are served, host:port; nothing there changes any state. Empty: nowhere."},

	{name: "pairing", def: "transaction", field: func(c *Config) any { return (*string)(&c.Proxy.Pairing) },
		choices: []string{"transaction", "session"},
		help:    "For how long a client keeps a backend: one transaction, or its whole session."},
}

// backendKeys say what is behind Sluice, and how many connections to it are dialled ahead.
var backendKeys = []key{
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
}
