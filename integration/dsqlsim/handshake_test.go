package dsqlsim_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// dialTLS makes a TLS connection by hand.
func (c *cluster) dialTLS(t *testing.T, request bool, config *tls.Config) (net.Conn, error) {
	t.Helper()
	conn, err := net.Dial("tcp", c.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(testLimit))
	if request {
		if _, err := conn.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47}); err != nil {
			t.Fatal(err)
		}
		var answer [1]byte
		if _, err := io.ReadFull(conn, answer[:]); err != nil || answer[0] != 'S' {
			t.Fatalf("answer %q, %v", answer, err)
		}
	}
	secured := tls.Client(conn, config)
	return secured, secured.Handshake()
}

func startupPacket(version uint32, parameters ...string) []byte {
	body := binary.BigEndian.AppendUint32(nil, version)
	for _, p := range parameters {
		body = append(append(body, p...), 0)
	}
	body = append(body, 0)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4)), body...)
}

// receive sends bytes and reads one message.
func receive(t *testing.T, conn net.Conn, send []byte) pgproto3.BackendMessage {
	t.Helper()
	if _, err := conn.Write(send); err != nil {
		t.Fatal(err)
	}
	m, err := pgproto3.NewFrontend(conn, conn).Receive()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var plainStartup = startupPacket(196608, "user", "admin", "database", "postgres")

func TestTLS(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	for _, test := range []struct {
		name            string
		request         bool
		serverName      string
		protocols       []string
		handshake, want string
	}{
		{name: "SSLRequest", request: true, serverName: endpoint},
		{name: "SSLRequest with ALPN", request: true, serverName: endpoint, protocols: []string{"postgresql"}},
		{name: "capitals", request: true, serverName: strings.ToUpper(endpoint)},
		{name: "direct", serverName: endpoint, protocols: []string{"postgresql"}},
		{name: "direct without ALPN", serverName: endpoint, handshake: "closed"},
		{name: "foreign ALPN", serverName: endpoint, protocols: []string{"http/1.1"}, handshake: "no application protocol"},
		{name: "no SNI", request: true, want: "unable to accept connection, sni was not received"},
		{name: "foreign SNI", request: true, serverName: "x" + endpoint[1:], want: denied},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			config := &tls.Config{RootCAs: c.CAPool(), ServerName: test.serverName, NextProtos: test.protocols}
			if test.serverName != endpoint {
				config.InsecureSkipVerify = true // the point is what the server says
			}
			conn, err := c.dialTLS(t, test.request, config)
			if test.handshake != "" {
				if err == nil {
					_, _ = conn.Write(plainStartup)
					_, err = conn.Read(make([]byte, 1))
				}
				if test.handshake == "closed" && err != nil && !os.IsTimeout(err) {
					return
				}
				if err == nil || !strings.Contains(err.Error(), test.handshake) {
					t.Errorf("got %v, want %s", err, test.handshake)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			switch m := receive(t, conn, plainStartup).(type) {
			case *pgproto3.AuthenticationCleartextPassword:
				if test.want != "" {
					t.Errorf("asked for the password, want %q", test.want)
				}
			case *pgproto3.ErrorResponse:
				if m.Message != test.want || m.Code != "08006" || m.Severity != "FATAL" {
					t.Errorf("got %s %s %q, want %q", m.Severity, m.Code, m.Message, test.want)
				}
			default:
				t.Errorf("got %T", m)
			}
		})
	}
}

func TestWithoutTLS(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	conn, err := net.Dial("tcp", c.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte{0, 0, 0, 8, 4, 210, 22, 48}); err != nil { // GSSENCRequest
		t.Fatal(err)
	}
	var answer [1]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil || answer[0] != 'N' {
		t.Fatalf("GSSENCRequest: %q, %v", answer, err)
	}
	if m, ok := receive(t, conn, plainStartup).(*pgproto3.ErrorResponse); !ok || m.Severity != "FATAL" {
		t.Errorf("got %+v, want a FATAL", m)
	}
}

// Bytes that follow an SSLRequest in plain text must not count as the client's.
func TestPlainTextBehindSSLRequest(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	conn, err := net.Dial("tcp", c.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(append([]byte{0, 0, 0, 8, 4, 210, 22, 47}, plainStartup...)); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil && !strings.Contains(err.Error(), "reset") {
		t.Fatal(err)
	}
	// The S, and perhaps the alert of a failed handshake.
	if len(got) == 0 || got[0] != 'S' || strings.Contains(string(got), "R") {
		t.Errorf("got %q", got)
	}
}

func TestProtocolVersions(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	for _, test := range []struct {
		name string
		send []byte
		want string
	}{
		{"3.0", plainStartup, "AuthenticationCleartextPassword"},
		{"3.2", startupPacket(196610, "user", "admin", "database", "postgres"), "NegotiateProtocolVersion"},
		{"grease", startupPacket(3<<16|9999, "user", "admin", "_pq_.test", "1"), "NegotiateProtocolVersion"},
		{"2.0", startupPacket(2<<16, "user", "admin"), "E 0A000"},
		{"no user", startupPacket(196608, "database", "postgres"), "E 28000"},
		{"no end", startupPacket(196608, "user"), "E 08P01"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			conn, err := c.dialTLS(t, true, &tls.Config{RootCAs: c.CAPool(), ServerName: endpoint})
			if err != nil {
				t.Fatal(err)
			}
			if got := brief(receive(t, conn, test.send)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestBrokenStartupsEndQuietly(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	for _, send := range []string{"\x00\x00\x00\x04", "\x7f\xff\xff\xff\x00\x03\x00\x00", "\xff\xff\xff\xff", "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x00\x00"} {
		conn, err := net.Dial("tcp", c.address)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(testLimit))
		if _, err := conn.Write([]byte(send)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 100)); errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q: still open", send)
		}
		_ = conn.Close()
	}
	c.connect(t) // and the server still serves
}
