package dialect

import "sync"

// Bounds of the cache: the number of texts, and the bytes of a text.
const (
	maxCached      = 1024
	maxCachedBytes = 4 << 10
)

// cache stores the results of texts that took a parse. It is safe for concurrent use.
type cache struct {
	mu    sync.Mutex
	texts map[string]*Text
}

func newCache() *cache { return &cache{texts: make(map[string]*Text)} }

func (c *cache) find(sql string) *Text {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.texts[sql]
}

// keep stores t for a text. A full cache drops an arbitrary other text.
func (c *cache) keep(sql string, t *Text) {
	if len(sql) > maxCachedBytes {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.texts) >= maxCached {
		for other := range c.texts {
			delete(c.texts, other)
			break
		}
	}
	c.texts[sql] = t
}
