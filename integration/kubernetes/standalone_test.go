package kubernetes

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/integration/kubernetes/event"
)

// TestStandalone is the chart's shared proxy: pods of another namespace reach it by its
// Service's name, with a password.
func TestStandalone(t *testing.T) {
	newNamespace(t, "shared")
	newNamespace(t, "users")
	ask(t, "CREATE ROLE app PASSWORD 'secret'")
	verifier := ask(t, "SELECT rolpassword FROM pg_authid WHERE rolname = 'app'")[0][0]
	ask(t, "DROP ROLE app")
	ask(t, "DROP TABLE IF EXISTS ledger")
	ask(t, "CREATE TABLE ledger (writer text NOT NULL, n int NOT NULL)")
	kubectl(t, "", "-n", "shared", "create", "secret", "generic", "users", `--from-literal=userlist.txt="app" "`+verifier+`"`)
	helm(t, "install", "sluice", chart, "-n", "shared", "--wait", "-f",
		values(t, map[string]any{"standalone": map[string]any{"enabled": true, "usersSecret": "users"}}))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err := world.Run(ctx, "helm", "--kubeconfig", world.Kubeconfig, "uninstall", "sluice", "-n", "shared"); err != nil {
			t.Error(err)
		}
	})
	client := func(password string) string {
		return strings.NewReplacer(`"value": "127.0.0.1"`, `"value": "sluice.shared.svc"`, `{"name": "PGPORT"`, fmt.Sprintf(`{"name": "PGPASSWORD", "value": %q}, {"name": "PGPORT"`, password)).
			Replace(ledger("-mode=job", "-count=50"))
	}
	runJob(t, "users", "known", client("secret"))
	apply(t, "users", fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger"}, "spec": {"restartPolicy": "Never", "containers": [%s]}}`, client("guess")))
	waitFor(t, "stranger", event.NoConnection, 1)
	for _, e := range world.ledger.Events("stranger") {
		if e.Kind == event.NoConnection && !strings.Contains(e.Error, "28P01") {
			t.Errorf("a wrong password got %s", e.Error)
		}
	}
	if l := readLedger(t, "known"); l.acknowledged != 50 || l.missing+l.twice+l.unacknowledged+l.refused+l.failed > 0 {
		t.Errorf("%v", l)
	}
	t.Logf("two proxies behind a Service: 50 transactions of another namespace's pod; a wrong password gets 28P01")
}
