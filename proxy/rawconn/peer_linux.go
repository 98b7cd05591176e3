package rawconn

import (
	"encoding/binary"
	"syscall"
	"time"
	"unsafe"
)

// tcpInfo is the beginning of what the kernel knows of a TCP connection (struct tcp_info,
// linux/tcp.h), whose layout only grows.
type tcpInfo [60]byte

// Places in a tcpInfo.
const (
	infoState   = 0  // see closeWait
	infoProbes  = 3  // window and keepalive probes without an answer
	infoUnacked = 24 // segments on their way
	infoLastAck = 56 // milliseconds since the last acknowledgement came
)

// The states of TCP (net/tcp_states.h) in which the peer has sent its FIN, or nobody has
// the connection any more.
const (
	closed    = 7
	closeWait = 8
	lastAck   = 9
	closing   = 11
)

// askTCP asks the kernel; a socket of another family has no such thing.
func askTCP(socket syscall.RawConn) (info tcpInfo, ok bool) {
	_ = socket.Control(func(fd uintptr) {
		size := uint32(len(info))
		_, _, errno := syscall.Syscall6(syscall.SYS_GETSOCKOPT, fd, syscall.IPPROTO_TCP, syscall.TCP_INFO,
			uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
		ok = errno == 0 && int(size) == len(info)
	})
	return info, ok
}

func unacked(socket syscall.RawConn) (owed bool, last time.Duration) {
	info, ok := askTCP(socket)
	if !ok {
		return false, 0
	}
	last = time.Duration(binary.NativeEndian.Uint32(info[infoLastAck:])) * time.Millisecond
	return info[infoProbes] > 0 || binary.NativeEndian.Uint32(info[infoUnacked:]) > 0, last
}

func ended(socket syscall.RawConn) bool {
	info, ok := askTCP(socket)
	if !ok {
		return endedUnread(socket)
	}
	switch info[infoState] {
	case closed, closeWait, lastAck, closing:
		return true
	}
	return false
}
