//go:build amd64 || arm64

package rawconn

import (
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A connection of Listen has the options that the net package would have set on it.
func TestListen(t *testing.T) {
	t.Parallel()
	ordinary, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ordinary.Close()
	for name, alive := range map[string]net.KeepAliveConfig{
		"off":   {},
		"15 s":  {Enable: true, Idle: 15 * time.Second, Interval: 3 * time.Second, Count: 5},
		"hours": {Enable: true, Idle: 9 * time.Hour, Interval: 2 * time.Hour, Count: 4},
	} {
		ln, err := Listen("127.0.0.1:0", alive)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		if _, inherits := ln.(Listener); !inherits {
			t.Fatalf("Listen has returned %T", ln)
		}
		inherited, set := newlyAccepted(t, ln), newlyAccepted(t, ordinary).(*net.TCPConn)
		if err := set.SetKeepAliveConfig(alive); err != nil {
			t.Fatal(err)
		}
		got, want := optionsOf(t, inherited), optionsOf(t, set)
		if !alive.Enable { // then the times do not matter
			got, want = got[:2], want[:2]
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: options are %v, want %v", name, got, want)
				break
			}
		}
	}
}

// newlyAccepted is the server's end of a new connection to ln.
func newlyAccepted(t *testing.T, ln net.Listener) net.Conn {
	t.Helper()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); client.Close() })
	return conn
}

// optionsOf are a connection's own: no delay, keepalive, and its times.
func optionsOf(t *testing.T, conn net.Conn) (values []int) {
	t.Helper()
	socket, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = socket.Control(func(fd uintptr) {
		for _, option := range [][2]int{{unix.IPPROTO_TCP, unix.TCP_NODELAY}, {unix.SOL_SOCKET, unix.SO_KEEPALIVE},
			{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE}, {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL}, {unix.IPPROTO_TCP, unix.TCP_KEEPCNT}} {
			value, err := unix.GetsockoptInt(int(fd), option[0], option[1])
			if err != nil {
				t.Errorf("option %v: %v", option, err)
			}
			values = append(values, value)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return values
}
