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

// Listener is a TCP listener whose connections have their options from the kernel.
type Listener struct{ *net.TCPListener }

// Listen opens a listener at address whose connections are kept alive as alive says: they
// inherit it from the listener's socket, where the net package makes up to five calls for each
// connection, and as many again where another time than its own is wanted. It is for plain TCP,
// since no client of Postgres asks for several paths (MPTCP), and the kernel's accept takes
// longer where one might.
func Listen(address string, alive net.KeepAliveConfig) (net.Listener, error) {
	config := net.ListenConfig{KeepAlive: -1, // net leaves connections alone
		Control: func(_, _ string, socket syscall.RawConn) error { return keepAlive(socket, alive) }}
	config.SetMultipathTCP(false)
	ln, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	return Listener{ln.(*net.TCPListener)}, nil
}

// keepAlive sets the options on a socket that will listen, on which they are off at first. It does so
// before the first connection can come, which would have none of them.
func keepAlive(socket syscall.RawConn, alive net.KeepAliveConfig) error {
	if !alive.Enable {
		return nil
	}
	var failed error
	err := socket.Control(func(fd uintptr) {
		for _, option := range []struct{ level, name, value int }{
			{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
			{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int(alive.Idle / time.Second)},
			{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, int(alive.Interval / time.Second)},
			{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, alive.Count},
		} {
			failed = errors.Join(failed, os.NewSyscallError("setsockopt", unix.SetsockoptInt(int(fd), option.level, option.name, option.value)))
		}
	})
	return errors.Join(err, failed)
}
