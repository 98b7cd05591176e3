package rawconn

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tcpInfoOf returns the kernel's TCP_INFO of a socket, or nil if the socket is not a TCP one.
func tcpInfoOf(socket syscall.RawConn) (info *unix.TCPInfo) {
	_ = socket.Control(func(fd uintptr) {
		if asked, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			info = asked
		}
	})
	return info
}

// PeersKnown reports whether PeerProcess works on this system.
const PeersKnown = true

// PeerProcess returns the process at the other end of a Unix socket, and its user, at the time of the connect. ok is
// false for other connections.
func PeerProcess(conn net.Conn) (pid int32, uid uint32, ok bool) {
	local, isUnix := conn.(*net.UnixConn)
	if !isUnix {
		return 0, 0, false
	}
	socket, err := local.SyscallConn()
	if err != nil {
		return 0, 0, false
	}
	_ = socket.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid, uid, ok = peer.Pid, peer.Uid, true
		}
	})
	return pid, uid, ok
}

func ackState(socket syscall.RawConn) (owed bool, last time.Duration) {
	info := tcpInfoOf(socket)
	if info == nil {
		return false, 0
	}
	return info.Probes > 0 || info.Unacked > 0, time.Duration(info.Last_ack_recv) * time.Millisecond
}

func hasPeerEnded(socket syscall.RawConn) bool {
	info := tcpInfoOf(socket)
	if info == nil {
		return hasEndedByPeek(socket)
	}
	switch info.State {
	case unix.BPF_TCP_CLOSE, unix.BPF_TCP_CLOSE_WAIT, unix.BPF_TCP_LAST_ACK, unix.BPF_TCP_CLOSING:
		return true // the peer has sent its FIN, or the connection is gone
	}
	return false
}
