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
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/dsqlsim"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// Everything that is wrong with a command line is told at once, each with flag,
// value and remedy.
func TestWrongUsage(t *testing.T) {
	t.Parallel()
	plan := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(plan, []byte(`[{"at":"commit","action":"explode","when":"now"},{"at":"commit","action":"cut","skip":-1}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args string
		want []string
	}{
		{"", []string{`--upstream "": want how to reach a PostgreSQL`}},
		{"--upstream host=/x --endpoint localhost --rate 0", []string{`--endpoint "localhost": want <26 letters or digits>`, "--rate 0: must be positive"}},
		{"--upstream host=/x --cancel maybe --age-end bang", []string{`--cancel "maybe": want ignore or honour`, `--age-end "bang": want eof or fatal`}},
		{"--upstream nonsense", []string{"--upstream: cannot parse"}},
		{"extra", []string{"extra: there is no such command", "--upstream"}},
		{"--upstream host=/x extra --nonsense 3 -x --what=4 --rate", []string{
			"extra: there is no such command", "--nonsense: there is no such flag: see dsqlsim --help", "-x: there is no such flag",
			"--what=4: there is no such flag", "--rate: want a value"}},
		{"--upstream host=/x --rate fast --burst 2.5 --age 5 --copy=perhaps --connections 0", []string{
			`--rate "fast": want a number`, `--burst "2.5": want a whole number`, `--age "5": want a duration with its unit`,
			`--copy "perhaps": want true or false`, "--connections 0: must be positive"}},
		{"--upstream host=/x --listen 5433 --admin nowhere", []string{`--listen "5433": want host:port`, `--admin "nowhere": want host:port`}},
		{"--upstream host=/x --faults /none.json --ledger -1", []string{"--faults: open /none.json", "--ledger -1: must be positive"}},
		{"--upstream host=/x --faults " + plan, []string{
			`--faults: fault 1: "when" "now": there is no such key, only at, action`, "--faults: fault 2: skip -1: want 0 or more"}},
		{"token --endpoint localhost --expires soon", []string{`--expires "soon": want a duration`, `--endpoint "localhost"`}},
		{"token --user", []string{"--user: want a value"}},
	} {
		cmd := newCommand(strings.Fields(test.args))
		cmd.SetOut(io.Discard)
		problems := splitJoinedError(cmd.Execute())
		if len(problems) != len(test.want) {
			t.Errorf("%q: %d problems, want %d: %v", test.args, len(problems), len(test.want), problems)
			continue
		}
		for i, want := range test.want {
			if !strings.Contains(problems[i].Error(), want) {
				t.Errorf("%q: got %q, want %q", test.args, problems[i], want)
			}
		}
	}
}

// The help names every flag, says where the admin interface is and how a plan
// is written.
func TestHelp(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	cmd := newCommand([]string{"--help"})
	cmd.SetOut(&out)
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--listen", "--upstream", `(default "127.0.0.1:9433")`, "--cancel", "--connections", "POST   /faults", "GET    /ledger", dsqlsim.FaultPlanHelp()} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
	// The plans that it shows can be planned.
	examples := regexp.MustCompile(`curl -d '(.*)'`).FindAllStringSubmatch(out.String(), -1)
	if len(examples) == 0 {
		t.Error("no plan is shown")
	}
	for _, example := range examples {
		config := dsqlsim.DefaultConfig()
		config.Endpoint, config.Upstream, config.AccessKeyID, config.SecretAccessKey = defaultEndpoint, "host=/x", "key", "secret"
		config.Faults = []byte(example[1])
		if err := config.Validate(); err != nil {
			t.Errorf("%s: %v", example[1], err)
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
		cmd := newCommand(args)
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
	plan := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(plan, []byte(`[{"at":"connect","action":"fail","error":"waking-up"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	listen, admin := freeAddress(t), freeAddress(t)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	cmd := newCommand([]string{
		"--upstream", fmt.Sprintf("host=%s port=%d user=%s sslmode=disable", pg.SocketDir, pg.Port, pg.User),
		"--listen", listen, "--admin", admin, "--cert-dir", dir, "--secret-key", "other", "--faults", plan,
	})
	var said bytes.Buffer // to be read after its end
	cmd.SetOut(&said)
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
	tokenCmd := newCommand([]string{"token", "--secret-key", "other"})
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
	// The plan that it began with refuses the first connection.
	if _, err := pgconn.ConnectConfig(limit, config); err == nil || !strings.Contains(err.Error(), "waking up cluster") {
		t.Errorf("got %v", err)
	}
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
	for _, want := range []string{
		"stands in for " + defaultEndpoint + " on " + listen, "token --secret-key ...)", "sslrootcert=" + dir, "http://" + admin, "is behind it",
	} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q is missing in\n%s", want, said.String())
		}
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
