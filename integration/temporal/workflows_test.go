package temporal

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// longForm is how many workflows make it the long form.
const longForm = 100

var workflows = flag.Int("workflows", 36, "how many workflows run; from 100 on one with a long history, both plugins in full, and visibility behind a second Sluice")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(pgtest.Main(m))
}

const namespace, queue = "orders", "orders"

// inFlight workflows run at a time: a shard makes one write after the other, and
// a start must not wait for longer than the SDK does (10 s), on a busy machine
// either.
const inFlight = 20

func TestWorkflowsWhileCommitsFail(t *testing.T) {
	few := *workflows
	if few < longForm {
		few = 12
	}
	for _, plugin := range []struct {
		name      string
		workflows int
	}{{pgx5, *workflows}, {libpq, few}} {
		t.Run(plugin.name, func(t *testing.T) {
			d := deploy(t, setup{plugin: plugin.name, faults: faults, visibility: *workflows >= longForm})
			executed := d.work(t)
			began := time.Now()
			d.runMix(t, executed, "", func(n int) (*kind, bool) { return mix(n, plugin.workflows), n < plugin.workflows })
			took := time.Since(began)
			executed.verify(t)
			d.verifyVisibility(t, plugin.workflows)
			t.Logf("%d workflows in %v", plugin.workflows, took.Round(time.Millisecond))
			if conflicts := report(t, d); conflicts == 0 {
				t.Error("there was no conflict: nothing has been tried")
			}
			d.verifyErrors(t, "40001")
		})
	}
}

// work starts a worker that has all kinds; it ends with the test.
func (d *deployment) work(t *testing.T) *executions {
	t.Helper()
	executed := &executions{times: map[attempt]int{}}
	w := worker.New(d.client.Client, queue, worker.Options{})
	for _, k := range kinds {
		w.RegisterWorkflowWithOptions(k.workflow, workflow.RegisterOptions{Name: k.name})
	}
	w.RegisterWorkflowWithOptions(double, workflow.RegisterOptions{Name: "double"}) // what doubling runs
	w.RegisterActivityWithOptions(executed.double, activity.RegisterOptions{Name: "double"})
	w.RegisterActivityWithOptions(executed.third, activity.RegisterOptions{Name: "third"})
	w.RegisterNexusService(d.createEndpoint(t))
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return executed
}

// mix is the kind of workflow n of as many: each in turn, and one of each that is long.
func mix(n, workflows int) *kind {
	all, short := kindsOf(true), kindsOf(false)
	if first := len(all); workflows >= longForm && n < first {
		return all[n]
	}
	return short[n%len(short)]
}

func kindsOf(long bool) (some []*kind) {
	for i := range kinds {
		if long || !kinds[i].long {
			some = append(some, &kinds[i])
		}
	}
	return some
}

// runMix runs workflow 0, 1 and so on, for as long as next has one, inFlight at a time,
// under IDs that begin with the prefix.
func (d *deployment) runMix(t *testing.T, executed *executions, prefix string, next func(n int) (*kind, bool)) {
	var last atomic.Int64
	var wg sync.WaitGroup
	for range inFlight {
		wg.Go(func() {
			for {
				n := int(last.Add(1)) - 1
				k, more := next(n)
				if !more {
					return
				}
				if err := k.run(t.Context(), d.client, executed, prefix, n); err != nil {
					t.Errorf("%s %d: %v", k.name, n, err)
				}
			}
		})
	}
	wg.Wait()
}

// run runs workflow n and looks at its result, its history and its activities.
func (k *kind) run(ctx context.Context, c *caller, executed *executions, prefix string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 6*time.Minute)
	defer cancel()
	id := fmt.Sprintf("%s%s-%d", prefix, strings.ReplaceAll(k.name, " ", "-"), n)
	start := k.start
	if start == nil {
		start = k.byName
	}
	r, err := start(ctx, c, id, n)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if k.drive != nil {
		if err := k.drive(ctx, c, r, n); err != nil {
			return err
		}
	}
	if err := k.verifyResult(ctx, c, r, n); err != nil {
		return err
	}
	if err := k.verifyHistory(ctx, c, r); err != nil {
		return err
	}
	// An attempt whose task or result was lost with a server is made up for by another.
	if attempts := executed.of(r.GetID(), r.GetRunID()); !c.patient && attempts != k.attempts {
		return fmt.Errorf("%d attempts of activities were executed, want %d", attempts, k.attempts)
	}
	return nil
}

func (k *kind) byName(ctx context.Context, c *caller, id string, n int) (r client.WorkflowRun, err error) {
	err = c.insist(ctx, func() error {
		r, err = c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: id, TaskQueue: queue, WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		}, k.name, n)
		return err
	})
	return r, err
}

func (k *kind) verifyResult(ctx context.Context, c *caller, r client.WorkflowRun, n int) error {
	var got int
	err := c.insist(ctx, func() error { return r.Get(ctx, &got) })
	if k.want == nil {
		if cancelled := (*temporal.CanceledError)(nil); !errors.As(err, &cancelled) {
			return fmt.Errorf("it ended with %v, want it cancelled", err)
		}
		return nil
	}
	if err != nil || got != k.want(n) {
		return fmt.Errorf("the result is %d, %w, want %d", got, err, k.want(n))
	}
	return nil
}

// ends are the events with which a run closes.
var ends = []enumspb.EventType{
	enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
	enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
}

// verifyHistory that the last run closed once, and that it has the events it
// should have, without a gap.
func (k *kind) verifyHistory(ctx context.Context, c *caller, r client.WorkflowRun) error {
	types := events{}
	closed, last, gap := 0, int64(0), int64(0)
	err := c.history(ctx, r, false, func(event *historypb.HistoryEvent) bool {
		if event.EventId == 1 { // also where it is read again
			types, closed, last = events{}, 0, 0
		}
		if last++; event.EventId != last {
			gap = last
		}
		types[event.EventType]++
		if slices.Contains(ends, event.EventType) {
			closed++
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	if closed != 1 || gap != 0 || last < k.length {
		return fmt.Errorf("the history has %d events, %d of which close it, and a gap at %d; want one, and %d events", last, closed, gap, k.length)
	}
	for kind, want := range k.events {
		if types[kind] != want {
			return fmt.Errorf("the history has %d of %v, want %d", types[kind], kind, want)
		}
	}
	return nil
}

// verifyVisibility waits until the workflows that were started by hand, and no
// others, are listed as closed: that record is made by a task of its own, which
// must not be lost.
func (d *deployment) verifyVisibility(t *testing.T, workflows int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	want := map[string]int64{}
	for n := range workflows {
		want[mix(n, workflows).name]++
	}
	for _, k := range kindsOf(workflows >= longForm) {
		if k.name == "activity" { // the parents' children, too
			want[k.name] += 2 * want["child"]
		}
		d.verifyListed(ctx, t, k, want[k.name])
	}
}

func (d *deployment) verifyListed(ctx context.Context, t *testing.T, k *kind, want int64) {
	t.Helper()
	status := "Completed"
	if k.want == nil {
		status = "Canceled"
	}
	byType := fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus != 'ContinuedAsNew'", k.name)
	for {
		listed, err := count(ctx, d.client, byType)
		closed, again := count(ctx, d.client, fmt.Sprintf("%s AND ExecutionStatus = '%s'", byType, status))
		if listed == want && closed == want {
			return
		}
		select {
		case <-ctx.Done():
			t.Errorf("%s: %d workflows are listed, %d as %s, want %d; %v", k.name, listed, closed, status, want, errors.Join(err, again))
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func count(ctx context.Context, c client.Client, query string) (int64, error) {
	answer, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: query})
	return answer.GetCount(), err
}
