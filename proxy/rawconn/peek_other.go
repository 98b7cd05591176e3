//go:build !linux && !darwin

package rawconn

import "syscall"

// canPeek reports whether this system can look at a socket's next byte without consuming it.
const canPeek = false

func peek(uintptr) (State, error) { return Quiet, nil }

func hasSocketError(syscall.RawConn) bool { return false }
