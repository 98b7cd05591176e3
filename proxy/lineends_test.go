package proxy

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/reservoir"
)

// inLine runs with a server none of whose backends is to be had. acquireInLine has a new session of it wait
// in line, with a statement timeout where that is more than 0.
func inLine(t *testing.T, run func(lineUp func(timeout time.Duration, before func(*session)) error)) {
	synctest.Test(t, func(t *testing.T) {
		dial := func(context.Context, *reservoir.Startup) (*reservoir.Conn, error) {
			return nil, errors.New("no server")
		}
		backends, err := reservoir.New(reservoir.Defaults(), dial, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		srv := &Server{backends: backends}
		run(func(timeout time.Duration, before func(*session)) error {
			s := &session{srv: srv, settings: settings.NewClient(srv.treat, new(settings.InternTable)), backendPairing: backendPairing{t: new(turn)}}
			if timeout > 0 {
				s.t.deadline = time.Now().Add(timeout)
			}
			before(s)
			_, err := s.acquireInLine()
			return err
		})
	})
}

// A statement timeout that ends as its wait in line does is that session's: whoever has the place
// next is not told of it.
func TestTimeoutAtTheEndOfAWait(t *testing.T) {
	t.Parallel()
	inLine(t, func(lineUp func(time.Duration, func(*session)) error) {
		cancelled := func(s *session) { time.AfterFunc(time.Second, func() { s.handleCancelRequest(context.Background()) }) }
		for range 300 {
			lineUp(time.Second, cancelled)
			if err := lineUp(0, cancelled); err != errCanceled {
				t.Fatalf("a wait without a timeout has ended with %v", err)
			}
		}
	})
}

// A session that was cut, or cancelled, just before it takes its place in line does not wait there.
func TestCutInFrontOfTheLine(t *testing.T) {
	t.Parallel()
	inLine(t, func(lineUp func(time.Duration, func(*session)) error) {
		if err := lineUp(0, func(s *session) { s.cutOff.Store(true) }); err != errCut {
			t.Errorf("cut: %v", err)
		}
		if err := lineUp(0, func(s *session) { s.cancel.requestedAt = time.Now() }); err != errCanceled {
			t.Errorf("cancelled: %v", err)
		}
	})
}
