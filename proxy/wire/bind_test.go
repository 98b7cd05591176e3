package wire

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

func TestSplitBind(t *testing.T) {
	t.Parallel()
	none, word := [][]byte(nil), [][]byte{[]byte("word"), nil, {}}
	for name, test := range map[string]struct {
		bind    pgproto3.Bind
		formats []byte
	}{
		"nothing":     {pgproto3.Bind{Parameters: none}, nil},
		"parameters":  {pgproto3.Bind{Parameters: word}, nil},
		"formats":     {pgproto3.Bind{Parameters: word, ParameterFormatCodes: []int16{1, 0, 1}}, nil},
		"text":        {pgproto3.Bind{Parameters: word, ResultFormatCodes: []int16{0, 0}}, nil},
		"binary":      {pgproto3.Bind{Parameters: word, ResultFormatCodes: []int16{1}}, []byte{0, 1}},
		"mixed":       {pgproto3.Bind{ParameterFormatCodes: []int16{1}, ResultFormatCodes: []int16{0, 1}}, []byte{0, 0, 0, 1}},
		"what is not": {pgproto3.Bind{ResultFormatCodes: []int16{256}}, []byte{1, 0}},
	} {
		frame, err := test.bind.Encode(nil)
		if err != nil {
			t.Fatal(err)
		}
		rest := frame[HeaderLen+2:]
		values, formats, ok := SplitBind(rest)
		if !ok || !bytes.Equal(formats, test.formats) || (formats == nil) != (test.formats == nil) || !bytes.HasPrefix(rest, values) {
			t.Errorf("%s: %q, %q, %v", name, values, formats, ok)
		}
		if again := len(values) + 2 + 2*len(test.bind.ResultFormatCodes); again != len(rest) {
			t.Errorf("%s: %d of %d bytes", name, again, len(rest))
		}
		for n := range rest { // cut short, or with more behind
			if _, _, ok := SplitBind(rest[:n]); ok {
				t.Errorf("%s, cut at %d, is taken", name, n)
			}
		}
		if _, _, ok := SplitBind(append(bytes.Clone(rest), 0)); ok {
			t.Errorf("%s with a byte behind it is taken", name)
		}
	}
}

// FuzzSplitBind holds that nothing that a client sends is read beyond its end.
func FuzzSplitBind(f *testing.F) {
	f.Add([]byte{0, 1, 0, 1, 0, 1, 0, 0, 0, 2, 'a', 'b', 0, 1, 0, 1})
	f.Add([]byte{0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff, 0, 0})
	f.Add([]byte{0xff, 0xff})
	f.Fuzz(func(t *testing.T, rest []byte) {
		values, formats, ok := SplitBind(rest)
		if ok && (len(values) < 4 || len(values)+2+len(formats) > len(rest)) {
			t.Errorf("%q: %q, %q", rest, values, formats)
		}
	})
}
