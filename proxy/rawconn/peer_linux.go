package rawconn

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// askTCP asks the kernel; nil of a socket of another family, which has no such thing.
func askTCP(socket syscall.RawConn) (info *unix.TCPInfo) {
	_ = socket.Control(func(fd uintptr) {
		if asked, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			info = asked
		}
	})
	return info
}

func unacked(socket syscall.RawConn) (owed bool, last time.Duration) {
	info := askTCP(socket)
	if info == nil {
		return false, 0
	}
	return info.Probes > 0 || info.Unacked > 0, time.Duration(info.Last_ack_recv) * time.Millisecond
}

func ended(socket syscall.RawConn) bool {
	info := askTCP(socket)
	if info == nil {
		return endedUnread(socket)
	}
	switch info.State {
	case unix.BPF_TCP_CLOSE, unix.BPF_TCP_CLOSE_WAIT, unix.BPF_TCP_LAST_ACK, unix.BPF_TCP_CLOSING:
		return true // the peer has sent its FIN, or nobody has the connection any more
	}
	return false
}
