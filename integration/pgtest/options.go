package pgtest

import (
	"strconv"
	"strings"
)

// An Option changes how Launch sets up a server.
type Option func(*options)

type options struct {
	tls      bool
	tlsNames []string
	password string   // asked for over TCP when set
	settings []string // lines of postgresql.conf
	template *clusterTemplate
	memory   bool // where there is room, its files are in memory
}

// TLS lets the server accept TLS with a self-made certificate for localhost, 127.0.0.1 and the further names.
// Server.CAFile verifies the certificate. Plain connections remain possible.
func TLS(names ...string) Option {
	return func(o *options) {
		o.tls = true
		o.tlsNames = names
	}
}

// SCRAM makes the server ask for this password (scram-sha-256) on every TCP connection. The Unix socket needs no
// password.
func SCRAM(password string) Option {
	return func(o *options) { o.password = password }
}

// MaxConnections sets max_connections. The default is 200, enough for a full reservoir of 100 and the connections of a
// test.
func MaxConnections(n int) Option { return Setting("max_connections", strconv.Itoa(n)) }

// Setting sets a parameter of postgresql.conf. The last value given wins.
func Setting(name, value string) Option {
	line := name + " = '" + strings.ReplaceAll(value, "'", "''") + "'"
	return func(o *options) { o.settings = append(o.settings, line) }
}
