package temporal

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

var workflows = flag.Int("workflows", 10, "how many workflows run")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(pgtest.Main(m, pgtest.MaxConnections(150)))
}

const namespace, queue = "orders", "orders"

// inFlight workflows run at a time: a shard makes one write after the other, and
// a start must not wait for longer than the SDK does (10 s), on a busy machine
// either.
const inFlight = 20

// double is the workflow: n doubled by an activity.
func double(ctx workflow.Context, n int) (doubled int, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	err = workflow.ExecuteActivity(ctx, "double", n).Get(ctx, &doubled)
	return doubled, err
}

// executions counts those of the activity, by its argument.
type executions struct {
	mu    sync.Mutex
	times map[int]int
}

func (e *executions) double(_ context.Context, n int) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.times[n]++
	return 2 * n, nil
}

// faults fail one in twenty COMMITs, and one in twenty of the writes that Temporal
// sends in autocommit: there the commit is part of the statement.
const faults = `[
	{"at": "commit", "action": "fail", "error": "conflict", "probability": 0.05, "seed": 1},
	{"at": "statement", "verb": "INSERT", "contains": "INTO history_node", "action": "fail", "error": "conflict", "probability": 0.05, "seed": 2}
]`

// verify that each activity ran once.
func (e *executions) verify(t *testing.T) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	for n := range *workflows {
		if e.times[n] != 1 {
			t.Errorf("the activity of workflow %d ran %d times", n, e.times[n])
		}
	}
}

func TestWorkflowsWhileCommitsFail(t *testing.T) {
	temporal := build(t)
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Upstream: pgtest.Shared(t), Args: []string{"--allow-bytea-keys"}})
	sluice := harness.StartSluice(t, harness.SluiceConfig{Env: sim.Env().With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "40"})})
	setUpSchema(t, temporal.schemaTool, sluice.Host, sluice.Port)
	sim.Admin(t, http.MethodPost, "/faults", faults)
	tap := startTap(t, fmt.Sprintf("%s:%d", sluice.Host, sluice.Port))
	server := startServer(t, temporal.server, tap.address())
	registerNamespace(t, server)

	c := server.client(t, namespace)
	executed := executions{times: map[int]int{}}
	w := worker.New(c, queue, worker.Options{})
	w.RegisterWorkflowWithOptions(double, workflow.RegisterOptions{Name: "double"})
	w.RegisterActivityWithOptions(executed.double, activity.RegisterOptions{Name: "double"})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()

	began := time.Now()
	numbers := make(chan int)
	var wg sync.WaitGroup
	for range inFlight {
		wg.Go(func() {
			for n := range numbers {
				run(t, c, n)
			}
		})
	}
	for n := range *workflows {
		numbers <- n
	}
	close(numbers)
	wg.Wait()
	took := time.Since(began)
	executed.verify(t)
	verifyVisibility(t, c)
	t.Logf("%d workflows with an activity each, in %v", *workflows, took.Round(time.Millisecond))
	if conflicts := report(t, sim, sluice, tap, server); conflicts == 0 {
		t.Error("there was no conflict: nothing has been tried")
	}
	for _, e := range tap.all() {
		if e.sqlState != "40001" {
			t.Errorf("Temporal was told %v", e)
		}
	}
}

func registerNamespace(t *testing.T, s *server) {
	t.Helper()
	c, err := client.NewNamespaceClient(client.Options{HostPort: s.frontend, Logger: quiet{t}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = c.Register(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: namespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	if err != nil {
		t.Fatalf("register a namespace: %v", err)
	}
}

// run runs workflow n and looks at its result and its history.
func run(t *testing.T, c client.Client, n int) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	id := fmt.Sprintf("order-%d", n)
	r, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: queue}, "double", n)
	if err != nil {
		t.Errorf("%s: start: %v", id, err)
		return
	}
	var doubled int
	if err := r.Get(ctx, &doubled); err != nil || doubled != 2*n {
		t.Errorf("%s: %d, %v, want %d", id, doubled, err, 2*n)
		return
	}
	completed := 0
	history := c.GetWorkflowHistory(ctx, id, r.GetRunID(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		event, err := history.Next()
		if err != nil {
			t.Errorf("%s: history: %v", id, err)
			return
		}
		if event.EventType == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED {
			completed++
		}
	}
	if completed != 1 {
		t.Errorf("%s completed %d times", id, completed)
	}
}

// verifyVisibility waits until the workflows, and no others, are listed as
// completed: that record is made by a task of its own, which must not be lost.
func verifyVisibility(t *testing.T, c client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		started, err := count(ctx, c, "WorkflowType = 'double'")
		completed, again := count(ctx, c, "WorkflowType = 'double' AND ExecutionStatus = 'Completed'")
		if started == int64(*workflows) && completed == started {
			return
		}
		select {
		case <-ctx.Done():
			t.Errorf("%d workflows are listed, %d as completed, want %d; %v", started, completed, *workflows, errors.Join(err, again))
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func count(ctx context.Context, c client.Client, query string) (int64, error) {
	answer, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: query})
	return answer.GetCount(), err
}
