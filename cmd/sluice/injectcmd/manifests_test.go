package injectcmd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-proxy/sluice/cmd/sluice/config"
	"github.com/sluice-proxy/sluice/cmd/sluice/config/configtest"
	"github.com/sluice-proxy/sluice/cmd/sluice/inject"
)

// words are what a reader replaces in a manifest.
var words = strings.NewReplacer("CLUSTER.dsql.REGION.on.aws", configtest.Endpoint, "IMAGE", "registry.example/sluice:1.0", "CA_BUNDLE", "QQ==")

// manifests are the objects of every YAML file below deploy/kubernetes, by "file: Kind".
func manifests(t *testing.T) map[string][]map[string]any {
	t.Helper()
	all := map[string][]map[string]any{}
	for _, pattern := range []string{"*.yaml", "*/*.yaml"} {
		files, err := filepath.Glob("../../../deploy/kubernetes/" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name, _ := filepath.Rel("../../../deploy/kubernetes", file)
			for _, doc := range splitDocuments(words.Replace(string(text))) {
				var object map[string]any
				if err := yaml.Unmarshal([]byte(doc), &object); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				kind, _ := object["kind"].(string)
				if kind == "" {
					t.Fatalf("%s: a document without a kind: %.80s", name, doc)
				}
				all[name+": "+kind] = append(all[name+": "+kind], object)
			}
		}
	}
	if len(all) < 8 {
		t.Fatalf("only %d kinds of objects found", len(all))
	}
	return all
}

// at is what stands at a path; a number is an element of a list.
func at(t *testing.T, object any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch o := object.(type) {
		case map[string]any:
			object = o[step.(string)]
		case []any:
			if i := step.(int); i < len(o) {
				object = o[i]
				continue
			}
			t.Fatalf("%v: no element %v", path, step)
		default:
			t.Fatalf("%v: nothing at %v", path, step)
		}
	}
	return object
}

// only is the one object of a kind in a file.
func only(t *testing.T, all map[string][]map[string]any, name string) map[string]any {
	t.Helper()
	if len(all[name]) != 1 {
		t.Fatalf("%s: %d of them", name, len(all[name]))
	}
	return all[name][0]
}

// sluiceContainers are all containers below an object that run the program.
func sluiceContainers(object any) (found []map[string]any) {
	switch o := object.(type) {
	case map[string]any:
		if image, _ := o["image"].(string); strings.Contains(image, "/sluice:") && o["name"] != nil {
			found = append(found, o)
		}
		for _, below := range o {
			found = append(found, sluiceContainers(below)...)
		}
	case []any:
		for _, below := range o {
			found = append(found, sluiceContainers(below)...)
		}
	}
	return found
}

// Commands, flags, variables and annotations of every manifest are ones that exist.
func TestManifestsNameWhatExists(t *testing.T) {
	t.Parallel()
	checked := 0
	for name, objects := range manifests(t) {
		for _, object := range objects {
			for _, c := range sluiceContainers(object) {
				checked++
				var args []string
				for _, arg := range c["args"].([]any) {
					args = append(args, arg.(string))
				}
				command, rest, err := newRoot().Find(args)
				if err == nil {
					err = command.ParseFlags(rest)
				}
				if err != nil || command.Name() != args[0] {
					t.Errorf("%s: %q: %v", name, args, err)
				}
				env, _ := c["env"].([]any)
				for _, v := range env {
					if problem := strangeVariable(v.(map[string]any)["name"].(string)); problem != "" {
						t.Errorf("%s: %s", name, problem)
					}
				}
			}
		}
	}
	if checked == 0 {
		t.Error("no container runs Sluice")
	}
	files, err := filepath.Glob("../../../deploy/kubernetes/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	below, err := filepath.Glob("../../../deploy/kubernetes/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, below...)
	variable := regexp.MustCompile(`\bDSQL_[A-Z_]+[A-Z]\b`)
	annotation := regexp.MustCompile(`\bsluice\.dev/([a-z_.-]+[a-z])`)
	for _, file := range append(files, "../../../docs/kubernetes.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range variable.FindAllString(string(text), -1) {
			if problem := strangeVariable(name); problem != "" {
				t.Errorf("%s: %s", file, problem)
			}
		}
		for _, match := range annotation.FindAllStringSubmatch(string(text), -1) {
			name := match[1]
			own := []string{"injection", inject.InjectLabel, inject.Status, inject.MemoryLimit, inject.MemoryRequest, inject.CPURequest, inject.RoleARN, inject.TokenAudience, inject.PodIdentity}
			if !slices.Contains(own, name) && config.KeyByName(name) == nil {
				t.Errorf("%s: sluice.dev/%s is no label, annotation or key", file, name)
			}
		}
	}
}

// The webhook's Deployment starts: its flags make an injector, and its volumes, ports and
// names fit together.
func TestWebhookManifest(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	const file = "inject/webhook.yaml: "
	deployment := only(t, all, file+"Deployment")
	pod := at(t, deployment, "spec", "template", "spec")
	c := at(t, pod, "containers", 0)
	command := NewCommand("")
	var args []string
	for _, arg := range at(t, c, "args").([]any)[1:] {
		args = append(args, arg.(string))
	}
	if err := command.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	flag := func(name string) string { return command.Flags().Lookup(name).Value.String() }
	settings, _ := command.Flags().GetStringArray("set")
	o := injectOptions{settings: settings, log: config.Log{Format: flag("log-format")},
		config: inject.Config{Image: flag("image"), MemoryLimit: flag("memory-limit"), MemoryRequest: flag("memory-request"), CPURequest: flag("cpu-request")}}
	injector, err := o.newInjector()
	if err != nil {
		t.Fatal(err)
	}
	if _, refused := injectedVariables(t, injector, nil); refused != "" {
		t.Errorf("a pod without annotations is refused: %s", refused)
	}

	mounted := at(t, c, "volumeMounts", 0, "mountPath").(string) + "/"
	if !strings.HasPrefix(flag("cert-file"), mounted) || !strings.HasPrefix(flag("key-file"), mounted) || at(t, c, "volumeMounts", 0, "name") != at(t, pod, "volumes", 0, "name") {
		t.Errorf("the certificate is not in %s", mounted)
	}
	if at(t, c, "ports", 0, "containerPort") != portNumber(flag("listen")) || at(t, c, "ports", 1, "containerPort") != portNumber(flag("admin-address")) {
		t.Errorf("ports %v", at(t, c, "ports"))
	}
	if replicas := at(t, deployment, "spec", "replicas"); replicas != 2 || at(t, only(t, all, file+"PodDisruptionBudget"), "spec", "minAvailable") != 1 {
		t.Errorf("%v replicas", replicas)
	}
	labels := at(t, deployment, "spec", "template", "metadata", "labels")
	service := only(t, all, file+"Service")
	for what, selector := range map[string]any{
		"Deployment": at(t, deployment, "spec", "selector", "matchLabels"), "Service": at(t, service, "spec", "selector"),
		"PodDisruptionBudget": at(t, only(t, all, file+"PodDisruptionBudget"), "spec", "selector", "matchLabels"),
	} {
		if !reflect.DeepEqual(selector, labels) {
			t.Errorf("%s selects %v, not %v", what, selector, labels)
		}
	}
	configuration := only(t, all, file+"MutatingWebhookConfiguration")
	hook := at(t, configuration, "webhooks", 0)
	if name := at(t, configuration, "metadata", "name").(string); name >= "pod-identity-webhook" {
		t.Errorf("%s is called behind AWS' webhook", name)
	}
	for _, want := range []struct {
		path []any
		want any
	}{
		{[]any{"failurePolicy"}, "Fail"}, {[]any{"reinvocationPolicy"}, "IfNeeded"}, {[]any{"sideEffects"}, "None"},
		{[]any{"clientConfig", "service", "path"}, inject.Path}, {[]any{"clientConfig", "service", "port"}, at(t, service, "spec", "ports", 0, "port")},
		{[]any{"clientConfig", "service", "name"}, at(t, service, "metadata", "name")}, {[]any{"clientConfig", "service", "namespace"}, at(t, service, "metadata", "namespace")},
	} {
		if got := at(t, hook, want.path...); got != want.want {
			t.Errorf("%v is %v, want %v", want.path, got, want.want)
		}
	}
	checkSelectors(t, "webhook", hook, at(t, deployment, "metadata", "namespace").(string))
}

func portNumber(address string) int {
	_, port, _ := strings.Cut(address, ":")
	var n int
	_ = json.Unmarshal([]byte(port), &n) // 0 is no port that anything has
	return n
}

// checkSelectors holds a registration to opted-in namespaces, and none of the system's or
// of the injector's own.
func checkSelectors(t *testing.T, what string, of any, own string) {
	t.Helper()
	expressions, err := json.Marshal(at(t, of, "namespaceSelector"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"matchExpressions":[{"key":"sluice.dev/injection","operator":"In","values":["enabled"]},` +
		`{"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["kube-system","` + own + `"]}]}`
	if string(expressions) != want {
		t.Errorf("%s: namespaces %s, want %s", what, expressions, want)
	}
	if objects, there := of.(map[string]any)["objectSelector"]; there {
		if got := at(t, objects, "matchExpressions", 0); !reflect.DeepEqual(got, map[string]any{"key": "sluice.dev/inject", "operator": "NotIn", "values": []any{"false"}}) {
			t.Errorf("%s: objects %v", what, got)
		}
	}
}

// The policy's container is the webhook's, value by value.
func TestPolicyInjectsTheSameContainer(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	const file = "inject/policy.yaml: "
	policy := only(t, all, file+"MutatingAdmissionPolicy")
	own := at(t, only(t, all, file+"ConfigMap"), "metadata", "namespace").(string)
	checkSelectors(t, "policy", at(t, policy, "spec", "matchConstraints"), own)
	checkSelectors(t, "validation", at(t, only(t, all, file+"ValidatingAdmissionPolicy"), "spec", "matchConstraints"), own)

	// The API server knows types of objects in mutations only.
	for _, v := range at(t, policy, "spec", "variables").([]any) {
		if e := at(t, v, "expression").(string); regexp.MustCompile(`\bObject\.`).MatchString(e) {
			t.Errorf("the policy's variable %v has a type: %s", at(t, v, "name"), e)
		}
	}

	expression := strings.Join(strings.Fields(at(t, policy, "spec", "mutations", 0, "jsonPatch", "expression").(string)), " ")
	v := testInjector(t).JudgePod(json.RawMessage(`{"metadata":{"annotations":{}},"spec":{"containers":[]}}`))
	var list []any
	for _, o := range v.Patch {
		if o.Path == "/spec/initContainers" {
			if err := json.Unmarshal(o.Value, &list); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(list) != 1 {
		t.Fatalf("got %+v", v)
	}
	container := list[0].(map[string]any)
	for v := range values(container) {
		parameter := v == container["image"] || v == configtest.Endpoint || v == "DSQL_BACKEND_ENDPOINT"
		if !parameter && !strings.Contains(expression, v) {
			t.Errorf("the policy's container lacks %s", v)
		}
	}
	// Nor has it anything else: as many names of members, and as many values.
	_, expression, _ = strings.Cut(expression, "initContainers{ ")
	expression, _, _ = strings.Cut(expression, "}}] +")
	expression = regexp.MustCompile(`env: variables\.keys.*?\]\) \+ \[`).ReplaceAllString(expression, "env: [") // what annotations and the ConfigMap say
	if got, want := len(regexp.MustCompile(`\w+'?: `).FindAllString(expression, -1)), members(container); got != want {
		t.Errorf("the policy's container has %d members, the webhook's %d", got, want)
	}
}

// values are all names and values below a decoded value, as CEL spells them.
func values(of any) func(yield func(string) bool) {
	var all []string
	var walk func(any)
	walk = func(of any) {
		switch of := of.(type) {
		case map[string]any:
			for name, below := range of {
				all = append(all, name)
				walk(below)
			}
		case []any:
			for _, below := range of {
				walk(below)
			}
		case string:
			all = append(all, of)
		default:
			text, _ := json.Marshal(of)
			all = append(all, string(text))
		}
	}
	walk(of)
	return slices.Values(all)
}

// members counts the members of the objects below a decoded value. The endpoint is
// not counted: it is the ConfigMap's.
func members(of any) (n int) {
	switch of := of.(type) {
	case map[string]any:
		if of["name"] == "DSQL_BACKEND_ENDPOINT" {
			return 0
		}
		n = len(of)
		for _, below := range of {
			n += members(below)
		}
	case []any:
		for _, below := range of {
			n += members(below)
		}
	}
	return n
}

// The container that people copy is the one that is injected.
func TestSidecarToCopyIsTheInjectedOne(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	v := testInjector(t).JudgePod(json.RawMessage(`{"spec":{"containers":[]}}`))
	var list []any
	for _, o := range v.Patch {
		if o.Path == "/spec/initContainers" {
			if err := json.Unmarshal(o.Value, &list); err != nil {
				t.Fatal(err)
			}
		}
	}
	copied := 0
	for name, objects := range all {
		for _, object := range objects {
			for _, c := range sluiceContainers(object) {
				if c["restartPolicy"] != "Always" {
					continue
				}
				copied++
				if got, want := asSets(t, c), asSets(t, list[0]); !slices.Equal(got, want) {
					t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
		}
	}
	if copied == 0 {
		t.Error("no manifest has a native sidecar")
	}
}

// asSets are the members of a container, and its variables, in the order of their names.
func asSets(t *testing.T, container any) (all []string) {
	t.Helper()
	for name, value := range container.(map[string]any) {
		list, isList := value.([]any)
		if name != "env" || !isList {
			list = []any{value}
		}
		for _, one := range list {
			text, err := json.Marshal(one)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, name+": "+string(text))
		}
	}
	slices.Sort(all)
	return all
}

// Alerts ask for metrics, labels and values that there are, and docs/operations.md has
// what to do.
func TestAlertsNameWhatExists(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	if err := config.PrintReference(&table); err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{} // of the table of metrics
	for line := range strings.Lines(table.String()) {
		if name, ok := strings.CutPrefix(line, "| `dsql_"); ok {
			name, _, _ = strings.Cut(name, "`")
			rows["dsql_"+name] = line
		}
	}
	runbook, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	metric := regexp.MustCompile(`(dsql_[a-z_]+)(?:\{(\w+)=~?"([^"]*)"\})?`)
	rules := at(t, only(t, manifests(t), "prometheusrule.yaml: PrometheusRule"), "spec", "groups", 0, "rules").([]any)
	for _, rule := range rules {
		name := at(t, rule, "alert").(string)
		if !strings.Contains(string(runbook), "| "+name+" |") {
			t.Errorf("docs/operations.md does not say what to do about %s", name)
		}
		found := metric.FindAllStringSubmatch(at(t, rule, "expr").(string), -1)
		if len(found) == 0 {
			t.Errorf("%s asks for no metric", name)
		}
		for _, m := range found {
			row := rows[m[1]]
			if row == "" {
				t.Errorf("%s: there is no metric %s", name, m[1])
				continue
			}
			for value := range strings.SplitSeq(m[3], "|") {
				if m[2] != "" && (!strings.Contains(row, "`"+m[2]+"`") || !regexp.MustCompile(`\b`+value+`\b`).MatchString(row)) {
					t.Errorf("%s: %s has no %s %s", name, m[1], m[2], value)
				}
			}
		}
	}
	if len(rules) != 7 {
		t.Errorf("%d alerts", len(rules))
	}
}

// Each of Temporal's pods gets a Sluice with what its annotations say.
func TestTemporalGetsItsSidecars(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../deploy/kubernetes/temporal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out, notes, err := injectManifests(testInjector(t), string(text))
	if err != nil || len(notes) != 0 {
		t.Fatalf("%v, %v", notes, err)
	}
	var got []string
	for _, doc := range splitDocuments(out) {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(doc), &object); err != nil {
			t.Fatal(err)
		}
		for _, c := range sluiceContainers(object) {
			env, _ := json.Marshal(c["env"])
			if !strings.Contains(string(env), `{"name":"DSQL_REWRITE_BYTEA","value":"hex"}`) {
				t.Errorf("%v: variables %s", at(t, object, "metadata", "name"), env)
			}
			got = append(got, at(t, object, "metadata", "name").(string))
		}
	}
	if want := []string{"temporal-schema", "temporal-frontend", "temporal-history", "temporal-matching", "temporal-worker"}; !slices.Equal(got, want) {
		t.Errorf("Sluice is in %q, want %q", got, want)
	}
}
