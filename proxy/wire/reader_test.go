package wire

import (
	"bytes"
	"io"
	"net"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-proxy/sluice/integration/sockets"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
)

// connected returns a Reader of one end of a TCP connection, and the other end.
func connected(t *testing.T) (*Reader, net.Conn) {
	t.Helper()
	server, client := sockets.ConnPair(t, "tcp")
	raw := rawconn.Wrap(server)
	r := NewReader(raw, raw)
	return &r, client
}

// frames draws frames of many sizes, and their bytes in one.
func frames(t *rapid.T) (all [][]byte, stream []byte) {
	for range rapid.IntRange(1, 8).Draw(t, "frames") {
		n := rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(BufferSize-20, BufferSize+20), rapid.IntRange(0, 3*BufferSize)).Draw(t, "size")
		frame := AppendHeader(nil, rapid.SampledFrom([]byte("QPBDESH")).Draw(t, "type"), n)
		for i := range n {
			frame = append(frame, byte(i*7+len(stream)))
		}
		all, stream = append(all, frame), append(stream, frame...)
	}
	return all, stream
}

// However the bytes arrive, and whichever way they are read, the frames are those sent.
func TestReaderReturnsWhatWasSent(t *testing.T) {
	r, peer := connected(t)
	rapid.Check(t, func(t *rapid.T) {
		all, stream := frames(t)
		go func(chunk int) {
			for len(stream) > 0 {
				n, err := peer.Write(stream[:min(chunk, len(stream))])
				if err != nil {
					return
				}
				stream = stream[n:]
			}
		}(rapid.IntRange(1, 2*BufferSize).Draw(t, "chunk"))
		for _, want := range all {
			if rapid.Bool().Draw(t, "idle") {
				if err := r.WaitIdle(); err != nil {
					t.Fatal(err)
				}
			}
			total := 0
			for total == 0 {
				typ, n, err := r.NextHeader()
				if err != nil {
					t.Fatal(err)
				}
				if total = n; n > 0 && typ != want[0] {
					t.Fatalf("type %q, want %q", typ, want[0])
				}
				if n == 0 {
					if err := r.Fill(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got := read(t, r, total); !bytes.Equal(got, want) {
				t.Fatalf("%d bytes of %q, want %d of %q, or they differ", len(got), got[0], len(want), want[0])
			}
			r.ReleaseBuffer()
		}
		if r.Buffered() != 0 || r.buf != nil {
			t.Fatalf("%d bytes are left, and a buffer of %d", r.Buffered(), len(r.buf))
		}
	})
}

// read takes a frame of total bytes: whole, in pieces, or read ahead in place.
func read(t *rapid.T, r *Reader, total int) (frame []byte) {
	switch rapid.IntRange(0, 2).Draw(t, "way") {
	case 0:
		r.Grow(total)
		for r.Buffered() < total {
			if err := r.Fill(); err != nil {
				t.Fatal(err)
			}
		}
	case 1:
		if total > BufferSize {
			break
		}
		r.MakeRoom(total)
		for r.Buffered() < total {
			first := r.Pos()
			if r.IsFull() || !r.EnsureRoom() {
				t.Fatalf("no room for %d of %d bytes", total-r.Buffered(), total)
			}
			if _, err := r.ReadMore(); err != nil {
				t.Fatal(err)
			}
			if r.Pos() != first {
				t.Fatal("what is unread has moved")
			}
		}
	}
	start := r.Pos()
	for len(frame) < total {
		if r.Buffered() == 0 {
			if err := r.Fill(); err != nil {
				t.Fatal(err)
			}
			start = r.Pos()
		}
		n := min(total-len(frame), r.Buffered())
		piece := r.Peek(n)
		r.Advance(n)
		if since := r.BytesSince(start); !bytes.Equal(since, piece) || !bytes.Equal(r.BytesBetween(start, start+n), piece) {
			t.Fatal("since and between differ from what was read")
		}
		frame, start = append(frame, piece...), r.Pos()
	}
	return frame
}

// A buffer that was detached is the caller's; what is put back is read first.
func TestReaderDetachAndPutBack(t *testing.T) {
	r, peer := connected(t)
	r.PutBack([]byte("ab"))
	if got := string(r.Peek(2)); got != "ab" {
		t.Fatal(got)
	}
	r.Advance(2)
	kept := r.BytesSince(0)
	buf := r.Detach()
	if _, err := peer.Write([]byte("cd")); err != nil {
		t.Fatal(err)
	}
	if err := r.Fill(); err != nil || string(r.Peek(2)) != "cd" || string(kept) != "ab" {
		t.Fatalf("%v: %q, detached %q", err, r.Peek(r.Buffered()), kept)
	}
	PutBuffer(buf)
	r.DropBuffer()
	peer.Close()
	if err := r.Fill(); err != io.EOF {
		t.Fatal(err)
	}
}

// A buffer is yielded with the frame that was read last, and only where nothing is unread behind it.
func TestReaderYields(t *testing.T) {
	frame := AppendStrings(nil, Query, "SELECT 1")
	var r Reader
	r.PutBack(append(bytes.Clone(frame), frame...))
	first := r.Peek(len(frame))
	r.Advance(len(frame))
	if r.DetachFrame(first) != nil {
		t.Fatal("a buffer was yielded with a frame unread")
	}
	last := r.Peek(len(frame))
	r.Advance(len(frame))
	for name, other := range map[string][]byte{"the one before": first, "a copy": bytes.Clone(last), "none": nil, "one too long": bytes.Repeat(frame, 3)} {
		if r.DetachFrame(other) != nil {
			t.Errorf("a buffer was yielded with %s", name)
		}
	}
	buf := r.DetachFrame(last)
	if len(buf) != BufferSize || !bytes.Equal(last, frame) || r.buf != nil {
		t.Fatalf("yielded %d bytes, frame %q", len(buf), last)
	}
	PutBuffer(buf)
}

// Terminate is found wherever it stands among the unread frames, and only at a frame's
// beginning.
func TestReaderTerminates(t *testing.T) {
	bye := []byte{Terminate, 0, 0, 0, 4}
	sync := FrameSync
	inside := AppendStrings(nil, Query, string(bye))
	for _, c := range []struct {
		bytes       []byte
		first, some bool
	}{
		{nil, false, false}, {bye, true, true}, {append(bytes.Clone(sync), bye...), false, true}, {inside, false, false},
		{bye[:4], false, false}, {append(bytes.Clone(inside[:9]), bye...), false, false}, {[]byte{Terminate, 0, 0, 0, 5, 0}, false, false},
		{append([]byte{Sync, 0, 0, 0, 1}, bye...), false, false},
	} {
		var r Reader
		r.PutBack(c.bytes)
		if first, some := r.HasTerminate(); first != c.first || some != c.some {
			t.Errorf("%q: %v %v, want %v %v", c.bytes, first, some, c.first, c.some)
		}
		r.DropBuffer()
	}
}

// No bytes make the reader of headers panic or return a length that cannot be.
func FuzzHeader(f *testing.F) {
	f.Add([]byte{Query, 0, 0, 0, 4})
	f.Add([]byte{Query, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{Query, 0, 0, 0, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Reader
		r.PutBack(b[:min(len(b), BufferSize)])
		for r.Buffered() > 0 {
			_, total, err := r.NextHeader()
			if err != nil || total == 0 {
				break
			}
			if total < HeaderLen || total > maxFrame+1 {
				t.Fatalf("total %d", total)
			}
			r.Advance(min(total, r.Buffered()))
		}
		r.HasTerminate()
		r.DropBuffer()
	})
}
