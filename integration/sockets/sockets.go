// Package sockets has what tests, and the servers that they start, need of the network
// of their own machine: free ports, directories for Unix sockets, connected pairs.
package sockets

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// FreePorts returns n TCP ports of the loopback that nobody listens on. Somebody may
// before the caller does.
func FreePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all are held until all are chosen, so that they differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// FreePort returns one such port.
func FreePort() (int, error) {
	ports, err := FreePorts(1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}

// Dir returns a directory of the test's in which a socket can be made, and through which
// another account can pass. The path of tb.TempDir may be longer than a socket's name
// can be.
func Dir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "sockets-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// Pair returns both ends of a connection, tcp or unix: the one that was accepted, and
// the one that was dialled. They are closed with the test.
func Pair(tb testing.TB, network string) (accepted, dialled net.Conn) {
	tb.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(Dir(tb), "s")
	}
	ln, err := net.Listen(network, address)
	if err != nil {
		tb.Fatal(err)
	}
	defer ln.Close()
	if dialled, err = net.Dial(network, ln.Addr().String()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { dialled.Close() })
	if accepted, err = ln.Accept(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { accepted.Close() })
	return accepted, dialled
}
