package wire

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// A batch holds what was added, in order, up to a buffer's size.
func TestBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var k Batch
		var want []byte
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				b := rapid.SliceOfN(rapid.Byte(), 0, min(k.Room(), 1<<rapid.IntRange(0, 14).Draw(t, "bits"))).Draw(t, "bytes")
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
				if k.Empty() != (len(want) == 0) || !bytes.Equal(k.Bytes(), want) || k.Room() != BufferSize-len(want) {
					t.Fatalf("%d bytes with room for %d, want %d", len(k.Bytes()), k.Room(), len(want))
				}
			},
		})
		k.Reset()
	})
}
