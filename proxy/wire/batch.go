package wire

import (
	"io"
	"unsafe"
)

// Batch collects bytes for one flush, in pooled buffers; a query uses one of them. Long bytes that
// do not change until then may be referenced instead of copied (Refer).
type Batch struct {
	buf   []byte  // the last buffer, nil while empty
	n     int     // used bytes of buf
	front []piece // earlier pieces; nil unless one buffer was too small
	size  int     // bytes of front
}

// piece is a part of a Batch: bytes of a pooled buffer, or others.
type piece struct {
	bytes  []byte
	pooled bool
}

// Room returns the free bytes of the last buffer.
func (k *Batch) Room() int {
	if k.buf == nil {
		return BufferSize
	}
	return len(k.buf) - k.n
}

// Add copies b, of any length. The caller bounds the bytes between two flushes.
func (k *Batch) Add(b []byte) {
	for {
		if k.buf == nil {
			k.buf = GetBuffer()
		}
		n := copy(k.buf[k.n:], b)
		k.n += n
		if b = b[n:]; len(b) == 0 {
			return
		}
		k.next()
	}
}

// Refer adds b, and copies only the part that fills a buffer. The rest must not change until the
// batch is empty again, or its detached part is.
func (k *Batch) Refer(b []byte) {
	n := min(len(b), k.Room())
	k.Add(b[:n])
	if b = b[n:]; len(b) < BufferSize {
		k.Add(b)
		return
	}
	k.next()
	k.front, k.size = append(k.front, piece{bytes: b}), k.size+len(b)
}

// ReferText performs Refer for a text, which never changes.
func (k *Batch) ReferText(text string) {
	k.Refer(unsafe.Slice(unsafe.StringData(text), len(text))) // no user of a batch writes to its bytes
}

// next moves the last buffer to front; another one is made on demand.
func (k *Batch) next() {
	k.front, k.size = append(k.front, piece{k.buf[:k.n], true}), k.size+k.n
	k.buf, k.n = nil, 0
}

// Len returns the number of bytes.
func (k *Batch) Len() int { return k.size + k.n }

// Full reports whether the batch has as many bytes as a pooled buffer.
func (k *Batch) Full() bool { return k.Len() >= BufferSize }

// Empty reports whether the batch has no bytes.
func (k *Batch) Empty() bool { return k.Len() == 0 }

// Bytes returns the bytes, if they never exceeded Room.
func (k *Batch) Bytes() []byte { return k.buf[:k.n] }

// Flush writes the bytes to w and empties the batch, even after an error.
func (k *Batch) Flush(w io.Writer) (err error) {
	for _, p := range k.front {
		if _, err = w.Write(p.bytes); err != nil {
			break
		}
	}
	if err == nil && k.n > 0 {
		_, err = w.Write(k.buf[:k.n])
	}
	k.Reset()
	return err
}

// Detach returns the content as a new batch of the caller's, and empties the batch.
func (k *Batch) Detach() Batch {
	detached := *k
	*k = Batch{}
	return detached
}

// Reset empties the batch and returns its buffers.
func (k *Batch) Reset() {
	for _, p := range k.front {
		if p.pooled {
			PutBuffer(p.bytes)
		}
	}
	if k.buf != nil {
		PutBuffer(k.buf)
	}
	if k.buf != nil || k.front != nil {
		*k = Batch{}
	}
}
