package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestATakenPortIsToldInOneLine(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, err = listenAll(ListenConfig{Address: ln.Addr().String()})
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
	c := ListenConfig{Address: "127.0.0.1:0", UnixSocket: dir}
	path := filepath.Join(dir, ".s.PGSQL.0")

	first, err := listenAll(c)
	if err != nil {
		t.Fatal(err)
	}
	if len(first) != 2 || first[1].Addr().String() != path {
		t.Fatalf("listeners %v, want TCP and %s", first, path)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("socket file: %v, %v; want mode 0777", info, err)
	}
	if _, err := listenAll(c); err == nil || !strings.Contains(err.Error(), path+" is taken: choose another directory with listen.unix_socket") {
		t.Errorf("second listener: %v", err)
	}

	// A process that dies leaves its file behind.
	first[1].(*net.UnixListener).SetUnlinkOnClose(false)
	closeAll(first)
	second, err := listenAll(c)
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
	if _, err := listenAll(c); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("over a file: %v", err)
	}
}

func TestSocketPathHasThePortOfTheAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{"127.0.0.1:6432": "/run/x/.s.PGSQL.6432", "": "/run/x/.s.PGSQL.5432"} {
		if got := (ListenConfig{Address: address, UnixSocket: "/run/x"}).socketPath(); got != want {
			t.Errorf("address %q: %s, want %s", address, got, want)
		}
	}
}

func TestDescriptorsNeeded(t *testing.T) {
	c := source{flags: []string{"--endpoint=" + endpoint, "--listen-max-clients=2000", "--reservoir-max-open=50"}}.mustLoad(t)
	if got, want := descriptors(c), uint64(2000+50+ownDescriptors); got != want {
		t.Errorf("got %d, want %d", got, want)
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
