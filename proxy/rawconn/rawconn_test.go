package rawconn

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/sockets"
)

// long is the deadline of what must happen; no test waits for it to pass.
const long = 20 * time.Second

// layers are the two implementations that every test runs on.
var layers = []struct {
	name string
	wrap func(net.Conn) Conn
}{{"raw", Wrap}, {"plain", WrapPlain}}

// onEach runs a test on both layers over TCP, over a Unix socket, and over what a Listener has accepted.
func onEach(t *testing.T, test func(t *testing.T, c Conn, peer net.Conn)) {
	t.Helper()
	for _, layer := range layers {
		for _, network := range []string{"tcp", "unix", "listener"} {
			t.Run(layer.name+"/"+network, func(t *testing.T) {
				t.Parallel()
				near, far := socketPair(t, network)
				c := layer.wrap(near)
				if _, plain := c.(*plainConn); plain != (layer.name == "plain" || !hasRaw) {
					t.Fatalf("%s layer is %T", layer.name, c)
				}
				test(t, c, far)
			})
		}
	}
}

// hasRaw says that this system has the raw layer.
var hasRaw = runtime.GOOS == "linux" && (runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64")

func socketPair(t testing.TB, network string) (near, far net.Conn) {
	t.Helper()
	if network == "listener" {
		near, far = pairOf(t, listening(t, "127.0.0.1:0"))
	} else {
		near, far = sockets.ConnPair(t, network)
	}
	for _, c := range []net.Conn{near, far} {
		if err := c.SetDeadline(time.Now().Add(long)); err != nil {
			t.Fatal(err)
		}
	}
	return near, far
}

// pairOf is a connection that a listener has accepted, and its peer.
func pairOf(t testing.TB, ln net.Listener) (near, far net.Conn) {
	t.Helper()
	far, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if near, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

func listening(t testing.TB, address string) net.Listener {
	t.Helper()
	ln, err := Listen(address, net.KeepAliveConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

func TestReadAndWrite(t *testing.T) {
	onEach(t, func(t *testing.T, c Conn, peer net.Conn) {
		if n, err := c.Write([]byte("ping")); n != 4 || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
		buf := make([]byte, 16)
		if n, err := peer.Read(buf); string(buf[:n]) != "ping" || err != nil {
			t.Fatalf("peer read %q, %v", buf[:n], err)
		}
		if _, err := peer.Write([]byte("pong")); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(buf); string(buf[:n]) != "pong" || err != nil {
			t.Fatalf("Read = %q, %v", buf[:n], err)
		}
		if n, err := c.Read(nil); n != 0 || err != nil {
			t.Fatalf("Read(nil) = %d, %v", n, err)
		}
		if n, err := c.Write(nil); n != 0 || err != nil {
			t.Fatalf("Write(nil) = %d, %v", n, err)
		}
		if c.NetConn().LocalAddr().String() != c.LocalAddr().String() {
			t.Fatal("NetConn is another connection")
		}
		peer.Close()
		if n, err := c.Read(buf); n != 0 || err != io.EOF {
			t.Fatalf("Read at the end = %d, %v; want io.EOF itself", n, err)
		}
	})
}

func TestLargeTransfersBothWays(t *testing.T) {
	const size = 32 << 20
	onEach(t, func(t *testing.T, c Conn, peer net.Conn) {
		var seed [32]byte
		data := make([]byte, size)
		rand.NewChaCha8(seed).Read(data)
		want := sha256.Sum256(data)

		errs := make(chan error, 2)
		go func() { // the peer echoes, in pieces of its own size
			_, err := io.CopyBuffer(struct{ io.Writer }{peer}, struct{ io.Reader }{peer}, make([]byte, 100_003))
			errs <- err
		}()
		go func() {
			_, err := c.Write(data)
			errs <- err
		}()
		hash, buf, total := sha256.New(), make([]byte, 300<<10), 0
		for total < size {
			n, err := c.Read(buf)
			if err != nil {
				t.Fatalf("after %d bytes: %v", total, err)
			}
			if _, raw := c.(*plainConn); !raw && n > 64<<10 {
				t.Fatalf("one call read %d bytes", n)
			}
			hash.Write(buf[:n])
			total += n
		}
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(hash.Sum(nil), want[:]) {
			t.Fatal("what came back is not what was sent")
		}
		c.Close()
		<-errs
	})
}

// A slow reader makes a Write park and go on, many times over.
func TestWriteToSlowReader(t *testing.T) {
	onEach(t, func(t *testing.T, c Conn, peer net.Conn) {
		const size = 8 << 20
		got := make(chan int, 1)
		go func() {
			buf, total := make([]byte, 4<<10), 0
			for {
				n, err := peer.Read(buf)
				total += n
				if err != nil {
					got <- total
					return
				}
				runtime.Gosched()
			}
		}()
		if n, err := c.Write(make([]byte, size)); n != size || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if n := <-got; n != size {
			t.Fatalf("the reader got %d of %d bytes", n, size)
		}
	})
}

func TestHalfClose(t *testing.T) {
	onEach(t, func(t *testing.T, c Conn, peer net.Conn) {
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if n, err := peer.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Fatalf("peer read %d, %v; want EOF", n, err)
		}
		if _, err := peer.Write([]byte("late")); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 8)
		if n, err := c.Read(buf); string(buf[:n]) != "late" || err != nil {
			t.Fatalf("Read after CloseWrite = %q, %v", buf[:n], err)
		}
		if n, err := c.Write([]byte("x")); n != 0 || !errors.Is(err, syscall.EPIPE) {
			t.Fatalf("Write after CloseWrite = %d, %v; want EPIPE", n, err)
		}
	})
}

func TestDeadlines(t *testing.T) {
	past := time.Unix(1, 0)
	calls := []struct {
		name string
		call func(Conn) error
	}{
		{"read", func(c Conn) error { _, err := c.Read(make([]byte, 1)); return err }},
		{"read", func(c Conn) error { _, _, err := c.ReadWith(oneByte, drop); return err }},
		{"read", Conn.WaitReadable},
		{"write", func(c Conn) error { _, err := c.Write(make([]byte, 64<<20)); return err }},
	}
	onEach(t, func(t *testing.T, c Conn, _ net.Conn) {
		for _, op := range calls {
			// Passed before the call, and passing while it is parked.
			for _, parked := range []bool{false, true} {
				if err := c.SetDeadline(time.Now().Add(long)); err != nil {
					t.Fatal(err)
				}
				failed := make(chan error, 1)
				if !parked {
					c.SetDeadline(past)
				}
				go func() { failed <- op.call(c) }()
				if parked {
					time.Sleep(10 * time.Millisecond) // gives it the chance to park
					c.SetDeadline(past)
				}
				checkOpError(t, <-failed, op.name, os.ErrDeadlineExceeded)
			}
		}
		// Nothing is lost by a deadline: the connection lives on.
		c.SetDeadline(time.Now().Add(long))
		if c.Peek() != Quiet {
			t.Fatalf("Peek = %v after deadlines", c.Peek())
		}
	})
}

func TestCloseWakesParkedCalls(t *testing.T) {
	calls := []struct {
		name string
		call func(Conn) error
	}{
		{"read", func(c Conn) error { _, err := c.Read(make([]byte, 1)); return err }},
		{"read", func(c Conn) error { _, _, err := c.ReadWith(oneByte, drop); return err }},
		{"read", Conn.WaitReadable},
		{"write", func(c Conn) error { _, err := c.Write(make([]byte, 64<<20)); return err }},
	}
	for _, op := range calls {
		onEach(t, func(t *testing.T, c Conn, _ net.Conn) {
			failed := make(chan error, 1)
			go func() { failed <- op.call(c) }()
			time.Sleep(10 * time.Millisecond) // gives it the chance to park
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			checkOpError(t, <-failed, op.name, net.ErrClosed)
			checkOpError(t, op.call(c), op.name, net.ErrClosed)
			if got := c.Peek(); got != Closed {
				t.Fatalf("Peek after Close = %v", got)
			}
		})
	}
}

// checkOpError holds an error to the form that package net gives its own.
func checkOpError(t *testing.T, err error, op string, cause error) {
	t.Helper()
	var e *net.OpError
	if !errors.As(err, &e) || !errors.Is(err, cause) {
		t.Fatalf("%s failed with %v (%T), want an OpError of %v", op, err, err, cause)
	}
	if e.Op != op || e.Net == "" || e.Source == nil || e.Addr == nil {
		t.Fatalf("OpError %+v, want Op %s and both addresses", e, op)
	}
	if want := cause == os.ErrDeadlineExceeded; e.Timeout() != want {
		t.Fatalf("Timeout() = %v, want %v", e.Timeout(), want)
	}
}

func TestReset(t *testing.T) {
	for _, layer := range layers {
		t.Run(layer.name, func(t *testing.T) {
			t.Parallel()
			near, far := socketPair(t, "tcp")
			c := layer.wrap(near)
			far.(*net.TCPConn).SetLinger(0) // Close sends a reset
			far.Close()
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Fatalf("Read = %v, want ECONNRESET", err)
			}
			if got := c.Peek(); got != Closed {
				t.Fatalf("Peek = %v", got)
			}
		})
	}
}

// Broken tells a connection that failed from one whose peer has ended its half, once
// the peer was written to.
func TestBroken(t *testing.T) {
	onEach(t, func(t *testing.T, c Conn, peer net.Conn) {
		if c.Broken() {
			t.Fatal("broken from the start")
		}
		peer.(interface{ CloseWrite() error }).CloseWrite()
		if err := c.WaitReadable(); err != nil || c.Peek() != Closed {
			t.Fatalf("WaitReadable = %v, Peek = %v", err, c.Peek())
		}
		for range 3 {
			if _, err := c.Write([]byte("x")); err != nil || c.Broken() {
				t.Fatalf("its half has ended: Write = %v", err)
			}
		}
		peer.Close() // with bytes unread
		broken := false
		for end := time.Now().Add(long); !broken; {
			_, err := c.Write([]byte("x"))
			if broken = err != nil || c.Broken(); !broken && time.Now().After(end) {
				t.Fatal("not broken")
			}
		}
		c.Close()
		if !c.Broken() {
			t.Fatal("closed on this side, and not broken")
		}
	})
}

func TestPeek(t *testing.T) {
	onEach(t, func(t *testing.T, c Conn, peer net.Conn) {
		if got := c.Peek(); got != Quiet {
			t.Fatalf("Peek at an idle connection = %v", got)
		}
		peer.Write([]byte("ab"))
		if err := c.WaitReadable(); err != nil {
			t.Fatal(err)
		}
		peer.Close()
		for _, want := range []string{"a", "b"} { // neither Peek nor WaitReadable took a byte
			if got := c.Peek(); got != Readable {
				t.Fatalf("Peek before %q = %v", want, got)
			}
			buf := make([]byte, 1)
			if _, err := c.Read(buf); string(buf) != want || err != nil {
				t.Fatalf("Read = %q, %v, want %q", buf, err, want)
			}
		}
		if err := c.WaitReadable(); err != nil { // the end of the stream can be read
			t.Fatal(err)
		}
		if got := c.Peek(); got != Closed {
			t.Fatalf("Peek at the end = %v", got)
		}
	})
}

// Peek may run while another goroutine is parked in Write.
func TestPeekDuringWrite(t *testing.T) {
	onEach(t, func(t *testing.T, c Conn, peer net.Conn) {
		done := make(chan error, 1)
		go func() { _, err := c.Write(make([]byte, 16<<20)); done <- err }()
		for range 1000 {
			if got := c.Peek(); got != Quiet {
				t.Fatalf("Peek = %v", got)
			}
		}
		go io.Copy(io.Discard, peer)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func oneByte() []byte { return make([]byte, 1) }
func drop([]byte)     {}

// lender counts the buffers that ReadWith holds.
type lender struct{ gets, puts atomic.Int64 }

func (l *lender) get() []byte  { l.gets.Add(1); return make([]byte, 8) }
func (l *lender) put(b []byte) { l.puts.Add(1) }

func TestReadWith(t *testing.T) {
	onEach(t, func(t *testing.T, c Conn, peer net.Conn) {
		var l lender
		peer.Write([]byte("hello"))
		buf, n, err := c.ReadWith(l.get, l.put)
		if string(buf[:n]) != "hello" || len(buf) != 8 || err != nil {
			t.Fatalf("ReadWith = %q, %d, %v", buf, n, err)
		}
		if out := l.gets.Load() - l.puts.Load(); out != 1 {
			t.Fatalf("%d buffers out, want the one returned", out)
		}
		peer.Close()
		buf, n, err = c.ReadWith(l.get, l.put)
		if buf != nil || n != 0 || err != io.EOF {
			t.Fatalf("ReadWith at the end = %v, %d, %v", buf, n, err)
		}
		if out := l.gets.Load() - l.puts.Load(); out != 1 {
			t.Fatalf("%d buffers out after the end, want 1", out)
		}
	})
}

// While it waits, the raw layer holds no buffer.
func TestReadWithIdle(t *testing.T) {
	if !hasRaw {
		return // the plain layer's contract allows one
	}
	near, far := socketPair(t, "tcp")
	c := Wrap(near)
	var l lender
	type result struct {
		text string
		err  error
	}
	got := make(chan result, 1)
	go func() {
		buf, n, err := c.ReadWith(l.get, l.put)
		got <- result{string(buf[:n]), err}
	}()
	for l.puts.Load() == 0 { // until it met nothing
		runtime.Gosched()
	}
	if l.gets.Load() != l.puts.Load() {
		t.Fatalf("%d buffers held by an idle connection", l.gets.Load()-l.puts.Load())
	}
	far.Write([]byte("wake"))
	if r := <-got; r.text != "wake" || r.err != nil {
		t.Fatalf("ReadWith = %+v", r)
	}
}

func TestStateString(t *testing.T) {
	for state, want := range map[State]string{Quiet: "quiet", Readable: "readable", Closed: "closed"} {
		if state.String() != want {
			t.Errorf("%d is %q, want %q", state, state, want)
		}
	}
}
