package dialect

import "sync"

// These constants bound the cache of analysed SQL texts: the number of texts, and the bytes of each text.
const (
	maxCached      = 1024
	maxCachedBytes = 4 << 10
)

// textCache stores the analyses of those SQL texts that had to be parsed. It is safe for concurrent use.
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

// storeText stores the result t for a text. If the cache is full, an arbitrary other text is dropped.
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
