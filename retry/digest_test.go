package retry

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func newDigest(t testing.TB) *runningDigest {
	t.Helper()
	h, err := newHasher()
	if err != nil {
		t.Fatal(err)
	}
	d := &runningDigest{h: h}
	d.reset()
	return d
}

// writeCut writes data in pieces that t chooses.
func writeCut(t *rapid.T, d *runningDigest, data []byte) {
	for len(data) > 0 {
		n := rapid.IntRange(1, len(data)).Draw(t, "piece")
		d.write(data[:n])
		data = data[n:]
	}
}

func TestDigestIsOfTheStreamNotOfItsPieces(t *testing.T) {
	t.Parallel()
	d := newDigest(t)
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(0, 5*blockSize).Draw(t, "size")
		data := bytes.Repeat(rapid.SliceOfN(rapid.Byte(), 1, 200).Draw(t, "data"), size/200+1)
		d.reset()
		d.write(data)
		whole := d.sum()
		d.reset()
		at := rapid.IntRange(0, len(data)).Draw(t, "at")
		writeCut(t, d, data[:at])
		half := d.sum() // must not disturb
		writeCut(t, d, data[at:])
		if got := d.sum(); got != whole {
			t.Fatalf("digest of the same %d bytes in pieces: %x, want %x", len(data), got, whole)
		}
		if at < len(data) && half == whole {
			t.Fatalf("the first %d bytes have the digest of all %d", at, len(data))
		}
		i := rapid.IntRange(0, len(data)-1).Draw(t, "changed")
		data[i] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		d.reset()
		d.write(data)
		if d.sum() == whole {
			t.Fatalf("a bit of byte %d of %d does not count", i, len(data))
		}
	})
}

// Streams that a careless construction takes for equal: zeros at the end, blocks
// in another order, the tag of a block in place of the block.
func TestDigestTellsApart(t *testing.T) {
	t.Parallel()
	d := newDigest(t)
	zeros := make([]byte, 4*blockSize)
	seen := map[digestSum]int{}
	for n := range zeros {
		d.reset()
		d.write(zeros[:n])
		s := d.sum()
		if m, ok := seen[s]; ok {
			t.Fatalf("%d and %d zeros have one digest", m, n)
		}
		for other := range seen {
			if other.tag == s.tag && n < 64 {
				t.Fatalf("%d zeros have the tag of another length", n)
			}
		}
		seen[s] = n
	}
	a, b := bytes.Repeat([]byte{1}, 16), bytes.Repeat([]byte{2}, 16)
	for size := 16; size < 3*blockSize; size += 16 {
		data := bytes.Repeat(a, size/16)
		copy(data[size-16:], b)
		d.reset()
		d.write(data)
		last := d.sum()
		copy(data[size-16:], a)
		copy(data, b)
		d.reset()
		d.write(data)
		if size > 16 && d.sum() == last {
			t.Fatalf("two blocks of %d bytes may change places", size)
		}
	}
}

func TestDigestsOfTwoProcessesDiffer(t *testing.T) {
	t.Parallel()
	a, b := newDigest(t), newDigest(t)
	a.write([]byte("the same"))
	b.write([]byte("the same"))
	if a.sum() == b.sum() {
		t.Fatal("the key is not random")
	}
}
