package fleetsim

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sluice-proxy/sluice/lease"
)

const (
	dialTime  = 50 * time.Millisecond
	quotaRate = 100.0 // DSQL's, per second
	quotaMost = 1000.0
	scanEvery = time.Second
)

// fleet is a number of sidecars on one cluster. All of it lives in one synctest
// bubble.
type fleet struct {
	cfg     lease.Config
	table   *table
	began   time.Time
	stop    context.CancelFunc
	ctx     context.Context
	running sync.WaitGroup
	sidecar []*sidecar
	folder  string        // of the sidecars' files, "" for none
	spread  time.Duration // within which the sidecars of one start begin
	failOne int           // one dial in so many fails, 0 for none

	mu         sync.Mutex
	rng        *rand.Rand
	open       int
	mostOpen   int
	opens      []int // dials by second
	violations int
	quota      bucket
	reached    time.Duration // when 95 % was open; 0: not yet
	goal       int
}

// sidecar has a lease, and backends that are mere numbers.
type sidecar struct {
	fleet *fleet
	lease *lease.Lease
	kill  context.CancelFunc
	want  int
	name  string
	file  *lease.LockFile // nil for none
	path  string          // of file

	mu      sync.Mutex
	permits []*lease.Permit
	dialing int
	dead    bool
	began   time.Time // zero: not yet
	failed  int       // dials
	closed  int       // backends closed because the state asked for it
}

func config() lease.Config {
	c := lease.Defaults()
	c.Slots, c.Rate, c.Table, c.Cluster = true, true, "leases", "cluster"
	c.Margin = 0
	c.Lifetime = 13 * time.Minute
	return c
}

func newFleet(cfg lease.Config, shards int, seed uint64) *fleet {
	ctx, stop := context.WithCancel(context.Background())
	s := lease.Settings{Format: *format, Shards: shards, Limit: cfg.Limit - cfg.Margin, Rate: cfg.RateLimit - cfg.Reserve, Burst: cfg.Burst}
	return &fleet{spread: 5 * time.Second, cfg: cfg, table: newTable(s, seed), began: time.Now(), ctx: ctx, stop: stop,
		rng: rand.New(rand.NewPCG(seed, 2)), quota: bucket{level: quotaMost, rate: quotaRate, most: quotaMost}}
}

// start adds n sidecars, within 5 seconds unless told otherwise, that want so many backends each.
func (f *fleet) start(n, want int) {
	f.mu.Lock()
	f.goal = min(f.goal+n*want, f.table.settings.Limit)
	f.mu.Unlock()
	for range n {
		path := ""
		if f.folder != "" {
			path = filepath.Join(f.folder, fmt.Sprint(len(f.sidecar)))
		}
		f.add(want, path)
	}
}

// add adds a sidecar within spread, with a file unless path is "".
func (f *fleet) add(want int, path string) *sidecar {
	delay := time.Duration(f.rng.Int64N(int64(f.spread)))
	skew := time.Duration(f.rng.Int64N(int64(time.Hour)))
	s := &sidecar{fleet: f, want: want, name: fmt.Sprint(len(f.sidecar)), path: path}
	clock := func() time.Duration { return time.Since(f.began) + skew }
	l, err := lease.New(f.cfg, s.port(), clock, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		panic(err)
	}
	if s.lease = l; path != "" {
		s.file = lease.NewLockFile(path)
		l.UseLockFile(s.file)
	}
	ctx, kill := context.WithCancel(f.ctx)
	s.kill = kill
	f.sidecar = append(f.sidecar, s)
	f.running.Go(func() {
		time.Sleep(delay)
		s.mu.Lock()
		s.began = time.Now()
		s.mu.Unlock()
		f.running.Go(func() { s.fill(ctx) })
		f.running.Go(func() { s.scan(ctx) })
		_ = s.lease.Run(ctx)
	})
	return s
}

// end stops everything.
func (f *fleet) end() {
	for _, s := range f.sidecar {
		s.thaw()
	}
	f.stop()
	for _, s := range f.sidecar {
		s.drop(s.count())
	}
	f.running.Wait()
	for _, s := range f.sidecar {
		if s.file != nil {
			s.file.Close()
		}
	}
}

// crash ends a sidecar without a word: its sockets close, its record stays.
func (s *sidecar) crash() {
	s.fleet.table.mu.Lock()
	s.fleet.table.away[s.name] = true // nothing of its end reaches the table
	s.fleet.table.mu.Unlock()
	s.mu.Lock()
	s.dead = true
	s.mu.Unlock()
	s.thaw()
	s.kill()
	s.drop(s.count())
	if s.file != nil {
		s.file.Close() // by the kernel
	}
}

// freeze stops a sidecar as SIGSTOP does: what it holds stays open. thaw lets it go on.
func (s *sidecar) freeze() {
	t := s.fleet.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.frozen[s.name] == nil {
		t.frozen[s.name] = make(chan struct{})
	}
}

func (s *sidecar) thaw() {
	t := s.fleet.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if frozen := t.frozen[s.name]; frozen != nil {
		close(frozen)
		delete(t.frozen, s.name)
	}
}

func (s *sidecar) port() port { return port{s.fleet.table, s.name} }

// again starts the next process of a pod in place of one that is gone, or seems to be.
func (s *sidecar) again() *sidecar { return s.fleet.add(s.want, s.path) }

// fill dials as many backends as are wanted and admitted.
func (s *sidecar) fill(ctx context.Context) {
	for ctx.Err() == nil {
		s.mu.Lock()
		missing := s.want - len(s.permits) - s.dialing
		s.mu.Unlock()
		if missing <= 0 {
			sleep(ctx, 200*time.Millisecond)
			continue
		}
		p, err := s.lease.Admit(ctx, missing)
		if err != nil {
			return
		}
		s.port().thaw()
		failed := s.fleet.dialed()
		s.mu.Lock()
		s.dialing++
		s.mu.Unlock()
		s.fleet.running.Go(func() {
			time.Sleep(dialTime)
			s.mu.Lock()
			s.dialing--
			gone := s.dead || ctx.Err() != nil
			if !gone && failed {
				s.failed++
				gone = true
			}
			if !gone {
				s.permits = append(s.permits, p)
			}
			s.mu.Unlock()
			if gone {
				s.fleet.closed(1)
				p.Release()
			}
		})
	}
}

// scan closes what the state asks for, once a second, as a reservoir does.
func (s *sidecar) scan(ctx context.Context) {
	for sleep(ctx, scanEvery) {
		s.port().thaw()
		if excess := s.lease.State().Excess; excess > 0 {
			s.mu.Lock()
			s.closed += min(excess, len(s.permits))
			s.mu.Unlock()
			s.drop(excess)
		}
	}
}

func (s *sidecar) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.permits)
}

// drop closes n backends.
func (s *sidecar) drop(n int) {
	s.mu.Lock()
	n = min(n, len(s.permits))
	gone := slices.Clone(s.permits[:n])
	s.permits = s.permits[n:]
	s.mu.Unlock()
	s.fleet.closed(n)
	for _, p := range gone {
		p.Release()
	}
}

// dialed books a connection at the cluster, and says whether it is going to fail.
func (f *fleet) dialed() (fails bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Since(f.began)
	for len(f.opens) <= int(now/time.Second) {
		f.opens = append(f.opens, 0)
	}
	f.opens[int(now/time.Second)]++
	if !f.quota.take(now, 1) {
		f.violations++
	}
	f.open++
	f.mostOpen = max(f.mostOpen, f.open)
	if f.reached == 0 && f.open*100 >= f.goal*95 {
		f.reached = now
	}
	return f.failOne > 0 && f.rng.IntN(f.failOne) == 0
}

func (f *fleet) opened() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open
}

func (f *fleet) reachedAt() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reached
}

// closedOnDemand is how many backends the state made it close.
func (s *sidecar) closedOnDemand() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (f *fleet) closed(n int) {
	f.mu.Lock()
	f.open -= n
	f.mu.Unlock()
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// shares are the backends of the living, ascending.
func (f *fleet) shares() []int {
	var shares []int
	for _, s := range f.sidecar {
		s.mu.Lock()
		dead := s.dead
		s.mu.Unlock()
		if !dead {
			shares = append(shares, s.count())
		}
	}
	slices.Sort(shares)
	return shares
}

// jain is Jain's index of fairness: 1 when all have the same.
func jain(shares []int) float64 {
	var sum, squares float64
	for _, n := range shares {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	return sum * sum / (float64(len(shares)) * squares)
}
