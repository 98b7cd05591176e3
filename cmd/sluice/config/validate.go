package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/proxy/startup"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/rewrite"
)

// maxUnixPath is the longest path of a Unix socket: sun_path holds 108 bytes on
// Linux, one of them a NUL.
const maxUnixPath = 107

// validate reports every bad value at once; each error begins with its key. The
// packages judge their own parts; here stands what only the whole can see.
func (c *Config) validate() error {
	v := validation{config: c}
	v.listeners()
	v.clientTLS()
	v.want(c.Proxy.Kind != proxy.DSQL || c.Dial.SSLMode == KeyNamed("backend.sslmode").Default, "backend.sslmode",
		"DSQL is always verify-full; leave it out, or set backend.kind to postgres")
	v.want(c.Proxy.Kind != proxy.DSQL || c.Dial.ChannelBinding == KeyNamed("backend.channel_binding").Default, "backend.channel_binding",
		"DSQL takes tokens, and has no SCRAM; leave it out, or set backend.kind to postgres")
	v.lease()
	v.guarantees()
	v.choices()
	v.ddl()
	v.advisoryLocks()
	_, err := c.silence()
	v.want(err == nil, "backend.silence_timeout", "want auto, or a duration with its unit, such as 330s or 10m")
	v.want(c.Drain.Timeout >= 0, "drain.timeout", "want 0 (cut at once) or more")
	v.want(c.Drain.Mode != DrainPlain || 0 < c.Drain.Quiet && c.Drain.Quiet <= c.Drain.Timeout/2, "drain.quiet",
		"want more than 0, and at most half of drain.timeout")
	v.want(c.Runtime.Procs >= 0, "runtime.procs", "want 0 (automatic) or more")

	server := c.Proxy
	if c.TLS.Cert != "" {
		server.Startup.TLS = &tls.Config{} // build reads the files
	}
	return errors.Join(append(v.errs,
		server.Validate(), c.Dial.Validate(), c.Reservoir.Validate(), c.Lease.Validate(), c.Rewrite.Validate())...)
}

// validation collects errors of the form "key: value: remedy".
type validation struct {
	config *Config
	errs   []error
}

func (v *validation) want(ok bool, name, remedy string) {
	if !ok {
		shown := KeyNamed(name).show(v.config.values[name])
		v.errs = append(v.errs, fmt.Errorf("%s: %s: %s", name, shown, remedy))
	}
}

func (v *validation) listeners() {
	c := v.config
	v.want(c.Listen.Address == "" || validAddress(c.Listen.Address), "listen.address", "want host:port, such as 127.0.0.1:5432")
	v.want(c.Admin.Address == "" || validAddress(c.Admin.Address), "admin.address", "want host:port, such as 127.0.0.1:9432")
	v.want(c.Listen.Address != "" || c.Listen.UnixSocket != "", "listen.address", "nobody could connect: set it or listen.unix_socket")
	v.want(c.Listen.UnixSocket == "" || len(c.Listen.SocketPath()) <= maxUnixPath,
		"listen.unix_socket", fmt.Sprintf("too long: the socket's whole path must stay within %d bytes", maxUnixPath))
	_, err := c.SocketMode()
	v.want(err == nil, "listen.unix_socket_mode", "want auto, or an octal mode from 0600 to 0777 that lets Sluice's own user connect, such as 0770")
	v.want(c.Proxy.Startup.Method != startup.Peer || c.Listen.Address == "" && c.Listen.UnixSocket != "",
		"auth.method", "it is for the Unix socket alone: set listen.unix_socket, and listen.address to nothing")
	v.want(len(c.Proxy.Startup.PeerMap) == 0 || c.Proxy.Startup.Method == startup.Peer,
		"auth.peer_map", "it is for auth.method peer; leave it empty")
	v.want(c.Proxy.Startup.Method != startup.Trust || !validAddress(c.Listen.Address) || isLoopback(c.Listen.Address) || c.Listen.AllowRemoteTrust,
		"listen.address", "other machines could connect without a password: set auth.method, "+
			"or listen on 127.0.0.1, or allow it with auth.allow_remote_trust")
}

// levels looks after the rules of isolation levels; dropped says that another server than DSQL
// would not be told of what they answer.
func (v *validation) levels(dropped bool) {
	c := v.config
	v.want(!dropped || c.RewriteIsolation != "true", "rewrite.isolation",
		"transactions of PostgreSQL are READ COMMITTED unless it is told otherwise, so that the level must reach the server; leave it at auto, or set it to false")
	v.want(c.RewriteSerializable == "refuse" || c.Rewrite.Rules.Isolation, rewrite.SerializableKey,
		"a level can be taken for less on kind dsql only, with rewrite.enabled and rewrite.isolation; set it to refuse")
}

// guarantees looks after rules that hold on DSQL alone: elsewhere a statement that is
// answered and dropped would take from its client what it asked for.
func (v *validation) guarantees() {
	dropped := v.config.rewrites() && v.config.Proxy.Kind != proxy.DSQL
	v.levels(dropped)
	v.want(len(v.config.Rewrite.Rules.Chunked) == 0 || v.config.rewrites() && v.config.Proxy.Kind == proxy.DSQL, "rewrite.chunked_delete",
		"a DELETE is carried out in batches on kind dsql only, with rewrite.enabled; leave it empty")
	v.want(!dropped || v.config.RewriteSession != "true", "rewrite.session",
		"sessions of PostgreSQL have sequences and temporary tables to discard; leave it at auto, or set it to false")
	v.want(!dropped || v.config.RewriteExtensions != "true", rewrite.ExtensionsKey,
		"PostgreSQL has extensions, and a client that asks for one must get it; leave it at auto, or set it to false")
	v.want(!dropped || v.config.RewriteCursors != "true", "rewrite.cursors",
		"PostgreSQL has cursors of its own, which do more; leave it at auto, or set it to false")
	v.copies()
	maps := v.config.RewriteBytea != "off"
	v.want(!maps || v.config.Proxy.Kind == proxy.DSQL, "rewrite.bytea",
		"PostgreSQL takes bytea in keys, and tables made so would be another schema; set it to off")
	v.want(!maps || v.config.Proxy.Kind != proxy.DSQL || v.config.rewrites(), "rewrite.bytea",
		"nothing is rewritten; set rewrite.enabled to auto or true, or this to off")
}

// copies looks after a COPY that is to be carried out by INSERTs.
func (v *validation) copies() {
	c := v.config
	v.want(c.CopyFrom == "server" || c.rewrites() && c.Proxy.Kind == proxy.DSQL, rewrite.CopyFromKey,
		"PostgreSQL takes COPY, and nothing is read where rewrite.enabled is false; set it to server")
}

// ddl looks after what takes the place of DDL that DSQL has not, and other servers have.
func (v *validation) ddl() {
	c := v.config
	v.want(c.DDLCarryOut != carryOutAll || c.rewrites() && c.Proxy.Kind == proxy.DSQL, rewrite.CarryOutKey,
		"PostgreSQL takes such DDL, and nothing is read where rewrite.enabled is false; set it to exact")
	v.want(v.config.AddColumnDefault == "refuse" || v.config.rewrites() && v.config.Proxy.Kind == proxy.DSQL, "ddl.add_column_default",
		"columns are added so on kind dsql only, with rewrite.enabled; set it to refuse")
	digits, err := rewrite.NumericDigits(c.RewriteNumeric)
	v.want(err == nil, rewrite.NumericKey, fmt.Sprint(err))
	v.want(digits == "" || c.Proxy.Kind == proxy.DSQL, rewrite.NumericKey, "PostgreSQL stores every digit; set it to as-is")
	v.want(c.Truncate == string(rewrite.TruncateRefuse) || c.rewrites() && c.Proxy.Kind == proxy.DSQL, rewrite.TruncateKey,
		"PostgreSQL has TRUNCATE, and nothing is read where rewrite.enabled is false; set it to refuse")
	v.want(c.RewriteSerial != string(rewrite.SerialSequence) || c.rewrites() && c.Proxy.Kind == proxy.DSQL, rewrite.SerialKey,
		"PostgreSQL has serial columns, and nothing is read where rewrite.enabled is false; leave it at auto")
	v.want(c.AlterColumnType == "refuse" || c.rewrites() && c.Proxy.Kind == proxy.DSQL, rewrite.RetypeKey,
		"PostgreSQL changes types itself, and nothing is read where rewrite.enabled is false; set it to refuse")
	v.want(c.CreateEnum == "refuse" || c.rewrites() && c.Proxy.Kind == proxy.DSQL, rewrite.EnumKey,
		"PostgreSQL has enumerations, and nothing is read where rewrite.enabled is false; set it to refuse")
	v.want(c.DDLInTransactions == "refuse" || c.rewrites() && c.Proxy.Kind == proxy.DSQL, rewrite.InTransactionsKey,
		"PostgreSQL takes DDL in transactions, and nothing is read where rewrite.enabled is false; set it to refuse")
	v.want(v.config.SetNotNull == "refuse" || v.config.rewrites() && v.config.Proxy.Kind == proxy.DSQL && v.config.AddConstraint == "steps", "ddl.set_not_null",
		"a CHECK stands for NOT NULL on kind dsql only, with rewrite.enabled and ddl.add_constraint at steps; set it to refuse")
}

// advisoryLocks looks after those that are kept in a table.
func (v *validation) advisoryLocks() {
	c := v.config
	v.want(c.Proxy.Locks.Lease > 0, rewrite.AdvisoryKey+"_lease", "want more than 0")
	v.want(c.AdvisoryLocks == "refuse" || c.rewrites() && c.Proxy.Kind == proxy.DSQL, rewrite.AdvisoryKey,
		"PostgreSQL has advisory locks, and nothing is read where rewrite.enabled is false; set it to refuse")
}

// lease looks after the time in which backends must be gone when a lease cannot be
// renewed: others use their slots after it.
func (v *validation) lease() {
	l := v.config.Lease
	v.want(!l.Slots || l.Guard >= reservoir.LeastGuard, "distributed.guard",
		fmt.Sprintf("want at least %v: so long may the last backend take to close", reservoir.LeastGuard))
	most := l.TransactionLimit + l.Guard
	v.want(!l.Slots || v.config.Dial.Timeout <= most, "reservoir.dial_timeout",
		fmt.Sprintf("want at most %v, distributed.transaction_limit and distributed.guard: a dial must end before its slot is others'", most))
}

func (v *validation) clientTLS() {
	c := v.config
	v.want(c.TLS.Cert == "" || c.TLS.Key != "", "tls.key_file", "tls.cert_file needs its key")
	v.want(c.TLS.Key == "" || c.TLS.Cert != "", "tls.cert_file", "tls.key_file needs its certificate")
	v.want(c.TLS.ClientCA == "" || c.TLS.Cert != "", "tls.client_ca_file", "needs tls.cert_file and tls.key_file")
	v.want(c.Proxy.Startup.Method != startup.Cert || c.TLS.ClientCA != "", "tls.client_ca_file",
		"auth.method cert needs the authorities of the clients' certificates")
}

// validAddress accepts host:port with a port number; 0 lets the system choose.
func validAddress(address string) bool {
	_, port, err := net.SplitHostPort(address)
	n, portErr := strconv.ParseUint(port, 10, 16)
	return err == nil && portErr == nil && n < 1<<16
}

// isLoopback reports whether only this machine can reach a listener there. A
// name other than localhost counts as reachable: what it means may change.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}

// SocketMode is the mode of the Unix socket's file. Whoever may write to the file may connect: with
// trust, nothing else is asked of them, and so others than the owner and the group may not.
func (c *Config) SocketMode() (os.FileMode, error) {
	switch {
	case c.Listen.UnixSocketMode != "auto":
		mode, err := strconv.ParseUint(c.Listen.UnixSocketMode, 8, 32)
		if err == nil && (mode > 0o777 || mode&0o600 != 0o600) {
			err = strconv.ErrRange
		}
		return os.FileMode(mode), err
	case c.Proxy.Startup.Method == startup.Trust:
		return 0o770, nil
	}
	return 0o777, nil
}

// SocketPath is the Unix socket's file, named as PostgreSQL's clients expect.
func (l ListenConfig) SocketPath() string {
	port := "5432" // PostgreSQL's, when there is no TCP listener to take it from
	if _, p, err := net.SplitHostPort(l.Address); err == nil {
		port = p
	}
	return filepath.Join(l.UnixSocket, ".s.PGSQL."+port)
}
