package charts

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// fits holds a rendering's parts against each other: who selects whom, which port and
// volume is meant, what a pod may do.
func fits(t *testing.T, r rendering) {
	t.Helper()
	for _, o := range r.objects {
		if got := at(o, "metadata", "namespace"); got != namespace && o["kind"] != "MutatingWebhookConfiguration" {
			t.Errorf("%s is in namespace %v", o.name(), got)
		}
		if labels, _ := at(o, "metadata", "labels").(map[string]any); labels["app.kubernetes.io/managed-by"] != "Helm" || labels["app.kubernetes.io/instance"] == nil {
			t.Errorf("%s has labels %v", o.name(), labels)
		}
		if o["kind"] != "Deployment" {
			continue
		}
		name := fmt.Sprint(at(o, "metadata", "name"))
		pod := at(o, "spec", "template", "spec")
		labels, _ := at(o, "spec", "template", "metadata", "labels").(map[string]any)
		for what, selector := range map[string]any{
			"Deployment":          at(o, "spec", "selector", "matchLabels"),
			"Service":             at(r.one(t, "Service "+name), "spec", "selector"),
			"PodDisruptionBudget": at(r.one(t, "PodDisruptionBudget "+name), "spec", "selector", "matchLabels"),
		} {
			checkSelector(t, what+" "+name, r, selector, labels)
		}
		if replicas, _ := at(o, "spec", "replicas").(float64); replicas < 2 || at(r.one(t, "PodDisruptionBudget "+name), "spec", "maxUnavailable") != 1.0 {
			t.Errorf("%s: %v replicas", name, replicas)
		}
		if labels["sluice.dev/inject"] != "false" {
			t.Errorf("%s would get a sidecar", name)
		}
		if at(pod, "serviceAccountName") != name || at(pod, "automountServiceAccountToken") != false {
			t.Errorf("%s: account %v, with its token: %v", name, at(pod, "serviceAccountName"), at(pod, "automountServiceAccountToken"))
		}
		r.one(t, "ServiceAccount "+name)
		checkPorts(t, name, pod, r.one(t, "Service "+name))
		checkVolumes(t, name, pod)
		for _, problem := range unrestricted(pod, func(any) bool { return true }) {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

// checkSelector holds a selector to the pods of one Deployment.
func checkSelector(t *testing.T, what string, r rendering, selector any, labels map[string]any) {
	t.Helper()
	wanted, _ := selector.(map[string]any)
	selects := func(labels map[string]any) bool {
		for name, value := range wanted {
			if labels[name] != value {
				return false
			}
		}
		return len(wanted) > 0
	}
	if !selects(labels) {
		t.Errorf("%s selects %v, its pods have %v", what, selector, labels)
	}
	for _, o := range r.objects {
		others, _ := at(o, "spec", "template", "metadata", "labels").(map[string]any)
		if others != nil && !maps.Equal(others, labels) && selects(others) {
			t.Errorf("%s selects %s, too", what, o.name())
		}
	}
}

// checkPorts looks for the ports that probes, the Service and Prometheus mean.
func checkPorts(t *testing.T, name string, pod any, service object) {
	t.Helper()
	ports := map[any]any{}
	for _, c := range list(pod, "containers") {
		for _, port := range list(c, "ports") {
			if text := fmt.Sprint(at(port, "name")); len(text) > 15 {
				t.Errorf("%s: port %s is longer than 15 characters", name, text)
			}
			ports[at(port, "name")] = at(port, "containerPort")
		}
		probes := 0
		for _, probe := range []string{"startupProbe", "readinessProbe", "livenessProbe"} {
			if get := at(c, probe, "httpGet"); get != nil {
				probes++
				if at(get, "port") != metricsPort {
					t.Errorf("%s: %s asks port %v", name, probe, at(get, "port"))
				}
			}
		}
		if probes < 2 {
			t.Errorf("%s: %d probes", name, probes)
		}
	}
	if ports[metricsPort] != 9432.0 {
		t.Errorf("%s: ports %v", name, ports)
	}
	for _, port := range list(service, "spec", "ports") {
		if ports[at(port, "targetPort")] == nil {
			t.Errorf("%s: the Service's %v is no port of %v", name, at(port, "targetPort"), ports)
		}
	}
}

// metricsPort is the name of the port that Prometheus scrapes.
const metricsPort = "sluice-metrics"

// One PodMonitor finds them all: standalone pods, the injector's, and sidecars.
func TestOnePortNameForPrometheus(t *testing.T) {
	rendered := mustRender(t, release{}, everything)
	for what, got := range map[string]any{
		"the chart's PodMonitor": at(rendered.one(t, "PodMonitor sluice"), "spec", "podMetricsEndpoints", 0, "port"),
		"podmonitor.yaml":        at(manifest(t, "podmonitor.yaml", "PodMonitor"), "spec", "podMetricsEndpoints", 0, "port"),
		"sidecar.yaml":           at(manifest(t, "sidecar.yaml", "Deployment"), "spec", "template", "spec", "initContainers", 0, "ports", 0, "name"),
		"plain.yaml":             at(manifest(t, "plain.yaml", "Deployment"), "spec", "template", "spec", "containers", 0, "ports", 0, "name"),
		"inject/webhook.yaml":    at(manifest(t, "inject/webhook.yaml", "Deployment"), "spec", "template", "spec", "containers", 0, "ports", 1, "name"),
	} {
		if got != metricsPort {
			t.Errorf("%s: port %v", what, got)
		}
	}
}

// checkVolumes looks for what is mounted, and for files that arguments and variables name.
func checkVolumes(t *testing.T, name string, pod any) {
	t.Helper()
	volumes, mounted, scratch := map[any]bool{}, map[any]bool{}, map[any]bool{}
	for _, v := range list(pod, "volumes") {
		volumes[at(v, "name")] = true
		scratch[at(v, "name")] = at(v, "emptyDir", "medium") == "Memory" // others keep an autoscaler from removing the node
	}
	for _, c := range list(pod, "containers") {
		var paths []string
		for _, m := range list(c, "volumeMounts") {
			mounted[at(m, "name")] = true
			paths = append(paths, at(m, "mountPath").(string)+"/")
			if (at(m, "readOnly") == true) == scratch[at(m, "name")] {
				t.Errorf("%s: %v may be written, or must be and may not", name, at(m, "name"))
			}
		}
		var words []string
		for _, arg := range list(c, "args") {
			words = append(words, arg.(string))
		}
		for _, v := range list(c, "env") {
			words = append(words, "="+fmt.Sprint(at(v, "value")))
		}
		for _, word := range words {
			_, file, is := strings.Cut(word, "=/")
			if is && !slices.ContainsFunc(paths, func(dir string) bool { return strings.HasPrefix("/"+file, dir) }) {
				t.Errorf("%s: %s is in none of %q", name, word, paths)
			}
		}
	}
	if !maps.Equal(volumes, mounted) {
		t.Errorf("%s: volumes %v, mounted %v", name, volumes, mounted)
	}
}

// unrestricted says what the profile "restricted" of Pod Security, or Sluice's rule of a
// read-only root, has against a pod, as far as those containers go that count.
func unrestricted(pod any, counts func(container any) bool) (found []string) {
	for _, field := range []string{"hostNetwork", "hostPID", "hostIPC"} {
		if at(pod, field) == true {
			found = append(found, field)
		}
	}
	for _, v := range list(pod, "volumes") {
		for kind := range v.(map[string]any) {
			if !slices.Contains([]string{"name", "configMap", "downwardAPI", "emptyDir", "projected", "secret"}, kind) {
				found = append(found, "a volume of kind "+kind)
			}
		}
	}
	all := slices.Concat(list(pod, "initContainers"), list(pod, "containers"))
	checked := 0
	for _, c := range all {
		if !counts(c) {
			continue
		}
		checked++
		either := func(path ...any) any { // the container's own goes before the pod's
			if own := at(c, append([]any{"securityContext"}, path...)...); own != nil {
				return own
			}
			return at(pod, append([]any{"securityContext"}, path...)...)
		}
		own := at(c, "securityContext")
		for what, ok := range map[string]bool{
			"runAsNonRoot":             either("runAsNonRoot") == true,
			"runAsUser":                either("runAsUser") == 65532.0,
			"seccompProfile":           either("seccompProfile", "type") == "RuntimeDefault",
			"allowPrivilegeEscalation": at(own, "allowPrivilegeEscalation") == false,
			"capabilities":             reflect.DeepEqual(at(own, "capabilities"), map[string]any{"drop": []any{"ALL"}}),
			"privileged":               at(own, "privileged") != true,
			"readOnlyRootFilesystem":   at(own, "readOnlyRootFilesystem") == true,
			"memory limit":             at(c, "resources", "limits", "memory") != nil && at(c, "resources", "limits", "cpu") == nil,
		} {
			if !ok {
				found = append(found, fmt.Sprintf("container %v: %s", at(c, "name"), what))
			}
		}
	}
	if checked == 0 {
		found = append(found, "no container was looked at")
	}
	return found
}

// Containers of Sluice in manifests are restricted as well. What the application's may do is
// its owner's business.
func TestManifestsAreRestricted(t *testing.T) {
	ours := func(c any) bool { return at(c, "image") == "IMAGE" }
	for file, kind := range map[string]string{"sidecar.yaml": "Deployment", "plain.yaml": "Deployment", "inject/webhook.yaml": "Deployment"} {
		pod := at(manifest(t, file, kind), "spec", "template", "spec")
		for _, problem := range unrestricted(pod, ours) {
			t.Errorf("%s: %s", file, problem)
		}
	}
	for what, spoil := range map[string]func(pod, container map[string]any){
		"runAsNonRoot":   func(pod, _ map[string]any) { delete(at(pod, "securityContext").(map[string]any), "runAsNonRoot") },
		"seccompProfile": func(pod, _ map[string]any) { delete(pod, "securityContext") },
		"capabilities": func(_, c map[string]any) {
			at(c, "securityContext", "capabilities").(map[string]any)["add"] = []any{"NET_ADMIN"}
		},
		"hostNetwork":             func(pod, _ map[string]any) { pod["hostNetwork"] = true },
		"volume of kind hostPath": func(pod, _ map[string]any) { at(pod, "volumes", 0).(map[string]any)["hostPath"] = map[string]any{} },
		"memory limit":            func(_, c map[string]any) { delete(c, "resources") },
		"no container":            func(_, c map[string]any) { c["image"] = "another" },
	} {
		pod := at(manifest(t, "inject/webhook.yaml", "Deployment"), "spec", "template", "spec").(map[string]any)
		spoil(pod, at(pod, "containers", 0).(map[string]any))
		if found := unrestricted(pod, ours); !strings.Contains(strings.Join(found, "\n"), what) {
			t.Errorf("%s is not noticed: %q", what, found)
		}
	}
}
