package pgtest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/sockets"
)

func TestMain(m *testing.M) {
	if base := os.Getenv("PGTEST_ORPHAN"); base != "" {
		orphan(base)
	}
	os.Exit(Main(m, TLS("db.example.test"), MaxConnections(17), Setting("application_name", "it's")))
}

func TestSharedServerAnswersWithItsOptions(t *testing.T) {
	s := Shared(t)
	if Shared(t) != s {
		t.Error("a second call started a second server")
	}
	for setting, want := range map[string]string{"max_connections": "17", "ssl": "on", "fsync": "off", "server_encoding": "UTF8"} {
		if got := s.SQL(t, "postgres", "SHOW "+setting); got != want {
			t.Errorf("%s = %q, want %q", setting, got, want)
		}
	}
	if got := s.SQL(t, "postgres", "SELECT setting FROM pg_file_settings WHERE name = 'application_name'"); got != "it's" {
		t.Errorf("quoted setting = %q", got)
	}
	name := s.NewDatabase(t)
	if got := s.SQL(t, name, "SELECT current_database()"); got != name {
		t.Errorf("current_database() = %q, want %q", got, name)
	}
	cmd := s.Program("psql", "-XqAtc", "SELECT inet_server_port() IS NOT NULL, ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", s.DSN("postgres"))
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "t|t\n" {
		t.Errorf("psql with the DSN: %q, %v", out, err)
	}
}

// The files of a test's server are where TMPDIR says, and in memory only where that is not set.
func TestServerIsWhereItBelongs(t *testing.T) {
	if hasMemoryRoom("/proc") || hasMemoryRoom("/nowhere") {
		t.Error("there is room in memory where there is none")
	}
	t.Setenv("TMPDIR", "")
	base := os.TempDir()
	if hasMemoryRoom(memoryDir) {
		base = memoryDir
	}
	if s := Start(t); filepath.Dir(s.SocketDir) != base {
		t.Errorf("a server is in %s, not in %s", s.SocketDir, base)
	}
	base, err := os.MkdirTemp("", "") // the server's account cannot enter a test's own
	if err == nil {
		err = os.Chmod(base, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	t.Setenv("TMPDIR", base)
	if s := Start(t); filepath.Dir(s.SocketDir) != base {
		t.Errorf("a server is in %s, not in %s", s.SocketDir, base)
	}
}

func TestCertificateNamesHostsAndVerifies(t *testing.T) {
	s := Shared(t)
	pem, err := os.ReadFile(s.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	for _, name := range []string{"localhost", "127.0.0.1", "db.example.test"} {
		conn := dialTLSRequest(t, s.Address())
		client := tls.Client(conn, &tls.Config{RootCAs: roots, ServerName: name})
		if err := client.Handshake(); err != nil {
			t.Errorf("handshake as %s: %v", name, err)
		}
		conn.Close()
	}
}

// dialTLSRequest returns a connection whose SSLRequest was answered with S.
func dialTLSRequest(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	request := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 8), 80877103)
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 1)
	if _, err := io.ReadFull(conn, answer); err != nil || answer[0] != 'S' {
		t.Fatalf("SSLRequest answered %q, %v", answer, err)
	}
	return conn
}

func TestSCRAMServerAsksForThePassword(t *testing.T) {
	t.Parallel()
	s := Start(t, SCRAM("s3cret@"))
	cmd := s.Program("psql", "-XqAtwc", "SELECT 1", s.DSN("postgres"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("right password: %v %s", err, out)
	}
	cmd = s.Program("psql", "-XqAtwc", "SELECT 1", "-h", s.Host)
	cmd.Env = append(cmd.Env, "PGPASSWORD=wrong")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "password authentication failed") {
		t.Errorf("wrong password: %v %s", err, out)
	}
	if got := s.SQL(t, "postgres", "SELECT left(rolpassword, 13) FROM pg_authid WHERE rolname = 'postgres'"); got != "SCRAM-SHA-256" {
		t.Errorf("verifier begins with %q", got)
	}
}

func TestRestartKeepsPortAndData(t *testing.T) {
	t.Parallel()
	s := Start(t)
	port := s.Port
	for _, graceful := range []bool{true, false} {
		s.SQL(t, "postgres", "CREATE TABLE IF NOT EXISTS kept AS SELECT 7 AS n; CHECKPOINT")
		if err := s.Restart(graceful); err != nil {
			t.Fatal(err)
		}
		if got := s.SQL(t, "postgres", "SELECT n FROM kept"); got != "7" || s.Port != port {
			t.Errorf("graceful %v: n = %q, port %d, want 7, %d", graceful, got, s.Port, port)
		}
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	t.Parallel()
	s, err := Launch()
	if err != nil {
		t.Fatal(err)
	}
	pid := s.process.PID()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.SocketDir); !os.IsNotExist(err) {
		t.Errorf("directory is still there: %v", err)
	}
	if isServerIn(pid, s.SocketDir) {
		t.Error("postmaster still runs")
	}
}

// orphan is the body of a child test binary: a server whose owner then dies.
func orphan(base string) {
	os.Setenv("TMPDIR", base)
	if _, err := Launch(); err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
	os.Stdout.WriteString("ready")
	select {}
}

func TestKilledOwnerLeavesNothingAfterTheNextSweep(t *testing.T) {
	t.Parallel()
	base := sockets.SocketDir(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PGTEST_ORPHAN="+base)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stdout, make([]byte, len("ready"))); err != nil {
		t.Fatal(err)
	}
	homes, _ := filepath.Glob(filepath.Join(base, homePrefix()+"*"))
	if len(homes) != 1 {
		t.Fatalf("homes: %v", homes)
	}
	pid := postmasterPID(homes[0])
	acc, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}

	if err := removeDeadHomes(base, acc); err != nil {
		t.Fatal(err)
	}
	if !isServerIn(pid, homes[0]) {
		t.Fatal("a sweep ended a server whose owner lives")
	}

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	waitFor(t, "the postmaster to end by itself", func() bool { return !isServerIn(pid, homes[0]) })
	if err := removeDeadHomes(base, acc); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(homes[0]); !os.IsNotExist(err) {
		t.Errorf("the sweep left %s", homes[0])
	}
}

func TestSweepEndsAPostmasterThatWasNotTold(t *testing.T) {
	t.Parallel()
	base := sockets.SocketDir(t)
	acc, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	home, err := newServerHome(base, acc)
	if err != nil {
		t.Fatal(err)
	}
	// A shell that waits stands in for the postmaster; it carries -D in its arguments.
	data := filepath.Join(home.path, dataName)
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "echo $$ > $2/postmaster.pid; read never", "postgres", "-D", data)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "its pid file", func() bool { return postmasterPID(home.path) == cmd.Process.Pid })
	home.lock.Close() // as the owner's death would
	go func() { _ = cmd.Wait() }()

	// Again and again: between its fork and its exec, a child of a test beside
	// this one holds a copy of the lock.
	waitFor(t, "its directory to be swept", func() bool {
		if err := removeDeadHomes(base, acc); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(home.path)
		return os.IsNotExist(err)
	})
	if isServerIn(cmd.Process.Pid, home.path) {
		t.Error("it still runs")
	}
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(startLimit); !done(); time.Sleep(pollEvery) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestBinDirTakesTheNewestMajorVersion(t *testing.T) {
	for _, tt := range []struct {
		versions []string
		want     string
	}{
		{[]string{"9.6", "15", "17"}, "17"},
		{[]string{"17", "100", "18-client"}, "100"},
		{[]string{"9.6", "13", "14"}, ""},
		{nil, ""},
	} {
		root := t.TempDir()
		for _, version := range tt.versions {
			bin := filepath.Join(root, version, "bin")
			if err := os.MkdirAll(bin, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"initdb", "postgres"} {
				if err := os.WriteFile(filepath.Join(bin, name), nil, 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		t.Setenv("PATH", root)
		got, err := findBinDir(filepath.Join(root, "*", "bin"))
		if tt.want == "" {
			if !errors.Is(err, ErrNotInstalled) {
				t.Errorf("%v: %q, %v, want ErrNotInstalled", tt.versions, got, err)
			}
			continue
		}
		if want := filepath.Join(root, tt.want, "bin"); err != nil || got != want {
			t.Errorf("%v: %q, %v, want %q", tt.versions, got, err, want)
		}
	}
}
