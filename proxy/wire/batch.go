package wire

// Batch gathers bytes for one write: in a pooled buffer, and in one of its own where that is
// too small.
type Batch struct {
	buf []byte // nil while empty
	n   int
}

// Room returns how many bytes fit before the next flush.
func (k *Batch) Room() int {
	if k.buf == nil {
		return BufferSize
	}
	return len(k.buf) - k.n
}

// Add copies b, however long. The caller bounds what it adds between two flushes.
func (k *Batch) Add(b []byte) {
	if k.buf == nil {
		k.buf = GetBuffer()
	}
	if need := k.n + len(b); need > len(k.buf) {
		larger := make([]byte, max(need, 2*len(k.buf)))
		copy(larger, k.buf[:k.n])
		PutBuffer(k.buf)
		k.buf = larger
	}
	k.n += copy(k.buf[k.n:], b)
}

// Full reports whether as much was added as a pooled buffer holds.
func (k *Batch) Full() bool { return k.n >= BufferSize }

// Empty reports whether nothing was added.
func (k *Batch) Empty() bool { return k.n == 0 }

// Bytes is what was added.
func (k *Batch) Bytes() []byte { return k.buf[:k.n] }

// Detach returns what was added, in a buffer that is now the caller's.
func (k *Batch) Detach() []byte {
	b := k.buf[:k.n]
	k.buf, k.n = nil, 0
	return b
}

// Reset forgets the content and gives the buffer back.
func (k *Batch) Reset() {
	if k.buf != nil {
		PutBuffer(k.buf)
		k.buf, k.n = nil, 0
	}
}
