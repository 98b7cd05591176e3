package reservoir

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
)

// server is the other end of every backend that its dial method makes.
type server struct {
	delay time.Duration           // how long a dial takes
	fail  func(attempt int) error // nil: dials succeed
	// others is how many connections other processes have; nil: none.
	others func() int

	mu       sync.Mutex
	attempts []time.Duration // since began, when each dial was asked for
	began    time.Time
	dialing  int
	open     int
	most     int // open + dialing at most
	all      int // the same with those of others
	says     []string
}

// counts are the dials so far, the connections open now, and the most that were
// open or being dialled at once.
func (s *server) counts() (attempts, open, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.attempts), s.open, s.most
}

// look counts everybody's connections.
func (s *server) look() {
	if s.others == nil {
		return
	}
	n := s.others()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = max(s.all, s.dialing+s.open+n)
}

func (s *server) times() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Duration(nil), s.attempts...)
}

func (s *server) dial(ctx context.Context, _ *Startup) (*Conn, error) {
	s.mu.Lock()
	if s.began.IsZero() {
		s.began = time.Now()
	}
	s.attempts = append(s.attempts, time.Since(s.began))
	n := len(s.attempts)
	s.dialing++
	s.most = max(s.most, s.dialing+s.open)
	s.mu.Unlock()
	s.look()
	err := s.answer(ctx, n)
	ours, theirs := net.Pipe()
	s.mu.Lock()
	s.dialing--
	if err == nil {
		s.open++
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	go s.serve(theirs)
	c := NewConn(ours)
	c.PID = uint32(n)
	c.Params = map[string]string{"server_version": fmt.Sprint("16.", n)}
	return c, nil
}

// answer takes the time of a dial and says how it ends.
func (s *server) answer(ctx context.Context, n int) error {
	select {
	case <-time.After(s.delay):
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	fail := s.fail
	s.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(n)
}

// serve reads until a Terminate or the connection's end.
func (s *server) serve(conn net.Conn) {
	var said []byte
	frame := make([]byte, 5)
	for {
		n, err := io.ReadFull(conn, frame)
		said = append(said, frame[:n]...)
		if err != nil || frame[0] == 'X' {
			break
		}
	}
	s.mu.Lock()
	s.open--
	s.says = append(s.says, string(said))
	s.mu.Unlock()
	conn.Close()
}

// stuck is a connection whose peer has stopped reading.
type stuck struct{ net.Conn }

func (s stuck) Write([]byte) (int, error) { return s.Conn.Read(make([]byte, 1)) }

// small is a configuration of n backends with fixed lifetimes.
func small(n int) Config {
	cfg := Defaults()
	cfg.MaxOpen, cfg.TargetReady, cfg.LowWatermark = n, n, n
	cfg.LifetimeJitter = 0
	return cfg
}

// running starts a reservoir inside a synctest bubble. With the test it ends,
// and every loan that the test did not end.
func running(t *testing.T, cfg Config, dial DialFunc) *Reservoir {
	t.Helper()
	var mu sync.Mutex
	var dialled []*Conn
	r := made(t, cfg, func(ctx context.Context, s *Startup) (*Conn, error) {
		c, err := dial(ctx, s)
		if err == nil {
			mu.Lock()
			dialled = append(dialled, c)
			mu.Unlock()
		}
		return c, err
	})
	ctx, cancel := context.WithCancel(context.Background())
	finished := make(chan error, 1)
	go func() { finished <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-finished; err != nil {
			t.Errorf("Run: %v", err)
		}
		for _, c := range dialled {
			if c.state == lent {
				c.Discard(Shutdown)
			}
		}
	})
	synctest.Wait()
	return r
}

func made(t *testing.T, cfg Config, dial DialFunc) *Reservoir {
	t.Helper()
	r, err := New(cfg, dial, metrics.New(metrics.Options{}).Reservoir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sleep lets the bubble's time pass and its goroutines settle.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// mustAcquire lends a backend or fails the test.
func mustAcquire(t *testing.T, r *Reservoir) *Conn {
	t.Helper()
	c, err := r.Acquire(t.Context())
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	return c
}

// verify panics when the books of a reservoir are wrong.
func (r *Reservoir) verify() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shelf.verify()
	if n := r.waiters.count; n != r.shelf.waiting {
		panic(fmt.Sprintf("%d in the queue, %d waiting", n, r.shelf.waiting))
	}
	if n := r.claims.count; n != r.shelf.claimed {
		panic(fmt.Sprintf("%d in the queue, %d claimed", n, r.shelf.claimed))
	}
}

// verify panics when the books are wrong.
func (s *poolState) verify() {
	for name, n := range map[string]int{"in use": s.inUse, "dialling": s.dialing, "closing": s.closing,
		"waiting": s.waiting, "claimed": s.claimed, "replacing": s.replacing} {
		if n < 0 {
			panic(fmt.Sprintf("%s is %d", name, n))
		}
	}
	if s.openCount() > s.maxOpen {
		panic(fmt.Sprintf("%d in use + %d ready + %d dialling + %d closing > %d",
			s.inUse, len(s.ready), s.dialing, s.closing, s.maxOpen))
	}
	if s.waiting > 0 && len(s.ready) > 0 {
		panic(fmt.Sprintf("%d wait although %d are ready", s.waiting, len(s.ready)))
	}
	for _, c := range s.ready {
		if c.state != ready {
			panic(fmt.Sprintf("a backend in state %d is on the shelf", c.state))
		}
	}
}
