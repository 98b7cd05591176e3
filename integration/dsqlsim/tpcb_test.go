package dsqlsim_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/harness"
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
// PostgreSQL behind it: the ratio of committed transactions, in turns, so that a machine that slows down
// does so for both.
func BenchmarkTPCB(b *testing.B) {
	const scale, clients, turns, seconds = 50, 8, 5, 2
	pg := pgtest.Shared(b)
	sim := harness.StartDSQLSim(b, harness.DSQLSimConfig{Upstream: pg})
	env := sim.Env()
	password := token(b, "admin", sim.Endpoint, env["AWS_REGION"], env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"], 15*time.Minute)
	script := filepath.Join(b.TempDir(), "tpcb.sql")
	if err := os.WriteFile(script, []byte(tpcb), 0o600); err != nil {
		b.Fatal(err)
	}
	direct := fmt.Sprintf("host=%s port=%d user=%s dbname=postgres sslmode=disable", pg.Host, pg.Port, pg.User)
	through := fmt.Sprintf("host=%s hostaddr=%s port=%d user=admin dbname=postgres sslmode=verify-full sslrootcert=%s", sim.Endpoint, sim.Host, sim.Port, sim.CAFile)
	pgbench := func(conninfo string, args ...string) string {
		cmd := pg.Program("pgbench", append(args, conninfo)...)
		cmd.Env = append(cmd.Env, "PGPASSWORD="+password)
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
				var plain, own float64
				var conflicts []string
				for range turns {
					rate, _ := run(direct)
					plain += rate / turns
					rate, share := run(through)
					own += rate / turns
					conflicts = append(conflicts, share+" %")
				}
				b.ReportMetric(own/plain, "of-direct")
				b.Logf("direct %.0f/s, through %.0f/s, conflicts %s", plain, own, strings.Join(conflicts, ", "))
			}
		})
	}
}
