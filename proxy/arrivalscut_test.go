package proxy_test

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy"
)

// The end of a server ends startups too, wherever they stand and however long they might take: a
// client that says nothing, one in the middle of its packet, and one whose encryption has begun.
func TestEndOfServerEndsStartups(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*proxy.Server) error{
		"close": func(s *proxy.Server) error { return s.Close() },
		"drain": func(s *proxy.Server) error { return s.Shutdown(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startSluice(t, sharedPostgres(t), configure(func(c *proxy.Config) { c.Startup.Timeout = time.Hour }))
			var conns []net.Conn
			for i := range 40 {
				conn := dialTCP(t, s.addr)
				defer conn.Close()
				conn.Write([]byte("\x00\x00\x00\x30\x00\x03\x00\x00user\x00postg")[:i%4*6])
				conns = append(conns, conn)
			}
			in := dialRaw(t, s.addr) // they were accepted before this one
			if name == "drain" {
				in.conn.Close()
			}
			if err := end(s.Server); err != nil {
				t.Error(err)
			}
			for i, conn := range conns {
				conn.SetReadDeadline(time.Now().Add(time.Minute))
				if _, err := io.ReadAll(conn); isDeadline(err) {
					t.Errorf("startup %d is still open", i)
				}
			}
			if n := s.Stats().Clients; n != 0 {
				t.Errorf("%d clients are left", n)
			}
		})
	}
}
