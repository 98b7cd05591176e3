package rawconn

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// plainConn is a Conn that uses ordinary calls of net.Conn.
type plainConn struct {
	net.Conn
	socket syscall.RawConn // nil if conn is no socket, for example a net.Pipe

	// ahead is a byte that WaitReadable had to read, because conn is no socket.
	ahead [1]byte
	held  bool
}

// WrapPlain returns conn as a Conn that uses ordinary calls.
func WrapPlain(conn net.Conn) Conn {
	c := &plainConn{Conn: conn}
	if s, ok := conn.(syscall.Conn); ok && canPeek {
		if raw, err := s.SyscallConn(); err == nil {
			c.socket = raw
		}
	}
	return c
}

func (c *plainConn) Read(b []byte) (int, error) {
	if c.held && len(b) > 0 {
		b[0], c.held = c.ahead[0], false
		return 1, nil
	}
	return c.Conn.Read(b)
}

// ReadWith calls get (for a buffer) before it waits, because an ordinary Read waits and reads in one step.
func (c *plainConn) ReadWith(get func() []byte, put func([]byte)) ([]byte, int, error) {
	buf := get()
	n, err := c.Read(buf)
	if n == 0 {
		put(buf)
		return nil, 0, err
	}
	return buf, n, nil
}

func (c *plainConn) Peek() State {
	switch {
	case c.held:
		return Readable
	case c.socket == nil:
		return Quiet
	}
	state := Closed
	// An error of Control means a closed connection.
	_ = c.socket.Control(func(fd uintptr) { state, _ = peek(fd) })
	return state
}

func (c *plainConn) Broken() bool { return c.socket != nil && hasSocketError(c.socket) }

func (c *plainConn) Ended() bool {
	if c.socket == nil {
		return false
	}
	return hasPeerEnded(c.socket)
}

func (c *plainConn) Unacked() (owed bool, last time.Duration) {
	if c.socket == nil {
		return false, 0
	}
	return ackState(c.socket)
}

func (c *plainConn) WaitReadable() error {
	if c.held {
		return nil
	}
	if c.socket == nil {
		n, err := c.Conn.Read(c.ahead[:])
		c.held = n > 0
		if c.held {
			return nil
		}
		return err
	}
	var failed error
	err := c.socket.Read(func(fd uintptr) bool {
		var state State
		state, failed = peek(fd)
		return state != Quiet
	})
	if err == nil {
		err = failed
	}
	if err == nil {
		return nil
	}
	return opError(c.Conn, "read", err)
}

func (c *plainConn) CloseWrite() error { return closeWrite(c.Conn) }

func (c *plainConn) NetConn() net.Conn { return c.Conn }

func (c *plainConn) rawSocket() syscall.RawConn { return c.socket }

func closeWrite(conn net.Conn) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return fmt.Errorf("close write on %T: %w", conn, errors.ErrUnsupported)
}

// opError returns the error that package net would return for an operation on conn. The poller's own errors (deadline,
// closed) would otherwise have the name raw-read or raw-write.
func opError(conn net.Conn, op string, err error) error {
	if e, ok := err.(*net.OpError); ok {
		err = e.Err
	}
	local, remote := conn.LocalAddr(), conn.RemoteAddr()
	e := &net.OpError{Op: op, Source: local, Addr: remote, Err: err}
	if local != nil {
		e.Net = local.Network()
	}
	return e
}

// hasEndedByPeek reports whether the peer has ended the stream, for systems that report the end only when all bytes
// were read.
func hasEndedByPeek(socket syscall.RawConn) bool {
	state := Closed
	_ = socket.Control(func(fd uintptr) { state, _ = peek(fd) }) // an error means a closed connection
	return state == Closed
}
