//go:build linux && (amd64 || arm64)

package rawconn

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Listen opens a listener whose connections have TCP_NODELAY and the keepalive times of alive. Connections inherit
// these options from the listener's socket. Package net makes up to five calls per connection for the options, and as
// many again for other keepalive times. The listener uses plain TCP, because PostgreSQL clients never request MPTCP,
// with which the kernel's accept takes longer.
func Listen(address string, alive net.KeepAliveConfig) (net.Listener, error) {
	config := net.ListenConfig{KeepAlive: -1, // net changes no options of connections
		Control: func(_, _ string, socket syscall.RawConn) error { return setOptions(socket, alive) }}
	config.SetMultipathTCP(false)
	ln, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	return newListener(ln.(*net.TCPListener))
}

// setOptions sets the options on a socket before it listens, so that even the first connection has them.
func setOptions(socket syscall.RawConn, alive net.KeepAliveConfig) error {
	type option struct{ level, name, value int }
	options := []option{{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1}}
	if alive.Enable {
		options = append(options, option{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
			option{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int(alive.Idle / time.Second)},
			option{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, int(alive.Interval / time.Second)},
			option{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, alive.Count})
	}
	var failed error
	err := socket.Control(func(fd uintptr) {
		for _, o := range options {
			failed = errors.Join(failed, os.NewSyscallError("setsockopt", unix.SetsockoptInt(int(fd), o.level, o.name, o.value)))
		}
	})
	return errors.Join(err, failed)
}
