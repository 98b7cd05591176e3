package proxy_test

import (
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
)

// elsewhere accepts connections that come from another machine.
type elsewhere struct {
	net.Listener
	from *atomic.Pointer[net.TCPAddr]
}

type remote struct {
	rawconn.Conn
	from *net.TCPAddr
}

func (r remote) RemoteAddr() net.Addr { return r.from }

func (e elsewhere) Accept() (net.Conn, error) {
	conn, err := e.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return remote{rawconn.Wrap(conn), e.from.Load()}, nil
}

// Cancels of an address are heard with some hundred wrong keys: then even the right one does
// nothing, while those of another address, and of this machine, still do.
func TestCancelGuesses(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	guesser, other := &net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 7}, &net.TCPAddr{IP: net.ParseIP("192.0.2.2"), Port: 7}
	var from atomic.Pointer[net.TCPAddr]
	from.Store(guesser)
	go s.Serve(elsewhere{ln, &from}) // which ends with the server

	conn := connect(t, s.addr)
	cancel := func(addr string, secret []byte) {
		t.Helper()
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		b, err := (&pgproto3.CancelRequest{ProcessID: conn.PgConn().PID(), SecretKey: secret}).Encode(nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Write(b)
		if rest, err := io.ReadAll(c); err != nil || len(rest) != 0 {
			t.Errorf("answer to a cancel: %q, %v", rest, err)
		}
	}
	const wrong = 400
	for i := range uint32(wrong) {
		cancel(ln.Addr().String(), binary.BigEndian.AppendUint32(nil, i))
	}
	unknown, unheard := s.count(t, "dsql_cancels_total", "unknown_key"), s.count(t, "dsql_cancels_total", "guesses")
	if unknown < 100 || unheard < 1 || unknown+unheard != wrong {
		t.Errorf("of %d wrong keys %g were heard, %g not", wrong, unknown, unheard)
	}
	done := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), "SELECT pg_sleep(60)")
		done <- err
	}()
	waitFor(t, "the statement to run", func() bool { return s.backends.Stats().InUse == 1 })
	from.Store(other)
	cancel(ln.Addr().String(), conn.PgConn().SecretKey())
	if err := <-done; code(err) != "57014" {
		t.Errorf("a cancel from another address: %v", err)
	}
	cancel(s.addr, conn.PgConn().SecretKey()) // of an idle session
	if n := s.count(t, "dsql_cancels_total", "dropped"); n != 1 {
		t.Errorf("a cancel of this machine was not heard: %g", n)
	}
}
