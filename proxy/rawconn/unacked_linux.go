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
