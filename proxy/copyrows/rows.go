package copyrows

import (
	"fmt"
	"slices"
)

// Format is the format of a COPY's data.
type Format uint8

const (
	Text Format = iota
	CSV
	Binary
)

// Header says what the first line of the data is, in the text and CSV formats.
type Header uint8

const (
	NoHeader Header = iota
	SkipHeader
	MatchHeader // it has the names of the columns
)

// Options say how a COPY's data are read. The options must be ones that PostgreSQL accepts.
type Options struct {
	Format                   Format
	Delimiter, Quote, Escape byte
	Null                     string
	Header                   Header
	// ForceNull and ForceNotNull say for each column whether FORCE_NULL or FORCE_NOT_NULL applies. nil means none.
	ForceNull, ForceNotNull []bool
	Columns                 []Column
	// MostRow is the greatest number of bytes that a row may have. The Reader returns an error for a longer row.
	MostRow int
}

// Column is a column of a COPY's data.
type Column struct {
	Name string
	Type uint32 // the OID; for a domain, that of its base type
}

// Row is one row of a COPY's data. Its slices are valid until the next call of the Reader.
type Row struct {
	Line   int
	Fields [][]byte // as text, one for each column; nil for NULL
	// Text is the row's line as it was sent, or nil in the binary format.
	Text []byte
}

// Reader reads rows from COPY data that arrive in pieces. Reader buffers one row and the bytes after it.
type Reader struct {
	o   Options
	buf []byte
	// at is the index in buf at which the next row of the data starts.
	at int
	// ended means that no more data follow. over means that no more rows follow.
	ended, over bool
	// line is the number of the current row's line, counted as in PostgreSQL, from 1.
	line int
	// begun means that the header of the COPY's data was read.
	begun bool

	scan   lineScan
	fields [][]byte
	out    []byte      // values that differ from the source text
	spans  []valueSpan // of the values of out
}

// valueSpan is the position of a value in Reader.out. from is -1 for NULL.
type valueSpan struct{ from, to int }

// NewReader returns a Reader that has no data yet.
func NewReader(o Options) *Reader { return &Reader{o: o} }

// Feed adds a piece of the data. Feed ignores bytes after the end-of-data marker.
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

// EndInput records that the data are complete.
func (r *Reader) EndInput() { r.ended = true }

// MemoryBytes returns the memory of the Reader's buffers in bytes.
func (r *Reader) MemoryBytes() int { return cap(r.buf) + cap(r.out) }

// Line returns the number of the line of the current or last row.
func (r *Reader) Line() int { return r.line }

// Next returns the next row. Next returns nil if the row is incomplete, or, after EndInput, if no row is left.
func (r *Reader) Next() (*Row, *Error) {
	for !r.over || r.o.Format == Binary {
		var row *Row
		var more bool
		var err *Error
		if r.o.Format == Binary {
			row, err = r.nextBinaryRow()
		} else {
			row, more, err = r.nextTextRow()
		}
		switch {
		case err != nil:
			return nil, err
		case more: // a header
			continue
		case row == nil && !r.ended && r.o.MostRow > 0 && len(r.buf)-r.at > r.o.MostRow:
			line := r.line
			if r.o.Format == Binary { // line is that of the row before
				line++
			}
			return nil, &Error{Code: "54000", Message: "row too long", DataPosition: DataPosition{Line: line},
				Detail: fmt.Sprintf("A row has more than %d bytes.", r.o.MostRow)}
		}
		return row, nil
	}
	return nil, nil
}

// nextTextRow reads a line and parses its values. again says that the line was a header, so that row is nil.
func (r *Reader) nextTextRow() (row *Row, again bool, err *Error) {
	line, ok, err := r.readLine()
	if err != nil || !ok {
		return nil, false, err
	}
	if !r.begun {
		r.begun = true
		if r.o.Header != NoHeader {
			return nil, true, r.checkHeader(line)
		}
	}
	if err := r.splitLine(line); err != nil {
		return nil, false, err
	}
	if err := r.checkFieldCount(line); err != nil {
		return nil, false, err
	}
	if r.o.Format == CSV {
		r.applyForceOptions()
	}
	return &Row{Line: r.line, Fields: r.fields, Text: line}, false, nil
}

// checkFieldCount returns an error if a line has more or fewer values than there are columns.
func (r *Reader) checkFieldCount(line []byte) *Error {
	where := DataPosition{Line: r.line, Text: slices.Clone(ClipShown(line)), Whole: true}
	switch n := len(r.fields); {
	case n > len(r.o.Columns):
		return &Error{Code: malformed, Message: "extra data after last expected column", DataPosition: where}
	case n < len(r.o.Columns):
		return &Error{Code: malformed, Message: fmt.Sprintf("missing data for column \"%s\"", r.o.Columns[n].Name), DataPosition: where}
	}
	return nil
}

// applyForceOptions applies the options FORCE_NULL and FORCE_NOT_NULL to the current row.
func (r *Reader) applyForceOptions() {
	for i, f := range r.fields {
		switch {
		case f == nil && r.o.ForceNotNull != nil && r.o.ForceNotNull[i]:
			r.fields[i] = []byte(r.o.Null)
		case f != nil && r.o.ForceNull != nil && r.o.ForceNull[i] && string(f) == r.o.Null:
			r.fields[i] = nil
		}
	}
}
