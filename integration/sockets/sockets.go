// Package sockets gives tests, and the servers that they start, resources of the local network: free ports, directories
// for Unix sockets, connected pairs.
package sockets

import (
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// lowestPort and highestPort bound the ports of FreePorts. Linux takes the ports of outgoing connections, and of
// listeners on any port, from 32,768 on (net.ipv4.ip_local_port_range). A port in that range may be taken before a
// program listens on it. The ports up to 32,767 also fit into a smallint, the type of ports in Temporal's schema.
const lowestPort, highestPort = 20_000, 32_767

// portLooks is the number of ports that FreePorts tries for each requested one.
const portLooks = 100

// FreePorts returns n TCP ports of the loopback on which no process listens. A server of another test may take one
// before the caller does.
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

// FreePort returns one TCP port of the loopback on which no process listens.
func FreePort() (int, error) {
	ports, err := FreePorts(1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}

// SocketDir returns a directory for a test's Unix sockets. Other accounts can enter that directory. The path of
// tb.TempDir may be too long for a socket.
func SocketDir(tb testing.TB) string {
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

// ConnPair returns the accepted end and the dialled end of a connection, tcp or unix. The end of the test closes the
// connection.
func ConnPair(tb testing.TB, network string) (accepted, dialled net.Conn) {
	tb.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(SocketDir(tb), "s")
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
