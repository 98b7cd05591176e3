package wire

import "encoding/binary"

// Errors of a message whose body is not what its type has, by PostgreSQL's names. A session goes on behind them.
var (
	ErrFormat  = &Error{Code: "08P01", Message: "invalid message format"}
	ErrString  = &Error{Code: "08P01", Message: "invalid string in message"}
	ErrTooFew  = &Error{Code: "08P01", Message: "insufficient data left in message"}
	ErrNothing = &Error{Code: "08P01", Message: "no data left in message"}
)

// Message reads the body of a message part by part, as PostgreSQL does. Behind the first part that is not there
// it returns zero values, and Err is the error.
type Message struct {
	rest []byte
	// Err is the error of the first part that was not there; nil: all were.
	Err *Error
}

// NewMessage reads a body. What it returns is of the body's memory.
func NewMessage(body []byte) Message { return Message{rest: body} }

// Bytes are the next n bytes. A negative n is an error.
func (m *Message) Bytes(n int) []byte {
	if m.Err == nil && (n < 0 || n > len(m.rest)) {
		m.Err = ErrTooFew
	}
	if m.Err != nil {
		return nil
	}
	b := m.rest[:n]
	m.rest = m.rest[n:]
	return b
}

// Byte is the next byte.
func (m *Message) Byte() byte {
	if m.Err == nil && len(m.rest) == 0 {
		m.Err = ErrNothing
	}
	if b := m.Bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// Uint16 is the next number of two bytes.
func (m *Message) Uint16() int {
	if b := m.Bytes(2); b != nil {
		return int(binary.BigEndian.Uint16(b))
	}
	return 0
}

// Int32 is the next number of four bytes.
func (m *Message) Int32() int {
	if b := m.Bytes(4); b != nil {
		return int(int32(binary.BigEndian.Uint32(b)))
	}
	return 0
}

// String is the next text, which ends with NUL.
func (m *Message) String() []byte {
	if m.Err != nil {
		return nil
	}
	s, rest, ok := CString(m.rest)
	if !ok {
		m.Err = ErrString
		return nil
	}
	m.rest = rest
	return s
}

// Rest is what was not read.
func (m *Message) Rest() []byte { return m.rest }

// End is the error of the message: Err, or that of a body that goes on. nil: it is as it should be.
func (m *Message) End() error {
	if m.Err == nil && len(m.rest) > 0 {
		m.Err = ErrFormat
	}
	return m.Failed()
}

// Failed is Err, as an error; nil where it is nil.
func (m *Message) Failed() error {
	if m.Err != nil {
		return m.Err
	}
	return nil
}
