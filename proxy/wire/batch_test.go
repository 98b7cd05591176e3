package wire

import (
	"bytes"
	"io"
	"testing"

	"pgregory.net/rapid"
)

// recorder notes what is written to it, and fails the write of that number, from 1.
type recorder struct {
	bytes.Buffer
	pieces [][]byte
	fails  int
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.pieces = append(w.pieces, b); len(w.pieces) == w.fails {
		return 0, io.ErrClosedPipe
	}
	return w.Buffer.Write(b)
}

// A batch holds what was added, in order; what is long and was referred to was not copied.
func TestBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var k Batch
		var want []byte
		draw := func(t *rapid.T) []byte {
			most := 1 << rapid.IntRange(0, 14).Draw(t, "bits")
			b := rapid.SliceOfN(rapid.Byte(), 0, most).Draw(t, "bytes")
			return bytes.Repeat(b, rapid.SampledFrom([]int{1, 1, 1, 2 * BufferSize / most, 6 * BufferSize / most}).Draw(t, "times"))
		}
		flush := func(t *rapid.T, k *Batch) {
			w := recorder{fails: rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "fails")}
			err := k.Flush(&w)
			if failed := w.fails > 0 && len(w.pieces) >= w.fails; failed != (err != nil) || !failed && !bytes.Equal(w.Bytes(), want) {
				t.Fatalf("%d of %d bytes were written: %v", w.Len(), len(want), err)
			}
			if !k.IsEmpty() || k.IsFull() {
				t.Fatal("a batch is not empty behind its flush")
			}
			want = nil
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				b := draw(t)
				k.Add(b)
				want = append(want, b...)
				clear(b) // it was copied
			},
			"refer": func(t *rapid.T) {
				b := draw(t)
				k.AddReference(b)
				want = append(want, b...)
				if n := len(b); n >= 2*BufferSize && !refers(&k, b) {
					t.Fatalf("%d bytes were copied", n)
				}
			},
			"refer to a text": func(t *rapid.T) {
				b := draw(t)
				k.AddTextReference(string(b))
				want = append(want, b...)
			},
			"reset": func(t *rapid.T) {
				k.Reset()
				want = nil
			},
			"flush": func(t *rapid.T) { flush(t, &k) },
			"detach": func(t *rapid.T) {
				detached := k.Detach()
				if !k.IsEmpty() {
					t.Fatal("a batch is not empty whose content was detached")
				}
				k.Add([]byte("another"))
				flush(t, &detached)
				want = []byte("another")
			},
			"": func(t *rapid.T) {
				if k.Len() != len(want) || k.IsEmpty() != (len(want) == 0) || k.IsFull() != (len(want) >= BufferSize) || k.FreeBytes() > BufferSize || k.FreeBytes() < BufferSize-len(want) {
					t.Fatalf("%d bytes with room for %d, want %d", k.Len(), k.FreeBytes(), len(want))
				}
				if len(want) <= BufferSize && k.front == nil && !bytes.Equal(k.Bytes(), want) {
					t.Fatal("bytes differ")
				}
			},
		})
		k.Reset()
	})
}

// refers reports whether a batch has the last byte of b as it is in the memory of b.
func refers(k *Batch, b []byte) bool {
	last := k.front[len(k.front)-1].bytes
	return &last[len(last)-1] == &b[len(b)-1]
}

// A buffer of the pool is never one that somebody still has, whatever its size.
func TestBuffersAreNobodyElses(t *testing.T) {
	if n := 1<<largestShift + 1; len(getLarge(n)) != n {
		t.Fatal("a buffer larger than those of the pool has another size")
	}
	rapid.Check(t, func(t *rapid.T) {
		held := map[byte][]byte{}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				n := rapid.OneOf(rapid.IntRange(BufferSize+1, 8*BufferSize), rapid.SampledFrom([]int{2 * BufferSize, 2*BufferSize + 1})).Draw(t, "size")
				b := getLarge(n)
				if len(b) < n || len(b) > 2*n {
					t.Fatalf("a buffer of %d, want %d", len(b), n)
				}
				mark := byte(len(held) + 1)
				if held[mark] != nil || len(held) > 8 {
					return
				}
				for i := 0; i < n; i += 997 {
					b[i] = mark
				}
				held[mark] = b[:n]
			},
			"give back": func(t *rapid.T) {
				for mark, b := range held {
					PutBuffer(b)
					delete(held, mark)
					break
				}
			},
			"": func(t *rapid.T) {
				for mark, b := range held {
					for i := 0; i < len(b); i += 997 {
						if b[i] != mark {
							t.Fatal("a buffer was given to two")
						}
					}
				}
			},
		})
	})
}
