package main

import (
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"syscall"
)

// fewCPUs is the number of CPUs up to which one running Go thread is better:
// measured on two, where a second one costs 20 % more CPU per query and 5 % of
// the throughput (the application needs the other CPU).
const fewCPUs = 2

// setProcs applies runtime.procs. An explicit GOMAXPROCS variable is never
// overridden. Go's own choice knows a container's CPU limit.
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

// ownDescriptors are those besides clients and backends: standard streams,
// listeners, admin connections, files, cancels under way.
const ownDescriptors = 64

// warnReadable warns of files with secrets that others on this machine may read. A file that cannot be
// looked at is told by whoever reads it.
func warnReadable(c *Config, log *slog.Logger) {
	for _, f := range []struct{ key, path string }{{"tls.key_file", c.TLS.Key}, {"auth.users_file", c.Proxy.Startup.UsersFile}} {
		info, err := os.Stat(f.path)
		if f.path == "" || err != nil {
			continue
		}
		if perm := info.Mode().Perm(); perm&0o007 != 0 {
			log.Warn("others on this machine may open "+f.key+": take their rights away (chmod o-rwx)", "file", f.path, "mode", fmt.Sprintf("%#o", perm))
		}
	}
}

// warnDescriptors warns when the limit is too low for what is configured. Go has
// raised the soft limit to the hard one already (since 1.19, at start).
func warnDescriptors(c *Config, log *slog.Logger) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		log.Warn("the limit of file descriptors is unknown", "error", err)
		return
	}
	if need := descriptors(c); limit.Cur < need {
		log.Warn("too few file descriptors for listen.max_clients and reservoir.max_open: raise the hard limit (ulimit -n) or lower them",
			"limit", limit.Cur, "need", need)
	}
}

func descriptors(c *Config) uint64 {
	return uint64(c.Proxy.MaxClients + c.Reservoir.MaxOpen + ownDescriptors)
}
