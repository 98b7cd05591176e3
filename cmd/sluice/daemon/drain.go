package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sluice-proxy/sluice/cmd/sluice/config"
)

// This file ends a daemon after its first signal, according to drain.mode. In the modes stop and plain, clients are
// still at work when the signal comes. In the mode native they have already left.

// nativeTimeout bounds a drain in the mode native, if there are clients although none should be left. If the
// application uses up its termination grace period, the kubelet kills a sidecar 2 s later. Sluice needs another 1.5
// s to end sessions, backends and the lease.
const nativeTimeout = 300 * time.Millisecond

// quietPoll is the interval at which a drain in the mode plain checks for new clients.
const quietPoll = 50 * time.Millisecond

// errDrainCut is the error of a daemon whose drain was cut by a second signal.
var errDrainCut = errors.New("cut by a second signal before the drain ended")

// drain ends all sessions according to drain.mode. A second value of stop, or a value of failed, cuts the drain short.
// A timeout is not an error.
func (d *Daemon) drain(stop <-chan os.Signal, failed <-chan error, why ...any) error {
	c := d.config.Drain
	switch c.Mode {
	case config.DrainNative:
		return d.finishSessions(stop, min(c.Timeout, nativeTimeout), why...)
	case config.DrainPlain:
		began := time.Now()
		d.draining.Store(true)
		d.log.Info("draining: new clients are served until none came for drain.quiet",
			append(why, "quiet", c.Quiet, "timeout", c.Timeout, "clients", d.server.Stats().Clients)...)
		if err := d.awaitNoNewClients(stop, failed); err != nil {
			return errors.Join(err, d.server.Close())
		}
		return d.finishSessions(stop, max(0, c.Timeout-time.Since(began)))
	}
	return d.finishSessions(stop, c.Timeout, why...)
}

// awaitNoNewClients waits until no client has come for the time drain.quiet, but at most half of drain.timeout. The
// other half is for the transactions that run then.
func (d *Daemon) awaitNoNewClients(stop <-chan os.Signal, failed <-chan error) error {
	c := d.config.Drain
	tick := time.NewTicker(quietPoll)
	defer tick.Stop()
	most := time.After(c.Timeout / 2)
	came, since := d.server.Stats().Came, time.Now()
	for time.Since(since) < c.Quiet {
		select {
		case <-stop:
			return errDrainCut
		case err := <-failed:
			return err
		case <-most:
			d.log.Warn("clients still come: they are refused from now on", "waited", c.Timeout/2)
			return nil
		case <-tick.C:
		}
		if now := d.server.Stats().Came; now != came {
			came, since = now, time.Now()
		}
	}
	return nil
}

// finishSessions accepts no more clients and lets transactions finish. finishSessions cuts the remaining transactions
// after the timeout, or after another value of stop.
func (d *Daemon) finishSessions(stop <-chan os.Signal, timeout time.Duration, why ...any) error {
	d.draining.Store(true)
	d.log.Info("draining", append(why, "timeout", timeout, "clients", d.server.Stats().Clients)...)
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- d.server.Shutdown(ctx) }()

	var result error
	select {
	case err := <-done:
		switch {
		case err == nil:
			d.log.Info("drained", "took", time.Since(began))
		case errors.Is(err, context.DeadlineExceeded):
			d.log.Warn("drain timeout reached, the rest was cut", "timeout", timeout)
		default:
			result = fmt.Errorf("drain: %w", err)
		}
	case <-stop:
		result = errDrainCut
		cancel()
		<-done // returns because ctx has ended; result has the error
	}
	return errors.Join(result, d.server.Close())
}
