package proxy

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
	// refusalTimeout bounds the telling of a client why it is refused.
	refusalTimeout = time.Second
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

// startup answers the beginnings of client connections: encryption, protocol
// version, authentication. One serves all clients of a Server, each in its own
// goroutine.
type startup struct {
	timeout     time.Duration
	tls         *tls.Config // nil: not offered
	tlsRequired bool
	// replication clients are let in.
	replication bool

	method    AuthMethod
	usersFile string
	users     atomic.Pointer[users] // never nil once made with method SCRAM
	secret    authSecret
}

// newStartup reads the users file, where there is one. Clients that ask for a
// replication connection are refused unless allowed.
func newStartup(cfg Config, allowReplication bool) (*startup, error) {
	s := &startup{
		timeout:     cfg.StartupTimeout,
		tlsRequired: cfg.Auth.TLSRequired,
		replication: allowReplication,
		method:      cfg.Auth.Method,
		usersFile:   cfg.Auth.UsersFile,
		secret:      newAuthSecret(),
	}
	if cfg.Auth.TLS != nil {
		s.tls = startupTLS(cfg.Auth.TLS)
	}
	return s, s.reloadUsers()
}

// hello is a client that has said who it is, and was believed.
type hello struct {
	conn net.Conn     // what frames are read from: raw, or a *tls.Conn over it
	raw  rawconn.Conn // the socket

	user     string
	database string // the user's name unless given
	// params are the settings asked for: the startup parameters without user
	// and database, and what `options` held, by names in lower case.
	params map[string]string
	// protocol is the version agreed on: 3.0 or 3.2.
	protocol uint32
	// rest is what the client sent behind its startup packet, nil usually.
	rest []byte

	// cancel is set when the client is no client but asks for a cancel. Then
	// nothing else is.
	cancel *cancelRequest
}

// cancelRequest is a CancelRequest: nothing is answered, the connection is closed.
type cancelRequest struct {
	pid    uint32
	secret []byte // 4 bytes of protocol 3.0, up to 256 of 3.2
}

// Refusals of a startup. Texts and codes are PostgreSQL's where it has them.
var (
	errStartupTimeout = &wire.Error{Fatal: true, Code: "57014", Message: "canceling authentication due to timeout"}
	errStartupLength  = wire.ProtocolViolation("invalid length of startup packet")
	errStartupCut     = wire.ProtocolViolation("incomplete startup packet")
	errPlainAfterTLS  = &wire.Error{Fatal: true, Code: "08P01",
		Message: "received unencrypted data after SSL request",
		Detail:  "This could be either a client-software bug or evidence of an attempted man-in-the-middle attack."}
	errNoALPN = wire.ProtocolViolation("received direct SSL connection request without ALPN protocol negotiation extension")
	errNoTLS  = errors.New("client began with TLS, which is not configured")

	errTLSRequired = &wire.Error{Fatal: true, Code: "28000", Message: "this connection requires TLS",
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

// run performs the startup of the client on conn, up to but without
// AuthenticationOk. With an error the client has been told why, where that is
// possible, and conn is the caller's to close; io.EOF is a client that left of
// its own accord. The deadlines of conn are cleared at the end.
func (s *startup) run(conn rawconn.Conn) (*hello, error) {
	g := &greeting{startup: s, raw: conn, conn: conn}
	defer g.release()
	if err := conn.SetDeadline(time.Now().Add(s.timeout)); err != nil {
		return nil, err
	}
	h, err := g.greet()
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = errStartupTimeout
		}
		g.refuse(err)
		return nil, err
	}
	return h, nil
}

// greeting is one client's startup.
type greeting struct {
	*startup
	raw     rawconn.Conn
	conn    net.Conn  // raw or secured; nil while a handshake owns the stream
	secured *tls.Conn // nil in plain text
	cert    []byte    // our certificate (DER) in this handshake

	buf  []byte // a pooled buffer, nil until bytes have come
	r, w int
	out  []byte // to be sent with the next message
}

// greet reads requests until one is a startup message or a cancel.
func (g *greeting) greet() (*hello, error) {
	if err := g.need(1); err != nil {
		return nil, err
	}
	// Each of the two may be asked for once, as in PostgreSQL: a second one is a
	// version that nobody speaks.
	mayTLS, mayGSS := true, true
	if g.buf[g.r] == directTLS {
		if err := g.handshakeDirect(); err != nil {
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
func (g *greeting) cancel(packet []byte) (*hello, error) {
	var c pgproto3.CancelRequest
	if err := c.Decode(packet); err != nil {
		return nil, wire.ProtocolViolation("invalid length of query cancel packet")
	}
	return &hello{conn: g.conn, raw: g.raw, cancel: &cancelRequest{pid: c.ProcessID, secret: c.SecretKey}}, nil
}

// begin answers the startup message proper.
func (g *greeting) begin(packet []byte) (*hello, error) {
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
		return nil, errTLSRequired
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
	h := &hello{conn: g.conn, raw: g.raw, user: m.user, database: m.database, params: m.params, protocol: protocol}
	if g.w > g.r {
		h.rest = bytes.Clone(g.buf[g.r:g.w])
	}
	return h, nil
}

// admitReplication drops a `replication` that asks for none, and refuses
// another one unless replication is allowed: then the server judges it.
func (g *greeting) admitReplication(params map[string]string) error {
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
func (g *greeting) local() bool { return g.raw.LocalAddr().Network() == "unix" }

// packet reads one startup packet, without its length. It is valid until the
// next read.
func (g *greeting) packet() ([]byte, error) {
	if err := g.need(4); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(g.buf[g.r:])
	if n < 4+4 || n > 4+maxStartupPacket {
		return nil, errStartupLength
	}
	return g.take(4, int(n))
}

// response reads the client's next authentication message. It is valid until
// the next read.
func (g *greeting) response() ([]byte, error) {
	if err := g.need(wire.HeaderLen); err != nil {
		return nil, err
	}
	if typ := g.buf[g.r]; typ != msgSASLResponse {
		return nil, wire.ProtocolViolation("expected SASL response, got message type %d", typ)
	}
	n := binary.BigEndian.Uint32(g.buf[g.r+1:])
	if n < 4 || n > 4+maxSASLResponse {
		return nil, wire.ProtocolViolation("invalid message length")
	}
	return g.take(wire.HeaderLen, int(n)+1)
}

// take consumes total bytes and returns them without their first skip.
func (g *greeting) take(skip, total int) ([]byte, error) {
	if err := g.need(total); err != nil {
		return nil, err
	}
	b := g.buf[g.r+skip : g.r+total]
	g.r += total
	return b, nil
}

// need reads until n bytes are buffered. A client that is silent from the
// beginning costs no buffer.
func (g *greeting) need(n int) error {
	for g.w-g.r < n {
		var got int
		var err error
		switch {
		case g.buf != nil:
			g.w = copy(g.buf, g.buf[g.r:g.w])
			g.r = 0
			got, err = g.conn.Read(g.buf[g.w:])
		case g.secured == nil:
			g.buf, got, err = g.raw.ReadWith(wire.GetBuffer, wire.PutBuffer)
		default:
			g.buf = wire.GetBuffer()
			continue
		}
		g.w += got
		switch {
		case got > 0:
		case err == io.EOF && g.w > g.r:
			return errStartupCut
		case err != nil:
			return err
		}
	}
	return nil
}

// answerByte answers an encryption request. Bytes that came with it would pass
// for encrypted ones later (CVE-2021-23222).
func (g *greeting) answerByte(answer byte) error {
	if g.w > g.r {
		return errPlainAfterTLS
	}
	_, err := g.conn.Write([]byte{answer})
	return err
}

// hold keeps a message back until the next flush.
func (g *greeting) hold(m pgproto3.BackendMessage) error {
	out, err := m.Encode(g.out)
	if err != nil {
		return fmt.Errorf("encode %T: %w", m, err)
	}
	g.out = out
	return nil
}

// send writes a message, behind what was held.
func (g *greeting) send(m pgproto3.BackendMessage) error {
	if err := g.hold(m); err != nil {
		return err
	}
	return g.flush()
}

func (g *greeting) flush() error {
	if len(g.out) == 0 {
		return nil
	}
	_, err := g.conn.Write(g.out)
	g.out = g.out[:0]
	return err
}

// refuse tells the client why, if it can still be told and was not the one to leave.
func (g *greeting) refuse(cause error) {
	var told *wire.Error
	if !errors.As(cause, &told) || g.conn == nil {
		return
	}
	// Best effort: the connection is lost whether this arrives or not.
	_ = g.raw.SetDeadline(time.Now().Add(refusalTimeout))
	_, _ = g.conn.Write(told.Append(g.out))
	if g.secured != nil {
		_ = g.secured.CloseWrite()
	}
}

func (g *greeting) release() {
	if g.buf != nil {
		wire.PutBuffer(g.buf)
		g.buf = nil
	}
}
