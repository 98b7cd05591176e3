package rawconn

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unacked asks the kernel. A socket of another family has no such thing, and owes nothing.
func unacked(socket syscall.RawConn) (owed bool, last time.Duration) {
	_ = socket.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			owed = info.Unacked > 0 || info.Probes > 0
			last = time.Duration(info.Last_ack_recv) * time.Millisecond
		}
	})
	return owed, last
}

// ended asks the kernel. A socket that is closed on this side has no peer any more.
func ended(socket syscall.RawConn) bool {
	gone := true
	_ = socket.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(poll, 0)
		gone = err == nil && n > 0 // an error says nothing
	})
	return gone
}
