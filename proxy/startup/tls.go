package startup

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
)

// alpnPostgreSQL is PostgreSQL's name in a TLS handshake (IANA's registry of ALPN protocol IDs).
const alpnPostgreSQL = "postgresql"

// answerSSLRequest answers an SSLRequest, and starts TLS if clients are offered TLS. As in PostgreSQL, TLS is never
// offered at the Unix socket.
func (g *clientHandshake) answerSSLRequest() error {
	if g.tls == nil || g.usesUnixSocket() {
		return g.writeAnswer('N')
	}
	if err := g.writeAnswer('S'); err != nil {
		return err
	}
	return g.startTLS(g.raw)
}

// startDirectTLS starts TLS with a client that begins with a TLS handshake. The client must name PostgreSQL's protocol,
// so that a client of another protocol cannot be redirected here (RFC 7301).
func (g *clientHandshake) startDirectTLS() error {
	if g.tls == nil || g.usesUnixSocket() {
		g.conn = nil // no refusal that the client understands is possible
		return errNoTLS
	}
	begun := &prefixedConn{Conn: g.raw, prefix: append([]byte(nil), g.buf[g.r:g.w]...)}
	g.r = g.w
	if err := g.startTLS(begun); err != nil {
		return err
	}
	if g.secured.ConnectionState().NegotiatedProtocol != alpnPostgreSQL {
		return ErrNoALPN
	}
	return nil
}

func (g *clientHandshake) startTLS(conn net.Conn) error {
	g.conn = nil
	secured := tls.Server(conn, g.tls)
	if err := secured.HandshakeContext(context.WithValue(context.Background(), handshakeKey{}, g)); err != nil {
		return fmt.Errorf("TLS handshake: %w", err)
	}
	g.conn, g.secured = secured, secured
	return nil
}

// prefixedConn is a connection whose first bytes have been read already. Read returns them first.
type prefixedConn struct {
	rawconn.Conn
	prefix []byte
}

func (p *prefixedConn) Read(b []byte) (int, error) {
	if len(p.prefix) == 0 {
		return p.Conn.Read(b)
	}
	n := copy(b, p.prefix)
	if p.prefix = p.prefix[n:]; len(p.prefix) == 0 {
		p.prefix = nil
	}
	return n, nil
}

// handshakeKey is the context key under which callbacks of crypto/tls find the handshake.
type handshakeKey struct{}

// clientTLSConfig returns config as it is used for clients: with ALPN, and without session tickets. PostgreSQL has no
// tickets, and a resumed session would survive its certificate. The configuration records the presented certificate for
// channel binding. Each configuration that config.GetConfigForClient returns is converted in the same way, once.
func clientTLSConfig(config *tls.Config) *tls.Config {
	prepared := prepareTLS(config)
	current := config.GetConfigForClient
	if current == nil {
		return prepared
	}
	type pair struct{ from, to *tls.Config }
	var last atomic.Pointer[pair]
	prepared.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		from, err := current(h)
		if from == nil || err != nil {
			return nil, err
		}
		p := last.Load()
		if p == nil || p.from != from {
			p = &pair{from, prepareTLS(from)}
			last.Store(p)
		}
		return p.to, nil
	}
	return prepared
}

func prepareTLS(config *tls.Config) *tls.Config {
	prepared := config.Clone()
	prepared.NextProtos = []string{alpnPostgreSQL}
	prepared.SessionTicketsDisabled = true
	prepared.Certificates = nil // otherwise GetCertificate is not always called
	prepared.GetCertificate = func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		cert, err := chooseCertificate(config, h)
		if err != nil {
			return nil, err
		}
		if g, ok := h.Context().Value(handshakeKey{}).(*clientHandshake); ok {
			g.cert = cert.Certificate[0]
		}
		return cert, nil
	}
	return prepared
}

// chooseCertificate returns the certificate that crypto/tls would choose without our GetCertificate.
func chooseCertificate(config *tls.Config, h *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if config.GetCertificate != nil && (len(config.Certificates) == 0 || h.ServerName != "") {
		if cert, err := config.GetCertificate(h); cert != nil || err != nil {
			return cert, err
		}
	}
	if len(config.Certificates) == 0 {
		return nil, errors.New("no certificate configured")
	}
	for i := range config.Certificates {
		if h.SupportsCertificate(&config.Certificates[i]) == nil {
			return &config.Certificates[i], nil
		}
	}
	return &config.Certificates[0], nil
}
