package silent_test

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// PickParams returns parameters of a Bind in their formats, and none of one that is cut short.
func TestPickParams(t *testing.T) {
	t.Parallel()
	tail := func(b pgproto3.Bind) []byte {
		frame, err := b.Encode(nil)
		if err != nil {
			t.Fatal(err)
		}
		return frame[wire.HeaderLen+2:] // behind two empty names
	}
	values := [][]byte{[]byte("one"), nil, {0, 0, 0, 3}, {}}
	for _, test := range []struct {
		params           []int
		given, formatted []int16
	}{
		{nil, nil, nil},
		{[]int{3, 1}, nil, []int16{0, 0}},
		{[]int{2}, []int16{1}, []int16{1}},
		{[]int{4, 3, 2, 1}, []int16{0, 0, 1, 1}, []int16{1, 1, 0, 0}},
	} {
		query := tail(pgproto3.Bind{ParameterFormatCodes: test.given, Parameters: values, ResultFormatCodes: []int16{1}})
		var picked [][]byte
		for _, n := range test.params {
			picked = append(picked, values[n-1])
		}
		want := tail(pgproto3.Bind{ParameterFormatCodes: test.formatted, Parameters: picked})
		if got, ok := silent.PickParams(query, test.params); !ok || !bytes.Equal(got, want) {
			t.Errorf("%v of %v: %q, want %q", test.params, test.given, got, want)
		}
		needed := len(query) - 4 // without the result formats
		for n := range needed {
			if got, ok := silent.PickParams(query[:n], test.params); ok {
				t.Fatalf("%v: %q out of the first %d bytes", test.params, got, n)
			}
		}
	}
	for _, wrong := range []pgproto3.Bind{{Parameters: values[:2]}, {Parameters: values, ParameterFormatCodes: []int16{1, 1}}} {
		if got, ok := silent.PickParams(tail(wrong), []int{3}); ok {
			t.Errorf("%+v: %q", wrong, got)
		}
	}
}
