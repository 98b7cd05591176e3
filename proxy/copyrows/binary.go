package copyrows

import (
	"encoding/binary"
	"fmt"
)

// signature is the start of COPY data in the binary format.
const signature = "PGCOPY\n\xff\r\n\x00"

// nextBinaryRow returns the next row of data in the binary format. nextBinaryRow returns nil if the row is incomplete,
// or if no row follows.
func (r *Reader) nextBinaryRow() (*Row, *Error) {
	if r.over {
		if len(r.buf) > r.at {
			return nil, r.formatError("received copy data after EOF marker")
		}
		return nil, nil
	}
	if !r.begun {
		if ok, err := r.readBinaryHeader(); !ok || err != nil {
			return nil, err
		}
	}
	b := r.buf[r.at:]
	if len(b) < 2 {
		if r.ended {
			r.over, r.at = true, len(r.buf)
		}
		return nil, nil
	}
	line := r.line + 1
	switch n := int(int16(binary.BigEndian.Uint16(b))); {
	case n == -1:
		r.line, r.over = line, true
		r.at += 2
		return r.nextBinaryRow()
	case n != len(r.o.Columns):
		r.line = line
		return nil, r.formatError(fmt.Sprintf("row field count is %d, expected %d", n, len(r.o.Columns)))
	}
	return r.decodeBinaryRow(b, line)
}

// decodeBinaryRow decodes a row of the binary format at the start of b, which begins with the number of values.
func (r *Reader) decodeBinaryRow(b []byte, line int) (*Row, *Error) {
	values, at := r.fields[:0], 2
	for i := range r.o.Columns {
		bad := ""
		n := 0
		switch {
		case len(b)-at < 4:
			bad = "unexpected EOF in COPY data"
		default:
			n = int(int32(binary.BigEndian.Uint32(b[at:])))
			switch {
			case n < -1:
				r.line = line
				return nil, r.formatErrorInColumn("invalid field size", i)
			case n > len(b)-at-4:
				bad = "unexpected EOF in COPY data"
			}
		}
		if bad != "" && !r.ended {
			r.fields = values[:0]
			return nil, nil
		}
		if bad != "" {
			r.line = line
			return nil, r.formatErrorInColumn(bad, i)
		}
		at += 4
		if n == -1 {
			values = append(values, nil)
			continue
		}
		values = append(values, b[at:at+n:at+n])
		at += n
	}
	r.line = line
	r.at += at
	r.fields = values
	r.out = r.out[:0]
	for i, v := range values {
		if v == nil {
			continue
		}
		from := len(r.out)
		out, why := appendDecoded(r.out, r.o.Columns[i].Type, v)
		if why != nil {
			why.DataPosition = DataPosition{Line: line, Column: r.o.Columns[i].Name, Unknown: true}
			return nil, why
		}
		if len(out) == from {
			out = append(out, 0)[:from]
		}
		// The value is a slice of out. Earlier values stay valid even if out gets new memory.
		values[i] = out[from:len(out):len(out)]
		if values[i] == nil {
			values[i] = []byte{}
		}
		r.out = out
	}
	return &Row{Line: line, Fields: values}, nil
}

// readBinaryHeader consumes the header of data in the binary format. readBinaryHeader returns false if the header is
// incomplete.
func (r *Reader) readBinaryHeader() (ok bool, err *Error) {
	b := r.buf[r.at:]
	n := min(len(b), len(signature))
	switch {
	case string(b[:n]) != signature[:n], n < len(signature) && r.ended:
		return false, r.formatError("COPY file signature not recognized")
	case len(b) < len(signature)+4:
		return false, r.formatErrorAtEnd("invalid COPY file header (missing flags)")
	}
	b = b[len(signature):]
	switch flags := binary.BigEndian.Uint32(b); {
	case flags&(1<<16) != 0:
		return false, r.formatError("invalid COPY file header (WITH OIDS)")
	case flags>>16 != 0:
		return false, r.formatError("unrecognized critical flags in COPY file header")
	case len(b) < 8:
		return false, r.formatErrorAtEnd("invalid COPY file header (missing length)")
	}
	extension := int(int32(binary.BigEndian.Uint32(b[4:])))
	switch {
	case extension < 0:
		return false, r.formatError("invalid COPY file header (missing length)")
	case extension > len(b)-8:
		return false, r.formatErrorAtEnd("invalid COPY file header (wrong length)")
	}
	r.begun = true
	r.at += len(signature) + 8 + extension
	return true, nil
}

// formatError returns an error about data that violate the binary format.
func (r *Reader) formatError(message string) *Error {
	return &Error{Code: malformed, Message: message, DataPosition: DataPosition{Line: r.line}}
}

// formatErrorAtEnd returns an error about incomplete data after their end. Before their end, it returns nil.
func (r *Reader) formatErrorAtEnd(message string) *Error {
	if !r.ended {
		return nil
	}
	return r.formatError(message)
}

// formatErrorInColumn returns an error about a column whose data violate the binary format.
func (r *Reader) formatErrorInColumn(message string, column int) *Error {
	e := r.formatError(message)
	e.Column, e.Unknown = r.o.Columns[column].Name, true
	return e
}
