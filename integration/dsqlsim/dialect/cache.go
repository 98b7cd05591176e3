package dialect

import "sync"

// Bounds of the cache: the number of texts, and the bytes of a text.
const (
	maxCached      = 1024
	maxCachedBytes = 4 << 10
)

// textCache stores the results of texts that took a parse. It is safe for concurrent use.
type textCache struct {
	mu    sync.Mutex
	texts map[string]*Text
}

func newTextCache() *textCache { return &textCache{texts: make(map[string]*Text)} }

func (c *textCache) findText(sql string) *Text {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.texts[sql]
}

// storeText stores t for a text. A full cache drops an arbitrary other text.
func (c *textCache) storeText(sql string, t *Text) {
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
