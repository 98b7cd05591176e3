package rawconn

import (
	"net"
	"time"
)

// Conn is a net.Conn with what a session needs beside it. Unlike any net.Conn,
// it may be read by one goroutine at a time only, and written by one at a time;
// reading and writing may overlap, and so may Close and the deadlines, which
// anybody may call. ReadWith, WaitReadable and Peek count as reading.
type Conn interface {
	net.Conn

	// ReadWith reads once into a buffer of get's, which is called when the
	// socket may have bytes: a Conn that waits holds no buffer. The caller owns
	// buf, whose first n bytes were read. With an error, or when the socket had
	// nothing after all, the buffer went back through put; buf is then nil.
	// The buffers of get are not empty, and neither function may block.
	ReadWith(get func() []byte, put func([]byte)) (buf []byte, n int, err error)

	// Peek tells what a Read would meet, without waiting and without reading.
	Peek() State

	// Broken reports whether the connection has failed: its peer reset it, or is
	// out of reach. The end of the peer's stream is no failure. It says so once;
	// it is no read, and anybody may call it.
	Broken() bool

	// Ended reports whether the peer has ended its half of the stream, or all of it, be
	// there unread bytes or not. Anybody may call it; where the system does not tell, it
	// says no while there are unread bytes.
	Ended() bool

	// Unacked reports whether the peer's host owes an acknowledgement, of bytes or of a
	// question whether it takes more, and how long ago it has last sent any. A host that
	// answers owes nothing, whatever its program does. Anybody may call it; where the
	// system does not tell, nothing is owed.
	Unacked() (owed bool, last time.Duration)

	// WaitReadable returns nil once a Read would not wait: bytes have come, or
	// the peer's end of stream. It reads nothing and honours the read deadline.
	WaitReadable() error

	// CloseWrite ends the outgoing half of the stream, where there is one.
	CloseWrite() error

	// NetConn is the connection underneath.
	NetConn() net.Conn
}

// State is what Peek found.
type State uint8

const (
	// Quiet is an open connection without unread bytes.
	Quiet State = iota
	// Readable has unread bytes, whatever may come after them.
	Readable
	// Closed will bring no more bytes: the peer closed it or its outgoing half,
	// it was reset, or it was closed on this side.
	Closed
)

func (s State) String() string {
	return [...]string{"quiet", "readable", "closed"}[s]
}

// Wrap gives conn the raw layer where there is one, and the plain one elsewhere.
// The Conn owns conn: nobody else reads or writes it from now on.
func Wrap(conn net.Conn) Conn {
	if c, ok := conn.(Conn); ok {
		return c
	}
	if c := newRaw(conn); c != nil {
		return c
	}
	return Plain(conn)
}
