package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-proxy/sluice/cmd/sluice/config"
	"github.com/sluice-proxy/sluice/lease"
	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Daemon is the process of sluice serve with all its parts. Build creates a Daemon, and the method run runs the Daemon
// to its end.
type Daemon struct {
	config    *config.Config
	version   string
	log       *slog.Logger
	metrics   *metrics.Set
	lease     *lease.Lease // nil when nothing is shared
	table     *lease.Table // nil like lease
	reservoir *reservoir.Reservoir
	server    *proxy.Server
	admin     *http.Server // nil when admin.address is empty
	watched   []*WatchedFiles
	// draining is set when the daemon begins to end, although clients may still be served then.
	draining atomic.Bool
}

// Build returns a daemon that the caller must run or close. Build opens no connection and no listener. The error is a
// *config.Error, because files that the configuration names may be as wrong as the configuration.
func Build(ctx context.Context, c *config.Config, version string, log *slog.Logger) (*Daemon, error) {
	d := &Daemon{config: c, version: version, log: log}
	d.metrics = metrics.New(metrics.Options{Version: version, IgnoredSettings: c.Proxy.IgnoredSettings, ClientOptionKeys: rewrite.ClientOptionKeys()})
	var errs []error // all of them, so that one start reports every fault
	note := func(err error) { errs = append(errs, err) }

	chain, err := BackendAWSConfig(ctx, c, log)
	note(err)
	dialer, err := NewDialer(c, chain, d.metrics.Reservoir)
	note(err)
	backends := c.Reservoir.Config
	if err == nil {
		backends.Precheck = dialer.CheckCredentials
	}
	if c.Lease.Slots || c.Lease.Rate {
		d.table = lease.NewTable(c.Lease, chain)
		d.lease, err = lease.New(c.Lease, d.table, lease.MachineClock, d.metrics.Lease, log)
		note(err)
		if err == nil && c.Lease.File != "" {
			d.lease.UseLockFile(lease.NewLockFile(c.Lease.File))
		}
		backends.Lease = d.lease
	}
	d.reservoir, err = reservoir.New(backends, dialer.Dial, d.metrics.Reservoir, log)
	note(err)
	planner, err := rewrite.New(c.Rewrite.Config)
	note(err)
	serverConfig := c.Proxy
	if c.TLS.Cert != "" {
		cert, err := newReloadableTLS(c.TLS, c.Proxy.Startup.Method)
		note(err)
		serverConfig.Startup.TLS = cert.tlsConfig()
		d.watched = append(d.watched, NewWatchedFiles("TLS certificate", cert.reload, c.TLS.Cert, c.TLS.Key, c.TLS.ClientCA))
	}
	d.server, err = proxy.New(serverConfig, d.reservoir, planner, d.metrics.Proxy, log)
	note(err)
	if problems := c.FormatProblems(errors.Join(errs...)); len(problems) > 0 {
		d.Close()
		return nil, &config.Error{Problems: problems}
	}

	if c.Backend.CAFile != "" {
		d.watched = append(d.watched, NewWatchedFiles("authorities of the backend", dialer.ReloadCA, c.Backend.CAFile))
	}
	if c.Proxy.Startup.UsersFile != "" {
		d.watched = append(d.watched, NewWatchedFiles("users file", d.server.ReloadUsers, c.Proxy.Startup.UsersFile))
	}
	if c.Admin.Address != "" {
		d.admin = NewAdminServer(promhttp.HandlerFor(d.metrics.Registry, promhttp.HandlerOpts{}), d.server.Alive, d.readinessError, d.readinessWarning, NewAdminConnLimiter(log, d.metrics.Admin))
	}
	d.connectMetrics(planner)
	return d, nil
}

// Close releases the parts that Build created, for a daemon that was not run.
func (d *Daemon) Close() {
	if d.server != nil {
		_ = d.server.Close() // there are no clients
	}
	if d.table != nil {
		d.table.Close()
	}
}

// BackendAWSConfig returns the AWS configuration of a daemon, which is empty if the daemon does not call AWS.
func BackendAWSConfig(ctx context.Context, c *config.Config, log *slog.Logger) (aws.Config, error) {
	if c.Proxy.Kind != proxy.DSQL && !c.Lease.Slots && !c.Lease.Rate {
		return aws.Config{}, nil
	}
	return LoadAWSConfig(ctx, c, log)
}

// NewDialer returns the dialer of backends. For DSQL the dialer uses the credentials of chain. m may be nil.
func NewDialer(c *config.Config, chain aws.Config, m *metrics.Reservoir) (*reservoir.Dialer, error) {
	dial := c.Backend.DialConfig
	dial.Metrics = m
	dial.Wrap = func(conn net.Conn) net.Conn { return rawconn.Wrap(conn) }
	if c.Proxy.PlainConn {
		dial.Wrap = func(conn net.Conn) net.Conn { return rawconn.WrapPlain(conn) }
	}
	if c.Proxy.Kind == proxy.DSQL {
		dial.Credentials = chain.Credentials
	}
	return reservoir.NewDialer(dial)
}

// stsRegion returns the region for AWS STS when the environment names none: the cluster's region, the third part of its
// host name.
func stsRegion(dial reservoir.DialConfig) string {
	if parts := strings.Split(dial.Endpoint, "."); dial.Region == "" && len(parts) == 5 {
		return parts[2]
	}
	return dial.Region
}

// connectMetrics registers the metrics that read counts from the daemon's parts.
func (d *Daemon) connectMetrics(planner *rewrite.Planner) {
	d.metrics.Proxy.SetSource(func() metrics.ProxyGauges {
		s := d.server.Stats()
		return metrics.ProxyGauges{Clients: s.Clients, Idle: s.Idle, Pinned: s.Pinned, Waiting: s.Waiting, AtGate: s.Gate.Waiting, Locks: s.Locks,
			LogBytes: s.LogBytes, HeldBytes: s.HeldBytes, TextBytes: s.TextBytes}
	})
	d.metrics.Reservoir.SetSource(d.reservoir.Gauges)
	if d.lease != nil {
		d.metrics.Lease.SetSource(d.lease.Gauges)
	}
	d.metrics.Rewrite.SetSource(func() metrics.RewriteCounts {
		s := planner.Stats()
		return metrics.RewriteCounts{
			Parsed: s.Parsed, CacheHits: s.CacheHits, Scanned: s.Scanned, Unparsable: s.Unparsable,
			Rewritten: s.Rewritten, Unverified: s.Unverified,
			GuardedBytes: s.GuardedBytes, GuardedNesting: s.GuardedNesting, GuardedText: s.GuardedText,
		}
	})
}

// leaseStateError returns an error with the phase of the cluster's lease, and why the lease is not OK.
func leaseStateError(s lease.State) error {
	if trouble := s.ShortfallReason(); trouble != nil {
		return fmt.Errorf("lease %v: %w", s.Phase, trouble)
	}
	return fmt.Errorf("lease %v", s.Phase)
}

// ErrDraining is the reason why a daemon that drains is not ready.
var ErrDraining = errors.New("draining")

// readinessWarning returns the problem of a ready daemon, or "" for none. The problem affects some clients now, or will
// affect all of them before long.
func (d *Daemon) readinessWarning() string {
	if d.lease != nil {
		if l := d.lease.State(); l.Phase == lease.Degraded || l.Phase == lease.Draining {
			return leaseStateError(l).Error()
		}
	}
	tables, first := d.server.UnmappedTables()
	if tables == 0 {
		return ""
	}
	return fmt.Sprintf("statements over %d tables (%s and others) are refused: they have bytea columns that are stored as text, which this process does not map. Set rewrite.bytea: hex", tables, first)
}

// readinessError returns why the daemon should get no clients, or nil if it should get clients.
func (d *Daemon) readinessError() error {
	if d.draining.Load() {
		return ErrDraining
	}
	s := d.reservoir.Stats()
	if d.lease != nil {
		if l := d.lease.State(); l.Reason != nil || l.Phase == lease.Lost {
			return leaseStateError(l)
		}
	}
	switch {
	case s.Ready+s.InUse == 0 && s.Target > 0 && s.LastDialErr != nil:
		return fmt.Errorf("no backend: %w", s.LastDialErr)
	case s.Ready == 0 && s.Unanswered && (s.InUse < s.Target || s.Waiting > 0):
		// The reservoir still dials, and its dials fail. The backends in use may have hung.
		return fmt.Errorf("dials fail, and none of %d backends in use has answered since: %w", s.InUse, s.LastDialErr)
	case !s.Filled:
		return fmt.Errorf("initial fill: %d backends of %d", s.Ready+s.InUse, min(s.Target, d.config.Reservoir.LowWatermark))
	case s.Ready+s.InUse > 0:
		return nil
	case d.config.Reservoir.TargetReady == 0:
		return nil // backends are dialled on demand: without clients there are none
	case d.reservoir.Params() == nil:
		return errors.New("no backend yet")
	}
	return nil
}
