package proxy

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
)

// A server whose answer has arrived is not silent, also where the session was kept from
// reading it for so long: its process may have been stopped.
func TestUnreadAnswerIsNoSilence(t *testing.T) {
	conn, server := accepted(t, "tcp", "127.0.0.1:0")
	raw := rawconn.Wrap(conn)
	s := &session{srv: &Server{cfg: Config{SilenceTimeout: time.Second}}, link: link{pairing: pairing{b: &backend{src: wire.NewReader(raw, raw)}, t: &turn{}}}}
	s.t.owed.push(wire.Query)
	s.t.observed.silentSince = time.Now().Add(-time.Hour)
	if s.checkBackendSilence() == nil {
		t.Error("a server that has sent nothing for an hour is waited for")
	}
	server.Write(wire.AppendReadyForQuery(nil, 'I'))
	for end := time.Now().Add(10 * time.Second); raw.Peek() == rawconn.Quiet && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if err := s.checkBackendSilence(); err != nil {
		t.Errorf("one that has answered: %v", err)
	}
}

// unacked is a connection whose peer's host acknowledges nothing.
type unacked struct{ rawconn.Conn }

func (unacked) Unacked() (owed bool, last time.Duration) { return true, time.Hour }

// A question of Sluice's own ends with the path to the server, as a client's statement does,
// and not when its five seconds are over.
func TestQuestionsEndWithThePath(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	raw := unacked{rawconn.WrapPlain(here)}
	defer raw.Close()
	go io.Copy(io.Discard, there)
	b := &backend{conn: &reservoir.Conn{Net: raw}, src: wire.NewReader(raw, raw), path: rawconn.Path{Limit: 50 * time.Millisecond}}
	s := &session{srv: &Server{}}
	s.waits.Attach(b.conn)
	over := make(chan struct{})
	defer close(over)
	go func() { // as the sweeper does
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-tick.C:
				s.waits.WakeRead()
			case <-over:
				return
			}
		}
	}()
	if _, err := b.exchange(wire.FrameSync); err != errDeadPath {
		t.Errorf("it ends with %v, want %v", err, errDeadPath)
	}
}
