package proxy

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/proxy/account"
)

// Statement texts are what a client can make Sluice keep most of: by names, portals, logs,
// and for others in the catalog. Whoever holds them, their bytes are counted while they are
// in memory (texts), against prepared.total_bytes, and so are the descriptions of their
// columns; the texts of one client's names count against prepared.bytes_per_client.

// templateCost is what a template takes besides its texts, rounded up.
const templateCost = 1 << 10

// descriptionCost is what a description takes besides its frames, rounded up.
const descriptionCost = 128

// Parts of prepared.total_bytes, one in so many: that the catalog may take, which saves a
// round trip and no more, and that all backends together may take, by what they have
// prepared.
const (
	rememberedShare = 8
	backendsShare   = 2
)

// textCost is what it costs to keep a text: itself, its key in the catalog, and the plan.
func textCost(sql, oids []byte) int { return templateCost + 2*len(sql) + 2*len(oids) }

// texts counts the bytes of the texts that are in memory. The zero value has no room.
type texts struct {
	limit int64
	used  atomic.Int64

	mu   sync.Mutex // one at a time makes room
	full time.Time  // when that was in vain, last
}

// count counts a template until nothing refers to it any more and its memory was freed.
func (x *texts) count(t *template, cost int) *template {
	t.cost = cost
	x.used.Add(int64(cost))
	runtime.AddCleanup(t, x.forget, int64(cost))
	return t
}

// describe counts a description likewise.
func (x *texts) describe(d *description) {
	cost := int64(d.cost())
	x.used.Add(cost)
	runtime.AddCleanup(d, x.forget, cost)
}

// forget gives back what a text has cost.
func (x *texts) forget(cost int64) { x.used.Add(-cost) }

// For how long no room is made once that was in vain, since it costs a collection, and for
// how long the counts of what was collected are waited for.
const (
	collectPause = time.Second
	collectWait  = time.Second
)

// room reports whether more may be kept. Where there is none, what only the catalog holds is
// let go, and what nobody holds is collected.
func (x *texts) room(c *catalog) bool {
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

// mayKeep is the error of a Parse for whose text there is no room: of the client's, when it
// is to have a name, or of the process's. One that is short of memory refuses none of a
// transaction that has begun, which needs it to come to its end; and a block may always be
// ended.
func (s *session) mayKeep(name []byte, t *template) error {
	ends := s.inBlock() && s.endsFailed(t.plan) && t.cost <= 2*templateCost
	if s.state == idle && s.srv.memory.Short() {
		return errShort
	}
	if full := s.account.Full(account.Texts, t.cost); len(name) > 0 && full != nil {
		if full.Key == textsKey {
			return errTextsOfClient(full.Limit)
		}
		return errMemory(full)
	}
	if !ends && !s.srv.texts.room(s.srv.catalog) {
		return errTextsOfAll(s.srv.cfg.PreparedTotalBytes)
	}
	return nil
}

// mayDescribe is the error of a Describe for whose answer there is no room. have is the
// answer that is kept already, nil for none.
func (s *session) mayDescribe(t *template, have *description) error {
	switch full := s.account.Full(account.Texts, 1); {
	case have != nil, s.endsFailed(t.plan):
		return nil
	case full != nil && full.Key == textsKey:
		return errTextsOfClient(full.Limit)
	case full != nil:
		return errMemory(full)
	case !s.srv.texts.room(s.srv.catalog):
		return errTextsOfAll(s.srv.cfg.PreparedTotalBytes)
	}
	return nil
}
