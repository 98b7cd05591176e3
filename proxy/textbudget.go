package proxy

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/proxy/account"
)

// A client's SQL texts can take more of Sluice's memory than anything else, by prepared names, portals, logs and the
// cache of templates. textBudget counts the bytes of all texts and descriptions against prepared.total_bytes. The texts
// of one client's names count against prepared.bytes_per_client.

// templateCost is the memory in bytes of a template besides its texts, rounded up.
const templateCost = 1 << 10

// descriptionCost is the memory in bytes of a statement's description besides its frames, rounded up.
const descriptionCost = 128

// rememberedShare and backendsShare divide prepared.total_bytes. The cache of templates may use 1/rememberedShare,
// since the cache only saves round trips. The statements of all backends together may use 1/backendsShare.
const (
	rememberedShare = 8
	backendsShare   = 2
)

// textCost returns the memory in bytes of a prepared text with its cache key and its plan.
func textCost(sql, oids []byte) int { return templateCost + 2*len(sql) + 2*len(oids) }

// textBudget counts the bytes of all prepared texts in memory. The zero value has no room.
type textBudget struct {
	limit int64
	used  atomic.Int64

	mu   sync.Mutex // held while room frees memory
	full time.Time  // when room last failed
}

// countTemplate counts a template's bytes until the garbage collector has freed the template.
func (x *textBudget) countTemplate(t *statementTemplate, cost int) *statementTemplate {
	t.cost = cost
	x.used.Add(int64(cost))
	runtime.AddCleanup(t, x.release, int64(cost))
	return t
}

// countDescription counts a description's bytes until the garbage collector has freed the description.
func (x *textBudget) countDescription(d *statementDescription) {
	cost := int64(d.memoryBytes())
	x.used.Add(cost)
	runtime.AddCleanup(d, x.release, cost)
}

// release subtracts the bytes of a freed template or description.
func (x *textBudget) release(cost int64) { x.used.Add(-cost) }

// collectPause is the time after a failed ensureRoom in which ensureRoom does not try again, because a try costs a
// garbage collection. collectWait is how long ensureRoom waits for the collection to reduce the count.
const (
	collectPause = time.Second
	collectWait  = time.Second
)

// ensureRoom reports whether another text fits. If not, it first clears the cache of templates and collects garbage.
func (x *textBudget) ensureRoom(c *templateCache) bool {
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

// checkTextFits returns the error of a Parse whose text does not fit the client's limit, if the statement has a name,
// or the process's limit. If memory is short, a text in a transaction is not refused, because the transaction must be
// able to end. A text that ends a block always fits.
func (s *session) checkTextFits(name []byte, t *statementTemplate) error {
	ends := s.inBlock() && s.isAllowedInFailedBlock(t.plan) && t.cost <= 2*templateCost
	if s.state == idle && s.srv.memory.IsShort() {
		return errLowMemory
	}
	if full := s.account.ExceededBound(account.Texts, t.cost); len(name) > 0 && full != nil {
		if full.Key == textsKey {
			return errClientTextsTooLong(full.Limit)
		}
		return errOutOfMemory(full)
	}
	if !ends && !s.srv.texts.ensureRoom(s.srv.catalog) {
		return errTotalTextsTooLong(s.srv.cfg.PreparedTotalBytes)
	}
	return nil
}

// checkDescribeFits returns the error of a Describe whose answer exceeds a memory limit. have is cached, or nil.
func (s *session) checkDescribeFits(t *statementTemplate, have *statementDescription) error {
	switch full := s.account.ExceededBound(account.Texts, 1); {
	case have != nil, s.isAllowedInFailedBlock(t.plan):
		return nil
	case full != nil && full.Key == textsKey:
		return errClientTextsTooLong(full.Limit)
	case full != nil:
		return errOutOfMemory(full)
	case !s.srv.texts.ensureRoom(s.srv.catalog):
		return errTotalTextsTooLong(s.srv.cfg.PreparedTotalBytes)
	}
	return nil
}
