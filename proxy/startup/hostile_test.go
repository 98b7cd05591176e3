package startup

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// startupTape is a client that has said all it will ever say.
type startupTape struct {
	in     []byte
	out    bytes.Buffer
	reads  int
	piece  int // longest read, 0 for any
	closed bool

	deadlines []time.Time
}

func (c *startupTape) Read(b []byte) (int, error) {
	c.reads++
	if len(c.in) == 0 {
		return 0, io.EOF
	}
	if c.piece > 0 && len(b) > c.piece {
		b = b[:c.piece]
	}
	n := copy(b, c.in)
	c.in = c.in[n:]
	return n, nil
}

func (c *startupTape) SetDeadline(at time.Time) error {
	c.deadlines = append(c.deadlines, at)
	return nil
}

func (c *startupTape) Write(b []byte) (int, error)      { return c.out.Write(b) }
func (c *startupTape) Close() error                     { c.closed = true; return nil }
func (c *startupTape) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *startupTape) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *startupTape) SetReadDeadline(time.Time) error  { return nil }
func (c *startupTape) SetWriteDeadline(time.Time) error { return nil }

// The deadline is for the whole startup: a client that says one byte now and
// then does not move it.
func TestStartupSlowClients(t *testing.T) {
	scram := startupSCRAM(t, `"u" "x"`)
	packet := startupPacket(3, 0, "user", "u", "application_name", "slow as can be")
	for _, test := range []struct {
		name   string
		config Config
		at     []byte // said at once
		slowly []byte // then one byte each second
		mute   bool   // nothing can be told
	}{
		{name: "silent", config: startupConfig(Trust)},
		{name: "byte by byte", config: startupConfig(Trust), slowly: packet},
		{name: "between requests", config: startupConfig(Trust), at: startupSSL},
		{name: "silent in SCRAM", config: scram, at: packet},
		{name: "slow in SCRAM", config: scram, at: packet, slowly: []byte("p\x00\x00\x00\xffSCRAM-SHA-256")},
		{name: "silent in a handshake", config: startupTLSConfig(Trust), at: startupSSL, mute: true},
		{name: "slow in a handshake", config: startupTLSConfig(Trust), at: startupSSL,
			slowly: []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), mute: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := startupWith(t, test.config)
			s.timeout = 9500 * time.Millisecond
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				defer client.Close()
				said := make(chan []byte)
				go func() {
					all, _ := io.ReadAll(client)
					said <- all
				}()
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					client.Write(test.at)
					for i := range test.slowly {
						time.Sleep(time.Second)
						if _, err := client.Write(test.slowly[i : i+1]); err != nil {
							return
						}
					}
				}()
				start := time.Now()
				h, err := s.Run(rawconn.Wrap(server))
				if took := time.Since(start); took != s.timeout {
					t.Errorf("startup ended after %s, want %s", took, s.timeout)
				}
				if h != nil || err != error(ErrTimeout) {
					t.Errorf("run = %v, %v", h, err)
				}
				server.Close()
				<-gone
				if told := bytes.HasSuffix(<-said, ErrTimeout.Append(nil)); told == test.mute {
					t.Errorf("client told: %v", told)
				}
			})
		})
	}
}

// A refused client that reads nothing costs a bounded time.
func TestStartupRefusesDeafClient(t *testing.T) {
	s := startupWith(t, startupConfig(Trust))
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer client.Close()
		go client.Write([]byte{0, 0, 0, 1})
		start := time.Now()
		_, err := s.Run(rawconn.Wrap(server))
		if took := time.Since(start); err != error(errStartupLength) || took != RefusalTimeout {
			t.Errorf("run = %v after %s, want %v after %s", err, took, errStartupLength, RefusalTimeout)
		}
	})
}

// Whatever the pieces it comes in, a startup is the same.
func TestStartupInPieces(t *testing.T) {
	s := startupWith(t, startupConfig(Trust))
	for _, piece := range []int{1, 2, 3, 7, 1000} {
		conn := &startupTape{in: startupPacket(3, 2, "user", "u", "options", "-c a=b"), piece: piece}
		h, err := s.Run(rawconn.WrapPlain(conn))
		if err != nil || h.User != "u" || h.Params["a"] != "b" {
			t.Errorf("pieces of %d: %+v, %v", piece, h, err)
		}
	}
}

// A startup gives its buffer back, in whichever way it ends.
func TestStartupReleasesBuffer(t *testing.T) {
	s := startupWith(t, startupConfig(Trust))
	for name, in := range map[string][]byte{
		"welcome": startupPacket(3, 0, "user", "u"),
		"refused": startupPacket(3, 0),
		"cancel":  startupCancel(4),
		"cut":     startupSSL[:5],
	} {
		const runs = 500
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			s.Run(rawconn.WrapPlain(&startupTape{in: in}))
		}
		runtime.ReadMemStats(&after)
		// The race detector makes a sync.Pool lose every fourth.
		if each := (after.TotalAlloc - before.TotalAlloc) / runs; each > wire.BufferSize/2 {
			t.Errorf("%s: %d bytes allocated by each startup", name, each)
		}
	}
}

func BenchmarkStartup(b *testing.B) {
	s := startupWith(b, startupConfig(Trust))
	in := startupPacket(3, 0, "user", "u", "database", "d", "application_name", "psql", "client_encoding", "UTF8")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Run(rawconn.WrapPlain(&startupTape{in: in})); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzStartup(f *testing.F) {
	for _, seed := range [][]byte{
		nil, startupSSL, startupGSS, startupCancel(4), startupCancel(256), startupCancel(300),
		startupPacket(3, 0, "user", "u", "database", "d", "options", `-c a=b --c=\ d`),
		startupPacket(3, 9999, "user", "u", "_pq_.x", "y", "replication", "1"),
		append(bytes.Clone(startupSSL), startupPacket(3, 0, "user", "u")...),
		[]byte("\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"),
		append(startupPacket(3, 0, "user", "u"), "p\x00\x00\x00\x36SCRAM-SHA-256\x00\x00\x00\x00\x20n,,n=,r=rOprNGfwEbeRWgbNEkqO"...),
		[]byte("\xff\xff\xff\xff"), []byte("\x00\x00\x00\x08"), []byte("\x00\x00"),
	} {
		for mode := range byte(4) {
			f.Add(seed, mode, byte(0))
			f.Add(seed, mode, byte(3))
		}
	}
	startups := []*Handshaker{
		startupWith(f, startupConfig(Trust)),
		startupWith(f, startupSCRAM(f, `"u" "x"`)),
		startupWith(f, startupTLSConfig(Trust)),
		startupWith(f, startupTLSConfig(Cert)),
	}
	f.Fuzz(func(t *testing.T, in []byte, mode, piece byte) {
		s := startups[int(mode)%len(startups)]
		conn := &startupTape{in: bytes.Clone(in), piece: int(piece)}
		h, err := s.Run(rawconn.WrapPlain(conn))
		checkFuzzedStartup(t, in, conn, h, err)
	})
}

// checkFuzzedStartup holds a startup to what must be true of any.
func checkFuzzedStartup(t *testing.T, in []byte, conn *startupTape, h *Client, err error) {
	t.Helper()
	if (h == nil) == (err == nil) {
		t.Fatalf("client %+v and error %v", h, err)
	}
	if conn.closed {
		t.Fatal("the connection is the caller's to close")
	}
	if n := conn.out.Len(); n > 2*maxStartupPacket {
		t.Fatalf("%d bytes said to %d bytes", n, len(in))
	}
	var told *wire.Error
	switch {
	case errors.As(err, &told):
		if !told.Fatal || told.Code == "" || told.Message == "" {
			t.Fatalf("refused with %+v", told)
		}
		if !bytes.HasSuffix(conn.out.Bytes(), told.Append(nil)) {
			t.Fatalf("the client was not told %v", told)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a tape has no deadline")
		}
	case err != nil:
	case h.Cancel != nil:
		if n := len(h.Cancel.Secret); n < 4 || n > 256 || h.User != "" {
			t.Fatalf("cancel %+v", h)
		}
	default:
		if h.User == "" || h.Database == "" || h.Protocol != pgproto3.ProtocolVersion30 && h.Protocol != pgproto3.ProtocolVersion32 {
			t.Fatalf("client %+v", h)
		}
		if !bytes.HasSuffix(in, append(bytes.Clone(h.Rest), conn.in...)) {
			t.Fatalf("rest %q and unread %q of %q", h.Rest, conn.in, in)
		}
	}
}
