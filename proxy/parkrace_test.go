package proxy

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// A nudge with a reason, at whatever moment beside the parking, has the session go on once, or keeps
// it from being parked.
func TestNudgeMeetsParking(t *testing.T) {
	client, server := accepted(t, "tcp", "127.0.0.1:0")
	raw := rawconn.Wrap(server)
	resumed := make(chan *session, 10)
	parking, err := rawconn.NewParkedConns(func(s *session) { resumed <- s })
	if err != nil {
		t.Fatal(err)
	}
	defer parking.Close()
	reasons := map[string]func(*session){
		"drain": func(s *session) { s.srv.draining.Store(true); s.wake() },
		"cut":   (*session).interrupt,
		"close": func(s *session) { s.client.Raw.Close(); s.wake() },
		"bytes": func(*session) { client.Write([]byte("x")) },
	}
	parked, rounds := 0, 20_000
	if Racing {
		rounds = 2_000
	}
	for name, reason := range reasons {
		for round := range rounds {
			if name == "close" {
				if round == 300 {
					break
				}
				client, server = accepted(t, "tcp", "127.0.0.1:0")
				raw = rawconn.Wrap(server)
			}
			srv := &Server{parking: parking}
			s := &session{srv: srv, link: link{client: wire.NewReader(server, raw)}}
			start, done := make(chan struct{}), make(chan struct{})
			go func() {
				<-start
				for range rand.IntN(200) {
					runtime.KeepAlive(round)
				}
				reason(s)
				close(done)
			}()
			close(start)
			for range rand.IntN(200) {
				runtime.KeepAlive(round)
			}
			if srv.tryPark(s) {
				parked++
				select {
				case got := <-resumed:
					if got != s {
						t.Fatal("another is resumed")
					}
				case <-time.After(10 * time.Second):
					t.Fatalf("%s: nobody is resumed in round %d", name, round)
				}
				parking.Unregister(raw)
			}
			<-done
			if name == "bytes" {
				raw.Read(make([]byte, 1))
			}
			if n := parking.Count(); n != 0 || len(resumed) != 0 {
				t.Fatalf("%s: %d are parked, %d resumed again", name, n, len(resumed))
			}
		}
		if name == "close" {
			client, server = accepted(t, "tcp", "127.0.0.1:0")
			raw = rawconn.Wrap(server)
		}
	}
	if parked < 1000 {
		t.Errorf("parked %d times: the test sees nothing", parked)
	}
}

// A session is no larger than the allocator's 1,024 bytes: a word more would cost each client 128.
func TestSizeOfSession(t *testing.T) {
	if n := unsafe.Sizeof(session{}); n > 1024 {
		t.Errorf("a session has %d bytes", n)
	}
	if n := unsafe.Sizeof(clientConn{}); n > 160 {
		t.Errorf("an arrival has %d bytes", n)
	}
}
