package matrix

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// refusal is an error that a server sent, with the statement that it was about.
type refusal struct {
	code, message, detail, hint, statement string
}

// recorder stands between an application and a server, passes everything on, and keeps what
// was refused.
type recorder struct {
	port   int
	server string // host:port

	mu      sync.Mutex
	refused []refusal
	// conflicts are the errors of conflicts, from the beginning on.
	conflicts []refusal
	closed    bool
	sessions  map[net.Conn]bool
}

// startRecorder listens until the test ends.
func startRecorder(tb testing.TB, server string) *recorder {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	r := &recorder{port: listener.Addr().(*net.TCPAddr).Port, server: server, sessions: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { r.serve(client) })
		}
	})
	tb.Cleanup(func() {
		listener.Close()
		r.mu.Lock()
		r.closed = true
		for c := range r.sessions {
			c.Close()
		}
		r.mu.Unlock()
		all.Wait()
	})
	return r
}

// take returns what was refused since the last call.
func (r *recorder) take() []refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	refused := r.refused
	r.refused = nil
	return refused
}

// otherRows is what Sluice says of a conflict where the application had rows that are others now: of a
// SELECT, or of an UPDATE with RETURNING, as Sequelize's increment is.
var otherRows = regexp.MustCompile(`Replay refused: the result of statement \d+ \((select|update)\) differs in its (values|size)`)

// differed returns the conflicts that an application was told, and how many of these say so.
func (r *recorder) differed() (all []refusal, rows int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conflicts {
		if otherRows.MatchString(c.detail) {
			rows++
		}
	}
	return r.conflicts, rows
}

// hold keeps a connection to be closed with the recorder; false when that is closed.
func (r *recorder) hold(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.sessions[c] = true
	}
	return !r.closed
}

func (r *recorder) drop(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sessions, c)
	c.Close()
}

func (r *recorder) serve(client net.Conn) {
	server, err := net.Dial("tcp", r.server)
	if err != nil {
		client.Close()
		return
	}
	defer r.drop(client)
	defer r.drop(server)
	if !r.hold(client) || !r.hold(server) {
		return
	}
	s := &session{recorder: r, statements: map[string]string{}}
	reader := bufio.NewReader(client)
	if s.start(reader, client, server) != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = frames(bufio.NewReader(server), client, s.answered)
		client.Close()
	}()
	_ = frames(reader, server, s.sent)
	// The answer to what was sent last may be on its way; a server closes behind a Terminate.
	if half, ok := server.(*net.TCPConn); ok {
		_ = half.CloseWrite()
	}
	<-done
}

// session is one connection through a recorder.
type session struct {
	recorder   *recorder
	mu         sync.Mutex
	statements map[string]string // prepared, by name
	last       string            // the text that was asked last
}

// Codes in the place of a protocol version.
const (
	sslRequest    = 80877103
	gssEncRequest = 80877104
)

var errStartup = errors.New("no startup message")

// start passes the startup message on. Encryption is declined: the recorder reads along.
func (s *session) start(client *bufio.Reader, reply, server io.Writer) error {
	for {
		var head [8]byte
		if _, err := io.ReadFull(client, head[:]); err != nil {
			return err
		}
		size, code := binary.BigEndian.Uint32(head[:]), binary.BigEndian.Uint32(head[4:])
		if size < 8 || size > 1<<16 {
			return errStartup
		}
		if code == sslRequest || code == gssEncRequest {
			if _, err := reply.Write([]byte{'N'}); err != nil {
				return err
			}
			continue
		}
		rest := make([]byte, size-8)
		if _, err := io.ReadFull(client, rest); err != nil {
			return err
		}
		_, err := server.Write(append(head[:], rest...))
		return err
	}
}

// frames passes messages on, each shown to see first.
func frames(from *bufio.Reader, to io.Writer, see func(kind byte, body []byte)) error {
	for {
		var head [5]byte
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return err
		}
		message := make([]byte, 5, 5+int(binary.BigEndian.Uint32(head[1:])))
		copy(message, head[:])
		message = message[:1+int(binary.BigEndian.Uint32(head[1:]))]
		if _, err := io.ReadFull(from, message[5:]); err != nil {
			return err
		}
		see(head[0], message[5:])
		if _, err := to.Write(message); err != nil {
			return err
		}
	}
}

// sent notes what statement a message of the client's is about.
func (s *session) sent(kind byte, body []byte) {
	first, rest, _ := strings.Cut(string(body), "\x00")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch kind {
	case 'Q':
		s.last = first
	case 'P':
		text, _, _ := strings.Cut(rest, "\x00")
		s.statements[first], s.last = text, text
	case 'B':
		name, _, _ := strings.Cut(rest, "\x00")
		s.last = s.statements[name]
	}
}

// answered notes errors.
func (s *session) answered(kind byte, body []byte) {
	if kind != 'E' {
		return
	}
	fields := map[byte]string{}
	for field := range strings.SplitSeq(string(body), "\x00") {
		if field != "" {
			fields[field[0]] = field[1:]
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	told := refusal{code: fields['C'], message: fields['M'], detail: fields['D'], hint: fields['H'], statement: s.last}
	s.recorder.refused = append(s.recorder.refused, told)
	if told.code == "40001" {
		s.recorder.conflicts = append(s.recorder.conflicts, told)
	}
}
