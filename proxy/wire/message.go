package wire

import "encoding/binary"

// These are errors of a malformed message body, with PostgreSQL's texts. The session continues after them.
var (
	ErrFormat = &Error{Code: "08P01", Message: "invalid message format"}
	ErrString = &Error{Code: "08P01", Message: "invalid string in message"}
	errTooFew = &Error{Code: "08P01", Message: "insufficient data left in message"}
	errNoData = &Error{Code: "08P01", Message: "no data left in message"}
)

// BodyReader reads the body of a message part by part, as PostgreSQL does. After the first missing part BodyReader
// returns zero values, and sets Err.
type BodyReader struct {
	rest []byte
	// Err is the error of the first missing part of the message's body, or nil.
	Err *Error
}

// NewBodyReader returns a BodyReader that reads body. Its results share the body's memory.
func NewBodyReader(body []byte) BodyReader { return BodyReader{rest: body} }

// Bytes returns the next n bytes of the body. A negative n is an error.
func (m *BodyReader) Bytes(n int) []byte {
	if m.Err == nil && (n < 0 || n > len(m.rest)) {
		m.Err = errTooFew
	}
	if m.Err != nil {
		return nil
	}
	b := m.rest[:n]
	m.rest = m.rest[n:]
	return b
}

// Byte returns the next byte of the body.
func (m *BodyReader) Byte() byte {
	if m.Err == nil && len(m.rest) == 0 {
		m.Err = errNoData
	}
	if b := m.Bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// Uint16 returns the next number of two bytes in the body.
func (m *BodyReader) Uint16() int {
	if b := m.Bytes(2); b != nil {
		return int(binary.BigEndian.Uint16(b))
	}
	return 0
}

// Int32 returns the next number of four bytes in the body.
func (m *BodyReader) Int32() int {
	if b := m.Bytes(4); b != nil {
		return int(int32(binary.BigEndian.Uint32(b)))
	}
	return 0
}

// String returns the next text in the body, which ends with NUL.
func (m *BodyReader) String() []byte {
	if m.Err != nil {
		return nil
	}
	s, rest, ok := CutCString(m.rest)
	if !ok {
		m.Err = ErrString
		return nil
	}
	m.rest = rest
	return s
}

// Rest returns the bytes of the body that were not read.
func (m *BodyReader) Rest() []byte { return m.rest }

// CheckEnd returns the error of the message body: Err, or an error if unread bytes remain, or nil.
func (m *BodyReader) CheckEnd() error {
	if m.Err == nil && len(m.rest) > 0 {
		m.Err = ErrFormat
	}
	return m.AsError()
}

// AsError returns BodyReader.Err as an error, or nil.
func (m *BodyReader) AsError() error {
	if m.Err != nil {
		return m.Err
	}
	return nil
}
