package reservoir

import (
	"net"
	"testing"
	"time"
)

// The kernel takes every limit, and gives a peer up about when the limit says.
func TestKeepAlive(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, limit := range []time.Duration{time.Millisecond, 2 * time.Second, 5 * time.Second, 20 * time.Second, 30 * time.Second, time.Hour, 48 * time.Hour} {
		c := KeepAliveSettings(limit)
		limit = min(limit, mostKeepAlive)
		if got := c.Idle + time.Duration(c.Count)*c.Interval; got < limit*9/10 || got > max(limit*11/10, 2*time.Second) {
			t.Errorf("%v: a dead peer is found after %v: %+v", limit, got, c)
		}
		if err := conn.(*net.TCPConn).SetKeepAliveConfig(c); err != nil {
			t.Errorf("%v: %v", limit, err)
		}
	}
	if c := KeepAliveSettings(0); c.Enable {
		t.Errorf("0: %+v", c)
	}
}
