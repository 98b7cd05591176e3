package rewrite

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// cacheShards lets so many texts be looked up at once without waiting for each
// other's lock.
const cacheShards = 16

// cache remembers plans by text, and by the number of the Names that they depend on, within a
// number of entries and of bytes. It is safe for concurrent use; finding allocates nothing.
type cache struct {
	seed   maphash.Seed
	shards []shard
	// longest text that could be in it
	longest int
}

// shard is one part of a cache. What goes out first is decided by CLOCK: the
// hand passes over the entries and takes the first that was not used since it
// last came by.
type shard struct {
	maxEntries, maxBytes int

	mu      sync.RWMutex
	entries map[uint64]*entry // by hash; of two texts with one hash, the first stays
	clock   []*entry
	hand    int
	bytes   int
	_       [64]byte // shards stay out of each other's cache lines
}

type entry struct {
	hash  uint64
	names uint64
	text  string
	plan  *Plan
	bytes int
	used  atomic.Bool
}

// spread turns the small numbers of Names into hashes far from each other.
const spread = 0x9e3779b97f4a7c15

// newCache makes a cache; the bounds are shared out among its shards.
func newCache(entries, bytes int) *cache {
	n := min(cacheShards, entries)
	c := &cache{seed: maphash.MakeSeed(), shards: make([]shard, n), longest: bytes / n}
	for i := range c.shards {
		c.shards[i] = shard{maxEntries: entries / n, maxBytes: bytes / n, entries: map[uint64]*entry{}}
	}
	return c
}

// find returns the plan of a text, or nil.
func (c *cache) find(names uint64, text []byte) *Plan {
	if len(text) > c.longest {
		return nil
	}
	hash := maphash.Bytes(c.seed, text) ^ names*spread
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

// add remembers a plan, unless its text alone would fill a shard.
func (c *cache) add(names uint64, text string, plan *Plan) {
	hash := maphash.String(c.seed, text) ^ names*spread
	s := &c.shards[hash%uint64(len(c.shards))]
	e := &entry{hash: hash, names: names, text: text, plan: plan}
	e.bytes = int(unsafe.Sizeof(*e)) + 2*wordBytes + len(text) + plan.bytes()
	if e.bytes > s.maxBytes {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[hash] != nil {
		return // another parsed it meanwhile
	}
	for len(s.clock) >= s.maxEntries || s.bytes+e.bytes > s.maxBytes {
		s.evictLocked()
	}
	s.entries[hash] = e
	s.clock = append(s.clock, e)
	s.bytes += e.bytes
}

// evictLocked forgets one entry; there is one.
func (s *shard) evictLocked() {
	for {
		if s.hand >= len(s.clock) {
			s.hand = 0
		}
		e := s.clock[s.hand]
		if e.used.Swap(false) {
			s.hand++
			continue
		}
		// The youngest takes its place, behind the hand.
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

// wordBytes is the cost of a string or pointer in a map or slice.
const wordBytes = int(unsafe.Sizeof(""))

// bytes is about what a plan takes in memory; shared ones take nothing.
func (p *Plan) bytes() int {
	if p == emptyPlan || p == guardedPlan || p == unreadMapped || p == foreignPlan {
		return 0
	}
	n := int(unsafe.Sizeof(*p)) + cap(p.Statements)*int(unsafe.Sizeof(Statement{}))
	n += len(p.Text) + findingBytes(p.Findings) + cap(p.edits)*int(unsafe.Sizeof(parse.Edit{}))
	if p.Substitutable() {
		n += p.substituteBytes()
	}
	if p.splits {
		n += 3*len(p.source) + len(p.Text) // Lock and Read, when they are made
	}
	for i := range p.Statements {
		st := &p.Statements[i]
		if st.Refusal != nil {
			n += int(unsafe.Sizeof(*st.Refusal)) + len(st.Refusal.Message)
		}
		n += st.alterBytes(len(p.source))
		if t := st.Truncation; t != nil {
			n += int(unsafe.Sizeof(*t)) + 8*len(p.Text) // with its form in batches
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
		n += cap(st.Changes) * int(unsafe.Sizeof(Change{}))
		for _, c := range st.Changes {
			n += len(c.Name) + len(c.SQL) + len(c.Text)
		}
		n += cap(st.Told) * 2 * wordBytes
		for _, t := range st.Told {
			n += len(t.Column) + len(t.Value)
		}
		n += cap(st.Tables)*wordBytes + cap(st.Asks)*wordBytes
		for _, t := range st.Tables {
			n += len(t)
		}
	}
	return n
}

// alterBytes is about what there is in memory of an ALTER TABLE that is carried out, which holds on
// to its source of so many bytes.
func (st *Statement) alterBytes(source int) (n int) {
	if a := st.Alteration; a != nil {
		n += int(unsafe.Sizeof(*a)) + 2*len(a.Text) + len(a.Table) + source
		if a.Held != nil {
			n += a.Held.bytes()
		}
	}
	if c := st.Constraints; c != nil {
		n += c.bytes() + source
	}
	if c := st.Commands; c != nil {
		n += int(unsafe.Sizeof(*c)) + len(c.Text)
		for i := range c.Parts {
			n += c.Parts[i].bytes()
		}
	}
	if e := st.EnumValue; e != nil {
		n += int(unsafe.Sizeof(*e)) + len(e.Text) + len(e.Type) + len(e.Value) + len(e.Neighbour)
	}
	if t := st.Numbered; t != nil {
		n += t.bytes() + source
	}
	if g := st.Guarded; g != nil {
		n += int(unsafe.Sizeof(*g)) + len(g.Text) + len(g.Condition) + cap(g.Ignores)*wordBytes + g.Command.bytes()
	}
	return n
}

// bytes is about what there is in memory of a command.
func (c *Command) bytes() int {
	return int(unsafe.Sizeof(*c)) + int(unsafe.Sizeof(*c.St)) + len(c.Text) + len(c.Frees) + c.St.alterBytes(len(c.Text))
}
