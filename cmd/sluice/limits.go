package main

import (
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
