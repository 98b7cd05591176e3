//go:build linux && (amd64 || arm64)

package rawconn

import (
	"errors"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pollSet is an epoll set of sockets. It reports each socket once. The set is itself a file in the runtime's poller,
// so that no thread waits for it. The sockets also stay in the runtime's own epoll set.
type pollSet struct {
	fd     int
	file   *os.File
	socket syscall.RawConn // file's

	// newPollSet makes the following callbacks. Two of them return results in the fields below them. The ParkedConns's
	// mu guards the results of onAdd, and the ParkedConns's goroutine owns those of onWait.
	onRemove func(fd uintptr)
	onAdd    func(fd uintptr)
	event    unix.EpollEvent
	added    bool
	onWait   func(fd uintptr) bool
	ready    [batch]unix.EpollEvent
	n        int
	failed   error
}

func newPollSet() (*pollSet, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	// The descriptor must be nonblocking, because os.NewFile adds no other descriptors to the poller.
	err = os.NewSyscallError("fcntl", unix.SetNonblock(fd, true))
	s := &pollSet{fd: fd, file: os.NewFile(uintptr(fd), "epoll")}
	if err == nil {
		s.socket, err = s.file.SyscallConn()
	}
	if err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	s.onAdd, s.onRemove, s.onWait = s.tryAdd, s.tryRemove, s.tryWait
	return s, nil
}

// add makes wait return the key once, when the socket is readable, ended or failed. add returns false if the socket
// cannot be watched. add does not consume the socket's error.
func (s *pollSet) add(socket syscall.RawConn, key uint64) bool {
	s.event = unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLONESHOT,
		Fd: int32(uint32(key)), Pad: int32(uint32(key >> 32))}
	s.added = false
	_ = socket.Control(s.onAdd) // an error means a closed connection
	return s.added
}

func (s *pollSet) remove(socket syscall.RawConn) { _ = socket.Control(s.onRemove) }

func (s *pollSet) tryAdd(fd uintptr) {
	s.added = unix.EpollCtl(s.fd, unix.EPOLL_CTL_ADD, int(fd), &s.event) == nil
}

func (s *pollSet) tryRemove(fd uintptr) { _ = unix.EpollCtl(s.fd, unix.EPOLL_CTL_DEL, int(fd), nil) }

// tryWait reads ready sockets by a raw call, which does not block. A call that may block would wake the runtime's
// monitor thread in an idle process, which costs more than the call itself.
func (s *pollSet) tryWait(uintptr) bool {
	for {
		n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(s.fd), uintptr(unsafe.Pointer(&s.ready)), batch, 0, 0, 0)
		switch errno {
		case 0:
			s.n, s.failed = int(n), nil
			return n > 0
		case syscall.EINTR:
		default:
			s.n, s.failed = 0, os.NewSyscallError("epoll_pwait", errno)
			return true
		}
	}
}

// wait returns the keys of ready sockets, at least one. Only one goroutine may call wait. An error means that the set
// is closed.
func (s *pollSet) wait(keys []uint64) (n int, err error) {
	if err := errors.Join(s.socket.Read(s.onWait), s.failed); err != nil {
		return 0, err
	}
	for i, e := range s.ready[:s.n] {
		keys[i] = uint64(uint32(e.Pad))<<32 | uint64(uint32(e.Fd))
	}
	return s.n, nil
}

func (s *pollSet) close() { s.file.Close() }
