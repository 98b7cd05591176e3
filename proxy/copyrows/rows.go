package copyrows

import (
	"fmt"
	"slices"
)

// Format is that of the data.
type Format uint8

const (
	Text Format = iota
	CSV
	Binary
)

// Header says what the first line of the text and CSV formats is.
type Header uint8

const (
	NoHeader Header = iota
	SkipHeader
	MatchHeader // it has the names of the columns
)

// Options say how the data are to be read. They are those of a COPY that PostgreSQL takes.
type Options struct {
	Format                   Format
	Delimiter, Quote, Escape byte
	Null                     string
	Header                   Header
	// ForceNull and ForceNotNull are by column; nil for none.
	ForceNull, ForceNotNull []bool
	Columns                 []Column
	// MostRow is the length of a row, in bytes, from which it is refused.
	MostRow int
}

// Column is a column that the data have.
type Column struct {
	Name string
	Type uint32 // the OID, of a domain that of its base
}

// Row is one row of the data. Its slices are valid until the next call of the Reader.
type Row struct {
	Line   int
	Fields [][]byte // as text, one for each column; nil for NULL
	// Text is the line as it was sent; nil in the binary format.
	Text []byte
}

// Reader reads rows out of data that come in pieces. It holds one row and what was fed behind it.
type Reader struct {
	o   Options
	buf []byte
	// at is where the next row begins in buf.
	at int
	// ended: nothing is to be fed any more. over: no row follows, whatever was fed.
	ended, over bool
	// line is that of the row being read: it counts as PostgreSQL's, from 1.
	line int
	// begun: the header has been read.
	begun bool

	scan   scan
	fields [][]byte
	out    []byte // values, where they differ from what was sent
	spans  []span // of the values of out
}

// span is a value in Reader.out; from is -1 for NULL.
type span struct{ from, to int }

// New returns a Reader of nothing yet.
func New(o Options) *Reader { return &Reader{o: o} }

// Feed takes more of the data. What stands behind their end is dropped.
func (r *Reader) Feed(b []byte) {
	if r.over && r.o.Format != Binary {
		return
	}
	if r.at > 0 && r.at >= len(r.buf)/2 {
		r.buf = r.buf[:copy(r.buf, r.buf[r.at:])]
		r.scan.pos -= r.at
		r.at = 0
	}
	r.buf = append(r.buf, b...)
}

// End says that nothing is to be fed any more.
func (r *Reader) End() { r.ended = true }

// Held is how many bytes the Reader holds.
func (r *Reader) Held() int { return cap(r.buf) + cap(r.out) }

// Line is the line that is being read, or was read last.
func (r *Reader) Line() int { return r.line }

// Next returns the next row; nil where more must be fed, or, behind End, where there is none.
func (r *Reader) Next() (*Row, *Error) {
	for !r.over || r.o.Format == Binary {
		var row *Row
		var more bool
		var err *Error
		if r.o.Format == Binary {
			row, err = r.nextBinary()
		} else {
			row, more, err = r.nextLine()
		}
		switch {
		case err != nil:
			return nil, err
		case more: // a header
			continue
		case row == nil && !r.ended && r.o.MostRow > 0 && len(r.buf)-r.at > r.o.MostRow:
			line := r.line
			if r.o.Format == Binary { // that of the row before
				line++
			}
			return nil, &Error{Code: "54000", Message: "row too long", Where: Where{Line: line},
				Detail: fmt.Sprintf("A row has more than %d bytes.", r.o.MostRow)}
		}
		return row, nil
	}
	return nil, nil
}

// nextLine reads a line, and its values. again says that it was a header.
func (r *Reader) nextLine() (row *Row, again bool, err *Error) {
	line, ok, err := r.readLine()
	if err != nil || !ok {
		return nil, false, err
	}
	if !r.begun {
		r.begun = true
		if r.o.Header != NoHeader {
			return nil, true, r.header(line)
		}
	}
	if err := r.split(line); err != nil {
		return nil, false, err
	}
	if err := r.counted(line); err != nil {
		return nil, false, err
	}
	if r.o.Format == CSV {
		r.force()
	}
	return &Row{Line: r.line, Fields: r.fields, Text: line}, false, nil
}

// counted is the error of a line with more or fewer values than there are columns.
func (r *Reader) counted(line []byte) *Error {
	where := Where{Line: r.line, Text: slices.Clone(Clip(line)), Whole: true}
	switch n := len(r.fields); {
	case n > len(r.o.Columns):
		return &Error{Code: malformed, Message: "extra data after last expected column", Where: where}
	case n < len(r.o.Columns):
		return &Error{Code: malformed, Message: fmt.Sprintf("missing data for column \"%s\"", r.o.Columns[n].Name), Where: where}
	}
	return nil
}

// force does what FORCE_NULL and FORCE_NOT_NULL say.
func (r *Reader) force() {
	for i, f := range r.fields {
		switch {
		case f == nil && r.o.ForceNotNull != nil && r.o.ForceNotNull[i]:
			r.fields[i] = []byte(r.o.Null)
		case f != nil && r.o.ForceNull != nil && r.o.ForceNull[i] && string(f) == r.o.Null:
			r.fields[i] = nil
		}
	}
}
