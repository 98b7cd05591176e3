package proxy_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// cutRelay stands between Sluice and PostgreSQL. Once armed it lets so many frames
// through to the server, waits until the server has answered all of them, lets so
// many of the answers to the last through, and ends the connection.
type cutRelay struct {
	listener
	target string

	mu        sync.Mutex
	armed     *relayCut
	victim    net.Conn
	sent      int // frames, by the victim
	cuts      int
	available int           // answers that the last cut had
	ended     chan struct{} // closed when the connection that was cut is
	spare     []*cutServer
}

// cutServer is a connection to PostgreSQL. It is used again when its client was cut off:
// a million processes of the server would take hours.
type cutServer struct {
	net.Conn
	in    *bufio.Reader
	hello [][]byte // what it said at its start
}

// borrow returns a connection to the server.
func (r *cutRelay) borrow(startup []byte) (*cutServer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.spare); n > 0 {
		s := r.spare[n-1]
		r.spare = r.spare[:n-1]
		return s, nil
	}
	conn, err := net.Dial("tcp", r.target)
	if err != nil {
		return nil, err
	}
	s := &cutServer{Conn: conn, in: bufio.NewReader(conn)}
	s.Write(startup)
	s.hello, err = s.toReady()
	return s, err
}

// toReady returns the server's frames up to a ReadyForQuery.
func (s *cutServer) toReady() (frames [][]byte, err error) {
	for {
		f, err := readFrame(s.in)
		if err != nil {
			return nil, err
		}
		if frames = append(frames, f); f[0] == 'Z' {
			return frames, nil
		}
	}
}

// recycle does what the end of a connection does, and keeps the connection: what runs
// outside a block fails, a block is rolled back, and nothing is left of the session.
func (r *cutRelay) recycle(s *cutServer) {
	ends, _ := (&pgproto3.Bind{PreparedStatement: "no_such_statement"}).Encode(nil)
	ends, _ = (&pgproto3.Sync{}).Encode(ends)
	ends, _ = (&pgproto3.Query{String: "ROLLBACK"}).Encode(ends)
	ends, _ = (&pgproto3.Query{String: "DISCARD ALL"}).Encode(ends)
	s.Write(ends)
	for range 3 {
		if _, err := s.toReady(); err != nil {
			s.Close()
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spare = append(r.spare, s)
}

type relayCut struct{ frames, replies int }

func startCutRelay(t *testing.T, target string) *cutRelay {
	t.Helper()
	r := &cutRelay{target: target}
	t.Cleanup(func() {
		for _, s := range r.spare {
			s.Close()
		}
	})
	r.listener = startListener(t, r.serve) // it ends first
	return r
}

// arm plans a cut; disarm takes it back, and reports whether it was made and what
// answers it had.
func (r *cutRelay) arm(c relayCut) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed, r.victim, r.sent, r.cuts, r.available = &c, nil, 0, 0, 0
}

func (r *cutRelay) disarm() (made bool, available int) {
	r.mu.Lock()
	if r.cuts > 0 {
		r.mu.Unlock()
		<-r.ended
		r.mu.Lock()
	}
	defer r.mu.Unlock()
	r.armed = nil
	return r.cuts > 0, r.available
}

// due counts a frame that is sent on a connection, and reports whether the cut is planned
// in front of it or behind it. The first connection that sends something is the one to cut.
func (r *cutRelay) due(conn net.Conn) (before, behind bool, replies int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.armed == nil || r.victim != nil && r.victim != conn {
		return false, false, 0
	}
	r.victim = conn
	r.sent++
	return r.armed.frames == 0, r.sent == r.armed.frames, r.armed.replies
}

func (r *cutRelay) made(available int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed, r.cuts, r.available, r.ended = nil, r.cuts+1, available, make(chan struct{})
}

func readFrame(in io.Reader) ([]byte, error) {
	var h [5]byte
	if _, err := io.ReadFull(in, h[:]); err != nil {
		return nil, err
	}
	f := make([]byte, 1+binary.BigEndian.Uint32(h[1:]))
	copy(f, h[:])
	_, err := io.ReadFull(in, f[5:])
	return f, err
}

// serve relays one connection, frame by frame.
func (r *cutRelay) serve(client net.Conn) {
	defer client.Close()
	var length [4]byte
	if _, err := io.ReadFull(client, length[:]); err != nil {
		return
	}
	startup := make([]byte, binary.BigEndian.Uint32(length[:]))
	copy(startup, length[:])
	if _, err := io.ReadFull(client, startup[4:]); err != nil {
		return
	}
	if binary.BigEndian.Uint32(startup[4:]) == 80877102 { // a cancel
		if server, err := net.Dial("tcp", r.target); err == nil {
			server.Write(startup)
			io.Copy(io.Discard, server)
			server.Close()
		}
		return
	}
	server, err := r.borrow(startup)
	if err != nil {
		return
	}
	end := func() { server.Close() }
	defer func() { end() }()
	cut := func() {
		client.Close()
		close(r.ended)
		r.recycle(server)
	}
	skipping, closes := false, 0
	// answers are all that the server has to say to what it was sent, last a frame of that type.
	answers := func(typ byte) (out [][]byte) {
		last, count := byte('Z'), 1
		switch {
		case skipping && typ != 'S':
			return nil
		case typ != 'S' && typ != 'Q':
			server.Write(append([]byte{'C', 0, 0, 0, 8, 'S', 'z', 'z', 0}, 'H', 0, 0, 0, 4))
			last, count = '3', closes+1
		}
		closes, skipping = 0, false
		for {
			f, err := readFrame(server.in)
			if err != nil {
				return out
			}
			if f[0] == last {
				if count--; count == 0 && last == '3' {
					return out
				}
			}
			out = append(out, f)
			if f[0] == 'Z' {
				return out
			}
			if f[0] == 'E' && last == '3' {
				skipping = true
				return out
			}
		}
	}
	pass := func(frames [][]byte) { client.Write(bytes.Join(frames, nil)) }
	pass(server.hello)
	in, grouped := bufio.NewReader(client), false
	for {
		f, err := readFrame(in)
		if err != nil || f[0] == 'X' {
			return
		}
		before, behind, replies := r.due(client)
		if before {
			r.made(0)
			end = cut
			return
		}
		// A server that skips does not answer a Query: whether it does must be known before.
		var earlier [][]byte
		if f[0] == 'Q' && grouped {
			earlier = answers('P')
		}
		server.Write(f)
		if f[0] == 'C' {
			closes++
		}
		grouped = !strings.ContainsRune("SQ", rune(f[0])) || f[0] == 'Q' && skipping
		if behind {
			out := append(earlier, answers(f[0])...)
			r.made(len(out))
			end = cut
			pass(out[:min(replies, len(out))])
			return
		}
		if strings.ContainsRune("SQH", rune(f[0])) {
			pass(append(earlier, answers(f[0])...))
		}
	}
}
