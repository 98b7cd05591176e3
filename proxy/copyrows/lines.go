package copyrows

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// lineEnding is the kind of line end in COPY data, which the first line decides.
type lineEnding uint8

const (
	unknownEOL lineEnding = iota
	lf
	cr
	crlf
)

// lineScan is the state of the search for the end of a line of COPY data.
type lineScan struct {
	pos int        // the next byte
	eol lineEnding // of earlier lines
	// begun means that a byte of the current line was scanned.
	begun bool
	// quoted means that the scan is within quotes, and escaped that it is after an escape character within quotes. The
	// two fields are for CSV only.
	quoted, escaped bool
	first           int // the line's number at its begin
}

// lookAhead is the number of bytes that the scan may need after the current one, because the end-of-data marker is \.
// and a line end of up to two bytes.
const lookAhead = 3

// readLine returns the next line of the data, without its line end. ok is false if the line is incomplete or no line
// follows. After the last line, r.over is set.
func (r *Reader) readLine() (line []byte, ok bool, err *Error) {
	s := &r.scan
	s.pos = max(s.pos, r.at)
	if !s.begun && s.pos < len(r.buf) {
		r.line++
		s.first, s.begun = r.line, true
	}
	for {
		switch {
		case s.pos < len(r.buf):
		case r.ended:
			return r.takeLastLine(len(r.buf))
		default:
			return nil, false, nil
		}
		c := r.buf[s.pos]
		if r.needsMore(c) {
			return nil, false, nil
		}
		if r.o.Format == CSV {
			r.trackQuotes(c)
		}
		switch {
		case (c == '\r' || c == '\n') && !s.quoted:
			end := s.pos
			if err := r.consumeLineEnd(c); err != nil {
				return nil, false, err
			}
			return r.takeLineTo(end)
		case c == '\\' && (r.o.Format != CSV || s.pos == r.at):
			end, err := r.handleBackslash()
			if err != nil {
				return nil, false, err
			}
			if end >= 0 {
				return r.takeLastLine(end)
			}
		default:
			s.pos++
		}
	}
}

// needsMore reports whether the meaning of c depends on bytes that Feed has not added yet.
func (r *Reader) needsMore(c byte) bool {
	return (c == '\r' || c == '\\') && !r.ended && r.scan.pos+lookAhead >= len(r.buf)
}

// trackQuotes updates the scan's state for the quotes of a CSV line.
func (r *Reader) trackQuotes(c byte) {
	s := &r.scan
	apart := r.o.Escape != r.o.Quote // otherwise a quote within quotes toggles twice
	if s.quoted && apart && c == r.o.Escape {
		s.escaped = !s.escaped
	}
	if c == r.o.Quote && !s.escaped {
		s.quoted = !s.quoted
	}
	if !apart || c != r.o.Escape {
		s.escaped = false
	}
	if s.quoted && c == s.embeddedLineEnd() {
		r.line++
	}
}

// embeddedLineEnd returns the byte that counts as a line end within quotes.
func (s *lineScan) embeddedLineEnd() byte {
	if s.eol == lf {
		return '\n'
	}
	return '\r'
}

// consumeLineEnd consumes the end of a line, whose first byte is c. It returns an error if earlier lines have another
// kind of line end.
func (r *Reader) consumeLineEnd(c byte) *Error {
	s := &r.scan
	s.pos++
	if c == '\n' {
		if s.eol == cr || s.eol == crlf {
			return r.lineEndError("newline", `\n`)
		}
		s.eol = lf
		return nil
	}
	switch s.eol {
	case lf:
		return r.lineEndError("carriage return", `\r`)
	case cr:
		return nil
	}
	switch {
	case s.pos < len(r.buf) && r.buf[s.pos] == '\n':
		s.pos++
		s.eol = crlf
	case s.eol == crlf:
		return r.lineEndError("carriage return", `\r`)
	default:
		s.eol = cr
	}
	return nil
}

// lineEndError returns the error for a line end that is of another kind than the line ends before it.
func (r *Reader) lineEndError(what, written string) *Error {
	e := &Error{Code: malformed, Message: "literal " + what + " found in data", Hint: `Use "` + written + `" to represent ` + what + ".", DataPosition: DataPosition{Line: r.line}}
	if r.o.Format == CSV {
		e.Message, e.Hint = "unquoted "+what+" found in data", "Use quoted CSV field to represent "+what+"."
	}
	return e
}

// handleBackslash handles a backslash in the text format, or at the start of a CSV line. If the backslash begins the
// end-of-data marker, end is the end of the last line. Otherwise end is -1, and handleBackslash skips the backslash,
// in the text format with the next byte.
func (r *Reader) handleBackslash() (end int, err *Error) {
	s, csv := &r.scan, r.o.Format == CSV
	begin := s.pos
	at := func(i int) byte { // as in PostgreSQL, which has a NUL after the last byte
		if begin+i < len(r.buf) {
			return r.buf[begin+i]
		}
		return 0
	}
	if begin+1 >= len(r.buf) {
		s.pos = len(r.buf)
		return -1, nil
	}
	if at(1) != '.' {
		s.pos++
		if !csv {
			s.pos++
		}
		return -1, nil
	}
	corrupt := func(message string) (int, *Error) {
		if csv { // not a marker
			s.pos = begin + 1
			return -1, nil
		}
		return 0, &Error{Code: malformed, Message: message, DataPosition: DataPosition{Line: r.line}}
	}
	const mismatch = "end-of-copy marker does not match previous newline style"
	next := 2
	if s.eol == crlf {
		switch at(2) {
		case '\n':
			return corrupt(mismatch)
		case '\r':
			next++
		default:
			return corrupt("end-of-copy marker corrupt")
		}
	}
	c := at(next)
	switch {
	case c != '\r' && c != '\n':
		return corrupt("end-of-copy marker corrupt")
	case (s.eol == lf || s.eol == crlf) && c != '\n', s.eol == cr && c != '\r':
		return 0, &Error{Code: malformed, Message: mismatch, DataPosition: DataPosition{Line: r.line}}
	}
	return begin, nil
}

// takeLastLine returns the last line of the data, which ends at end. ok is false if there is no such line.
func (r *Reader) takeLastLine(end int) (line []byte, ok bool, err *Error) {
	r.over = true
	if end <= r.at {
		return nil, false, nil
	}
	return r.takeLineTo(end)
}

// takeLineTo consumes the bytes of a line up to end, and returns the line. takeLineTo returns an error for invalid
// UTF-8.
func (r *Reader) takeLineTo(end int) (line []byte, ok bool, err *Error) {
	s := &r.scan
	line = r.buf[r.at:end]
	r.at = max(s.pos, end)
	first := s.first
	s.begun, s.quoted, s.escaped = false, false, false
	if i := invalidTextOffset(line); i >= 0 {
		at := first + bytes.Count(line[:i], []byte{s.embeddedLineEnd()})
		return nil, false, &Error{Code: "22021", Message: invalidUTF8Message(line[i:]), DataPosition: DataPosition{Line: at}}
	}
	return line, true, nil
}

// invalidTextOffset returns the offset of the first byte that is not valid UTF-8 by PostgreSQL's rules, or -1.
func invalidTextOffset(b []byte) int {
	if utf8.Valid(b) {
		return bytes.IndexByte(b, 0)
	}
	for i := 0; ; {
		r, n := utf8.DecodeRune(b[i:])
		if b[i] == 0 || r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
}

// invalidUTF8Message returns PostgreSQL's message for the invalid UTF-8 at the start of b.
func invalidUTF8Message(b []byte) string {
	n := 1
	switch c := b[0]; {
	case c&0xe0 == 0xc0:
		n = 2
	case c&0xf0 == 0xe0:
		n = 3
	case c&0xf8 == 0xf0:
		n = 4
	}
	var shown []string
	for _, c := range b[:min(n, len(b))] {
		shown = append(shown, fmt.Sprintf("0x%02x", c))
	}
	return `invalid byte sequence for encoding "UTF8": ` + strings.Join(shown, " ")
}
