package config

import (
	"time"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/reservoir"
)

// Backend is the part of the configuration that selects the server. It also selects how long a client keeps one
// backend, a connection to that server.
type Backend struct {
	reservoir.DialConfig
	SilenceTimeout string // auto, or a duration
}

var backendKeys = []Key{
	{Name: "pairing", Default: "transaction", field: func(c *Config) any { return (*string)(&c.Proxy.Pairing) },
		Choices: []string{"transaction", "session"},
		help:    "For how long a client keeps a backend: one transaction, or its whole session."},
	{Name: "backend.kind", Default: "dsql", field: func(c *Config) any { return &c.Backend.Kind },
		Choices: []string{"dsql", "postgres"},
		help:    "The kind of server: Aurora DSQL (IAM tokens, verified TLS) or a plain PostgreSQL."},
	{Name: "backend.endpoint", Default: "", field: func(c *Config) any { return &c.Backend.Endpoint },
		help: "Name of the cluster, <id>.dsql.<region>.on.aws: host of the token, SNI and verified name. Also --endpoint. For kind postgres: the server's host name."},
	{Name: "backend.address", Default: "", field: func(c *Config) any { return &c.Backend.Address },
		help: "Host to dial instead of backend.endpoint (PrivateLink, tunnels)."},
	{Name: "backend.port", Default: 5432, field: func(c *Config) any { return &c.Backend.Port },
		help: "Port to dial."},
	{Name: "backend.region", Default: "", field: func(c *Config) any { return &c.Backend.Region },
		help: "AWS region that tokens are signed for. Empty: the one in backend.endpoint."},
	{Name: "backend.ca_file", Default: "", field: func(c *Config) any { return &c.Backend.CAFile },
		help: "Authorities (PEM) that the backend's certificate is verified against. Empty: the system's. Reloaded on change and on SIGHUP."},
	{Name: "backend.user", Default: "admin", field: func(c *Config) any { return &c.Backend.User },
		help: "Database role of every backend connection."},
	{Name: "backend.database", Default: "postgres", field: func(c *Config) any { return &c.Backend.Database },
		help: "Database of every backend connection, whatever name a client asks for."},
	{Name: "backend.password", Default: "", field: func(c *Config) any { return &c.Backend.Password }, Secret: true,
		help: "Password of backend.user; kind postgres only. It has no flag: a command line is public."},
	{Name: "backend.sslmode", Default: "prefer", field: func(c *Config) any { return &c.Backend.SSLMode },
		Choices: []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"},
		help:    "TLS to the backend as in libpq; kind postgres only: DSQL is always verify-full."},
	{Name: "backend.channel_binding", Default: "prefer", field: func(c *Config) any { return &c.Backend.ChannelBinding },
		Choices: []string{"disable", "prefer", "require"},
		help:    "Channel binding of SCRAM as in libpq; kind postgres only. require: the server must know the password and hold the certificate of the connection."},

	{Name: "backend.max_message_bytes", Default: defaultByKind, field: func(c *Config) any { return &c.Proxy.MaxMessageBytes },
		help: "The longest message that the backend takes; a longer one gets 54000 and costs no backend. 0: any. -1: 10 MiB for kind dsql, whose clusters close the connection over a longer one, any for kind postgres. COPY data and sessions with a backend of their own are not looked at."},
	{Name: "backend.silence_timeout", Default: "auto", field: func(c *Config) any { return &c.Backend.SilenceTimeout },
		help: "How long the backend may send nothing while it owes an answer before it is given up, and nothing of it is sent again; not for COPY and CALL. auto: 330s for kind dsql, whose statements end at 300 s, off for kind postgres. 0: for ever."},
	{Name: "backend.tcp_user_timeout", Default: 20 * time.Second, field: func(c *Config) any { return &c.Proxy.BackendPathLimit },
		help: "How long the backend's host may leave what it was sent unacknowledged before the connection is lost; as tcp_user_timeout, but a host that only takes nothing more does not count. 0: as long as the kernel tries."},
	{Name: "backend.tcp_keepalive", Default: 20 * time.Second, field: func(c *Config) any { return &c.Backend.KeepAlive },
		help: "How soon the kernel finds out that the backend's host is gone while nothing is under way. 0: never."},
}

// isDSQL reports whether the backend is a DSQL cluster.
func (c *Config) isDSQL() bool { return c.Proxy.Kind == proxy.DSQL }

// defaultByKind is the default -1 of keys whose actual default depends on backend.kind (setDefaultByKind).
const defaultByKind = -1

// setDefaultByKind replaces defaultByKind by the default for backend.kind. Any other value stays.
func (c *Config) setDefaultByKind(value *int, dsql, postgres int) {
	switch {
	case *value != defaultByKind:
	case c.isDSQL():
		*value = dsql
	default:
		*value = postgres
	}
}

// usesDedicatedBackends reports whether every backend is dialled for one client.
func (c *Config) usesDedicatedBackends() bool {
	return c.Proxy.Kind == proxy.Postgres && c.Proxy.Pairing == proxy.Session
}

// deriveBackend sets the fields that are computed from the keys of the backend. It must run before the other
// derivations, which depend on backend.kind.
func (c *Config) deriveBackend() {
	c.Proxy.Kind = proxy.BackendKind(c.Backend.Kind)
	c.Proxy.Database = c.Backend.Database
	c.setDefaultByKind(&c.Proxy.MaxMessageBytes, 10<<20, 0)
	c.Proxy.SilenceTimeout, _ = c.silenceTimeout() // the check reports an error
}

// silenceTimeout returns the duration of backend.silence_timeout. On DSQL auto means 330 s: a statement of DSQL ends at
// 300 s, and its answer may take 30 s more.
func (c *Config) silenceTimeout() (time.Duration, error) {
	switch {
	case c.Backend.SilenceTimeout != "auto":
		return time.ParseDuration(c.Backend.SilenceTimeout)
	case c.isDSQL():
		return 330 * time.Second, nil
	}
	return 0, nil
}

// checkBackend checks the keys that are allowed for backend.kind postgres only.
func (v *validator) checkBackend() {
	c := v.config
	v.require(!c.isDSQL() || c.Backend.SSLMode == KeyByName("backend.sslmode").Default, "backend.sslmode",
		"DSQL is always verify-full; leave it out, or set backend.kind to postgres")
	v.require(!c.isDSQL() || c.Backend.ChannelBinding == KeyByName("backend.channel_binding").Default, "backend.channel_binding",
		"DSQL takes tokens, and has no SCRAM; leave it out, or set backend.kind to postgres")
}

func (v *validator) checkSilenceTimeout() {
	_, err := v.config.silenceTimeout()
	v.require(err == nil, "backend.silence_timeout", "want auto, or a duration with its unit, such as 330s or 10m")
}
