package proxy

import (
	"maps"
	"slices"
	"sync"
)

// internLimit bounds the interned settings. Beyond it all are forgotten, and until they
// are interned anew equal settings compare by value, which is only slower.
const internLimit = 1024

// interned shares equal settings between sessions.
type interned struct {
	mu sync.Mutex
	m  map[string]*settings
}

func (n *interned) share(s *settings) *settings {
	if len(s.vals) == 0 && len(s.kept) == 0 {
		return noSettings
	}
	key := diff(noSettings, s)
	for _, also := range []map[string]string{s.kept, s.shown} {
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
		n.m = map[string]*settings{}
	}
	n.m[key] = s
	return s
}
