package startup

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-proxy/sluice/integration/certs"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// startupOffer is the TLS configuration of a server that ca vouches for.
func startupOffer(ca tls.Certificate) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{certs.SignedBy(ca, "server")},
		ClientCAs: certs.CertPool(ca), ClientAuth: tls.VerifyClientCertIfGiven}
}

func startupTLSConfig(method AuthMethod) Config {
	config := startupConfig(method)
	config.TLS = startupOffer(certs.SelfSigned("ca"))
	return config
}

// startupSecured makes client a TLS client; without alpn it names no protocol.
func startupSecured(client net.Conn, ca tls.Certificate, alpn string, own ...tls.Certificate) *tls.Conn {
	config := &tls.Config{RootCAs: certs.CertPool(ca), ServerName: "localhost", Certificates: own}
	if alpn != "" {
		config.NextProtos = []string{alpn}
	}
	return tls.Client(client, config)
}

// startupAnswered sends an SSLRequest and expects the answer.
func startupAnswered(t *testing.T, client net.Conn, want byte) {
	t.Helper()
	client.Write(startupSSL)
	got := make([]byte, 1)
	if _, err := io.ReadFull(client, got); err != nil || got[0] != want {
		t.Fatalf("SSLRequest was answered with %q, %v", got, err)
	}
}

func TestStartupTLS(t *testing.T) {
	ca := certs.SelfSigned("ca")
	config := startupConfig(Trust)
	config.TLS, config.TLSRequired = startupOffer(ca), true
	s := startupWith(t, config)
	for _, test := range []struct {
		name   string
		direct bool
		alpn   string
	}{
		{name: "requested", alpn: ""},
		{name: "requested, named", alpn: "postgresql"},
		{name: "direct", direct: true, alpn: "postgresql"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			client, done := startupClient(t, s, "tcp")
			if !test.direct {
				startupAnswered(t, client, 'S')
			}
			secured := startupSecured(client, ca, test.alpn)
			query := "Q\x00\x00\x00\x06;\x00"
			secured.Write(append(startupPacket(3, 2, "user", "u"), query...))
			got := <-done
			if got.err != nil {
				t.Fatal(got.err)
			}
			checkClient(t, got.client, &Client{User: "u", Database: "u", Protocol: 3<<16 | 2, Rest: []byte(query)})
			if _, ok := got.client.Conn.(*tls.Conn); !ok || got.client.Raw == nil {
				t.Errorf("conn is a %T over %T", got.client.Conn, got.client.Raw)
			}
			// The stream goes on where the startup left it.
			go secured.Write([]byte("more"))
			more := make([]byte, 4)
			if _, err := io.ReadFull(got.client.Conn, more); err != nil || string(more) != "more" {
				t.Errorf("then read %q, %v", more, err)
			}
		})
	}
}

// Each client shows the certificate that it has now.
func TestStartupTLSDoesNotResume(t *testing.T) {
	ca := certs.SelfSigned("ca")
	config := startupConfig(Trust)
	config.TLS = startupOffer(ca)
	s := startupWith(t, config)
	remembering := &tls.Config{RootCAs: certs.CertPool(ca), ServerName: "localhost", NextProtos: []string{"postgresql"},
		ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	for range 2 {
		client, done := startupClient(t, s, "tcp")
		secured := tls.Client(client, remembering)
		secured.Write(startupPacket(3, 0, "user", "u"))
		got := <-done
		if got.err != nil {
			t.Fatal(got.err)
		}
		go got.client.Conn.Write([]byte("x"))
		if _, err := secured.Read(make([]byte, 1)); err != nil { // takes a ticket along
			t.Fatal(err)
		}
		if secured.ConnectionState().DidResume {
			t.Fatal("a session was resumed")
		}
	}
}

func TestStartupTLSCancel(t *testing.T) {
	ca := certs.SelfSigned("ca")
	config := startupConfig(Cert)
	config.TLS, config.TLSRequired = startupOffer(ca), true
	s := startupWith(t, config)
	for name, secure := range map[string]bool{"secured": true, "plain although TLS is required": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, done := startupClient(t, s, "tcp")
			conn := client
			if secure {
				startupAnswered(t, client, 'S')
				conn = startupSecured(client, ca, "")
			}
			conn.Write(startupCancel(32))
			if got := <-done; got.err != nil || got.client.Cancel == nil || len(got.client.Cancel.Secret) != 32 {
				t.Fatalf("%+v, %v", got.client, got.err)
			}
		})
	}
}

func TestStartupTLSRefuses(t *testing.T) {
	ca := certs.SelfSigned("ca")
	config := startupConfig(Trust)
	config.TLS, config.TLSRequired = startupOffer(ca), true
	s := startupWith(t, config)
	inside := func(direct bool, alpn string, send []byte) func(*testing.T, net.Conn) net.Conn {
		return func(t *testing.T, client net.Conn) net.Conn {
			if !direct {
				startupAnswered(t, client, 'S')
			}
			secured := startupSecured(client, ca, alpn)
			secured.Write(send)
			return secured
		}
	}
	for _, test := range []struct {
		name          string
		client        func(*testing.T, net.Conn) net.Conn
		code, message string
	}{
		{"TLS is required", func(t *testing.T, client net.Conn) net.Conn {
			client.Write(startupPacket(3, 0, "user", "u"))
			return client
		}, "28000", "this connection requires TLS"},
		{"plain bytes with the SSL request", func(t *testing.T, client net.Conn) net.Conn {
			client.Write(append(slices.Clone(startupSSL), startupPacket(3, 0, "user", "u")...))
			return client
		}, "08P01", "received unencrypted data after SSL request"},
		{"direct without a name", inside(true, "", nil),
			"08P01", "received direct SSL connection request without ALPN protocol negotiation extension"},
		{"SSL inside TLS", inside(false, "", startupSSL),
			"0A000", "unsupported frontend protocol 1234.5679: server supports 3.0 to 3.2"},
		{"GSS inside TLS", inside(false, "", startupGSS),
			"0A000", "unsupported frontend protocol 1234.5680: server supports 3.0 to 3.2"},
		{"GSS inside direct TLS", inside(true, "postgresql", startupGSS),
			"0A000", "unsupported frontend protocol 1234.5680: server supports 3.0 to 3.2"},
		{"TLS inside TLS", inside(true, "postgresql", []byte("\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00")),
			"08P01", "invalid length of startup packet"},
		{"no user", inside(false, "", startupPacket(3, 0)),
			"28000", "no PostgreSQL user name specified in startup packet"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			client, done := startupClient(t, s, "tcp")
			conn := test.client(t, client)
			if secured, ok := conn.(*tls.Conn); ok {
				if err := secured.Handshake(); err != nil {
					t.Fatal(err)
				}
			}
			checkRefusal(t, conn, <-done, test.code, test.message)
		})
	}
}

// What cannot be said in TLS is not said in plain text either.
func TestStartupTLSMute(t *testing.T) {
	offered := startupWith(t, startupTLSConfig(Trust))
	missing := startupWith(t, startupConfig(Trust))
	ca := certs.SelfSigned("ca") // which the servers' certificates are not of
	for _, test := range []struct {
		name   string
		s      *Handshaker
		client func(*testing.T, net.Conn)
		want   string
	}{
		{"direct, not configured", missing, func(_ *testing.T, c net.Conn) { startupSecured(c, ca, "postgresql").Handshake() },
			errNoTLS.Error()},
		{"another protocol's name", offered, func(_ *testing.T, c net.Conn) { startupSecured(c, ca, "http/1.1").Handshake() },
			"TLS handshake: tls: client requested unsupported application protocols"},
		{"another CA", offered, func(t *testing.T, c net.Conn) {
			startupAnswered(t, c, 'S')
			startupSecured(c, ca, "").Handshake()
		}, "TLS handshake: remote error: tls: bad certificate"},
		{"plain text in the handshake", offered, func(t *testing.T, c net.Conn) {
			startupAnswered(t, c, 'S')
			c.Write(startupPacket(3, 0, "user", "u"))
		}, "TLS handshake: tls: first record does not look like a TLS handshake"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			client, done := startupClient(t, test.s, "tcp")
			test.client(t, client)
			got := <-done
			var told *wire.Error
			if got.err == nil || errors.As(got.err, &told) || !strings.HasPrefix(got.err.Error(), test.want) {
				t.Errorf("run = %v, want %s", got.err, test.want)
			}
			if said, err := io.ReadAll(client); bytes.Contains(said, []byte("FATAL")) {
				t.Errorf("the client read %q, %v", said, err)
			}
		})
	}
}

// As with PostgreSQL, nobody needs TLS on a Unix socket, nor gets it.
func TestStartupUnixSocketHasNoTLS(t *testing.T) {
	config := startupTLSConfig(Trust)
	config.TLSRequired = true
	_, got := runStartupScript(t, startupWith(t, config), "unix",
		[]startupStep{{startupSSL, "N"}, {send: startupPacket(3, 0, "user", "u")}})
	if got.err != nil || got.client.User != "u" {
		t.Fatalf("%+v, %v", got.client, got.err)
	}
}

// New certificates reach new clients, through the same preparation.
func TestStartupReloadsCertificates(t *testing.T) {
	first, second := certs.SelfSigned("ca"), certs.SelfSigned("ca")
	var current atomic.Pointer[tls.Config]
	config := startupConfig(Trust)
	config.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return current.Load(), nil
	}}
	s := startupWith(t, config)
	connect := func(ca tls.Certificate) error {
		client, done := startupClient(t, s, "tcp")
		secured := startupSecured(client, ca, "postgresql")
		secured.Write(startupPacket(3, 0, "user", "u"))
		return (<-done).err
	}
	current.Store(startupOffer(first))
	if err := errors.Join(connect(first), connect(first)); err != nil {
		t.Fatal(err)
	}
	if connect(second) == nil {
		t.Fatal("a client trusts a certificate that it does not know")
	}
	current.Store(startupOffer(second))
	if err := connect(second); err != nil {
		t.Fatal(err)
	}
	if connect(first) == nil {
		t.Fatal("the old certificate is still presented")
	}
}

func TestChooseCertificate(t *testing.T) {
	ca := certs.SelfSigned("ca")
	one, two, own := certs.SignedBy(ca, "one"), certs.SignedBy(ca, "two"), certs.SignedBy(ca, "own")
	pick := func(cert *tls.Certificate, err error) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cert, err }
	}
	broken := errors.New("broken")
	two.Leaf.DNSNames = []string{"two"}
	for _, test := range []struct {
		name   string
		config *tls.Config
		server string
		want   string
		err    error
	}{
		{"callback alone", &tls.Config{GetCertificate: pick(&own, nil)}, "", "own", nil},
		{"callback not asked without a name", &tls.Config{GetCertificate: pick(&own, nil), Certificates: []tls.Certificate{one}}, "", "one", nil},
		{"callback asked with a name", &tls.Config{GetCertificate: pick(&own, nil), Certificates: []tls.Certificate{one}}, "x", "own", nil},
		{"callback has none", &tls.Config{GetCertificate: pick(nil, nil), Certificates: []tls.Certificate{one}}, "x", "one", nil},
		{"callback fails", &tls.Config{GetCertificate: pick(nil, broken), Certificates: []tls.Certificate{one}}, "x", "", broken},
		{"by name", &tls.Config{Certificates: []tls.Certificate{one, two}}, "two", "two", nil},
		{"the first for an unknown name", &tls.Config{Certificates: []tls.Certificate{one, two}}, "x", "one", nil},
	} {
		h := &tls.ClientHelloInfo{ServerName: test.server, SupportedVersions: []uint16{tls.VersionTLS13},
			SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256}}
		got, err := chooseCertificate(test.config, h)
		if !errors.Is(err, test.err) || err == nil && got.Leaf.Subject.CommonName != test.want {
			t.Errorf("%s: %v, %v", test.name, got, err)
		}
	}
	if _, err := chooseCertificate(&tls.Config{}, &tls.ClientHelloInfo{}); err == nil {
		t.Error("no certificate, no error")
	}
}

func TestPrefixed(t *testing.T) {
	conn := &prefixedConn{Conn: rawconn.WrapPlain(&startupTape{in: []byte("def")}), prefix: []byte("abc")}
	if got, err := io.ReadAll(struct{ io.Reader }{conn}); string(got) != "abcdef" || err != nil {
		t.Fatalf("read %q, %v", got, err)
	}
	if conn.prefix != nil {
		t.Error("the prefix is kept")
	}
}
