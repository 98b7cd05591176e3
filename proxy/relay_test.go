package proxy_test

import (
	"net"
	"sync"
	"testing"
)

// listener takes the connections of a relay, which stands between Sluice and PostgreSQL.
type listener struct{ at *net.TCPAddr }

// startListener gives each connection to serve, in a goroutine of its own; serve closes it.
// The test ends behind the last of them.
func startListener(t *testing.T, serve func(down net.Conn)) listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			down, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { serve(down) })
		}
	})
	t.Cleanup(func() { ln.Close(); serving.Wait() })
	return listener{at: ln.Addr().(*net.TCPAddr)}
}

// option has Sluice connect to the relay.
func (l listener) option(s *setup) { s.dial.Address, s.dial.Port = l.at.IP.String(), l.at.Port }

// passEach returns a serve that connects to target, and runs the two directions until one
// of them ends: each passes what the second connection says on to the first.
func passEach(target string, toServer, toClient func(to, from net.Conn)) func(net.Conn) {
	return func(down net.Conn) {
		defer down.Close()
		up, err := net.Dial("tcp", target)
		if err != nil {
			return
		}
		defer up.Close()
		var passing sync.WaitGroup
		for _, pass := range []func(){func() { toServer(up, down) }, func() { toClient(down, up) }} {
			passing.Go(func() {
				pass()
				down.Close()
				up.Close()
			})
		}
		passing.Wait()
	}
}
