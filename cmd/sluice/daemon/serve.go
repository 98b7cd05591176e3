package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-proxy/sluice/cmd/sluice/cli"
	"github.com/sluice-proxy/sluice/cmd/sluice/config"
	"github.com/sluice-proxy/sluice/proxy"
)

// AdminCloseTimeout bounds how long the end of the daemon waits for a running scrape of the metrics.
const AdminCloseTimeout = time.Second

// serve runs the daemon until a signal.
func serve(ctx context.Context, c *config.Config, version string, log *slog.Logger) error {
	setProcs(c.Runtime.Procs)
	for _, warning := range c.Warnings {
		log.Warn(warning)
	}
	if err := reserveDescriptors(c, log); err != nil {
		return err
	}
	warnReadableSecrets(c, log)
	warnStrippableTLS(c, log)

	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	stop := make(chan os.Signal, 2) // capacity 2: the second signal must not be lost
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(stop)

	d, err := Build(ctx, c, version, log)
	if err != nil {
		return err
	}
	mode, err := c.SocketMode()
	if err != nil {
		return err // config.Load has checked it
	}
	clients, err := listenAll(c, mode)
	if err != nil {
		d.Close()
		return cli.AsRuntimeError(err)
	}
	var admin net.Listener
	if d.admin != nil {
		if admin, err = listenTCP(c.Admin.Address, "admin.address", openTCPListener); err != nil {
			closeAll(clients)
			d.Close()
			return cli.AsRuntimeError(err)
		}
	}
	return cli.AsRuntimeError(d.run(clients, admin, stop, hangup))
}

// run serves the listeners, and closes them, until a value of stop or a failure. run returns when every goroutine of
// the daemon has ended.
func (d *Daemon) run(clients []net.Listener, admin net.Listener, stop, hangup <-chan os.Signal) error {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	var running sync.WaitGroup
	defer running.Wait()
	failed := make(chan error, len(clients)+3) // room for one error of each part below, so that none blocks

	backendsClosed, endLease := context.WithCancel(context.Background())
	defer endLease()
	running.Go(func() {
		defer endLease() // the lease returns its slots when no backend is open
		if err := d.reservoir.Run(ctx); err != nil && ctx.Err() == nil {
			failed <- fmt.Errorf("reservoir: %w", err)
		}
	})
	if d.lease != nil {
		running.Go(func() {
			defer d.table.Close()
			if err := d.lease.Run(backendsClosed); err != nil {
				failed <- err
			}
		})
	}
	for _, ln := range clients {
		running.Go(func() {
			if err := d.server.Serve(ln); !errors.Is(err, proxy.ErrServerClosed) {
				failed <- fmt.Errorf("serve %s: %w", ln.Addr(), err)
			}
		})
	}
	if admin != nil {
		running.Go(func() {
			if err := d.admin.Serve(admin); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("serve admin %s: %w", admin.Addr(), err)
			}
		})
		defer d.closeAdmin()
	}
	running.Go(func() { WatchFiles(ctx, d.watched, hangup, d.log) })
	d.logStart(clients, admin)

	var failure error
	select {
	case s := <-stop:
		failure = d.drain(stop, failed, "signal", s.String())
	case failure = <-failed:
		_ = d.finishSessions(stop, d.config.Drain.Timeout, "after", "a failure") // the first failure is returned
	}
	end() // reservoir and watch run until ctx ends; the deferred Wait needs that
	return failure
}

// closeAdmin closes the admin listener. The daemon calls it last, so that a drain can be observed.
func (d *Daemon) closeAdmin() {
	ctx, cancel := context.WithTimeout(context.Background(), AdminCloseTimeout)
	defer cancel()
	if d.admin.Shutdown(ctx) != nil {
		_ = d.admin.Close() // the scrape had its time
	}
}

// logStart writes one log line about this process, without secrets.
func (d *Daemon) logStart(clients []net.Listener, admin net.Listener) {
	c := d.config
	var addresses []string
	for _, ln := range clients {
		addresses = append(addresses, ln.Addr().String())
	}
	attrs := []any{
		slog.String("version", d.version),
		slog.Any("listen", addresses),
		slog.String("backend", c.Backend.Kind),
		slog.String("endpoint", c.Backend.Endpoint),
		slog.Int("port", c.Backend.Port),
		slog.String("user", c.Backend.User),
		slog.String("database", c.Backend.Database),
		slog.String("pairing", string(c.Proxy.Pairing)),
		slog.String("auth", string(c.Proxy.Startup.Method)),
		slog.Bool("tls", c.TLS.Cert != ""),
	}
	if c.Backend.Address != "" {
		attrs = append(attrs, slog.String("address", c.Backend.Address))
	}
	if admin != nil {
		attrs = append(attrs, slog.String("admin", admin.Addr().String()))
	}
	d.log.Info("serving", attrs...)
}

func closeAll(listeners []net.Listener) {
	for _, ln := range listeners {
		_ = ln.Close() // another error is returned
	}
}
