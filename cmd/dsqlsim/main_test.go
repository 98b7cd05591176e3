package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{}, []string{"upstream: is missing"}},
		{[]string{"--upstream", "host=/x", "--endpoint", "localhost", "--rate", "0"}, []string{"endpoint", "rate"}},
		{[]string{"--upstream", "host=/x", "--cancel", "maybe"}, []string{"--cancel", "ignore or honour"}},
		{[]string{"--upstream", "host=/x", "--age-end", "bang"}, []string{"--age-end"}},
		{[]string{"--upstream", "nonsense"}, []string{"upstream"}},
		{[]string{"extra"}, []string{"extra"}},
		{[]string{"--nonsense"}, []string{"nonsense"}},
		{[]string{"token", "--endpoint", "localhost"}, []string{"endpoint"}},
	} {
		cmd := newCommand()
		cmd.SetArgs(test.args)
		cmd.SetOut(io.Discard)
		err := cmd.Execute()
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: got %v, want %s", test.args, err, want)
			}
		}
	}
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, flag := range []string{"--listen", "--admin"} {
		args := []string{"--upstream", "host=/x", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", flag, ln.Addr().String()}
		cmd := newCommand()
		cmd.SetArgs(args)
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), flag) || !strings.Contains(err.Error(), "in use") {
			t.Errorf("got %v", err)
		}
	}
}

// The program, its CA file and its token are enough to connect.
func TestServe(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	dir := filepath.Join(t.TempDir(), "new")
	listen, admin := freeAddress(t), freeAddress(t)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	cmd := newCommand()
	cmd.SetArgs([]string{
		"--upstream", fmt.Sprintf("host=%s port=%d user=%s sslmode=disable", pg.SocketDir, pg.Port, pg.User),
		"--listen", listen, "--admin", admin, "--cert-dir", dir, "--secret-key", "other",
	})
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	waitReady(t, "http://"+admin+"/readyz", ended)

	pem, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	var token bytes.Buffer
	tokenCmd := newCommand()
	tokenCmd.SetArgs([]string{"token", "--secret-key", "other"})
	tokenCmd.SetOut(&token)
	if err := tokenCmd.Execute(); err != nil {
		t.Fatal(err)
	}
	config, err := pgconn.ParseConfig("host=" + defaultEndpoint + " port=5432 user=admin dbname=postgres")
	if err != nil {
		t.Fatal(err)
	}
	config.Password = strings.TrimSpace(token.String())
	config.TLSConfig, config.Fallbacks = &tls.Config{RootCAs: roots, ServerName: defaultEndpoint}, nil
	config.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil }
	config.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", listen)
	}
	limit, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	conn, err := pgconn.ConnectConfig(limit, config)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Exec(limit, "SELECT 1").Close(); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the end: %v", err)
	}
	if err := conn.Exec(limit, "SELECT 1").Close(); err == nil {
		t.Error("served after its end")
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func waitReady(t *testing.T, url string, ended <-chan error) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		select {
		case err := <-ended:
			t.Fatalf("ended: %v", err)
		default:
		}
		r, err := http.Get(url)
		if err != nil {
			continue
		}
		_ = r.Body.Close()
		if r.StatusCode == http.StatusOK {
			return
		}
	}
	t.Fatal("never ready")
}
