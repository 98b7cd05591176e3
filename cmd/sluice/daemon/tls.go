package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/sluice-proxy/sluice/cmd/sluice/config"
	"github.com/sluice-proxy/sluice/proxy/startup"
)

// certificate holds the TLS configuration for clients. New files do not affect existing
// connections.
type certificate struct {
	files      config.TLS
	clientAuth tls.ClientAuthType
	current    atomic.Pointer[tls.Config]
}

// newCertificate reads the certificate's files. An error begins with the configuration key of its file.
func newCertificate(files config.TLS, method startup.AuthMethod) (*certificate, error) {
	c := &certificate{files: files}
	switch {
	case method == startup.Cert:
		c.clientAuth = tls.RequireAndVerifyClientCert
	case files.ClientCA != "":
		c.clientAuth = tls.VerifyClientCertIfGiven
	}
	return c, c.reload()
}

// config returns a TLS configuration that uses the newest certificate for each handshake.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return c.current.Load(), nil
		},
	}
}

// reload reads the certificate's files again. After an error the old certificate stays in use.
func (c *certificate) reload() error {
	pair, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil {
		return fmt.Errorf("tls.cert_file: %w", err)
	}
	fresh := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		ClientAuth:   c.clientAuth,
		// Direct TLS (PostgreSQL 17's sslnegotiation=direct) requires this protocol name.
		NextProtos: []string{"postgresql"},
		// PostgreSQL disables tickets too: no stock client resumes TLS sessions, and a resumed one would survive a change of
		// tls.client_ca_file.
		SessionTicketsDisabled: true,
	}
	if c.files.ClientCA != "" {
		pem, err := os.ReadFile(c.files.ClientCA)
		if err != nil {
			return fmt.Errorf("tls.client_ca_file: %w", err)
		}
		fresh.ClientCAs = x509.NewCertPool()
		if !fresh.ClientCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("tls.client_ca_file: %s: no PEM certificate in it", c.files.ClientCA)
		}
	}
	c.current.Store(fresh)
	return nil
}
