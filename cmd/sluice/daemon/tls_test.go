package daemon

import (
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/cmd/sluice/config"
	"github.com/sluice-proxy/sluice/integration/certs"
	"github.com/sluice-proxy/sluice/integration/sockets"
	"github.com/sluice-proxy/sluice/proxy/startup"
)

// makeCertificate writes a self-signed certificate with the given common name, and
// returns the files, which are its authority as well.
func makeCertificate(t *testing.T, dir, commonName string) config.TLS {
	t.Helper()
	files := config.TLS{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), ClientCA: filepath.Join(dir, "ca.crt")}
	cert := certs.SelfSigned(commonName)
	if err := errors.Join(certs.Write(cert, files.Cert, files.Key), certs.Write(cert, files.ClientCA, files.Key)); err != nil {
		t.Fatal(err)
	}
	return files
}

// handshake connects a client to a server with these configurations. It returns
// what the client saw, and the error of either side.
func handshake(t *testing.T, server, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	// Not net.Pipe: without a buffer an alert that nobody reads blocks both sides.
	there, here := sockets.ConnPair(t, "tcp")
	defer here.Close()
	failed := make(chan error, 1)
	go func() {
		defer there.Close()
		failed <- tls.Server(there, server).HandshakeContext(t.Context())
	}()
	conn := tls.Client(here, client)
	err := conn.HandshakeContext(t.Context())
	if serverErr := <-failed; serverErr != nil {
		err = serverErr
	}
	return conn.ConnectionState(), err
}

func TestCertificateIsReplacedWithoutANewListener(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := makeCertificate(t, dir, "first")
	cert, err := newReloadableTLS(files, startup.Trust)
	if err != nil {
		t.Fatal(err)
	}
	server := cert.tlsConfig() // once, as the listener does
	anyName := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"postgresql"}}
	for _, step := range []struct {
		change     func()
		fails      bool
		commonName string
	}{
		{func() {}, false, "first"},
		{func() { makeCertificate(t, dir, "second") }, false, "second"},
		{func() { os.WriteFile(files.Key, []byte("half a key"), 0o600) }, true, "second"},
		{func() { makeCertificate(t, dir, "third") }, false, "third"},
		{func() { os.WriteFile(files.ClientCA, []byte("no PEM"), 0o600) }, true, "third"},
	} {
		step.change()
		if err := cert.reload(); (err != nil) != step.fails || err != nil && !strings.HasPrefix(err.Error(), "tls.") {
			t.Fatalf("reload: %v, fails: %v", err, step.fails)
		}
		state, err := handshake(t, server, anyName)
		if err != nil {
			t.Fatal(err)
		}
		if got := state.PeerCertificates[0].Subject.CommonName; got != step.commonName || state.NegotiatedProtocol != "postgresql" {
			t.Errorf("certificate %q, protocol %q; want %q, postgresql", got, state.NegotiatedProtocol, step.commonName)
		}
	}
}

func TestClientCertificates(t *testing.T) {
	t.Parallel()
	files, strangers := makeCertificate(t, t.TempDir(), "app"), makeCertificate(t, t.TempDir(), "app")
	own, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := tls.LoadX509KeyPair(strangers.Cert, strangers.Key)
	if err != nil {
		t.Fatal(err)
	}
	without := files
	without.ClientCA = ""
	for _, test := range []struct {
		name   string
		files  config.TLS
		method startup.AuthMethod
		client []tls.Certificate
		fails  bool
	}{
		{"needed and given", files, startup.Cert, []tls.Certificate{own}, false},
		{"needed", files, startup.Cert, nil, true},
		{"needed, a stranger's given", files, startup.Cert, []tls.Certificate{foreign}, true},
		{"not needed", files, startup.Trust, nil, false},
		{"not needed, a stranger's given", files, startup.Trust, []tls.Certificate{foreign}, true},
		{"not asked for", without, startup.Trust, []tls.Certificate{foreign}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cert, err := newReloadableTLS(test.files, test.method)
			if err != nil {
				t.Fatal(err)
			}
			// Whatever authority the server names: a stranger's certificate is offered.
			offer := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if len(test.client) == 0 {
					return &tls.Certificate{}, nil
				}
				return &test.client[0], nil
			}
			_, err = handshake(t, cert.tlsConfig(), &tls.Config{InsecureSkipVerify: true, GetClientCertificate: offer})
			if (err != nil) != test.fails {
				t.Errorf("handshake: %v, want failure: %v", err, test.fails)
			}
		})
	}
}
