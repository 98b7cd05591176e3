package wire

import (
	"encoding/binary"
	"errors"
	"net"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
)

// ErrMalformed is the error for a frame that cannot exist, after which the boundaries of further frames are unknown.
var ErrMalformed = errors.New("malformed frame")

// Reader reads frames from a connection, for the goroutine that owns the Reader. The Reader holds a buffer only while
// bytes are unread. Slices of the buffer that methods return are valid until the next read.
type Reader struct {
	// Conn is the connection from which frames are read: the socket, or TLS over the socket.
	Conn net.Conn
	// Raw is the socket on which Conn is based, or which Conn is.
	Raw  rawconn.Conn
	buf  []byte // nil without unread bytes
	r, w int
	one  [1]byte // first byte of an idle read through TLS
}

// NewReader returns a Reader of conn, whose socket is raw. If conn has no TLS, the Reader reads from raw.
func NewReader(conn net.Conn, raw rawconn.Conn) Reader {
	if _, ok := conn.(interface{ NetConn() net.Conn }); !ok {
		conn = raw // a bare socket
	}
	return Reader{Conn: conn, Raw: raw}
}

// IsPlain reports whether the Reader reads the socket directly, without TLS.
func (s *Reader) IsPlain() bool { return s.Conn == net.Conn(s.Raw) }

// Buffered returns the number of bytes that were read from the connection and not consumed.
func (s *Reader) Buffered() int { return s.w - s.r }

// NextHeader returns the next frame's type and total length. The length is 0 if the header is incomplete. A length
// field below 4 is ErrMalformed.
func (s *Reader) NextHeader() (typ byte, total int, err error) { return ParseHeader(s.buf[s.r:s.w]) }

// ParseHeader returns the type and total length of the frame at the start of buf, like NextHeader.
func ParseHeader(buf []byte) (typ byte, total int, err error) {
	if len(buf) < HeaderLen {
		return 0, 0, nil
	}
	n := binary.BigEndian.Uint32(buf[1:])
	if n < 4 || n > maxFrame {
		return buf[0], 0, ErrMalformed
	}
	return buf[0], int(n) + 1, nil
}

// Peek returns the next n bytes without consuming them. The n bytes must be buffered.
func (s *Reader) Peek(n int) []byte { return s.buf[s.r : s.r+n] }

// Advance consumes n bytes, which must be buffered.
func (s *Reader) Advance(n int) { s.r += n }

// Pos returns the buffer's position of the first unread byte. The position is valid until the next read.
func (s *Reader) Pos() int { return s.r }

// BytesSince returns the bytes from a position in the buffer to the first unread byte.
func (s *Reader) BytesSince(pos int) []byte { return s.buf[pos:s.r] }

// BytesBetween returns the bytes between two positions in the buffer.
func (s *Reader) BytesBetween(from, to int) []byte { return s.buf[from:to] }

// Detach removes the buffer from a Reader without unread bytes, and returns it. Earlier results of BytesSince stay
// valid until the caller passes the buffer to PutBuffer.
func (s *Reader) Detach() []byte {
	buf := s.buf
	s.buf, s.r, s.w = nil, 0, 0
	return buf
}

// DetachFrame removes the buffer from a Reader without unread bytes, and returns it. frame is the last frame that was
// read. If frame is elsewhere, or more was read after it, DetachFrame changes nothing and returns nil.
func (s *Reader) DetachFrame(frame []byte) []byte {
	n := len(frame)
	if s.r != s.w || n == 0 || s.r < n || &s.buf[s.r-n] != &frame[0] {
		return nil
	}
	return s.Detach()
}

// PutBack makes b the next unread bytes. b must fit a buffer.
func (s *Reader) PutBack(b []byte) {
	s.buf = GetBuffer()
	s.r, s.w = 0, copy(s.buf, b)
}

// HasTerminate reports whether the first unread frame is a Terminate, and whether any unread frame is.
func (s *Reader) HasTerminate() (first, some bool) {
	for at := s.r; s.w-at >= HeaderLen; {
		n := binary.BigEndian.Uint32(s.buf[at+1:])
		if s.buf[at] == Terminate && n == 4 {
			return at == s.r, true
		}
		if n < 4 || n > maxFrame {
			break
		}
		at += 1 + int(n)
	}
	return false, false
}

// IsFull reports whether the unread bytes reach the end of the buffer.
func (s *Reader) IsFull() bool { return s.w == len(s.buf) }

// EnsureRoom ensures that the Reader has a buffer, for ReadMore. EnsureRoom returns false if there is no room after the
// unread bytes.
func (s *Reader) EnsureRoom() bool {
	if s.buf == nil || s.r == len(s.buf) { // a full one may still be in use for its frame
		s.buf, s.r, s.w = GetBuffer(), 0, 0
	}
	return !s.IsFull()
}

// ReadMore reads once, and adds the bytes after the unread bytes, which do not move.
func (s *Reader) ReadMore() (n int, err error) {
	n, err = s.Conn.Read(s.buf[s.w:])
	s.w += n
	return n, err
}

// MakeRoom moves the unread bytes to the start of the buffer, unless a frame of total bytes fits where they are. total
// must not exceed a buffer.
func (s *Reader) MakeRoom(total int) {
	if len(s.buf)-s.r < total {
		s.w = copy(s.buf, s.buf[s.r:s.w])
		s.r = 0
	}
}

// Fill reads once, and moves the unread bytes if necessary. Slices of the buffer that were returned earlier become
// invalid.
func (s *Reader) Fill() error {
	switch {
	case s.buf == nil:
		s.buf, s.r, s.w = GetBuffer(), 0, 0
	case s.r == s.w:
		s.r, s.w = 0, 0
	case s.w == len(s.buf):
		if s.r == 0 {
			return ErrMalformed // the caller waits for more than it made room for
		}
		s.w = copy(s.buf, s.buf[s.r:s.w])
		s.r = 0
	}
	n, err := s.Conn.Read(s.buf[s.w:])
	s.w += n
	if n > 0 {
		return nil
	}
	return err
}

// Grow makes room for a frame of total bytes that starts at the first unread byte.
func (s *Reader) Grow(total int) {
	if total <= len(s.buf)-s.r {
		return
	}
	if total <= len(s.buf) {
		s.w = copy(s.buf, s.buf[s.r:s.w])
		s.r = 0
		return
	}
	big := getLarge(total)
	s.w = copy(big, s.buf[s.r:s.w])
	s.r = 0
	PutBuffer(s.buf)
	s.buf = big
}

// WaitIdle waits until there are unread bytes. Meanwhile the Reader holds no buffer.
func (s *Reader) WaitIdle() error {
	if s.Buffered() > 0 {
		return nil
	}
	s.ReleaseBuffer()
	if s.IsPlain() {
		buf, n, err := s.Raw.ReadWith(GetBuffer, PutBuffer)
		if n > 0 {
			s.buf, s.r, s.w = buf, 0, n
			return nil
		}
		return err
	}
	n, err := s.Conn.Read(s.one[:])
	if n == 0 {
		return err
	}
	s.buf = GetBuffer()
	s.buf[0] = s.one[0]
	s.r, s.w = 0, 1
	return nil
}

// ReleaseBuffer returns the buffer to its pool if no bytes are unread.
func (s *Reader) ReleaseBuffer() {
	if s.buf != nil && s.r == s.w {
		PutBuffer(s.buf)
		s.buf, s.r, s.w = nil, 0, 0
	}
}

// DropBuffer returns the buffer to its pool, and drops unread bytes.
func (s *Reader) DropBuffer() {
	s.r = s.w
	s.ReleaseBuffer()
}
