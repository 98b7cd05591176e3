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
	pid, parent, late, err := parseProcStat(line)
	if err != nil {
		t.Fatal(err)
	}
	if pid != 4711 || parent != 42 || late != 3400*time.Millisecond {
		t.Errorf("got %d, %d, %v, want 4711, 42, 3.4s", pid, parent, late)
	}
	for _, bad := range []string{"", "4711", "4711 (x) S 42", "x (x) S 42 1 1 0 -1 0 1 0 0 0 1 2 3 4 20 0"} {
		if _, _, _, err := parseProcStat(bad); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

func TestFamilyTimeCountsDescendants(t *testing.T) {
	t.Parallel()
	// The shell only waits, its child works.
	cmd := exec.Command("sh", "-c", "(i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo done; read x); true")
	stdin, err := cmd.StdinPipe() // the end of it ends the child
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
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
	alone, err := processCPUTime(p.PID())
	if err != nil {
		t.Fatal(err)
	}
	family, err := processTreeCPUTime(p.PID())
	if err != nil {
		t.Fatal(err)
	}
	if alone == 0 || family < 2*alone {
		t.Errorf("the family has used %v, the shell alone %v", family, alone)
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
	m, err := startCPUMeter(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for now := m.used; now-m.used <= 20*time.Millisecond; {
		if now, err = processCPUTime(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	used, err := m.readUsage()
	if err != nil {
		t.Fatal(err)
	}
	now, err := processCPUTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if used.proxy < 20*time.Millisecond || used.proxy > now-m.used {
		t.Errorf("%v of CPU time, want the 20 ms that were spent or more, up to %v", used.proxy, now-m.used)
	}
}

func TestUsageBetweenReadings(t *testing.T) {
	t.Parallel()
	before := counters{idle: time.Minute, stolen: time.Second, own: time.Hour, used: time.Second}
	after := counters{idle: time.Minute + 11*time.Second, stolen: 2 * time.Second, own: time.Hour + 6*time.Second, used: 4 * time.Second}
	// Of the 20 s of two CPUs in 10 s, 11 were idle, 1 stolen and 6 ours.
	got := before.usageUntil(after, 10*time.Second, 2)
	if want := (cpuUsage{proxy: 3 * time.Second, foreign: 0.2, stolen: 0.1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	after.own += 5 * time.Second
	if got := before.usageUntil(after, 10*time.Second, 2); got.foreign != 0 {
		t.Errorf("%v foreign cores, want none", got.foreign)
	}
}
