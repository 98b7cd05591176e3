//go:build !linux && !darwin

package rawconn

import "syscall"

// canPeek says that a socket can be asked what it holds.
const canPeek = false

func peek(uintptr) (State, error) { return Quiet, nil }

func broken(syscall.RawConn) bool { return false }
