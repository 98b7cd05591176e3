package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-proxy/sluice/cmd/sluice/config"
	"github.com/sluice-proxy/sluice/cmd/sluice/config/configtest"
	"github.com/sluice-proxy/sluice/proxy"
)

func TestATakenPortIsToldInOneLine(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, err = listenAll(&config.Config{Listen: config.Listen{Address: ln.Addr().String()}}, 0)
	if err == nil {
		t.Fatal("the same port was taken twice")
	}
	holder := ""
	if runtime.GOOS == "linux" {
		name, err := os.ReadFile("/proc/self/comm")
		if err != nil {
			t.Fatal(err)
		}
		holder = fmt.Sprintf(" by %s (pid %d)", strings.TrimSpace(string(name)), os.Getpid())
	}
	want := ln.Addr().String() + " is taken" + holder +
		": choose another with listen.address, DSQL_LISTEN_ADDRESS or --listen-address"
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := &config.Config{Listen: config.Listen{Address: "127.0.0.1:0", UnixSocket: dir}}
	path := filepath.Join(dir, ".s.PGSQL.0")

	first, err := listenAll(c, 0o750)
	if err != nil {
		t.Fatal(err)
	}
	if len(first) != 2 || first[1].Addr().String() != path {
		t.Fatalf("listeners %v, want TCP and %s", first, path)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("socket file: %v, %v; want mode 0750", info, err)
	}
	if _, err := listenAll(c, 0o750); err == nil || !strings.Contains(err.Error(), path+" is taken: choose another directory with listen.unix_socket") {
		t.Errorf("second listener: %v", err)
	}

	// A process that dies leaves its file behind.
	first[1].(*net.UnixListener).SetUnlinkOnClose(false)
	closeAll(first)
	second, err := listenAll(c, 0o750)
	if err != nil {
		t.Fatalf("after a dead listener: %v", err)
	}
	closeAll(second)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("after the end the file is there: %v", err)
	}

	// Anything else of that name is not ours to remove.
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenAll(c, 0o750); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("over a file: %v", err)
	}
}

// By default who need not prove anything must be of Sluice's user or group.
func TestSocketMode(t *testing.T) {
	t.Parallel()
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags []string
		want  os.FileMode
	}{
		{nil, 0o770}, {[]string{"--auth-method=scram-sha-256", "--auth-users-file=" + users}, 0o777},
		{[]string{"--listen-unix-socket-mode=0700"}, 0o700}, {[]string{"--listen-unix-socket-mode=777"}, 0o777},
	} {
		loaded := configtest.Source{Flags: append([]string{"--endpoint=" + configtest.Endpoint}, c.flags...)}.MustLoad(t)
		if got, err := loaded.SocketMode(); err != nil || got != c.want {
			t.Errorf("%v: %#o, %v; want %#o", c.flags, got, err, c.want)
		}
	}
}

// Files with secrets that others may read are told at start, with their modes.
func TestReadableSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open, closed := filepath.Join(dir, "key"), filepath.Join(dir, "users")
	for path, mode := range map[string]os.FileMode{open: 0o644, closed: 0o640} {
		if err := errors.Join(os.WriteFile(path, nil, mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	var log strings.Builder
	c := &config.Config{TLS: config.TLS{Key: open}}
	c.Proxy.Startup.UsersFile = closed
	warnReadableSecrets(c, slog.New(slog.NewTextHandler(&log, nil)))
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "tls.key_file") || !strings.Contains(got, "mode=0644") {
		t.Errorf("the log has\n%s", got)
	}
}

// So is the configuration's file where it has the password.
func TestReadablePassword(t *testing.T) {
	for password, warned := range map[string]bool{"  password: secret\n": true, "": false} {
		c := configtest.Source{File: "backend:\n  kind: postgres\n  endpoint: db.example.com\n  user: app\n" + password}.MustLoad(t)
		path := strings.TrimPrefix(c.SourceOf("backend.kind"), "file ")
		if err := os.Chmod(path, 0o604); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		warnReadableSecrets(c, slog.New(slog.NewTextHandler(&log, nil)))
		if got := log.String(); strings.Contains(got, "the file of backend.password") != warned || strings.Contains(got, "mode=0604") != warned {
			t.Errorf("password %q: the log has\n%s", password, got)
		}
	}
}

// A socket has no moment in which more may connect than by its mode, whatever the umask: who connects then stays.
func TestSocketIsMadeWithItsMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	path := filepath.Join(t.TempDir(), "s")
	ln, err := bindUnix(path, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestSocketPathHasThePortOfTheAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{"127.0.0.1:6432": "/run/x/.s.PGSQL.6432", "": "/run/x/.s.PGSQL.5432"} {
		if got := (config.Listen{Address: address, UnixSocket: "/run/x"}).SocketPath(); got != want {
			t.Errorf("address %q: %s, want %s", address, got, want)
		}
	}
}

// Clients leave descriptors for what is not theirs: the default of listen.max_clients follows the
// limit, and a value above what is left is an error with both figures.
func TestDescriptors(t *testing.T) {
	t.Parallel()
	const kept = 50 + ownDescriptors + proxy.SpareConns
	for _, c := range []struct {
		flags []string
		limit uint64
		want  int
		err   string
	}{
		{nil, 1 << 20, 5000, ""}, {nil, kept + 5000, 5000, ""}, {nil, kept + 700, 700, ""}, {nil, math.MaxUint64, 5000, ""},
		{nil, 64, 0, "listen.max_clients: 5000: the process may have 64 file descriptors (ulimit -n), of which 246 are kept"},
		{[]string{"--listen-max-clients=2000"}, kept + 2000, 2000, ""},
		{[]string{"--listen-max-clients=2000"}, kept + 1999, 0, "raise the limit to 2246, or set this to 1999 at most (flag --listen-max-clients)"},
	} {
		loaded := configtest.Source{Flags: append([]string{"--endpoint=" + configtest.Endpoint, "--reservoir-max-open=50"}, c.flags...)}.MustLoad(t)
		err := fitDescriptorLimit(loaded, c.limit, slog.New(slog.DiscardHandler))
		if c.err == "" && (err != nil || loaded.Proxy.MaxClients != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%v, limit %d: %d, %v; want %d, %q", c.flags, c.limit, loaded.Proxy.MaxClients, err, c.want, c.err)
		}
	}
}

func TestProcs(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	for _, test := range []struct {
		variable          string
		have, procs, want int
	}{
		{"", 2, 0, 1}, {"", 1, 0, 1}, {"", 3, 0, 3}, {"", 2, 2, 2}, {"", 8, 4, 4}, {"2", 2, 0, 2}, {"2", 2, 5, 2},
	} {
		t.Setenv("GOMAXPROCS", test.variable)
		runtime.GOMAXPROCS(test.have)
		setProcs(test.procs)
		if got := runtime.GOMAXPROCS(0); got != test.want {
			t.Errorf("GOMAXPROCS=%q, %d CPUs, runtime.procs %d: got %d, want %d", test.variable, test.have, test.procs, got, test.want)
		}
	}
}
