package rawconn

import (
	"net"
	"time"
)

// Conn is a net.Conn with further methods for a session. Only one goroutine at a time may read it,
// and only one may write it. Reading and writing may overlap. Close and the deadlines are safe for
// concurrent use. ReadWith, WaitReadable and Peek count as reading.
type Conn interface {
	net.Conn

	// ReadWith reads once into a buffer from get, which it calls when the socket may have bytes. So
	// a waiting Conn holds no buffer. The caller owns buf, whose first n bytes were read. After an
	// error, or without bytes, it passes the buffer to put, and buf is nil. get never returns an
	// empty buffer, and neither function may block.
	ReadWith(get func() []byte, put func([]byte)) (buf []byte, n int, err error)

	// Peek returns what a Read would find, without waiting or reading.
	Peek() State

	// Broken reports whether the connection has failed: its peer reset it, or is unreachable. The
	// end of the peer's stream is not a failure. It reports a failure once, is not a read, and is
	// safe for concurrent use.
	Broken() bool

	// Ended reports whether the peer has ended its half of the stream, or all of it, with unread
	// bytes or without. It is safe for concurrent use. On some systems it returns false while there
	// are unread bytes.
	Ended() bool

	// Unacked reports whether the peer's host owes an acknowledgement of bytes or of a window
	// probe, and the time since its last one. A host that answers owes nothing, whatever its
	// program does. It is safe for concurrent use. On some systems nothing is ever owed.
	Unacked() (owed bool, last time.Duration)

	// WaitReadable returns nil once a Read would not wait: there are bytes, or the end of the
	// peer's stream. It reads nothing and respects the read deadline.
	WaitReadable() error

	// CloseWrite ends the outgoing half of the stream, if there is one.
	CloseWrite() error

	// NetConn returns the underlying connection.
	NetConn() net.Conn
}

// State is the result of Peek.
type State uint8

const (
	// Quiet is an open connection without unread bytes.
	Quiet State = iota
	// Readable has unread bytes, whatever follows them.
	Readable
	// Closed has no more bytes: the peer closed it or its outgoing half, it was reset, or it was
	// closed on this side.
	Closed
)

func (s State) String() string {
	return [...]string{"quiet", "readable", "closed"}[s]
}

// Wrap returns conn with the raw layer if possible, otherwise with the plain one. The Conn owns
// conn: nothing else may read or write it.
func Wrap(conn net.Conn) Conn {
	if c, ok := conn.(Conn); ok {
		return c
	}
	if c := newRaw(conn); c != nil {
		return c
	}
	return Plain(conn)
}
