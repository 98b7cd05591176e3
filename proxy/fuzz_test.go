package proxy_test

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/proxy/startup"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/rewrite"
)

// pipeListener hands out the server ends of pipes.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) dial() net.Conn {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
	case <-l.done:
	}
	return client
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// obedient is a server that answers every frame with success, by the protocol.
// A pipe holds nothing, so it reads on while its answers wait to be taken.
func obedient(conn net.Conn) {
	defer conn.Close()
	answers := make(chan string, 64<<10)
	defer close(answers)
	go func() {
		for a := range answers {
			io.WriteString(conn, a) // an error shows at the next read
		}
	}()
	var h [5]byte
	for {
		if _, err := io.ReadFull(conn, h[:]); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(h[1:]))-4); err != nil {
			return
		}
		var out string
		const done, ready = "C\x00\x00\x00\x0dSELECT 1\x00", "Z\x00\x00\x00\x05I"
		switch h[0] {
		case 'Q':
			out = done + ready
		case 'P':
			out = "1\x00\x00\x00\x04"
		case 'B':
			out = "2\x00\x00\x00\x04"
		case 'D':
			out = "n\x00\x00\x00\x04"
		case 'E':
			out = done
		case 'C':
			out = "3\x00\x00\x00\x04"
		case 'F':
			out = "V\x00\x00\x00\x08\xff\xff\xff\xff" + ready
		case 'S':
			out = ready
		case 'X':
			return
		}
		answers <- out
	}
}

// startFake serves over pipes in front of backends that serve runs.
func startFake(t testing.TB, serve func(net.Conn)) (dial func() net.Conn, stop func()) {
	cfg := reservoir.Defaults()
	cfg.MaxOpen, cfg.TargetReady, cfg.CheckoutWait = 1, 0, time.Second
	cfg.RateLimit, cfg.BurstLimit = 1_000_000, 1_000_000
	dialed := func(context.Context, *reservoir.Startup) (*reservoir.Conn, error) {
		near, far := net.Pipe()
		go serve(far)
		return reservoir.NewConn(near), nil
	}
	backends, err := reservoir.New(cfg, dialed, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	planner, err := rewrite.New(rewrite.Config{MaxBytes: 64 << 10, MaxNesting: 100, CacheEntries: 100, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := proxy.New(proxy.Config{Kind: proxy.DSQL, Pairing: proxy.Transaction, Database: "postgres",
		Startup: startup.Config{Timeout: time.Second, Method: startup.Trust}, MaxClients: 1000, MaxPins: 1000,
		CancelGrace: time.Second, PreparedPerBackend: 4, PreparedPerClient: 8, PreparedTexts: 16,
		PreparedBytesPerClient: 256 << 10, PreparedTotalBytes: 1 << 20, MemoryBytesPerClient: 1 << 20, MemoryTotalBytes: 8 << 20,
		MaxStatementBytes: 64 << 10}, backends, planner, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan struct{})
	go func() { backends.Run(ctx); close(ran) }()
	ln := newPipeListener()
	go srv.Serve(ln)
	return ln.dial, func() {
		srv.Close()
		cancel()
		<-ran
	}
}

const startupFrame = "\x00\x00\x00\x13\x00\x03\x00\x00user\x00fuzz\x00\x00"

// FuzzClientFrames: whatever a client sends, its session ends when it leaves,
// and the next client is served.
func FuzzClientFrames(f *testing.F) {
	for _, s := range []string{
		"Q\x00\x00\x00\x0dSELECT 1\x00", "Q\x00\x00\x00\x0aBEGIN\x00Q\x00\x00\x00\x0bCOMMIT\x00",
		"P\x00\x00\x00\x10\x00SELECT 1\x00\x00\x00B\x00\x00\x00\x0c\x00\x00\x00\x00\x00\x00\x00\x00E\x00\x00\x00\x09\x00\x00\x00\x00\x00S\x00\x00\x00\x04",
		"P\x00\x00\x00\x11a\x00SELECT 1\x00\x00\x00D\x00\x00\x00\x07Sa\x00C\x00\x00\x00\x07Sa\x00H\x00\x00\x00\x04S\x00\x00\x00\x04",
		"B\x00\x00\x00\x0d\x00x\x00\x00\x00\x00\x00\x00\x00S\x00\x00\x00\x04", "d\x00\x00\x00\x05xc\x00\x00\x00\x04f\x00\x00\x00\x05\x00",
		"Q\x7f\xff\xff\xff", "F\x00\x00\x00\x04", "X\x00\x00\x00\x04", "Q\x00\x00\x00\x13SET timezone=1\x00",
	} {
		f.Add([]byte(s))
	}
	dial, stop := startFake(f, obedient)
	f.Cleanup(stop)
	f.Fuzz(func(t *testing.T, in []byte) {
		conn := dial()
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		go io.Copy(io.Discard, conn)
		io.WriteString(conn, startupFrame)
		conn.Write(in)
		conn.Close()

		next := dial()
		defer next.Close()
		next.SetDeadline(time.Now().Add(10 * time.Second))
		go io.WriteString(next, startupFrame+"Q\x00\x00\x00\x0dSELECT 1\x00")
		var seen strings.Builder
		buf := make([]byte, 4096)
		for strings.Count(seen.String(), "Z\x00\x00\x00\x05I") < 2 {
			n, err := next.Read(buf)
			if err != nil {
				t.Fatalf("the next client was not served: %v after %q", err, seen.String())
			}
			seen.Write(buf[:n])
		}
	})
}

// FuzzBackendFrames: whatever a server answers, the client gets well-formed
// frames or the end, and the next backend serves.
func FuzzBackendFrames(f *testing.F) {
	for _, s := range []string{
		"C\x00\x00\x00\x0dSELECT 1\x00Z\x00\x00\x00\x05I", "1\x00\x00\x00\x042\x00\x00\x00\x04n\x00\x00\x00\x04C\x00\x00\x00\x0dSELECT 1\x00Z\x00\x00\x00\x05I",
		"E\x00\x00\x00\x10SERROR\x00C1\x00\x00Z\x00\x00\x00\x05E", "E\x00\x00\x00\x10VFATAL\x00C1\x00\x00", "Z\x00\x00\x00\x05T",
		"G\x00\x00\x00\x07\x00\x00\x00", "D\x7f\x00\x00\x00", "S\x00\x00\x00\x08a\x00b\x00N\x00\x00\x00\x05\x00", "t\x00\x00\x00\x06\x00\x00",
		"T\x00\x00\x00\x06\x00\x00", "H\x00\x00\x00\x07\x00\x00\x00d\x00\x00\x00\x05xc\x00\x00\x00\x04",
	} {
		f.Add([]byte(s))
	}
	var mu sync.Mutex
	var answer []byte
	dial, stop := startFake(f, func(conn net.Conn) {
		defer conn.Close()
		mu.Lock()
		a := answer
		mu.Unlock()
		if a == nil {
			obedient(conn)
			return
		}
		conn.SetDeadline(time.Now().Add(3 * time.Millisecond)) // time for all of it to be read
		go conn.Write(a)
		io.Copy(io.Discard, conn)
	})
	f.Cleanup(stop)
	f.Fuzz(func(t *testing.T, in []byte) {
		mu.Lock()
		answer = append([]byte{}, in...)
		mu.Unlock()
		conn := dial()
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		go io.WriteString(conn, startupFrame+
			"P\x00\x00\x00\x10\x00SELECT 2\x00\x00\x00D\x00\x00\x00\x06S\x00B\x00\x00\x00\x0c\x00\x00\x00\x00\x00\x00\x00\x00E\x00\x00\x00\x09\x00\x00\x00\x00\x00S\x00\x00\x00\x04Q\x00\x00\x00\x0dSELECT 1\x00X\x00\x00\x00\x04")
		io.Copy(io.Discard, conn)
		conn.Close()
		mu.Lock()
		answer = nil
		mu.Unlock()
	})
}
