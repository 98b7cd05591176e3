package proxy

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
)

// bufSize is the size of a pooled buffer: two TLS records. PgBouncer's 4 KiB
// cost it 1.6 times the CPU on bulk results; below 16 KiB Go loses too.
const bufSize = 32 << 10

var bufPool = sync.Pool{New: func() any { return new([bufSize]byte) }}

func getBuf() []byte { return bufPool.Get().(*[bufSize]byte)[:] }

// putBuf returns a pooled buffer; one of another size is left to the collector.
func putBuf(b []byte) {
	if cap(b) == bufSize {
		bufPool.Put((*[bufSize]byte)(b[:bufSize]))
	}
}

// errProtocol is a frame that cannot be: the connection has lost its framing.
var errProtocol = errors.New("malformed frame")

// source reads frames from a connection. It holds a buffer only while bytes
// are unread.
type source struct {
	conn net.Conn
	raw  rawconn.Conn // the socket under conn
	buf  []byte       // nil while nothing is unread
	r, w int
	one  [1]byte // first byte of an idle read through TLS
	// failed: a look found the connection broken.
	failed bool
}

func newSource(conn net.Conn, raw rawconn.Conn) source {
	if _, ok := conn.(interface{ NetConn() net.Conn }); !ok {
		conn = raw // a bare socket
	}
	return source{conn: conn, raw: raw}
}

// plain reports whether reads go straight to the socket.
func (s *source) plain() bool { return s.conn == net.Conn(s.raw) }

// buffered is the number of unread bytes.
func (s *source) buffered() int { return s.w - s.r }

// header returns the next frame's type and whole length, 0 when its header has
// not arrived. A length field below 4 is errProtocol.
func (s *source) header() (typ byte, total int, err error) {
	if s.w-s.r < headerLen {
		return 0, 0, nil
	}
	n := binary.BigEndian.Uint32(s.buf[s.r+1:])
	if n < 4 || n > maxFrame {
		return s.buf[s.r], 0, errProtocol
	}
	return s.buf[s.r], int(n) + 1, nil
}

// fill reads once, after making room. The caller keeps no slice of the buffer.
func (s *source) fill() error {
	switch {
	case s.buf == nil:
		s.buf, s.r, s.w = getBuf(), 0, 0
	case s.r == s.w:
		s.r, s.w = 0, 0
	case s.w == len(s.buf):
		if s.r == 0 {
			return errProtocol // a caller waits for more than it made room for
		}
		s.w = copy(s.buf, s.buf[s.r:s.w])
		s.r = 0
	}
	n, err := s.conn.Read(s.buf[s.w:])
	s.w += n
	if n > 0 {
		return nil
	}
	return err
}

// grow makes room for a frame of total bytes starting at the first unread one.
func (s *source) grow(total int) {
	if total <= len(s.buf)-s.r {
		return
	}
	if total <= len(s.buf) {
		s.w = copy(s.buf, s.buf[s.r:s.w])
		s.r = 0
		return
	}
	big := make([]byte, total)
	s.w = copy(big, s.buf[s.r:s.w])
	s.r = 0
	putBuf(s.buf)
	s.buf = big
}

// idle waits for the next bytes without holding a buffer meanwhile.
func (s *source) idle() error {
	if s.buffered() > 0 {
		return nil
	}
	s.release()
	if s.plain() {
		buf, n, err := s.raw.ReadWith(getBuf, putBuf)
		if n > 0 {
			s.buf, s.r, s.w = buf, 0, n
			return nil
		}
		return err
	}
	n, err := s.conn.Read(s.one[:])
	if n == 0 {
		return err
	}
	s.buf = getBuf()
	s.buf[0] = s.one[0]
	s.r, s.w = 0, 1
	return nil
}

// release gives the buffer back when nothing is unread.
func (s *source) release() {
	if s.buf != nil && s.r == s.w {
		putBuf(s.buf)
		s.buf, s.r, s.w = nil, 0, 0
	}
}

// drop gives the buffer back, unread bytes included.
func (s *source) drop() {
	s.r = s.w
	s.release()
}

// sink gathers bytes for one write.
type sink struct {
	buf []byte // nil while empty
	n   int
}

// room returns how many bytes fit before the next flush.
func (k *sink) room() int {
	if k.buf == nil {
		return bufSize
	}
	return len(k.buf) - k.n
}

// add copies b, which must fit.
func (k *sink) add(b []byte) {
	if k.buf == nil {
		k.buf = getBuf()
	}
	k.n += copy(k.buf[k.n:], b)
}

// reset forgets the content and gives the buffer back.
func (k *sink) reset() {
	if k.buf != nil {
		putBuf(k.buf)
		k.buf, k.n = nil, 0
	}
}
