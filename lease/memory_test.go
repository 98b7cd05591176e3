package lease

import (
	"context"
	"sync"
	"time"
)

// memory is a Store that does what Change.Apply and Reservation.Apply say.
type memory struct {
	mu       sync.Mutex
	settings *Settings
	shards   map[int]*Shard
	next     int64
	clock    func() time.Time // the table's
}

func newMemory(s Settings, clock func() time.Time) *memory {
	m := &memory{settings: &s, shards: make(map[int]*Shard), clock: clock}
	for i := range s.Shards {
		m.shards[i] = &Shard{Limit: s.shardLimit(i), Free: s.shardLimit(i)}
	}
	return m
}

func (m *memory) stamp() TableTime { return TableTime(m.clock().Truncate(time.Second)) }

func (m *memory) Settings(context.Context) (Settings, TableTime, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.settings == nil {
		return Settings{}, m.stamp(), ErrNoSettings
	}
	return *m.settings, m.stamp(), nil
}

// become gives the table other settings, none for nil, and returns those that it had.
func (m *memory) become(s *Settings) *Settings {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.settings
	m.settings = s
	return before
}

// adopt is a sluice lease init with other limits.
func (m *memory) adopt(s Settings) {
	m.become(&s)
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range s.Shards {
		one := *m.shards[i]
		one.Limit, one.Free = s.shardLimit(i), one.Free+s.shardLimit(i)-one.Limit
		m.shards[i] = &one
	}
}

// recorded is how many slots all records together hold.
func (m *memory) recorded() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, s := range m.shards {
		n += s.Limit - s.Free
	}
	return n
}

func (m *memory) FindsMovedShards() bool { return true }

func (m *memory) Look(_ context.Context, shard int) (Shard, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.shards[shard]; s != nil {
		return *s, nil
	}
	return Shard{}, nil
}

func (m *memory) Change(_ context.Context, c ShardChange) (Shard, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	after, done := c.Apply(m.shards[c.Shard])
	if after == nil {
		return Shard{}, done, nil
	}
	m.shards[c.Shard] = after
	return *after, done, nil
}

func (m *memory) Reserve(_ context.Context, r Reservation) (int64, bool, TableTime, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next, done := r.Apply(m.next)
	m.next = next
	return next, done, m.stamp(), nil
}
