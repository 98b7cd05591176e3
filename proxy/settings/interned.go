package settings

import (
	"encoding/binary"
	"maps"
	"slices"
	"sync"
)

// internLimit bounds the interned settings. Beyond it all are dropped. Equal settings then compare
// by value until they are interned again, which is only slower.
const internLimit = 1024

// mostInterned bounds the bytes of interned settings. Longer ones are not shared.
const mostInterned = 4 << 10

// Interned shares equal settings between the sessions of one server, because Values record what its
// backends have reported. The zero value is empty; it must not be copied.
type Interned struct {
	none Values
	mu   sync.Mutex
	m    map[string]*Values
	// key and names are buffers of the last key, guarded by mu, so that a look-up allocates
	// nothing.
	key   []byte
	names []string
}

// None returns the settings of a session that has set nothing.
func (n *Interned) None() *Values { return &n.none }

// Share returns the shared Values that are equal to s. If s is too long, it returns s.
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

// makeKey sets key to a unique key of the settings.
func (n *Interned) makeKey(s *Values) {
	if cap(n.key) > reusedKey {
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

// reusedKey bounds the key buffer that is used again.
const reusedKey = 4 << 10

// appendString appends a string with its length, so that keys are unambiguous.
func appendString(key []byte, s string) []byte {
	return append(binary.AppendUvarint(key, uint64(len(s))), s...)
}
