package wire

import (
	"bytes"
	"testing"
)

// A Bind's parameters come out as they went in, and take more, each in the format of the
// column that it is from.
func TestParams(t *testing.T) {
	for name, c := range map[string]struct{ rest, want string }{
		"none":       {"\x00\x00\x00\x00\x00\x00", "\x00\x02\x00\x00\x00\x00\x00\x02\x00\x00\x00\x01x\xff\xff\xff\xff\x00\x00"},
		"one format": {"\x00\x01\x00\x01\x00\x02\x00\x00\x00\x01a\xff\xff\xff\xff\x00\x01\x00\x01", "\x00\x04\x00\x01\x00\x01\x00\x01\x00\x01\x00\x04\x00\x00\x00\x01a\xff\xff\xff\xff\x00\x00\x00\x01x\xff\xff\xff\xff\x00\x01\x00\x01"},
		"each":       {"\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x02\x00\x00\x00\x01", "\x00\x03\x00\x00\x00\x00\x00\x01\x00\x03\x00\x00\x00\x00\x00\x00\x00\x01x\xff\xff\xff\xff\x00\x02\x00\x00\x00\x01"},
	} {
		p, ok := ParseBindParams([]byte(c.rest))
		if !ok {
			t.Fatalf("%s: not read", name)
		}
		n := p.Len()
		if a, b := p.AddResultValue(0, []byte("x")), p.AddResultValue(1, nil); a != n+1 || b != n+2 {
			t.Errorf("%s: parameters %d and %d behind %d", name, a, b, n)
		}
		if got := p.Bytes(); string(got) != c.want {
			t.Errorf("%s: got  %x\nwant %x", name, got, c.want)
		}
	}
}

func TestRows(t *testing.T) {
	rows := []byte("D\x00\x00\x00\x0f\x00\x02\x00\x00\x00\x01a\xff\xff\xff\xffD\x00\x00\x00\x0e\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00")
	if n := CountRows(rows); n != 2 {
		t.Fatalf("%d rows", n)
	}
	all := SplitRows(rows, 2)
	if len(all) != 2 || string(all[0][0]) != "a" || all[0][1] != nil || all[1][0] == nil || len(all[1][0]) != 0 {
		t.Errorf("%q", all)
	}
	if SplitRows(rows, 3) != nil || CountRows(rows[1:]) != -1 || CountRows(rows[:len(rows)-1]) != -1 || CountRows([]byte("C\x00\x00\x00\x04")) != -1 {
		t.Error("what is no row is taken for one")
	}
}

// Whatever bytes come, nothing is read beyond them, and what is well-formed stays as it is
// but for its format codes.
func FuzzParams(f *testing.F) {
	f.Add([]byte("\x00\x01\x00\x01\x00\x02\x00\x00\x00\x01a\xff\xff\xff\xff\x00\x01\x00\x01"))
	f.Add([]byte("D\x00\x00\x00\x0b\x00\x01\x00\x00\x00\x01a"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := ParseBindParams(b); ok {
			once := p.Bytes()
			again, ok := ParseBindParams(once)
			if !ok || !bytes.Equal(again.Bytes(), once) {
				t.Errorf("%x is read as %x", b, once)
			}
		}
		if n := CountRows(b); n >= 0 {
			if all := SplitRows(b, 1); all != nil && len(all) != n {
				t.Errorf("%d rows, of %d", len(all), n)
			}
		}
	})
}
