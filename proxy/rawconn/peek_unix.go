//go:build linux || darwin

package rawconn

import (
	"os"
	"syscall"
)

// canPeek reports whether this system can look at a socket's next byte without consuming it.
const canPeek = true

// peek reports what a read of fd would find, without waiting and without consuming a byte. For the State Closed, err is
// the socket's error, or nil at the end of the stream.
func peek(fd uintptr) (State, error) {
	var one [1]byte
	for {
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			return Quiet, nil
		case err != nil:
			return Closed, os.NewSyscallError("recvfrom", err)
		case n == 0:
			return Closed, nil
		}
		return Readable, nil
	}
}

// hasSocketError reports whether a socket has a pending error, or is closed on this side.
func hasSocketError(socket syscall.RawConn) bool {
	failed := true
	// An error of Control means a closed connection, which counts as broken.
	_ = socket.Control(func(fd uintptr) {
		errno, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ERROR)
		failed = err != nil || errno != 0
	})
	return failed
}
