package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// holdReady returns a listener that lets the ReadyForQuery at the end of what the server says
// wait for as long as armed says, in nanoseconds.
func holdReady(t *testing.T, pg postgres) (relay listener, armed *atomic.Int64) {
	armed = &atomic.Int64{}
	return startListener(t, passEach(pg.addr, func(up, down net.Conn) { io.Copy(up, down) }, func(down, up net.Conn) {
		for buf := make([]byte, 1<<16); ; {
			n, err := up.Read(buf)
			out := buf[:n]
			if at := n - 6; armed.Load() > 0 && at >= 0 && bytes.Equal(out[at:at+5], []byte{'Z', 0, 0, 0, 5}) {
				down.Write(out[:at])
				time.Sleep(time.Duration(armed.Load()))
				out = out[at:]
			}
			if _, werr := down.Write(out); err != nil || werr != nil {
				return
			}
		}
	})), armed
}

// A statement that has ended is not timed out or cancelled: the client has its answer, and
// is told no error, or no second one, because the server's ReadyForQuery is late.
func TestDeadlinesBehindTheAnswer(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]option{"dsql": {asDSQL}, "replay": {asDSQL, fastReplay}, "savepoints": {asDSQL, withSavepoints}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := newPostgres(t)
			pg.SQL(t, "postgres", "CREATE TABLE late_ready (n int)")
			relay, armed := holdReady(t, pg)
			s := startSluice(t, pg, append(opts, relay.option, maxOpen(1))...)
			for _, timeout := range []time.Duration{150 * time.Millisecond, time.Second, 5 * time.Second} {
				if answersInTime(t, s, armed, timeout) {
					return
				}
			}
			t.Error("no statement was answered in time: nothing has been tried")
		})
	}
}

// answersInTime tries statements whose time is over while their ReadyForQuery is awaited. It
// reports false where a slow machine answered none of them before that.
func answersInTime(t *testing.T, s *sluice, armed *atomic.Int64, timeout time.Duration) (any bool) {
	for _, before := range []string{"", "Q BEGIN\n< Z\n"} {
		for _, request := range []string{"Q SELECT n FROM nosuch\n", "Q SELECT 1\n", "Q INSERT INTO late_ready VALUES (1)\n",
			"P - | SELECT n FROM nosuch\nB - | -\nE -\nS\n", "P - | SELECT 1\nB - | -\nE -\nS\n", "P - | INSERT INTO late_ready VALUES (1)\nB - | -\nE -\nS\n"} {
			c := dialRaw(t, s.addr)
			c.play(t, fmt.Sprintf("Q SET statement_timeout = %d\n< Z\nQ SELECT 0\n< Z\n", timeout.Milliseconds())+before)
			armed.Store(int64(timeout + 250*time.Millisecond))
			c.play(t, request)
			got := c.readThrough("Z")
			armed.Store(0)
			// On a slow machine the time may be over before there is an answer.
			if strings.HasPrefix(got, "E S=ERROR C=57014") {
				c.conn.Close()
				continue
			}
			any = true
			if strings.Contains(got, "57014") {
				t.Errorf("%s%sgot\n%s", before, request, got)
			}
			failed := strings.Contains(request, "nosuch")
			if want := map[bool]string{true: "Z E\n", false: "Z T\n"}[failed]; before != "" && !strings.HasSuffix(got, want) {
				t.Errorf("%s%sends %q, want %q", before, request, got, want)
			}
			c.play(t, "Q ROLLBACK\n< Z\n")
			if got := c.play(t, "Q SELECT 7\n< Z\n"); !strings.Contains(got, "7") {
				t.Errorf("%s%sthen %q", before, request, got)
			}
			c.conn.Close()
		}
	}
	return any
}
