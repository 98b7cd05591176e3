package startup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/sockets"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// Requests as they stand on the wire.
var (
	startupSSL = []byte("\x00\x00\x00\x08\x04\xd2\x16\x2f")
	startupGSS = []byte("\x00\x00\x00\x08\x04\xd2\x16\x30")
)

// startupPacket is a startup message of version major.minor.
func startupPacket(major, minor uint32, params ...string) []byte {
	body := binary.BigEndian.AppendUint32(nil, major<<16|minor)
	for _, s := range params {
		body = append(append(body, s...), 0)
	}
	return startupFramed(append(body, 0))
}

// startupFramed puts a packet's length in front of it.
func startupFramed(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4)), body...)
}

func startupCancel(secretLen int) []byte {
	body := append([]byte("\x04\xd2\x16\x2e\x01\x02\x03\x04"), bytes.Repeat([]byte{'k'}, secretLen)...)
	return startupFramed(body)
}

func startupConfig(method AuthMethod) Config {
	return Config{Timeout: 20 * time.Second, Method: method}
}

func startupWith(t testing.TB, config Config) *Handshaker {
	t.Helper()
	s, err := NewHandshaker(config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type startupResult struct {
	client *Client
	err    error
}

// startupClient connects a client to s over network and runs its startup.
func startupClient(t testing.TB, s *Handshaker, network string) (client net.Conn, done <-chan startupResult) {
	t.Helper()
	server, client := sockets.ConnPair(t, network)
	client.SetDeadline(time.Now().Add(20 * time.Second))
	results := make(chan startupResult, 1)
	go func() {
		h, err := s.Run(rawconn.Wrap(server))
		if err != nil {
			server.Close()
		}
		results <- startupResult{h, err}
	}()
	return client, results
}

// startupStep is what a scripted client sends, and must then read.
type startupStep struct {
	send []byte
	want string
}

func runStartupScript(t *testing.T, s *Handshaker, network string, steps []startupStep) (net.Conn, startupResult) {
	t.Helper()
	client, done := startupClient(t, s, network)
	for i, step := range steps {
		if _, err := client.Write(step.send); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		got := make([]byte, len(step.want))
		if _, err := io.ReadFull(client, got); err != nil || string(got) != step.want {
			t.Fatalf("step %d: read %q, %v, want %q", i, got, err, step.want)
		}
	}
	return client, <-done
}

// negotiated is a NegotiateProtocolVersion.
func negotiated(t *testing.T, version uint32, options ...string) string {
	t.Helper()
	b, err := (&pgproto3.NegotiateProtocolVersion{NewestMinorProtocol: version, UnrecognizedOptions: options}).Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestStartupAccepts(t *testing.T) {
	const v30, v32 = 3 << 16, 3<<16 | 2
	query := "Q\x00\x00\x00\x0dSELECT 1\x00"
	for _, test := range []struct {
		name    string
		network string // tcp unless given
		steps   []startupStep
		want    Client
	}{
		{name: "3.0, database is the user", steps: []startupStep{{send: startupPacket(3, 0, "user", "u")}},
			want: Client{User: "u", Database: "u", Protocol: v30}},
		{name: "3.2, all said", steps: []startupStep{{send: startupPacket(3, 2, "user", "u", "database", "d", "client_encoding", "UTF8", "DateStyle", "ISO")}},
			want: Client{User: "u", Database: "d", Protocol: v32, Params: map[string]string{"client_encoding": "UTF8", "datestyle": "ISO"}}},
		{name: "empty database is none", steps: []startupStep{{send: startupPacket(3, 0, "database", "", "user", "u")}},
			want: Client{User: "u", Database: "u", Protocol: v30}},
		{name: "unix socket", network: "unix", steps: []startupStep{{send: startupPacket(3, 0, "user", "u")}},
			want: Client{User: "u", Database: "u", Protocol: v30}},
		{name: "3.1 never was", steps: []startupStep{{startupPacket(3, 1, "user", "u"), negotiated(t, v30)}},
			want: Client{User: "u", Database: "u", Protocol: v30}},
		{name: "3.3 is newer", steps: []startupStep{{startupPacket(3, 3, "user", "u"), negotiated(t, v32)}},
			want: Client{User: "u", Database: "u", Protocol: v32}},
		{name: "3.9999 is libpq 19", steps: []startupStep{{startupPacket(3, 9999, "user", "u", "_pq_.test_protocol_negotiation", ""),
			negotiated(t, v32, "_pq_.test_protocol_negotiation")}},
			want: Client{User: "u", Database: "u", Protocol: v32}},
		{name: "unknown option of 3.0", steps: []startupStep{{startupPacket(3, 0, "_pq_.b", "1", "user", "u", "_pq_.a", "2"),
			negotiated(t, v30, "_pq_.b", "_pq_.a")}},
			want: Client{User: "u", Database: "u", Protocol: v30}},
		{name: "options", steps: []startupStep{{send: startupPacket(3, 0, "search_path", "own", "user", "u",
			"options", `-c search_path=other --statement-timeout=5s  -cTimeZone=Etc/UTC -c application_name=a\ b\\c `)}},
			want: Client{User: "u", Database: "u", Protocol: v30, Params: map[string]string{
				"search_path": "own", "statement_timeout": "5s", "timezone": "Etc/UTC", "application_name": `a b\c`}}},
		{name: "no replication", steps: []startupStep{{send: startupPacket(3, 0, "user", "u", "replication", "off")}},
			want: Client{User: "u", Database: "u", Protocol: v30}},
		{name: "SSL not offered", steps: []startupStep{{startupSSL, "N"}, {send: startupPacket(3, 0, "user", "u")}},
			want: Client{User: "u", Database: "u", Protocol: v30}},
		{name: "GSS, then SSL", steps: []startupStep{{startupGSS, "N"}, {startupSSL, "N"}, {send: startupPacket(3, 0, "user", "u")}},
			want: Client{User: "u", Database: "u", Protocol: v30}},
		{name: "SSL, then GSS", steps: []startupStep{{startupSSL, "N"}, {startupGSS, "N"}, {send: startupPacket(3, 0, "user", "u")}},
			want: Client{User: "u", Database: "u", Protocol: v30}},
		{name: "pipelined query", steps: []startupStep{{send: append(startupPacket(3, 0, "user", "u"), query...)}},
			want: Client{User: "u", Database: "u", Protocol: v30, Rest: []byte(query)}},
		{name: "cancel of 3.0", steps: []startupStep{{send: startupCancel(4)}},
			want: Client{Cancel: &CancelRequest{PID: 0x01020304, Secret: []byte("kkkk")}}},
		{name: "cancel of 3.2", steps: []startupStep{{send: startupCancel(256)}},
			want: Client{Cancel: &CancelRequest{PID: 0x01020304, Secret: bytes.Repeat([]byte("k"), 256)}}},
		{name: "cancel after SSL not offered", steps: []startupStep{{startupSSL, "N"}, {send: startupCancel(32)}},
			want: Client{Cancel: &CancelRequest{PID: 0x01020304, Secret: bytes.Repeat([]byte("k"), 32)}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			network := test.network
			if network == "" {
				network = "tcp"
			}
			client, got := runStartupScript(t, startupWith(t, startupConfig(Trust)), network, test.steps)
			if got.err != nil {
				t.Fatal(got.err)
			}
			checkClient(t, got.client, &test.want)
			if got.client.Conn != net.Conn(got.client.Raw) {
				t.Error("conn is not the socket in plain text")
			}
			// Nothing more was said to the client.
			got.client.Conn.Close()
			if more, err := io.ReadAll(client); len(more) > 0 || err != nil {
				t.Errorf("then the client read %q, %v", more, err)
			}
		})
	}
}

func checkClient(t *testing.T, got, want *Client) {
	t.Helper()
	if got.User != want.User || got.Database != want.Database || got.Protocol != want.Protocol ||
		!maps.Equal(got.Params, want.Params) || !bytes.Equal(got.Rest, want.Rest) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if (got.Cancel == nil) != (want.Cancel == nil) {
		t.Fatalf("cancel %v, want %v", got.Cancel, want.Cancel)
	}
	if want.Cancel != nil && (got.Cancel.PID != want.Cancel.PID || !bytes.Equal(got.Cancel.Secret, want.Cancel.Secret)) {
		t.Errorf("cancel %v, want %v", got.Cancel, want.Cancel)
	}
}

// The usual startup is one read and no write, and leaves the one deadline that it tells.
func TestStartupUsual(t *testing.T) {
	conn := &startupTape{in: startupPacket(3, 0, "user", "u")}
	h, err := startupWith(t, startupConfig(Trust)).Run(rawconn.WrapPlain(conn))
	if err != nil {
		t.Fatal(err)
	}
	if conn.reads != 1 || conn.out.Len() != 0 {
		t.Errorf("%d reads, %d bytes written", conn.reads, conn.out.Len())
	}
	if d := conn.deadlines; len(d) != 1 || d[0].IsZero() || !d[0].Equal(h.Until) {
		t.Errorf("deadlines %v, want one, %v", d, h.Until)
	}
}

// What the client pipelined is its own, not the buffer's.
func TestStartupRestIsCopied(t *testing.T) {
	const query = "Q\x00\x00\x00\x0dSELECT 1\x00"
	h, err := startupWith(t, startupConfig(Trust)).Run(rawconn.WrapPlain(&startupTape{
		in: append(startupPacket(3, 0, "user", "u"), query...)}))
	if err != nil {
		t.Fatal(err)
	}
	buf := wire.GetBuffer()
	clear(buf)
	wire.PutBuffer(buf)
	if string(h.Rest) != query {
		t.Fatalf("rest became %q", h.Rest)
	}
}

func TestStartupLongest(t *testing.T) {
	s := startupWith(t, startupConfig(Trust))
	for over, want := range []error{nil, errStartupLength} {
		fixed := len(startupPacket(3, 0, "user", "u", "a", "")) - 4
		value := strings.Repeat("x", maxStartupPacket-fixed+over)
		h, err := s.Run(rawconn.WrapPlain(&startupTape{in: startupPacket(3, 0, "user", "u", "a", value)}))
		if err != want || err == nil && h.Params["a"] != value {
			t.Errorf("%d bytes too long: %v, want %v", over, err, want)
		}
	}
}

func TestStartupReplicationAllowed(t *testing.T) {
	config := startupConfig(Trust)
	config.Replication = true
	s, err := NewHandshaker(config)
	if err != nil {
		t.Fatal(err)
	}
	_, got := runStartupScript(t, s, "tcp", []startupStep{{send: startupPacket(3, 0, "user", "u", "replication", "database")}})
	if got.err != nil || got.client.Params["replication"] != "database" {
		t.Fatalf("%+v, %v", got.client, got.err)
	}
}

func TestStartupRefuses(t *testing.T) {
	for _, test := range []struct {
		name string
		// closing says that the client ends its stream behind what it sends.
		closing bool
		steps   []startupStep
		code    string
		message string
	}{
		{name: "protocol 2", steps: []startupStep{{send: startupPacket(2, 0, "user", "u")}},
			code: "0A000", message: "unsupported frontend protocol 2.0: server supports 3.0 to 3.2"},
		{name: "protocol 4", steps: []startupStep{{send: startupPacket(4, 1, "user", "u")}},
			code: "0A000", message: "unsupported frontend protocol 4.1: server supports 3.0 to 3.2"},
		{name: "SSL twice", steps: []startupStep{{startupSSL, "N"}, {send: startupSSL}},
			code: "0A000", message: "unsupported frontend protocol 1234.5679: server supports 3.0 to 3.2"},
		{name: "GSS twice", steps: []startupStep{{startupGSS, "N"}, {send: startupGSS}},
			code: "0A000", message: "unsupported frontend protocol 1234.5680: server supports 3.0 to 3.2"},
		{name: "plain bytes with the SSL request", steps: []startupStep{{send: append(bytes.Clone(startupSSL), startupPacket(3, 0, "user", "u")...)}},
			code: "08P01", message: "received unencrypted data after SSL request"},
		{name: "one byte with the GSS request", steps: []startupStep{{send: append(bytes.Clone(startupGSS), 0)}},
			code: "08P01", message: "received unencrypted data after SSL request"},
		{name: "no user", steps: []startupStep{{send: startupPacket(3, 0, "database", "d")}},
			code: "28000", message: "no PostgreSQL user name specified in startup packet"},
		{name: "empty user", steps: []startupStep{{send: startupPacket(3, 0, "user", "")}},
			code: "28000", message: "no PostgreSQL user name specified in startup packet"},
		{name: "no parameter at all", steps: []startupStep{{send: startupPacket(3, 0)}},
			code: "28000", message: "no PostgreSQL user name specified in startup packet"},
		{name: "no user, newer version", steps: []startupStep{{startupPacket(3, 7), negotiated(t, 3<<16|2)}},
			code: "28000", message: "no PostgreSQL user name specified in startup packet"},
		{name: "user of 5,000 bytes", steps: []startupStep{{send: startupPacket(3, 0, "user", strings.Repeat("u", 5000), "database", "d")}},
			code: "28000", message: "role \"" + strings.Repeat("u", 63) + "\" does not exist"},
		{name: "user of 64 bytes, cut in a character", steps: []startupStep{{send: startupPacket(3, 0, "user", strings.Repeat("u", 62)+"ü")}},
			code: "28000", message: "role \"" + strings.Repeat("u", 62) + "\" does not exist"},
		{name: "database of 64 bytes", steps: []startupStep{{send: startupPacket(3, 0, "user", "u", "database", strings.Repeat("d", 64))}},
			code: "3D000", message: "database \"" + strings.Repeat("d", 63) + "\" does not exist"},
		{name: "replication", steps: []startupStep{{send: startupPacket(3, 0, "user", "u", "replication", "true")}},
			code: "0A000", message: "replication connections are not supported"},
		{name: "logical replication", steps: []startupStep{{send: startupPacket(3, 0, "user", "u", "replication", "database")}},
			code: "0A000", message: "replication connections are not supported"},
		{name: "length 0", steps: []startupStep{{send: []byte("\x00\x00\x00\x00\x00\x03\x00\x00")}},
			code: "08P01", message: "invalid length of startup packet"},
		{name: "length 7", steps: []startupStep{{send: []byte("\x00\x00\x00\x07\x00\x03\x00")}},
			code: "08P01", message: "invalid length of startup packet"},
		{name: "negative length", steps: []startupStep{{send: []byte("\xff\xff\xff\xff\x00\x03\x00\x00")}},
			code: "08P01", message: "invalid length of startup packet"},
		{name: "a megabyte behind", steps: []startupStep{{send: append([]byte{0, 0x10, 0, 0, 0, 3, 0, 0}, make([]byte, 1<<20)...)}},
			code: "08P01", message: "invalid length of startup packet"},
		{name: "HTTP", steps: []startupStep{{send: []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")}},
			code: "08P01", message: "invalid length of startup packet"},
		{name: "no terminator", steps: []startupStep{{send: startupFramed([]byte("\x00\x03\x00\x00user\x00u\x00"))}},
			code: "08P01", message: "invalid startup packet layout: expected terminator as last byte"},
		{name: "no value", steps: []startupStep{{send: startupFramed([]byte("\x00\x03\x00\x00user\x00"))}},
			code: "08P01", message: "invalid startup packet layout: expected terminator as last byte"},
		{name: "bytes behind the terminator", steps: []startupStep{{send: startupFramed([]byte("\x00\x03\x00\x00user\x00u\x00\x00x"))}},
			code: "08P01", message: "invalid startup packet layout: expected terminator as last byte"},
		{name: "version only", steps: []startupStep{{send: startupFramed([]byte("\x00\x03\x00\x00"))}},
			code: "08P01", message: "invalid startup packet layout: expected terminator as last byte"},
		{name: "unknown switch", steps: []startupStep{{send: startupPacket(3, 0, "user", "u", "options", "-F")}},
			code: "42601", message: "invalid command-line argument for server process: -F"},
		{name: "switch without value", steps: []startupStep{{send: startupPacket(3, 0, "user", "u", "options", "-c geqo")}},
			code: "42601", message: "-c requires a value"},
		{name: "cancel too short", steps: []startupStep{{send: startupCancel(3)}},
			code: "08P01", message: "invalid length of query cancel packet"},
		{name: "cancel too long", steps: []startupStep{{send: startupCancel(257)}},
			code: "08P01", message: "invalid length of query cancel packet"},
		{name: "cut inside the length", closing: true, steps: []startupStep{{send: []byte{0, 0}}},
			code: "08P01", message: "incomplete startup packet"},
		{name: "cut inside the packet", closing: true, steps: []startupStep{{send: startupPacket(3, 0, "user", "u")[:12]}},
			code: "08P01", message: "incomplete startup packet"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			client, done := startupClient(t, startupWith(t, startupConfig(Trust)), "tcp")
			for i, step := range test.steps {
				// A megabyte may meet a closed connection half way.
				if _, err := client.Write(step.send); err != nil && len(step.send) < 1<<20 {
					t.Fatal(err)
				}
				got := make([]byte, len(step.want))
				if _, err := io.ReadFull(client, got); err != nil || string(got) != step.want {
					t.Fatalf("step %d: read %q, %v, want %q", i, got, err, step.want)
				}
			}
			if test.closing {
				client.(*net.TCPConn).CloseWrite()
			}
			checkRefusal(t, client, <-done, test.code, test.message)
		})
	}
}

// checkRefusal holds what the client reads and what run returned to one FATAL
// at the end of the stream.
func checkRefusal(t *testing.T, client io.Reader, got startupResult, code, message string) {
	t.Helper()
	var told *wire.Error
	if got.client != nil || !errors.As(got.err, &told) || !told.Fatal || told.Code != code || told.Message != message {
		t.Errorf("run returned %+v, %v; want a FATAL %s %s", got.client, got.err, code, message)
	}
	frontend := pgproto3.NewFrontend(client, nil)
	m, err := frontend.Receive()
	if err != nil {
		t.Fatal(err)
	}
	e, ok := m.(*pgproto3.ErrorResponse)
	if !ok || e.Severity != "FATAL" || e.SeverityUnlocalized != "FATAL" || e.Code != code || e.Message != message {
		t.Errorf("the client read %+v, want FATAL %s %s", m, code, message)
	}
	if m, err := frontend.Receive(); err == nil {
		t.Errorf("then the client read %T", m)
	}
}

// A client that leaves, or only looks whether the port is open, is told nothing.
func TestStartupClientLeaves(t *testing.T) {
	for name, send := range map[string][]byte{"at once": nil, "after SSL": startupSSL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, done := startupClient(t, startupWith(t, startupConfig(Trust)), "tcp")
			client.Write(send)
			client.(*net.TCPConn).CloseWrite()
			if got := <-done; got.err != io.EOF {
				t.Errorf("run = %v, want io.EOF", got.err)
			}
			if said, err := io.ReadAll(client); len(said) != len(send)/len(startupSSL) || err != nil {
				t.Errorf("the client read %q, %v", said, err)
			}
		})
	}
}

func TestOptionWords(t *testing.T) {
	for in, want := range map[string][]string{
		"":                 nil,
		" \t\n\v\f\r":      nil,
		"a":                {"a"},
		" a  b ":           {"a", "b"},
		`a\ b`:             {"a b"},
		`a\\ b`:            {`a\`, "b"},
		`\a\b`:             {"ab"},
		`a\`:               {"a"},
		`\`:                {""},
		"-c a=b\\\tc --d=": {"-c", "a=b\tc", "--d="},
	} {
		if got := splitOptions(in); strings.Join(got, "|") != strings.Join(want, "|") || len(got) != len(want) {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestOptionSettings(t *testing.T) {
	for in, want := range map[string]map[string]string{
		"":                       {},
		"-c a=1 -c A=2":          {"a": "2"},
		"--a-b=c-d=e":            {"a_b": "c-d=e"},
		"-c a=":                  {"a": ""},
		"-c dsql.x=1 --dsql.y=2": {"dsql.x": "1", "dsql.y": "2"},
		"-c":                     nil,
		"-c a":                   nil,
		"-c =b":                  nil,
		"--":                     nil,
		"--=b":                   nil,
		"a=b":                    nil,
		"-S 100":                 nil,
		"-c a=b c=d":             nil,
	} {
		m := startupMessage{params: map[string]string{}, spelt: map[string]string{}}
		if err := m.parseOptions(in); (err != nil) != (want == nil) || err == nil && !maps.Equal(m.params, want) {
			t.Errorf("%q: %v, %v, want %v", in, m.params, err, want)
		}
	}
}
