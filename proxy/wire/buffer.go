package wire

import (
	"math/bits"
	"sync"
)

// BufferSize is the size of a pooled buffer: two TLS records. PgBouncer's buffers of 4 KiB cost it 1.6 times the CPU
// on bulk results. Go too needs more CPU below 16 KiB.
const BufferSize = 32 << 10

var bufPool = sync.Pool{New: func() any { return new([BufferSize]byte) }}

// largestShift is the logarithm of the largest pooled buffer. The buffer exceeds the longest text that is read whole
// (rewrite.max_bytes).
const largestShift = 24

// largePools hold buffers above BufferSize, by the logarithm of their size. Without these pools, a statement of a
// megabyte would need pages that the kernel must clear, and frequent garbage collections. The garbage collector empties
// the pools.
var largePools [largestShift + 1]sync.Pool

// GetBuffer returns a pooled buffer of BufferSize bytes with arbitrary content. The caller owns the buffer until
// PutBuffer.
func GetBuffer() []byte { return bufPool.Get().(*[BufferSize]byte)[:] }

// getLarge returns a buffer of n bytes or up to twice as many, with arbitrary content. The caller owns the buffer until
// PutBuffer.
func getLarge(n int) []byte {
	shift := bits.Len(uint(n - 1))
	if shift > largestShift {
		return make([]byte, n)
	}
	if b, ok := largePools[shift].Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 1<<shift)
}

// PutBuffer returns a pooled buffer to its pool. A buffer of another size is left to the garbage collector.
func PutBuffer(b []byte) {
	n := cap(b)
	if n == BufferSize {
		bufPool.Put((*[BufferSize]byte)(b[:BufferSize]))
	} else if n > BufferSize && n <= 1<<largestShift && n&(n-1) == 0 {
		putLarge(b[:n])
	}
}

// putLarge returns a buffer from getLarge to its pool. It is a separate function, and is not inlined, because it
// allocates. Otherwise PutBuffer would allocate for each buffer.
//
//go:noinline
func putLarge(b []byte) { largePools[bits.Len(uint(len(b)-1))].Put(&b) }
