package reservoir

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/pgtest"
)

func TestCancelEndsTheStatement(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"disable", "verify-full"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := dial(t, to(pgtest.Shared(t), mode), nil)
			if _, err := c.Net.Write(frame('Q', []byte("SELECT pg_sleep(60)\x00"))); err != nil {
				t.Fatal(err)
			}
			// A request that arrives before the statement does nothing: repeat.
			done := make(chan []string, 1)
			go func() { done <- answer(t, c) }()
			for {
				if err := c.Cancel(t.Context()); err != nil {
					t.Fatal(err)
				}
				select {
				case got := <-done:
					if all := strings.Join(got, "|"); !strings.Contains(all, "57014") {
						t.Errorf("answer %q", got)
					}
					return
				case <-time.After(50 * time.Millisecond):
				}
			}
		})
	}
}

// The request takes the way of the dial, and secrets have up to 256 bytes since
// protocol 3.2.
func TestCancelRequestIsWhole(t *testing.T) {
	t.Parallel()
	certificate, ca := newCertificate(t, "db.example")
	cfg := DialConfig{Kind: KindPostgres, Address: "127.0.0.1", Endpoint: "db.example", SSLMode: "verify-full",
		CAFile: ca, User: "u", Database: "d", Timeout: 10 * time.Second}
	modes, err := cfg.tlsConfigs()
	if err != nil {
		t.Fatal(err)
	}
	code := []byte{4, 210, 22, 46, 0, 0, 0, 42}
	for _, length := range []int{4, 32, 256} {
		f := (&fakeServer{certificate: certificate}).start(t)
		request := canceler{address: f.listener.Addr(), tls: modes[0], pid: 42, secret: bytes.Repeat([]byte{7}, length)}
		if err := request.send(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.note(func() {
			if len(f.cancels) != 1 || !bytes.Equal(f.cancels[0], append(code, request.secret...)) {
				t.Errorf("secret of %d bytes: requests %v", length, f.cancels)
			}
		})
	}

	f := (&fakeServer{certificate: certificate}).start(t)
	cfg.Port = f.port()
	if err := dial(t, cfg, nil).Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.note(func() {
		if len(f.cancels) != 1 || !bytes.Equal(f.cancels[0], append(code, 9, 8, 7, 6)) {
			t.Errorf("requests %v", f.cancels)
		}
		if len(f.sni) != 2 || f.sni[1] != "db.example" {
			t.Errorf("server names %q, want the dial's and the cancel's", f.sni)
		}
	})
}

func TestCancelWaitsForTheServerToClose(t *testing.T) {
	t.Parallel()
	silent := (&fakeServer{silent: true}).start(t)
	request := canceler{address: silent.listener.Addr(), pid: 1, secret: make([]byte, 4)}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := request.send(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the context's error", err)
	}
}

func TestCancelFails(t *testing.T) {
	t.Parallel()
	gone := (&fakeServer{}).start(t)
	gone.listener.Close()
	certificate, _ := newCertificate(t, "db.example")
	secured := (&fakeServer{certificate: certificate}).start(t)
	plain := (&fakeServer{}).start(t)
	verifying := (&DialConfig{Kind: KindDSQL, Endpoint: "db.example"})
	modes, err := verifying.tlsConfigs()
	if err != nil {
		t.Fatal(err)
	}
	for name, request := range map[string]canceler{
		"connection refused":     {address: gone.listener.Addr()},
		"x509":                   {address: secured.listener.Addr(), tls: modes[0]},
		"the server refused TLS": {address: plain.listener.Addr(), tls: modes[0]},
	} {
		if err := request.send(t.Context()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %s", err, name)
		}
	}
	ours, _ := net.Pipe()
	if err := NewConn(ours).Cancel(t.Context()); err == nil {
		t.Error("a backend without a way to cancel was cancelled")
	}
}
