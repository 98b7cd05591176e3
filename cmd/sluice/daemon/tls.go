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

// reloadableTLS holds the TLS configuration for clients. New files do not affect existing
// connections.
type reloadableTLS struct {
	files      config.TLS
	clientAuth tls.ClientAuthType
	current    atomic.Pointer[tls.Config]
}

// newReloadableTLS reads the certificate's files. An error begins with the configuration key of its file.
func newReloadableTLS(files config.TLS, method startup.AuthMethod) (*reloadableTLS, error) {
	c := &reloadableTLS{files: files}
	switch {
	case method == startup.Cert:
		c.clientAuth = tls.RequireAndVerifyClientCert
	case files.ClientCA != "":
		c.clientAuth = tls.VerifyClientCertIfGiven
	}
	return c, c.reload()
}

// tlsConfig returns a TLS configuration that uses the newest certificate for each handshake.
func (c *reloadableTLS) tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return c.current.Load(), nil
		},
	}
}

// reload reads the certificate's files again. After an error the old certificate stays in use.
func (c *reloadableTLS) reload() error {
	pair, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil {
		return fmt.Errorf("tls.cert_file: %w", err)
	}
	fresh := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		ClientAuth:   c.clientAuth,
		// Clients that use direct TLS (PostgreSQL 17's sslnegotiation=direct) require this protocol name.
		NextProtos: []string{"postgresql"},
		// PostgreSQL disables session tickets too: no stock client resumes TLS sessions, and a resumed session would
		// survive a change of tls.client_ca_file.
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
