package kubernetes

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestChart installs, upgrades and takes away the chart with all that it has, and looks
// at what is left.
func TestChart(t *testing.T) {
	before := everything(t)
	kubectl(t, "", "create", "namespace", "sluice-system")
	gone := false
	t.Cleanup(func() {
		if !gone {
			uninstall(t)
		}
	})
	ca, _ := tryKubectl(t, "", "version")
	t.Log(strings.ReplaceAll(ca, "\n", ", "))
	// One proxy for many has no credentials of a sidecar's pod here: it has the node's.
	install := func(verb string, more map[string]any) {
		t.Helper()
		out := helm(t, verb, "sluice", chart, "-n", "sluice-system", "--wait", "-f", values(t, more))
		if !strings.Contains(out, "STATUS: deployed") {
			t.Errorf("helm %s: %s", verb, out)
		}
	}
	all := map[string]any{"injector": map[string]any{"enabled": true}}
	install("install", all)
	authority := func() string {
		bundle := at(object(t, "default", "mutatingwebhookconfiguration", "inject.sluice.dev"), "webhooks", 0, "clientConfig", "caBundle")
		secret := at(object(t, "sluice-system", "secret", "sluice-injector-tls"), "data", "ca.crt")
		if bundle != secret || bundle == nil {
			t.Errorf("the webhook's authority is not the Secret's")
		}
		return fmt.Sprint(bundle)
	}
	first := authority()
	newNamespace(t, "chart", "sluice.dev/injection=enabled")
	if _, err := create(t, "chart", podOf("", "")); err != nil {
		t.Error(err)
	}
	all["injector"] = map[string]any{"enabled": true, "replicas": 3}
	install("upgrade", all)
	if authority() != first {
		t.Error("an upgrade made another certificate")
	}
	if n := len(items(t, "sluice-system", "pods", "-l", "app.kubernetes.io/component=injector", "--field-selector=status.phase=Running")); n < 3 {
		t.Errorf("%d pods behind the upgrade, want 3", n)
	}
	if _, err := create(t, "chart", podOf("", "")); err != nil {
		t.Errorf("behind the upgrade: %v", err)
	}
	kubectl(t, "", "delete", "namespace", "chart", "--wait")
	kubectl(t, "", "create", "namespace", "chart") // newNamespace deletes it
	uninstall(t)
	gone = true
	kubectl(t, "", "delete", "namespace", "chart", "--wait")
	kubectl(t, "", "create", "namespace", "chart")
	var left []string
	for _, name := range everything(t) {
		if !slices.Contains(before, name) && !strings.Contains(name, "chart/") && !strings.HasSuffix(name, "/chart") {
			left = append(left, name)
		}
	}
	if len(left) > 0 {
		t.Errorf("left behind the uninstallation: %v", left)
	}
	t.Log("installed, upgraded with the same authority, uninstalled; nothing is left")
}

// everything names every object of the cluster, but for what it notes itself all the time.
func everything(t *testing.T) []string {
	t.Helper()
	kinds := strings.Fields(kubectl(t, "", "api-resources", "--verbs=list", "-o", "name"))
	kinds = slices.DeleteFunc(kinds, func(kind string) bool {
		return strings.HasPrefix(kind, "events") || strings.HasPrefix(kind, "leases") || strings.HasPrefix(kind, "componentstatuses")
	})
	out := kubectl(t, "", "get", strings.Join(kinds, ","), "-A", "--ignore-not-found", "-o",
		`jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{"\n"}{end}`)
	names := strings.Fields(out)
	if len(names) < 50 {
		t.Fatalf("only %d objects: %v", len(names), names)
	}
	return names
}
