package injectcmd

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
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-proxy/sluice/cmd/sluice/cli"
	"github.com/sluice-proxy/sluice/cmd/sluice/daemon"
	"github.com/sluice-proxy/sluice/cmd/sluice/inject"
	"github.com/sluice-proxy/sluice/metrics"
)

// webhookQuiet is how long the webhook answers after SIGTERM. Until then the API server may not know that this replica
// ends.
const webhookQuiet = 5 * time.Second

// webhook is sluice inject as a server, with calls over TLS, and with /metrics, /livez and /readyz on a plain port.
type webhook struct {
	server         *inject.Server
	version        string
	cert           *inject.Certificate
	files          []string
	calls, plain   net.Listener
	admin          *http.Server
	log            *slog.Logger
	reloadFailures atomic.Uint64
	draining       atomic.Bool
}

// newWebhook reads the webhook's certificate and opens its listeners.
func newWebhook(o *injectOptions, injector *inject.Injector, version string, log *slog.Logger) (*webhook, error) {
	if o.certFile == "" || o.keyFile == "" {
		return nil, errors.New("the webhook needs --cert-file and --key-file; with -f manifests are changed instead")
	}
	cert, err := inject.NewCertificate(o.certFile, o.keyFile)
	if err != nil {
		return nil, fmt.Errorf("--cert-file: %w", err)
	}
	w := &webhook{server: inject.NewServer(injector, cert, log), version: version, cert: cert, files: []string{o.certFile, o.keyFile}, log: log}
	registry := metrics.NewInjector(version, w.injectorCounts)
	w.admin = daemon.NewAdminServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), alwaysAlive, w.readinessError, noWarning, daemon.NewAdminConnLimiter(log, metrics.NewAdmin(registry)))
	if w.calls, err = net.Listen("tcp", o.listen); err != nil {
		return nil, cli.AsRuntimeError(fmt.Errorf("--listen: %w", err))
	}
	if w.plain, err = net.Listen("tcp", o.admin); err != nil {
		_ = w.calls.Close()
		return nil, cli.AsRuntimeError(fmt.Errorf("--admin-address: %w", err))
	}
	return w, nil
}

// run serves until SIGTERM, SIGINT or the end of ctx. run returns when every goroutine of the webhook has ended.
func (w *webhook) run(ctx context.Context) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	var running sync.WaitGroup
	defer running.Wait()
	defer w.closeAdmin()
	failed := make(chan error, 1)
	running.Go(func() {
		if err := w.admin.Serve(w.plain); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve %s: %w", w.plain.Addr(), err)
			stop()
		}
	})
	running.Go(func() {
		daemon.WatchFiles(ctx, []*daemon.WatchedFiles{daemon.NewWatchedFiles("certificate of the webhook", w.reloadCertificate, w.files...)}, hangup, w.log)
	})
	running.Go(func() {
		<-ctx.Done()
		w.draining.Store(true)
	})
	w.log.Info("serving the admission webhook", "version", w.version, "listen", w.calls.Addr().String(), "admin", w.plain.Addr().String(),
		"certificate_expires", w.cert.Expires())
	err := w.server.Serve(ctx, w.calls, webhookQuiet)
	stop() // for the other goroutines, whatever ended Serve
	select {
	case other := <-failed:
		err = errors.Join(err, other)
	default:
	}
	w.log.Info("ended", "error", err)
	return err
}

func (w *webhook) closeAdmin() {
	ctx, cancel := context.WithTimeout(context.Background(), daemon.AdminCloseTimeout)
	defer cancel()
	if w.admin.Shutdown(ctx) != nil {
		_ = w.admin.Close() // the scrape had its time
	}
}

func (w *webhook) reloadCertificate() error {
	err := w.cert.Reload()
	if err != nil {
		w.reloadFailures.Add(1)
	}
	return err
}

// alwaysAlive is the liveness check of a webhook. The check always succeeds, because a process that answers a probe
// also answers a call.
func alwaysAlive(context.Context) error { return nil }

// noWarning returns the warning in a webhook's status, which is always empty.
func noWarning() string { return "" }

// readinessError returns why the API server should call another replica, or nil if it need not.
func (w *webhook) readinessError() error {
	switch {
	case w.draining.Load():
		return daemon.ErrDraining
	case time.Now().After(w.cert.Expires()):
		return fmt.Errorf("the certificate has expired on %v", w.cert.Expires())
	}
	return nil
}

func (w *webhook) injectorCounts() metrics.InjectorCounts {
	s := w.server.Stats()
	return metrics.InjectorCounts{
		Injected: s.Outcomes[inject.Injected], Present: s.Outcomes[inject.Present],
		Skipped: s.Outcomes[inject.Skipped], Refused: s.Outcomes[inject.Refused],
		Malformed: s.Malformed, ReloadFailures: w.reloadFailures.Load(), CertificateExpires: w.cert.Expires(),
	}
}
