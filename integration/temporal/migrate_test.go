package temporal

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// dumpFlags are those of the pg_dump that docs/temporal.md has.
var dumpFlags = []string{"--data-only", "--inserts", "--rows-per-insert=100",
	"--exclude-table=schema_version", "--exclude-table=schema_update_history", "--exclude-table=cluster_membership"}

// deleteMetadata takes away the row that the schema's file has inserted, since the dump has it.
const deleteMetadata = "DELETE FROM namespace_metadata"

// notTaken is in the one line of a dump that DSQL refuses.
const notTaken = "set_config('search_path'"

// restore moves the data of a stock schema as docs/temporal.md says, to one that setup-schema
// has made behind Sluice.
func restore(t *testing.T, from *pgtest.Server, database string, to *harness.Sluice) {
	t.Helper()
	dump := from.Program("pg_dump", append(dumpFlags, database)...)
	text, err := dump.Output()
	if err != nil {
		t.Fatalf("pg_dump: %v", err)
	}
	file := filepath.Join(t.TempDir(), "dump.sql")
	lines := bytes.SplitAfter(text, []byte("\n"))
	for i, line := range lines {
		if bytes.Contains(line, []byte(notTaken)) {
			lines[i] = nil
		}
	}
	if err := os.WriteFile(file, bytes.Join(lines, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for _, what := range [][]string{{"-c", deleteMetadata}, {"-f", file}} {
		psql := from.Program("psql", append([]string{"-q", "-v", "ON_ERROR_STOP=1", to.DSN("temporal")}, what...)...)
		if out, err := psql.CombinedOutput(); err != nil {
			t.Fatalf("psql: %v\n%.2000s", err, out)
		}
	}
	t.Logf("%d MB restored in %v", len(text)>>20, time.Since(began).Round(time.Second))
}

// A dump of a stock schema with some thousand executions has the same rows in each table
// where it was restored through Sluice, with keys that are mapped.
func TestRestoredDump(t *testing.T) {
	programs := build(t)
	old := stockDatabase(t, programs)
	if out, err := old.Program("psql", "-q", "-v", "ON_ERROR_STOP=1", "-v", "n=2000", "-f", "testdata/fill.sql", "temporal").CombinedOutput(); err != nil {
		t.Fatalf("fill: %v\n%s", err, out)
	}
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Upstream: pgtest.Start(t, pgtest.MaxConnections(150))})
	sluice := harness.StartSluice(t, harness.SluiceConfig{Env: sim.Env().With(sluiceEnv)})
	programs.setUp(t, pgx5, mainSchema, at(sluice))
	restore(t, old, "temporal", sluice)
	tables := strings.Fields(old.SQL(t, "temporal", "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 1"))
	rows := 0
	for _, table := range tables {
		if strings.HasPrefix(table, "schema_") {
			continue // their own
		}
		query := "SELECT * FROM " + table + " ORDER BY " + old.SQL(t, "temporal",
			"SELECT string_agg(i::text, ',') FROM generate_series(1, (SELECT relnatts FROM pg_class WHERE oid = '"+table+"'::regclass)) i")
		want, got := query1(t, old, old.DSN("temporal"), query), query1(t, old, sluice.DSN("temporal"), query)
		if !bytes.Equal(want, got) {
			t.Errorf("%s differs: %d bytes, want %d", table, len(got), len(want))
		}
		rows += bytes.Count(got, []byte("\n"))
	}
	if len(tables) != 39 || rows < 18_000 {
		t.Errorf("%d tables with %d rows were compared: that is not all of them", len(tables), rows)
	}
	t.Logf("%d rows are equal", rows)
}

// query1 is what psql prints for a query.
func query1(t *testing.T, pg *pgtest.Server, dsn, query string) []byte {
	t.Helper()
	out, err := pg.Program("psql", "-At", "-c", query, dsn).Output()
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return out
}

// stockDatabase is a PostgreSQL with Temporal's schema in the database temporal.
func stockDatabase(t *testing.T, programs programs) *pgtest.Server {
	t.Helper()
	pg := pgtest.Start(t, pgtest.MaxConnections(150))
	pg.SQL(t, "postgres", "CREATE ROLE temporal SUPERUSER LOGIN")
	pg.SQL(t, "postgres", "CREATE DATABASE temporal")
	programs.setUp(t, pgx5, mainSchema, pg.Address())
	return pg
}

// Workflows that run on a PostgreSQL go on behind Sluice with the data restored there, from
// where they were: with their activities' results, their signals and their timers.
func TestServerMoves(t *testing.T) {
	programs := build(t)
	old := stockDatabase(t, programs)
	const runs = 24
	started := make([]client.WorkflowRun, runs)
	func() {
		d := &deployment{}
		d.startServers(t, programs.site(t, pgx5, old.Address()), 0)
		w := d.workMoving(t)
		eachRun(t, runs, func(ctx context.Context, n int) error {
			r, err := d.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: fmt.Sprint("moving-", n), TaskQueue: queue}, "moving", n)
			if err != nil {
				return err
			}
			started[n] = r
			if err := d.client.signal(ctx, r, "first", "add", 1); err != nil {
				return err
			}
			return d.client.history(ctx, r, true, func(e *historypb.HistoryEvent) bool {
				return e.EventType != enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED
			})
		})
		w.Stop()
		if !d.server.program.Stop(syscall.SIGTERM, 30*time.Second) {
			t.Fatal("the server did not end")
		}
	}()
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Upstream: pgtest.Start(t, pgtest.MaxConnections(150))})
	sluice := harness.StartSluice(t, harness.SluiceConfig{Env: sim.Env().With(sluiceEnv)})
	programs.setUp(t, pgx5, mainSchema, at(sluice))
	restore(t, old, "temporal", sluice)
	d := &deployment{server: startServer(t, programs.site(t, pgx5, at(sluice)))}
	d.server.waitReady(t)
	d.client = &caller{Client: d.server.client(t, namespace)}
	t.Cleanup(d.workMoving(t).Stop)
	k := kind{name: "moving", want: func(n int) int { return 2*n + 1 + 10 }, events: events{
		enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED: 1, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED: 2, enumspb.EVENT_TYPE_TIMER_FIRED: 1}}
	eachRun(t, runs, func(ctx context.Context, n int) error {
		r := d.client.GetWorkflow(ctx, started[n].GetID(), started[n].GetRunID())
		if err := d.client.signal(ctx, r, "second", "add", 10); err != nil {
			return err
		}
		if err := k.verifyResult(ctx, d.client, r, n); err != nil {
			return err
		}
		return k.verifyHistory(ctx, d.client, r)
	})
	t.Logf("%d workflows went on", runs)
}

// moving has an activity, a timer that is long enough for a move, and two signals.
func moving(ctx workflow.Context, n int) (sum int, err error) {
	timer := workflow.NewTimer(ctx, 20*time.Second)
	for range 2 {
		var add int
		workflow.GetSignalChannel(ctx, "add").Receive(ctx, &add)
		if sum += add; sum == 1 {
			var doubled int
			if err := workflow.ExecuteActivity(withActivities(ctx), "double", n).Get(ctx, &doubled); err != nil {
				return 0, err
			}
			sum += doubled
		}
	}
	return sum, timer.Get(ctx, nil)
}

func (d *deployment) workMoving(t *testing.T) worker.Worker {
	t.Helper()
	executed := &executions{times: map[attempt]int{}}
	w := worker.New(d.client.Client, queue, worker.Options{})
	w.RegisterWorkflowWithOptions(moving, workflow.RegisterOptions{Name: "moving"})
	w.RegisterActivityWithOptions(executed.double, activity.RegisterOptions{Name: "double"})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	return w
}

// eachRun does something for each of n runs, at once.
func eachRun(t *testing.T, n int, do func(ctx context.Context, n int) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := do(ctx, i); err != nil {
				t.Errorf("run %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}
