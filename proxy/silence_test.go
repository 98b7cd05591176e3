package proxy

import (
	"net"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// A server whose answer has arrived is not silent, also where the session was kept from
// reading it for so long: its process may have been stopped.
func TestUnreadAnswerIsNoSilence(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	raw := rawconn.Wrap(conn)
	s := &session{srv: &Server{cfg: Config{SilenceTimeout: time.Second}}, pairing: pairing{b: &backend{src: wire.NewReader(raw, raw)}, t: &turn{}}}
	s.t.owed.push(wire.Query)
	s.t.quiet = time.Now().Add(-time.Hour)
	if s.lookAtSilence() == nil {
		t.Error("a server that has sent nothing for an hour is waited for")
	}
	server.Write(wire.AppendReady(nil, 'I'))
	for end := time.Now().Add(10 * time.Second); raw.Peek() == rawconn.Quiet && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if err := s.lookAtSilence(); err != nil {
		t.Errorf("one that has answered: %v", err)
	}
}
