package kubernetes

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/kubernetes/event"
)

// testPrometheus: Prometheus finds the sidecar's port by discovery of pods, as a PodMonitor
// has it done, scrapes it, and evaluates the alerts that are shipped.
func testPrometheus(t *testing.T) {
	apply(t, "sidecar", bare("scraped", 10, ledger("-workers=2", "-linger=1s")))
	waitFor(t, "scraped", event.Acknowledged, 20)
	dir := t.TempDir()
	_, rules, found := strings.Cut(shipped(t, "kubernetes/prometheusrule.yaml"), "\nspec:\n")
	if !found {
		t.Fatal("no spec")
	}
	config := fmt.Sprintf(`{"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": ["rules.yml"], "scrape_configs": [{"job_name": "pods",
"kubernetes_sd_configs": [{"role": "pod", "kubeconfig_file": %q}],
"relabel_configs": [{"source_labels": ["__meta_kubernetes_pod_container_port_name"], "regex": "sluice-metrics", "action": "keep"},
{"source_labels": ["__meta_kubernetes_pod_name"], "target_label": "pod"}, {"source_labels": ["__meta_kubernetes_pod_container_init"], "target_label": "init"}]}]}`, world.Kubeconfig)
	for name, text := range map[string]string{"prometheus.yml": config, "rules.yml": rules} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const address = "127.0.0.1:9090"
	stop, err := world.Background("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	var seen string
	eventually(t, "Prometheus scrapes the sidecar", func() string {
		answer, err := query(address, `dsql_clients{pod="scraped"}`)
		if err != nil {
			return err.Error()
		}
		if len(answer) == 0 {
			return "no dsql_clients of the pod"
		}
		seen = fmt.Sprint(answer[0])
		return ""
	})
	up, err := query(address, `up{pod="scraped"}`)
	if err != nil || len(up) != 1 || up[0].Metric["init"] != "true" || fmt.Sprint(up[0].Value[1]) != "1" {
		t.Errorf("up is %v (%v)", up, err)
	}
	time.Sleep(3 * time.Second) // some evaluations
	failed, err := query(address, `sum(prometheus_rule_evaluation_failures_total)`)
	if err != nil || len(failed) > 0 && fmt.Sprint(failed[0].Value[1]) != "0" {
		t.Errorf("evaluations failed: %v %v", failed, err)
	}
	t.Log(seen)
	var list struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, State string }
			}
		}
	}
	if err := get("http://"+address+"/api/v1/rules", &list); err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, group := range list.Data.Groups {
		for _, rule := range group.Rules {
			count++
			if rule.Health != "ok" || rule.State == "firing" {
				t.Errorf("alert %s is %s, %s", rule.Name, rule.Health, rule.State)
			}
		}
	}
	if count < 6 {
		t.Errorf("%d alerts, want the six that are shipped", count)
	}
	kubectl(t, "", "-n", "sidecar", "delete", "pod", "scraped")
	t.Logf("found by role pod with __meta_kubernetes_pod_container_init=\"true\", up is 1; %d alerts are evaluated, none fires", count)
}

type value struct {
	Metric map[string]string
	Value  [2]any
}

// query asks Prometheus for an instant query.
func query(address, expression string) ([]value, error) {
	var answer struct {
		Data struct{ Result []value }
	}
	err := get("http://"+address+"/api/v1/query?query="+url.QueryEscape(expression), &answer)
	return answer.Data.Result, err
}

func get(url string, into any) error {
	response, err := http.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(text)))
	}
	return json.Unmarshal(text, into)
}
