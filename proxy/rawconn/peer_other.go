//go:build !linux

package rawconn

import (
	"net"
	"syscall"
	"time"
)

// PeersKnown says that PeerProcess works here.
const PeersKnown = false

// PeerProcess is not known here.
func PeerProcess(net.Conn) (pid int32, uid uint32, ok bool) { return 0, 0, false }

func unacked(syscall.RawConn) (owed bool, last time.Duration) { return false, 0 }

func ended(socket syscall.RawConn) bool { return endedUnread(socket) }
