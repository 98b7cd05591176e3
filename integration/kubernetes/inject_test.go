package kubernetes

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// pause is a container that does nothing, as the profile restricted wants it.
const pause = `{"name": "app", "image": "localhost/pause:dev", "imagePullPolicy": "Never", "securityContext": {"runAsNonRoot": true,
"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}}}`

// podOf is a pod with more in its metadata and in its spec, both fields of an object.
func podOf(metadata, spec string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"%s}, "spec": {"containers": [%s]%s}}`, metadata, pause, spec)
}

// create is what the API server makes of a pod, without making it.
func create(t *testing.T, namespace, pod string) (map[string]any, error) {
	t.Helper()
	out, err := tryKubectl(t, pod, "-n", namespace, "create", "--dry-run=server", "-o", "json", "-f", "-")
	if err != nil {
		return nil, err
	}
	var o map[string]any
	if err := json.Unmarshal([]byte(out), &o); err != nil {
		t.Fatal(err)
	}
	return o, nil
}

// injections are pods, and what becomes of them by the webhook and by the policy.
var injections = []struct {
	name, namespace, metadata, spec string
	injected                        bool
	status                          string
	// refused is of the error of the webhook; refusedByPolicy, of the policy's, is the
	// same where it is empty. "-" is none: what the policy does not see.
	refused, refusedByPolicy string
}{
	{name: "namespace opted in", namespace: "inject", injected: true, status: "injected"},
	{name: "namespace did not", namespace: "other"},
	{name: "pod opted out", namespace: "inject", metadata: `, "labels": {"sluice.dev/inject": "false"}`},
	{name: "pod opted in", namespace: "inject", metadata: `, "labels": {"sluice.dev/inject": "true"}`, injected: true, status: "injected"},
	{name: "pod opted in, namespace did not", namespace: "other", metadata: `, "labels": {"sluice.dev/inject": "true"}`},
	{name: "host's network", namespace: "inject", spec: `, "hostNetwork": true`, status: "skipped"},
	{name: "its own port is taken", namespace: "inject", spec: `, "initContainers": [{"name": "db", "image": "localhost/pause:dev", "ports": [{"containerPort": 5432}]}]`,
		refused: "5432", refusedByPolicy: "listen.address"},
	{name: "another port", namespace: "inject", injected: true, status: "injected",
		metadata: `, "annotations": {"sluice.dev/listen.address": "127.0.0.1:6432"}`,
		spec:     `, "initContainers": [{"name": "db", "image": "localhost/pause:dev", "ports": [{"containerPort": 5432}]}]`},
	{name: "a wrong value", namespace: "inject", metadata: `, "annotations": {"sluice.dev/pins.max": "many"}`, refused: "sluice.dev/pins.max", refusedByPolicy: "-"},
	{name: "a secret", namespace: "inject", metadata: `, "annotations": {"sluice.dev/backend.password": "x"}`, refused: "sluice.dev/backend.password"},
	{name: "values that Kubernetes would expand", namespace: "inject", injected: true, status: "injected",
		metadata: `, "annotations": {"sluice.dev/backend.database": "a$(HOSTNAME)$$b", "sluice.dev/listen.databases": "one,two=schema:two"}`},
	{name: "annotations of others", namespace: "inject", injected: true, status: "injected", metadata: `, "annotations": {"sluice.dev.example.com/x": "1", "other/sluice.dev": "2"}`},
	{name: "an unknown key", namespace: "inject", metadata: `, "annotations": {"sluice.dev/pins.most": "1"}`, refused: "sluice.dev/pins.most", refusedByPolicy: "-"},
	{name: "has init containers and volumes", namespace: "inject", injected: true, status: "injected",
		spec: `, "volumes": [{"name": "v", "emptyDir": {}}], "initContainers": [{"name": "migrate", "image": "localhost/pause:dev", "env": [{"name": "A", "value": "$(B)"}]}]`},
	{name: "metrics' port is taken", namespace: "inject", spec: `, "initContainers": [{"name": "m", "image": "localhost/pause:dev", "ports": [{"containerPort": 9432}]}]`, refused: "9432"},
	{name: "UDP does not matter", namespace: "inject", injected: true, status: "injected",
		spec: `, "initContainers": [{"name": "u", "image": "localhost/pause:dev", "ports": [{"containerPort": 5432, "protocol": "UDP"}]}]`},
	{name: "restricted", namespace: "restricted", injected: true, status: "injected"},
}

// checkInjections plays them. settings are the injector's, as its flags.
func checkInjections(t *testing.T, policy bool, settings ...string) {
	for _, c := range injections {
		refused := c.refused
		if policy && c.refusedByPolicy != "" {
			refused = strings.TrimPrefix(c.refusedByPolicy, "-")
		}
		text := podOf(c.metadata, c.spec)
		pod, err := create(t, c.namespace, text)
		if refused != "" {
			if err == nil || !strings.Contains(err.Error(), refused) {
				t.Errorf("%s: %v, want it refused over %s", c.name, err, refused)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		names, want := containers(pod), c.injected || c.refused != "" // only the webhook refuses that one
		if injected := len(names) > 0 && names[0] == "sluice"; injected != want {
			t.Errorf("%s: init containers %v", c.name, names)
		}
		// The policy says nothing of those that it leaves alone.
		if status, _ := at(pod, "metadata", "annotations", "sluice.dev/status").(string); !strings.HasPrefix(status, c.status) && !(policy && c.status == "skipped") {
			t.Errorf("%s: status %q, want %q", c.name, status, c.status)
		}
		if c.injected {
			sameContainer(t, c.name, pod, filtered(t, text, settings))
		}
	}
	if !t.Failed() {
		t.Logf("%d pods: injected, left alone or refused as they should be, each container the filter's", len(injections))
	}
}

// filtered is what sluice inject -f makes of a pod.
func filtered(t *testing.T, pod string, settings []string) map[string]any {
	t.Helper()
	args := append([]string{"inject", "--image", "localhost/sluice:e2e", "--image-pull-policy", "IfNotPresent", "-f", "-"}, settings...)
	cmd := exec.CommandContext(t.Context(), filepath.Join(*programs, "sluice"), args...)
	cmd.Stdin = strings.NewReader(pod)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("sluice inject: %v", err)
	}
	var o map[string]any
	if err := json.Unmarshal(out, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// sameContainer holds the container that the API server has to the filter's: nothing of it
// is missing, and no setting is there besides.
func sameContainer(t *testing.T, name string, pod, want map[string]any) {
	t.Helper()
	if missing := lacks(at(pod, "spec", "initContainers", 0), at(want, "spec", "initContainers", 0)); missing != "" {
		t.Errorf("%s: other than the filter's: %s", name, missing)
	}
	there := variables(want)
	for variable := range variables(pod) {
		if _, known := there[variable]; strings.HasPrefix(variable, "DSQL_") && !known {
			t.Errorf("%s: the filter sets no %s", name, variable)
		}
	}
}

// lacks says what of a decoded value is not in another. Members and elements that are there
// besides, as an API server's defaults are, count for nothing.
func lacks(got, want any) string {
	switch want := want.(type) {
	case map[string]any:
		for name, below := range want {
			if missing := lacks(at(got, name), below); missing != "" {
				return name + ": " + missing
			}
		}
	case []any:
		all, _ := got.([]any)
		for _, below := range want {
			if !slices.ContainsFunc(all, func(each any) bool { return lacks(each, below) == "" }) {
				return fmt.Sprintf("no %v among %v", below, all)
			}
		}
	default:
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Sprintf("%v, want %v", got, want)
		}
	}
	return ""
}

// containers are the names of a pod's init containers.
func containers(pod map[string]any) []string {
	var names []string
	list, _ := at(pod, "spec", "initContainers").([]any)
	for _, c := range list {
		name, _ := at(c, "name").(string)
		names = append(names, name)
	}
	return names
}

// variables are those of a pod's first init container.
func variables(pod map[string]any) map[string]string {
	all := make(map[string]string)
	list, _ := at(pod, "spec", "initContainers", 0, "env").([]any)
	for _, v := range list {
		name, _ := at(v, "name").(string)
		all[name], _ = at(v, "value").(string)
	}
	return all
}

func injectionNamespaces(t *testing.T) {
	newNamespace(t, "inject", "sluice.dev/injection=enabled")
	newNamespace(t, "other")
	newNamespace(t, "restricted", "sluice.dev/injection=enabled", "pod-security.kubernetes.io/enforce=restricted")
}

// TestWebhook is what the injector does that the chart installs.
func TestWebhook(t *testing.T) {
	installInjector(t)
	injectionNamespaces(t)
	checkInjections(t, false, "--set=backend.endpoint="+world.sim.Endpoint, "--set=backend.address="+nodeAddress, fmt.Sprintf("--set=backend.port=%d", simPort),
		"--set=credentials.require=container", "--set=reservoir.max_open=8")

	t.Run("twice", func(t *testing.T) {
		once, err := create(t, "inject", podOf("", ""))
		if err != nil {
			t.Fatal(err)
		}
		spec, _ := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p"}, "spec": once["spec"]})
		twice, err := create(t, "inject", string(spec))
		if err != nil {
			t.Fatal(err)
		}
		if names := containers(twice); len(names) != 1 {
			t.Errorf("injected twice: %v", names)
		}
	})

	t.Run("webhooks before and behind", func(t *testing.T) {
		kubectl(t, "", "label", "namespace", "inject", "test-first=", "test-last=")
		for name, path := range map[string]string{"a-first": "/first", "zz-last": "/last"} {
			kubectl(t, world.aws.configuration(name, path), "apply", "-f", "-")
			t.Cleanup(func() { remove(t, "mutatingwebhookconfiguration", name) })
		}
		eventually(t, "the webhooks are called", func() string {
			pod, err := create(t, "inject", podOf("", ""))
			if err != nil {
				t.Fatal(err)
			}
			first, last := at(pod, "metadata", "annotations", "example.com/first"), at(pod, "metadata", "annotations", "example.com/last")
			env := variables(pod)
			if first == nil || last == nil {
				return fmt.Sprint(first, last)
			}
			if last != "saw: sluice" || env["AWS_CONTAINER_CREDENTIALS_FULL_URI"] == "" || env["SSL_CERT_FILE"] == "" || env["DSQL_DRAIN_MODE"] != "native" {
				t.Errorf("first %v, last %v, variables %v", first, last, env)
			}
			return ""
		})
	})

	t.Run("a port that comes later", func(t *testing.T) {
		newNamespace(t, "late", "sluice.dev/injection=enabled", "test-port=")
		kubectl(t, world.aws.configuration("zz-port", "/port"), "apply", "-f", "-")
		t.Cleanup(func() { remove(t, "mutatingwebhookconfiguration", "zz-port") })
		eventually(t, "the pod is refused", func() string {
			if _, err := create(t, "late", podOf("", "")); err == nil || !strings.Contains(err.Error(), "container late declares port 5432") {
				return fmt.Sprint(err)
			}
			return ""
		})
	})

	t.Run("nobody answers", func(t *testing.T) {
		kubectl(t, "", "-n", "sluice-system", "scale", "deployment", "sluice-injector", "--replicas=0")
		eventually(t, "no endpoint", func() string {
			_, err := create(t, "inject", podOf("", ""))
			if err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
				return fmt.Sprintf("a pod of the namespace: %v", err)
			}
			return ""
		})
		for _, c := range injections {
			if c.namespace == "other" || c.name == "pod opted out" {
				if _, err := create(t, c.namespace, podOf(c.metadata, c.spec)); err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
			}
		}
		t.Log("without a replica the opted-in namespace gets no pod, and the others do")
	})
}

// TestPolicy is deploy/kubernetes/inject/policy.yaml, without a server of Sluice's.
func TestPolicy(t *testing.T) {
	policy := shipped(t, "kubernetes/inject/policy.yaml", "IMAGE", "localhost/sluice:e2e", "CLUSTER.dsql.REGION.on.aws", world.sim.Endpoint)
	kubectl(t, policy, "apply", "-f", "-")
	t.Cleanup(func() { kubectlAnyway(t, policy, "delete", "-f", "-", "--wait") })
	injectionNamespaces(t)
	eventually(t, "the policy is carried out", func() string {
		pod, err := create(t, "inject", podOf("", ""))
		if err != nil {
			return err.Error()
		}
		if len(containers(pod)) == 0 {
			return "nothing is injected"
		}
		return ""
	})
	checkInjections(t, true, "--set=backend.endpoint="+world.sim.Endpoint)

	// A pod that runs.
	annotated := fmt.Sprintf(`{"sluice.dev/backend.address": %q, "sluice.dev/backend.port": "%d", "sluice.dev/credentials.require": "container", "sluice.dev/reservoir.max_open": "8"}`, nodeAddress, simPort)
	ask(t, "DROP TABLE IF EXISTS ledger")
	apply(t, "restricted", fmt.Sprintf(`{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "create"},
"spec": {"backoffLimit": 0, "template": {"metadata": {"annotations": %s}, "spec": {"restartPolicy": "Never", "containers": [%s]}}}}`, annotated, ledger("-mode=create")))
	kubectl(t, "", "-n", "restricted", "wait", "--for=condition=complete", "--timeout=90s", "job/create")
	if rows := ask(t, "SELECT count(*) FROM pg_class WHERE relname = 'ledger'"); rows[0][0] != "1" {
		t.Error("the table is not there")
	}
	t.Log("a Job with the policy's sidecar is complete, in a namespace of the profile restricted")

	// A wrong value is the container's to refuse.
	apply(t, "restricted", podOf(`, "annotations": {"sluice.dev/pins.max": "many"}`, ""))
	var said any
	eventually(t, "the container says what is wrong", func() string {
		pod := object(t, "restricted", "pod", "p")
		for _, state := range []string{"state", "lastState"} {
			if said = at(pod, "status", "initContainerStatuses", 0, state, "terminated", "message"); said != nil {
				return ""
			}
		}
		return fmt.Sprint(at(pod, "status"))
	})
	if text, _ := said.(string); !strings.Contains(text, "pins.max") || !strings.Contains(text, "many") {
		t.Errorf("it ended with %q", said)
	}
}
