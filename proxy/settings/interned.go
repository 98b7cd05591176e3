package settings

import (
	"encoding/binary"
	"maps"
	"slices"
	"sync"
)

// internLimit bounds the number of interned Values. At the bound InternTable drops all. Equal Values then compare by
// value, which is slower, until they are interned again.
const internLimit = 1024

// mostInterned bounds the bytes of Values that are interned. Longer Values are not shared.
const mostInterned = 4 << 10

// InternTable shares equal Values between the sessions of one server. Each server has an InternTable of its own,
// because Values record what its backends report. The zero InternTable is empty. InternTable must not be copied.
type InternTable struct {
	none Values
	mu   sync.Mutex
	m    map[string]*Values
	// key and names are buffers for makeKey, guarded by mu, so that a look-up allocates nothing.
	key   []byte
	names []string
}

// NoSettings returns the Values of a session that has set nothing.
func (n *InternTable) NoSettings() *Values { return &n.none }

// Intern returns the interned Values that are equal to s. If s is too long to be interned, Intern returns s.
func (n *InternTable) Intern(s *Values) *Values {
	if len(s.SQL) == 0 && len(s.StartupLocal) == 0 {
		return n.NoSettings()
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

// makeKey sets n.key to a key that only equal Values have. The caller holds mu.
func (n *InternTable) makeKey(s *Values) {
	if cap(n.key) > reusedKey {
		n.key = nil
	}
	n.key = n.key[:0]
	for _, vals := range [...]map[string]string{s.SQL, s.StartupLocal, s.Shown} {
		n.names = slices.AppendSeq(n.names[:0], maps.Keys(vals))
		slices.Sort(n.names)
		n.key = binary.AppendUvarint(n.key, uint64(len(vals)))
		for _, name := range n.names {
			n.key = appendString(appendString(n.key, name), vals[name])
		}
		clear(n.names)
	}
}

// reusedKey bounds the size of a key buffer that is used again.
const reusedKey = 4 << 10

// appendString appends a string after its length, so that different settings never have the same key.
func appendString(key []byte, s string) []byte {
	return append(binary.AppendUvarint(key, uint64(len(s))), s...)
}
