// Package alerts holds the alerts of deploy/kubernetes/prometheusrule.yaml to what they
// are for, by Prometheus' own promtool (Debian package prometheus): testdata/alerts.yaml
// has a case for each in which it fires, and one in which it does not.
package alerts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// rulesFile is the file of rules that the custom resource carries.
func rulesFile(t *testing.T) (path string, names []string) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/kubernetes/prometheusrule.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var resource struct {
		Kind string
		Spec yaml.Node
	}
	if err := yaml.Unmarshal(text, &resource); err != nil || resource.Kind != "PrometheusRule" {
		t.Fatalf("kind %q: %v", resource.Kind, err)
	}
	var spec struct {
		Groups []struct{ Rules []struct{ Alert string } }
	}
	if err := resource.Spec.Decode(&spec); err != nil {
		t.Fatal(err)
	}
	for _, group := range spec.Groups {
		for _, rule := range group.Rules {
			names = append(names, rule.Alert)
		}
	}
	rules, err := yaml.Marshal(&resource.Spec)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, rules, 0o644); err != nil {
		t.Fatal(err)
	}
	return path, names
}

func promtool(t *testing.T, args ...string) (output string, err error) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Fatalf("%v; .ci/install prometheus installs it", err)
	}
	out, err := exec.Command("promtool", args...).CombinedOutput()
	return string(out), err
}

func TestAlerts(t *testing.T) {
	t.Parallel()
	rules, names := rulesFile(t)
	if out, err := promtool(t, "check", "rules", rules); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	cases, err := os.ReadFile("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	test := filepath.Join(filepath.Dir(rules), "alerts.yaml")
	if err := os.WriteFile(test, cases, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := promtool(t, "test", "rules", test); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	// The two cases of silence have each alert; the one in which it fires names it again.
	for _, name := range names {
		if n := strings.Count(string(cases), "alertname: "+name+"\n"); n == 0 {
			t.Errorf("no case in which %s fires", name)
		}
		if n := strings.Count(string(cases), "alertname: "+name+"}\n"); n == 0 {
			t.Errorf("no case in which %s is silent", name)
		}
	}
	if len(names) != 7 {
		t.Errorf("%d alerts: %q", len(names), names)
	}
}

// A rule without its threshold is noticed: the cases are no decoration.
func TestCasesNoticeAChange(t *testing.T) {
	t.Parallel()
	rules, names := rulesFile(t)
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := os.ReadFile("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for change, expression := range map[string]string{
		"never":  "vector(1) > 2",
		"always": `label_replace(label_replace(vector(1), "namespace", "n", "", ""), "pod", "p", "", "")`,
	} {
		var spec struct{ Groups []map[string]any }
		if err := yaml.Unmarshal(text, &spec); err != nil {
			t.Fatal(err)
		}
		for _, rule := range spec.Groups[0]["rules"].([]any) {
			rule.(map[string]any)["expr"] = expression
			delete(rule.(map[string]any), "for")
		}
		dir := t.TempDir()
		changed, err := yaml.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), changed, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "alerts.yaml"), cases, 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := promtool(t, "test", "rules", filepath.Join(dir, "alerts.yaml"))
		for _, name := range names {
			if err == nil || !strings.Contains(out, "alertname: "+name+",") && !strings.Contains(out, "alertname:"+name+",") {
				t.Errorf("%s %s fires and no case fails:\n%s", name, change, out)
			}
		}
	}
}
