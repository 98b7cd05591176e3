package certs

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"
)

func TestWhoIsTrusted(t *testing.T) {
	t.Parallel()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca, stranger := SelfSigned("ca"), SelfSigned("ca")
	signed, own := SignedBy(ca, "ann", "db.example"), SelfSignedWith(key, "own", "db.example")
	for _, test := range []struct {
		about    string
		cert, ca tls.Certificate
		name     string
		trusted  bool
	}{
		{"signed", signed, ca, "db.example", true},
		{"signed, localhost", signed, ca, "localhost", true},
		{"signed, loopback", signed, ca, "127.0.0.1", true},
		{"signed, loopback of version 6", signed, ca, "::1", true},
		{"signed, another name", signed, ca, "ann", false},
		{"signed by another of the name", signed, stranger, "db.example", false},
		{"its own authority", ca, ca, "localhost", true},
		{"its own authority, with a key", own, own, "db.example", true},
		{"signed by what may not sign", SignedBy(signed, "bob"), signed, "localhost", false},
	} {
		for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
			_, err := test.cert.Leaf.Verify(x509.VerifyOptions{Roots: CertPool(test.ca), DNSName: test.name, KeyUsages: []x509.ExtKeyUsage{usage}})
			if (err == nil) != test.trusted {
				t.Errorf("%s: %v, want trust: %v", test.about, err, test.trusted)
			}
		}
	}
	if got := signed.Leaf.Subject.CommonName; got != "ann" {
		t.Errorf("common name %q", got)
	}
}

func TestFilesHoldThePair(t *testing.T) {
	t.Parallel()
	cert := SelfSigned("server")
	certFile, keyFile := WriteTestFiles(t, cert)
	loaded, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	if !loaded.Leaf.Equal(cert.Leaf) {
		t.Error("another certificate was written")
	}
	if info, err := os.Stat(keyFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v", info.Mode(), err)
	}
}
