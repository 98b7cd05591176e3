package wire

import (
	"encoding/binary"
	"errors"
	"net"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
)

// ErrMalformed is a frame that cannot be: the connection has lost its framing.
var ErrMalformed = errors.New("malformed frame")

// Reader reads frames from a connection, for the one goroutine that owns it. It holds a
// buffer only while bytes are unread. Slices of the buffer that its methods return are
// valid until the next read.
type Reader struct {
	// Conn is what is read: the socket, or TLS over it.
	Conn net.Conn
	// Raw is the socket under Conn.
	Raw  rawconn.Conn
	buf  []byte // nil while nothing is unread
	r, w int
	one  [1]byte // first byte of an idle read through TLS
}

// NewReader returns a Reader of conn, whose socket is raw. A bare socket is read as raw.
func NewReader(conn net.Conn, raw rawconn.Conn) Reader {
	if _, ok := conn.(interface{ NetConn() net.Conn }); !ok {
		conn = raw // a bare socket
	}
	return Reader{Conn: conn, Raw: raw}
}

// Plain reports whether reads go straight to the socket.
func (s *Reader) Plain() bool { return s.Conn == net.Conn(s.Raw) }

// Buffered is the number of unread bytes.
func (s *Reader) Buffered() int { return s.w - s.r }

// Header returns the next frame's type and whole length, 0 when its header has
// not arrived. A length field below 4 is ErrMalformed.
func (s *Reader) Header() (typ byte, total int, err error) { return FrameAt(s.buf[s.r:s.w]) }

// FrameAt is Header for the frame that buf begins with.
func FrameAt(buf []byte) (typ byte, total int, err error) {
	if len(buf) < HeaderLen {
		return 0, 0, nil
	}
	n := binary.BigEndian.Uint32(buf[1:])
	if n < 4 || n > maxFrame {
		return buf[0], 0, ErrMalformed
	}
	return buf[0], int(n) + 1, nil
}

// Peek returns the first n unread bytes, of those that are buffered.
func (s *Reader) Peek(n int) []byte { return s.buf[s.r : s.r+n] }

// Advance takes n unread bytes, of those that are buffered, as read.
func (s *Reader) Advance(n int) { s.r += n }

// Pos is where the first unread byte stands in the buffer, until the next read.
func (s *Reader) Pos() int { return s.r }

// Since returns the bytes from a position up to the first unread one.
func (s *Reader) Since(pos int) []byte { return s.buf[pos:s.r] }

// Between returns the bytes from one position up to another.
func (s *Reader) Between(from, to int) []byte { return s.buf[from:to] }

// Detach takes the buffer away from a Reader of which nothing is unread. What Since
// returned before stays valid until the caller gives it to PutBuffer.
func (s *Reader) Detach() []byte {
	buf := s.buf
	s.buf, s.r, s.w = nil, 0, 0
	return buf
}

// Yield takes the buffer away from a Reader of which nothing is unread and frame was read last. With
// nil the buffer stays: frame is elsewhere, or more was read behind it.
func (s *Reader) Yield(frame []byte) []byte {
	n := len(frame)
	if s.r != s.w || n == 0 || s.r < n || &s.buf[s.r-n] != &frame[0] {
		return nil
	}
	return s.Detach()
}

// PutBack makes b, which must fit a buffer, the first bytes to be read.
func (s *Reader) PutBack(b []byte) {
	s.buf = GetBuffer()
	s.r, s.w = 0, copy(s.buf, b)
}

// Terminates looks for Terminate among the unread frames: it may be the first of
// them, or some other.
func (s *Reader) Terminates() (first, some bool) {
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

// Full reports whether the unread bytes reach the buffer's end.
func (s *Reader) Full() bool { return s.w == len(s.buf) }

// MayExtend makes sure of a buffer for Extend; false when there is no room behind what
// is unread.
func (s *Reader) MayExtend() bool {
	if s.buf == nil || s.r == len(s.buf) { // a full one is left to those who still look at its frame
		s.buf, s.r, s.w = GetBuffer(), 0, 0
	}
	return !s.Full()
}

// Extend reads once behind what is unread, which stays where it is.
func (s *Reader) Extend() (n int, err error) {
	n, err = s.Conn.Read(s.buf[s.w:])
	s.w += n
	return n, err
}

// MakeRoom moves what is unread to the buffer's beginning unless a frame of total bytes
// fits where it is; total is at most a buffer.
func (s *Reader) MakeRoom(total int) {
	if len(s.buf)-s.r < total {
		s.w = copy(s.buf, s.buf[s.r:s.w])
		s.r = 0
	}
}

// Fill reads once, after making room. The caller keeps no slice of the buffer.
func (s *Reader) Fill() error {
	switch {
	case s.buf == nil:
		s.buf, s.r, s.w = GetBuffer(), 0, 0
	case s.r == s.w:
		s.r, s.w = 0, 0
	case s.w == len(s.buf):
		if s.r == 0 {
			return ErrMalformed // a caller waits for more than it made room for
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

// Grow makes room for a frame of total bytes starting at the first unread one.
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

// Idle waits for the next bytes without holding a buffer meanwhile.
func (s *Reader) Idle() error {
	if s.Buffered() > 0 {
		return nil
	}
	s.Release()
	if s.Plain() {
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

// Release gives the buffer back when nothing is unread.
func (s *Reader) Release() {
	if s.buf != nil && s.r == s.w {
		PutBuffer(s.buf)
		s.buf, s.r, s.w = nil, 0, 0
	}
}

// Drop gives the buffer back, unread bytes included.
func (s *Reader) Drop() {
	s.r = s.w
	s.Release()
}
