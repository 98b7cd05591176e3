//go:build !linux

package rawconn

import (
	"syscall"
	"time"
)

func unacked(syscall.RawConn) (owed bool, last time.Duration) { return false, 0 }

func ended(socket syscall.RawConn) bool { return endedUnread(socket) }
