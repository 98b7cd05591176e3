package temporal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nexus-rpc/sdk-go/nexus"
	nexuspb "go.temporal.io/api/nexus/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/temporalnexus"
	"go.temporal.io/sdk/workflow"
)

// executions counts those of activities, by workflow, run, activity and attempt.
type executions struct {
	mu    sync.Mutex
	times map[attempt]int
}

type attempt struct {
	workflow, run, activity string
	number                  int32
}

func (e *executions) note(ctx context.Context) {
	info := activity.GetInfo(ctx)
	if info.IsLocalActivity {
		return // a workflow task that is done again may do it again
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.times[attempt{info.WorkflowExecution.ID, info.WorkflowExecution.RunID, info.ActivityID, info.Attempt}]++
}

func (e *executions) double(ctx context.Context, n int) (int, error) {
	e.note(ctx)
	return 2 * n, nil
}

// third succeeds at its third attempt.
func (e *executions) third(ctx context.Context, n int) (int, error) {
	e.note(ctx)
	if number := activity.GetInfo(ctx).Attempt; number < 3 {
		// Of a category that the SDK does not log.
		return 0, temporal.NewApplicationErrorWithOptions(fmt.Sprintf("attempt %d fails", number), "", temporal.ApplicationErrorOptions{Category: temporal.ApplicationErrorCategoryBenign})
	}
	return n + 3, nil
}

// verify that no attempt was executed twice.
func (e *executions) verify(t *testing.T) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	for a, times := range e.times {
		if times != 1 {
			t.Errorf("%+v was executed %d times", a, times)
		}
	}
}

// of counts the attempts of a workflow and its children.
func (e *executions) of(id, run string) (attempts int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for a := range e.times {
		if a.workflow == id || strings.HasPrefix(a.workflow, run+"_") {
			attempts++
		}
	}
	return attempts
}

func retried(ctx workflow.Context, n int) (result int, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: lost(), RetryPolicy: &temporal.RetryPolicy{InitialInterval: 10 * time.Millisecond},
	})
	err = workflow.ExecuteActivity(ctx, "third", n).Get(ctx, &result)
	return result, err
}

func local(ctx workflow.Context, n int) (result int, err error) {
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute})
	err = workflow.ExecuteLocalActivity(ctx, "double", n).Get(ctx, &result)
	return result, err
}

// longHistory makes one of 2,000 events.
func longHistory(ctx workflow.Context, n int) (result int, err error) {
	ctx = withActivities(ctx)
	for range rounds {
		var round []workflow.Future
		for range width {
			round = append(round, workflow.ExecuteActivity(ctx, "double", n))
		}
		for _, future := range round {
			if err := future.Get(ctx, &result); err != nil {
				return 0, err
			}
		}
	}
	return result, nil
}

// schedule has the server start the workflow, and takes the schedule away again.
func schedule(ctx context.Context, c *caller, id string, n int) (r client.WorkflowRun, err error) {
	h := c.ScheduleClient().GetHandle(ctx, id)
	err = c.insist(ctx, func() error {
		_, err := c.ScheduleClient().Create(ctx, client.ScheduleOptions{
			ID: id, TriggerImmediately: true,
			Action: &client.ScheduleWorkflowAction{ID: id, Workflow: "schedule", Args: []any{n}, TaskQueue: queue},
		})
		if c.patient && errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
			return nil // an earlier try has made it
		}
		return err
	})
	for err == nil && r == nil {
		err = c.insist(ctx, func() error {
			d, err := h.Describe(ctx)
			if err == nil && len(d.Info.RecentActions) > 0 {
				started := d.Info.RecentActions[0].StartWorkflowResult
				r = c.GetWorkflow(ctx, started.WorkflowID, started.FirstExecutionRunID)
			}
			return err
		})
		select {
		case <-ctx.Done():
			err = errors.Join(err, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
	if err != nil {
		return nil, err
	}
	return r, c.insist(ctx, func() error {
		err := h.Delete(ctx)
		if gone := (*serviceerror.NotFound)(nil); c.patient && errors.As(err, &gone) {
			return nil
		}
		return err
	})
}

// endpoint leads to the test's own worker.
const endpoint = "orders"

var (
	// echo answers at once, and doubling is a workflow.
	echo     = nexus.NewSyncOperation("echo", func(_ context.Context, n int, _ nexus.StartOperationOptions) (int, error) { return n, nil })
	doubling = temporalnexus.NewWorkflowRunOperation("doubling", double, func(_ context.Context, n int, o nexus.StartOperationOptions) (client.StartWorkflowOptions, error) {
		return client.StartWorkflowOptions{ID: o.RequestID}, nil
	})
)

// overNexus is the sum of two operations.
func overNexus(ctx workflow.Context, n int) (int, error) {
	c := workflow.NewNexusClient(endpoint, "numbers")
	sum := 0
	for _, operation := range []any{echo, doubling} {
		var result int
		if err := c.ExecuteOperation(ctx, operation, n, workflow.NexusOperationOptions{}).Get(ctx, &result); err != nil {
			return 0, err
		}
		sum += result
	}
	return sum, nil
}

func (d *deployment) createEndpoint(t *testing.T) *nexus.Service {
	t.Helper()
	_, err := d.client.OperatorService().CreateNexusEndpoint(t.Context(), &operatorservice.CreateNexusEndpointRequest{Spec: &nexuspb.EndpointSpec{
		Name: endpoint,
		Target: &nexuspb.EndpointTarget{Variant: &nexuspb.EndpointTarget_Worker_{
			Worker: &nexuspb.EndpointTarget_Worker{Namespace: namespace, TaskQueue: queue},
		}},
	}})
	if err != nil {
		t.Fatalf("create a Nexus endpoint: %v", err)
	}
	service := nexus.NewService("numbers")
	if err := service.Register(echo, doubling); err != nil {
		t.Fatal(err)
	}
	return service
}
