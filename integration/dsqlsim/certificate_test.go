package dsqlsim

import (
	"bytes"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A stand-in that is started anew is trusted by whoever trusted the one before it.
func TestAuthorityIsKept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	first, err := newAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := newAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	onDisk, err := os.ReadFile(filepath.Join(dir, AuthorityFile))
	if err != nil || !bytes.Equal(first.pem, second.pem) || !bytes.Equal(onDisk, first.pem) {
		t.Errorf("another authority at the second start: %v", err)
	}
	certificate, err := second.issueCertificate("db.example")
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: first.pool, DNSName: "db.example"}); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(dir, authorityKeyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v", info, err)
	}
	if none, err := newAuthority(""); err != nil || bytes.Equal(none.pem, first.pem) {
		t.Errorf("without a directory: %v", err)
	}
}

// Files that are no authority are left alone; the error names them.
func TestAuthorityThatIsBroken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := newAuthority(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, AuthorityFile), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := newAuthority(dir); err == nil || !strings.Contains(err.Error(), authorityKeyFile) {
		t.Errorf("got %v", err)
	}
	if pem, _ := os.ReadFile(filepath.Join(dir, AuthorityFile)); string(pem) != "mine" {
		t.Error("somebody's file was overwritten")
	}
}
