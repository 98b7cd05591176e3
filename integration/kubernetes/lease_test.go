package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/kubernetes/event"
)

// The cluster's limit in TestLease: each of three replicas would take 10 connections, of six
// during a rollout as many.
const (
	connLimit  = 16
	connMargin = 2
)

// TestLease: three replicas share a table of leases, and never have more connections than
// the limit allows, also while a rollout doubles them.
func TestLease(t *testing.T) {
	config := map[string]any{
		"distributed.conn_lease_table": "sluice", "distributed.conn_limit": connLimit, "distributed.conn_margin": connMargin,
		"distributed.conn_shards": 1, "distributed.heartbeat": "1s",
	}
	t.Log(lease(t, "init", config))
	all := map[string]any{"reservoir.max_open": 10}
	maps.Copy(all, config)
	delete(all, "distributed.conn_lease_table") // lease.table
	helm(t, "install", "sluice", chart, "-n", "sluice-system", "--create-namespace", "--wait", "-f",
		values(t, map[string]any{"injector": map[string]any{"enabled": true}, "lease": map[string]any{"enabled": true, "table": "sluice"}}, all))
	t.Cleanup(func() { uninstall(t) })
	newNamespace(t, "lease", "sluice.dev/injection=enabled")
	newTable(t, "lease")

	ctx, stop := context.WithCancel(t.Context())
	var most, samples atomic.Int64
	sampled := make(chan error, 1)
	go func() { sampled <- sample(ctx, &most, &samples) }()
	apply(t, "lease", fmt.Sprintf(`{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "leased"},
"spec": {"replicas": 3, "strategy": {"rollingUpdate": {"maxSurge": "100%%", "maxUnavailable": 0}}, "selector": {"matchLabels": {"app": "leased"}},
"template": {"metadata": {"labels": {"app": "leased"}}, "spec": {"terminationGracePeriodSeconds": 30, "containers": [%s]}}}}`, ledger("-workers=6", "-think=40ms")))
	rolledOut(t, "lease", "leased")
	waitFor(t, "leased", event.Acknowledged, 500)
	time.Sleep(5 * time.Second)
	together := 0
	for range 2 {
		kubectl(t, "", "-n", "lease", "rollout", "restart", "deployment/leased")
		for end := time.Now().Add(8 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
			n := 0
			for _, pod := range items(t, "lease", "pods", "-l", "app=leased") {
				if at(pod, "status", "containerStatuses", 0, "ready") == true {
					n++
				}
			}
			together = max(together, n)
		}
		rolledOut(t, "lease", "leased")
	}
	status := lease(t, "status", config)
	endPods(t, "lease", "leased")
	stop()
	if err := <-sampled; err != nil {
		t.Error(err)
	}
	if most.Load() > connLimit-connMargin || most.Load() < connLimit-connMargin-3 || samples.Load() < 200 {
		t.Errorf("up to %d connections in %d samples, the limit is %d", most.Load(), samples.Load(), connLimit-connMargin)
	}
	if together < 4 {
		t.Errorf("at most %d pods were ready together: no rollout doubled anything", together)
	}
	l := readLedger(t, "leased")
	l.expectWhole(t)
	t.Logf("up to %d pods together, each for up to 10 connections; the cluster saw up to %d of %d, in %d samples", together, most.Load(), connLimit-connMargin, samples.Load())
	t.Logf("%v", l)
	t.Logf("sluice lease status:\n%s", status)
}

// sample counts the stand-in's connections, which it has one each for at its PostgreSQL.
func sample(ctx context.Context, most, samples *atomic.Int64) error {
	for ; ; time.Sleep(50 * time.Millisecond) {
		text, err := world.sim.Ask(ctx, "GET", "/metrics", "")
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		n, err := gauge(text, "dsqlsim_connections")
		if err != nil {
			return err
		}
		samples.Add(1)
		most.Store(max(most.Load(), n))
	}
}

func gauge(text, name string) (int64, error) {
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("no %s among the stand-in's metrics", name)
}

// lease runs sluice lease on the node.
func lease(t *testing.T, verb string, config map[string]any) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(*programs, "sluice"), "lease", verb, "--endpoint", world.sim.Endpoint, "--backend-port", strconv.Itoa(simPort))
	cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL_DYNAMODB="+world.aws.dynamodb, "AWS_ACCESS_KEY_ID=none", "AWS_SECRET_ACCESS_KEY=none", "AWS_REGION=us-east-1")
	for key, value := range config {
		cmd.Env = append(cmd.Env, "DSQL_"+strings.ToUpper(strings.ReplaceAll(key, ".", "_"))+"="+fmt.Sprint(value))
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("sluice lease %s: %v\n%s", verb, err, out)
	}
	return strings.TrimSpace(string(out))
}
