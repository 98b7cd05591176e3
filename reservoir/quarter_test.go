package reservoir

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-proxy/sluice/lease"
)

// bank is a lease table in memory. Calls and answers get lost, and one process
// may be cut off.
type bank struct {
	settings lease.Settings

	mu     sync.Mutex
	rng    *rand.Rand
	shards []*lease.Shard
	next   int64
	calm   bool // nothing gets lost any more
}

// teller is the bank as one process sees it.
type teller struct {
	*bank
	away bool
}

// carry takes a call to the table and its answer back, unless one is lost, which
// takes until the caller's patience ends.
func (b *teller) carry(ctx context.Context, do func()) error {
	b.mu.Lock()
	fate := b.rng.IntN(40)
	lost, unheard := b.away || fate == 0 && !b.calm, fate == 1 && !b.calm
	b.mu.Unlock()
	if lost {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(5 * time.Millisecond)
	b.mu.Lock()
	do()
	b.mu.Unlock()
	if unheard {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (b *teller) Settings(ctx context.Context) (lease.Settings, lease.TableTime, error) {
	err := b.carry(ctx, func() {})
	return b.settings, stamp(), err
}

func (b *teller) Look(ctx context.Context, shard int) (found lease.Shard, err error) {
	err = b.carry(ctx, func() { found = *b.shards[shard] })
	return found, err
}

func (b *teller) Change(ctx context.Context, c lease.ShardChange) (after lease.Shard, done bool, err error) {
	err = b.carry(ctx, func() {
		b.shards[c.Shard], done = c.Apply(b.shards[c.Shard])
		after = *b.shards[c.Shard]
	})
	return after, done, err
}

func (b *teller) FindsMovedShards() bool { return true }

func (b *teller) Reserve(ctx context.Context, r lease.Reservation) (next int64, done bool, at lease.TableTime, err error) {
	err = b.carry(ctx, func() {
		b.next, done = r.Apply(b.next)
		next = b.next
	})
	return next, done, stamp(), err
}

func stamp() lease.TableTime { return lease.TableTime(time.Now().Truncate(time.Second)) }

// quarter is what the reservoir shares with a rival: the cluster's slots, at a
// bank. Its methods do nothing on nil.
type quarter struct {
	cfg    lease.Config
	teller *teller // ours
	lease  *lease.Lease
	rival  *rival
	stop   context.CancelFunc
	ended  chan error // what the lease's Run returned; then closed
	lostAt time.Time  // when the lease was seen lost first
}

// rival is another process on the same slots. Its backends are mere numbers.
type rival struct {
	lease *lease.Lease
	seen  func() // told of each new backend
	stop  context.CancelFunc
	done  sync.WaitGroup

	mu      sync.Mutex
	want    int
	permits []*lease.Permit
}

func newQuarter(t *rapid.T) *quarter {
	q := &quarter{cfg: lease.Defaults(), ended: make(chan error, 1)}
	q.cfg.Slots, q.cfg.Rate = true, rapid.Bool().Draw(t, "rate")
	q.cfg.Table, q.cfg.Cluster = "leases", "cluster"
	q.cfg.Lifetime = DefaultBaseLifetime + DefaultLifetimeJitter
	q.cfg.Limit, q.cfg.Margin = rapid.IntRange(1, 15).Draw(t, "limit"), 0
	q.cfg.Shards = rapid.IntRange(1, 2).Draw(t, "shards")
	b := &bank{rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), settings: lease.Settings{
		Format: lease.Format, Shards: q.cfg.Shards, Limit: q.cfg.Limit, Rate: q.cfg.RateLimit - q.cfg.Reserve, Burst: q.cfg.Burst}}
	for i := range q.cfg.Shards {
		part := (q.cfg.Limit + i) / q.cfg.Shards
		b.shards = append([]*lease.Shard{{Limit: part, Free: part}}, b.shards...)
	}
	q.teller = &teller{bank: b}
	q.lease = q.open(q.teller)
	q.rival = &rival{lease: q.open(&teller{bank: b})}
	return q
}

func (q *quarter) open(store lease.Store) *lease.Lease {
	began := time.Now()
	clock := func() time.Duration { return time.Since(began) }
	l, err := lease.New(q.cfg, store, clock, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		panic(err)
	}
	return l
}

func (q *quarter) run() {
	if q == nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	q.stop = stop
	go func() { q.ended <- q.lease.Run(ctx) }()
	q.rival.run()
}

// cutOff takes the table away, or brings it back.
func (q *quarter) cutOff(away bool) {
	if q != nil {
		q.teller.mu.Lock()
		q.teller.away = away
		q.teller.mu.Unlock()
	}
}

func (q *quarter) rivalry(want int) {
	if q != nil {
		q.rival.mu.Lock()
		q.rival.want = want
		q.rival.mu.Unlock()
	}
}

// timeLeft is for how long a transaction may still begin that has its time before
// the last backend must be closed.
func (q *quarter) timeLeft() time.Duration {
	return q.cfg.ReapAfter - q.cfg.Guard - q.cfg.TransactionLimit - q.lease.State().Age
}

// verify says what is wrong with everybody's use of the slots.
func (q *quarter) verify(s *server) error {
	if q == nil {
		return nil
	}
	l := q.lease.State()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch open := s.open + s.dialing; {
	case s.all > q.cfg.Limit:
		return fmt.Errorf("the cluster saw %d connections, its limit is %d", s.all, q.cfg.Limit)
	case open > l.InUse:
		return fmt.Errorf("%d backends are open with %d permits", open, l.InUse)
	case l.Phase != lease.Lost:
		q.lostAt = time.Time{}
		if open > l.Held {
			return fmt.Errorf("%d backends are open with %d slots", open, l.Held)
		}
	case q.lostAt.IsZero():
		q.lostAt = time.Now()
	case open > 0 && time.Since(q.lostAt) > LeastGuard:
		return fmt.Errorf("%d backends are open %v after the lease was lost", open, time.Since(q.lostAt))
	}
	for i, shard := range q.teller.snapshot() {
		if shard.Drift() != 0 {
			return fmt.Errorf("shard %d drifts by %d", i, shard.Drift())
		}
	}
	return nil
}

func (b *bank) snapshot() []lease.Shard {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []lease.Shard
	for _, shard := range b.shards {
		all = append(all, *shard)
	}
	return all
}

// end ends our lease, with the table in reach, and says what it did not give back. No call is lost meanwhile: a lease
// has 5 s to leave, which two lost calls of 2 s and their pauses take. What was lost before stays in the table until
// the rival reaps it. A second time it does nothing.
func (q *quarter) end() error {
	if q == nil {
		return nil
	}
	q.teller.mu.Lock()
	q.teller.away, q.teller.calm = false, true
	q.teller.mu.Unlock()
	time.Sleep(q.cfg.Heartbeat)
	q.stop()
	err, first := <-q.ended
	if !first {
		return nil
	}
	close(q.ended)
	if held := q.lease.State().Held; held > 0 {
		err = errors.Join(err, fmt.Errorf("%d slots were not given back", held))
	}
	if g := q.lease.Gauges(); g.Lapsed+g.ReapedSelf > 0 {
		q.rivalry(0)
		time.Sleep(2*q.cfg.ReapAfter + 3*q.cfg.Heartbeat)
	}
	q.rival.end()
	for i, shard := range q.teller.snapshot() {
		if shard.Free != shard.Limit {
			err = errors.Join(err, fmt.Errorf("in the end shard %d has %d of %d free: %s", i, shard.Free, shard.Limit, strings.Join(owners(shard), ", ")))
		}
	}
	synctest.Wait()
	return err
}

func owners(s lease.Shard) (texts []string) {
	for owner, text := range s.Owners {
		texts = append(texts, owner+" "+text)
	}
	return texts
}

func (r *rival) run() {
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.done.Go(func() { _ = r.lease.Run(ctx) })
	r.done.Go(func() { r.fill(ctx) })
	r.done.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(scanEvery)
			r.mu.Lock()
			r.dropLocked(max(r.lease.State().Excess, len(r.permits)-r.want))
			r.mu.Unlock()
		}
	})
}

func (r *rival) fill(ctx context.Context) {
	for ctx.Err() == nil {
		r.mu.Lock()
		missing := r.want - len(r.permits)
		r.mu.Unlock()
		if missing <= 0 {
			time.Sleep(scanEvery)
			continue
		}
		waiting, cancel := context.WithTimeout(ctx, time.Minute)
		p, err := r.lease.Admit(waiting, missing)
		cancel()
		if err != nil {
			continue
		}
		r.mu.Lock()
		wanted := len(r.permits) < r.want // else end has dropped all: nobody would release this one
		if wanted {
			r.permits = append(r.permits, p)
		} else {
			p.Release()
		}
		r.mu.Unlock()
		if wanted {
			r.seen()
		}
	}
}

func (r *rival) dropLocked(n int) {
	for ; n > 0 && len(r.permits) > 0; n-- {
		r.permits[0].Release()
		r.permits = r.permits[1:]
	}
}

func (r *rival) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.permits)
}

// end stops the rival, whose slots go back.
func (r *rival) end() {
	r.mu.Lock()
	r.want = 0
	r.dropLocked(len(r.permits))
	r.mu.Unlock()
	r.stop()
	r.done.Wait()
}
