package rawconn

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/certs"
	"github.com/sluice-proxy/sluice/integration/sockets"
)

func TestWrapTwice(t *testing.T) {
	near, _ := socketPair(t, "tcp")
	c := Wrap(near)
	if Wrap(c) != c {
		t.Fatal("a Conn was wrapped again")
	}
}

// What is no stream socket gets the plain layer.
func TestWrapFallsBack(t *testing.T) {
	datagram, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(sockets.SocketDir(t), "s"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer datagram.Close()
	pipe, _ := net.Pipe()
	for _, conn := range []net.Conn{datagram, pipe} {
		if _, ok := Wrap(conn).(*plainConn); !ok {
			t.Errorf("%T got %T", conn, Wrap(conn))
		}
	}
}

// A pipe has no socket to ask: Peek sees nothing but what WaitReadable took.
func TestPipe(t *testing.T) {
	near, far := net.Pipe()
	c := Wrap(near)
	if got := c.Peek(); got != Quiet {
		t.Fatalf("Peek = %v", got)
	}
	go far.Write([]byte("abc"))
	for range 2 {
		if err := c.WaitReadable(); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.Peek(); got != Readable {
		t.Fatalf("Peek = %v after WaitReadable", got)
	}
	buf := make([]byte, 3)
	if _, err := io.ReadFull(c, buf); string(buf) != "abc" || err != nil {
		t.Fatalf("read %q, %v", buf, err)
	}
	var l lender
	go far.Write([]byte("de"))
	if buf, n, err := c.ReadWith(l.get, l.put); string(buf[:n]) != "de" || err != nil {
		t.Fatalf("ReadWith = %q, %v", buf[:n], err)
	}
	c.SetReadDeadline(time.Unix(1, 0))
	if err := c.WaitReadable(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("WaitReadable = %v, want a timeout", err)
	}
	c.SetReadDeadline(time.Time{})
	if err := c.CloseWrite(); !errors.Is(err, errors.ErrUnsupported) {
		t.Fatalf("CloseWrite = %v", err)
	}
	far.Close()
	if err := c.WaitReadable(); err != io.EOF {
		t.Fatalf("WaitReadable = %v, want EOF", err)
	}
}

func TestTLS(t *testing.T) {
	cert := certs.SelfSigned("peer")
	config := &tls.Config{ServerName: "localhost", RootCAs: certs.CertPool(cert), Certificates: []tls.Certificate{cert}}
	onEach(t, func(t *testing.T, c Conn, peer net.Conn) {
		server, client := tls.Server(c, config), tls.Client(peer, config)
		data := bytes.Repeat([]byte("0123456789abcdef"), 256<<10) // 4 MiB
		errs := make(chan error, 2)
		go func() {
			_, err := client.Write(data)
			errs <- err
		}()
		go func() {
			_, err := io.CopyN(server, server, int64(len(data)))
			errs <- errors.Join(err, server.CloseWrite())
		}()
		back, err := io.ReadAll(client)
		if err != nil || !bytes.Equal(back, data) {
			t.Fatalf("%d of %d bytes came back, %v", len(back), len(data), err)
		}
		if err := errors.Join(<-errs, <-errs); err != nil {
			t.Fatal(err)
		}
		// A read deadline that passes leaves the TLS connection whole.
		server.SetReadDeadline(time.Unix(1, 0))
		if _, err := server.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("Read = %v, want a timeout", err)
		}
		server.SetReadDeadline(time.Now().Add(long))
		go client.Write([]byte("x"))
		if n, err := server.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Fatalf("Read after a deadline = %d, %v", n, err)
		}
	})
}

func TestAllocations(t *testing.T) {
	near, far := socketPair(t, "tcp")
	a, b := Wrap(near), Wrap(far)
	out, in := make([]byte, 200), make([]byte, 4096)
	get, put := func() []byte { return in }, func([]byte) {}
	allocs := testing.AllocsPerRun(500, func() {
		if _, err := a.Write(out); err != nil {
			t.Fatal(err)
		}
		if err := b.WaitReadable(); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Read(in); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Write(out); err != nil {
			t.Fatal(err)
		}
		if _, _, err := a.ReadWith(get, put); err != nil {
			t.Fatal(err)
		}
		if a.Peek() != Quiet {
			t.Fatal("bytes left")
		}
	})
	if want := 0.0; hasRaw && allocs != want {
		t.Fatalf("%v allocations per round trip, want %v", allocs, want)
	}
}
