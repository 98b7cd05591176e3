package statement

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// TemplateCost is the memory in bytes of a template besides its texts, rounded up.
const TemplateCost = 1 << 10

// descriptionCost is the memory in bytes of a statement's description besides its frames, rounded up.
const descriptionCost = 128

// textCost returns the memory in bytes of a prepared text with its cache key and its plan.
func textCost(sql, oids []byte) int { return TemplateCost + 2*len(sql) + 2*len(oids) }

// Budget counts the bytes of all prepared texts and descriptions in memory. The zero value has no room.
type Budget struct {
	limit int64
	used  atomic.Int64

	mu   sync.Mutex // held while ensureRoom frees memory
	full time.Time  // when ensureRoom last failed
}

// NewBudget returns a budget of limit bytes. A template's cleanup refers to the budget, so the budget must be allocated
// by itself.
func NewBudget(limit int) *Budget { return &Budget{limit: int64(limit)} }

// Used returns the bytes of all templates and descriptions in memory.
func (x *Budget) Used() int64 { return x.used.Load() }

// countTemplate counts a template's bytes until the garbage collector has freed the template.
func (x *Budget) countTemplate(t *Template, cost int) *Template {
	t.Cost = cost
	x.used.Add(int64(cost))
	runtime.AddCleanup(t, x.release, int64(cost))
	return t
}

// CountDescription counts a description's bytes until the garbage collector has freed the description.
func (x *Budget) CountDescription(d *Description) {
	cost := int64(d.MemoryBytes())
	x.used.Add(cost)
	runtime.AddCleanup(d, x.release, cost)
}

// release subtracts the bytes of a freed template or description.
func (x *Budget) release(cost int64) { x.used.Add(-cost) }

// collectPause is the time after a failed ensureRoom in which ensureRoom does not try again, because a try costs a
// garbage collection. collectWait is how long ensureRoom waits for the collection to reduce the count.
const (
	collectPause = time.Second
	collectWait  = time.Second
)

// ensureRoom reports whether another text fits. If not, it first clears the cache c and collects garbage.
func (x *Budget) ensureRoom(c *Cache) bool {
	if x.used.Load() <= x.limit {
		return true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.used.Load() <= x.limit {
		return true
	}
	if time.Since(x.full) < collectPause {
		return false
	}
	c.clear()
	runtime.GC()
	for end := time.Now().Add(collectWait); x.used.Load() > x.limit; time.Sleep(time.Millisecond) {
		if !time.Now().Before(end) {
			x.full = time.Now()
			return false
		}
	}
	return true
}
