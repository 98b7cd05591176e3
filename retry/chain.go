package retry

import "sync"

// chunkSize is the size of a chunk. It limits the footprint of a usual transaction: a log of 64 KiB in one piece per
// connection cost 10 % of a relay's time (measured).
const chunkSize = 4 << 10

var chunkPool = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// chunkedBuffer is a sequence of bytes that is stored in pooled chunks.
type chunkedBuffer struct {
	chunks []*[chunkSize]byte
	n      int
}

// append appends a copy of b to the buffer.
func (c *chunkedBuffer) append(b []byte) {
	for len(b) > 0 {
		if c.n == len(c.chunks)*chunkSize {
			c.chunks = append(c.chunks, chunkPool.Get().(*[chunkSize]byte))
		}
		k := copy(c.chunks[len(c.chunks)-1][c.n%chunkSize:], b)
		c.n += k
		b = b[k:]
	}
}

// each calls f with the bytes from start to end, in pieces and in order. each stops when f returns an error, and
// returns the error.
func (c *chunkedBuffer) each(start, end int, f func(piece []byte) error) error {
	for start < end {
		chunk := c.chunks[start/chunkSize]
		from := start % chunkSize
		to := min(chunkSize, from+end-start)
		if err := f(chunk[from:to]); err != nil {
			return err
		}
		start += to - from
	}
	return nil
}

// truncate drops all bytes of the buffer but the first n.
func (c *chunkedBuffer) truncate(n int) {
	keep := (n + chunkSize - 1) / chunkSize
	for i := keep; i < len(c.chunks); i++ {
		chunkPool.Put(c.chunks[i])
		c.chunks[i] = nil
	}
	c.chunks, c.n = c.chunks[:keep], n
}
