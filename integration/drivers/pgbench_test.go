package drivers

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/integration/pgtest"
)

const (
	pgbenchClients = 16
	// pgbenchScale keeps them apart: a branch is a row that all of its
	// transactions write.
	pgbenchScale        = 4
	pgbenchTransactions = 15 // of each client
	// pgbenchTries is for conflicts (40001) of the stand-in, which PostgreSQL's
	// default isolation has not.
	pgbenchTries = 200
)

// runPgbench runs pgbench's own transactions in all three protocols, without a
// single failure, and checks the books afterwards.
func runPgbench(t *testing.T, r route) {
	ctx, cancel := context.WithTimeout(t.Context(), playLimit)
	defer cancel()
	// Directly: DSQL refuses what pgbench sends to make its tables.
	pgbench(ctx, t, "-i", "-q", "-I", "dtgp", "-s", itoa(pgbenchScale), "-h", pgtest.Shared(t).SocketDir, r.database)
	transfers := 0
	for _, protocol := range []string{"simple", "extended", "prepared"} {
		for _, script := range []string{"select-only", "tpcb-like"} {
			out := pgbench(ctx, t, "-n", "-M", protocol, "-b", script, "-c", itoa(pgbenchClients), "-j", "2",
				"-t", itoa(pgbenchTransactions), "--max-tries", itoa(pgbenchTries), r.dsn)
			all := pgbenchClients * pgbenchTransactions
			for _, want := range []string{
				fmt.Sprintf("number of transactions actually processed: %d/%d\n", all, all),
				"number of failed transactions: 0 ",
			} {
				if !strings.Contains(out, want) {
					t.Errorf("%s, %s: want %q in:\n%s", protocol, script, want, out)
				}
			}
			if script == "tpcb-like" {
				transfers += all
			}
		}
	}
	balanced := pgtest.Shared(t).SQL(t, r.database, `
		SELECT (SELECT count(*) FROM pgbench_history), (SELECT sum(delta) FROM pgbench_history) = ALL (ARRAY[
			(SELECT sum(abalance) FROM pgbench_accounts),
			(SELECT sum(tbalance) FROM pgbench_tellers),
			(SELECT sum(bbalance) FROM pgbench_branches)])`)
	if want := itoa(transfers) + "|t"; balanced != want {
		t.Errorf("transfers and whether the sums agree: %s, want %s", balanced, want)
	}
}

func pgbench(ctx context.Context, t *testing.T, args ...string) string {
	t.Helper()
	program := pgtest.Shared(t).Program("pgbench", args...)
	cmd := exec.CommandContext(ctx, program.Path, args...)
	cmd.Env = program.Env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("pgbench %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
