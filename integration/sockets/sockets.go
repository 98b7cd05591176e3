// Package sockets has what tests, and the servers that they start, need of the network
// of their own machine: free ports, directories for Unix sockets, connected pairs.
package sockets

import (
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// FreePorts looks here. Linux takes the ports of outgoing connections, and of listeners that ask for any
// port, from 32,768 on (net.ipv4.ip_local_port_range): one of those may be gone before a program listens
// on it. These fit into a smallint too, which Temporal's schema has for ports.
const lowestPort, highestPort = 20_000, 32_767

// portLooks is how many ports are tried for each one that is asked for.
const portLooks = 100

// FreePorts returns n TCP ports of the loopback that nobody listens on. Another test's
// server may before the caller does.
func FreePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	var last error
	for range portLooks * n {
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: lowestPort + rand.IntN(highestPort-lowestPort+1)})
		if err != nil {
			last = err
			continue
		}
		defer l.Close() // all are held until all are chosen, so that they differ
		if ports = append(ports, l.Addr().(*net.TCPAddr).Port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, errors.Join(errors.New("no free port"), last)
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
