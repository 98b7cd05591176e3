package startup

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// startupCA signs the certificates of a test.
type startupCA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newStartupCA(t testing.TB) *startupCA {
	t.Helper()
	ca := &startupCA{pool: x509.NewCertPool()}
	pair := ca.issue(t, "CA of a test")
	ca.cert, ca.key = pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)
	ca.pool.AddCert(ca.cert)
	return ca
}

// issue makes a certificate for the name, which is valid for localhost too.
func (ca *startupCA) issue(t testing.TB, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, BasicConstraintsValid: true, IsCA: ca.cert == nil,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	parent, signer := template, key
	if ca.cert != nil {
		parent, signer = ca.cert, ca.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// write puts a pair into files as libpq wants them.
func (ca *startupCA) write(t *testing.T, pair tls.Certificate) (certFile, keyFile string) {
	t.Helper()
	certFile, keyFile = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		keyFile:  {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// server is the TLS configuration of a Server that ca vouches for.
func (ca *startupCA) server(t testing.TB) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{ca.issue(t, "server")},
		ClientCAs: ca.pool, ClientAuth: tls.VerifyClientCertIfGiven}
}

func startupTLSConfig(t testing.TB, method AuthMethod) Config {
	config := startupConfig(method)
	config.TLS = newStartupCA(t).server(t)
	return config
}

// startupSecured makes client a TLS client; without alpn it names no protocol.
func startupSecured(client net.Conn, ca *startupCA, alpn string, certs ...tls.Certificate) *tls.Conn {
	config := &tls.Config{RootCAs: ca.pool, ServerName: "localhost", Certificates: certs}
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
	ca := newStartupCA(t)
	config := startupConfig(Trust)
	config.TLS, config.TLSRequired = ca.server(t), true
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
	ca := newStartupCA(t)
	config := startupConfig(Trust)
	config.TLS = ca.server(t)
	s := startupWith(t, config)
	remembering := &tls.Config{RootCAs: ca.pool, ServerName: "localhost", NextProtos: []string{"postgresql"},
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
	ca := newStartupCA(t)
	config := startupConfig(Cert)
	config.TLS, config.TLSRequired = ca.server(t), true
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
	ca := newStartupCA(t)
	config := startupConfig(Trust)
	config.TLS, config.TLSRequired = ca.server(t), true
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
	offered := startupWith(t, startupTLSConfig(t, Trust))
	missing := startupWith(t, startupConfig(Trust))
	ca := newStartupCA(t) // which the servers' certificates are not of
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
	config := startupTLSConfig(t, Trust)
	config.TLSRequired = true
	_, got := runStartupScript(t, startupWith(t, config), "unix",
		[]startupStep{{startupSSL, "N"}, {send: startupPacket(3, 0, "user", "u")}})
	if got.err != nil || got.client.User != "u" {
		t.Fatalf("%+v, %v", got.client, got.err)
	}
}

// New certificates reach new clients, through the same preparation.
func TestStartupReloadsCertificates(t *testing.T) {
	first, second := newStartupCA(t), newStartupCA(t)
	var current atomic.Pointer[tls.Config]
	config := startupConfig(Trust)
	config.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return current.Load(), nil
	}}
	s := startupWith(t, config)
	connect := func(ca *startupCA) error {
		client, done := startupClient(t, s, "tcp")
		secured := startupSecured(client, ca, "postgresql")
		secured.Write(startupPacket(3, 0, "user", "u"))
		return (<-done).err
	}
	current.Store(first.server(t))
	if err := errors.Join(connect(first), connect(first)); err != nil {
		t.Fatal(err)
	}
	if connect(second) == nil {
		t.Fatal("a client trusts a certificate that it does not know")
	}
	current.Store(second.server(t))
	if err := connect(second); err != nil {
		t.Fatal(err)
	}
	if connect(first) == nil {
		t.Fatal("the old certificate is still presented")
	}
}

func TestChooseCertificate(t *testing.T) {
	ca := newStartupCA(t)
	one, two, own := ca.issue(t, "one"), ca.issue(t, "two"), ca.issue(t, "own")
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
	conn := &prefixed{Conn: rawconn.Plain(&startupTape{in: []byte("def")}), prefix: []byte("abc")}
	if got, err := io.ReadAll(struct{ io.Reader }{conn}); string(got) != "abcdef" || err != nil {
		t.Fatalf("read %q, %v", got, err)
	}
	if conn.prefix != nil {
		t.Error("the prefix is kept")
	}
}
