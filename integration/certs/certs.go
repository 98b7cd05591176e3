// Package certs makes TLS certificates for tests, and for the servers that tests and `make run` start.
//
//	server := certs.SelfSigned("server", "db.example")        // its own authority
//	client := certs.SignedBy(server, "ann")                   // by another certificate
//	config := &tls.Config{RootCAs: certs.CertPool(server), Certificates: []tls.Certificate{client}}
//	certFile, keyFile := certs.WriteTestFiles(t, server)               // PEM
//
// Every certificate is valid for servers and clients, for localhost, the loopback addresses and the given names, and
// has its Leaf. Making a certificate can fail only by a mistake in package certs, hence with a panic.
package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// validity is the validity of a certificate, longer than a test run or a day's `make run`.
const validity = 30 * 24 * time.Hour

// SelfSigned returns a certificate that is its own authority, and may sign others.
func SelfSigned(commonName string, names ...string) tls.Certificate {
	return SelfSignedWith(newKey(), commonName, names...)
}

// SelfSignedWith returns a self-signed certificate for the caller's key.
func SelfSignedWith(key crypto.Signer, commonName string, names ...string) tls.Certificate {
	template := newTemplate(commonName, names)
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage |= x509.KeyUsageCertSign
	return sign(template, template, key, key)
}

// SignedBy returns a certificate that ca, a self-signed certificate, has signed.
func SignedBy(ca tls.Certificate, commonName string, names ...string) tls.Certificate {
	return sign(newTemplate(commonName, names), ca.Leaf, newKey(), ca.PrivateKey.(crypto.Signer))
}

func newKey() crypto.Signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

func newTemplate(commonName string, names []string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: commonName},
		NotBefore:   now.Add(-time.Hour), // clocks of containers drift
		NotAfter:    now.Add(validity),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    append([]string{"localhost"}, names...),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
}

func sign(template, parent *x509.Certificate, key, signer crypto.Signer) tls.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		panic(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// CertPool returns a pool that trusts ca and the certificates signed by ca.
func CertPool(ca tls.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.Leaf)
	return pool
}

// WriteTestFiles writes a certificate and its key into a directory of the test.
func WriteTestFiles(t testing.TB, cert tls.Certificate) (certFile, keyFile string) {
	t.Helper()
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := Write(cert, certFile, keyFile); err != nil {
		t.Fatal(err)
	}
	return certFile, keyFile
}

// Write writes a certificate and its key as PEM files. Other users cannot read the key file, which PostgreSQL and libpq
// require.
func Write(cert tls.Certificate, certFile, keyFile string) error {
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		return err
	}
	if err := writePEM(certFile, 0o644, "CERTIFICATE", cert.Certificate[0]); err != nil {
		return err
	}
	return writePEM(keyFile, 0o600, "PRIVATE KEY", key)
}

func writePEM(path string, mode os.FileMode, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}
