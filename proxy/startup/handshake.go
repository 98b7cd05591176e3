// Package startup performs a client's startup, from the accepted connection to a proven identity: TLS, protocol
// version, startup packet, SCRAM, client certificates. The package uses no backend. Its caller sends AuthenticationOk
// and the messages after it.
//
//	config.go     Config and its faults
//	handshake.go  Handshaker, and the order of one client's requests
//	message.go    the startup packet and its options
//	stream.go     reading and writing one client, and its refusal
//	tls.go        encryption, with the certificate that channel binding needs
//	auth.go       SCRAM-SHA-256 and client certificates
//	peer.go       the process at the Unix socket
//	users.go      the users file
//	guesses.go    bounds on wrong passwords and cancel keys, by source
package startup

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

const (
	// maxStartupPacket bounds the part of a startup packet after its length field (MAX_STARTUP_PACKET_LENGTH of
	// PostgreSQL's pqcomm.h).
	maxStartupPacket = 10000
	// maxSASLResponse bounds a client's authentication message
	// (PG_MAX_SASL_MESSAGE_LENGTH of PostgreSQL's sasl.c).
	maxSASLResponse = 1024
	// RefusalTimeout bounds the time of sending a refusal to the client.
	RefusalTimeout = time.Second
	// directTLS is the first byte of a TLS handshake. No startup packet of valid length begins with that byte.
	directTLS = 0x16
)

// These are the request codes of a startup packet, at the place of the protocol version (pqcomm.h).
const (
	cancelRequestCode = 1234<<16 | 5678
	sslRequestCode    = 1234<<16 | 5679
	gssRequestCode    = 1234<<16 | 5680
)

// This line does not compile unless a startup packet always fits into a buffer.
const _ = uint(wire.BufferSize - 4 - maxStartupPacket)

// Handshaker performs the startups of client connections: encryption, protocol version, authentication. Handshaker
// serves all clients of a Server, each in the client's own goroutine.
type Handshaker struct {
	timeout     time.Duration
	tls         *tls.Config // nil if not offered
	tlsRequired bool
	// replication says that clients which request a replication connection are accepted.
	replication bool

	method    AuthMethod
	usersFile string
	users     atomic.Pointer[userTable] // not nil with method SCRAM
	secret    authSecret
	passwords *GuessLimiter
	peers     peerMap
}

// NewHandshaker returns a Handshaker for a valid Config. NewHandshaker reads the users file, if any.
func NewHandshaker(cfg Config) (*Handshaker, error) {
	s := &Handshaker{
		timeout:     cfg.Timeout,
		tlsRequired: cfg.TLSRequired,
		replication: cfg.Replication,
		method:      cfg.Method,
		usersFile:   cfg.UsersFile,
		passwords:   NewGuessLimiter(passwordBurst, passwordEvery),
	}
	var err error
	if s.secret, err = readAuthSecret(cfg.SaltSecretFile); err != nil {
		return nil, err
	}
	if s.peers, err = parsePeerMap(cfg.PeerMap); err != nil {
		return nil, err
	}
	if cfg.TLS != nil {
		s.tls = clientTLSConfig(cfg.TLS)
	}
	if err = s.ReloadUsers(); err != nil {
		err = fmt.Errorf("auth.users_file: %w", err)
	}
	return s, err
}

// Client is a client whose identity was proven in its startup.
type Client struct {
	Conn net.Conn     // for frames: Raw, or a *tls.Conn over it
	Raw  rawconn.Conn // the socket

	User     string
	Database string // the user's name by default
	// Params are the settings that the client requested, by their names in lower case. Params have the startup
	// parameters except user and database, and the settings in the parameter `options`.
	Params map[string]string
	// Spelt maps a setting's name in lower case to the client's spelling, if the two differ.
	Spelt map[string]string
	// Protocol is the protocol version that was negotiated: 3.0 or 3.2.
	Protocol uint32
	// Rest has the bytes that the client sent after its startup packet, mostly none.
	Rest []byte
	// Until is the deadline that the connection Raw still has, the end of the time for the startup. The caller clears
	// the deadline.
	Until time.Time

	// Cancel is the client's cancel request, or nil for a startup. With a cancel request, the fields about the identity
	// are empty.
	Cancel *CancelRequest
}

// CancelRequest is a request to cancel a statement, which a client sends instead of a startup packet. Sluice closes the
// connection without an answer.
type CancelRequest struct {
	PID    uint32
	Secret []byte // 4 bytes in protocol 3.0, up to 256 in 3.2
}

// These are refusals of a startup. Callers distinguish the exported ones. Texts and codes are PostgreSQL's where
// PostgreSQL has the same refusal.
var (
	ErrTimeout       = &wire.Error{Fatal: true, Code: "57014", Message: "canceling authentication due to timeout"}
	errStartupLength = wire.ProtocolViolation("invalid length of startup packet")
	errStartupCut    = wire.ProtocolViolation("incomplete startup packet")
	ErrPlainAfterTLS = &wire.Error{Fatal: true, Code: "08P01",
		Message: "received unencrypted data after SSL request",
		Detail:  "This could be either a client-software bug or evidence of an attempted man-in-the-middle attack."}
	ErrNoALPN = wire.ProtocolViolation("received direct SSL connection request without ALPN protocol negotiation extension")
	errNoTLS  = errors.New("client began with TLS, which is not configured")

	ErrTLSRequired = &wire.Error{Fatal: true, Code: "28000", Message: "this connection requires TLS",
		Hint: "Connect with sslmode=require or stronger."}
	errNoUser = &wire.Error{Fatal: true, Code: "28000", Message: "no PostgreSQL user name specified in startup packet"}
)

// maxName is the greatest length of a name in PostgreSQL, which truncates longer names.
const maxName = 63

func errNoRole(name string) *wire.Error {
	return &wire.Error{Fatal: true, Code: "28000", Message: fmt.Sprintf("role \"%s\" does not exist", truncateName(name)),
		Hint: "A name has at most 63 bytes."}
}

func errDatabaseName(name string) *wire.Error {
	return &wire.Error{Fatal: true, Code: "3D000", Message: fmt.Sprintf("database \"%s\" does not exist", truncateName(name)),
		Hint: "A name has at most 63 bytes."}
}

// truncateName returns the beginning of a name that is too long, for an error.
func truncateName(name string) string { return strings.ToValidUTF8(name[:maxName], "") }

// Run performs the startup of the client on conn, without AuthenticationOk. If Run returns an error, Run has sent the
// client the reason, if possible, and the caller closes conn. io.EOF means that the client left. Without an error
// conn retains the deadline of the startup, for the messages that follow.
func (s *Handshaker) Run(conn rawconn.Conn) (*Client, error) {
	g := &clientHandshake{Handshaker: s, raw: conn, conn: conn}
	defer g.releaseBuffer()
	until := time.Now().Add(s.timeout)
	if err := conn.SetDeadline(until); err != nil {
		return nil, err
	}
	h, err := g.negotiate()
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = ErrTimeout
		}
		g.sendRefusal(err)
		return nil, err
	}
	h.Until = until
	return h, nil
}

// clientHandshake is the state of one client's startup.
type clientHandshake struct {
	*Handshaker
	raw     rawconn.Conn
	conn    net.Conn  // raw or secured; nil while TLS performs its handshake
	secured *tls.Conn // nil without TLS
	cert    []byte    // our certificate (DER) in this handshake

	buf  []byte // a pooled buffer, nil before the first bytes
	r, w int
	out  []byte // sent with the next message
}

// negotiate reads the client's requests up to a startup message or a cancel request.
func (g *clientHandshake) negotiate() (*Client, error) {
	if err := g.bufferAtLeast(1); err != nil {
		return nil, err
	}
	// TLS and GSS encryption may be requested once each, as in PostgreSQL. A second request counts as an unknown protocol
	// version.
	mayTLS, mayGSS := true, true
	if g.buf[g.r] == directTLS {
		if err := g.startDirectTLS(); err != nil {
			return nil, err
		}
		mayTLS, mayGSS = false, false
	}
	for {
		packet, err := g.readPacket()
		if err != nil {
			return nil, err
		}
		switch code := binary.BigEndian.Uint32(packet); {
		case code == sslRequestCode && mayTLS:
			if err := g.answerSSLRequest(); err != nil {
				return nil, err
			}
			mayTLS, mayGSS = false, mayGSS && g.secured == nil
		case code == gssRequestCode && mayGSS:
			if err := g.writeAnswer('N'); err != nil {
				return nil, err
			}
			mayGSS = false
		case code == cancelRequestCode:
			return g.acceptCancel(packet)
		default:
			return g.beginStartup(packet)
		}
	}
}

// acceptCancel accepts a cancel request. Even where TLS is required, the request may come without TLS, because libpq
// before 17 always sends it so. The request contains only a cancel key.
func (g *clientHandshake) acceptCancel(packet []byte) (*Client, error) {
	var c pgproto3.CancelRequest
	if err := c.Decode(packet); err != nil {
		return nil, wire.ProtocolViolation("invalid length of query cancel packet")
	}
	return &Client{Conn: g.conn, Raw: g.raw, Cancel: &CancelRequest{PID: c.ProcessID, Secret: c.SecretKey}}, nil
}

// beginStartup answers the startup message: it negotiates the version and authenticates the client.
func (g *clientHandshake) beginStartup(packet []byte) (*Client, error) {
	m, err := parseStartup(packet)
	if err != nil {
		return nil, err
	}
	protocol := supportedProtocol(m.protocol)
	if protocol != m.protocol || len(m.unknown) > 0 {
		if err := g.bufferMessage(&pgproto3.NegotiateProtocolVersion{
			NewestMinorProtocol: protocol, UnrecognizedOptions: m.unknown}); err != nil {
			return nil, err
		}
	}
	switch {
	case m.user == "":
		return nil, errNoUser
	case len(m.user) > maxName:
		return nil, errNoRole(m.user)
	case len(m.database) > maxName:
		return nil, errDatabaseName(m.database)
	}
	if g.tlsRequired && g.secured == nil && !g.usesUnixSocket() {
		return nil, ErrTLSRequired
	}
	if err := g.checkReplication(m.params); err != nil {
		return nil, err
	}
	if err := g.authenticate(m.user); err != nil {
		return nil, err
	}
	if err := g.flush(); err != nil {
		return nil, err
	}
	h := &Client{Conn: g.conn, Raw: g.raw, User: m.user, Database: m.database, Params: m.params, Spelt: m.spelt, Protocol: protocol}
	if g.w > g.r {
		h.Rest = bytes.Clone(g.buf[g.r:g.w])
	}
	return h, nil
}

// checkReplication removes a parameter `replication` that requests no replication. checkReplication refuses other
// values, unless replication is allowed: in that case the server decides.
func (g *clientHandshake) checkReplication(params map[string]string) error {
	value, asked := params["replication"]
	if !asked || g.replication {
		return nil
	}
	switch value {
	case "false", "off", "no", "0":
		delete(params, "replication")
		return nil
	}
	return &wire.Error{Fatal: true, Code: "0A000", Message: "replication connections are not supported",
		Hint: "Connect to the server itself."}
}

// usesUnixSocket reports whether the client is connected by the Unix socket.
func (g *clientHandshake) usesUnixSocket() bool { return g.raw.LocalAddr().Network() == "unix" }
