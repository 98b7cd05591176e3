//go:build linux && (amd64 || arm64)

package rawconn

import (
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// closeEvery is how long the descriptors of closed connections are gathered. To give them back wakes the
// scheduler's watcher for some 0.1 ms: 20 times a second, and more often only where MostEnded come before.
const closeEvery = 50 * time.Millisecond

// MostEnded bounds the descriptors that connections of a Listener leave behind for closeEvery. Where descriptors
// are few (ulimit -n), whoever counts them must leave room for so many.
const MostEnded = 32

// closer gathers the descriptors of connections that are closed. Such a connection ends at once, as by
// close, since its descriptor is made to stand for something else; the descriptor is given back later,
// with others, by the ordinary call.
type closer struct {
	mu    sync.Mutex
	files []*os.File
	timer *time.Timer
	// instead is what the descriptors stand for, a socket without a peer: each call on it fails, and none
	// waits. -1: there is none, and connections are closed in one step.
	instead int

	// The rest is a callback, which is made once, and what it leaves.
	onReplace func(fd uintptr)
	errno     syscall.Errno
}

// open makes what the closer needs. Without descriptors it goes on without a socket of its own.
func (c *closer) open() {
	c.onReplace = func(fd uintptr) {
		_, _, c.errno = syscall.RawSyscall(syscall.SYS_DUP3, uintptr(c.instead), fd, syscall.O_CLOEXEC)
	}
	var err error
	if c.instead, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		c.instead = -1
	}
	c.timer = time.AfterFunc(time.Hour, func() { c.flush() })
	c.timer.Stop()
}

// add ends a connection, whose descriptor is given back later, or at once where it cannot be gathered.
func (c *closer) add(conn *accepted) error {
	c.mu.Lock()
	if !c.replaced(conn) {
		c.mu.Unlock()
		return closedOr(conn.file.Close())
	}
	if c.files = append(c.files, conn.file); len(c.files) == 1 {
		c.timer.Reset(closeEvery)
	}
	full := len(c.files) == MostEnded
	c.mu.Unlock()
	_ = conn.file.SetDeadline(time.Unix(1, 0)) // wakes who waits on it; an error is that it is closed by now
	if full {
		c.flush()
	}
	return nil
}

// replaced has a connection's descriptor stand for the socket without a peer, if it can. The caller holds mu.
func (c *closer) replaced(conn *accepted) bool {
	if c.instead < 0 {
		return false
	}
	err := conn.socket.Control(c.onReplace)
	return err == nil && c.errno == 0
}

// flush gives the gathered descriptors back, and reports whether there were any.
func (c *closer) flush() bool {
	c.mu.Lock()
	files := c.files
	c.files = nil
	c.mu.Unlock()
	for _, file := range files {
		_ = file.Close() // the connection has ended before: nothing can be lost
	}
	return len(files) > 0
}

// close ends the gathering.
func (c *closer) close() {
	c.mu.Lock()
	if c.instead >= 0 {
		_ = syscall.Close(c.instead) // it has never been connected: nothing can be lost
		c.instead = -1
	}
	c.timer.Stop()
	c.mu.Unlock()
	c.flush()
}
