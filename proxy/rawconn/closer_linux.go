//go:build linux && (amd64 || arm64)

package rawconn

import (
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// closeEvery is the time for which descriptors of closed connections are collected. Closing descriptors wakes the
// scheduler's monitor thread for some 0.1 ms. With closeEvery, that happens at most 20 times a second, or when
// MostEnded descriptors have been collected.
const closeEvery = 50 * time.Millisecond

// MostEnded is the greatest number of descriptors that closed connections of a Listener still hold. A limit of
// descriptors (ulimit -n) must include them.
const MostEnded = 32

// deferredCloser collects the descriptors of closed connections. A closed connection ends at once, because its
// descriptor is redirected to another socket. The descriptor is closed later, together with other descriptors.
type deferredCloser struct {
	mu    sync.Mutex
	files []*os.File
	timer *time.Timer
	// instead is the socket to which the descriptors of closed connections are redirected. instead has no peer, so each
	// call on it fails without waiting. If instead is -1, there is no such socket, and connections are closed at once.
	instead int

	// onReplace is a callback that open makes. It redirects a descriptor and stores its error in errno.
	onReplace func(fd uintptr)
	errno     syscall.Errno
}

// open creates the socket to which descriptors are redirected. If no descriptor is free for it, the closer closes
// connections at once.
func (c *deferredCloser) open() {
	c.onReplace = func(fd uintptr) {
		_, _, c.errno = syscall.RawSyscall(syscall.SYS_DUP3, uintptr(c.instead), fd, syscall.O_CLOEXEC)
	}
	var err error
	if c.instead, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		c.instead = -1
	}
	c.timer = time.AfterFunc(time.Hour, func() { c.closeCollected() })
	c.timer.Stop()
}

// endConn ends a connection. The connection's descriptor is closed later, or at once if it cannot be redirected.
func (c *deferredCloser) endConn(conn *acceptedConn) error {
	c.mu.Lock()
	if !c.redirect(conn) {
		c.mu.Unlock()
		return toNetError(conn.file.Close())
	}
	if c.files = append(c.files, conn.file); len(c.files) == 1 {
		c.timer.Reset(closeEvery)
	}
	full := len(c.files) == MostEnded
	c.mu.Unlock()
	_ = conn.file.SetDeadline(time.Unix(1, 0)) // wakes its waiters; an error means that it is closed by now
	if full {
		c.closeCollected()
	}
	return nil
}

// redirect redirects the connection's descriptor to the socket without a peer, and reports whether that succeeded. The
// caller holds mu.
func (c *deferredCloser) redirect(conn *acceptedConn) bool {
	if c.instead < 0 {
		return false
	}
	err := conn.socket.Control(c.onReplace)
	return err == nil && c.errno == 0
}

// closeCollected closes the collected descriptors of closed connections. closeCollected reports whether there were any.
func (c *deferredCloser) closeCollected() bool {
	c.mu.Lock()
	files := c.files
	c.files = nil
	c.mu.Unlock()
	for _, file := range files {
		_ = file.Close() // the connection has ended already; an error loses nothing
	}
	return len(files) > 0
}

// close closes the collected descriptors of closed connections. A connection that is closed later is closed at once.
func (c *deferredCloser) close() {
	c.mu.Lock()
	if c.instead >= 0 {
		_ = syscall.Close(c.instead) // never connected; an error loses nothing
		c.instead = -1
	}
	c.timer.Stop()
	c.mu.Unlock()
	c.closeCollected()
}
