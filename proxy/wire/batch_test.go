package wire

import (
	"bytes"
	"testing"
)

// A Batch takes what is longer than its buffer, whole and in order, and is as before when it
// was reset or detached.
func TestBatchGrows(t *testing.T) {
	t.Parallel()
	var k Batch
	for range 2 {
		var want []byte
		for n := 1; n < 3*BufferSize; n *= 3 {
			piece := bytes.Repeat([]byte{byte(n)}, n)
			want = append(want, piece...)
			k.Add(piece)
			if k.Full() != (len(want) >= BufferSize) {
				t.Errorf("full is %v behind %d bytes", k.Full(), len(want))
			}
		}
		if !bytes.Equal(k.Bytes(), want) || k.Empty() {
			t.Errorf("%d bytes, want %d", len(k.Bytes()), len(want))
		}
		if got := k.Detach(); !bytes.Equal(got, want) || !k.Empty() || k.Full() || k.Room() != BufferSize {
			t.Errorf("detached %d bytes, %d fit behind it", len(got), k.Room())
		}
	}
}
