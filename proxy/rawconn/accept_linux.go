//go:build linux && (amd64 || arm64)

package rawconn

import (
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// This file accepts connections by raw calls, which do not notify the scheduler. Package net accepts a connection, sets
// its options and closes it by calls that do. In an idle process each of these calls wakes the scheduler's monitor
// thread, which took a sixth of the CPU of a short connection. Connections are closed in two steps (closer_linux.go).

// Listener is a TCP listener whose connections get their options from the kernel. One goroutine at a time may call
// Accept. The other methods are safe for concurrent use.
type Listener struct{ *listener }

type listener struct {
	file   *os.File
	socket syscall.RawConn
	addr   net.Addr
	closer deferredCloser

	// The following fields belong to Accept: a callback that newListener makes, and the callback's results.
	onAccept func(fd uintptr) bool
	fd       int
	errno    syscall.Errno
	from     syscall.RawSockaddrInet6 // of the peer; with IPv4 it holds the shorter address
}

// newListener returns a Listener for the socket of ln, and closes ln.
func newListener(ln *net.TCPListener) (Listener, error) {
	file, err := ln.File()
	err = errors.Join(err, ln.Close())
	if err != nil {
		return Listener{}, err
	}
	l := &listener{file: file, addr: ln.Addr()}
	l.onAccept = l.tryAccept
	if l.socket, err = file.SyscallConn(); err != nil {
		return Listener{}, errors.Join(err, file.Close())
	}
	l.closer.open()
	return Listener{l}, nil
}

// Accept waits for a connection and returns it.
func (l *listener) Accept() (net.Conn, error) {
	for {
		switch err := l.socket.Read(l.onAccept); {
		case err != nil:
			return nil, l.acceptError(toNetError(err))
		case l.errno == 0:
			return newAccepted(l)
		case (l.errno == syscall.EMFILE || l.errno == syscall.ENFILE) && l.closer.closeCollected():
			// closeCollected has freed file descriptors, so the accept is tried again.
		default:
			return nil, l.acceptError(os.NewSyscallError("accept4", l.errno))
		}
	}
}

func (l *listener) acceptError(err error) error {
	return &net.OpError{Op: "accept", Net: l.addr.Network(), Addr: l.addr, Err: err}
}

// tryAccept accepts a connection, if there is one. The runtime's poller calls tryAccept again until it returns true.
func (l *listener) tryAccept(fd uintptr) bool {
	for {
		size := uint32(unsafe.Sizeof(l.from))
		n, _, errno := syscall.RawSyscall6(syscall.SYS_ACCEPT4, fd, uintptr(unsafe.Pointer(&l.from)),
			uintptr(unsafe.Pointer(&size)), syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0, 0)
		switch errno {
		case syscall.EINTR, syscall.ECONNABORTED: // the connection ended before the accept
		default:
			l.fd, l.errno = int(n), errno
			return errno != syscall.EAGAIN
		}
	}
}

// Addr returns the address of the listener.
func (l *listener) Addr() net.Addr { return l.addr }

// Close stops listening. Accepted connections stay open.
func (l *listener) Close() error {
	l.closer.close()
	if err := l.file.Close(); err != nil {
		return &net.OpError{Op: "close", Net: l.addr.Network(), Addr: l.addr, Err: toNetError(err)}
	}
	return nil
}

// acceptedConn is a connection that a Listener has accepted.
type acceptedConn struct {
	file     *os.File
	socket   syscall.RawConn
	listener *listener
	remote   net.TCPAddr
	ip       [16]byte // memory of remote.IP
	closed   atomic.Bool
}

// errUnwatched is the error for a connection that the runtime's poller refuses, so that its reads and deadlines would
// fail.
var errUnwatched = errors.New("the kernel takes no more connections to watch: raise fs.epoll.max_user_watches")

// newAccepted returns the connection that tryAccept has accepted last.
func newAccepted(l *listener) (net.Conn, error) {
	c := &acceptedConn{file: os.NewFile(uintptr(l.fd), "tcp"), listener: l}
	c.socket, _ = c.file.SyscallConn() // fails for a nil File only
	if c.file.SetDeadline(time.Time{}) != nil {
		_ = c.file.Close() // nothing was written; the first error is returned
		return nil, l.acceptError(errUnwatched)
	}
	switch l.from.Family {
	case syscall.AF_INET:
		from := (*syscall.RawSockaddrInet4)(unsafe.Pointer(&l.from))
		c.remote.IP = append(c.ip[:0:4], from.Addr[:]...)
		c.remote.Port = decodePort(&from.Port)
	case syscall.AF_INET6:
		c.remote.IP = append(c.ip[:0], l.from.Addr[:]...)
		c.remote.Port = decodePort(&l.from.Port)
		c.remote.Zone = zoneName(int(l.from.Scope_id))
	}
	return c, nil
}

// decodePort decodes a port in network byte order.
func decodePort(port *uint16) int {
	return int(binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(port))[:]))
}

// zoneName returns the zone of a link-local IPv6 address: the interface with the index, or "" for 0.
func zoneName(index int) string {
	if index == 0 {
		return ""
	}
	if i, err := net.InterfaceByIndex(index); err == nil {
		return i.Name
	}
	return strconv.Itoa(index)
}

// LocalAddr returns the listener's address.
func (c *acceptedConn) LocalAddr() net.Addr { return c.listener.addr }

func (c *acceptedConn) RemoteAddr() net.Addr { return &c.remote }

func (c *acceptedConn) Read(b []byte) (int, error) {
	n, err := c.file.Read(b)
	if err == nil {
		return n, nil
	}
	if err = c.convertError(err); err == io.EOF {
		return 0, io.EOF
	}
	return 0, opError(c, "read", err)
}

func (c *acceptedConn) Write(b []byte) (int, error) {
	n, err := c.file.Write(b)
	if err == nil {
		return n, nil
	}
	return n, opError(c, "write", c.convertError(err))
}

func (c *acceptedConn) SetDeadline(t time.Time) error {
	return c.wrapDeadlineError(c.file.SetDeadline(t))
}
func (c *acceptedConn) SetReadDeadline(t time.Time) error {
	return c.wrapDeadlineError(c.file.SetReadDeadline(t))
}
func (c *acceptedConn) SetWriteDeadline(t time.Time) error {
	return c.wrapDeadlineError(c.file.SetWriteDeadline(t))
}

func (c *acceptedConn) wrapDeadlineError(err error) error {
	if err = c.convertError(err); err != nil {
		return opError(c, "set", err)
	}
	return nil
}

// Close ends the connection for its peer and for local goroutines that wait for it. The descriptor is closed later,
// within closeEvery.
func (c *acceptedConn) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return opError(c, "close", net.ErrClosed)
	}
	if err := c.listener.closer.endConn(c); err != nil {
		return opError(c, "close", err)
	}
	return nil
}

// CloseWrite ends the outgoing half of the connection.
func (c *acceptedConn) CloseWrite() error {
	var failed error
	err := acceptedSocket{c}.Control(func(fd uintptr) { failed = os.NewSyscallError("shutdown", syscall.Shutdown(int(fd), syscall.SHUT_WR)) })
	if err = cmp.Or(err, failed); err != nil {
		return opError(c, "close", err)
	}
	return nil
}

// SyscallConn returns the connection's socket. SyscallConn does not allocate.
func (c *acceptedConn) SyscallConn() (syscall.RawConn, error) { return acceptedSocket{c}, nil }

// acceptedSocket is an accepted connection as a syscall.RawConn. After Close, its methods do not call their function,
// because Close redirects the descriptor to another socket.
type acceptedSocket struct{ *acceptedConn }

func (s acceptedSocket) Control(f func(fd uintptr)) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	return s.convertError(s.socket.Control(f))
}

func (s acceptedSocket) Read(f func(fd uintptr) bool) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	return s.convertError(s.socket.Read(f))
}

func (s acceptedSocket) Write(f func(fd uintptr) bool) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	return s.convertError(s.socket.Write(f))
}

// convertError converts an error to package net's form. For a closed connection, convertError always returns
// net.ErrClosed, because Close redirects the descriptor to another socket.
func (c *acceptedConn) convertError(err error) error {
	if c.closed.Load() {
		return net.ErrClosed
	}
	return toNetError(err)
}

// toNetError converts an error of package os, or of the runtime's poller, to package net's form. The poller has two
// errors: one for a deadline, and one that is not exported for a closed descriptor.
func toNetError(err error) error {
	if file, ok := err.(*os.PathError); ok {
		err = file.Err
	}
	switch err.(type) {
	case nil, syscall.Errno, *os.SyscallError:
		return err
	}
	if err == io.EOF || errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return net.ErrClosed
}
