//go:build !linux

package rawconn

import (
	"net"
	"syscall"
	"time"
)

// PeersKnown reports whether PeerProcess works.
const PeersKnown = false

// PeerProcess is not supported here.
func PeerProcess(net.Conn) (pid int32, uid uint32, ok bool) { return 0, 0, false }

func unacked(syscall.RawConn) (owed bool, last time.Duration) { return false, 0 }

func ended(socket syscall.RawConn) bool { return endedUnread(socket) }
