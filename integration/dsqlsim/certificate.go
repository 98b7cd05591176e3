package dsqlsim

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// certificateLife is the validity of a certificate. No dsqlsim runs for that long.
const certificateLife = 365 * 24 * time.Hour

// These are the names of the authority's files in Config.CertDir.
const (
	AuthorityFile    = "ca.pem"
	authorityKeyFile = "ca-key.pem"
)

// certAuthority is the certificate authority that signs a server's certificate.
type certAuthority struct {
	tls.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
	pool *x509.CertPool
}

// newAuthority returns the certificate authority stored in dir, so that clients which trust it still do after a
// restart. If dir has none, or one that ends within a day, newAuthority makes one and stores it in dir. With an empty
// dir it stores nothing.
func newAuthority(dir string) (*certAuthority, error) {
	if dir != "" {
		a, err := loadAuthority(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: repair or remove %s and %s", err, AuthorityFile, authorityKeyFile)
		}
		if err == nil && time.Until(a.Leaf.NotAfter) > 24*time.Hour {
			return a, nil
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := certificateTemplate("dsqlsim CA", 1)
	ca.IsCA, ca.BasicConstraintsValid = true, true
	ca.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	if dir != "" {
		// The certificate is written last. A program that waits for its file then finds the key as well.
		err = errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, authorityKeyFile), keyPEM, 0o600))
		if err := errors.Join(err, os.WriteFile(filepath.Join(dir, AuthorityFile), certPEM, 0o644)); err != nil {
			return nil, err
		}
	}
	return parseAuthority(certPEM, keyPEM)
}

func loadAuthority(dir string) (*certAuthority, error) {
	certPEM, err := os.ReadFile(filepath.Join(dir, AuthorityFile))
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(filepath.Join(dir, authorityKeyFile))
	if err != nil {
		return nil, err
	}
	return parseAuthority(certPEM, keyPEM)
}

func parseAuthority(certPEM, keyPEM []byte) (*certAuthority, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("read CA: %w", err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return nil, errors.New("read CA: not an authority that a stand-in has made")
	}
	a := &certAuthority{Certificate: pair, key: key, pem: certPEM, pool: x509.NewCertPool()}
	a.pool.AddCert(pair.Leaf)
	return a, nil
}

// issueCertificate returns a new certificate for an endpoint.
func (a *certAuthority) issueCertificate(endpoint string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf := certificateTemplate(endpoint, time.Now().UnixNano()) // one authority signs at each start
	leaf.DNSNames = []string{endpoint}
	leaf.KeyUsage = x509.KeyUsageDigitalSignature
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.Leaf, &key.PublicKey, a.key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

func certificateTemplate(name string, serial int64) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		// The certificate is valid from an hour ago, for a client whose clock is slow.
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().Add(certificateLife),
	}
}
