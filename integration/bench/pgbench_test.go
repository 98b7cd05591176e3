package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const summary = `pgbench (15.18 (Debian 15.18-0+deb12u1))
transaction type: <builtin: select only>
scaling factor: 10
query mode: extended
number of clients: 16
number of threads: 1
maximum number of tries: 1
duration: 3 s
number of transactions actually processed: 49812
number of failed transactions: 0 (0.000%)
latency average = 0.962 ms
initial connection time = 12.345 ms
tps = 16626.482374 (without initial connection time)
`

func TestParsePgbench(t *testing.T) {
	t.Parallel()
	reconnecting := strings.NewReplacer("initial connection time = 12.345 ms", "average connection time = 2.610 ms",
		"(without initial connection time)", "(including reconnection times)").Replace(summary)
	for name, text := range map[string]string{"plain": summary, "with -C": reconnecting} {
		got, err := parsePgbench(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got.rate != 16626.482374 || got.transactions != 49812 {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestParsePgbenchRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][2]string{
		"failed transactions":     {"failed transactions: 0", "failed transactions: 3"},
		"no count of failures":    {"number of failed transactions", "something else"},
		"nothing processed":       {"processed: 49812", "processed: 0"},
		"a rate of another shape": {"tps = 16626.482374", "tps: many"},
	} {
		if _, err := parsePgbench(strings.Replace(summary, change[0], change[1], 1)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestLatenciesInWantsOneLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := readLatencyLog(dir); err == nil {
		t.Error("no error without a log")
	}
	if err := os.WriteFile(filepath.Join(dir, "log.123"), []byte("0 1 15 0 1763688000 100234\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := readLatencyLog(dir); err != nil || len(got) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}
