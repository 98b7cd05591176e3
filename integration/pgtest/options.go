package pgtest

import (
	"strconv"
	"strings"
)

// An Option changes how a server is set up.
type Option func(*options)

type options struct {
	tls      bool
	tlsNames []string
	password string   // asked for over TCP when set
	settings []string // lines of postgresql.conf
	template *template
	memory   bool // where there is room, its files are in memory
}

// TLS lets the server accept TLS with a self-made certificate for localhost,
// 127.0.0.1 and the further names; Server.CAFile verifies it. Plain connections
// stay possible.
func TLS(names ...string) Option {
	return func(o *options) {
		o.tls = true
		o.tlsNames = names
	}
}

// SCRAM asks for this password (scram-sha-256) on every TCP connection. The
// Unix socket stays open to everybody who can reach it.
func SCRAM(password string) Option {
	return func(o *options) { o.password = password }
}

// MaxConnections sets max_connections; without it there are 200, enough for a
// full reservoir of 100 beside a test's own connections.
func MaxConnections(n int) Option { return Setting("max_connections", strconv.Itoa(n)) }

// Setting sets any parameter of postgresql.conf. The last one given wins.
func Setting(name, value string) Option {
	line := name + " = '" + strings.ReplaceAll(value, "'", "''") + "'"
	return func(o *options) { o.settings = append(o.settings, line) }
}
