package main

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/child"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	const line = "4711 (a (b) c) S 42 4711 4711 0 -1 4194304 100 0 0 0 11 22 300 40 20 0 1 0 1000 9000 500 18446744073709551615\n"
	pid, parent, late, err := parseStat(line)
	if err != nil {
		t.Fatal(err)
	}
	if pid != 4711 || parent != 42 || late != 3400*time.Millisecond {
		t.Errorf("got %d, %d, %v, want 4711, 42, 3.4s", pid, parent, late)
	}
	for _, bad := range []string{"", "4711", "4711 (x) S 42", "x (x) S 42 1 1 0 -1 0 1 0 0 0 1 2 3 4 20 0"} {
		if _, _, _, err := parseStat(bad); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

func TestFamilyTimeCountsChildren(t *testing.T) {
	t.Parallel()
	before, err := familyTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const work = "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; echo done; exec sleep 600"
	cmd := exec.Command("sh", "-c", work)
	stdout, stdoutWriter, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	cmd.Stdout = stdoutWriter
	p, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(syscall.SIGKILL, time.Minute) })
	stdoutWriter.Close()
	if _, err := stdout.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	own, err := processTime(p.PID())
	if err != nil {
		t.Fatal(err)
	}
	after, err := familyTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if own == 0 || after-before < own {
		t.Errorf("the family has used %v, the child alone %v", after-before, own)
	}
}

func TestResidentKiB(t *testing.T) {
	t.Parallel()
	kib, err := residentKiB(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if kib < 1024 { // any Go program has more
		t.Errorf("%v KiB", kib)
	}
}

func TestMeter(t *testing.T) {
	t.Parallel()
	m, err := startMeter(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for now := m.used; now-m.used <= 20*time.Millisecond; {
		if now, err = processTime(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	used, err := m.read()
	if err != nil {
		t.Fatal(err)
	}
	if used.proxy < 20*time.Millisecond {
		t.Errorf("%v of CPU time, want the 20 ms that were spent", used.proxy)
	}
	if cores := float64(onlineCPUs()); used.foreign < 0 || used.foreign > cores+0.5 {
		t.Errorf("%.2f foreign cores of %v", used.foreign, cores)
	}
}
