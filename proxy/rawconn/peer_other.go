//go:build !linux

package rawconn

import (
	"syscall"
	"time"
)

func unacked(syscall.RawConn) (owed bool, last time.Duration) { return false, 0 }

func ended(socket syscall.RawConn) bool {
	state := Closed
	_ = socket.Control(func(fd uintptr) { state, _ = peek(fd) })
	return state == Closed
}
