//go:build !linux || !(amd64 || arm64)

package rawconn

import (
	"errors"
	"syscall"
)

// pollSet has no implementation on this system: newPollSet returns nil, and no connection waits without a goroutine
// (ParkedConns).
type pollSet struct{}

func newPollSet() (*pollSet, error) { return nil, nil }

func (*pollSet) add(syscall.RawConn, uint64) bool { return false }

func (*pollSet) remove(syscall.RawConn) {}

func (*pollSet) wait([]uint64) (int, error) { return 0, errors.ErrUnsupported }

func (*pollSet) close() {}
