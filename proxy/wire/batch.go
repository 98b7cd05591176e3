package wire

import (
	"io"
	"unsafe"
)

// Batch collects bytes for one write, in pooled buffers. The answer of a usual query fits one buffer. Long bytes that
// do not change before the write may be referenced instead of copied (AddReference).
type Batch struct {
	buf   []byte       // the last buffer, nil while empty
	n     int          // used bytes of buf
	front []batchPiece // earlier pieces; nil unless one buffer was too small
	size  int          // bytes of front
}

// batchPiece is a part of a Batch: the bytes of a pooled buffer, or bytes of the caller.
type batchPiece struct {
	bytes  []byte
	pooled bool
}

// FreeBytes returns the number of free bytes in the batch's last buffer.
func (k *Batch) FreeBytes() int {
	if k.buf == nil {
		return BufferSize
	}
	return len(k.buf) - k.n
}

// Add copies b, of any length, into the batch. The caller bounds the bytes between two flushes.
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
		k.sealBuffer()
	}
}

// AddReference adds b to the batch, and copies only the part that fills a buffer. The rest of b must not change until
// the batch is empty again, or until the batch that Detach returned is empty.
func (k *Batch) AddReference(b []byte) {
	n := min(len(b), k.FreeBytes())
	k.Add(b[:n])
	if b = b[n:]; len(b) < BufferSize {
		k.Add(b)
		return
	}
	k.sealBuffer()
	k.front, k.size = append(k.front, batchPiece{bytes: b}), k.size+len(b)
}

// AddTextReference adds a text to the batch like AddReference. This is safe because a Go string never changes.
func (k *Batch) AddTextReference(text string) {
	k.AddReference(unsafe.Slice(unsafe.StringData(text), len(text))) // no user of a batch writes to its bytes
}

// sealBuffer moves the last buffer to front. Another buffer is made on demand.
func (k *Batch) sealBuffer() {
	k.front, k.size = append(k.front, batchPiece{k.buf[:k.n], true}), k.size+k.n
	k.buf, k.n = nil, 0
}

// Len returns the number of bytes in the batch.
func (k *Batch) Len() int { return k.size + k.n }

// IsFull reports whether the batch has at least as many bytes as a pooled buffer.
func (k *Batch) IsFull() bool { return k.Len() >= BufferSize }

// IsEmpty reports whether the batch has no bytes.
func (k *Batch) IsEmpty() bool { return k.Len() == 0 }

// Bytes returns the bytes of a batch that has one buffer only.
func (k *Batch) Bytes() []byte { return k.buf[:k.n] }

// Flush writes the batch's bytes to w and empties the batch, even after an error.
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

// Detach moves the bytes to a new batch, which the caller owns, and empties the batch k.
func (k *Batch) Detach() Batch {
	detached := *k
	*k = Batch{}
	return detached
}

// Reset empties the batch and returns its buffers to the pool.
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
