package settings

import (
	"encoding/binary"
	"maps"
	"slices"
	"sync"
)

// internLimit bounds the interned settings. Beyond it all are forgotten, and until they
// are interned anew equal settings compare by value, which is only slower.
const internLimit = 1024

// mostInterned is how many bytes settings may have that are interned. Longer ones are each client's own,
// and go with it.
const mostInterned = 4 << 10

// Interned shares equal settings between the sessions of one server: Values know what its backends
// have reported. The zero value is empty; it must not be copied.
type Interned struct {
	none Values
	mu   sync.Mutex
	m    map[string]*Values
	// key and names are what the last key was made with, guarded by mu too: who looks for
	// something that is there makes no garbage.
	key   []byte
	names []string
}

// None are the settings of a session that has set nothing.
func (n *Interned) None() *Values { return &n.none }

// Share returns the one Values that is equal to s for all who ask, where s is not too long; else s.
func (n *Interned) Share(s *Values) *Values {
	if len(s.SQL) == 0 && len(s.Kept) == 0 {
		return n.None()
	}
	if s.Bytes() > mostInterned {
		return s
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.makeKey(s)
	if old, ok := n.m[string(n.key)]; ok {
		return old
	}
	if n.m == nil || len(n.m) >= internLimit {
		n.m = map[string]*Values{}
	}
	n.m[string(n.key)] = s
	return s
}

// makeKey makes the key of settings: unequal ones have unequal keys.
func (n *Interned) makeKey(s *Values) {
	if cap(n.key) > keptKey {
		n.key = nil
	}
	n.key = n.key[:0]
	for _, vals := range [...]map[string]string{s.SQL, s.Kept, s.Shown} {
		n.names = slices.AppendSeq(n.names[:0], maps.Keys(vals))
		slices.Sort(n.names)
		n.key = binary.AppendUvarint(n.key, uint64(len(vals)))
		for _, name := range n.names {
			n.key = appendString(appendString(n.key, name), vals[name])
		}
		clear(n.names)
	}
}

// keptKey is how large a key may be whose room is kept for the next.
const keptKey = 4 << 10

// appendString appends a string in such a way that none is the beginning of another.
func appendString(key []byte, s string) []byte {
	return append(binary.AppendUvarint(key, uint64(len(s))), s...)
}
