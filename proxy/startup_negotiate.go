package proxy

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// alpnPostgreSQL is the protocol's name in a TLS handshake (IANA's registry of
// ALPN protocol IDs).
const alpnPostgreSQL = "postgresql"

// supportedProtocol is the newest version that both sides speak. 3.1 never was.
func supportedProtocol(asked uint32) uint32 {
	if asked < pgproto3.ProtocolVersion32 {
		return pgproto3.ProtocolVersion30
	}
	return pgproto3.ProtocolVersion32
}

// startupMessage is what a startup packet says.
type startupMessage struct {
	protocol       uint32
	user, database string
	params         map[string]string // as hello.params
	unknown        []string          // _pq_. options, of which none is known
}

// parseStartup reads a startup packet as PostgreSQL does.
func parseStartup(packet []byte) (m startupMessage, err error) {
	m.protocol = binary.BigEndian.Uint32(packet)
	if m.protocol>>16 != 3 {
		return m, &wire.Error{Fatal: true, Code: "0A000",
			Message: fmt.Sprintf("unsupported frontend protocol %d.%d: server supports 3.0 to 3.2",
				m.protocol>>16, m.protocol&0xffff)}
	}
	given, options := map[string]string{}, ""
	rest := packet[4:]
	for {
		name, after, ok := wire.CString(rest)
		if ok && len(name) == 0 && len(after) == 0 {
			break
		}
		value, after, whole := wire.CString(after)
		if len(name) == 0 || !whole {
			return m, wire.ProtocolViolation("invalid startup packet layout: expected terminator as last byte")
		}
		rest = after
		switch key := string(name); {
		case key == "user":
			m.user = string(value)
		case key == "database":
			m.database = string(value)
		case key == "options":
			options = string(value)
		case strings.HasPrefix(key, "_pq_."):
			m.unknown = append(m.unknown, key)
		default:
			given[strings.ToLower(key)] = string(value)
		}
	}
	if m.database == "" {
		m.database = m.user
	}
	if m.params, err = optionSettings(options); err != nil {
		return m, err
	}
	maps.Copy(m.params, given) // a parameter of its own beats one in options
	return m, nil
}

// optionSettings reads the settings in the `options` parameter: -c name=value,
// -cname=value and --name=value. PostgreSQL's other switches are refused.
func optionSettings(options string) (map[string]string, error) {
	settings := map[string]string{}
	words := optionWords(options)
	for i := 0; i < len(words); i++ {
		option := words[i]
		setting, ok := strings.CutPrefix(option, "--")
		if !ok {
			if setting, ok = strings.CutPrefix(option, "-c"); ok && setting == "" && i+1 < len(words) {
				i++
				setting = words[i]
			}
		}
		name, value, whole := strings.Cut(setting, "=")
		switch {
		case !ok || name == "":
			return nil, errOption("invalid command-line argument for server process: %s", option)
		case !whole:
			return nil, errOption("%s requires a value", option)
		}
		settings[strings.ToLower(strings.ReplaceAll(name, "-", "_"))] = value
	}
	return settings, nil
}

func errOption(format, option string) *wire.Error {
	return &wire.Error{Fatal: true, Code: "42601", Message: fmt.Sprintf(format, option),
		Hint: "Settings are given as -c name=value or --name=value."}
}

// optionWords splits at white space that no backslash precedes; a backslash
// takes the next character as it is (pg_split_opts of PostgreSQL's postinit.c).
func optionWords(options string) []string {
	var words []string
	var word []byte
	inWord, escaped := false, false
	for i := range len(options) {
		switch c := options[i]; {
		case escaped:
			word, escaped = append(word, c), false
		case c == '\\':
			inWord, escaped = true, true
		case strings.IndexByte(" \t\n\v\f\r", c) < 0:
			word, inWord = append(word, c), true
		case inWord:
			words, word, inWord = append(words, string(word)), word[:0], false
		}
	}
	if inWord {
		words = append(words, string(word))
	}
	return words
}

// answerTLS answers an SSLRequest, and goes on in TLS where it is offered. As
// with PostgreSQL that is never by Unix socket.
func (g *greeting) answerTLS() error {
	if g.tls == nil || g.local() {
		return g.answerByte('N')
	}
	if err := g.answerByte('S'); err != nil {
		return err
	}
	return g.handshake(g.raw)
}

// handshakeDirect takes a client that begins with TLS. It must name the
// protocol, so that no other protocol's client can be led here (RFC 7301).
func (g *greeting) handshakeDirect() error {
	if g.tls == nil || g.local() {
		g.conn = nil // nothing that it would understand can be said
		return errNoTLS
	}
	begun := &prefixed{Conn: g.raw, prefix: append([]byte(nil), g.buf[g.r:g.w]...)}
	g.r = g.w
	if err := g.handshake(begun); err != nil {
		return err
	}
	if g.secured.ConnectionState().NegotiatedProtocol != alpnPostgreSQL {
		return errNoALPN
	}
	return nil
}

func (g *greeting) handshake(conn net.Conn) error {
	g.conn = nil
	secured := tls.Server(conn, g.tls)
	if err := secured.HandshakeContext(context.WithValue(context.Background(), greetingKey{}, g)); err != nil {
		return fmt.Errorf("TLS handshake: %w", err)
	}
	g.conn, g.secured = secured, secured
	return nil
}

// prefixed is a connection whose first bytes were read already.
type prefixed struct {
	rawconn.Conn
	prefix []byte
}

func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.prefix) == 0 {
		return p.Conn.Read(b)
	}
	n := copy(b, p.prefix)
	if p.prefix = p.prefix[n:]; len(p.prefix) == 0 {
		p.prefix = nil
	}
	return n, nil
}

// greetingKey finds the greeting in the context of its handshake.
type greetingKey struct{}

// startupTLS is config as clients meet it: with ALPN, without session tickets
// (PostgreSQL has none; a resumed session would outlive its certificate), and
// noting which certificate was presented, for channel binding. A configuration
// that config.GetConfigForClient returns is treated alike, once each.
func startupTLS(config *tls.Config) *tls.Config {
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
	prepared.Certificates = nil // else GetCertificate is not always asked
	prepared.GetCertificate = func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		cert, err := chooseCertificate(config, h)
		if err != nil {
			return nil, err
		}
		if g, ok := h.Context().Value(greetingKey{}).(*greeting); ok {
			g.cert = cert.Certificate[0]
		}
		return cert, nil
	}
	return prepared
}

// chooseCertificate does what crypto/tls does without a GetCertificate of ours.
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
