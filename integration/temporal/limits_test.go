package temporal

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	seeded "math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-proxy/sluice/integration/harness"
)

var limits = flag.Bool("limits", false, "try what exceeds DSQL's limits, with Temporal's own limits below them and without")

// dynamicConfig has the settings that keep Temporal below DSQL's limits; docs/temporal.md
// shows all of it.
const dynamicConfig = "testdata/dynamic.yaml"

// logSettings prints the settings that a server on DSQL needs.
func logSettings(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(dynamicConfig)
	if err != nil {
		t.Fatal(err)
	}
	var settings []string
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), "#")
		if name = strings.TrimSpace(name); strings.HasPrefix(name, "- value: ") {
			settings[len(settings)-1] += " " + strings.TrimPrefix(name, "- value: ")
		} else if name != "" {
			settings = append(settings, name)
		}
	}
	t.Logf("settings that keep the server below DSQL's limits (docs/temporal.md): %s", strings.Join(settings, ", "))
}

// Without the settings of dynamicConfig a load that exceeds a limit of DSQL fails as often as
// Temporal tries it, and its shard is taken anew each time; with them Temporal says why it
// refuses, and neither 54000 nor a shard's move is seen.
func TestLimits(t *testing.T) {
	if !*limits {
		return
	}
	for _, without := range []bool{true, false} {
		t.Run(map[bool]string{true: "without the settings", false: "with the settings"}[without], func(t *testing.T) {
			d := deploy(t, setup{plugin: pgx5, unlimited: without})
			until(t, "all shards are taken", func() bool {
				return d.pg.SQL(t, "postgres", "SELECT count(*) FROM shards WHERE range_id > 0") == fmt.Sprint(shards)
			})
			w := worker.New(d.client.Client, queue, worker.Options{})
			w.RegisterWorkflowWithOptions(wide, workflow.RegisterOptions{Name: "wide"})
			if err := w.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(w.Stop)
			for _, load := range []struct {
				name string
				run  func(t *testing.T, d *deployment) string
				says string // with the settings
			}{
				{"a signal of 1.5 MB", largeSignal, "Blob data size exceeds limit"},
				{"a workflow task that schedules 1,600 activities", manyActivities, "WORKFLOW_TASK_FAILED_CAUSE_PENDING_ACTIVITIES_LIMIT_EXCEEDED"},
				{"a memo of 1.5 MB", largeMemo, "Memo size exceeds limit"},
				{"a workflow task with ten commands of 150 kB", largeTask, "transaction size of"},
				{"20 buffered signals of 75 kB", bufferedSignals, "completed"},
			} {
				told, moves := len(d.tap.with("54000")), d.moves(t)
				said := load.run(t, d)
				if without { // on a busy machine a load may take longer than it is watched
					until(t, "54000 is told", func() bool { return len(d.tap.with("54000")) > told })
				}
				told, moves = len(d.tap.with("54000"))-told, d.moves(t)-moves
				t.Logf("%s: 54000 told %d times, shards taken anew %d times; %.200s", load.name, told, moves, said)
				if !without && (told != 0 || moves != 0 || !strings.Contains(said, load.says)) {
					t.Errorf("%s: want %q, and neither of these", load.name, load.says)
				}
			}
		})
	}
}

// moves is how often shards were taken.
func (d *deployment) moves(t *testing.T) (n int) {
	t.Helper()
	_, err := fmt.Sscan(d.pg.SQL(t, "postgres", "SELECT COALESCE(sum(range_id), 0) FROM shards"), &n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// watched is how long a load is watched that does not come to an end.
const watched = 25 * time.Second

// random bytes cannot be compressed.
func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

func (d *deployment) startAt(ctx context.Context, id, queue, name string, args ...any) (client.WorkflowRun, error) {
	return d.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: queue}, name, args...)
}

// nobody polls this one.
const unattended = "unattended"

func largeSignal(t *testing.T, d *deployment) string {
	r, err := d.startAt(t.Context(), "large-signal", unattended, "none")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), watched)
	defer cancel()
	return saidBy(d.client.SignalWorkflow(ctx, r.GetID(), "", "large", random(1_500_000)))
}

func largeMemo(t *testing.T, d *deployment) string {
	ctx, cancel := context.WithTimeout(t.Context(), watched)
	defer cancel()
	_, err := d.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "memo", TaskQueue: unattended, Memo: map[string]any{"m": random(1_500_000)}}, "none")
	return saidBy(err)
}

func saidBy(err error) string {
	if err == nil {
		return "no error"
	}
	if refused := (*serviceerror.InvalidArgument)(nil); errors.As(err, &refused) {
		return "refused: " + refused.Message
	}
	return err.Error()
}

// wide schedules n activities at once, each with so many bytes of input.
func wide(ctx workflow.Context, n, bytes int) error {
	ctx = workflow.WithTaskQueue(withActivities(ctx), unattended)
	for i := range n {
		input := make([]byte, bytes)
		seeded.NewChaCha8([32]byte{byte(i)}).Read(input) // the same each time, as a workflow has to be
		workflow.ExecuteActivity(ctx, "none", input)
	}
	return workflow.Sleep(ctx, time.Hour)
}

func manyActivities(t *testing.T, d *deployment) string {
	return taskOf(t, d, "many-activities", 1600, 1)
}

func largeTask(t *testing.T, d *deployment) string { return taskOf(t, d, "large-task", 10, 150_000) }

// taskOf runs wide, and returns how its first workflow task, or the workflow, ended.
func taskOf(t *testing.T, d *deployment, id string, n, bytes int) (end string) {
	r, err := d.startAt(t.Context(), id, queue, "wide", n, bytes)
	if err != nil {
		t.Fatal(err)
	}
	patience := 2 * watched
	if d.server.site.dynamic != "" { // then it comes to an end
		patience = 3 * time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err = d.client.history(ctx, r, true, func(e *historypb.HistoryEvent) bool {
		switch e.EventType {
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED:
			failed := e.GetWorkflowTaskFailedEventAttributes()
			if failed.Cause == enumspb.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND {
				return true // the workflow is about to be terminated
			}
			end = "WORKFLOW_TASK_FAILED_CAUSE_" + strings.ToUpper(snake(failed.Cause.String())) + ": " + failed.GetFailure().GetMessage()
		case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
			terminated := e.GetWorkflowExecutionTerminatedEventAttributes()
			end = fmt.Sprintf("terminated: %s: %v", terminated.Reason, terminated.Details)
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
			end = "completed"
		}
		return end == ""
	})
	if end == "" {
		end = fmt.Sprint("no end: ", err)
	}
	// It must not be tried again while other loads are watched.
	ctx, cancel = context.WithTimeout(t.Context(), watched)
	defer cancel()
	if err := d.client.TerminateWorkflow(ctx, r.GetID(), r.GetRunID(), "tried"); err != nil {
		t.Logf("terminate: %v", err)
	}
	return end
}

// snake is a name of words that begin with capitals, with lines between them.
func snake(name string) string {
	var b strings.Builder
	for i, c := range name {
		if i > 0 && 'A' <= c && c <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// bufferedSignals come while a workflow task is under way, so that they are written with its end.
func bufferedSignals(t *testing.T, d *deployment) string {
	ctx, cancel := context.WithTimeout(t.Context(), 4*watched)
	defer cancel()
	const own = "buffered"
	r, err := d.startAt(ctx, "buffered", own, "none")
	if err != nil {
		t.Fatal(err)
	}
	task, err := d.client.WorkflowService().PollWorkflowTaskQueue(ctx, &workflowservice.PollWorkflowTaskQueueRequest{
		Namespace: namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: own}, Identity: "test",
	})
	if err != nil || len(task.TaskToken) == 0 {
		t.Fatalf("no task: %v", err)
	}
	for i := range 20 {
		if err := d.client.signal(ctx, r, fmt.Sprint(i), "buffered", 1); err != nil {
			return "a small signal: " + err.Error()
		}
		_, err := d.client.WorkflowService().SignalWorkflowExecution(ctx, &workflowservice.SignalWorkflowExecutionRequest{
			Namespace: namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: r.GetID()}, SignalName: "buffered", RequestId: fmt.Sprint("large ", i),
			Input: &commonpb.Payloads{Payloads: []*commonpb.Payload{{Data: random(75_000)}}},
		})
		if err != nil {
			return "a signal: " + err.Error()
		}
	}
	short, stop := context.WithTimeout(ctx, watched)
	defer stop()
	_, err = d.client.WorkflowService().RespondWorkflowTaskCompleted(short, &workflowservice.RespondWorkflowTaskCompletedRequest{
		Namespace: namespace, TaskToken: task.TaskToken, Identity: "test",
	})
	if gone := (*serviceerror.NotFound)(nil); err == nil || errors.As(err, &gone) {
		return fmt.Sprintf("completed, or ended before: %v", err)
	}
	return err.Error()
}

// An execution with more signals than rows fit into a transaction is not deleted, nor is a
// history of as many batches of events, and what docs/temporal.md says finds and cleans up
// both. That is tried with a tenth of the rows.
func TestLongHistoryIsLeftAndCleaned(t *testing.T) {
	if !*limits {
		return
	}
	const most = 300
	d := deploy(t, setup{plugin: pgx5, standIn: []string{"--limit", fmt.Sprintf("rows=%d", most)}, env: harness.Env{"DSQL_REWRITE_CHUNKED_DELETE": "history_node,signals_requested_sets"}})
	ctx := t.Context()
	r, err := d.startAt(ctx, "long", unattended, "none")
	if err != nil {
		t.Fatal(err)
	}
	for i := range most + 10 {
		if err := d.client.signal(ctx, r, fmt.Sprint(i), "s", i); err != nil {
			t.Fatal(err)
		}
	}
	rows := func(table, column string) string {
		return d.pg.SQL(t, "postgres", fmt.Sprintf("SELECT count(*) FROM %s WHERE %s = '%s'", table, column, strings.ReplaceAll(r.GetRunID(), "-", "")))
	}
	execution := func() string { return rows("executions", "run_id__byteahex") }
	nodes := func() string { return rows("history_node", "tree_id__byteahex") }
	before := nodes()
	if _, err := d.client.WorkflowService().DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: r.GetID(), RunId: r.GetRunID()},
	}); err != nil {
		t.Fatal(err)
	}
	until(t, "Temporal is told 54000 twice", func() bool { return len(d.tap.with("54000")) > 1 })
	if execution() != "1" {
		t.Errorf("the execution is gone")
	}
	moves := d.moves(t)
	ask := func(query string) string {
		return strings.TrimSpace(string(query1(t, d.pg, d.sluice.DSN("postgres"), strings.ReplaceAll(query, "2900", fmt.Sprint(most-10)))))
	}
	id := strings.Split(ask(manySignals), "|")
	if len(id) != 5 {
		t.Fatalf("%q is not one execution", id)
	}
	t.Logf("%s signals: %s", id[4], ask(fmt.Sprintf(deleteSignals, id[0], id[1], id[2], id[3])))
	until(t, "the execution is gone", func() bool { return execution() == "0" })
	until(t, "its history is found", func() bool { return ask(leftHistories) != "" })
	if after := nodes(); after < before {
		t.Errorf("%s batches of events, of which %s are left", before, after)
	}
	if id = strings.Split(ask(leftHistories), "|"); len(id) != 4 {
		t.Fatalf("%q is not one history", id)
	}
	t.Logf("%s batches of events: %s", id[3], ask(fmt.Sprintf(deleteHistory, id[0], id[1], id[2])))
	if n := nodes(); n != "0" {
		t.Errorf("%s batches of events are left", n)
	}
	t.Logf("54000 told %d times, shards taken anew %d times", len(d.tap.with("54000")), d.moves(t)-moves)
}

// These are the statements of docs/temporal.md.
const (
	manySignals = `SELECT shard_id, encode(namespace_id, 'hex'), workflow_id, encode(run_id, 'hex'), count(*) FROM signals_requested_sets
GROUP BY shard_id, namespace_id, workflow_id, run_id HAVING count(*) > 2900`
	deleteSignals = `DELETE FROM signals_requested_sets WHERE shard_id = %s AND namespace_id = '\x%s' AND workflow_id = '%s' AND run_id = '\x%s'`
	leftHistories = `SELECT shard_id, encode(tree_id, 'hex'), encode(branch_id, 'hex'), count(*) FROM history_node n
WHERE NOT EXISTS (SELECT FROM executions e WHERE e.shard_id = n.shard_id AND e.run_id = n.tree_id)
    AND (SELECT count(*) FROM history_tree t WHERE t.shard_id = n.shard_id AND t.tree_id = n.tree_id) < 2
GROUP BY shard_id, tree_id, branch_id HAVING count(*) > 2900`
	deleteHistory = `DELETE FROM history_node WHERE shard_id = %s AND tree_id = '\x%s' AND branch_id = '\x%s'`
)

// until waits for something.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still waiting until %s", what)
		}
	}
}

// What docs/temporal.md tells people to write is what is tried here.
func TestDocumentedLimits(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/temporal.md")
	if err != nil {
		t.Fatal(err)
	}
	settings, err := os.ReadFile(dynamicConfig)
	if err != nil {
		t.Fatal(err)
	}
	texts := append([]string{"```yaml\n" + string(settings) + "```\n", "```sql\n" + leftHistories + "\n```\n",
		"```sql\n" + fmt.Sprintf(deleteHistory, "1", "...", "...") + "\n```\n",
		"```sql\n" + manySignals + ";\n" + fmt.Sprintf(deleteSignals, "1", "...", "...", "...") + "\n```\n", notTaken, deleteMetadata}, dumpFlags...)
	for _, text := range texts {
		if !strings.Contains(string(page), text) {
			t.Errorf("docs/temporal.md does not have\n%s", text)
		}
	}
}
