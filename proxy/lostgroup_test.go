package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy"
)

// drawing begins a block that answers otherwise where it is run again.
const drawing = "Q BEGIN\n< Z\nQ INSERT INTO lost_group (n) VALUES (0) RETURNING id\n< Z\n"

// A backend that is lost behind the last answer of a group, which no Sync has ended, is
// lost to what the client sends next: a Query gets its error and its ReadyForQuery, where
// one that stands behind the error of a group would be skipped.
func TestLossBehindTheAnswersOfAGroup(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]option{"postgres": nil, "replay": {fastReplay}, "savepoints": {withSavepoints}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := newPostgres(t)
			pg.SQL(t, "postgres", "CREATE TABLE lost_group (n int, id int GENERATED ALWAYS AS IDENTITY)")
			s := startSluice(t, pg, opts...)
			for i, group := range []string{"B - | s3\nE -\n", "C P c1\nB c1 | s3\nD P c1\nE c1\n", "B c1 | s3\nE c1\nH\n", "P - | SELECT 1\nB - | -\nE -\n", "P - | BEGIN\nB - | -\nE -\n", "B - | s3\nE -\nC S s3\n", drawing + "P - | SELECT 1\nB - | -\n"} {
				for _, next := range []string{"Q SELECT 2\n< Z\n", "Q INSERT INTO lost_group VALUES (-1)\n< Z\n", "F\n< Z\n", "P - | SELECT 3\nB - | -\nE -\nS\n< Z\n", "S\n< Z\n", "H\nS\n< Z\n"} {
					c := dialRaw(t, s.addr)
					c.play(t, fmt.Sprintf("P s3 | INSERT INTO lost_group VALUES (%d) RETURNING n\nS\n< Z\n", i))
					c.play(t, group)
					group = strings.TrimPrefix(group, drawing)
					c.flush()
					time.Sleep(20 * time.Millisecond) // the answers wait at the server for a Flush
					pg.SQL(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
					c.play(t, strings.TrimSuffix(next, "< Z\n"))
					if got, err := c.behindAGroup(t, strings.Count(group, "\n")-strings.Count(group, "H\n")); err != nil {
						t.Errorf("%s, then %s: %v behind %q", group, next, err, got)
					}
					if next[0] == 'Q' {
						c.queue(encodeLine(t, "Q", "SELECT 3"))
						c.flush()
						if typ, _, err := c.frame(); err != nil || typ == 'Z' {
							t.Errorf("%s, then %s: the answer of the next Query begins with %c (%v)", group, next, typ, err)
						}
					}
					c.conn.Close()
				}
			}
		})
	}
}

// A client is told at once of a backend that is lost while Sluice, which has refused a frame
// itself, awaits the answers to those in front of it: it may wait for the error before it
// sends its Sync.
func TestErrorOfALostGroupIsSent(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE lost_group (n int)")
	s := startSluice(t, pg)
	rng := rand.New(rand.NewPCG(10, 1))
	for i := range 300 / proxy.OneIn {
		c := dialRaw(t, s.addr)
		c.play(t, []string{"Q BEGIN\n< Z\nQ SELECT 1/0\n< Z\n", "Q SELECT 1\n< Z\n"}[i%2])
		c.play(t, "P - | INSERT INTO lost_group VALUES (1)\nB - | -\nE -\n")
		c.flush()
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
		pg.SQL(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
		time.Sleep(time.Duration(rng.IntN(3)) * time.Millisecond)
		c.queue(encodeLine(t, "Q", "SELECT 2"))
		if got, err := c.behindAGroup(t, 3); err != nil {
			t.Fatalf("run %d: %v behind %q", i, err, got)
		}
		c.conn.Close()
	}
}

// behindAGroup reads up to a ReadyForQuery, behind a group of so many frames that no Sync has
// ended: where one of these fails, what follows is skipped, and the client sends a Sync.
func (c *rawClient) behindAGroup(t *testing.T, frames int) (got string, err error) {
	c.flush()
	for answered := 0; !strings.HasSuffix(got, "Z"); {
		typ, _, err := c.frame()
		if err != nil {
			return got, err
		}
		got += string(typ)
		switch {
		case strings.ContainsRune("123TnCs", rune(typ)):
			answered++
		case typ == 'E' && answered < frames:
			c.queue(encodeLine(t, "S", ""))
			c.flush()
		}
	}
	return got, nil
}

// A backend that is lost behind an error that its client was told is not told of as well:
// the Sync gets its ReadyForQuery, and nothing else.
func TestLossBehindAToldError(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]option{"postgres": nil, "replay": {fastReplay}, "savepoints": {withSavepoints}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := newPostgres(t)
			s := startSluice(t, pg, opts...)
			for _, before := range []string{"Q SELECT 1\n< Z\n", "Q BEGIN\n< Z\n", "Q BEGIN\n< Z\nQ SELECT 1\n< Z\n"} {
				for _, group := range []string{"P - | SELEKT\n", "P - | SELECT 1/0\nB - | -\nE -\n", "P - | SELECT 1\nB - | -\nE -\nC S s9\nB - | s9\n"} {
					for _, next := range []string{"S\n", "H\nS\n", "Q SELECT 2\nP - | SELECT 1\nB - | -\nE -\nS\n", strings.Repeat("P - | SELECT 1\nB - | -\nE -\n", 3000) + "S\n"} {
						c := dialRaw(t, s.addr)
						c.play(t, before+group+"H\n< E\n")
						pg.SQL(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
						time.Sleep(20 * time.Millisecond)
						c.play(t, next)
						c.flush()
						if typ, payload, err := c.frame(); err != nil || typ != 'Z' {
							t.Errorf("%s, %s, then %.80s: %c %q (%v)", before, group, next, typ, payload, err)
						}
						c.conn.Close()
					}
				}
			}
		})
	}
}

// The same where the client is in the middle of a pipeline which the server, whose
// connection ends behind its error, has stopped to read.
func TestLossInAPipelineBehindItsError(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	// Long parameters, since after 2 MiB of texts Sluice waits for their answers, and does not write.
	frames := "P - | SELEKT\nP - | SELECT $1\n" + strings.Repeat("B - | - | "+strings.Repeat("x", 16<<10)+"\nE -\n", 1000)
	for name, opts := range map[string][]option{"postgres": nil, "replay": {fastReplay}, "savepoints": {withSavepoints}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var wrote atomic.Int64 // pieces of the client's
			relay := startListener(t, passEach(pg.addr, func(up, down net.Conn) {
				down.(*net.TCPConn).SetReadBuffer(4 << 10) // a larger one has room for all that may be pending
				for buf := make([]byte, 1<<10); ; {
					n, err := down.Read(buf)
					last := err != nil || bytes.Contains(buf[:n], []byte("SELEKT")) // not the startup of another connection
					if last {
						for was := int64(-1); was != wrote.Load(); time.Sleep(300 * time.Millisecond) {
							was = wrote.Load() // what is not read here stops Sluice, and what Sluice does not read the client
						}
					}
					if _, err := up.Write(buf[:n]); err != nil {
						return
					}
					if last {
						time.Sleep(200 * time.Millisecond) // for the error to pass
						return
					}
				}
			}, func(down, up net.Conn) { io.Copy(down, up) }))
			s := startSluice(t, pg, append(opts, maxOpen(1), relay.option)...)
			for _, before := range []string{"Q SELECT 1\n< Z\n", "Q BEGIN\n< Z\n"} {
				c := dialRaw(t, s.addr)
				c.play(t, before)
				c.play(t, frames)
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					for piece := range slices.Chunk(c.out, 64<<10) {
						c.conn.Write(piece)
						wrote.Add(1)
					}
					c.out = nil
				}()
				typ, _, err := c.frame()
				if err != nil || typ != 'E' {
					t.Fatalf("behind %q: %c, %v", before, typ, err)
				}
				<-sent
				c.queue(encodeLine(t, "S", ""))
				c.flush()
				if typ, payload, err := c.frame(); err != nil || typ != 'Z' {
					t.Errorf("behind %q, and an error: %c %q (%v)", before, typ, payload, err)
				}
				c.conn.Close()
			}
		})
	}
}

// A server that takes its leave behind a group and does not close its connection is lost all the same.
func TestFarewellWithoutAnEnd(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	relay := startListener(t, passEach(pg.addr, func(up, down net.Conn) {
		io.Copy(up, down)
		io.Copy(io.Discard, down)
	}, func(down, up net.Conn) {
		io.Copy(down, up)
		<-t.Context().Done() // what the server ends, the other side is not told of
	}))
	s := startSluice(t, pg, relay.option)
	for _, group := range []string{"P - | SELECT 1\nB - | -\nE -\n", "P - | SELECT 1\nB - | -\nE -\nH\n"} {
		for _, next := range []string{"Q SELECT 2\n", "S\n", "P - | SELECT 3\nB - | -\nE -\nS\n"} {
			c := dialRaw(t, s.addr)
			c.play(t, "Q SELECT 1\n< Z\n"+group)
			c.flush()
			time.Sleep(20 * time.Millisecond)
			pg.SQL(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE 'SELECT 1%'")
			time.Sleep(20 * time.Millisecond)
			c.play(t, next)
			if got, err := c.behindAGroup(t, 3); err != nil {
				t.Errorf("%s, then %s: %v behind %q", group, next, err, got)
			}
			c.conn.Close()
		}
	}
}
