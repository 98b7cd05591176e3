package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

const (
	loopback = "127.0.0.1"
	database = "postgres"

	// scale is pgbench's scale factor: 10 is a million accounts, 150 MB, all in shared_buffers.
	scale = 10
	// poolSize is the number of backends of each proxy that pools transactions.
	poolSize = 32
	// sessionPool is the pool size of PgBouncer in session mode, one backend for each client of the largest workload.
	sessionPool = maxClients
	// idleClients is the number of clients whose memory the bench's part idle measures.
	idleClients = 1000

	stopGrace = 10 * time.Second
	// setupLimit bounds each step of the setup. Loading the tables takes seconds.
	setupLimit = 5 * time.Minute
)

// candidate is one way to the server: directly, or through one of the proxies.
type candidate struct {
	name string // direct, pgbouncer, sluice
	port int
	pid  int // of the proxy; 0 when there is none
}

const (
	direct    = "direct"
	pgBouncer = "pgbouncer"
	sluice    = "sluice"
)

// benchServers holds the servers and proxies that run during the whole bench. A field is nil until its program runs.
type benchServers struct {
	dir string // of logs and scripts, gone with the server
	bin harness.Bin

	postgres      *pgtest.Server
	pooler        *pooler // PgBouncer in transaction mode
	sessionPooler *pooler
	sluice        *harness.Sluice
}

// startAll starts all programs. After an error, stopAll ends the programs that startAll has started.
func (r *benchServers) startAll(ctx context.Context, bin harness.Bin) (err error) {
	r.bin = bin
	r.postgres, err = pgtest.Launch(
		pgtest.TLS(),
		pgtest.MaxConnections(300), // three pools and 64 direct ones
		pgtest.Setting("shared_buffers", "512MB"),
		// The server's background work is off, since it is noise in the measurements.
		pgtest.Setting("autovacuum", "off"),
		pgtest.Setting("checkpoint_timeout", "1h"),
		pgtest.Setting("max_wal_size", "8GB"),
	)
	if err != nil {
		return err
	}
	r.dir = r.postgres.SocketDir
	if _, err := r.runProgram(ctx, setupLimit, "pgbench", "", "--initialize", "--quiet", "--scale="+strconv.Itoa(scale)); err != nil {
		return err
	}
	if _, err := r.runSQL(ctx, 0, "CHECKPOINT"); err != nil {
		return err
	}
	if r.pooler, err = r.launchPooler(ctx, "transaction", poolSize); err != nil {
		return err
	}
	if r.sessionPooler, err = r.launchPooler(ctx, "session", sessionPool); err != nil {
		return err
	}
	r.sluice, err = r.launchSluice(ctx, r.postgres.Port, nil)
	return err
}

// stopAll ends the programs, in the reverse order of their start.
func (r *benchServers) stopAll() error {
	if r.sluice != nil {
		r.sluice.Stop(syscall.SIGTERM, stopGrace)
	}
	for _, p := range []*pooler{r.sessionPooler, r.pooler} {
		if p != nil {
			p.stop()
		}
	}
	if r.postgres == nil {
		return nil
	}
	return r.postgres.Close()
}

// candidates returns the ways to the server that the bench compares in workload w: directly, through PgBouncer,
// through Sluice.
func (r *benchServers) candidates(w *workload) []candidate {
	pooler := r.pooler
	if w.session {
		pooler = r.sessionPooler
	}
	return []candidate{
		{name: direct, port: r.postgres.Port},
		{name: pgBouncer, port: pooler.port, pid: pooler.PID()},
		{name: sluice, port: r.sluice.Port, pid: r.sluice.PID()},
	}
}

// launchSluice starts a Sluice whose backends are at a port of the loopback, with additional settings for features.
func (r *benchServers) launchSluice(ctx context.Context, port int, features harness.Env) (*harness.Sluice, error) {
	dir, err := os.MkdirTemp(r.dir, "sluice-")
	if err != nil {
		return nil, err
	}
	return harness.LaunchSluice(ctx, harness.SluiceConfig{Bin: r.bin, Dir: dir, Env: features.With(harness.Env{
		"DSQL_BACKEND_KIND":       "postgres",
		"DSQL_BACKEND_ENDPOINT":   loopback,
		"DSQL_BACKEND_PORT":       strconv.Itoa(port),
		"DSQL_BACKEND_USER":       r.postgres.User,
		"DSQL_BACKEND_DATABASE":   database,
		"DSQL_BACKEND_SSLMODE":    "require",
		"DSQL_PAIRING":            "transaction",
		"DSQL_RESERVOIR_MAX_OPEN": strconv.Itoa(poolSize),
		// Sluice logs no connections, since PgBouncer logs none either.
		"DSQL_LOG_LEVEL": "warn",
	})})
}

// newReport returns a report with the versions and conditions of the comparison. A proxy that does not speak TLS to the
// server is an error, because it would look faster.
func (r *benchServers) newReport(ctx context.Context) (*report, error) {
	report := &report{Date: time.Now().UTC().Format(time.DateOnly), CPU: cpuModel(), Scale: scale, Pool: poolSize}
	const encryption = "SELECT version || ' ' || cipher FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
	for _, c := range r.candidates(&workload{}) {
		tls, err := r.runSQL(ctx, c.port, encryption)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		if (tls == "") != (c.name == direct) {
			return nil, fmt.Errorf("%s: encryption to the server is %q", c.name, tls)
		}
		if tls != "" && report.TLS != "" && tls != report.TLS {
			tls = report.TLS + " and " + tls
		}
		report.TLS = tls
	}
	var err error
	if report.PostgreSQL, err = r.runSQL(ctx, 0, "SELECT split_part(current_setting('server_version'), ' ', 1)"); err != nil {
		return nil, err
	}
	if report.PgBouncer, err = firstOutputLine(ctx, r.pooler.program, "--version"); err != nil {
		return nil, err
	}
	report.PgBouncer = strings.TrimPrefix(report.PgBouncer, "PgBouncer ")
	if report.Sluice, err = firstOutputLine(ctx, filepath.Join(string(r.bin), "sluice"), "version"); err != nil {
		return nil, err
	}
	report.Sluice, _, _ = strings.Cut(strings.TrimPrefix(report.Sluice, "sluice "), " (") // (go1.26, linux/amd64)
	return report, nil
}

// cpuModel returns the kernel's name for the processor.
func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown" // not every architecture has the line
}
