package charts

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write testdata/containers.json")

const endpoint = "abcdefghijklmnopqrstuvwxyz.dsql.us-east-1.on.aws"

// A variant is one way to use the chart.
type variant struct {
	name    string
	release string // "" is sluice
	values  string
	want    []string // every object, by kind and name, sorted
	notes   []string // what NOTES.txt contains
}

// injectorObjects are those of each certificate mode.
func injectorObjects(others ...string) []string {
	all := append([]string{"Deployment sluice-injector", "MutatingWebhookConfiguration inject.sluice.dev", "PodDisruptionBudget sluice-injector",
		"Service sluice-injector", "ServiceAccount sluice-injector"}, others...)
	slices.Sort(all)
	return all
}

func proxyObjects(name string, others ...string) []string {
	all := append([]string{"Deployment " + name, "PodDisruptionBudget " + name, "Service " + name, "ServiceAccount " + name}, others...)
	slices.Sort(all)
	return all
}

// variants are how the chart is used. The values of the last name every value there is but
// those that another variant has.
var variants = []variant{
	{name: "nothing asked for", want: nil, notes: []string{"Nothing runs yet"}},
	{name: "injector, certificate by Helm", values: `{injector: {enabled: true}, config: {backend.endpoint: ` + endpoint + `}}`,
		want: injectorObjects("Secret sluice-injector-tls"), notes: []string{"127.0.0.1:5432", "sluice.dev/injection=enabled"}},
	{name: "injector without an endpoint", values: `{injector: {enabled: true}, config: {listen.address: "127.0.0.1:6432"}}`,
		want: injectorObjects("Secret sluice-injector-tls"), notes: []string{"127.0.0.1:6432", "needs the annotation sluice.dev/backend.endpoint"}},
	{name: "injector, certificate by cert-manager", values: `{injector: {enabled: true, certificates: {mode: cert-manager}}}`,
		want: injectorObjects("Certificate sluice-injector", "Certificate sluice-injector-ca", "Issuer sluice-injector", "Issuer sluice-injector-self-signed")},
	{name: "injector, certificate of one's own", values: `{injector: {enabled: true, certificates: {mode: secret, secret: mine, caBundle: QQ==}}}`,
		want: injectorObjects()},
	{name: "standalone", release: "db", values: `{standalone: {enabled: true, usersSecret: users}, config: {backend.endpoint: ` + endpoint + `}}`,
		want: proxyObjects("db-sluice"), notes: []string{"host=db-sluice.sluice-system.svc port=5432 user"}},
	{name: "leases", values: `{lease: {enabled: true, table: sluice}, standalone: {enabled: true, usersSecret: users, terminationGracePeriodSeconds: 90},
  injector: {enabled: true}, config: {backend.endpoint: ` + endpoint + `, distributed.rate_limiter_enabled: false}}`,
		want: injectorObjects(proxyObjects("sluice", "Secret sluice-injector-tls")...)},
	{name: "metrics", values: `{metrics: {podMonitor: {enabled: true}, prometheusRule: {enabled: true}}}`,
		want: []string{"PodMonitor sluice", "PrometheusRule sluice"}},
	{name: "everything", values: everything,
		want:  injectorObjects(proxyObjects("sluice", "Secret sluice-injector-tls", "PodMonitor sluice", "PrometheusRule sluice")...),
		notes: []string{"port=6543 sslmode=require user=... dbname=shop", "kubectl label namespace"}},
}

const everything = `
image:
  repository: registry.example/sluice
  digest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
  pullPolicy: Always
  pullSecrets: [{name: registry}]
config:
  backend.endpoint: ` + endpoint + `
  backend.database: shop
  backend.user: a$(HOME)$$b
  reservoir.enabled: true
  backend.max_message_bytes: 5000000
  retry.jitter_factor: 0.25
  retry.budget_per_second: 20
  rewrite.chunked_delete: [history_*, timers]
  drain.timeout: 40s
lease: {enabled: true, table: sluice}
standalone:
  enabled: true
  replicas: 3
  port: 6543
  usersSecret: users
  tlsSecret: tls
  serviceAccount:
    annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::123456789012:role/sluice"}
  resources: {requests: {cpu: 1, memory: 1Gi}, limits: {memory: 1Gi}}
  memoryLimit: 819MiB
  terminationGracePeriodSeconds: 45
  podLabels: {team: shop}
  podAnnotations: {example.com/scrape: "no"}
  nodeSelector: {kubernetes.io/arch: amd64}
  tolerations: [{key: db, operator: Exists, effect: NoSchedule}]
  affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: zone}}]}}
injector:
  enabled: true
  replicas: 3
  resources: {requests: {cpu: 50m, memory: 128Mi}, limits: {memory: 512Mi}}
  memoryLimit: 410MiB
  timeoutSeconds: 10
  certificates: {mode: helm, days: 30}
metrics:
  podMonitor: {enabled: true, interval: 15s, labels: {release: prometheus}}
  prometheusRule: {enabled: true, labels: {release: prometheus}}
`

func TestVariants(t *testing.T) {
	for _, v := range variants {
		for _, version := range kubeVersions {
			t.Run(v.name+" on "+version, func(t *testing.T) {
				r := mustRender(t, release{name: v.release, kubeVersion: version}, v.values)
				var got []string
				for _, o := range r.objects {
					got = append(got, o.name())
				}
				slices.Sort(got)
				if !slices.Equal(got, v.want) {
					t.Errorf("got  %q\nwant %q", got, v.want)
				}
				if len(v.want) > 0 {
					conforms(t, v.name, r.text, len(v.want))
				}
				for _, part := range v.notes {
					if !strings.Contains(r.notes, part) {
						t.Errorf("the notes lack %q:\n%s", part, r.notes)
					}
				}
				if strings.Contains(r.notes, "<no value>") || strings.Contains(r.notes, "Nothing runs") == strings.Contains(r.text, "kind: Deployment") {
					t.Errorf("notes:\n%s", r.notes)
				}
				fits(t, r)
			})
		}
	}
}

// Each value of values.yaml is set to something else by a variant.
func TestEveryValueIsTried(t *testing.T) {
	defaults := map[string]string{}
	leaves("", loadChart(t).Values, defaults)
	if len(defaults) < 30 {
		t.Fatalf("%d values", len(defaults))
	}
	changed := map[string]bool{}
	for _, v := range variants {
		var values map[string]any
		if err := yaml.Unmarshal([]byte(v.values), &values); err != nil {
			t.Fatal(err)
		}
		given := map[string]string{}
		leaves("", values, given)
		for path := range defaults {
			for other, value := range given {
				if (other == path || strings.HasPrefix(other, path+".")) && value != defaults[path] {
					changed[path] = true
				}
			}
		}
	}
	changed["image.tag"] = true // TestImage
	for path := range defaults {
		if !changed[path] {
			t.Errorf("no variant changes %s", path)
		}
	}
}

// No value is forgotten by the templates: without it something else is rendered.
func TestEveryValueHasAnEffect(t *testing.T) {
	shown := func(r rendering) string { return r.text + r.notes }
	installed := mustRender(t, release{}, everything)
	whole := shown(installed)
	upgrade := release{engine: cluster(t, map[string]object{secretPath: installed.one(t, "Secret sluice-injector-tls")})}
	if again := shown(mustRender(t, upgrade, everything)); again != whole {
		t.Fatal("the same values render something else")
	}
	var values map[string]any
	if err := yaml.Unmarshal([]byte(everything), &values); err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{}
	leaves("", values, paths)
	tried := 0
	for path := range paths {
		if strings.HasPrefix(path, "config.") || strings.HasPrefix(path, "injector.certificates.") {
			continue // TestContainers; authorities
		}
		tried++
		less, err := yaml.Marshal(without(values, strings.Split(path, ".")))
		if err != nil {
			t.Fatal(err)
		}
		r, err := upgrade.render(loadChart(t), string(less))
		if err == nil && shown(r) == whole {
			t.Errorf("%s has no effect", path)
		}
	}
	if tried < 25 {
		t.Errorf("%d values", tried)
	}
}

// without is a copy of a map that lacks a path; a name in it may have dots.
func without(of map[string]any, path []string) map[string]any {
	less := maps.Clone(of)
	for n := 1; n <= len(path); n++ {
		name := strings.Join(path[:n], ".")
		below, is := less[name].(map[string]any)
		if _, there := less[name]; n == len(path) || there && !is {
			delete(less, name)
			return less
		}
		if is {
			less[name] = without(below, path[n:])
			return less
		}
	}
	return less
}

// leaves gathers the values below a map that are no maps, or empty ones, by their paths.
func leaves(path string, of any, found map[string]string) {
	m, is := of.(map[string]any)
	if !is || len(m) == 0 {
		text, _ := json.Marshal(of)
		found[strings.TrimPrefix(path, ".")] = string(text)
		return
	}
	for name, below := range m {
		leaves(path+"."+name, below, found)
	}
}

func TestImage(t *testing.T) {
	const injector = `{injector: {enabled: true}, image: `
	for values, want := range map[string]string{
		injector + `{}}`: "ghcr.io/sluice-proxy/sluice:" + loadChart(t).AppVersion(),
		injector + `{repository: registry.example/s, tag: "2.0"}}`:                                                   "registry.example/s:2.0",
		injector + `{repository: registry.example/s, tag: "2.0", digest: "sha256:` + strings.Repeat("0", 64) + `"}}`: "registry.example/s@sha256:" + strings.Repeat("0", 64),
	} {
		c := at(mustRender(t, release{}, values).one(t, "Deployment sluice-injector"), "spec", "template", "spec", "containers", 0)
		if at(c, "image") != want || !slices.Contains(list(c, "args"), any("--image="+want)) {
			t.Errorf("%s: runs %v, injects %v", values, at(c, "image"), list(c, "args"))
		}
	}
}

// helm lint finds nothing but that there is no icon.
func TestLint(t *testing.T) {
	for _, v := range variants {
		for _, version := range kubeVersions {
			var values map[string]any
			if err := yaml.Unmarshal([]byte(v.values), &values); err != nil {
				t.Fatal(err)
			}
			kube, err := chartutil.ParseKubeVersion(version)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range lint.AllWithKubeVersion(chartDir, values, namespace, kube).Messages {
				if m.Severity > support.InfoSev || !strings.Contains(m.Error(), "icon is recommended") {
					t.Errorf("%s on %s: %v", v.name, version, m)
				}
			}
		}
	}
}

// A ran is a container of the chart as the test of cmd/sluice/injectcmd reads it.
type ran struct {
	Variant, Container string
	Args               []any
	Env                map[string]any
}

// testdata/containers.json is what the chart runs.
func TestContainers(t *testing.T) {
	var all []ran
	for _, v := range variants {
		r := mustRender(t, release{name: v.release}, v.values)
		for _, o := range r.objects {
			for _, c := range list(o, "spec", "template", "spec", "containers") {
				one := ran{Variant: v.name, Container: fmt.Sprint(at(c, "name")), Args: list(c, "args"), Env: map[string]any{}}
				for _, variable := range list(c, "env") {
					one.Env[fmt.Sprint(at(variable, "name"))] = at(variable, "value")
				}
				all = append(all, one)
			}
		}
	}
	if len(all) < 8 {
		t.Fatalf("%d containers", len(all))
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/containers.json"
	if *update {
		if err := os.WriteFile(golden, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || string(want) != string(text)+"\n" {
		t.Errorf("%s is out of date (%v): go test . -run TestContainers -update, then go test ./cmd/sluice/injectcmd -run TestChart", golden, err)
	}
}
