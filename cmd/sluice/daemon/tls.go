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

// A certificate offers clients the TLS that its files describe, and takes new
// files without touching the connections that exist.
type certificate struct {
	files      config.TLS
	clientAuth tls.ClientAuthType
	current    atomic.Pointer[tls.Config]
}

// newCertificate reads the files. Its errors begin with the key of the file.
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

// config is what a listener holds on to; each handshake takes the newest files.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return c.current.Load(), nil
		},
	}
}

// reload reads the files again. After an error the old ones stay in use.
func (c *certificate) reload() error {
	pair, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil {
		return fmt.Errorf("tls.cert_file: %w", err)
	}
	fresh := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		ClientAuth:   c.clientAuth,
		// Direct TLS (PostgreSQL 17's sslnegotiation=direct) insists on it.
		NextProtos: []string{"postgresql"},
		// As PostgreSQL: no stock client resumes, and a resumed session would
		// outlive a change of tls.client_ca_file.
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
