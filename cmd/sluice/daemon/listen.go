package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sluice-proxy/sluice/cmd/sluice/config"
)

// listenAll opens the listeners for clients; mode is that of the Unix socket. On an error none stays open.
func listenAll(c *config.Config, mode os.FileMode) (listeners []net.Listener, err error) {
	defer func() {
		if err != nil {
			closeAll(listeners)
			listeners = nil
		}
	}()
	if c.Listen.Address != "" {
		ln, err := listenTCP(c.Listen.Address, "listen.address", c.Proxy.Listen)
		if err != nil {
			return listeners, err
		}
		listeners = append(listeners, ln)
	}
	if c.Listen.UnixSocket != "" {
		ln, err := listenUnix(c.Listen.SocketPath(), mode)
		if err != nil {
			return listeners, err
		}
		listeners = append(listeners, ln)
	}
	return listeners, nil
}

// listenTCP opens a listener, by listen, whose address came from the named key. The error is
// one line that says how to choose another address and, when the system tells,
// who holds this one.
func listenTCP(address, name string, listen func(address string) (net.Listener, error)) (net.Listener, error) {
	ln, err := listen(address)
	if err == nil {
		return ln, nil
	}
	k := config.KeyNamed(name)
	elsewhere := fmt.Sprintf("choose another with %s, %s or --%s", k.Name, k.Env(), k.Flag())
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is taken%s: %s", address, by(portHolder(address)), elsewhere)
	}
	return nil, fmt.Errorf("cannot listen on %s: %w: %s", address, err, elsewhere)
}

func by(holder string) string {
	if holder == "" {
		return ""
	}
	return " by " + holder
}

// ordinary opens a listener as the net package does.
func ordinary(address string) (net.Listener, error) { return net.Listen("tcp", address) }

// probeTimeout bounds the look at who answers behind a socket file.
const probeTimeout = time.Second

// listenUnix opens the socket file. One that a dead process left is replaced;
// one that somebody answers on is an error.
func listenUnix(path string, mode os.FileMode) (net.Listener, error) {
	const elsewhere = "choose another directory with listen.unix_socket, DSQL_LISTEN_UNIX_SOCKET or --listen-unix-socket"
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == os.ModeSocket {
		conn, err := net.DialTimeout("unix", path, probeTimeout)
		switch {
		case err == nil:
			_ = conn.Close() // nothing was said on it
			return nil, fmt.Errorf("%s is taken: %s", path, elsewhere)
		case errors.Is(err, syscall.ECONNREFUSED):
			if err := os.Remove(path); err != nil {
				return nil, fmt.Errorf("cannot replace %s: %w: %s", path, err, elsewhere)
			}
		}
	}
	ln, err := bindUnix(path, mode)
	if err != nil {
		return nil, fmt.Errorf("cannot listen in %s: %w: %s", filepath.Dir(path), errors.Unwrap(err), elsewhere)
	}
	if err := os.Chmod(path, mode); err != nil { // what the umask has taken
		_ = ln.Close() // the error of Chmod is the one that counts
		return nil, fmt.Errorf("cannot listen in %s: %w: %s", filepath.Dir(path), err, elsewhere)
	}
	return ln, nil
}

// bindUnix makes a socket file with a mode, less what the umask takes. Linux gives the file the mode that the socket
// has; other systems refuse that, and have the file's own mode only.
func bindUnix(path string, mode os.FileMode) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, socket syscall.RawConn) error {
		return socket.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), uint32(mode.Perm())) })
	}}
	return config.Listen(context.Background(), "unix", path)
}
