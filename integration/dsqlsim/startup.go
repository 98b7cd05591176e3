package dsqlsim

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

// database is the name of the only database that a cluster has.
const database = "postgres"

const (
	protocolMajor   = 3
	protocolVersion = protocolMajor << 16 // 3.0, the newest here
	maxPassword     = maxTokenLength + 1024
)

// startupMessage is the content of a client's startup packet.
type startupMessage struct {
	version    uint32
	role       string
	database   string
	parameters map[string]string // other settings that the client requests
	extensions []string          // _pq_. options, none of which is known
}

// parseStartup parses the startup packet. The failure is nil if the packet is valid.
func parseStartup(packet []byte) (*startupMessage, *failure) {
	up := &startupMessage{version: binary.BigEndian.Uint32(packet), parameters: make(map[string]string)}
	if up.version>>16 != protocolMajor {
		return nil, &failure{fatal: true, code: codeNotSupported, message: fmt.Sprintf(
			"unsupported frontend protocol %d.%d: server supports 3.0 to 3.0", up.version>>16, up.version&0xffff)}
	}
	fields := bytes.Split(packet[4:], []byte{0})
	for len(fields) >= 2 && len(fields[0]) > 0 {
		up.setOption(string(fields[0]), string(fields[1]))
		fields = fields[2:]
	}
	// The list of parameters ends with an empty name, and nothing may follow.
	if len(fields) != 2 || len(fields[0])+len(fields[1]) > 0 {
		return nil, protocolViolation("invalid startup packet layout: expected terminator as last byte")
	}
	if up.role == "" {
		return nil, &failure{fatal: true, code: "28000", message: "no PostgreSQL user name specified in startup packet"}
	}
	if up.database == "" {
		up.database = up.role
	}
	return up, nil
}

func (up *startupMessage) setOption(name, value string) {
	switch {
	case name == "user":
		up.role = value
	case name == "database":
		up.database = value
	case name == "options":
		for name, value := range parseOptions(value) {
			up.parameters[name] = value
		}
	case strings.HasPrefix(name, "_pq_."):
		up.extensions = append(up.extensions, name)
	default:
		up.parameters[name] = value
	}
}

// parseOptions parses "-c name=value --name=value", where a backslash escapes the next character. An invalid word
// becomes a parameter that no client may set.
func parseOptions(s string) map[string]string {
	found := make(map[string]string)
	words := splitOptions(s)
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		switch {
		case word == "-c" && len(words) > 0:
			word, words = words[0], words[1:]
		case strings.HasPrefix(word, "-c"):
			word = word[len("-c"):]
		case strings.HasPrefix(word, "--"):
			word = word[len("--"):]
		default:
			found[word] = ""
			continue
		}
		name, value, _ := strings.Cut(word, "=")
		found[strings.ReplaceAll(name, "-", "_")] = value
	}
	return found
}

func splitOptions(s string) []string {
	var words []string
	var b strings.Builder
	inWord := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == ' ' || c >= '\t' && c <= '\r':
			if inWord {
				words = append(words, b.String())
				b.Reset()
			}
			inWord = false
			continue
		case c == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
		inWord = true
	}
	if inWord {
		words = append(words, b.String())
	}
	return words
}

// checkParameters renames the parameters for PostgreSQL. It returns the refusal of a parameter that DSQL does not let a
// client set, the first by name. That refusal is measured: FATAL, the connection is refused.
func (up *startupMessage) checkParameters() error {
	known := make(map[string]string, len(up.parameters))
	for _, name := range slices.Sorted(maps.Keys(up.parameters)) {
		if !dialect.IsSettable(name) {
			f := failureOf(dialect.NotSettableRefusal(name))
			f.fatal = true
			return wrapReason("parameter", f)
		}
		known[dialect.UpstreamName(name)] = up.parameters[name]
	}
	up.parameters = known
	return nil
}

// serveConn handles one connection from its first byte to its last.
func (s *Server) serveConn(conn net.Conn) {
	ctx, cancel := context.WithTimeout(s.ctx, handshakeTimeout)
	defer cancel()
	_ = conn.SetDeadline(time.Now().Add(handshakeTimeout))
	g, err := s.readGreeting(ctx, conn)
	if err != nil {
		if !errors.Is(err, errNoStartup) && !errors.Is(err, io.EOF) {
			s.log.Info("handshake failed", "client", conn.RemoteAddr(), "error", err)
		}
		return
	}
	id := s.lastID.Add(1)
	up, err := s.checkGreeting(g, id)
	if err != nil {
		s.refuseConn(g.conn, id, err)
		return
	}
	if err := s.admitConn(); err != nil {
		s.refuseConn(g.conn, id, err)
		return
	}
	leave := sync.OnceFunc(s.releaseConn)
	defer leave()
	if err := s.authenticate(g, up); err != nil {
		s.refuseConn(g.conn, id, err)
		return
	}
	s.serveSession(g.conn, conn, id, up, leave)
}

// checkGreeting makes all checks of a connection that need no password.
func (s *Server) checkGreeting(g *greeting, id uint64) (*startupMessage, error) {
	if !g.secure {
		return nil, wrapReason("no TLS", noTLS)
	}
	up, failed := parseStartup(g.packet)
	if failed != nil {
		return nil, wrapReason("startup packet", failed)
	}
	if err := s.injectAtConnect(id); err != nil {
		return nil, wrapReason("planned", err)
	}
	_ = g.conn.SetDeadline(time.Now().Add(handshakeTimeout)) // the time of a stall does not count for the client
	switch strings.ToLower(g.serverName) {
	case s.config.Endpoint:
		return up, nil
	case "":
		return nil, wrapReason("no SNI", noSNI)
	}
	return nil, wrapReason("foreign SNI", accessDenied)
}

// authenticate asks the client for its token and verifies the token. After that it checks the client's parameters, so
// that a client without a valid token learns nothing about them.
func (s *Server) authenticate(g *greeting, up *startupMessage) error {
	var out []byte
	if up.version > protocolVersion || len(up.extensions) > 0 {
		out = appendNegotiation(out, up.extensions)
	}
	out = append(out, encodeMessage(&pgproto3.AuthenticationCleartextPassword{})...)
	if _, err := g.conn.Write(out); err != nil {
		return wrapReason("client left", err)
	}
	f, err := readFrame(g.conn, maxPassword)
	if err != nil {
		return wrapReason("no password", err)
	}
	if f.kind != 'p' || len(f.body) == 0 {
		return wrapReason("no password", accessDenied)
	}
	token := string(f.body[:len(f.body)-1])
	if err := s.tokens.verifyToken(token, up.role, time.Now()); err != nil {
		return err
	}
	if up.database != database {
		return wrapReason("database", &failure{fatal: true, code: codeNoDatabase, message: `database "` + up.database + `" does not exist`})
	}
	return up.checkParameters()
}

// appendNegotiation appends a NegotiateProtocolVersion to out: version 3.0, with all given extensions as unknown.
func appendNegotiation(out []byte, extensions []string) []byte {
	body := binary.BigEndian.AppendUint32(nil, protocolVersion)
	body = binary.BigEndian.AppendUint32(body, uint32(len(extensions)))
	for _, name := range extensions {
		body = append(append(body, name...), 0)
	}
	return appendFrame(out, 'v', body)
}

// refuseConn ends a connection before its session begins. It sends the error to the client, and records it in log and
// ledger.
func (s *Server) refuseConn(conn net.Conn, id uint64, err error) {
	outcome := "closed"
	if f, ok := errors.AsType[*failure](err); ok {
		outcome = f.code
		_, _ = conn.Write(encodeMessage(f.response())) // the client may be gone
	}
	_ = conn.Close()
	s.ledger.addEvent(LedgerEvent{Session: id, Kind: "refuse", Outcome: outcome, Detail: err.Error()})
	s.metrics.refusedConnections.WithLabelValues(outcome).Inc()
	s.log.Info("connection refused", "session", id, "client", conn.RemoteAddr(), "error", err)
}
