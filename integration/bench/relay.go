package main

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	relayBuffer = 64 << 10
	// relayQueue bounds the chunks on their way in one direction of a connection, to 64 MiB in total. In 2 ms that is 32
	// GB/s, so the delay never limits bandwidth.
	relayQueue = 1024
)

// delayRelay is a TCP proxy that passes every byte on after a delay, as a longer cable would. The sender is not
// delayed.
type delayRelay struct {
	listener net.Listener
	target   string
	delay    time.Duration

	// trips counts the round trips. A round trip counts when a client sends the first bytes since bytes of the server
	// reached the client.
	trips atomic.Int64

	running sync.WaitGroup
	mu      sync.Mutex
	open    map[net.Conn]struct{} // nil once closed
}

// newDelayRelay listens on a free port of the loopback. The caller runs serve and ends the relay with close.
func newDelayRelay(target string, delay time.Duration) (*delayRelay, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return nil, err
	}
	return &delayRelay{listener: l, target: target, delay: delay, open: make(map[net.Conn]struct{})}, nil
}

func (r *delayRelay) port() int { return r.listener.Addr().(*net.TCPAddr).Port }

// serve accepts connections until close.
func (r *delayRelay) serve() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		if !r.trackConn(client) {
			client.Close()
			return
		}
		go func() {
			defer r.untrackConn(client)
			defer client.Close()
			server, err := net.Dial("tcp", r.target)
			if err != nil {
				return
			}
			defer server.Close()
			if !r.trackConn(server) {
				return
			}
			defer r.untrackConn(server)
			r.relayBothWays(client, server)
		}()
	}
}

// close ends all connections and goroutines of the relay, and returns when they have ended.
func (r *delayRelay) close() {
	r.listener.Close()
	r.mu.Lock()
	for conn := range r.open {
		conn.Close()
	}
	r.open = nil
	r.mu.Unlock()
	r.running.Wait()
}

func (r *delayRelay) trackConn(conn net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		return false
	}
	r.open[conn] = struct{}{}
	r.running.Add(1)
	return true
}

func (r *delayRelay) untrackConn(conn net.Conn) {
	r.mu.Lock()
	delete(r.open, conn)
	r.mu.Unlock()
	r.running.Done()
}

// relayBothWays passes bytes in both directions until one side ends, then closes both.
func (r *delayRelay) relayBothWays(client, server net.Conn) {
	var answered atomic.Bool // the client has got bytes since it last sent some
	answered.Store(true)
	sent := func() {
		if answered.Swap(false) {
			r.trips.Add(1)
		}
	}
	var both sync.WaitGroup
	both.Go(func() { r.forwardDelayed(server, client, sent, func() {}) })
	both.Go(func() { r.forwardDelayed(client, server, func() {}, func() { answered.Store(true) }) })
	both.Wait()
}

// delayedChunk is the result of one read, with the time when the relay may pass it on.
type delayedChunk struct {
	data []byte
	due  time.Time
}

// forwardDelayed passes bytes from src to dst and closes both at the end. It calls the function arrived after each
// read from src, and the function delivers right before each write to dst.
func (r *delayRelay) forwardDelayed(dst io.WriteCloser, src io.ReadCloser, arrived, delivers func()) {
	queue := make(chan delayedChunk, relayQueue)
	go func() { // ends when src does; forward closes that and empties the queue
		defer close(queue)
		buffer := make([]byte, relayBuffer)
		for {
			n, err := src.Read(buffer)
			if n > 0 {
				arrived()
				queue <- delayedChunk{bytes.Clone(buffer[:n]), time.Now().Add(r.delay)}
			}
			if err != nil {
				return
			}
		}
	}()
	for c := range queue {
		time.Sleep(time.Until(c.due))
		delivers()
		if _, err := dst.Write(c.data); err != nil {
			break
		}
	}
	dst.Close()
	src.Close()
	for range queue { // let the reader end
	}
}
