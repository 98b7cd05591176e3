package injectcmd

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-proxy/sluice/cmd/sluice/cli"
	"github.com/sluice-proxy/sluice/cmd/sluice/config"
	"github.com/sluice-proxy/sluice/cmd/sluice/config/configtest"
	"github.com/sluice-proxy/sluice/cmd/sluice/daemon"
	"github.com/sluice-proxy/sluice/cmd/sluice/inject"
	"github.com/sluice-proxy/sluice/integration/certs"

	"github.com/spf13/cobra"
)

// injectFlags are enough to inject anything.
var injectFlags = []string{"--image", "registry.example/sluice:1.0", "--set", "backend.endpoint=" + configtest.Endpoint}

// runInject runs the filter on a text.
func runInject(t *testing.T, text string, flags ...string) (code int, stdout, stderr string) {
	t.Helper()
	configtest.Source{}.Prepare(t)
	root := newRoot()
	root.SetIn(strings.NewReader(text))
	var out, errs bytes.Buffer
	code = cli.Execute(root, append(append([]string{"inject", "-f", "-"}, injectFlags...), flags...), &out, &errs)
	return code, out.String(), errs.String()
}

// testInjector is what runInject injects by.
func testInjector(t *testing.T, settings ...string) *inject.Injector {
	t.Helper()
	o := injectOptions{settings: append([]string{"backend.endpoint=" + configtest.Endpoint}, settings...), log: config.Log{Format: "text"},
		config: inject.Config{Image: "registry.example/sluice:1.0", MemoryLimit: "512Mi", MemoryRequest: "128Mi", CPURequest: "100m"}}
	injector, err := o.newInjector()
	if err != nil {
		t.Fatal(err)
	}
	return injector
}

func TestInjectFilter(t *testing.T) {
	for _, name := range []string{"deployment", "several", "anchors"} {
		in, err := os.ReadFile("testdata/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		code, out, errs := runInject(t, string(in))
		golden := "testdata/" + name + ".injected.yaml"
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(golden, []byte(out), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(golden); code != cli.ExitOK || err != nil || out != string(want) {
			t.Errorf("%s: exit code %d, %v, %s; got\n%s\nwant\n%s", name, code, err, errs, out, want)
		}
		if code, again, errs := runInject(t, out); code != cli.ExitOK || again != out {
			t.Errorf("%s: a second time: exit code %d, %s; got\n%s", name, code, errs, again)
		}
	}
}

func TestInjectFilterEnds(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web}]}\n"
	for _, test := range []struct {
		name, in string
		flags    []string
		code     int
		out, err string // what they contain; "" is nothing at all
	}{
		{"a pod", pod, nil, cli.ExitOK, "restartPolicy: Always", ""},
		{"a value of a pod", strings.Replace(pod, "{name: web}\n", "{name: web, annotations: {sluice.dev/pins.max: many}}\n", 1), nil, cli.ExitRuntime, "",
			"document 1: Pod web: annotation sluice.dev/pins.max: \"many\": want a whole number"},
		{"a value that goes with no other", strings.Replace(pod, "{name: web}\n", "{name: web, annotations: {sluice.dev/auth.method: cert}}\n", 1), nil, cli.ExitRuntime, "",
			"tls.client_ca_file: empty: "},
		{"one of two is refused", pod + "---\n" + strings.Replace(pod, "name: web}]", "name: web, ports: [{containerPort: 9432}]}]", 1), nil, cli.ExitRuntime, "", "document 2: Pod web: container web declares port 9432"},
		{"skipped", strings.Replace(pod, "spec: {", "spec: {hostNetwork: yes, ", 1), nil, cli.ExitOK, "skipped: hostNetwork", "Pod web gets no Sluice: hostNetwork"},
		{"label that is no text", strings.Replace(pod, "{name: web}\n", "{name: web, labels: {sluice.dev/inject: false}}\n", 1), nil, cli.ExitRuntime, "", "sluice.dev/inject: false: want text; put it in quotes"},
		{"no YAML", "a: b: c\n", nil, cli.ExitRuntime, "", "document 1: yaml: "},
		{"a document without its line", "a: b\n...\nc: d\n", nil, cli.ExitRuntime, "", "another document begins without a line ---"},
		{"aliases of aliases", "a: &a [x, x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]\n" +
			"d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]\ne: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]\nf: [*e, *e, *e, *e, *e, *e, *e, *e, *e, *e]\n", nil, cli.ExitRuntime, "", "aliases stand for too much"},
		{"an alias within itself", "a: &a [*a]\n", nil, cli.ExitRuntime, "", "aliases stand for too much"},
		{"nothing", "", nil, cli.ExitOK, "", ""},
		{"a setting that is wrong", pod, []string{"--set", "pins.max=x"}, cli.ExitUsage, "", "setting pins.max: \"x\": want a whole number"},
		{"a setting that is none", pod, []string{"--set", "pins.max"}, cli.ExitUsage, "", "--set: \"pins.max\": want key=value"},
		{"no such file", pod, []string{"-f", "/none"}, cli.ExitUsage, "", "/none: no such file or directory"},
		{"no image", pod, []string{"--image", ""}, cli.ExitUsage, "", "image: \"\": want the reference"},
		{"log format", pod, []string{"--log-format", "xml"}, cli.ExitUsage, "", "--log-format: \"xml\": want text or json"},
		{"nothing to serve with", pod, []string{"-f", ""}, cli.ExitUsage, "", "the webhook needs --cert-file and --key-file"},
		{"no certificate", pod, []string{"-f", "", "--cert-file=/none", "--key-file=/none"}, cli.ExitUsage, "", "--cert-file: open /none"},
	} {
		code, out, errs := runInject(t, test.in, test.flags...)
		if code != test.code || !strings.Contains(out, test.out) || (out == "") != (test.out == "") || !strings.Contains(errs, test.err) || (errs == "") != (test.err == "") {
			t.Errorf("%s: exit code %d\n%s\n%s\nwant %d, %q, %q", test.name, code, out, errs, test.code, test.out, test.err)
		}
	}
}

// What has no pod keeps its bytes, in YAML and in JSON, whatever its style.
func TestInjectPassesTheRest(t *testing.T) {
	for _, text := range []string{
		"# nothing but a comment\n",
		"---\n---\n\n# a\n---   # b\na:   [ 1.50,0x10, 1e400 ]\nb: &x {c:   d}\ne: *x\n--- |\n text\n...\n",
		"a: |\n  ---\n  b\n---\r\nkind: Service\r\napiVersion: v1\r\n",
		`{ "kind":"Service","apiVersion":"v1", "x":1e400 }` + "\n\n" + `{"kind":"Pods"}`,
		"kind: Job\napiVersion: batch.example/v1\nspec: {template: {spec: {containers: []}}}",
		"- 1\n- 2\n", "[1, 2]", "text",
	} {
		if code, out, errs := runInject(t, text); code != cli.ExitOK || out != text {
			t.Errorf("%q: exit code %d, %s; got %q", text, code, errs, out)
		}
	}
}

// A manifest comes out the same from YAML and from JSON.
func TestInjectYAMLAndJSONAgree(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("../inject/testdata/reviews/*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d reviews: %v", len(names), err)
	}
	in := testInjector(t)
	changed := 0
	for _, name := range names {
		body, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var review struct{ Request struct{ Object any } }
		if err := json.Unmarshal(body, &review); err != nil {
			t.Fatal(err)
		}
		asJSON, err := json.Marshal(review.Request.Object)
		if err != nil {
			t.Fatal(err)
		}
		asYAML, err := yaml.Marshal(review.Request.Object)
		if err != nil {
			t.Fatal(err)
		}
		fromJSON, _, errJSON := injectManifests(in, string(asJSON))
		fromYAML, _, errYAML := injectManifests(in, string(asYAML))
		if (errJSON == nil) != (errYAML == nil) || errJSON != nil && errJSON.Error() != errYAML.Error() {
			t.Errorf("%s: %v from JSON, %v from YAML", name, errJSON, errYAML)
			continue
		}
		var a, b any
		if err := yaml.Unmarshal([]byte(fromJSON), &a); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(fromYAML), &b); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: from JSON\n%s\nfrom YAML\n%s", name, fromJSON, fromYAML)
		}
		if errJSON == nil && fromYAML != string(asYAML) {
			changed++
		}
	}
	if changed < 5 {
		t.Errorf("only %d of %d were changed", changed, len(names))
	}
}

func TestKeysPerPod(t *testing.T) {
	t.Parallel()
	for name := range refusedInPods {
		if config.KeyByName(name) == nil {
			t.Errorf("%s is no key", name)
		}
	}
	all := podKeys()
	for i, k := range all {
		if len(k.Name) > 63 || strings.Contains(k.Name, "-") || strings.Trim(k.Name, "abcdefghijklmnopqrstuvwxyz0123456789._") != "" {
			t.Errorf("%s cannot be the name of an annotation, or looks like one that is no key", k.Name)
		}
		if config.Keys[i].Secret != k.Secret || k.Secret && k.Refused == "" {
			t.Errorf("%s: a secret may stand in an annotation", k.Name)
		}
	}
	if problems := config.CheckPodValues(map[string]string{"backend.endpoint": configtest.Endpoint, "admin.address": ":9432"}); problems != nil {
		t.Errorf("a pod without annotations: %q", problems)
	}
}

// Every key that a pod may set arrives: serve would run by that value.
func TestEveryAnnotationArrives(t *testing.T) {
	configtest.Source{}.Prepare(t)
	arrived := 0
	for i := range config.Keys {
		k := &config.Keys[i]
		if refusedInPods[k.Name] != "" || k.Secret || k.Name == "admin.address" || k.Name == "listen.address" {
			continue
		}
		text, want := configtest.NonDefaultValue(k, i)
		env, refused := injectedVariables(t, testInjector(t), map[string]string{"sluice.dev/" + k.Name: text})
		if refused != "" { // the value wants another key beside it, or is none for this key
			if problems := config.CheckPodValues(map[string]string{"backend.endpoint": configtest.Endpoint, k.Name: text}); len(problems) == 0 {
				t.Errorf("%s: %s: refused although serve takes it: %s", k.Name, text, refused)
			}
			continue
		}
		arrived++
		t.Setenv(k.EnvName(), strings.ReplaceAll(env[k.EnvName()], "$$", "$"))
		if got := config.LoadWithProblems("", daemon.NewServe("").Flags()).Config.Value(k.Name); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, want %#v", k.Name, got, want)
		}
		if err := os.Unsetenv(k.EnvName()); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d keys", arrived)
	if arrived < 60 {
		t.Errorf("only %d keys have arrived", arrived)
	}
}

// injectedVariables is the environment of the container that a pod with annotations
// gets, or why the pod is refused.
func injectedVariables(t *testing.T, in *inject.Injector, annotations map[string]string) (env map[string]string, refused string) {
	t.Helper()
	pod, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}, "spec": map[string]any{"containers": []any{}}})
	if err != nil {
		t.Fatal(err)
	}
	v := in.JudgePod(pod)
	for _, o := range v.Patch {
		if o.Path != "/spec/initContainers" {
			continue
		}
		var list []struct {
			Env []struct{ Name, Value string }
		}
		if err := json.Unmarshal(o.Value, &list); err != nil {
			t.Fatal(err)
		}
		env = map[string]string{}
		for _, v := range list[0].Env {
			env[v.Name] = v.Value
		}
		return env, ""
	}
	return nil, v.Reason
}

// The variables of an injected container are those of keys.
func TestVariablesOfTheInjectedContainer(t *testing.T) {
	t.Parallel()
	env, _ := injectedVariables(t, testInjector(t, "pins.max=7"), nil)
	if env["DSQL_PINS_MAX"] != "7" || env["DSQL_DRAIN_MODE"] != "native" {
		t.Errorf("got %v", env)
	}
	for name := range env {
		if problem := strangeVariable(name); problem != "" {
			t.Error(problem)
		}
	}
}

// strangeVariable says what is wrong with a variable of a Sluice container, "" for nothing.
func strangeVariable(name string) string {
	if !strings.HasPrefix(name, config.EnvPrefix) {
		return ""
	}
	for i := range config.Keys {
		if config.Keys[i].EnvName() == name {
			return ""
		}
	}
	return "the variable " + name + " is of no key"
}

// A webhook that runs: a call, metrics, a certificate that is replaced, the end.
func TestWebhookRuns(t *testing.T) {
	t.Parallel()
	ca := certs.SelfSigned("ca")
	certFile, keyFile := certs.WriteTestFiles(t, certs.SignedBy(ca, "first"))
	o := &injectOptions{listen: "127.0.0.1:0", admin: "127.0.0.1:0", certFile: certFile, keyFile: keyFile}
	w, err := newWebhook(o, testInjector(t), "v0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.run(ctx) }()

	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: certs.CertPool(ca)}, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	review, err := os.ReadFile("../inject/testdata/reviews/plain.json")
	if err != nil {
		t.Fatal(err)
	}
	call := func() (body, peer string) {
		t.Helper()
		r, err := client.Post("https://"+w.calls.Addr().String()+inject.Path, "application/json", bytes.NewReader(review))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text), r.TLS.PeerCertificates[0].Subject.CommonName
	}
	get := func(path string) (code int, body string) {
		t.Helper()
		r, err := client.Get("http://" + w.plain.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(text)
	}
	if body, peer := call(); !strings.Contains(body, `"allowed":true`) || peer != "first" {
		t.Errorf("%s by %s", body, peer)
	}
	if code, body := get("/readyz"); code != http.StatusOK {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if _, body := get("/metrics"); !strings.Contains(body, "dsql_inject_pods_total{outcome=\"injected\"} 1\n") {
		t.Errorf("/metrics: %s", body)
	}
	if err := certs.Write(certs.SignedBy(ca, "second"), certFile, keyFile); err != nil {
		t.Fatal(err)
	}
	peer := ""
	for end := time.Now().Add(time.Minute); peer != "second" && time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		_, peer = call()
	}
	if peer != "second" {
		t.Error("the new certificate is not in use after a minute")
	}

	cancel()
	for end := time.Now().Add(time.Minute); !w.draining.Load() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if code, _ := get("/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz in a drain: %d", code)
	}
	if body, _ := call(); !strings.Contains(body, `"allowed":true`) {
		t.Errorf("in a drain: %s", body)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// newRoot returns sluice with the commands that containers run.
func newRoot() *cobra.Command {
	return cli.NewRoot(daemon.NewServe("v0"), daemon.NewHealthcheck(), NewCommand("v0"))
}
