package wire

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// A batch holds what was added, in order, in a buffer of the pool or, beyond its size, in a
// larger one.
func TestBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var k Batch
		var want []byte
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				most := 1 << rapid.IntRange(0, 14).Draw(t, "bits")
				b := rapid.SliceOfN(rapid.Byte(), 0, most).Draw(t, "bytes")
				b = bytes.Repeat(b, rapid.SampledFrom([]int{1, 1, 1, 2 * BufferSize / most}).Draw(t, "times"))
				k.Add(b)
				want = append(want, b...)
			},
			"reset": func(t *rapid.T) {
				k.Reset()
				want = nil
			},
			"detach": func(t *rapid.T) {
				if k.Empty() {
					return
				}
				b := k.Detach()
				if !bytes.Equal(b, want) {
					t.Fatal("detached bytes differ")
				}
				PutBuffer(b)
				want = nil
			},
			"": func(t *rapid.T) {
				if k.Empty() != (len(want) == 0) || k.Full() != (len(want) >= BufferSize) || !bytes.Equal(k.Bytes(), want) || k.Room() < BufferSize-len(want) {
					t.Fatalf("%d bytes with room for %d, want %d", len(k.Bytes()), k.Room(), len(want))
				}
			},
		})
		k.Reset()
	})
}
