package copyrows

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// The INSERTs of a batch have its rows in their order, within the bounds, and a position in one
// tells the row, the column and the value.
func TestBatch(t *testing.T) {
	const into = `INSERT INTO "t" ("ü") VALUES `
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(7, seed))
		var b Batch
		var rows [][][]byte
		columns := 1 + r.IntN(4)
		for line := range 1 + r.IntN(20) {
			var fields [][]byte
			for range columns {
				f := []byte(strings.Repeat([]string{"x", "'", ",", ")", "ü", ""}[r.IntN(6)], r.IntN(9)))
				if r.IntN(5) == 0 {
					f = nil
				}
				fields = append(fields, f)
			}
			if tuple := AppendTuple(nil, fields); len(tuple) != TupleLen(fields) {
				t.Fatalf("%s has %d bytes, and %d are told", tuple, len(tuple), TupleLen(fields))
			}
			b.Add(&Row{Line: line + 1, Fields: fields, Text: []byte("text")})
			rows = append(rows, fields)
		}
		most, bytesMost := 1+r.IntN(7), 40+r.IntN(100)
		n := 0
		for in := range b.Inserts(into, b.Rows, most, bytesMost) {
			if len(in.Rows) > most || len(in.Rows) > 1 && len(in.Text) > bytesMost {
				t.Fatalf("an INSERT of %d rows and %d bytes, where %d and %d are allowed", len(in.Rows), len(in.Text), most, bytesMost)
			}
			at := len(into)
			for i := range in.Rows {
				at++ // the parenthesis, or the comma and it
				if i > 0 {
					at++
				}
				for column, f := range rows[n] {
					position := strconv.Itoa(utf8.RuneCountInString(in.Text[:at]) + 1)
					where, got, ok := b.FindPlace(&in, position)
					if !ok || where.Line != n+1 || got != column || !bytes.Equal(where.Value, f) || where.Null != (f == nil) {
						t.Fatalf("position %s of %s is line %d, column %d, %q, want %d, %d, %q", position, in.Text, where.Line, got, where.Value, n+1, column, f)
					}
					at += TupleLen([][]byte{f}) - 2 + 1
				}
				at-- // no comma stands behind the last
				at++
				n++
			}
			if at != len(in.Text) {
				t.Fatalf("%s ends at %d", in.Text, at)
			}
			if _, _, ok := b.FindPlace(&in, "13"); ok {
				t.Fatalf("a position in front of the rows of %s is one of theirs", in.Text)
			}
		}
		if n != len(rows) {
			t.Fatalf("%d rows of %d are inserted", n, len(rows))
		}
	}
}
