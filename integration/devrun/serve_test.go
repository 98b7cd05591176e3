package main

import (
	"bufio"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// A newcomer's first minutes with the real programs: everything that is printed
// works when pasted.
func TestWhatIsPrintedWorks(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"dsql", "postgres"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			d := startDevrunWith(t, string(harness.Binaries(t)), append(portsFlags(t), "--backend", backend)...)
			said := d.waitFor(t, "Ctrl-C")
			psql := regexp.MustCompile(`(?m)^ +(psql '.*')$`).FindStringSubmatch(said)
			pgbench := regexp.MustCompile(`(?m)^ +(pgbench .*')$`).FindStringSubmatch(said)
			metrics := regexp.MustCompile(`http://\S+/metrics`).FindString(said)
			if psql == nil || pgbench == nil || metrics == "" {
				t.Fatalf("printed:\n%s", said)
			}

			if got := shell(t, psql[1]+` -Xc '\d'`); !strings.Contains(got, "pgbench_accounts") {
				t.Errorf(`\d:%s`, got)
			}
			if got := shell(t, psql[1]+` -XqAt -c BEGIN -c 'SELECT count(*) FROM pgbench_branches' -c COMMIT`); got != "1\n" {
				t.Errorf("a transaction: %q", got)
			}
			for _, protocol := range []string{"simple", "extended", "prepared"} {
				command := strings.Replace(pgbench[1], "-T 10", "-t 20 -M "+protocol, 1)
				if got := shell(t, command); !strings.Contains(got, "actually processed: 320/320\n") {
					t.Errorf("%s: %s", command, got)
				}
			}
			cancel(t, psql[1])

			if err := d.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			d.waitFor(t, "stopping")
			if err := d.Wait(); err != nil {
				t.Errorf("it ended with %v", err)
			}
			d.waitUntilNothingRuns(t)
		})
	}
}

// cancel presses Ctrl-C in psql while a statement runs that would take minutes.
func cancel(t *testing.T, psql string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "exec "+psql+` -Xqc '\echo up' -c 'SELECT pg_sleep(600)'`)
	cmd.Env = clientEnviron(t)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	output := bufio.NewReader(stdout)
	if _, err := output.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = output.ReadString('\n') // until psql ends
	}()
	// A Ctrl-C before the statement has left does nothing: press until it works.
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-time.After(200 * time.Millisecond):
			_ = cmd.Process.Signal(syscall.SIGINT) // it may have ended just now
		}
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(stderr.String(), "canceling statement due to user request") {
		t.Errorf("after Ctrl-C: %v, %q", err, stderr.String())
	}
}

// shell runs a line as somebody would who pasted it.
func shell(t *testing.T, line string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Env = clientEnviron(t)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// clientEnviron has the client programs on PATH wherever PostgreSQL lies.
func clientEnviron(t *testing.T) []string {
	t.Helper()
	bin, err := pgtest.BinDir()
	if err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
}
