// Command greet runs workflows on a Temporal server, each with an activity, a timer and a signal. It exits with an
// error if a workflow does not end as expected. It registers the namespace that it uses.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	namespace = "greetings"
	queue     = "greet"
	limit     = 5 * time.Minute
)

func main() {
	address := flag.String("address", "127.0.0.1:7233", "the server's frontend")
	count := flag.Int("count", 20, "workflows")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := run(ctx, *address, *count); err != nil {
		fmt.Fprintln(os.Stderr, "greet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address string, count int) error {
	options := client.Options{HostPort: address, Namespace: namespace,
		Logger: log.NewStructuredLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))}
	if err := register(ctx, options); err != nil {
		return err
	}
	c, err := client.DialContext(ctx, options)
	if err != nil {
		return err
	}
	defer c.Close()
	w := worker.New(c, queue, worker.Options{})
	w.RegisterWorkflow(greet)
	w.RegisterActivity(greeting)
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()
	began := time.Now()
	runs := make([]client.WorkflowRun, count)
	for i := range runs {
		runs[i], err = c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: fmt.Sprintf("greet-%d", i), TaskQueue: queue}, greet, fmt.Sprint(i))
		if err != nil {
			return err
		}
		if err := c.SignalWorkflow(ctx, runs[i].GetID(), runs[i].GetRunID(), "name", "moon"); err != nil {
			return err
		}
	}
	for i, run := range runs {
		var said string
		if err := run.Get(ctx, &said); err != nil {
			return err
		}
		if want := fmt.Sprintf("hello moon %d", i); said != want {
			return fmt.Errorf("workflow %d said %q, want %q", i, said, want)
		}
	}
	fmt.Printf("%d workflows, each with a signal, a timer and an activity, in %v\n", count, time.Since(began).Round(100*time.Millisecond))
	return nil
}

// register creates Temporal's namespace for greet, and waits until every service of Temporal knows it.
func register(ctx context.Context, options client.Options) error {
	c, err := client.NewNamespaceClient(options)
	if err != nil {
		return err
	}
	defer c.Close()
	var there *serviceerror.NamespaceAlreadyExists
	for ; ; time.Sleep(time.Second) {
		err := c.Register(ctx, &workflowservice.RegisterNamespaceRequest{Namespace: namespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour)})
		if err == nil || errors.As(err, &there) {
			break
		}
		if ctx.Err() != nil {
			return err
		}
	}
	for ; ; time.Sleep(time.Second) {
		if _, err := c.Describe(ctx, namespace); err == nil || ctx.Err() != nil {
			time.Sleep(12 * time.Second) // each service reads the namespaces every ten seconds
			return err
		}
	}
}

func greet(ctx workflow.Context, what string) (string, error) {
	var name, said string
	workflow.GetSignalChannel(ctx, "name").Receive(ctx, &name)
	if err := workflow.Sleep(ctx, time.Second); err != nil {
		return "", err
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	err := workflow.ExecuteActivity(ctx, greeting, name+" "+what).Get(ctx, &said)
	return said, err
}

func greeting(_ context.Context, whom string) (string, error) { return "hello " + whom, nil }
