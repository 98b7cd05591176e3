// Package event has the events that a pod's program ledger sends to a collector, and the collector.
package event

import (
	"encoding/json"
	"net"
	"sync"
	"time"
)

// These are the kinds of events that the program ledger in a pod sends.
const (
	Start        = "start"
	Connected    = "connected"
	NoConnection = "no connection" // Error says why
	Acknowledged = "acknowledged"  // transaction N of Writer is committed
	Failed       = "failed"        // transaction N of Writer: Error begins with the statement
	Holding      = "holding"       // a transaction is open, and stays so
	Terminated   = "terminated"    // SIGTERM came while N transactions were open
	End          = "end"
)

// Event is what the program ledger in a pod reports to the Collector, for example an acknowledged transaction. At is
// a time of the node's clock.
type Event struct {
	At     time.Time `json:"at"`
	Pod    string    `json:"pod"`
	Kind   string    `json:"kind"`
	Writer string    `json:"writer,omitempty"`
	N      int       `json:"n,omitempty"`
	Error  string    `json:"error,omitempty"`
}

// Collector stores the events that pods send.
type Collector struct {
	listener net.Listener

	mu     sync.Mutex
	events []Event
}

// Collect listens at an address and stores events. The caller ends the Collector with Close.
func Collect(address string) (*Collector, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	c := &Collector{listener: listener}
	go c.accept()
	return c, nil
}

// Address returns the address on which the Collector listens.
func (c *Collector) Address() string { return c.listener.Addr().String() }

// Close ends the listener of the Collector. Pods that are already connected can send events until they end.
func (c *Collector) Close() error { return c.listener.Close() }

// Events returns the events of the pods whose names begin with a prefix, in the order of their arrival.
func (c *Collector) Events(prefix string) []Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	var of []Event
	for _, e := range c.events {
		if len(e.Pod) >= len(prefix) && e.Pod[:len(prefix)] == prefix {
			of = append(of, e)
		}
	}
	return of
}

func (c *Collector) accept() {
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			return
		}
		go c.read(conn)
	}
}

func (c *Collector) read(conn net.Conn) {
	defer conn.Close()
	for in := json.NewDecoder(conn); ; {
		var e Event
		if err := in.Decode(&e); err != nil {
			return // the pod's end, of whatever kind
		}
		c.mu.Lock()
		c.events = append(c.events, e)
		c.mu.Unlock()
	}
}
