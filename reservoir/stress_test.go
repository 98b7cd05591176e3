package reservoir

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// 64 borrowers of 8 backends, in real time and under the race detector: the
// books are right whenever anybody looks, and no backend has two borrowers.
func TestManyBorrowers(t *testing.T) {
	t.Parallel()
	s := &server{delay: time.Millisecond}
	cfg := small(8)
	cfg.RateLimit, cfg.BurstLimit = 10000, 10000
	r := made(t, cfg, s.dial)
	ctx, cancel := context.WithCancel(t.Context())
	finished := make(chan error, 1)
	go func() { finished <- r.Run(ctx) }()

	var borrowers, watcher sync.WaitGroup
	stop := make(chan struct{})
	watcher.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				r.verify()
				time.Sleep(50 * time.Microsecond)
			}
		}
	})
	for i := range 64 {
		borrowers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for range 500 {
				c := r.TryAcquire()
				if c == nil {
					wait, cancel := ctx, context.CancelFunc(func() {})
					if random.IntN(4) == 0 {
						wait, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(1000))*time.Microsecond)
					}
					var err error
					if random.IntN(2) == 0 {
						c, err = r.Acquire(wait)
					} else {
						c, err = atPlace(r, random)
					}
					cancel()
					if err != nil {
						continue
					}
				}
				if c.Attachment != nil {
					t.Errorf("two borrowers of one backend")
				}
				c.Attachment = i // the race detector watches it too
				if random.IntN(8) == 0 {
					time.Sleep(time.Duration(random.IntN(100)) * time.Microsecond)
				}
				c.Attachment = nil
				switch random.IntN(16) {
				case 0:
					c.Discard(Broken)
				default:
					c.Release()
				}
			}
		})
	}
	borrowers.Wait()
	close(stop)
	watcher.Wait()
	cancel()
	if err := <-finished; err != nil {
		t.Error(err)
	}
	if attempts, open, most := s.counts(); open != 0 || most > 8 || attempts < 8 {
		t.Errorf("%d dials, %d left open, %d at most", attempts, open, most)
	}
}

// atPlace waits at a place, which somebody may have it leave.
func atPlace(r *Reservoir, random *rand.Rand) (*Conn, error) {
	p := r.NewWaitPlace()
	var leaving sync.WaitGroup
	if random.IntN(4) == 0 {
		leaving.Go(func() {
			time.Sleep(time.Duration(random.IntN(1000)) * time.Microsecond)
			p.EndWait(errLeft)
		})
	}
	c, err := p.Acquire()
	leaving.Wait()
	p.Recycle()
	return c, err
}

// A busy reservoir whose backends age out keeps its borrowers waiting no longer
// than a dial, and the server never sees one connection too many.
func TestBusyReservoirAgesUnnoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: 100 * time.Millisecond}
		cfg := small(20)
		r := running(t, cfg, s.dial)
		sleep(10 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
		defer cancel()
		var worst time.Duration
		var mu sync.Mutex
		var borrowers sync.WaitGroup
		for i := range 18 { // 90 % of the backends, all the time
			borrowers.Go(func() {
				random := rand.New(rand.NewPCG(uint64(i), 2))
				for ctx.Err() == nil {
					began := time.Now()
					c, err := r.Acquire(context.Background())
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					worst = max(worst, time.Since(began))
					mu.Unlock()
					time.Sleep(time.Duration(1+random.IntN(1000)) * time.Millisecond)
					c.Release()
				}
			})
		}
		borrowers.Wait()
		attempts, _, most := s.counts()
		if most > 20 || attempts < 4*18 || worst > 200*time.Millisecond {
			t.Errorf("%d dials, %d at most open, longest wait %v", attempts, most, worst)
		}
	})
}

// Against a real server: its own count of connections is never over max_open,
// and is nothing in the end.
func TestServersOwnCount(t *testing.T) {
	t.Parallel()
	srv := pgtest.Shared(t)
	srv.SQL(t, "postgres", "DROP ROLE IF EXISTS counted; CREATE ROLE counted LOGIN PASSWORD '"+superuserPassword+"'")
	count := func() string {
		return srv.SQL(t, "postgres", "SELECT count(*) FROM pg_stat_activity WHERE usename = 'counted'")
	}
	dialCfg := to(srv, "verify-full")
	dialCfg.User = "counted"
	cfg := small(5)
	cfg.RateLimit, cfg.BurstLimit = 1000, 1000
	r := made(t, cfg, dialer(t, dialCfg).Dial)
	ctx, cancel := context.WithCancel(t.Context())
	finished := make(chan error, 1)
	go func() { finished <- r.Run(ctx) }()

	var borrowers sync.WaitGroup
	for range 10 {
		borrowers.Go(func() {
			for range 8 {
				c, err := r.Acquire(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				got := query(t, c, "SELECT count(*) <= 5 FROM pg_stat_activity WHERE usename = 'counted'")
				if want := "D\x00\x01\x00\x00\x00\x01t"; got[1] != want {
					t.Errorf("the server counts more than 5: %q", got)
				}
				c.Discard(Unclean)
			}
		})
	}
	borrowers.Wait()
	mustAcquire(t, r).Release()
	for r.Stats().Ready < 5 {
		time.Sleep(time.Millisecond)
	}
	if got := count(); got != "5" {
		t.Errorf("the server counts %s, want 5", got)
	}
	cancel()
	if err := <-finished; err != nil {
		t.Error(err)
	}
	if got := count(); got != "0" {
		t.Errorf("in the end the server counts %s", got)
	}
	if got := fmt.Sprint(r.Stats().Closing, r.Stats().InUse); got != "0 0" {
		t.Errorf("closing, in use: %s", got)
	}
}
