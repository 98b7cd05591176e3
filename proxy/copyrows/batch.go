package copyrows

import (
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Batch holds rows of a COPY that were not inserted yet.
type Batch struct {
	Rows   []HeldRow
	tuples []byte // in the form of VALUES
	texts  int    // bytes of the rows' texts
}

// HeldRow is one row of a Batch, with its place in the batch's text.
type HeldRow struct {
	Line     int
	from, to int    // in tuples
	text     []byte // as much of the line as an error shows; nil in the binary format
}

// InsertStatement is the text of one INSERT, with the rows of a Batch that it inserts.
type InsertStatement struct {
	Text string
	Rows []HeldRow
	into int // length of the text before the first row
}

// Add adds a row to the batch.
func (b *Batch) Add(row *Row) {
	h := HeldRow{Line: row.Line, from: len(b.tuples)}
	b.tuples = AppendTuple(b.tuples, row.Fields)
	h.to = len(b.tuples)
	if row.Text != nil {
		h.text = slices.Clone(ClipShown(row.Text))
		b.texts += len(h.text)
	}
	b.Rows = append(b.Rows, h)
}

// Size returns the number of bytes that the batch's rows have in VALUES.
func (b *Batch) Size() int { return len(b.tuples) }

// Reset drops all rows of the batch and retains the memory.
func (b *Batch) Reset() { b.tuples, b.Rows, b.texts = b.tuples[:0], b.Rows[:0], 0 }

// heldBytes is the memory of a row without its values and its text, rounded up.
const heldBytes = 128

// MemoryBytes returns the memory, in bytes, of the rows in the batch.
func (b *Batch) MemoryBytes() int { return cap(b.tuples) + cap(b.Rows)*heldBytes + b.texts }

// Clear drops all rows of the batch and their memory.
func (b *Batch) Clear() { *b = Batch{} }

// Inserts returns the INSERTs of rows. The text of each INSERT begins with into. An INSERT has at most mostRows rows
// and mostBytes bytes, unless the INSERT has one row only. The text of each INSERT is built when the INSERT is
// requested.
func (b *Batch) Inserts(into string, rows []HeldRow, mostRows, mostBytes int) iter.Seq[InsertStatement] {
	return func(yield func(InsertStatement) bool) {
		for rows := rows; len(rows) > 0; {
			n, size := 1, len(into)+rows[0].to-rows[0].from
			for n < len(rows) && n < mostRows && size+1+rows[n].to-rows[n].from <= mostBytes {
				size += 1 + rows[n].to - rows[n].from
				n++
			}
			var text strings.Builder
			text.Grow(size)
			text.WriteString(into)
			for i, row := range rows[:n] {
				if i > 0 {
					text.WriteByte(',')
				}
				text.Write(b.tuples[row.from:row.to])
			}
			if !yield(InsertStatement{text.String(), rows[:n], len(into)}) {
				return
			}
			rows = rows[n:]
		}
	}
}

// FindPlace returns the place in the COPY's data that belongs to a position in an INSERT. position counts characters
// from 1, as the server's error gives it. column is the index of the column in the row. ok is false if no value is at
// the position.
func (b *Batch) FindPlace(in *InsertStatement, position string) (where DataPosition, column int, ok bool) {
	at, start := byteOffset(in.Text, position), in.into
	for _, row := range in.Rows {
		size := row.to - row.from
		if at >= start && at < start+size {
			column, value := TupleValueAt(b.tuples[row.from:row.to], at-start)
			return DataPosition{Line: row.Line, Value: ClipShown(value), Null: value == nil}, column, true
		}
		start += size + 1
	}
	return where, 0, false
}

// RowPlace returns the place of a row in the COPY's data. The place has the row's line, unless the format is binary.
func (h *HeldRow) RowPlace() DataPosition {
	return DataPosition{Line: h.Line, Text: h.text, Whole: h.text != nil}
}

// byteOffset returns the byte offset in text of a position that a server's error gave in characters, or -1.
func byteOffset(text, position string) int {
	n, err := strconv.Atoi(position)
	if err != nil {
		return -1
	}
	at := 0
	for ; n > 1 && at < len(text); n-- {
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
	}
	return at
}
