package daemon

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"strings"
	"syscall"

	"github.com/sluice-proxy/sluice/cmd/sluice/config"
	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
)

// fewCPUs is the number of CPUs up to which Go code should run on one thread. Measured on two CPUs: a second thread
// costs 20 % more CPU per query and 5 % of the throughput, because the application needs the other CPU.
const fewCPUs = 2

// setProcs applies the key runtime.procs, unless GOMAXPROCS is set in the environment. Go's own choice respects a
// container's CPU limit.
func setProcs(procs int) {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	if procs == 0 && runtime.GOMAXPROCS(0) <= fewCPUs {
		procs = 1
	}
	if procs > 0 {
		runtime.GOMAXPROCS(procs)
	}
}

// ownDescriptors is the number of file descriptors besides those of clients and backends. The number covers admin
// connections, standard streams, listeners, files, cancels in progress, and clients that have just left.
const ownDescriptors = maxAdminConns + proxy.CancelsAtOnce + rawconn.MostEnded + 16

// warnStrippableTLS logs a warning if an attacker on the network could remove TLS from the connection
// to the server.
func warnStrippableTLS(c *config.Config, log *slog.Logger) {
	if c.Backend.AllowsTLSDowngrade() {
		log.Warn("somebody between here and the server can take TLS away: set backend.sslmode to verify-full, or backend.channel_binding to require",
			"sslmode", c.Backend.SSLMode)
	}
}

// warnReadableSecrets logs a warning for each file with secrets that other users of this machine may read.
// warnReadableSecrets ignores missing files, because their readers report them.
func warnReadableSecrets(c *config.Config, log *slog.Logger) {
	files := []struct{ key, path string }{{"tls.key_file", c.TLS.Key}, {"auth.users_file", c.Proxy.Startup.UsersFile}, {"auth.salt_secret_file", c.Proxy.Startup.SaltSecretFile}}
	for i := range config.Keys {
		if path, ok := strings.CutPrefix(c.SourceOf(config.Keys[i].Name), "file "); ok && config.Keys[i].Secret {
			files = append(files, struct{ key, path string }{"the file of " + config.Keys[i].Name, path})
		}
	}
	for _, f := range files {
		info, err := os.Stat(f.path)
		if f.path == "" || err != nil {
			continue
		}
		if perm := info.Mode().Perm(); perm&0o007 != 0 {
			log.Warn("others on this machine may open "+f.key+": take their rights away (chmod o-rwx)", "file", f.path, "mode", fmt.Sprintf("%#o", perm))
		}
	}
}

// reserveDescriptors reserves file descriptors for backends, the admin address and Sluice's own files.
// reserveDescriptors lowers a default listen.max_clients to fit the limit. A configured value that does not fit is an
// error. Go has raised the soft limit to the hard one at the start (since Go 1.19).
func reserveDescriptors(c *config.Config, log *slog.Logger) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		log.Warn("the limit of file descriptors is unknown", "error", err)
		return nil
	}
	return fitDescriptorLimit(c, limit.Cur, log)
}

// fitDescriptorLimit does the work of reserveDescriptors, for a given limit of file descriptors.
func fitDescriptorLimit(c *config.Config, limit uint64, log *slog.Logger) error {
	const name = "listen.max_clients"
	kept := c.Reservoir.MaxOpen + ownDescriptors + proxy.SpareConns
	left := int(min(limit, math.MaxInt32)) - kept
	switch {
	case c.Proxy.MaxClients <= left:
		return nil
	case left > 0 && c.SourceOf(name) == "default":
		log.Warn("listen.max_clients follows the limit of file descriptors: raise the hard limit (ulimit -n) for more",
			"limit", limit, "max_clients", left, "default", c.Proxy.MaxClients)
		c.Proxy.MaxClients = left
		return nil
	}
	problem := fmt.Sprintf("%s: %d: the process may have %d file descriptors (ulimit -n), of which %d are kept for backends (reservoir.max_open) and for Sluice itself: raise the limit to %d",
		name, c.Proxy.MaxClients, limit, kept, kept+c.Proxy.MaxClients)
	if left > 0 {
		problem += fmt.Sprintf(", or set this to %d at most", left)
	}
	return &config.Error{Problems: []string{problem + " (" + c.SourceOf(name) + ")"}}
}
