package proxy_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
)

// shortener cuts one frame of a server's answer short: its length says so, and so it is a frame
// by the protocol that lacks a part of its payload. Frames are counted by all its connections,
// from when it is armed on.
type shortener struct {
	mu    sync.Mutex
	armed bool
	at    int // the frame that is cut, from 0; -1 for none
	keep  int // bytes of its payload that stay
	count int
	// types and lengths are of the frames since it was armed.
	types   []byte
	lengths []int
}

func (s *shortener) arm(at, keep int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed, s.at, s.keep, s.count, s.types, s.lengths = true, at, keep, 0, nil, nil
}

func (s *shortener) disarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = false
}

// frame is the frame as the proxy gets it.
func (s *shortener) frame(b []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.armed {
		return b
	}
	s.types, s.lengths = append(s.types, b[0]), append(s.lengths, len(b)-5)
	if s.count++; s.count-1 == s.at && s.keep < len(b)-5 {
		b = b[:5+s.keep]
		binary.BigEndian.PutUint32(b[1:], uint32(4+s.keep))
	}
	return b
}

// option has connections pass through the shortener.
func (s *shortener) option(set *setup) {
	set.dial.Wrap = func(c net.Conn) net.Conn { return rawconn.WrapPlain(&shortened{Conn: c, s: s}) }
}

// shortened is a connection whose server's frames pass one by one.
type shortened struct {
	net.Conn
	s   *shortener
	mu  sync.Mutex // a driver that gives a connection up may read in two goroutines
	in  []byte     // read, and not yet a whole frame
	out []byte     // to be read
}

func (c *shortened) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.out) == 0 {
		buf := make([]byte, 4096)
		n, err := c.Conn.Read(buf)
		c.in = append(c.in, buf[:n]...)
		for len(c.in) >= 5 {
			size := 1 + int(binary.BigEndian.Uint32(c.in[1:]))
			if len(c.in) < size {
				break
			}
			c.out = append(c.out, c.s.frame(c.in[:size])...)
			c.in = c.in[size:]
		}
		if err != nil && len(c.out) == 0 {
			return 0, err
		}
	}
	n := copy(b, c.out)
	c.out = c.out[n:]
	return n, nil
}

// logged is a log whose lines a test looks at.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (*logged) Enabled(context.Context, slog.Level) bool { return true }
func (l *logged) Handle(_ context.Context, r slog.Record) error {
	var line strings.Builder
	line.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool { fmt.Fprintf(&line, " %s=%v", a.Key, a.Value); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line.String())
	return nil
}
func (l *logged) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *logged) WithGroup(string) slog.Handler      { return l }

// with are the lines that begin so.
func (l *logged) with(message string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.HasPrefix(line, message) {
			found = append(found, line)
		}
	}
	return found
}

// A frame of a server that lacks a part of its payload, of whatever type and at whatever place
// of whatever dialogue, makes no session panic and keeps no client waiting, and the next client
// is served. With CASES=all each frame of a type is cut, else the first of a dialogue.
func TestCutFrames(t *testing.T) {
	t.Parallel()
	dialogues := []string{
		"Q SELECT 1, 'two'\n", "Q BEGIN\nQ INSERT INTO cut VALUES (1)\nQ SELECT * FROM cut\nQ COMMIT\n", "Q SELECT 1; SET application_name = 'x'; SHOW application_name; SELECT 2\n",
		"P a | SELECT $1::int, 'x'\nD S a\nB - a | 1\nD P -\nE -\nC S a\nS\n", "Q BEGIN\nP - | INSERT INTO cut VALUES ($1) RETURNING a\nD S -\nB - - | 7\nE -\nS\nQ ROLLBACK\n",
		"Q BEGIN\nQ SAVEPOINT s\nQ SELECT 1/0\nQ ROLLBACK TO s\nQ COMMIT\n", "Q CREATE TABLE IF NOT EXISTS cut (a int)\n", "Q SELECT 1/0\n", "Q EXECUTE nothing\n",
		"Q BEGIN\nQ DECLARE c CURSOR FOR SELECT * FROM generate_series(1, 5)\nQ FETCH 2 FROM c\nQ CLOSE c\nQ COMMIT\n", "Q SET TIME ZONE 'UTC'; SELECT now() > '2020-01-01'\n", "Q COPY cut TO STDOUT\n", "Q LISTEN x\nQ NOTIFY x, 'y'\n",
	}
	for name, opts := range map[string][]option{
		"postgres":         nil,
		"dsql with replay": {asDSQL, withReplay, withSavepoints},
		"kept":             {asDSQL, withReplay, sessionPairing},
		"mapping":          {asDSQL, withReplay, mapping},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := newPostgres(t)
			pg.SQL(t, "postgres", "CREATE TABLE cut (a int)")
			cut, log := new(shortener), new(logged)
			s := startSluice(t, pg, append([]option{cut.option, maxOpen(2), func(s *setup) { s.log = log }}, opts...)...)
			played := 0
			for i, dialogue := range dialogues {
				if name == "kept" && i%4 != 0 && proxy.OneIn > 1 { // each play begins a process of the server's
					continue
				}
				play := func(at, keep int) {
					c := dialRaw(t, s.addr)
					cut.arm(at, keep)
					c.say(t, dialogue)
					waits := strings.Count("\n"+dialogue, "\nQ ") + strings.Count("\n"+dialogue, "\nS\n")
					for waits > 0 {
						typ, _, err := c.frame()
						if err == io.EOF || err != nil && !isDeadline(err) {
							break
						} else if err != nil {
							t.Fatalf("%q, frame %d cut to %d bytes: the client waits in vain", dialogue, at, keep)
						}
						if typ == 'Z' {
							waits--
						}
					}
					cut.disarm()
					c.conn.Close()
					if played++; log.with("session panicked") != nil {
						t.Fatalf("%q, frame %d cut to %d bytes: %v", dialogue, at, keep, log.with("session panicked"))
					}
				}
				play(-1, 0)
				types, lengths := cut.types, cut.lengths
				seen := map[[2]int]bool{}
				for at, typ := range types {
					for keep := range lengths[at] {
						one := [2]int{int(typ), keep}
						if (keep < 9 || keep > lengths[at]-3) && (!seen[one] || proxy.OneIn == 1) {
							seen[one] = true
							play(at, keep)
						}
					}
				}
			}
			if got := perform(t, s.addr, "Q SELECT 1\n< Z"); !strings.Contains(got, "C SELECT 1") {
				t.Errorf("the next client got\n%s", got)
			}
			t.Logf("%d frames cut", played)
		})
	}
}

func isDeadline(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}
