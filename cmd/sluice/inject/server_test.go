package inject

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-proxy/sluice/integration/certs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A webhook is a running Server, and a client that trusts ca.
type webhook struct {
	server            *Server
	cert              *Certificate
	certFile, keyFile string
	url               string
	log               *bytes.Buffer
	stop              func() error // begins the end and waits for it
}

// start runs a webhook with a certificate of ca.
func start(t *testing.T, ca tls.Certificate, quiet time.Duration) *webhook {
	t.Helper()
	w := &webhook{log: &bytes.Buffer{}}
	w.certFile, w.keyFile = certs.WriteTestFiles(t, certs.SignedBy(ca, "first"))
	var err error
	if w.cert, err = NewCertificate(w.certFile, w.keyFile); err != nil {
		t.Fatal(err)
	}
	w.server = NewServer(newTest(t), w.cert, slog.New(slog.NewTextHandler(w.log, nil)))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.url = "https://" + ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.server.Serve(ctx, ln, quiet) }()
	w.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := w.stop(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// client trusts ca, and opens a connection for each request.
func client(t *testing.T, ca tls.Certificate) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: certs.CertPool(ca)}, DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

func post(t *testing.T, c *http.Client, url string, body []byte) (code int, text string, peer *x509.Certificate) {
	t.Helper()
	r, err := c.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	all, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(all), r.TLS.PeerCertificates[0]
}

func TestWebhook(t *testing.T) {
	t.Parallel()
	ca := certs.SelfSigned("ca")
	w := start(t, ca, 0)
	c := client(t, ca)
	plain := reviews(t)["plain"]
	if code, text, _ := post(t, c, w.url+Path, plain); code != http.StatusOK || !strings.Contains(text, `"patchType":"JSONPatch"`) {
		t.Errorf("%d %s", code, text)
	}
	for _, test := range []struct {
		method, path, media string
		body                []byte
		want                int
	}{
		{"GET", Path, "application/json", nil, http.StatusMethodNotAllowed},
		{"POST", "/", "application/json", plain, http.StatusNotFound},
		{"POST", Path, "text/plain", plain, http.StatusUnsupportedMediaType},
		{"POST", Path, "application/json", []byte("{"), http.StatusBadRequest},
		{"POST", Path, "application/json", nil, http.StatusBadRequest},
		{"POST", Path, "application/json", bytes.Replace(plain, []byte("admission.k8s.io/v1"), []byte("admission.k8s.io/v1beta1"), 1), http.StatusBadRequest},
		{"POST", Path, "application/json; charset=utf-8", plain, http.StatusOK},
		{"POST", Path, "application/json", bytes.Repeat([]byte(" "), maxBody+1), http.StatusRequestEntityTooLarge},
	} {
		r, err := http.NewRequest(test.method, w.url+test.path, bytes.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", test.media)
		got, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = got.Body.Close()
		if got.StatusCode != test.want {
			t.Errorf("%s %s %s with %d bytes: %d, want %d", test.method, test.path, test.media, len(test.body), got.StatusCode, test.want)
		}
	}
	if s := w.server.Stats(); s.Outcomes[Injected] != 2 || s.Malformed != 7 {
		t.Errorf("counted %+v", s)
	}
}

// A new certificate is used from the next handshake on; half of one is not.
func TestRotatedCertificate(t *testing.T) {
	t.Parallel()
	ca := certs.SelfSigned("ca")
	w := start(t, ca, 0)
	c := client(t, ca)
	plain := reviews(t)["plain"]
	peer := func() string {
		_, _, cert := post(t, c, w.url+Path, plain)
		return cert.Subject.CommonName
	}
	if got := peer(); got != "first" {
		t.Errorf("the certificate is of %s", got)
	}
	second, key := certs.WriteTestFiles(t, certs.SignedBy(ca, "second"))
	replace := func(from, to string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace(second, w.certFile)
	if err := w.cert.Reload(); err == nil {
		t.Error("a certificate with the key of another was taken")
	}
	if got := peer(); got != "first" {
		t.Errorf("after half of a change the certificate is of %s", got)
	}
	replace(key, w.keyFile)
	if err := w.cert.Reload(); err != nil {
		t.Error(err)
	}
	if got := peer(); got != "second" {
		t.Errorf("after the change the certificate is of %s", got)
	}
	text, err := os.ReadFile(second)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil || !w.cert.Expires().Equal(leaf.NotAfter) {
		t.Errorf("expires %v, want %v (%v)", w.cert.Expires(), leaf.NotAfter, err)
	}
}

func TestNoCertificate(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none")
	if _, err := NewCertificate(none, none); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// The end begins before the API server knows: calls are answered for a while.
func TestCallsBehindTheSignalAreAnswered(t *testing.T) {
	t.Parallel()
	ca := certs.SelfSigned("ca")
	w := start(t, ca, 2*time.Second)
	ended := make(chan error, 1)
	go func() { ended <- w.stop() }()
	c := client(t, ca)
	for range 3 {
		if code, text, _ := post(t, c, w.url+Path, reviews(t)["plain"]); code != http.StatusOK {
			t.Errorf("%d %s", code, text)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := c.Get(w.url); err == nil {
		t.Error("it still listens")
	}
}

// More reviews than are answered at once wait a little, and then are refused.
func TestTooManyReviews(t *testing.T) {
	t.Parallel()
	ca := certs.SelfSigned("ca")
	w := start(t, ca, 0)
	for range maxReviews {
		w.server.slots <- struct{}{}
	}
	c := client(t, ca)
	if code, text, _ := post(t, c, w.url+Path, reviews(t)["plain"]); code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", code, text)
	}
	<-w.server.slots
	if code, text, _ := post(t, c, w.url+Path, reviews(t)["plain"]); code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
}

// A connection that sends nothing, or half of a request, holds nothing up.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	ca := certs.SelfSigned("ca")
	w := start(t, ca, 0)
	conn, err := tls.Dial("tcp", strings.TrimPrefix(w.url, "https://"), &tls.Config{RootCAs: certs.CertPool(ca)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST "+Path+" HTTP/1.1\r\nHost: x\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("still open after %d bytes: %v", n, err)
	}
}

// The log says what became of a pod, and nothing of what is in it.
func TestLog(t *testing.T) {
	t.Parallel()
	ca := certs.SelfSigned("ca")
	w := start(t, ca, 0)
	post(t, client(t, ca), w.url+Path, reviews(t)["annotations-wrong"])
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	if text := w.log.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "outcome=refused namespace=shop pod=web-6d4b9c7f5d-") {
		t.Errorf("logged: %s", text)
	}
}

// Requests whose bodies do not come hold no slot: others are reviewed meanwhile.
func TestBodiesThatDoNotCome(t *testing.T) {
	t.Parallel()
	ca := certs.SelfSigned("ca")
	w := start(t, ca, 0)
	for range maxReviews + 2 {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(w.url, "https://"), &tls.Config{RootCAs: certs.CertPool(ca)})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "POST "+Path+" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		w.server.mu.Lock()
		reading := w.server.bodyCount
		w.server.mu.Unlock()
		if reading == maxReviews+2 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d bodies are read", reading)
		}
	}
	if code, text, _ := post(t, client(t, ca), w.url+Path, reviews(t)["plain"]); code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
}

// Bodies that have come and wait for their review count, too: an address has its share of them.
func TestBodiesThatWait(t *testing.T) {
	t.Parallel()
	ca := certs.SelfSigned("ca")
	w := start(t, ca, 0)
	for range maxReviews {
		w.server.slots <- struct{}{}
	}
	plain := reviews(t)["plain"]
	var conns []*tls.Conn
	for range maxBodiesPerAddress + 1 {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(w.url, "https://"), &tls.Config{RootCAs: certs.CertPool(ca)})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	send := func(conn *tls.Conn) {
		if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", Path, len(plain), plain); err != nil {
			t.Error(err)
		}
	}
	for _, conn := range conns[1:] {
		send(conn)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		w.server.mu.Lock()
		held := w.server.bodyCount
		w.server.mu.Unlock()
		if held == maxBodiesPerAddress {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d bodies are held", held)
		}
	}
	send(conns[0])
	answer, err := http.ReadResponse(bufio.NewReader(conns[0]), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "too many requests at once") {
		t.Errorf("%d %s", answer.StatusCode, text)
	}
}

// Lists without number are refused before they take memory, whatever they are of.
func TestManyElements(t *testing.T) {
	if _, err := parseList([]byte("[" + strings.Repeat("0,", maxMembers) + "0]")); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("it says %v", err)
	}
	if all, err := parseList([]byte("[" + strings.Repeat("0,", maxMembers-1) + "0]")); err != nil || len(all) != maxMembers {
		t.Errorf("%d elements, %v", len(all), err)
	}
	for _, text := range []string{"{}", "[", "[1", "[1,", "[1,]", "[1 2]", `"["`, "1"} {
		if _, err := parseList([]byte(text)); err == nil || err.Error() != "want a list" {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A pod with labels without number is refused before they take memory.
func TestManyLabels(t *testing.T) {
	var labels strings.Builder
	for i := range 150_000 {
		fmt.Fprintf(&labels, `"l%d":"",`, i)
	}
	if _, err := parseObject([]byte("{" + labels.String() + `"z":""}`)); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("it says %v", err)
	}
}
