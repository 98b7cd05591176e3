package settings

import (
	"maps"
	"slices"
	"sync"
)

// internLimit bounds the interned settings. Beyond it all are forgotten, and until they
// are interned anew equal settings compare by value, which is only slower.
const internLimit = 1024

// Interned shares equal settings between sessions.
type Interned struct {
	mu sync.Mutex
	m  map[string]*Values
}

// Share returns the one Values that is equal to s for all who ask.
func (n *Interned) Share(s *Values) *Values {
	if len(s.SQL) == 0 && len(s.Kept) == 0 {
		return None
	}
	key := Diff(None, s)
	for _, also := range []map[string]string{s.Kept, s.Shown} {
		key += "\x00"
		for _, name := range slices.Sorted(maps.Keys(also)) {
			key += "\x00" + name + "\x00" + also[name]
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if old, ok := n.m[key]; ok {
		return old
	}
	if n.m == nil || len(n.m) >= internLimit {
		n.m = map[string]*Values{}
	}
	n.m[key] = s
	return s
}
