//go:build !linux

package rawconn

import (
	"net"
	"syscall"
	"time"
)

// PeersKnown reports whether PeerProcess works on this system.
const PeersKnown = false

// PeerProcess always returns false, because this system does not report the peer's process.
func PeerProcess(net.Conn) (pid int32, uid uint32, ok bool) { return 0, 0, false }

func ackState(syscall.RawConn) (owed bool, last time.Duration) { return false, 0 }

func hasPeerEnded(socket syscall.RawConn) bool { return hasEndedByPeek(socket) }
