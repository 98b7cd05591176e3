package statement

import (
	"container/list"
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/values"
)

// TxEpochBit is set in an epoch (a number of a version of the schema) that belongs to one transaction.
const TxEpochBit = 1 << 63

// Cache holds the shared templates and the epoch, a counter of the schema changes that Sluice has noticed. A
// full cache evicts the template whose last Parse is oldest, even if clients still use that template.
type Cache struct {
	epoch atomic.Uint64
	// readEpoch counts only schema changes after which reads may run other functions.
	readEpoch atomic.Uint64
	txEpochs  atomic.Uint64 // number of the last epoch of a transaction
	budget    *Budget
	plan      func(sql []byte) *rewrite.Plan

	mu    sync.Mutex
	limit int // of templates
	most  int // limit of their cost
	cost  int
	m     map[string]*list.Element
	lru   *list.List // of *cacheEntry, the most recent first
}

// cacheEntry is an element of the cache's list of templates. The eviction needs the key.
type cacheEntry struct {
	key  string
	tmpl *Template
}

// NewCache returns an empty cache for at most limit templates with a total cost of at most most bytes. budget counts
// the memory of all templates. plan plans a text by the configuration's planner.
func NewCache(limit, most int, budget *Budget, plan func(sql []byte) *rewrite.Plan) *Cache {
	return &Cache{limit: limit, most: most, budget: budget, plan: plan, m: map[string]*list.Element{}, lru: list.New()}
}

// cacheKey appends the cache key of a statement's text to dst. oids begins with the number of types, so that
// different texts never share a key.
func cacheKey(dst, sql, oids []byte, parsing settings.ParsingHashes, names, by uint64) []byte {
	dst = binary.BigEndian.AppendUint64(dst, parsing.All)
	dst = binary.BigEndian.AppendUint64(dst, names)
	dst = append(dst, byte(by)) // there are fewer than 256 planners
	dst = append(dst, oids...)
	dst = append(dst, 0)
	return append(dst, sql...)
}

// Lookup returns the template of a text, or nil if the cache has none. Template explains the parameters.
func (c *Cache) Lookup(scratch *[]byte, sql, oids []byte, parsing settings.ParsingHashes, names, by uint64) *Template {
	if !isCacheable(sql, oids) {
		return nil
	}
	key := cacheKey((*scratch)[:0], sql, oids, parsing, names, by)
	*scratch = key[:0]
	return c.find(key)
}

// Template returns the template of a text from the cache, or makes one. plan is the text's plan, or nil if all
// planners make the same plan. names and by are the numbers of the schema snapshot and of the planner that made the
// plan. scratch is a buffer for the cache key. If the template is not cached, only the caller uses it.
func (c *Cache) Template(scratch *[]byte, sql, oids []byte, parsing settings.ParsingHashes, names, by uint64, plan *rewrite.Plan) *Template {
	if t := c.Lookup(scratch, sql, oids, parsing, names, by); t != nil {
		return t
	}
	if plan == nil {
		plan = c.plan(sql)
	}
	t := c.New(sql, oids, plan, parsing)
	t.Names, t.PlannerNumber = names, by
	if !isCacheable(sql, oids) || parsing.All&1 == 1 {
		return t // too long, or useful to one transaction only
	}
	return c.add(cacheKey((*scratch)[:0], sql, oids, parsing, names, by), t)
}

// New makes a template for a prepared text, and budget counts its memory. The cache does not store the template.
func (c *Cache) New(sql, oids []byte, plan *rewrite.Plan, parsing settings.ParsingHashes) *Template {
	t := &Template{SQL: string(sql), OIDs: string(oids), Plan: plan, Parsing: parsing, OptsOut: retry.HasNoRetryComment(sql), Inserts: parse.IsInsertReturning(sql), MayShowTxTime: values.MayReturnTxTime(sql)}
	return c.budget.countTemplate(t, textCost(sql, oids))
}

// EnsureRoom reports whether the memory allows another text. If it is full, EnsureRoom first clears the cache.
func (c *Cache) EnsureRoom() bool { return c.budget.ensureRoom(c) }

// find returns the template for a cache key, or nil. It does not retain key.
func (c *Cache) find(key []byte) *Template {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.m[string(key)]
	if !ok {
		return nil
	}
	c.lru.MoveToFront(e)
	return e.Value.(*cacheEntry).tmpl
}

// add stores the template t and returns it, or returns the template that another session has stored under key.
func (c *Cache) add(key []byte, t *Template) *Template {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.m[string(key)]; ok {
		return e.Value.(*cacheEntry).tmpl
	}
	for c.lru.Len() > 0 && (c.lru.Len() >= c.limit || c.cost+t.Cost > c.most) {
		oldest := c.lru.Remove(c.lru.Back()).(*cacheEntry)
		delete(c.m, oldest.key)
		c.cost -= oldest.tmpl.Cost
	}
	k := string(key)
	c.m[k] = c.lru.PushFront(&cacheEntry{key: k, tmpl: t})
	c.cost += t.Cost
	return t
}

// clear removes all templates from the cache.
func (c *Cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m, c.cost = map[string]*list.Element{}, 0
	c.lru.Init()
}

// BeginEpoch begins a new schema epoch after DDL, OC001 or a changed plan. Templates remain, but descriptions and other
// facts learned in older epochs are no longer used. reads means that reads may run other functions than before.
func (c *Cache) BeginEpoch(reads bool) {
	if reads {
		c.readEpoch.Add(1)
	}
	c.epoch.Add(1)
}

// ReadEpoch returns the number of schema epochs that began because reads may run other functions than before.
func (c *Cache) ReadEpoch() uint64 { return c.readEpoch.Load() }

// Epoch returns the schema epoch in which facts about templates are valid for all sessions.
func (c *Cache) Epoch() uint64 { return c.epoch.Load() }

// NewTxEpoch returns a new schema epoch for one transaction, in which TxEpochBit is set.
func (c *Cache) NewTxEpoch() uint64 { return c.txEpochs.Add(1) | TxEpochBit }

// PublishDescription caches d for all sessions. If d differs from the cached description in the same epoch, the
// schema was changed elsewhere, and a new epoch begins. A description older than the cached one is ignored.
func (c *Cache) PublishDescription(t *Template, d *Description) {
	switch have := t.Description.Load(); {
	case have == d, have != nil && have.Epoch > d.Epoch:
		return
	case have != nil && have.Epoch == d.Epoch && !d.IsCompatible(have):
		c.BeginEpoch(true)
	}
	t.Description.Store(d)
}

// HasCurrent reports whether any cached fact about the template t is of the current schema epoch. If not, an error of
// the server about t does not mean another change of the schema.
func (c *Cache) HasCurrent(t *Template) bool {
	epoch, d := c.epoch.Load(), t.Description.Load()
	return t.Accepted.Load() == epoch+1 || d != nil && d.Epoch == epoch
}
