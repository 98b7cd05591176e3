package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-proxy/sluice/integration/child"
)

const (
	// logShare is the share of the transactions whose latency pgbench logs. It is enough for a median, and too small to
	// affect the rate.
	logShare = "0.1"
	// overtime is the time beyond its length that a sample may take, for connecting and for the last transactions.
	overtime = 30 * time.Second
)

// pgbenchResult has the rate and the latencies that one run of pgbench has measured.
type pgbenchResult struct {
	rate         float64 // transactions per second
	transactions int64
	latencies    []int64 // microseconds, of a share of the transactions
}

// runPgbench runs a workload with pgbench through a port of the loopback, for the length of a sample.
func (b *bench) runPgbench(ctx context.Context, w *workload, port int) (pgbenchResult, error) {
	dir, err := os.MkdirTemp(b.rig.dir, "pgbench-")
	if err != nil {
		return pgbenchResult{}, err
	}
	defer os.RemoveAll(dir)
	args := []string{"-n", "-h", loopback, "-p", strconv.Itoa(port), "-j", "1",
		"-c", strconv.Itoa(w.clients), "-T", strconv.Itoa(b.seconds)}
	if w.reconnect {
		args = append(args, "-C")
	} else {
		args = append(args, "-l", "--sampling-rate="+logShare, "--log-prefix="+filepath.Join(dir, "log"))
	}
	if w.script != "" {
		script := filepath.Join(dir, "script.sql")
		if err := os.WriteFile(script, []byte(w.script), 0o600); err != nil {
			return pgbenchResult{}, err
		}
		args = append(args, "-f", script)
	}
	text, err := b.rig.runProgram(ctx, time.Duration(b.seconds)*time.Second+overtime, "pgbench", "", append(args, w.args...)...)
	if err != nil {
		return pgbenchResult{}, err
	}
	result, err := parsePgbench(text)
	if err != nil || w.reconnect {
		return result, err
	}
	result.latencies, err = readLatencyLog(dir)
	return result, err
}

// readLatencyLog reads the only transaction log in dir.
func readLatencyLog(dir string) ([]int64, error) {
	logs, err := filepath.Glob(filepath.Join(dir, "log.*"))
	if err != nil {
		return nil, err
	}
	if len(logs) != 1 {
		return nil, fmt.Errorf("pgbench has left %d logs", len(logs))
	}
	log, err := os.Open(logs[0])
	if err != nil {
		return nil, err
	}
	defer log.Close()
	return readLatencies(log)
}

var (
	// These expressions find figures in pgbench's output. The rate precedes (without initial connection time) or
	// (including reconnection times).
	rateLine      = regexp.MustCompile(`(?m)^tps = ([0-9.]+) \(`)
	processedLine = regexp.MustCompile(`(?m)^number of transactions actually processed: ([0-9]+)`)
	failedLine    = regexp.MustCompile(`(?m)^number of failed transactions: ([0-9]+)`)
)

// parsePgbench parses pgbench's summary, as of PostgreSQL 15. A failed transaction is an error, because the rate would
// count it as fast work.
func parsePgbench(text string) (pgbenchResult, error) {
	rate, err := strconv.ParseFloat(submatch(rateLine, text), 64)
	if err != nil {
		return pgbenchResult{}, errors.New("pgbench's output has no tps:\n" + text)
	}
	processed, err := strconv.ParseInt(submatch(processedLine, text), 10, 64)
	if err != nil || processed == 0 {
		return pgbenchResult{}, errors.New("pgbench has processed no transactions:\n" + text)
	}
	if failed := submatch(failedLine, text); failed != "0" {
		return pgbenchResult{}, fmt.Errorf("failed transactions: %q of %d", failed, processed)
	}
	return pgbenchResult{rate: rate, transactions: processed}, nil
}

func submatch(re *regexp.Regexp, text string) string {
	if m := re.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// runProgram runs one of PostgreSQL's client programs without TLS, for at most limit. It returns the program's output;
// an error contains the program's error output.
func (r *benchServers) runProgram(ctx context.Context, limit time.Duration, name, input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := r.postgres.Program(name, args...)
	cmd.Env = append(cmd.Env, "PGSSLMODE=disable", "PGDATABASE="+database)
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	process, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return "", err
	}
	select {
	case <-process.Exited():
	case <-ctx.Done():
		process.Stop(syscall.SIGKILL, 0)
		return "", fmt.Errorf("%s: %w\n%s", name, ctx.Err(), stderr.String())
	}
	if err := process.Err(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", name, err, stderr.String())
	}
	return stdout.String(), nil
}

// runSQL runs statements through a port with psql and returns their rows. Port 0 means the server itself.
func (r *benchServers) runSQL(ctx context.Context, port int, statements string) (string, error) {
	args := []string{"-XqAt", "-v", "ON_ERROR_STOP=1"}
	if port != 0 {
		args = append(args, "-h", loopback, "-p", strconv.Itoa(port))
	}
	text, err := r.runProgram(ctx, setupLimit, "psql", statements, args...)
	return strings.TrimSpace(text), err
}
