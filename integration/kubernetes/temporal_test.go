package kubernetes

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestTemporal is what docs/kubernetes.md has for Temporal, literally: from no namespace to
// the pods of its four services, each with a sidecar, which run workflows.
func TestTemporal(t *testing.T) {
	installInjector(t)
	visibility(t)
	store, err := relay(world.pg.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	// What is the user's to have there: a role for the pods, here by labels of the namespace, and the Secret.
	newNamespace(t, "temporal")
	kubectl(t, "", "-n", "temporal", "create", "secret", "generic", "temporal-visibility", "--from-literal=password=unused")
	began := time.Now()
	apply(t, "temporal", shipped(t, "kubernetes/temporal.yaml", "VISIBILITY_HOST:5432", store.Addr().String(),
		"TEMPORAL_ADMIN_TOOLS", "localhost/temporal:dev", "TEMPORAL_SERVER", "localhost/temporal:dev"))
	kubectl(t, "", "-n", "temporal", "wait", "--for=condition=complete", "--timeout=110s", "job/temporal-schema")
	t.Logf("the schema is set up after %v", time.Since(began).Round(100*time.Millisecond))
	for _, service := range []string{"frontend", "history", "matching", "worker"} {
		rolledOut(t, "temporal", "temporal-"+service)
	}
	pods := items(t, "temporal", "pods", "-l", "app.kubernetes.io/name=temporal")
	restarts := 0.0
	for _, pod := range pods {
		if names := containers(pod.(map[string]any)); len(names) != 1 || names[0] != "sluice" {
			t.Errorf("init containers of a pod: %v", names)
		}
		n, _ := at(pod, "status", "containerStatuses", 0, "restartCount").(float64)
		restarts += n
	}
	t.Logf("%d pods of four services run after %v, %v restarts of Temporal's containers", len(pods), time.Since(began).Round(100*time.Millisecond), restarts)
	frontend := at(items(t, "temporal", "pods", "-l", "app.kubernetes.io/component=frontend")[0], "status", "podIP").(string)
	greet(t, frontend)
	// And once more behind a rollout of all of them.
	for _, service := range []string{"frontend", "history", "matching", "worker"} {
		kubectl(t, "", "-n", "temporal", "rollout", "restart", "deployment/temporal-"+service)
		rolledOut(t, "temporal", "temporal-"+service)
	}
	eventually(t, "a new frontend", func() string {
		for _, pod := range items(t, "temporal", "pods", "-l", "app.kubernetes.io/component=frontend", "--field-selector=status.phase=Running") {
			if ip, _ := at(pod, "status", "podIP").(string); ip != "" && ip != frontend && at(pod, "metadata", "deletionTimestamp") == nil {
				frontend = ip
				return ""
			}
		}
		return "none"
	})
	greet(t, frontend)
}

// greet has the server run workflows.
func greet(t *testing.T, frontend string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(*programs, "greet"), "-address", net.JoinHostPort(frontend, "7233")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, last(string(out), 3000))
	}
	t.Logf("%s", out)
}

// visibility makes Temporal's other store, with the stock tool.
func visibility(t *testing.T) {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), world.pg.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, statement := range []string{"CREATE ROLE temporal SUPERUSER LOGIN", "CREATE DATABASE temporal_visibility OWNER temporal"} {
		if _, err := conn.Exec(t.Context(), statement).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	tool := exec.CommandContext(t.Context(), filepath.Join(*programs, "temporal-sql-tool"), "--plugin", "postgres12_pgx", "--endpoint", world.pg.Host, "--port", fmt.Sprint(world.pg.Port),
		"--user", "temporal", "--database", "temporal_visibility", "setup-schema", "--version", "1.14", "--schema-name", "postgresql/v12/visibility")
	if out, err := tool.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, last(string(out), 2000))
	}
}
