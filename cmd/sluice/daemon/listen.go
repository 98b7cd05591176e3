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

// listenAll opens the listeners for clients. mode is the mode of the Unix socket's file. After an error no listener
// remains open.
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

// listenTCP opens a listener by calling listen, on the address that the key name has. The error is one line that says
// how to choose another address. If the system shows the process that uses the address, the error names that process.
func listenTCP(address, name string, listen func(address string) (net.Listener, error)) (net.Listener, error) {
	ln, err := listen(address)
	if err == nil {
		return ln, nil
	}
	k := config.KeyByName(name)
	elsewhere := fmt.Sprintf("choose another with %s, %s or --%s", k.Name, k.EnvName(), k.FlagName())
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is taken%s: %s", address, usedByPhrase(listeningProcess(address)), elsewhere)
	}
	return nil, fmt.Errorf("cannot listen on %s: %w: %s", address, err, elsewhere)
}

func usedByPhrase(holder string) string {
	if holder == "" {
		return ""
	}
	return " by " + holder
}

// openTCPListener opens a TCP listener by package net.
func openTCPListener(address string) (net.Listener, error) { return net.Listen("tcp", address) }

// probeTimeout bounds the attempt to connect to an existing socket file.
const probeTimeout = time.Second

// listenUnix creates the Unix socket's file and listens on it. listenUnix replaces a file whose process has ended. A
// file on which a process accepts connections is an error.
func listenUnix(path string, mode os.FileMode) (net.Listener, error) {
	const elsewhere = "choose another directory with listen.unix_socket, DSQL_LISTEN_UNIX_SOCKET or --listen-unix-socket"
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == os.ModeSocket {
		conn, err := net.DialTimeout("unix", path, probeTimeout)
		switch {
		case err == nil:
			_ = conn.Close() // nothing was sent
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
	if err := os.Chmod(path, mode); err != nil { // undo the umask
		_ = ln.Close() // Chmod's error is returned
		return nil, fmt.Errorf("cannot listen in %s: %w: %s", filepath.Dir(path), err, elsewhere)
	}
	return ln, nil
}

// bindUnix creates a socket file with a mode, less the umask. Linux gives the file the mode of the socket. Other
// systems refuse that mode and use the file's own.
func bindUnix(path string, mode os.FileMode) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, socket syscall.RawConn) error {
		return socket.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), uint32(mode.Perm())) })
	}}
	return config.Listen(context.Background(), "unix", path)
}
