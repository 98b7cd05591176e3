package network

import (
	"maps"
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
	closed  bool
	conns   map[net.Conn]struct{} // that are passed
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
		r.mu.Lock()
		r.closed = true
		for c := range r.conns {
			c.Close()
		}
		r.mu.Unlock()
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
		r.mu.Lock()
		if r.closed {
			client.Close()
			server.Close()
		} else {
			r.conns[client], r.conns[server] = struct{}{}, struct{}{}
			r.running.Go(func() { r.pass(server, client, false) })
			r.running.Go(func() { r.pass(client, server, true) })
		}
		r.mu.Unlock()
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
	defer func() {
		to.Close()
		from.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.conns, from)
		r.changed.Broadcast()
	}()
	buf := make([]byte, 32<<10)
	for {
		m := r.current()
		chunk := buf
		if m == trickles && fromServer {
			chunk = buf[:trickleRate/10]
		}
		n, err := from.Read(chunk)
		switch {
		case err != nil:
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

// reset ends the connections that exist, each with a RST to both sides. It returns when they
// are closed: nothing that is sent afterwards is taken.
func (r *relay) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := maps.Clone(r.conns)
	for c := range old {
		c.(*net.TCPConn).SetLinger(0) // all of them first: the end of one side ends the other
	}
	for c := range old {
		c.Close()
	}
	for c := range old {
		for r.has(c) {
			r.changed.Wait()
		}
	}
}

func (r *relay) has(c net.Conn) bool {
	_, has := r.conns[c]
	return has
}
