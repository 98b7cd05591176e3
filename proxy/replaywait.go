package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-proxy/sluice/retry"
)

// lookEvery is how often a replay that waits looks for its client.
const lookEvery = 50 * time.Millisecond

// waitOut waits for the pause and the gate, as long as somebody waits for it.
func (s *session) waitOut(pause time.Duration, queued bool, deadline time.Time) retry.Reason {
	if pause == 0 && !queued {
		return retry.Replayable
	}
	r := s.srv.replays
	ctx, stop := s.attended(earlier(s.tx.attempts.Deadline(&r.cfg.Policy).Add(pause), deadline))
	defer stop()
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return attendedReason(ctx)
		}
	}
	if queued {
		pass, err := r.gate.Enter(ctx, s.tx.key, s.tx.attempts.Alone(&r.cfg.Policy))
		if err != nil {
			return attendedReason(ctx)
		}
		s.tx.pass = pass
	}
	return retry.Replayable
}

// attended returns a context that ends with the deadline, when the client
// cancels or leaves, or when the process drains. stop ends it.
func (s *session) attended(deadline time.Time) (ctx context.Context, stop func()) {
	ctx, uncancel := s.cancellable()
	ctx, expire := context.WithDeadlineCause(ctx, deadline, errTimedOut)
	ctx, leave := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		look := time.NewTicker(lookEvery)
		defer look.Stop()
		for {
			switch {
			case s.client.gone():
				leave(errClientGone)
			case s.srv.draining.Load():
				leave(errDraining)
			}
			select {
			case <-ctx.Done():
				return
			case <-look.C:
			}
		}
	}()
	return ctx, func() {
		leave(nil)
		<-done
		expire()
		uncancel()
	}
}

// attendedReason is why such a context ended.
func attendedReason(ctx context.Context) retry.Reason {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTimedOut):
		return retry.Exhausted
	case errors.Is(cause, errClientGone):
		return retry.ClientGone
	case errors.Is(cause, errDraining):
		return retry.Draining
	}
	return retry.Cancelled
}
