package copyrows

import (
	"bytes"
	"fmt"
	"testing"
)

// FuzzReader finds that no data have a Reader panic, that rows do not depend on the pieces that
// the data come in, and that a Reader holds no more than it may.
func FuzzReader(f *testing.F) {
	f.Add([]byte("1\ta\\tb\r\n\\N\t\\x41\r\n\\.\r\n"), byte(0), byte(1))
	f.Add([]byte("a,\"b\nc\"\"\"\n,\n"), byte(1), byte(2))
	f.Add([]byte("PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x04\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff"), byte(2), byte(3))
	f.Fuzz(func(t *testing.T, data []byte, format, piece byte) {
		if len(data) > 1<<10 { // a numeric of a few bytes may have 100,000 digits
			return
		}
		oids := []uint32{int4Type, numericType, timestampType, intervalType, jsonbType, dateType, timetzType}
		o := Options{Format: Format(format % 3), Delimiter: '\t', Null: `\N`, Header: Header(format / 3 % 3), MostRow: 1 << 10,
			Columns: []Column{{"a", oids[int(format/9)%len(oids)]}, {"b", textType}}}
		if o.Format == CSV {
			o.Delimiter, o.Null, o.Quote, o.Escape = ',', "", '"', "\"\\"[piece&1]
		}
		whole, pieces := said(o, data, len(data)+1), said(o, data, 1+int(piece%16))
		if whole != pieces {
			t.Errorf("%q is at once\n%s\nand in pieces\n%s", data, whole, pieces)
		}
	})
}

// said are the rows and the error that data have.
func said(o Options, data []byte, piece int) string {
	var b bytes.Buffer
	for row, e := range rowsIn(o, data, piece) {
		if e != nil {
			fmt.Fprintf(&b, "%s %s\n", e.Error(), e.Context("t"))
			break
		}
		fmt.Fprintf(&b, "%d", row.Line)
		for _, f := range row.Fields {
			fmt.Fprintf(&b, " %v:%q", f == nil, f)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestLongRow finds that a row is refused before it is held whole.
func TestLongRow(t *testing.T) {
	for _, format := range []Format{Text, CSV, Binary} {
		r := NewReader(Options{Format: format, Delimiter: ',', Quote: '"', Escape: '"', MostRow: 1 << 10, Columns: []Column{{"a", textType}}})
		if format == Binary {
			r.Feed([]byte(signature + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x7f\xff\xff\xff"))
		}
		for fed := 0; ; fed += 64 {
			row, err := r.Next()
			if err != nil {
				if err.Code != "54000" || err.Line != 1 {
					t.Errorf("a long row ends with %v at line %d", err, err.Line)
				}
				break
			}
			if row != nil || fed > 2<<10 {
				t.Fatalf("a row of %d bytes is not refused", fed)
			}
			r.Feed(bytes.Repeat([]byte{'x'}, 64))
		}
		if r.MemoryBytes() > 4<<10 {
			t.Errorf("%d bytes are held", r.MemoryBytes())
		}
	}
}
