package temporal

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// programsMeasured is the order in which their CPU is shown.
var programsMeasured = []string{"Temporal", "Sluice", "dsqlsim", "PostgreSQL"}

// cpu is what each program has used so far.
func (d *deployment) cpu(t *testing.T) map[string]time.Duration {
	t.Helper()
	used := map[string]time.Duration{"Temporal": processCPU(t, d.server.program.PID(), false), "Sluice": 0, "dsqlsim": 0}
	if d.sluice != nil {
		used["Sluice"] = processCPU(t, d.sluice.PID(), false)
	}
	if d.sim != nil {
		used["dsqlsim"] = processCPU(t, d.sim.PID(), false)
	}
	// The postmaster has the sum of those of its backends that have ended.
	backends := strings.Fields(d.pg.SQL(t, "postgres", "SELECT string_agg(pid::text, ' ') FROM pg_stat_activity"))
	used["PostgreSQL"] = processCPU(t, parentOf(t, backends[0]), true)
	for _, pid := range backends {
		n, err := strconv.Atoi(pid)
		if err != nil {
			t.Fatal(err)
		}
		used["PostgreSQL"] += processCPU(t, n, false)
	}
	return used
}

// statOf is what the kernel says of a process, from its state on; none if it has ended.
func statOf(pid string) []string {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return nil
	}
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
}

func parentOf(t *testing.T, pid string) int {
	t.Helper()
	stat := statOf(pid)
	if stat == nil {
		t.Fatalf("process %s has ended", pid)
	}
	parent, err := strconv.Atoi(stat[1])
	if err != nil {
		t.Fatal(err)
	}
	return parent
}

// processCPU is user and system time, that of children that have ended included if asked for.
func processCPU(t *testing.T, pid int, children bool) (used time.Duration) {
	t.Helper()
	stat := statOf(strconv.Itoa(pid))
	if stat == nil {
		return 0
	}
	const tick, user = 10 * time.Millisecond, 11 // USER_HZ is 100 everywhere
	fields := stat[user : user+2]
	if children {
		fields = stat[user : user+4]
	}
	for _, f := range fields {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		used += time.Duration(n) * tick
	}
	return used
}

// way is how the micro load gets to a database.
type way struct {
	name, dsn string
	took      []float64 // of one transaction, milliseconds, by round
}

// microLoad says how much of a difference is whose: transactions in the shape of
// UpdateWorkflowExecution on the stand-in without Sluice, on it with Sluice, and on
// PostgreSQL with and without, in turn.
func microLoad(t *testing.T, contenders []*contender) {
	t.Helper()
	alone, plain, onSim := contenders[0].d, contenders[1].d, contenders[2].d
	ways := []*way{
		{name: "PostgreSQL", dsn: alone.pg.DSN("postgres")},
		{name: "Sluice, PostgreSQL", dsn: plain.sluice.DSN("postgres")},
		{name: "dsqlsim", dsn: onSim.directDSN(t)},
		{name: "Sluice, dsqlsim", dsn: onSim.sluice.DSN("postgres")},
	}
	for _, d := range []*deployment{alone, plain, onSim} {
		d.pg.SQL(t, "postgres", `CREATE TABLE micro_shards (id int PRIMARY KEY, range_id bigint NOT NULL);
			CREATE TABLE micro_executions (id int PRIMARY KEY, version bigint NOT NULL, data bytea NOT NULL);
			CREATE TABLE micro_tasks (id int, n bigint, data bytea NOT NULL, PRIMARY KEY (id, n));
			INSERT INTO micro_shards SELECT n, 1 FROM generate_series(0, 99) n;
			INSERT INTO micro_executions SELECT n, 1, '' FROM generate_series(0, 99) n`)
	}
	const rounds = 5
	for round := range rounds {
		for n, w := range ways {
			w.took = append(w.took, w.load(t, n, round))
		}
	}
	var rows strings.Builder
	rows.WriteString("| one transaction of 7 statements, 4 clients | ms | to PostgreSQL |\n|---|---|---|\n")
	for _, w := range ways {
		fmt.Fprintf(&rows, "| %s | %s | %s |\n", w.name, spread(w.took, "%.2f"), spread(ratios(w.took, ways[0].took), "%.2f"))
	}
	t.Logf("\n%s", rows.String())
}

// load has a few clients, each on rows of its own, run transactions, and returns how
// long one took.
func (w *way) load(t *testing.T, number, round int) float64 {
	t.Helper()
	const clients, transactions = 4, 200
	var wait sync.WaitGroup
	began := time.Now()
	for c := range clients {
		wait.Go(func() {
			if err := w.client(t.Context(), 10*number+c, round*transactions, transactions); err != nil {
				t.Errorf("%s: %v", w.name, err)
			}
		})
	}
	wait.Wait()
	return 1000 * time.Since(began).Seconds() / transactions
}

func (w *way) client(ctx context.Context, id, first, transactions int) error {
	config, err := pgx.ParseConfig(w.dsn)
	if err != nil {
		return err
	}
	config.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil }
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	data := make([]byte, 500)
	for n := range transactions {
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			var lease, version int64
			if err := tx.QueryRow(ctx, "SELECT range_id FROM micro_shards WHERE id = $1 FOR UPDATE", id).Scan(&lease); err != nil {
				return err
			}
			if err := tx.QueryRow(ctx, "SELECT version FROM micro_executions WHERE id = $1 FOR UPDATE", id).Scan(&version); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "UPDATE micro_executions SET version = $1, data = $2 WHERE id = $3", version+1, data, id); err != nil {
				return err
			}
			for i := range 2 {
				if _, err := tx.Exec(ctx, "INSERT INTO micro_tasks VALUES ($1, $2, $3)", id, 2*(first+n)+i, data); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// directDSN is for the stand-in without Sluice, with a token of its own making.
func (d *deployment) directDSN(t *testing.T) string {
	t.Helper()
	env := d.sim.Env()
	token, err := exec.CommandContext(t.Context(), string(d.simConfig.Bin)+"/dsqlsim", "token", "--endpoint", d.sim.Endpoint,
		"--access-key", env["AWS_ACCESS_KEY_ID"], "--secret-key", env["AWS_SECRET_ACCESS_KEY"]).Output()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("host=%s port=%d user=admin dbname=postgres sslmode=verify-full sslrootcert=%s password='%s'",
		d.sim.Endpoint, d.sim.Port, d.sim.CAFile, strings.TrimSpace(string(token)))
}
