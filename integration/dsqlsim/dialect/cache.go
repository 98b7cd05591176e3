package dialect

import "sync"

// Bounds of the cache: 1,024 texts of at most 4 KiB.
const (
	maxCached      = 1024
	maxCachedBytes = 4 << 10
)

// cache keeps what was learnt about texts that took a parse.
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

// keep remembers t; when full it forgets some other text, whichever.
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
