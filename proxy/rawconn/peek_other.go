//go:build !linux && !darwin

package rawconn

import "syscall"

// canPeek reports whether the system can peek at a socket.
const canPeek = false

func peek(uintptr) (State, error) { return Quiet, nil }

func broken(syscall.RawConn) bool { return false }
