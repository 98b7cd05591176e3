package dsqlsim

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	alpn = "postgresql"
	// handshakeTimeout bounds all steps of a connection before the dial to PostgreSQL.
	handshakeTimeout = 15 * time.Second
	// maxStartupBytes bounds a startup packet as PostgreSQL does (MAX_STARTUP_PACKET_LENGTH).
	maxStartupBytes = 10_000

	tlsHandshakeRecord = 0x16 // first byte of a ClientHello, never of a startup packet

	codeSSLRequest    = 80877103
	codeGSSENCRequest = 80877104
	codeCancelRequest = 80877102
)

// errNoStartup ends a connection that has sent a cancel request instead of a startup packet.
var errNoStartup = errors.New("not a session")

// greeting is what a client has sent before its authentication: the startup packet, and the SNI of its TLS handshake.
type greeting struct {
	conn       net.Conn // TLS, if the client took it
	secure     bool
	serverName string // from SNI
	// packet is the startup packet without its length.
	packet []byte
}

// readGreeting reads from a connection up to and including the startup packet. It answers the requests that may precede
// the startup packet, such as SSLRequest.
func (s *Server) readGreeting(ctx context.Context, conn net.Conn) (*greeting, error) {
	g := &greeting{conn: conn}
	var first [1]byte
	if _, err := io.ReadFull(conn, first[:]); err != nil {
		return nil, fmt.Errorf("read first byte: %w", err)
	}
	conn = &prefixedConn{Conn: conn, prefix: first[:]}
	g.conn = conn
	if first[0] == tlsHandshakeRecord {
		if err := g.startTLS(ctx, conn, s.tls); err != nil {
			return nil, err
		}
		// PostgreSQL 17 requires ALPN for direct TLS, against protocol confusion.
		if g.conn.(*tls.Conn).ConnectionState().NegotiatedProtocol != alpn {
			return nil, errors.New("direct TLS without ALPN")
		}
	}
	for {
		packet, err := readStartupPacket(g.conn)
		if err != nil {
			return nil, err
		}
		switch code := binary.BigEndian.Uint32(packet); {
		case code == codeSSLRequest && !g.secure:
			// No buffer holds bytes at this point. If an attacker injected bytes after the SSLRequest, they are read as a broken
			// ClientHello.
			if _, err := g.conn.Write([]byte{'S'}); err != nil {
				return nil, fmt.Errorf("accept TLS: %w", err)
			}
			if err := g.startTLS(ctx, g.conn, s.tls); err != nil {
				return nil, err
			}
		case code == codeGSSENCRequest && !g.secure:
			if _, err := g.conn.Write([]byte{'N'}); err != nil {
				return nil, fmt.Errorf("refuse GSSAPI: %w", err)
			}
		case code == codeCancelRequest:
			s.answerCancel(packet[4:])
			return nil, errNoStartup
		default:
			g.packet = packet
			return g, nil
		}
	}
}

func (g *greeting) startTLS(ctx context.Context, conn net.Conn, config *tls.Config) error {
	secured := tls.Server(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("TLS handshake: %w", err)
	}
	g.conn, g.secure, g.serverName = secured, true, secured.ConnectionState().ServerName
	return nil
}

// readStartupPacket reads one message of the startup phase: a length and at least a code. It reads no byte beyond that
// message.
func readStartupPacket(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, fmt.Errorf("read startup packet: %w", err)
	}
	n := binary.BigEndian.Uint32(length[:])
	if n < 8 || n > maxStartupBytes {
		return nil, fmt.Errorf("startup packet of %d bytes", n)
	}
	packet := make([]byte, n-4)
	if _, err := io.ReadFull(r, packet); err != nil {
		return nil, fmt.Errorf("read startup packet: %w", err)
	}
	return packet, nil
}

// cancelKey is the process id and secret that a cancel request must name to cancel a session's statement.
type cancelKey struct {
	pid    uint32
	secret string
}

// answerCancel acts on a cancel request, or ignores it as real clusters do. The client gets no answer in either case.
func (s *Server) answerCancel(packet []byte) {
	if len(packet) < 4 {
		return
	}
	key := cancelKey{binary.BigEndian.Uint32(packet), string(bytes.Clone(packet[4:]))}
	s.mu.Lock()
	target, known := s.sessions[key]
	s.mu.Unlock()
	event := LedgerEvent{Kind: "cancel", PID: key.pid, Outcome: "ignored"}
	if known {
		event.Session = target.id
	}
	if known && s.config.HonourCancel {
		event.Outcome = "honoured"
		if err := s.upstream.cancel(s.ctx, key); err != nil {
			event.Outcome = "failed"
			s.log.Warn("cancel failed", "error", err)
		}
	}
	s.metrics.cancels.WithLabelValues(event.Outcome).Inc()
	s.ledger.addEvent(event)
}

// prefixedConn is a connection whose first bytes have been read already. Read returns these bytes first.
type prefixedConn struct {
	net.Conn
	prefix []byte
}

func (p *prefixedConn) Read(b []byte) (int, error) {
	if len(p.prefix) > 0 {
		n := copy(b, p.prefix)
		p.prefix = p.prefix[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}
