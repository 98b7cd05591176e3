//go:build linux && (amd64 || arm64)

package rawconn

import (
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

const (
	// maxCallBytes bounds the bytes of one raw call, during which its thread runs no other goroutine. 64 KiB take some 10
	// µs.
	maxCallBytes = 64 << 10
	// yieldBytes is the number of bytes that a goroutine moves in one direction before it yields. 256 KiB take some 50 µs.
	yieldBytes = 256 << 10
)

// rawConn is a Conn that uses raw calls on one socket. rawConn makes each callback for the poller at its first use,
// because a short connection needs two of the five. Callbacks exchange values with their callers by fields, so that
// further calls allocate nothing.
type rawConn struct {
	net.Conn
	socket syscall.RawConn

	// The following fields belong to the goroutine that reads.
	onRead, onReadWith, onWait func(fd uintptr) bool
	onPeek                     func(fd uintptr)
	readBuf                    []byte
	readGet                    func() []byte
	readPut                    func([]byte)
	readN                      int
	readErr                    syscall.Errno
	readMoved                  int // bytes since the reader parked or yielded
	peeked                     State
	one                        [1]byte

	// The following fields belong to the goroutine that writes.
	onWrite    func(fd uintptr) bool
	writeBuf   []byte // the unwritten rest
	writeErr   syscall.Errno
	writeMoved int
}

// newRaw returns a Conn that uses raw calls, or nil if conn is no TCP or Unix stream.
func newRaw(conn net.Conn) Conn {
	var socket syscall.RawConn
	var err error
	switch s := conn.(type) {
	case *acceptedConn:
		socket = acceptedSocket{s}
	case *net.TCPConn:
		socket, err = s.SyscallConn()
	case *net.UnixConn:
		if s.LocalAddr().Network() != "unix" { // a datagram socket has no end of stream
			return nil
		}
		socket, err = s.SyscallConn()
	default:
		return nil
	}
	if err != nil {
		return nil
	}
	return &rawConn{Conn: conn, socket: socket}
}

func (c *rawConn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if c.onRead == nil {
		c.onRead = c.tryRead
	}
	c.readBuf = b
	err := c.socket.Read(c.onRead)
	c.readBuf = nil
	if err := c.readOutcome(err); err != nil {
		return 0, err
	}
	return c.readN, nil
}

func (c *rawConn) ReadWith(get func() []byte, put func([]byte)) ([]byte, int, error) {
	if c.onReadWith == nil {
		c.onReadWith = c.tryReadWith
	}
	c.readGet, c.readPut = get, put
	err := c.socket.Read(c.onReadWith)
	buf := c.readBuf
	c.readBuf, c.readGet, c.readPut = nil, nil, nil
	if err := c.readOutcome(err); err != nil {
		return nil, 0, err
	}
	return buf, c.readN, nil
}

// readOutcome returns Read's error. err is the error of the poller, and c.readErr the error of the raw call.
// readOutcome yields to other goroutines after yieldBytes.
func (c *rawConn) readOutcome(err error) error {
	switch {
	case err != nil:
		return opError(c.Conn, "read", err)
	case c.readErr != 0:
		return opError(c.Conn, "read", os.NewSyscallError("read", c.readErr))
	case c.readN == 0:
		return io.EOF
	}
	if c.readMoved += c.readN; c.readMoved >= yieldBytes {
		c.readMoved = 0
		runtime.Gosched()
	}
	return nil
}

func (c *rawConn) WaitReadable() error {
	if c.onWait == nil {
		c.onWait = c.tryWait
	}
	if err := c.socket.Read(c.onWait); err != nil {
		return opError(c.Conn, "read", err)
	}
	if c.readErr != 0 {
		return opError(c.Conn, "read", os.NewSyscallError("read", c.readErr))
	}
	return nil
}

func (c *rawConn) Peek() State {
	if c.onPeek == nil {
		c.onPeek = c.tryPeek
	}
	c.peeked = Closed // the result if the poller refuses: closed on this side
	_ = c.socket.Control(c.onPeek)
	return c.peeked
}

func (c *rawConn) Broken() bool { return hasSocketError(c.socket) }

func (c *rawConn) Ended() bool { return hasPeerEnded(c.socket) }

func (c *rawConn) Unacked() (owed bool, last time.Duration) { return ackState(c.socket) }

// Write returns when all of b was written, or with the error that stopped it.
func (c *rawConn) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if c.onWrite == nil {
		c.onWrite = c.tryWrite
	}
	c.writeBuf = b
	err := c.socket.Write(c.onWrite)
	n := len(b) - len(c.writeBuf)
	c.writeBuf = nil
	switch {
	case err != nil:
		return n, opError(c.Conn, "write", err)
	case c.writeErr != 0:
		return n, opError(c.Conn, "write", os.NewSyscallError("write", c.writeErr))
	}
	return n, nil
}

func (c *rawConn) CloseWrite() error { return closeWrite(c.Conn) }

func (c *rawConn) NetConn() net.Conn { return c.Conn }

func (c *rawConn) rawSocket() syscall.RawConn { return c.socket }

// The following callbacks run in the runtime's poller. The poller calls a callback again when the socket may be ready,
// until the callback returns true.

func (c *rawConn) tryRead(fd uintptr) bool {
	c.readN, c.readErr = recv(fd, c.readBuf, 0)
	return c.isReadReady()
}

func (c *rawConn) tryReadWith(fd uintptr) bool {
	c.readBuf = c.readGet()
	c.readN, c.readErr = recv(fd, c.readBuf, 0)
	if c.readN == 0 {
		c.readPut(c.readBuf)
		c.readBuf = nil
	}
	return c.isReadReady()
}

func (c *rawConn) tryWait(fd uintptr) bool {
	_, c.readErr = recv(fd, c.one[:], syscall.MSG_PEEK)
	return c.isReadReady()
}

// isReadReady reports whether the raw read has a result. If not, the reader waits in the poller.
func (c *rawConn) isReadReady() bool {
	if c.readErr == syscall.EAGAIN {
		c.readMoved = 0
		return false
	}
	return true
}

func (c *rawConn) tryPeek(fd uintptr) {
	switch n, errno := recv(fd, c.one[:], syscall.MSG_PEEK); {
	case errno == syscall.EAGAIN:
		c.peeked = Quiet
	case n > 0:
		c.peeked = Readable
	}
}

func (c *rawConn) tryWrite(fd uintptr) bool {
	for len(c.writeBuf) > 0 {
		var n int
		n, c.writeErr = send(fd, c.writeBuf)
		if c.writeErr == syscall.EAGAIN {
			c.writeMoved = 0
			return false
		}
		if c.writeErr != 0 {
			return true
		}
		c.writeBuf = c.writeBuf[n:]
		if c.writeMoved += n; c.writeMoved >= yieldBytes {
			c.writeMoved = 0
			runtime.Gosched()
		}
	}
	return true
}

// recv reads at most maxCallBytes into b. The count is 0 at the end of the stream and after an error.
func recv(fd uintptr, b []byte, flags uintptr) (int, syscall.Errno) {
	b = b[:min(len(b), maxCallBytes)]
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd,
			uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
			flags|syscall.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			raceAfterReceive(b[:n])
			return int(n), 0
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}

// send writes at most maxCallBytes. A broken pipe is an error and causes no signal.
func send(fd uintptr, b []byte) (int, syscall.Errno) {
	b = b[:min(len(b), maxCallBytes)]
	raceBeforeSend(b)
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd,
			uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
			syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			return int(n), 0
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}
