package config

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sluice-proxy/sluice/proxy/startup"
)

// Listen is the part of the configuration about the addresses on which clients connect.
type Listen struct {
	Address        string // host:port, "" for none
	UnixSocket     string // a directory, "" for none
	UnixSocketMode string // octal, or auto; see SocketMode
}

var listenKeys = []Key{
	{Name: "listen.address", Default: "127.0.0.1:5432", field: func(c *Config) any { return &c.Listen.Address },
		help: "Where clients connect, host:port. Empty: no TCP listener."},
	{Name: "listen.unix_socket", Default: "", field: func(c *Config) any { return &c.Listen.UnixSocket },
		help: "Directory of a Unix socket named .s.PGSQL.<port of listen.address>. Empty: none."},
	{Name: "listen.unix_socket_mode", Default: "auto", field: func(c *Config) any { return &c.Listen.UnixSocketMode },
		help: "Mode of the Unix socket in octal, such as 0770. It decides which users may connect. auto: 0777 where auth.method asks for a proof, 0770 with trust."},
	{Name: "listen.databases", Default: []string{}, field: func(c *Config) any { return &c.Proxy.Databases },
		help: "Database names that clients may ask for; others get 3D000. Empty: any name, and all mean backend.database. name=schema:<schema> and <prefix>*=schema:* stand for schemas (docs/databases.md). For kind postgres with pairing session also name=database."},
	{Name: "listen.max_clients", Default: 5000, field: func(c *Config) any { return &c.Proxy.MaxClients },
		help: "Client connections open at once; more get 53300. The default follows the limit of file descriptors (ulimit -n) where that leaves fewer."},
	{Name: "listen.startup_timeout", Default: 15 * time.Second, field: func(c *Config) any { return &c.Proxy.Startup.Timeout },
		help: "How long a client may take to start up and authenticate."},
}

// checkListenAddress checks the form of listen.address.
func (v *validator) checkListenAddress() {
	l := v.config.Listen
	v.require(l.Address == "" || isValidAddress(l.Address), "listen.address", "want host:port, such as 127.0.0.1:5432")
}

// checkListeners checks the Unix socket, and that clients can connect at all.
func (v *validator) checkListeners() {
	c := v.config
	v.require(c.Listen.Address != "" || c.Listen.UnixSocket != "", "listen.address", "nobody could connect: set it or listen.unix_socket")
	v.require(c.Listen.UnixSocket == "" || len(c.Listen.SocketPath()) <= maxUnixPath,
		"listen.unix_socket", fmt.Sprintf("too long: the socket's whole path must stay within %d bytes", maxUnixPath))
	_, err := c.SocketMode()
	v.require(err == nil, "listen.unix_socket_mode", "want auto, or an octal mode from 0600 to 0777 that lets Sluice's own user connect, such as 0770")
}

// maxUnixPath is the maximum length in bytes of a Unix socket's path: sun_path holds 108 bytes on Linux, with a
// NUL.
const maxUnixPath = 107

// SocketPath returns the path of the Unix socket's file, as PostgreSQL's clients expect it.
func (l Listen) SocketPath() string {
	port := "5432" // PostgreSQL's port, for a socket without a TCP listener
	if _, p, err := net.SplitHostPort(l.Address); err == nil {
		port = p
	}
	return filepath.Join(l.UnixSocket, ".s.PGSQL."+port)
}

// SocketMode returns the mode of the Unix socket's file. A user with write permission on the file may connect. With
// auth.method trust there is no other proof, so the mode auto excludes all but the owner and the group. The error is
// for a mode that excludes the owner.
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

// isValidAddress reports whether an address has the form host:port. For port 0 the system chooses a port.
func isValidAddress(address string) bool {
	_, port, err := net.SplitHostPort(address)
	n, portErr := strconv.ParseUint(port, 10, 16)
	return err == nil && portErr == nil && n < 1<<16
}

// isLoopback reports whether only this machine can reach a listener. A name other than localhost counts as
// reachable, because its address may change.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}
