package copyrows

import (
	"fmt"
	"slices"
)

// splitLine parses the values of a line of COPY data into r.fields.
func (r *Reader) splitLine(line []byte) *Error {
	r.spans, r.out, r.fields = r.spans[:0], r.out[:0], r.fields[:0]
	if len(r.o.Columns) == 0 { // its lines must be empty
		if len(line) > 0 {
			r.fields = append(r.fields, line)
		}
		return nil
	}
	var err *Error
	if r.o.Format == CSV {
		err = r.splitCSV(line)
	} else {
		err = r.splitText(line)
	}
	if err != nil {
		return err
	}
	for _, s := range r.spans {
		if s.from < 0 {
			r.fields = append(r.fields, nil)
		} else {
			r.fields = append(r.fields, r.out[s.from:s.to:s.to])
		}
	}
	return nil
}

// endValue ends a value of a line. The value begins at the index from in r.out. raw is the value's text in the line.
// If raw is the NULL marker and mayBeNull is set, the value is NULL.
func (r *Reader) endValue(from int, raw []byte, mayBeNull bool) {
	if mayBeNull && string(raw) == r.o.Null {
		r.out = r.out[:from]
		r.spans = append(r.spans, valueSpan{from: -1})
		return
	}
	r.spans = append(r.spans, valueSpan{from, len(r.out)})
	if from == len(r.out) {
		r.out = append(r.out, 0) // so that an empty value is not nil
	}
}

// splitText parses the values of a line in the text format.
func (r *Reader) splitText(line []byte) *Error {
	for i := 0; ; {
		begin, from, strange, found := i, len(r.out), false, false
		end := i
		for {
			end = i
			if i >= len(line) {
				break
			}
			c := line[i]
			i++
			if c == r.o.Delimiter {
				found = true
				break
			}
			if c == '\\' {
				if i >= len(line) {
					break
				}
				var n int
				c, n = unescape(line[i:])
				strange = strange || (c == 0 || c >= 0x80) && (n > 1 || isDigit(line[i], '7'))
				i += n
			}
			r.out = append(r.out, c)
		}
		if raw := line[begin:end]; strange && string(raw) != r.o.Null {
			if bad := invalidTextOffset(r.out[from:]); bad >= 0 {
				return &Error{Code: "22021", Message: invalidUTF8Message(r.out[from+bad:]), DataPosition: DataPosition{Line: r.line, Text: slices.Clone(ClipShown(line)), Whole: true}}
			}
		}
		r.endValue(from, line[begin:end], true)
		if !found {
			return nil
		}
	}
}

// unescape returns the byte that an escape sequence means, and the sequence's length. b begins after the backslash.
func unescape(b []byte) (c byte, n int) {
	switch c := b[0]; c {
	case 'b':
		return '\b', 1
	case 'f':
		return '\f', 1
	case 'n':
		return '\n', 1
	case 'r':
		return '\r', 1
	case 't':
		return '\t', 1
	case 'v':
		return '\v', 1
	case 'x':
		value := 0
		for n = 1; n < len(b) && n < 3; n++ {
			d := hexDigit(b[n])
			if d < 0 {
				break
			}
			value = value<<4 | d
		}
		if n == 1 {
			return c, 1
		}
		return byte(value), n
	default:
		if !isDigit(c, '7') {
			return c, 1
		}
		value := 0
		for n < len(b) && n < 3 && isDigit(b[n], '7') {
			value = value<<3 | int(b[n]-'0')
			n++
		}
		return byte(value), n
	}
}

// isDigit reports whether c is a digit from '0' up to most.
func isDigit(c, most byte) bool { return c >= '0' && c <= most }

// hexDigit returns the value of a hexadecimal digit, or -1 for another byte.
func hexDigit(c byte) int {
	switch {
	case isDigit(c, '9'):
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// splitCSV parses the values of a line in the CSV format.
func (r *Reader) splitCSV(line []byte) *Error {
	for i := 0; ; {
		begin, from, quoted, found := i, len(r.out), false, false
		end := i
		for {
			end = i
			if i >= len(line) {
				break
			}
			c := line[i]
			i++
			if c == r.o.Delimiter {
				found = true
				break
			}
			if c != r.o.Quote {
				r.out = append(r.out, c)
				continue
			}
			quoted = true
			n, closed := r.parseQuoted(line[i:])
			if !closed {
				return &Error{Code: malformed, Message: "unterminated CSV quoted field", DataPosition: DataPosition{Line: r.line, Text: slices.Clone(ClipShown(line)), Whole: true}}
			}
			i += n
		}
		r.endValue(from, line[begin:end], !quoted)
		if !found {
			return nil
		}
	}
}

// parseQuoted parses CSV text after an opening quote, up to and including the closing quote.
func (r *Reader) parseQuoted(b []byte) (n int, closed bool) {
	for n < len(b) {
		c := b[n]
		n++
		if c == r.o.Escape && n < len(b) && (b[n] == r.o.Escape || b[n] == r.o.Quote) {
			r.out = append(r.out, b[n])
			n++
			continue
		}
		if c == r.o.Quote {
			return n, true
		}
		r.out = append(r.out, c)
	}
	return n, false
}

// checkHeader checks the first line of the data. checkHeader returns an error if HEADER MATCH applies and the line does
// not have the columns' names.
func (r *Reader) checkHeader(line []byte) *Error {
	if r.o.Header != MatchHeader {
		return nil
	}
	if err := r.splitLine(line); err != nil {
		return err
	}
	where := DataPosition{Line: r.line, Text: slices.Clone(ClipShown(line)), Whole: true}
	if n, want := len(r.fields), len(r.o.Columns); n != want {
		return &Error{Code: malformed, Message: fmt.Sprintf("wrong number of fields in header line: got %d, expected %d", n, want), DataPosition: where}
	}
	for i, f := range r.fields {
		got := `"` + string(f) + `"`
		if f == nil {
			got = `null value ("` + r.o.Null + `")`
		}
		if name := r.o.Columns[i].Name; f == nil || string(f) != name {
			return &Error{Code: malformed, Message: fmt.Sprintf("column name mismatch in header line field %d: got %s, expected \"%s\"", i+1, got, name), DataPosition: where}
		}
	}
	return nil
}
