package wire

// Batch gathers bytes for one write.
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

// Add copies b, which must fit.
func (k *Batch) Add(b []byte) {
	if k.buf == nil {
		k.buf = GetBuffer()
	}
	k.n += copy(k.buf[k.n:], b)
}

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
