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

	// ReadWith reads once into a buffer from get. ReadWith calls get only when the socket may have bytes, so a waiting
	// Conn holds no buffer. The caller owns buf, whose first n bytes were read. After an error, or without bytes, ReadWith
	// passes the buffer to put, and buf is nil. get never returns an empty buffer. Neither function may block.
	ReadWith(get func() []byte, put func([]byte)) (buf []byte, n int, err error)

	// Peek returns the State that a Read would find, without waiting or reading.
	Peek() State

	// Broken reports whether the connection has failed: its peer reset it, or is unreachable. The end of the peer's stream
	// is not a failure. Broken reports a failure once. Broken does not count as reading, and is safe for concurrent use.
	Broken() bool

	// Ended reports whether the peer has ended its half of the stream, or all of it. Unread bytes do not matter, but on
	// some systems Ended returns false while there are any. Ended is safe for concurrent use.
	Ended() bool

	// Unacked reports whether the peer's host owes an acknowledgement of bytes or of a window probe, and the time since
	// its last acknowledgement. A host that answers owes nothing, whatever its program does. Unacked is safe for
	// concurrent use. On some systems owed is always false.
	Unacked() (owed bool, last time.Duration)

	// WaitReadable returns nil when a Read would not wait, because there are bytes or the peer's stream has ended.
	// WaitReadable reads nothing and respects the read deadline.
	WaitReadable() error

	// CloseWrite ends the outgoing half of the stream, if the connection has halves.
	CloseWrite() error

	// NetConn returns the connection that the Conn wraps.
	NetConn() net.Conn
}

// State is the result of Conn.Peek.
type State uint8

const (
	// Quiet is the State of an open connection without unread bytes.
	Quiet State = iota
	// Readable is the State of a connection with unread bytes, whatever follows the bytes.
	Readable
	// Closed is the State of a connection without further bytes. The peer closed it or its outgoing half, it was reset, or
	// it was closed on this side.
	Closed
)

func (s State) String() string {
	return [...]string{"quiet", "readable", "closed"}[s]
}

// Wrap returns conn as a Conn that uses raw calls if possible, otherwise ordinary calls. The Conn owns conn: nothing
// else may read or write conn.
func Wrap(conn net.Conn) Conn {
	if c, ok := conn.(Conn); ok {
		return c
	}
	if c := newRaw(conn); c != nil {
		return c
	}
	return WrapPlain(conn)
}
