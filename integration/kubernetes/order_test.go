package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/kubernetes/event"
)

// values are the chart's for an injector whose sidecars use the stand-in.
func values(t *testing.T, more map[string]any, config ...map[string]any) string {
	t.Helper()
	keys := map[string]any{
		"backend.endpoint": world.sim.Endpoint, "backend.address": nodeAddress, "backend.port": simPort,
		"credentials.require": "container", "reservoir.max_open": 8,
	}
	for _, c := range config {
		maps.Copy(keys, c)
	}
	all := map[string]any{
		"image":  map[string]any{"repository": "localhost/sluice", "tag": "e2e"},
		"config": keys,
	}
	maps.Copy(all, more)
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, string(text))
}

// installInjector installs the chart with its injector, as docs/kubernetes.md says. It goes with the test.
func installInjector(t *testing.T) {
	t.Helper()
	began := time.Now()
	helm(t, "install", "sluice", chart, "-n", "sluice-system", "--create-namespace", "--wait",
		"-f", values(t, map[string]any{"injector": map[string]any{"enabled": true}}))
	t.Logf("helm install took %v", time.Since(began).Round(100*time.Millisecond))
	t.Cleanup(func() { uninstall(t) })
}

// newTable makes an empty ledger, by a Job with a sidecar.
func newTable(t *testing.T, namespace string) {
	t.Helper()
	ask(t, "DROP TABLE IF EXISTS ledger")
	runJob(t, namespace, "create", ledger("-mode=create"))
}

// runJob runs a Job until it is complete.
func runJob(t *testing.T, namespace, name, container string) {
	t.Helper()
	apply(t, namespace, fmt.Sprintf(`{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": %q},
"spec": {"backoffLimit": 0, "template": {"metadata": {"labels": {"job": %q}}, "spec": {"restartPolicy": "Never", "containers": [%s]}}}}`, name, name, container))
	kubectl(t, "", "-n", namespace, "wait", "--for=condition=complete", "--timeout=90s", "job/"+name)
}

// TestSidecar is what Kubernetes does with the injected container.
func TestSidecar(t *testing.T) {
	installInjector(t)
	newNamespace(t, "sidecar", "sluice.dev/injection=enabled", "pod-security.kubernetes.io/enforce=restricted")
	newTable(t, "sidecar")
	t.Run("job", testJob)
	t.Run("order", testOrder)
	t.Run("overrun", testOverrun)
	t.Run("prometheus", testPrometheus)
}

// testJob: a Job with a sidecar ends, and so does the sidecar.
func testJob(t *testing.T) {
	runJob(t, "sidecar", "rows", ledger("-mode=job", "-count=20"))
	pod := items(t, "sidecar", "pods", "-l", "job=rows")[0]
	if phase := at(pod, "status", "phase"); phase != "Succeeded" {
		t.Errorf("its pod is %v", phase)
	}
	if code := at(pod, "status", "initContainerStatuses", 0, "state", "terminated", "exitCode"); code != float64(0) {
		t.Errorf("its sidecar ended with %v", code)
	}
	if rows := ask(t, "SELECT count(*), count(DISTINCT n) FROM ledger WHERE writer LIKE 'rows%'"); fmt.Sprint(rows) != "[[20 20]]" {
		t.Errorf("%v rows, want 20", rows)
	}
	if world.aws.asked.Load() == 0 {
		t.Error("nobody asked EKS' agent for credentials")
	}
	t.Logf("a Job of 20 transactions is complete; its sidecar ended with 0")
}

// bare is a pod of one container, without a Deployment.
func bare(name string, grace int, container string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q}, "spec": {"terminationGracePeriodSeconds": %d, "containers": [%s]}}`, name, grace, container)
}

// testOrder: the application starts when Sluice takes its connections, and Sluice gets
// SIGTERM when the application has ended, after what that still had to do.
func testOrder(t *testing.T) {
	apply(t, "sidecar", bare("order", 30, ledger("-workers=3", "-linger=5s")))
	waitFor(t, "order", event.Acknowledged, 50)
	status := object(t, "sidecar", "pod", "order")
	deleted := time.Now()
	kubectl(t, "", "-n", "sidecar", "delete", "pod", "order", "--wait=false")
	log := lastLog(t, "sidecar", "order")
	events := world.ledger.Events("order")
	var terminated, ended time.Time
	after := 0
	for _, e := range events {
		switch e.Kind {
		case event.NoConnection, event.Failed:
			t.Errorf("%+v", e)
		case event.Terminated:
			terminated = e.At
		case event.Acknowledged:
			if !terminated.IsZero() {
				after++
			}
		case event.End:
			ended = e.At
		}
	}
	if events[0].Kind != event.Start || events[1].Kind != event.Connected {
		t.Errorf("it began with %+v", events[:2])
	}
	if after < 50 || ended.IsZero() {
		t.Fatalf("%d transactions behind SIGTERM, the end at %v", after, ended)
	}
	sluice := timeOf(t, log, "msg=draining")
	if sluice.Before(ended) {
		t.Errorf("Sluice got SIGTERM at %v, the application ended at %v", sluice, ended)
	}
	t.Logf("started: sidecar %v, application %v", at(status, "status", "initContainerStatuses", 0, "state", "running", "startedAt"),
		at(status, "status", "containerStatuses", 0, "state", "running", "startedAt"))
	t.Logf("deleted; the application's SIGTERM %+.2f s, %d more transactions, its end %+.2f s; Sluice's SIGTERM %+.2f s, its last line %+.2f s",
		terminated.Sub(deleted).Seconds(), after, ended.Sub(deleted).Seconds(), sluice.Sub(deleted).Seconds(), timeOf(t, log, "").Sub(deleted).Seconds())
}

// testOverrun: an application that ignores SIGTERM uses up the pod's time, and leaves no
// transaction open at the server.
func testOverrun(t *testing.T) {
	const grace = 5
	apply(t, "sidecar", bare("overrun", grace, ledger("-mode=hold")))
	waitFor(t, "overrun", event.Holding, 1)
	open := func() string {
		return ask(t, "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND xact_start < now() - interval '500 ms'")[0][0]
	}
	time.Sleep(time.Second)
	if n := open(); n != "1" {
		t.Fatalf("%s transactions are open at the server, want 1", n)
	}
	deleted := time.Now()
	kubectl(t, "", "-n", "sidecar", "delete", "pod", "overrun", "--wait=false")
	for open() != "0" {
		if time.Since(deleted) > (grace+10)*time.Second {
			t.Fatal("the transaction is still open")
		}
		time.Sleep(20 * time.Millisecond)
	}
	took := time.Since(deleted)
	if took < grace*time.Second-500*time.Millisecond || took > (grace+2)*time.Second {
		t.Errorf("the transaction ended %v after the pod was deleted, with %d s of grace", took, grace)
	}
	log := lastLog(t, "sidecar", "overrun")
	if rows := ask(t, "SELECT count(*) FROM ledger WHERE writer LIKE 'overrun%'"); rows[0][0] != "0" {
		t.Errorf("%s rows of it, want none", rows[0][0])
	}
	t.Logf("grace %d s: deleted, the transaction is gone from the server at %+.2f s; Sluice's SIGTERM %+.2f s, its last line %+.2f s",
		grace, took.Seconds(), timeOf(t, log, "msg=draining").Sub(deleted).Seconds(), timeOf(t, log, "").Sub(deleted).Seconds())
}

// waitFor waits for events of pods.
func waitFor(t *testing.T, prefix, kind string, count int) {
	t.Helper()
	eventually(t, prefix, func() string {
		n := 0
		for _, e := range world.ledger.Events(prefix) {
			if e.Kind == kind {
				n++
			}
		}
		if n >= count {
			return ""
		}
		return fmt.Sprintf("%d events %q, want %d", n, kind, count)
	})
}

// lastLog is all that Sluice prints in a pod until that is gone.
func lastLog(t *testing.T, namespace, pod string) string {
	t.Helper()
	log := ""
	eventually(t, pod+" is to end", func() string {
		if now, err := world.Logs(namespace, pod, "sluice"); err == nil && len(now) >= len(log) {
			log = now
		}
		if _, err := tryKubectl(t, "", "-n", namespace, "get", "pod", pod); err != nil && strings.Contains(err.Error(), "NotFound") {
			return ""
		}
		return "it is there"
	})
	return log
}

// timeOf is when the first line with a text was printed; the last line for no text.
func timeOf(t *testing.T, log, text string) time.Time {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(log), "\n")
	line := lines[len(lines)-1]
	if text != "" {
		line = ""
		for _, each := range lines {
			if strings.Contains(each, text) {
				line = each
				break
			}
		}
	}
	stamp, _, _ := strings.Cut(line, " ")
	when, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		t.Fatalf("%v; no line with %q in\n%s", err, text, last(log, 2000))
	}
	return when
}
