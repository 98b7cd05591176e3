package wire

import (
	"io"
	"unsafe"
)

// Batch gathers bytes for one flush, in pooled buffers: a query takes one of them. A long run of
// bytes that stays as it is until then may be referred to in the place of a copy (Refer).
type Batch struct {
	buf   []byte  // the last buffer, nil while empty
	n     int     // used of it
	front []piece // what is in front of it; nil unless one buffer was too small
	size  int     // of front
}

// piece is a part of a Batch: bytes of a buffer of the pool, or others.
type piece struct {
	bytes  []byte
	pooled bool
}

// Room returns how many bytes fit the last buffer.
func (k *Batch) Room() int {
	if k.buf == nil {
		return BufferSize
	}
	return len(k.buf) - k.n
}

// Add copies b, however long. The caller bounds what it adds between two flushes.
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

// Refer adds b, of which it copies what fills a buffer: the rest must stay as it is until the batch
// is empty again, or what was detached of it is.
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

// ReferText is Refer for a text, which stays as it is for good.
func (k *Batch) ReferText(text string) {
	k.Refer(unsafe.Slice(unsafe.StringData(text), len(text))) // nobody who is given a batch writes into it
}

// next puts the last buffer in front of another, which is made when it is needed.
func (k *Batch) next() {
	k.front, k.size = append(k.front, piece{k.buf[:k.n], true}), k.size+k.n
	k.buf, k.n = nil, 0
}

// Len is how many bytes were added.
func (k *Batch) Len() int { return k.size + k.n }

// Full reports whether as much was added as a pooled buffer holds.
func (k *Batch) Full() bool { return k.Len() >= BufferSize }

// Empty reports whether nothing was added.
func (k *Batch) Empty() bool { return k.Len() == 0 }

// Bytes is what was added, where that was never more than there was room for.
func (k *Batch) Bytes() []byte { return k.buf[:k.n] }

// Flush writes what was added to w, and forgets it, also where the write fails.
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

// Detach returns the batch, which is the caller's, and is empty itself from then on.
func (k *Batch) Detach() Batch {
	detached := *k
	*k = Batch{}
	return detached
}

// Reset forgets the content and gives the buffers back.
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
