package network

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// A relay stands between Sluice and its server, as load balancers and tunnels do: its host
// acknowledges whatever happens behind it.
type relay struct {
	port     int
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	mode    mode
	conns   map[net.Conn]struct{}
}

// mode is what becomes of bytes on their way.
type mode uint8

const (
	passes   mode = iota
	swallows      // both sides are read, and nothing is passed on
	trickles      // the server's bytes come at trickleRate
	stalls        // nobody is read: buffers fill
)

// trickleRate is in bytes per second. A short answer inside TLS takes half a second.
const trickleRate = 200

func newRelay(tb testing.TB, target string) *relay {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	r := &relay{port: listener.Addr().(*net.TCPAddr).Port, target: target, listener: listener, conns: map[net.Conn]struct{}{}}
	r.changed = sync.NewCond(&r.mu)
	r.running.Go(r.accept)
	tb.Cleanup(func() {
		listener.Close()
		r.become(passes)
		r.each(func(c net.Conn) { c.Close() })
		r.running.Wait()
	})
	return r
}

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.target)
		if err != nil {
			client.Close()
			continue
		}
		r.keep(client, server)
		r.running.Go(func() { r.pass(server, client, false) })
		r.running.Go(func() { r.pass(client, server, true) })
	}
}

func (r *relay) keep(conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		r.conns[c] = struct{}{}
	}
}

func (r *relay) each(f func(net.Conn)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		f(c)
	}
}

// become changes the mode, for connections that exist and new ones.
func (r *relay) become(m mode) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mode = m
	r.changed.Broadcast()
}

// current is the mode, as soon as it is one in which somebody is read.
func (r *relay) current() mode {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.mode == stalls {
		r.changed.Wait()
	}
	return r.mode
}

// pass copies until one side ends, and ends both.
func (r *relay) pass(to, from net.Conn, fromServer bool) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		m := r.current()
		chunk := buf
		if m == trickles && fromServer {
			chunk = buf[:trickleRate/10]
		}
		n, err := from.Read(chunk)
		switch {
		case err == io.EOF && n == 0, err != nil:
			return
		case r.current() == swallows:
			continue
		case m == trickles && fromServer:
			time.Sleep(100 * time.Millisecond)
		}
		if _, err := to.Write(chunk[:n]); err != nil {
			return
		}
	}
}

// reset ends the connections that exist, each with a RST to both sides.
func (r *relay) reset() {
	r.each(func(c net.Conn) {
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	})
}
