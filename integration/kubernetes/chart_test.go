package kubernetes

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestChart installs, upgrades and takes away the chart's injector, and looks at what is
// left.
func TestChart(t *testing.T) {
	newNamespace(t, "sluice-system")
	newNamespace(t, "chart", "sluice.dev/injection=enabled")
	before := everything(t)
	install := func(verb string, injector map[string]any) {
		t.Helper()
		injector["enabled"] = true
		out := helm(t, verb, "sluice", chart, "-n", "sluice-system", "--wait", "-f", values(t, map[string]any{"injector": injector}))
		if !strings.Contains(out, "STATUS: deployed") {
			t.Errorf("helm %s: %s", verb, out)
		}
		if _, err := create(t, "chart", podOf("", "")); err != nil {
			t.Errorf("behind helm %s: %v", verb, err)
		}
	}
	authority := func() string {
		bundle := at(object(t, "default", "mutatingwebhookconfiguration", "inject.sluice.dev"), "webhooks", 0, "clientConfig", "caBundle")
		secret := at(object(t, "sluice-system", "secret", "sluice-injector-tls"), "data", "ca.crt")
		if bundle != secret || bundle == nil {
			t.Errorf("the webhook's authority is not the Secret's")
		}
		return fmt.Sprint(bundle)
	}
	install("install", map[string]any{})
	first := authority()
	install("upgrade", map[string]any{"replicas": 3})
	if authority() != first {
		t.Error("an upgrade made another certificate")
	}
	if n := len(items(t, "sluice-system", "pods", "-l", "app.kubernetes.io/component=injector", "--field-selector=status.phase=Running")); n < 3 {
		t.Errorf("%d pods behind the upgrade, want 3", n)
	}
	helm(t, "uninstall", "sluice", "-n", "sluice-system", "--wait")
	eventually(t, "nothing is left of the chart", func() string {
		return strings.Join(slices.DeleteFunc(everything(t), func(name string) bool { return slices.Contains(before, name) }), " ")
	})
	t.Logf("installed, upgraded with the same authority, uninstalled; what is there are the %d objects of before", len(before))
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
