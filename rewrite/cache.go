package rewrite

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// cacheShards is the number of parts of a cache. Each part has its own lock, so that concurrent lookups rarely share a
// lock.
const cacheShards = 16

// cache stores plans, keyed by text and by Planner.cacheKey (the planner and the NameResolver). It is bounded in
// entries and in bytes, and safe for concurrent use. A lookup allocates nothing.
type cache struct {
	seed   maphash.Seed
	shards []cacheShard
	// longest is the greatest length in bytes of a text that the cache accepts.
	longest int
}

// cacheShard is one part of a cache. It evicts by the CLOCK algorithm: the hand passes over the entries, and marks used
// entries as unused. The hand evicts the first entry that was not used since its last pass.
type cacheShard struct {
	maxEntries, maxBytes int

	mu      sync.RWMutex
	entries map[uint64]*cacheEntry // by hash; if two texts have the same hash, only the first is stored
	clock   []*cacheEntry
	hand    int
	bytes   int
	_       [64]byte // avoids false sharing of cache lines
}

type cacheEntry struct {
	hash  uint64
	names uint64
	text  string
	plan  *Plan
	bytes int
	used  atomic.Bool
}

// namesMultiplier multiplies the result of Planner.cacheKey, so that the hashes of small numbers differ in many bits.
const namesMultiplier = 0x9e3779b97f4a7c15

// newCache returns a cache for a number of entries that take at most bytes bytes. Each cacheShard has an equal share.
func newCache(entries, bytes int) *cache {
	n := min(cacheShards, entries)
	c := &cache{seed: maphash.MakeSeed(), shards: make([]cacheShard, n), longest: bytes / n}
	for i := range c.shards {
		c.shards[i] = cacheShard{maxEntries: entries / n, maxBytes: bytes / n, entries: map[uint64]*cacheEntry{}}
	}
	return c
}

// find returns the cached plan of a text, or nil. names is a result of Planner.cacheKey.
func (c *cache) find(names uint64, text []byte) *Plan {
	if len(text) > c.longest {
		return nil
	}
	hash := maphash.Bytes(c.seed, text) ^ names*namesMultiplier
	s := &c.shards[hash%uint64(len(c.shards))]
	s.mu.RLock()
	e := s.entries[hash]
	s.mu.RUnlock()
	if e == nil || e.names != names || e.text != string(text) {
		return nil
	}
	if !e.used.Load() {
		e.used.Store(true)
	}
	return e.plan
}

// add stores a plan in the cache. It does not store an entry that is larger than a whole cacheShard.
func (c *cache) add(names uint64, text string, plan *Plan) {
	hash := maphash.String(c.seed, text) ^ names*namesMultiplier
	s := &c.shards[hash%uint64(len(c.shards))]
	e := &cacheEntry{hash: hash, names: names, text: text, plan: plan}
	e.bytes = int(unsafe.Sizeof(*e)) + 2*wordBytes + len(text) + plan.Bytes()
	if e.bytes > s.maxBytes {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[hash] != nil {
		return // another goroutine has stored the plan first
	}
	for len(s.clock) >= s.maxEntries || s.bytes+e.bytes > s.maxBytes {
		s.evictLocked()
	}
	s.entries[hash] = e
	s.clock = append(s.clock, e)
	s.bytes += e.bytes
}

// evictLocked removes one entry of the cacheShard, which must have at least one. The caller must hold s.mu.
func (s *cacheShard) evictLocked() {
	for {
		if s.hand >= len(s.clock) {
			s.hand = 0
		}
		e := s.clock[s.hand]
		if e.used.Swap(false) {
			s.hand++
			continue
		}
		// The youngest entry moves to the free place. The hand of the CLOCK algorithm reaches this place last.
		last := len(s.clock) - 1
		s.clock[s.hand] = s.clock[last]
		s.clock[last] = nil
		s.clock = s.clock[:last]
		s.hand++
		delete(s.entries, e.hash)
		s.bytes -= e.bytes
		return
	}
}

// wordBytes is the size in bytes of a Go string header. Estimates of the memory of maps and slices use it.
const wordBytes = int(unsafe.Sizeof(""))

// Bytes estimates the memory of a plan in bytes. Plans that many texts share, such as emptyPlan, count as 0.
func (p *Plan) Bytes() int {
	if p == emptyPlan || p == guardedPlan || p == unparsedMappedPlan || p == foreignPlan {
		return 0
	}
	n := int(unsafe.Sizeof(*p)) + cap(p.Statements)*int(unsafe.Sizeof(Statement{}))
	n += len(p.Text) + finding.Bytes(p.Findings) + cap(p.edits)*int(unsafe.Sizeof(parse.Edit{}))
	if p.MayNeedSubstitutes() {
		n += p.substituteBytes()
	}
	if p.splits {
		n += 3*len(p.source) + len(p.Text) // the texts of a SplitQuery, which SplitPlan may build later
	}
	for i := range p.Statements {
		st := &p.Statements[i]
		if st.Refusal != nil {
			n += int(unsafe.Sizeof(*st.Refusal)) + len(st.Refusal.Message)
		}
		n += st.stepBytes(len(p.source))
		if t := st.Truncation; t != nil {
			n += int(unsafe.Sizeof(*t)) + 8*len(p.Text) // includes the texts of the TRUNCATE's batches
		}
		for _, notice := range st.Notices {
			n += int(unsafe.Sizeof(notice)) + len(notice.Message) // Detail is a constant
		}
		if x := st.IfNoIndex; x != nil {
			n += int(unsafe.Sizeof(*x)) + len(x.Name) + len(x.Table)
		}
		if a := st.Advisory; a != nil {
			n += int(unsafe.Sizeof(*a)) + len(a.Column) + cap(a.Args)*int(unsafe.Sizeof(AdvisoryArg{}))
		}
		if c := st.Cursor; c != nil {
			n += int(unsafe.Sizeof(*c)) + len(c.Name) + len(c.Query)
		}
		if c := st.CopyIn; c != nil {
			n += c.bytes()
		}
		n += len(st.Hint) + len(st.Show) + len(st.Deallocate) + len(st.Executes) + len(st.Tx.Name) + len(st.Tx.Snapshot)
		n += cap(st.Changes) * int(unsafe.Sizeof(SettingChange{}))
		for _, c := range st.Changes {
			n += len(c.Name) + len(c.SQL) + len(c.Text)
		}
		n += cap(st.SetConfigColumns) * 2 * wordBytes
		for _, t := range st.SetConfigColumns {
			n += len(t.Column) + len(t.Value)
		}
		n += cap(st.Tables)*wordBytes + cap(st.Asks)*wordBytes
		for _, t := range st.Tables {
			n += len(t)
		}
	}
	return n
}

// stepBytes estimates the memory in bytes of the plan in Statement.Steps. source is the length of the client's text, to
// which the plan may refer.
func (st *Statement) stepBytes(source int) int {
	if st.Steps == nil {
		return 0
	}
	return st.Steps.Bytes(source)
}

// bytes estimates the memory of an AlterCommand in bytes.
func (c *AlterCommand) bytes() int {
	return int(unsafe.Sizeof(*c)) + int(unsafe.Sizeof(*c.St)) + len(c.Text) + len(c.DroppedConstraint) + c.St.stepBytes(len(c.Text))
}
