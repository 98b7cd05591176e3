package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/kubernetes/cluster"
)

// patience bounds every wait for the cluster.
const patience = 2 * time.Minute

// kubectl runs kubectl; the test ends where it fails.
func kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := tryKubectl(t, stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func tryKubectl(t *testing.T, stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return world.Kubectl(ctx, stdin, args...)
}

// eventually waits until done says nothing.
func eventually(t *testing.T, what string, done func() string) {
	t.Helper()
	said := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if said = done(); said == "" {
			return
		}
	}
	t.Fatalf("%s: %s", what, said)
}

// newNamespace makes one with labels, and in it what the stand-in needs to be trusted. It
// goes with the test, and all pods in it.
func newNamespace(t *testing.T, name string, labels ...string) {
	t.Helper()
	kubectl(t, "", "create", "namespace", name)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if t.Failed() {
			describe(ctx, t, name)
		}
		if _, err := world.Kubectl(ctx, "", "delete", "namespace", name, "--wait"); err != nil {
			t.Error(err)
		}
	})
	ca, err := os.ReadFile(world.sim.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, "", append([]string{"label", "namespace", name, "test-pod-identity=", "test-trust="}, labels...)...)
	kubectl(t, "", "-n", name, "create", "configmap", "trust", "--from-literal=ca.pem="+string(ca))
	eventually(t, "the account default", func() string {
		if _, err := tryKubectl(t, "", "-n", name, "get", "serviceaccount", "default"); err != nil {
			return err.Error()
		}
		return ""
	})
}

// describe shows what a failed test's pods were at.
func describe(ctx context.Context, t *testing.T, namespace string) {
	for _, args := range [][]string{{"get", "pods", "-o", "wide"}, {"get", "events", "--sort-by=.lastTimestamp", "--field-selector=type=Warning"}} {
		if out, err := world.Kubectl(ctx, "", append([]string{"-n", namespace}, args...)...); err == nil {
			t.Log(last(out, 4000))
		}
	}
	for _, container := range []string{"sluice", "app", "temporal", "schema"} {
		if out, err := world.Logs(namespace, "", container); err == nil {
			t.Logf("%s:\n%s", container, last(out, 4000))
		}
	}
}

func last(text string, n int) string { return text[max(0, len(text)-n):] }

// apply makes objects of YAML or JSON.
func apply(t *testing.T, namespace, text string) {
	t.Helper()
	kubectl(t, text, "-n", namespace, "apply", "-f", "-")
}

// object asks for an object.
func object(t *testing.T, namespace string, args ...string) map[string]any {
	t.Helper()
	var o map[string]any
	out := kubectl(t, "", append([]string{"-n", namespace, "get", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// at is what is in an object under a path of keys and indexes; nil where there is nothing.
func at(o any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := o.(map[string]any)
			o = m[step]
		case int:
			list, _ := o.([]any)
			if step >= len(list) {
				return nil
			}
			o = list[step]
		}
	}
	return o
}

// items are the objects of a list.
func items(t *testing.T, namespace string, args ...string) []any {
	t.Helper()
	list, _ := object(t, namespace, args...)["items"].([]any)
	return list
}

// shipped is a file of deploy, with words in capitals replaced.
func shipped(t *testing.T, path string, words ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../deploy", path))
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer(words...).Replace(string(text))
}

// helm runs helm.
func helm(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	out, err := world.Run(ctx, "helm", append([]string{"--kubeconfig", world.Kubeconfig}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// ledger is a container of it.
func ledger(args ...string) string {
	all := strings.Join(append([]string{"-collector=" + world.ledger.Address()}, args...), `", "`)
	return fmt.Sprintf(`{"name": "app", "image": "localhost/ledger:dev", "imagePullPolicy": "Never", "args": ["%s"],
"env": [{"name": "PGHOST", "value": "127.0.0.1"}, {"name": "PGPORT", "value": "5432"}],
"resources": {"limits": {"memory": "64Mi"}},
"securityContext": {"runAsNonRoot": true, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}}}`, all)
}

const (
	chart       = "../../deploy/helm/sluice"
	nodeAddress = cluster.Address
)

func writeFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// uninstall takes the chart away, and its namespace.
func uninstall(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := world.Run(ctx, "helm", "--kubeconfig", world.Kubeconfig, "uninstall", "sluice", "-n", "sluice-system", "--wait"); err != nil {
		t.Error(err)
	}
	if _, err := world.Kubectl(ctx, "", "delete", "namespace", "sluice-system", "--wait"); err != nil {
		t.Error(err)
	}
}

// kubectlAnyway runs kubectl where the test may have ended.
func kubectlAnyway(t *testing.T, stdin string, args ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := world.Kubectl(ctx, stdin, args...); err != nil {
		t.Error(err)
	}
}

// remove deletes an object.
func remove(t *testing.T, kind, name string) { kubectlAnyway(t, "", "delete", kind, name) }
