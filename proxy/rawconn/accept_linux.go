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

// The net package accepts a connection, sets options on it and closes it by calls that tell the
// scheduler. Where the process has had nothing to do for a moment, each of them wakes the thread that
// watches over the scheduler, which took a sixth of the CPU of a short connection. Hence connections
// are accepted by raw calls, and closed in two steps (closer_linux.go).

// Listener is a TCP listener whose connections have their options from the kernel. Accept is for one
// goroutine at a time; anybody may call the rest.
type Listener struct{ *listener }

type listener struct {
	file   *os.File
	socket syscall.RawConn
	addr   net.Addr
	closer closer

	// The rest is Accept's: a callback, which is made once, and what it leaves.
	onAccept func(fd uintptr) bool
	fd       int
	errno    syscall.Errno
	from     syscall.RawSockaddrInet6 // or the shorter one of IPv4
}

// newListener takes the socket of a listener, which is closed.
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

// Accept waits for a connection.
func (l *listener) Accept() (net.Conn, error) {
	for {
		switch err := l.socket.Read(l.onAccept); {
		case err != nil:
			return nil, l.failed(closedOr(err))
		case l.errno == 0:
			return newAccepted(l)
		case (l.errno == syscall.EMFILE || l.errno == syscall.ENFILE) && l.closer.flush():
			// Descriptors have come back.
		default:
			return nil, l.failed(os.NewSyscallError("accept4", l.errno))
		}
	}
}

func (l *listener) failed(err error) error {
	return &net.OpError{Op: "accept", Net: l.addr.Network(), Addr: l.addr, Err: err}
}

// tryAccept runs inside the poller, which calls it again until it returns true.
func (l *listener) tryAccept(fd uintptr) bool {
	for {
		size := uint32(unsafe.Sizeof(l.from))
		n, _, errno := syscall.RawSyscall6(syscall.SYS_ACCEPT4, fd, uintptr(unsafe.Pointer(&l.from)),
			uintptr(unsafe.Pointer(&size)), syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0, 0)
		switch errno {
		case syscall.EINTR, syscall.ECONNABORTED: // gone before its turn
		default:
			l.fd, l.errno = int(n), errno
			return errno != syscall.EAGAIN
		}
	}
}

// Addr is the address that it listens on.
func (l *listener) Addr() net.Addr { return l.addr }

// Close ends the listening. Connections that were accepted go on.
func (l *listener) Close() error {
	l.closer.close()
	if err := l.file.Close(); err != nil {
		return &net.OpError{Op: "close", Net: l.addr.Network(), Addr: l.addr, Err: closedOr(err)}
	}
	return nil
}

// accepted is a connection of a Listener.
type accepted struct {
	file     *os.File
	socket   syscall.RawConn
	listener *listener
	remote   net.TCPAddr
	ip       [16]byte // that of remote
	closed   atomic.Bool
}

// errUnwatched is of a connection that the poller has not taken, for which reads and deadlines would fail.
var errUnwatched = errors.New("the kernel takes no more connections to watch: raise fs.epoll.max_user_watches")

// newAccepted is of what tryAccept has left.
func newAccepted(l *listener) (net.Conn, error) {
	c := &accepted{file: os.NewFile(uintptr(l.fd), "tcp"), listener: l}
	c.socket, _ = c.file.SyscallConn() // an error is that of a nil File
	if c.file.SetDeadline(time.Time{}) != nil {
		_ = c.file.Close() // nothing was written, and the first error counts
		return nil, l.failed(errUnwatched)
	}
	switch l.from.Family {
	case syscall.AF_INET:
		from := (*syscall.RawSockaddrInet4)(unsafe.Pointer(&l.from))
		c.remote.IP = append(c.ip[:0:4], from.Addr[:]...)
		c.remote.Port = portOf(&from.Port)
	case syscall.AF_INET6:
		c.remote.IP = append(c.ip[:0], l.from.Addr[:]...)
		c.remote.Port = portOf(&l.from.Port)
		c.remote.Zone = zoneOf(int(l.from.Scope_id))
	}
	return c, nil
}

// portOf reads a port as the network has it.
func portOf(port *uint16) int {
	return int(binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(port))[:]))
}

// zoneOf is the zone of a link-local address, "" for 0.
func zoneOf(index int) string {
	if index == 0 {
		return ""
	}
	if i, err := net.InterfaceByIndex(index); err == nil {
		return i.Name
	}
	return strconv.Itoa(index)
}

// LocalAddr is the address that the listener has.
func (c *accepted) LocalAddr() net.Addr { return c.listener.addr }

func (c *accepted) RemoteAddr() net.Addr { return &c.remote }

func (c *accepted) Read(b []byte) (int, error) {
	n, err := c.file.Read(b)
	if err == nil {
		return n, nil
	}
	if err = c.outcome(err); err == io.EOF {
		return 0, io.EOF
	}
	return 0, opError(c, "read", err)
}

func (c *accepted) Write(b []byte) (int, error) {
	n, err := c.file.Write(b)
	if err == nil {
		return n, nil
	}
	return n, opError(c, "write", c.outcome(err))
}

func (c *accepted) SetDeadline(t time.Time) error      { return c.set(c.file.SetDeadline(t)) }
func (c *accepted) SetReadDeadline(t time.Time) error  { return c.set(c.file.SetReadDeadline(t)) }
func (c *accepted) SetWriteDeadline(t time.Time) error { return c.set(c.file.SetWriteDeadline(t)) }

func (c *accepted) set(err error) error {
	if err = c.outcome(err); err != nil {
		return opError(c, "set", err)
	}
	return nil
}

// Close ends the connection for its peer, and for whoever waits on it here. The descriptor is given
// back within closeEvery.
func (c *accepted) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return opError(c, "close", net.ErrClosed)
	}
	if err := c.listener.closer.add(c); err != nil {
		return opError(c, "close", err)
	}
	return nil
}

// CloseWrite ends the outgoing half.
func (c *accepted) CloseWrite() error {
	var failed error
	err := asSocket{c}.Control(func(fd uintptr) { failed = os.NewSyscallError("shutdown", syscall.Shutdown(int(fd), syscall.SHUT_WR)) })
	if err = cmp.Or(err, failed); err != nil {
		return opError(c, "close", err)
	}
	return nil
}

// SyscallConn returns the socket, for which nothing is made.
func (c *accepted) SyscallConn() (syscall.RawConn, error) { return asSocket{c}, nil }

// asSocket is an accepted connection as a syscall.RawConn. Once it is closed no function is called, since its
// descriptor stands for something else.
type asSocket struct{ *accepted }

func (s asSocket) Control(f func(fd uintptr)) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	return s.outcome(s.socket.Control(f))
}

func (s asSocket) Read(f func(fd uintptr) bool) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	return s.outcome(s.socket.Read(f))
}

func (s asSocket) Write(f func(fd uintptr) bool) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	return s.outcome(s.socket.Write(f))
}

// outcome is an error as the net package has it. Of a connection that is closed there is but one: its
// descriptor stands for no socket any more.
func (c *accepted) outcome(err error) error {
	if c.closed.Load() {
		return net.ErrClosed
	}
	return closedOr(err)
}

// closedOr returns an error of package os, or of the poller, as the net package has it. The poller has
// two: a deadline, and that of a closed descriptor, which is not exported.
func closedOr(err error) error {
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
