package temporal

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
)

// caller is a client of the server that can be patient: it asks again for as long
// as the server is out of reach, which the SDK does for 10 s. What it asks can be
// asked twice: the server tells by IDs that it is the same.
type caller struct {
	client.Client
	patient bool
	again   atomic.Int64 // how often it asked again
}

func (c *caller) insist(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil || !c.patient || !passing(err) {
			return err
		}
		c.again.Add(1)
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// passing says that an error tells of the server's state and not of the request.
func passing(err error) bool {
	var (
		unavailable *serviceerror.Unavailable
		exhausted   *serviceerror.ResourceExhausted
		late        *serviceerror.DeadlineExceeded
		notReady    *serviceerror.WorkflowNotReady // its last task failed, and another comes
		update      *client.WorkflowUpdateServiceTimeoutOrCanceledError
		unseen      *serviceerror.FailedPrecondition // no poller was seen for as long as an outage lasts
	)
	if errors.As(err, &unseen) && strings.Contains(err.Error(), "no poller seen") {
		return true
	}
	return errors.As(err, &unavailable) || errors.As(err, &exhausted) || errors.As(err, &late) || errors.As(err, &notReady) || errors.As(err, &update) || errors.Is(err, context.DeadlineExceeded)
}

// signal sends one under an ID of the caller's: the SDK makes a new one for each call.
func (c *caller) signal(ctx context.Context, r client.WorkflowRun, id, name string, arg int) error {
	input, err := converter.GetDefaultDataConverter().ToPayloads(arg)
	if err != nil {
		return err
	}
	return c.insist(ctx, func() error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		_, err := c.WorkflowService().SignalWorkflowExecution(ctx, &workflowservice.SignalWorkflowExecutionRequest{
			Namespace: namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: r.GetID(), RunId: r.GetRunID()},
			SignalName: name, Input: input, RequestId: r.GetRunID() + " " + id,
		})
		return err
	})
}

// history shows the events of the last run to see, from the first, until it says
// no; wait for those to come, if told so.
func (c *caller) history(ctx context.Context, r client.WorkflowRun, wait bool, see func(*historypb.HistoryEvent) bool) error {
	return c.insist(ctx, func() error {
		events := c.GetWorkflowHistory(ctx, r.GetID(), "", wait, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event, err := events.Next()
			if err != nil {
				return err
			}
			if !see(event) {
				return nil
			}
		}
		return nil
	})
}
