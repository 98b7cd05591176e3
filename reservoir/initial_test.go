package reservoir

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestFillTricklesAboveTheLowWatermark(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: 10 * time.Millisecond}
		cfg := small(20)
		cfg.LowWatermark = 10
		r := running(t, cfg, s.dial)
		sleep(100 * time.Millisecond)
		if got := r.Stats(); got.Ready < 10 || got.Ready > 11 || !got.Filled {
			t.Errorf("%d ready at once, filled %v, want the low watermark of 10", got.Ready, got.Filled)
		}
		sleep(5 * time.Second)
		if got := r.Stats().Ready; got < 15 || got > 16 {
			t.Errorf("%d ready 5 s later, want 15 or 16", got)
		}
		// Whoever waits makes it run.
		for range 20 {
			mustAcquire(t, r)
		}
		if got := r.age(); got > 6*time.Second {
			t.Errorf("20 were lent after %v", got)
		}
	})
}

func TestInitialFillIsOverInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := &server{fail: func(attempt int) error {
			if attempt > 3 {
				return &DialError{Step: StepTCP, Err: errors.New("down")}
			}
			return nil
		}}
		r, err := New(small(10), s.dial, nil, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), DefaultInitialFill+2*scanEvery)
		defer cancel()
		finished := make(chan error, 1)
		go func() { finished <- r.Run(ctx) }()
		sleep(DefaultInitialFill - 2*scanEvery)
		if r.Stats().Filled {
			t.Error("filled with 3 of 10")
		}
		if err := <-finished; err != nil {
			t.Fatal(err)
		}
		if !r.Stats().Filled || strings.Count(log.String(), "initial fill") != 1 || !strings.Contains(log.String(), "open=3 wanted=10") {
			t.Errorf("filled %v after the timeout, log:\n%s", r.Stats().Filled, log.String())
		}
	})
}

// A ready backend that does not answer is found before a client gets it; those
// that do stay where they are.
func TestProbeFindsTheDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var dialled []*answering
		s := &server{}
		cfg := small(3)
		cfg.ProbeInterval = 10 * time.Second
		r := running(t, cfg, func(ctx context.Context, st *Startup) (*Conn, error) {
			c, err := s.dial(ctx, st)
			if err == nil {
				a := &answering{Conn: c.Net}
				a.says(string(readyFrame))
				mu.Lock()
				dialled = append(dialled, a)
				mu.Unlock()
				c.Net = a
			}
			return c, err
		})
		sleep(25 * time.Second)
		for i, a := range dialled {
			if n := a.asked.Load(); n != 2 {
				t.Errorf("backend %d was asked %d times in 25 s, want 2", i, n)
			}
		}
		if attempts, _, _ := s.counts(); attempts != 3 || r.Stats().Checkouts != 0 {
			t.Errorf("%d dials, %d checkouts, want 3 and 0", attempts, r.Stats().Checkouts)
		}
		dialled[0].says("")
		dialled[1].says("Z\x00\x00\x00\x05T")
		sleep(15 * time.Second)
		if attempts, open, _ := s.counts(); attempts != 5 || open != 3 || r.Stats().Ready != 3 {
			t.Errorf("%d dials, %d open, %d ready, want 5, 3, 3", attempts, open, r.Stats().Ready)
		}
	})
}

// answering answers each Sync, for the server behind it.
type answering struct {
	net.Conn
	answer atomic.Pointer[string]
	asked  atomic.Int32
}

func (a *answering) says(answer string) { a.answer.Store(&answer) }

func (a *answering) Write(b []byte) (int, error) {
	if b[0] == 'S' {
		a.asked.Add(1)
		return len(b), nil
	}
	return a.Conn.Write(b)
}

func (a *answering) Read(b []byte) (int, error) {
	switch answer := *a.answer.Load(); {
	case len(b) != len(readyFrame): // the good-bye
		return a.Conn.Read(b)
	case answer == "":
		return 0, io.EOF
	default:
		return copy(b, answer), nil
	}
}
