//go:build amd64 || arm64

package rawconn

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A connection of Listen is a net.Conn like one of package net: addresses, both ways of reading, halves, deadlines.
func TestAccepted(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		ln := listening(t, address)
		for name, wrap := range map[string]func(net.Conn) net.Conn{
			"itself": func(c net.Conn) net.Conn { return c },
			"raw":    func(c net.Conn) net.Conn { return Wrap(c) },
			"plain":  func(c net.Conn) net.Conn { return WrapPlain(c) },
		} {
			t.Run(address+", "+name, func(t *testing.T) {
				client, conn := connected(t, ln)
				server := wrap(conn)
				_, raw := server.(*rawConn)
				if raw != (name == "raw") {
					t.Fatalf("it is a %T", server)
				}
				if got, want := server.RemoteAddr().String(), client.LocalAddr().String(); got != want {
					t.Errorf("the peer is %s, want %s", got, want)
				}
				if server.LocalAddr() != ln.Addr() || server.LocalAddr().Network() != "tcp" {
					t.Errorf("its own address is %v", server.LocalAddr())
				}
				buf := make([]byte, 8)
				server.SetReadDeadline(time.Now().Add(time.Millisecond))
				if _, err := server.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) || !err.(net.Error).Timeout() {
					t.Errorf("a deadline is %v", err)
				}
				server.SetReadDeadline(time.Time{})
				time.AfterFunc(5*time.Millisecond, func() { client.Write([]byte("hello")) })
				if n, err := server.Read(buf); string(buf[:n]) != "hello" {
					t.Errorf("read %q, %v", buf[:n], err)
				}
				if _, err := server.Write([]byte("there")); err != nil {
					t.Error(err)
				}
				if err := server.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
					t.Error(err)
				}
				if got, err := io.ReadAll(client); string(got) != "there" || err != nil {
					t.Errorf("the client has read %q, %v", got, err)
				}
				client.(*net.TCPConn).CloseWrite()
				if _, err := server.Read(buf); err != io.EOF {
					t.Errorf("the end of the stream is %v", err)
				}
				client.(*net.TCPConn).SetLinger(0)
				client.Close()
				if err := writeUntilError(server); !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("a reset is %v", err)
				}
			})
		}
	}
}

func writeUntilError(conn net.Conn) (err error) {
	for range 100 {
		if _, err = conn.Write([]byte("x")); err != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return err
}

// Close ends a connection for its peer and for who waits on it; behind it nothing is read or written, and nothing but
// the descriptor is left, for a moment.
func TestCloseAccepted(t *testing.T) {
	t.Parallel()
	ln := listening(t, "127.0.0.1:0")
	first, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	ln.(Listener).closer.files = []*os.File{first} // the timer is set for the first: nobody's descriptor is given back
	for name, wrap := range map[string]func(net.Conn) Conn{"raw": Wrap, "plain": WrapPlain} {
		client, conn := connected(t, ln)
		server := wrap(conn)
		read := make(chan error)
		go func() {
			_, err := server.Read(make([]byte, 1))
			read <- err
		}()
		time.Sleep(10 * time.Millisecond)
		fd := descriptorOf(t, conn)
		was := linkOf(fd)
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if is := linkOf(fd); is == was || is == "" {
			t.Errorf("%s: the descriptor is %q, and was %q", name, is, was)
		}
		if _, err := client.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%s: the client reads %v", name, err)
		}
		select {
		case err := <-read:
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: who has read is told %v", name, err)
			}
		case <-time.After(long):
			t.Fatalf("%s: who has read waits still", name)
		}
		_, err := server.Write([]byte("x"))
		_, err2 := server.Read(make([]byte, 1))
		for i, err := range []error{err, err2, server.Close(), server.SetDeadline(time.Time{}), server.WaitReadable(), server.CloseWrite()} {
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: behind Close, %d: %v", name, i, err)
			}
		}
		socket, _ := conn.(syscall.Conn).SyscallConn()
		for name, use := range map[string]func() error{
			"control": func() error { return socket.Control(func(uintptr) { t.Errorf("%s: it is used", name) }) },
			"read":    func() error { return socket.Read(func(uintptr) bool { t.Errorf("%s: it is read", name); return true }) },
			"write": func() error {
				return socket.Write(func(uintptr) bool { t.Errorf("%s: it is written", name); return true })
			},
		} {
			if err := use(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("behind Close, %s: %v", name, err)
			}
		}
		if server.Peek() != Closed || !server.Broken() || !server.Ended() {
			t.Errorf("%s: behind Close: %v, %v, %v", name, server.Peek(), server.Broken(), server.Ended())
		}
	}
}

// A connection that is closed while others read, write, look at it and set deadlines ends for all of them, and nobody
// is given what is not the client's.
func TestCloseBesideUse(t *testing.T) {
	t.Parallel()
	ln := listening(t, "127.0.0.1:0")
	for n := range 400 {
		client, conn := connected(t, ln)
		server := Wrap(conn)
		if n%2 == 0 {
			server = WrapPlain(conn)
		}
		var users sync.WaitGroup
		use := func(once func() error) {
			users.Go(func() {
				for {
					if err := once(); errors.Is(err, net.ErrClosed) {
						return
					} else if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("%T: %v", server, err)
						return
					}
				}
			})
		}
		users.Go(func() { io.Copy(client, client) })
		use(func() error {
			var buf [8]byte
			got, err := server.Read(buf[:])
			if s := string(buf[:got]); s != strings.Repeat("x", got) {
				return fmt.Errorf("read %q", s)
			}
			return err
		})
		use(func() error { _, err := server.Write([]byte("xxxxxxxx")); return err })
		use(func() error {
			server.Broken()
			server.Unacked()
			return server.SetReadDeadline(time.Now().Add(time.Duration(n%5) * 100 * time.Microsecond))
		})
		time.Sleep(time.Duration(n%10) * 100 * time.Microsecond)
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		ended := make(chan struct{})
		go func() { users.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatalf("%T: somebody goes on", server)
		}
	}
}

// A connection that is closed is not parked, and whoever closes one that is parked has it resumed: what its descriptor
// stands for is not in the kernel's set, and has nothing to tell.
func TestParkClosed(t *testing.T) {
	t.Parallel()
	resumed := make(chan int, 1)
	p, err := NewParkedConns(func(n int) { resumed <- n })
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ln := listening(t, "127.0.0.1:0")
	var spot ParkingSpot
	_, conn := connected(t, ln)
	closed := Wrap(conn)
	closed.Close()
	if p.Park(closed, 1, &spot) {
		t.Error("a connection that is closed is parked")
	}
	p.Unregister(closed)
	_, conn = connected(t, ln)
	parked := Wrap(conn)
	if !p.Park(parked, 2, &spot) {
		t.Fatal("it is not parked")
	}
	parked.Close()
	p.Wake(&spot)
	if n := <-resumed; n != 2 || p.Count() != 0 {
		t.Errorf("%d is resumed, %d are parked", n, p.Count())
	}
	p.Unregister(parked)
}

// Descriptors come back: after a moment, at once where many are gathered, and with the listener.
func TestDescriptorsComeBack(t *testing.T) {
	// Not parallel: descriptors are counted.
	ln := listening(t, "127.0.0.1:0")
	for _, many := range []int{1, MostEnded - 1, MostEnded, 3*MostEnded + 5} {
		before := descriptors(t)
		var closing sync.WaitGroup
		for n := range many {
			client, conn := connected(t, ln)
			client.Close()
			closing.Go(func() { conn.Close() })
			if n%8 > 0 {
				continue
			}
			// Behind the Closes fewer than MostEnded are gathered. As many may be on their way to be closed by the timer.
			closing.Wait()
			if open := descriptors(t) - before; open > 2*MostEnded {
				t.Fatalf("%d are open of %d", open, many)
			}
		}
		closing.Wait()
		awaitDescriptors(t, before)
	}
	before := descriptors(t)
	other := listening(t, "127.0.0.1:0")
	client, conn := connected(t, other)
	client.Close()
	conn.Close()
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	if n := descriptors(t) - before; n != 0 {
		t.Errorf("%d descriptors stay behind a listener that is closed", n)
	}
	client, conn = connected(t, ln)
	ln.Close()
	fd := descriptorOf(t, conn)
	if err := conn.Close(); err != nil || linkOf(fd) != "" {
		t.Errorf("behind its listener's end a connection is closed with %v, and is %q", err, linkOf(fd))
	}
	if _, err := client.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("its client reads %v", err)
	}
	for range 2 {
		if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a listener that is closed accepts with %v", err)
		}
	}
}

// Who is out of descriptors gets those of connections that have ended, and is told where there are none.
func TestAcceptOutOfDescriptors(t *testing.T) {
	// Not parallel: the process has few descriptors for a moment.
	ln := listening(t, "127.0.0.1:0")
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	for _, ended := range []bool{false, true} {
		client, conn := connected(t, ln)
		waiting, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer waiting.Close()
		last := descriptorOf(t, conn)
		for { // every descriptor below the connection's is in use
			fd, err := syscall.Dup(0)
			if err != nil {
				t.Fatal(err)
			}
			defer syscall.Close(fd)
			if fd > last {
				break
			}
		}
		few := syscall.Rlimit{Cur: uint64(last) + 1, Max: limit.Max}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
			t.Fatal(err)
		}
		if ended {
			conn.Close()
		}
		got, err := ln.Accept()
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		if ended {
			if err != nil {
				t.Fatalf("with the descriptor of a connection that has ended: %v", err)
			}
		} else {
			if !errors.Is(err, syscall.EMFILE) {
				t.Fatalf("without descriptors: %v", err)
			}
			if got, err = ln.Accept(); err != nil {
				t.Fatal(err)
			}
		}
		if got.RemoteAddr().String() != waiting.LocalAddr().String() {
			t.Errorf("accepted %v, want %v", got.RemoteAddr(), waiting.LocalAddr())
		}
		got.Close()
		client.Close()
	}
}

// connected is a new connection to ln, both its ends.
func connected(t *testing.T, ln net.Listener) (client, server net.Conn) {
	t.Helper()
	server, client = pairOf(t, ln)
	if _, ok := server.(*acceptedConn); !ok {
		t.Fatalf("Accept has returned a %T", server)
	}
	return client, server
}

func descriptorOf(t *testing.T, conn net.Conn) (fd int) {
	t.Helper()
	socket, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := socket.Control(func(n uintptr) { fd = int(n) }); err != nil {
		t.Fatal(err)
	}
	return fd
}

// linkOf says what a descriptor is, "" where there is none.
func linkOf(fd int) string {
	link, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	return link
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func awaitDescriptors(t *testing.T, want int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		n := descriptors(t)
		if n <= want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d descriptors are open, want %d", n, want)
		}
	}
}

// A connection that the poller does not take, here a file, is closed, and the error says what to do.
func TestAcceptUnwatched(t *testing.T) {
	t.Parallel()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	fd, err := syscall.Dup(int(file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	var before, after syscall.Stat_t
	if err := syscall.Fstat(fd, &before); err != nil {
		t.Fatal(err)
	}
	conn, err := newAccepted(&listener{addr: &net.TCPAddr{}, fd: fd})
	if conn != nil || err == nil || !strings.Contains(err.Error(), "fs.epoll.max_user_watches") {
		t.Errorf("%v, %v", conn, err)
	}
	if err := syscall.Fstat(fd, &after); err == nil && after.Ino == before.Ino && after.Dev == before.Dev {
		t.Error("the descriptor is open")
	}
}
