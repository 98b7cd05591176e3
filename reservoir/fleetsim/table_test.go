package fleetsim

import (
	"context"
	"crypto/md5"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sluice-proxy/sluice/lease"
)

const (
	latency  = 4 * time.Millisecond // median
	lossOne  = 500                  // one request and one answer in so many is lost
	partRate = 1000.0               // write units per second of one partition
)

// A new table that is billed on demand has four partitions. In format 1 all items of
// a cluster have one key, and so one of them.
var (
	partitions = flag.Int("partitions", 4, "that the partition keys are hashed onto")
	format     = flag.Int("format", lease.Format, "of the table")
)

// table is a lease.Store with DynamoDB's limits.
type table struct {
	settings lease.Settings
	most     int // highest limit that it ever had
	began    time.Time

	mu       sync.Mutex
	rng      *rand.Rand
	shards   []*lease.Shard
	next     int64
	buckets  map[int]*bucket          // write units, by partition
	away     map[string]bool          // sidecars that cannot reach it
	frozen   map[string]chan struct{} // those that do not run, until it is closed
	records  map[string]*record       // by owner
	shared   []string                 // what no two processes may do to a record
	unlucky  map[string]bool          // sidecars of which a call was lost or throttled
	looks    int
	throttle int
	units    []float64       // write units used, by second
	hottest  map[int]float64 // of one partition, by second and partition
}

// record is who wrote one, and when it changed last.
type record struct {
	writer  string
	changed time.Duration
}

// bucket is a token bucket that begins full and may be overdrawn.
type bucket struct {
	level, rate, most float64
	at                time.Duration
}

func (b *bucket) take(now time.Duration, n float64) bool {
	b.level = min(b.most, b.level+b.rate*(now-b.at).Seconds())
	b.at = now
	if b.level < n {
		return false
	}
	b.level -= n
	return true
}

func newTable(s lease.Settings, seed uint64) *table {
	t := &table{settings: s, most: s.Limit, began: time.Now(), rng: rand.New(rand.NewPCG(seed, 1)), buckets: map[int]*bucket{}, hottest: map[int]float64{}, away: map[string]bool{},
		frozen: map[string]chan struct{}{}, unlucky: map[string]bool{}, records: map[string]*record{}}
	for i := range s.Shards {
		limit := s.Limit / s.Shards
		if i < s.Limit%s.Shards {
			limit++
		}
		t.shards = append(t.shards, &lease.Shard{Limit: limit, Free: limit})
	}
	return t
}

// held is how many slots all records have together.
func (t *table) held() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	held := 0
	for _, s := range t.shards {
		held += s.HeldSlots()
	}
	return held
}

// port is the table as one sidecar sees it, or does not.
type port struct {
	*table
	name string
}

// carry takes a call to the table and its answer back, unless it is lost, which
// takes until the caller's patience ends.
func (p port) carry(ctx context.Context, do func() error) error {
	p.thaw()
	defer p.thaw()
	p.mu.Lock()
	there := time.Duration(float64(latency/2) * math.Exp(p.rng.NormFloat64()/2))
	back := time.Duration(float64(latency/2) * math.Exp(p.rng.NormFloat64()/2))
	lost, unheard := p.rng.IntN(lossOne) == 0, p.rng.IntN(lossOne) == 0
	if p.away[p.name] {
		lost = true
	}
	p.unlucky[p.name] = p.unlucky[p.name] || lost || unheard
	p.mu.Unlock()
	if lost {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(there)
	p.mu.Lock()
	err := do()
	p.mu.Unlock()
	if unheard {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(back)
	return err
}

// thaw waits until the sidecar runs.
func (p port) thaw() {
	for {
		p.mu.Lock()
		frozen := p.frozen[p.name]
		p.mu.Unlock()
		if frozen == nil {
			return
		}
		<-frozen
	}
}

// account books who does what to a record, and what nobody may do to another's.
func (p port) account(c lease.ShardChange) {
	now := time.Since(p.began)
	r := p.records[c.Owner]
	switch {
	case c.New != "" && r == nil:
		p.records[c.Owner] = &record{p.name, now}
	case c.New != "" && r.writer != p.name:
		p.shared = append(p.shared, fmt.Sprintf("%v: %s writes the record %s of %s", now, p.name, c.Owner, r.writer))
	case c.New != "":
		r.changed = now
	default:
		old, err := lease.ParseRecord(c.Old)
		alive := !p.away[r.writer] // the dead are away for good
		if r.writer != p.name && alive && (err != nil || now-r.changed < old.ReapAfter) {
			p.shared = append(p.shared, fmt.Sprintf("%v: %s removes the record %s of %s, which lives and wrote it %v ago", now, p.name, c.Owner, r.writer, now-r.changed))
		}
		delete(p.records, c.Owner)
	}
}

// spend books a write of an item, or refuses it.
func (p port) spend(item, bytes int) error {
	now := time.Since(p.began)
	key := "L#cluster"
	if item >= 0 && p.settings.Format > 1 {
		key += fmt.Sprintf("#%03d", item)
	}
	hash := md5.Sum([]byte(key))
	part := int(hash[0]) % *partitions
	b := p.buckets[part]
	if b == nil {
		b = &bucket{level: partRate, rate: partRate, most: partRate, at: now}
		p.buckets[part] = b
	}
	units := math.Ceil(float64(bytes) / 1024)
	if !b.take(now, units) {
		p.throttle++
		p.unlucky[p.name] = true
		return lease.ErrThrottled
	}
	second := int(now / time.Second)
	for len(p.units) <= second {
		p.units = append(p.units, 0)
	}
	p.units[second] += units
	p.hottest[second**partitions+part] += units
	return nil
}

func (p port) stamp() lease.TableTime { return lease.TableTime(time.Now().Truncate(time.Second)) }

func (p port) Settings(ctx context.Context) (found lease.Settings, at lease.TableTime, err error) {
	err = p.carry(ctx, func() error {
		found = p.settings
		return nil
	})
	return found, p.stamp(), err
}

func (p port) FindsMovedShards() bool { return true }

func (p port) Look(ctx context.Context, shard int) (found lease.Shard, err error) {
	err = p.carry(ctx, func() error {
		found = *p.shards[shard]
		p.looks++
		return nil
	})
	return found, err
}

func (p port) Change(ctx context.Context, c lease.ShardChange) (after lease.Shard, done bool, err error) {
	err = p.carry(ctx, func() error {
		bytes := 60
		for owner, record := range p.shards[c.Shard].Owners {
			bytes += len(owner) + len(record) + 1
		}
		if err := p.spend(c.Shard, bytes); err != nil {
			return err
		}
		if p.shards[c.Shard], done = c.Apply(p.shards[c.Shard]); done {
			p.account(c)
		}
		after = *p.shards[c.Shard]
		return nil
	})
	return after, done, err
}

func (p port) Reserve(ctx context.Context, r lease.Reservation) (next int64, done bool, at lease.TableTime, err error) {
	err = p.carry(ctx, func() error {
		if err := p.spend(-1, 60); err != nil {
			return err
		}
		p.next, done = r.Apply(p.next)
		next, at = p.next, p.stamp()
		return nil
	})
	return next, done, at, err
}
