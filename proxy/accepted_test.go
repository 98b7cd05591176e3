package proxy

import (
	"net"
	"testing"
)

// accepted returns both ends of a connection.
func accepted(t *testing.T, network, address string) (client, server net.Conn) {
	t.Helper()
	listen := Config{}.Listen
	if network != "tcp" {
		listen = func(address string) (net.Listener, error) { return net.Listen(network, address) }
	}
	ln, err := listen(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	if client, err = net.Dial(network, ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if server, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return client, server
}
