// Package startup takes a client from the accepted connection to one that has said who it
// is and was believed: TLS, protocol version, startup packet, SCRAM, client certificates.
// It touches no backend. What follows AuthenticationOk is the caller's.
//
//	config.go     Config, and what is wrong with it
//	handshake.go  Handshaker, and the order in which one client's requests are answered
//	message.go    the startup packet and its options
//	stream.go     reading and writing one client, and telling it why it is refused
//	tls.go        encryption, with the certificate that channel binding needs
//	auth.go       SCRAM-SHA-256 and client certificates
//	peer.go       whose process is at the Unix socket
//	users.go      the users file
//	guesses.go    wrong passwords and cancel keys, bounded by source
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
	// maxStartupPacket bounds a startup packet after its length
	// (MAX_STARTUP_PACKET_LENGTH of PostgreSQL's pqcomm.h).
	maxStartupPacket = 10000
	// maxSASLResponse bounds a client's authentication message
	// (PG_MAX_SASL_MESSAGE_LENGTH of PostgreSQL's sasl.c).
	maxSASLResponse = 1024
	// RefusalTimeout bounds the telling of a client why it is refused.
	RefusalTimeout = time.Second
	// directTLS is the first byte of a TLS handshake, and of no startup packet
	// that is short enough.
	directTLS = 0x16
)

// Codes that stand where a startup packet has its version (pqcomm.h).
const (
	cancelRequestCode = 1234<<16 | 5678
	sslRequestCode    = 1234<<16 | 5679
	gssRequestCode    = 1234<<16 | 5680
)

// A startup packet always fits into a buffer.
const _ = uint(wire.BufferSize - 4 - maxStartupPacket)

// Handshaker answers the beginnings of client connections: encryption, protocol
// version, authentication. One serves all clients of a Server, each in its own
// goroutine.
type Handshaker struct {
	timeout     time.Duration
	tls         *tls.Config // nil: not offered
	tlsRequired bool
	// replication clients are let in.
	replication bool

	method    AuthMethod
	usersFile string
	users     atomic.Pointer[users] // never nil once made with method SCRAM
	secret    authSecret
	passwords *Guesses
	peers     peers
}

// New returns a Handshaker for a valid Config. It reads the users file, where there is one.
func New(cfg Config) (*Handshaker, error) {
	s := &Handshaker{
		timeout:     cfg.Timeout,
		tlsRequired: cfg.TLSRequired,
		replication: cfg.Replication,
		method:      cfg.Method,
		usersFile:   cfg.UsersFile,
		passwords:   NewGuesses(passwordBurst, passwordEvery),
	}
	var err error
	if s.secret, err = readAuthSecret(cfg.SaltSecretFile); err != nil {
		return nil, err
	}
	if s.peers, err = newPeers(cfg.PeerMap); err != nil {
		return nil, err
	}
	if cfg.TLS != nil {
		s.tls = offered(cfg.TLS)
	}
	if err = s.ReloadUsers(); err != nil {
		err = fmt.Errorf("auth.users_file: %w", err)
	}
	return s, err
}

// Client is a client that has said who it is, and was believed.
type Client struct {
	Conn net.Conn     // what frames are read from: Raw, or a *tls.Conn over it
	Raw  rawconn.Conn // the socket

	User     string
	Database string // the user's name unless given
	// Params are the settings asked for: the startup parameters without user
	// and database, and what `options` held, by names in lower case.
	Params map[string]string
	// Spelt are, by the same names, those that the client has not written in lower case.
	Spelt map[string]string
	// Protocol is the version agreed on: 3.0 or 3.2.
	Protocol uint32
	// Rest is what the client sent behind its startup packet, nil usually.
	Rest []byte
	// Until is the deadline that Raw still has, and that its owner clears: the end of the time for the startup.
	Until time.Time

	// Cancel is set when the client is no client but asks for a cancel. Then
	// nothing else is.
	Cancel *CancelRequest
}

// CancelRequest is what a client sends instead of a startup packet: nothing is answered, the connection is closed.
type CancelRequest struct {
	PID    uint32
	Secret []byte // 4 bytes of protocol 3.0, up to 256 of 3.2
}

// Refusals of a startup; the caller tells those with a name of its own apart. Texts and codes are PostgreSQL's where it has them.
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

// maxName is the length of PostgreSQL's names. It looks for a longer one cut to that.
const maxName = 63

func errNoRole(name string) *wire.Error {
	return &wire.Error{Fatal: true, Code: "28000", Message: fmt.Sprintf("role \"%s\" does not exist", cutName(name)),
		Hint: "A name has at most 63 bytes."}
}

func errDatabaseName(name string) *wire.Error {
	return &wire.Error{Fatal: true, Code: "3D000", Message: fmt.Sprintf("database \"%s\" does not exist", cutName(name)),
		Hint: "A name has at most 63 bytes."}
}

// cutName is as much of a long name as an error repeats.
func cutName(name string) string { return strings.ToValidUTF8(name[:maxName], "") }

// Run performs the startup of the client on conn, up to but without
// AuthenticationOk. With an error the client has been told why, where that is
// possible, and conn is the caller's to close; io.EOF is a client that left of
// its own accord. Without an error the deadline of conn stays, for what the client is told then.
func (s *Handshaker) Run(conn rawconn.Conn) (*Client, error) {
	g := &handshake{Handshaker: s, raw: conn, conn: conn}
	defer g.release()
	until := time.Now().Add(s.timeout)
	if err := conn.SetDeadline(until); err != nil {
		return nil, err
	}
	h, err := g.negotiate()
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = ErrTimeout
		}
		g.refuse(err)
		return nil, err
	}
	h.Until = until
	return h, nil
}

// handshake is one client's startup.
type handshake struct {
	*Handshaker
	raw     rawconn.Conn
	conn    net.Conn  // raw or secured; nil while a handshake owns the stream
	secured *tls.Conn // nil in plain text
	cert    []byte    // our certificate (DER) in this handshake

	buf  []byte // a pooled buffer, nil until bytes have come
	r, w int
	out  []byte // to be sent with the next message
}

// negotiate reads requests until one is a startup message or a cancel.
func (g *handshake) negotiate() (*Client, error) {
	if err := g.need(1); err != nil {
		return nil, err
	}
	// Each of the two may be asked for once, as in PostgreSQL: a second one is a
	// version that nobody speaks.
	mayTLS, mayGSS := true, true
	if g.buf[g.r] == directTLS {
		if err := g.secureDirect(); err != nil {
			return nil, err
		}
		mayTLS, mayGSS = false, false
	}
	for {
		packet, err := g.packet()
		if err != nil {
			return nil, err
		}
		switch code := binary.BigEndian.Uint32(packet); {
		case code == sslRequestCode && mayTLS:
			if err := g.answerTLS(); err != nil {
				return nil, err
			}
			mayTLS, mayGSS = false, mayGSS && g.secured == nil
		case code == gssRequestCode && mayGSS:
			if err := g.answerByte('N'); err != nil {
				return nil, err
			}
			mayGSS = false
		case code == cancelRequestCode:
			return g.cancel(packet)
		default:
			return g.begin(packet)
		}
	}
}

// cancel is taken in plain text even where TLS is required: libpq before 17
// sends it in no other way, and it carries nothing but its key.
func (g *handshake) cancel(packet []byte) (*Client, error) {
	var c pgproto3.CancelRequest
	if err := c.Decode(packet); err != nil {
		return nil, wire.ProtocolViolation("invalid length of query cancel packet")
	}
	return &Client{Conn: g.conn, Raw: g.raw, Cancel: &CancelRequest{PID: c.ProcessID, Secret: c.SecretKey}}, nil
}

// begin answers the startup message proper.
func (g *handshake) begin(packet []byte) (*Client, error) {
	m, err := parseStartup(packet)
	if err != nil {
		return nil, err
	}
	protocol := supportedProtocol(m.protocol)
	if protocol != m.protocol || len(m.unknown) > 0 {
		if err := g.hold(&pgproto3.NegotiateProtocolVersion{
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
	if g.tlsRequired && g.secured == nil && !g.local() {
		return nil, ErrTLSRequired
	}
	if err := g.admitReplication(m.params); err != nil {
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

// admitReplication drops a `replication` that asks for none, and refuses
// another one unless replication is allowed: then the server judges it.
func (g *handshake) admitReplication(params map[string]string) error {
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

// local reports whether the client came by Unix socket.
func (g *handshake) local() bool { return g.raw.LocalAddr().Network() == "unix" }
