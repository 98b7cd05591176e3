package temporal

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"
)

// kind is a kind of workflow: all take a number, and most return one.
type kind struct {
	name     string
	workflow func(ctx workflow.Context, n int) (int, error)
	// drive does what the run needs from outside, and start begins it where that is
	// not a start of the workflow by its name.
	drive func(ctx context.Context, c *caller, r client.WorkflowRun, n int) error
	start func(ctx context.Context, c *caller, id string, n int) (client.WorkflowRun, error)
	want  func(n int) int // the result; nil of one that ends as cancelled
	// events are how many of some types the history of the last run has.
	events events
	// attempts of activities that a workflow and its children have.
	attempts int
	// length is the least number of events of the history, and long says that the kind
	// is for the long form only.
	length int64
	long   bool
}

type events map[enumspb.EventType]int

// rounds and width of the activities in a history of 2,000 events: each makes
// three, and each workflow task three more.
const rounds, width = 22, 30

var kinds = []kind{
	{name: "activity", workflow: double, want: doubled, attempts: 1,
		events: events{enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED: 1}},
	{name: "timer", workflow: timers, want: same,
		events: events{enumspb.EVENT_TYPE_TIMER_FIRED: 3, enumspb.EVENT_TYPE_TIMER_CANCELED: 1}},
	{name: "signal", workflow: sumOfSignals, drive: sendSignals, want: func(n int) int { return 3*n + 3 },
		events: events{enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED: 3}},
	{name: "update", workflow: updated, drive: sendUpdates, want: func(n int) int { return n + 30 },
		events: events{enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED: 2, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED: 2}},
	{name: "query", workflow: queried, drive: ask, want: same,
		events: events{enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED: 1}},
	{name: "child", workflow: parent, want: func(n int) int { return 4 * n }, attempts: 2,
		events: events{enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED: 2}},
	{name: "continue-as-new", workflow: again, want: func(n int) int { return n - n%10 + 10 },
		events: events{enumspb.EVENT_TYPE_TIMER_FIRED: 1}},
	{name: "cancellation", workflow: cancelled, drive: cancel, attempts: 1,
		events: events{enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED: 1, enumspb.EVENT_TYPE_TIMER_CANCELED: 1, enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED: 1}},
	{name: "retry", workflow: retried, want: func(n int) int { return n + 3 }, attempts: 3,
		events: events{enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED: 1, enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED: 1}},
	{name: "local activity", workflow: local, want: doubled,
		events: events{enumspb.EVENT_TYPE_MARKER_RECORDED: 1, enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED: 0}},
	{name: "schedule", workflow: double, start: schedule, want: doubled, attempts: 1,
		events: events{enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED: 1}},
	{name: "nexus", workflow: overNexus, want: func(n int) int { return 3 * n }, // the attempt is of the operation's workflow
		events: events{enumspb.EVENT_TYPE_NEXUS_OPERATION_STARTED: 1, enumspb.EVENT_TYPE_NEXUS_OPERATION_COMPLETED: 2}},
	{name: "long history", workflow: longHistory, want: doubled, attempts: rounds * width, length: 2000, long: true,
		events: events{enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED: rounds * width}},
}

func doubled(n int) int { return 2 * n }
func same(n int) int    { return n }

// lost is when an attempt whose task or result was lost is made up for by another. In
// calm none is.
func lost() time.Duration {
	if *chaos > 0 || *moves > 0 {
		return 10 * time.Second
	}
	return time.Minute
}

func withActivities(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: lost()})
}

// double has n doubled by an activity.
func double(ctx workflow.Context, n int) (result int, err error) {
	err = workflow.ExecuteActivity(withActivities(ctx), "double", n).Get(ctx, &result)
	return result, err
}

// timers waits for three at a time, and gives up a fourth.
func timers(ctx workflow.Context, n int) (int, error) {
	never, giveUp := workflow.WithCancel(ctx)
	fourth := workflow.NewTimer(never, time.Hour)
	var all []workflow.Future
	for range 3 {
		all = append(all, workflow.NewTimer(ctx, 100*time.Millisecond))
	}
	for _, timer := range all {
		if err := timer.Get(ctx, nil); err != nil {
			return 0, err
		}
	}
	giveUp()
	if err := fourth.Get(ctx, nil); err == nil {
		return 0, errors.New("a timer fired that was cancelled")
	}
	return n, nil
}

func sumOfSignals(ctx workflow.Context, _ int) (sum int, err error) {
	for range 3 {
		var add int
		workflow.GetSignalChannel(ctx, "add").Receive(ctx, &add)
		sum += add
	}
	return sum, nil
}

func sendSignals(ctx context.Context, c *caller, r client.WorkflowRun, n int) error {
	for i := range 3 {
		if err := c.signal(ctx, r, fmt.Sprint("signal ", i), "add", n+i); err != nil {
			return err
		}
	}
	return nil
}

// updated ends after two updates, each of which is answered with the sum so far.
func updated(ctx workflow.Context, n int) (int, error) {
	updates := 0
	err := workflow.SetUpdateHandler(ctx, "add", func(_ workflow.Context, add int) (int, error) {
		n, updates = n+add, updates+1
		return n, nil
	})
	if err != nil {
		return 0, err
	}
	err = workflow.Await(ctx, func() bool { return updates == 2 && workflow.AllHandlersFinished(ctx) })
	return n, err
}

func sendUpdates(ctx context.Context, c *caller, r client.WorkflowRun, n int) error {
	for i := 1; i <= 2; i++ {
		n += 10 * i
		var sum int
		err := c.insist(ctx, func() error {
			h, err := c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
				WorkflowID: r.GetID(), RunID: r.GetRunID(), UpdateID: fmt.Sprint(i),
				UpdateName: "add", Args: []any{10 * i}, WaitForStage: client.WorkflowUpdateStageCompleted,
			})
			if err != nil {
				return err
			}
			return h.Get(ctx, &sum)
		})
		if err != nil || sum != n {
			return fmt.Errorf("update %d: %d, %w, want %d", i, sum, err, n)
		}
	}
	return nil
}

// queried tells its state, which a signal changes.
func queried(ctx workflow.Context, n int) (int, error) {
	state := fmt.Sprint("waits ", n)
	if err := workflow.SetQueryHandler(ctx, "state", func() (string, error) { return state, nil }); err != nil {
		return 0, err
	}
	workflow.GetSignalChannel(ctx, "end").Receive(ctx, nil)
	state = fmt.Sprint("ended ", n)
	return n, nil
}

func ask(ctx context.Context, c *caller, r client.WorkflowRun, n int) error {
	answers := func(want string) error {
		var state string
		err := c.insist(ctx, func() error {
			value, err := c.QueryWorkflow(ctx, r.GetID(), r.GetRunID(), "state")
			if err != nil {
				return err
			}
			return value.Get(&state)
		})
		if err != nil || state != want {
			return fmt.Errorf("the query's answer is %q, %w, want %q", state, err, want)
		}
		return nil
	}
	if err := answers(fmt.Sprint("waits ", n)); err != nil {
		return err
	}
	if err := c.signal(ctx, r, "the end", "end", n); err != nil {
		return err
	}
	if err := c.insist(ctx, func() error { return r.Get(ctx, nil) }); err != nil {
		return err
	}
	return answers(fmt.Sprint("ended ", n)) // by its history: it has closed
}

// parent is the sum of two children.
func parent(ctx workflow.Context, n int) (sum int, err error) {
	var children []workflow.ChildWorkflowFuture
	for range 2 {
		children = append(children, workflow.ExecuteChildWorkflow(ctx, "activity", n))
	}
	for _, child := range children {
		var result int
		if err := child.Get(ctx, &result); err != nil {
			return 0, err
		}
		sum += result
	}
	return sum, nil
}

// again goes on as another run until n is a number of tens.
func again(ctx workflow.Context, n int) (int, error) {
	if err := workflow.Sleep(ctx, time.Millisecond); err != nil {
		return 0, err
	}
	if n++; n%10 != 0 {
		return 0, workflow.NewContinueAsNewError(ctx, "continue-as-new", n)
	}
	return n, nil
}

// cancelled waits to be, and cleans up.
func cancelled(ctx workflow.Context, n int) (int, error) {
	err := workflow.Sleep(ctx, time.Hour)
	if ctx.Err() == nil {
		return 0, fmt.Errorf("it was not cancelled: %v", err)
	}
	after, end := workflow.NewDisconnectedContext(ctx)
	defer end()
	if _, err := double(after, n); err != nil {
		return 0, err
	}
	return 0, ctx.Err()
}

func cancel(ctx context.Context, c *caller, r client.WorkflowRun, _ int) error {
	started := false // its timer, behind its first task
	for !started {
		err := c.history(ctx, r, true, func(e *historypb.HistoryEvent) bool {
			started = e.EventType == enumspb.EVENT_TYPE_TIMER_STARTED
			return !started
		})
		if err != nil {
			return err
		}
	}
	return c.insist(ctx, func() error { return c.CancelWorkflow(ctx, r.GetID(), r.GetRunID()) })
}
