package dsqlsim_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// tpcb is pgbench's TPC-B, each client at its own branch and tellers: what
// they share is only chance (accounts).
const tpcb = `\set aid random(1, 100000 * :scale)
\set bid :client_id + 1
\set tid :client_id * 10 + random(1, 10)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
`

var (
	tpsLine    = regexp.MustCompile(`(?m)^tps = ([0-9.]+) `)
	failedLine = regexp.MustCompile(`(?m)^number of failed transactions: ([0-9]+) \(([0-9.]+)%\)`)
)

// BenchmarkTPCB compares eight clients at the stand-in with eight at the
// PostgreSQL behind it: the ratio of committed transactions, direct and through,
// direct again, so that a machine that slows down is noticed.
func BenchmarkTPCB(b *testing.B) {
	const scale, clients, seconds = 50, 8, 10
	c := start(b, nil)
	pg := pgtest.Shared(b)
	dir := b.TempDir()
	script, ca := filepath.Join(dir, "tpcb.sql"), filepath.Join(dir, "ca.pem")
	for file, content := range map[string][]byte{script: []byte(tpcb), ca: c.CAPEM()} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	_, port, err := net.SplitHostPort(c.address)
	if err != nil {
		b.Fatal(err)
	}
	direct := fmt.Sprintf("host=%s port=%d user=%s dbname=%s", pg.SocketDir, pg.Port, pg.User, c.database)
	through := "host=" + endpoint + " hostaddr=127.0.0.1 port=" + port + " user=admin dbname=postgres sslmode=verify-full sslrootcert=" + ca
	pgbench := func(conninfo string, args ...string) string {
		cmd := pg.Program("pgbench", append(args, conninfo)...)
		cmd.Env = append(cmd.Env, "PGPASSWORD="+adminToken(b))
		out, err := cmd.CombinedOutput()
		if err != nil {
			b.Fatalf("pgbench: %v\n%s", err, out)
		}
		return string(out)
	}
	pgbench(direct, "-q", "-i", "-I", "dtGvp", "-s", strconv.Itoa(scale))
	for _, protocol := range []string{"simple", "prepared"} {
		b.Run(protocol, func(b *testing.B) {
			run := func(conninfo string) (rate float64, conflicts string) {
				out := pgbench(conninfo, "-n", "-M", protocol, "-f", script, "-D", "scale="+strconv.Itoa(scale),
					"-c", strconv.Itoa(clients), "-j", "1", "-T", strconv.Itoa(seconds))
				if m := tpsLine.FindStringSubmatch(out); m != nil {
					rate, _ = strconv.ParseFloat(m[1], 64)
				}
				if m := failedLine.FindStringSubmatch(out); m != nil {
					conflicts = m[2]
				}
				if rate == 0 || conflicts == "" {
					b.Fatalf("pgbench said\n%s", out)
				}
				return rate, conflicts
			}
			for b.Loop() {
				before, _ := run(direct)
				own, conflicts := run(through)
				after, _ := run(direct)
				b.ReportMetric(own/((before+after)/2), "of-direct")
				b.Logf("direct %.0f/s and %.0f/s, through %.0f/s, %s %% conflicts", before, after, own, conflicts)
			}
		})
	}
}
