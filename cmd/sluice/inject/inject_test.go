package inject

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what came out as what is wanted")

// testKeys is a small table with one key of each sort.
var testKeys = []Key{
	{Name: "listen.address", Variable: "DSQL_LISTEN_ADDRESS", Default: "127.0.0.1:5432"},
	{Name: "admin.address", Variable: "DSQL_ADMIN_ADDRESS", Default: "127.0.0.1:9432"},
	{Name: "backend.endpoint", Variable: "DSQL_BACKEND_ENDPOINT"},
	{Name: "backend.user", Variable: "DSQL_BACKEND_USER", Default: "admin"},
	{Name: "backend.password", Variable: "DSQL_BACKEND_PASSWORD", Secret: true, Refused: "a secret: an annotation is no place for it"},
	{Name: "distributed.conn_lease_enabled", Variable: "DSQL_DISTRIBUTED_CONN_LEASE_ENABLED", Default: "false"},
	{Name: "drain.mode", Variable: "DSQL_DRAIN_MODE", Refused: "a native sidecar has the mode native"},
	{Name: "pins.max", Variable: "DSQL_PINS_MAX", Default: "50"},
	{Name: "settings.ignored", Variable: "DSQL_SETTINGS_IGNORED"},
}

// testCheck judges a configuration of testKeys.
func testCheck(values map[string]string) (problems []string) {
	if values["backend.endpoint"] == "" {
		problems = append(problems, "backend.endpoint: empty: name the cluster")
	}
	if value, set := values["pins.max"]; set {
		if _, err := strconv.Atoi(value); err != nil {
			problems = append(problems, fmt.Sprintf("pins.max: %q: want a whole number", value))
		}
	}
	if value, set := values["distributed.conn_lease_enabled"]; set && value != "true" && value != "1" && value != "false" {
		problems = append(problems, fmt.Sprintf("distributed.conn_lease_enabled: %q: want true or false", value))
	}
	return problems
}

func testConfig() Config {
	return Config{
		Image: "registry.example/sluice:1.0", MemoryLimit: "512Mi", MemoryRequest: "128Mi", CPURequest: "100m",
		Settings: map[string]string{"backend.endpoint": "abc.dsql.us-east-1.on.aws"},
		Keys:     testKeys, Check: testCheck,
		Suggest: func(name string) string {
			if name == "pins.maximum" {
				return "; did you mean pins.max?"
			}
			return ""
		},
		Exempt: []string{"kube-system"},
	}
}

func newTest(t testing.TB) *Injector {
	t.Helper()
	in, err := New(testConfig())
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// reviews reads testdata/reviews.
func reviews(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("testdata/reviews/*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d reviews: %v", len(names), err)
	}
	all := map[string][]byte{}
	for _, name := range names {
		body, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(name), ".json")] = body
	}
	return all
}

// An answer is an AdmissionReview's response as the API server reads it.
type answer struct {
	APIVersion, Kind string
	Response         struct {
		UID       string
		Allowed   bool
		PatchType string
		Patch     []byte
		Warnings  []string
		Status    *admissionStatus
	}
}

func answerTo(t testing.TB, in *Injector, body []byte) (a answer, r ReviewResult) {
	t.Helper()
	text, r, err := in.Review(body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &a); err != nil {
		t.Fatal(err)
	}
	return a, r
}

// objectOf is the object of a review.
func objectOf(t testing.TB, body []byte) json.RawMessage {
	t.Helper()
	return requestOf(t, body)["object"]
}

// requestOf is the request of a review. Names count as they are written, unlike in a
// struct's fields.
func requestOf(t testing.TB, body []byte) map[string]json.RawMessage {
	t.Helper()
	var review map[string]json.RawMessage
	var request map[string]json.RawMessage
	if err := json.Unmarshal(body, &review); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(review["request"], &request); err != nil {
		t.Fatal(err)
	}
	return request
}

// What becomes of each review stands beside it, to be read.
func TestReviews(t *testing.T) {
	t.Parallel()
	in := newTest(t)
	for name, body := range reviews(t) {
		a, r := answerTo(t, in, body)
		if want := uidOf(t, body); a.Response.UID != want || a.APIVersion != "admission.k8s.io/v1" || a.Kind != "AdmissionReview" {
			t.Errorf("%s: the answer is to %q, as %s of %s, want %q", name, a.Response.UID, a.Kind, a.APIVersion, want)
		}
		if (a.Response.PatchType == "JSONPatch") != (a.Response.Patch != nil) {
			t.Errorf("%s: patchType %q with a patch of %d bytes", name, a.Response.PatchType, len(a.Response.Patch))
		}
		var b bytes.Buffer
		fmt.Fprintf(&b, "outcome: %s\nallowed: %v\n", r.Outcome, a.Response.Allowed)
		if a.Response.Status != nil {
			fmt.Fprintf(&b, "status: %d %s\n  %s\n", a.Response.Status.Code, a.Response.Status.Reason, strings.ReplaceAll(a.Response.Status.Message, "; annotation", ";\n  annotation"))
		}
		fmt.Fprintf(&b, "warnings: %q\npatch: ", a.Response.Warnings)
		if a.Response.Patch == nil {
			b.WriteString("none")
		} else if err := json.Indent(&b, a.Response.Patch, "", "  "); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		b.WriteString("\n")
		golden := "testdata/reviews/" + name + ".answer"
		if *update {
			if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(golden); err != nil || string(want) != b.String() {
			t.Errorf("%s: %v: got\n%s\nwant\n%s", name, err, b.String(), want)
		}
	}
}

func uidOf(t testing.TB, body []byte) string {
	t.Helper()
	uid, _ := parseString(requestOf(t, body)["uid"])
	return uid
}

// injected returns the pod of a review with the patch of its answer.
func injected(t testing.TB, in *Injector, body []byte) map[string]any {
	t.Helper()
	a, _ := answerTo(t, in, body)
	if a.Response.Patch == nil {
		t.Fatalf("no patch: %+v", a.Response)
	}
	patched, err := applyPatch(decodeTree(t, objectOf(t, body)), a.Response.Patch)
	if err != nil {
		t.Fatal(err)
	}
	return patched.(map[string]any)
}

// AWS' webhook adds variables and volumes to all containers, ours included, when it runs
// after us; then the API server calls again.
func TestReinvocation(t *testing.T) {
	t.Parallel()
	in := newTest(t)
	pod := injected(t, in, reviews(t)["plain"])
	spec := pod["spec"].(map[string]any)
	for _, list := range []string{"containers", "initContainers"} {
		for _, c := range spec[list].([]any) {
			c := c.(map[string]any)
			env, _ := c["env"].([]any)
			c["env"] = append(env, map[string]any{"name": "AWS_ROLE_ARN", "value": "arn:aws:iam::111122223333:role/web"})
			mounts, _ := c["volumeMounts"].([]any)
			c["volumeMounts"] = append(mounts, map[string]any{"name": "aws-iam-token", "readOnly": true, "mountPath": "/var/run/secrets/eks.amazonaws.com/serviceaccount"})
		}
	}
	spec["volumes"] = append(spec["volumes"].([]any), map[string]any{"name": "aws-iam-token"})
	if v := in.JudgePod(encode(t, pod)); v.Outcome != Present || len(v.Patch) != 0 {
		t.Errorf("called again: %+v", v)
	}

	// One that comes in front of ours is no reason to move.
	spec["initContainers"] = slices.Insert(spec["initContainers"].([]any), 0, any(map[string]any{"name": "mesh", "restartPolicy": "Always"}))
	if v := in.JudgePod(encode(t, pod)); v.Outcome != Present || len(v.Patch) != 0 {
		t.Errorf("called again behind another sidecar: %+v", v)
	}

	// One that takes our port is.
	spec["containers"] = append(spec["containers"].([]any), map[string]any{"name": "late", "ports": []any{map[string]any{"containerPort": 9432}}})
	if v := in.JudgePod(encode(t, pod)); v.Outcome != Refused || !strings.Contains(v.Reason, "container late declares port 9432") {
		t.Errorf("called again with a clash: %+v", v)
	}
}

// Old webhooks decode pods into types that lack restartPolicy of init containers.
func TestLostRestartPolicy(t *testing.T) {
	t.Parallel()
	in := newTest(t)
	pod := injected(t, in, reviews(t)["plain"])
	delete(pod["spec"].(map[string]any)["initContainers"].([]any)[0].(map[string]any), "restartPolicy")
	if v := in.JudgePod(encode(t, pod)); v.Outcome != Refused || !strings.Contains(v.Reason, "has lost its restartPolicy") {
		t.Errorf("got %+v", v)
	}
}

// A copied annotation is no container.
func TestStatusAloneIsNoSidecar(t *testing.T) {
	t.Parallel()
	in := newTest(t)
	v := in.JudgePod(json.RawMessage(`{"metadata":{"annotations":{"sluice.dev/status":"injected"}},"spec":{"containers":[{"name":"a"}]}}`))
	if v.Outcome != Injected || len(v.Patch) != 2 {
		t.Errorf("got %+v", v)
	}
}

// What the profile "restricted" of Pod Security asks for, word for word, and what a
// sidecar must not have.
func TestSidecar(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain", "with-init-container", "annotations", "role", "pod-identity"} {
		pod := injected(t, newTest(t), reviews(t)[name])
		c := pod["spec"].(map[string]any)["initContainers"].([]any)[0].(map[string]any)
		for key, want := range map[string]string{
			"name": `"sluice"`, "restartPolicy": `"Always"`, "args": `["serve"]`,
			"startupProbe":    `{"failureThreshold":60,"httpGet":{"path":"/startupz","port":9432},"periodSeconds":1}`,
			"securityContext": `{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"readOnlyRootFilesystem":true,"runAsGroup":65532,"runAsNonRoot":true,"runAsUser":65532,"seccompProfile":{"type":"RuntimeDefault"}}`,
		} {
			if got := string(encode(t, c[key])); got != want {
				t.Errorf("%s: %s is %s, want %s", name, key, got, want)
			}
		}
		for _, absent := range []string{"lifecycle", "readinessProbe", "livenessProbe", "imagePullPolicy"} {
			if value, there := c[absent]; there {
				t.Errorf("%s: %s is %v", name, absent, value)
			}
		}
		limits := c["resources"].(map[string]any)["limits"].(map[string]any)
		if _, cpu := limits["cpu"]; cpu {
			t.Errorf("%s: the CPU is limited", name)
		}
		env := variables(c)
		limit, _ := parseQuantity(limits["memory"].(string))
		if want := percentInBytes(limit, 80); env["GOMEMLIMIT"] != want {
			t.Errorf("%s: GOMEMLIMIT is %s, want %s", name, env["GOMEMLIMIT"], want)
		}
		if env["DSQL_DRAIN_MODE"] != "native" || env["DSQL_ADMIN_ADDRESS"] != ":9432" {
			t.Errorf("%s: variables %v", name, env)
		}
	}
}

func variables(c map[string]any) map[string]string {
	all := map[string]string{}
	for _, v := range c["env"].([]any) {
		v := v.(map[string]any)
		all[v["name"].(string)] = v["value"].(string)
	}
	return all
}

// A container gets the text that stands in the annotation, whatever Kubernetes expands.
func TestValuesAreLiteral(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "$", "$$", "a$b", "$(HOME)", "$$(HOME)", "x$(", "$$$(A)$", "100%"} {
		if got := expand(escapeVariable(text)); got != text {
			t.Errorf("%q comes out as %q", text, got)
		}
	}
}

// expand is Kubernetes' expansion of a variable's value, in a container whose every
// variable is EXPANDED.
func expand(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		switch i++; text[i] {
		case '$':
			b.WriteByte('$')
		case '(':
			if end := strings.IndexByte(text[i:], ')'); end >= 0 {
				b.WriteString("EXPANDED")
				i += end
			} else {
				b.WriteString("$(")
			}
		default:
			b.WriteString("$" + text[i:i+1])
		}
	}
	return b.String()
}

func TestQuantity(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1": "1", "512Mi": "536870912", "1G": "1000000000", "1.5Gi": "1610612736", "100k": "100000", "2Ti": "2199023255552", "1500m": "1", "0.5Ki": "512",
		"": "", "0": "", "-1": "", "1mi": "", "Mi": "", "1e9": "", "1 Gi": "", "0x10": "", "1_000": "", "1/2": "", ".": "", "1Mi1": "", "1.2.3": "", "999999999999999999999": "",
	} {
		q, err := parseQuantity(text)
		if (err != nil) != (want == "") || err == nil && percentInBytes(q, 100) != want {
			t.Errorf("%q: %v, %v; want %q", text, q, err, want)
		}
	}
}

func TestNewTellsEverything(t *testing.T) {
	t.Parallel()
	c := testConfig()
	c.Image, c.MemoryLimit = "", "much"
	c.Settings = map[string]string{"admin.address": "127.0.0.1:9432", "pins.max": "x", "pins.maximum": "1", "drain.mode": "plain"}
	_, err := New(c)
	const want = `image: "": want the reference of Sluice's image
memory limit: "much": want a quantity such as 512Mi, 1G or 100m
setting admin.address: "127.0.0.1:9432": want the pod's address, such as :9432: the kubelet's startup probe asks there
setting drain.mode: a native sidecar has the mode native
setting pins.max: "x": want a whole number
setting pins.maximum: unknown configuration key; did you mean pins.max?`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

// A pod with more that is wrong than anybody reads costs no more than it must.
func TestRefusalIsBounded(t *testing.T) {
	t.Parallel()
	c := testConfig()
	guesses := 0
	c.Suggest = func(name string) string {
		if guesses++; len(name) > maxName {
			t.Errorf("a guess at a name of %d bytes", len(name))
		}
		return ""
	}
	in, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	guesses = 0
	annotations := map[string]string{Prefix + strings.Repeat("k", 1<<20): "", Prefix + "pins.max": strings.Repeat("é", 1<<20)}
	for i := range 9_000 {
		annotations[fmt.Sprintf("%sa%d", Prefix, i)] = "x"
	}
	pod := encode(t, map[string]any{"metadata": map[string]any{"annotations": annotations}, "spec": map[string]any{}})
	v := in.JudgePod(pod)
	if v.Outcome != Refused || len(v.Reason) > (maxProblems+1)*(maxProblem+10) || !strings.HasSuffix(v.Reason, "and 8982 more") || guesses > maxProblems {
		t.Errorf("%d bytes, %d guesses: %s", len(v.Reason), guesses, v.Reason)
	}
}

// No annotation of the injector's own can be taken for a key, and every name is one that
// Kubernetes accepts.
func TestOwnAnnotations(t *testing.T) {
	t.Parallel()
	for _, name := range ownAnnotations {
		if strings.ContainsAny(name, "._") || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz-") != "" {
			t.Errorf("%s looks like a key", name)
		}
	}
}

func TestManifest(t *testing.T) {
	t.Parallel()
	const template = `{"spec":{"containers":[{"name":"a"}]}}`
	host := `{"spec":{"hostNetwork":true,"containers":[{"name":"a"}]}}`
	clash := `{"spec":{"containers":[{"name":"a","ports":[{"containerPort":5432}]}]}}`
	for _, test := range []struct {
		doc   string
		paths []string // of the patch
		notes int
		err   string
	}{
		{`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{}}`, []string{"/metadata/annotations", "/spec/initContainers"}, 0, ""},
		{`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"template":` + template + `}}`, []string{"/spec/template/metadata", "/spec/template/spec/initContainers"}, 0, ""},
		{`{"apiVersion":"apps/v1","kind":"StatefulSet","spec":{"template":` + template + `}}`, []string{"/spec/template/metadata", "/spec/template/spec/initContainers"}, 0, ""},
		{`{"apiVersion":"apps/v1","kind":"DaemonSet","spec":{"template":` + template + `}}`, []string{"/spec/template/metadata", "/spec/template/spec/initContainers"}, 0, ""},
		{`{"apiVersion":"batch/v1","kind":"Job","spec":{"template":` + template + `}}`, []string{"/spec/template/metadata", "/spec/template/spec/initContainers"}, 0, ""},
		{`{"apiVersion":"batch/v1","kind":"CronJob","spec":{"jobTemplate":{"spec":{"template":` + template + `}}}}`,
			[]string{"/spec/jobTemplate/spec/template/metadata", "/spec/jobTemplate/spec/template/spec/initContainers"}, 0, ""},
		{`{"apiVersion":"v1","kind":"List","items":[{"kind":"ConfigMap","apiVersion":"v1"},{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"batch/v1","kind":"Job","spec":{"template":` + template + `}}]}]}`,
			[]string{"/items/1/items/0/spec/template/metadata", "/items/1/items/0/spec/template/spec/initContainers"}, 0, ""},
		{`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"template":` + host + `}}`, []string{"/spec/template/metadata"}, 1, ""},
		{`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"template":` + clash + `}},{"apiVersion":"v1","kind":"Pod","spec":{"containers":7}}]}`,
			nil, 0, "Deployment web: container a declares port 5432, which is Sluice's listen.address: take another one in the container, " +
				"or set annotation sluice.dev/listen.address, such as \"127.0.0.1:6432\"\nPod: spec.containers: want a list"},
		{`{"apiVersion":"apps/v1","kind":"Deployment","spec":{}}`, nil, 0, "Deployment: spec: there is none"},
		{`{"apiVersion":"apps/v1","kind":"Deployment","spec":[]}`, nil, 0, "Deployment: spec: want an object"},
		{`{"kind":"Pod","kind":"Service"}`, nil, 0, "\"kind\" stands there twice"},
		// Not Kubernetes' own kinds, or none at all.
		{`{"apiVersion":"batch.example/v1","kind":"Job","spec":{"template":` + template + `}}`, nil, 0, ""},
		{`{"apiVersion":"v1","kind":"Service","spec":{}}`, nil, 0, ""},
		{`{"items":[]}`, nil, 0, ""}, {`[]`, nil, 0, ""}, {`7`, nil, 0, ""}, {`null`, nil, 0, ""}, {`{}`, nil, 0, ""},
	} {
		patch, notes, err := newTest(t).PatchManifest(json.RawMessage(test.doc))
		var paths []string
		for _, o := range patch {
			paths = append(paths, o.Path)
		}
		if text := fmt.Sprint(err); !slices.Equal(paths, test.paths) || len(notes) != test.notes || text != test.err && (err != nil || test.err != "") {
			t.Errorf("%s:\n%q, %v, %v; want\n%q, %d notes, %q", test.doc, paths, notes, err, test.paths, test.notes, test.err)
		}
		if _, err := ApplyPatch([]byte(test.doc), patch); err != nil {
			t.Errorf("%s: %v", test.doc, err)
		}
	}
}

// What a patch does not name keeps its bytes.
func TestApplyKeepsBytes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		doc, path, want string // "" is an error
	}{
		{`{ "a" : 1.50 , "b":{ } }`, "/b/c", `{ "a" : 1.50 , "b":{"c":V } }`},
		{`{"a": [ 1e400,2 ]}`, "/a/0", `{"a": [ V,1e400,2 ]}`},
		{`{"a": [ 1e400,2 ]}`, "/a/-", `{"a": [ 1e400,2,V ]}`},
		{`{"a":[ ]}`, "/a/0", `{"a":[V ]}`},
		{`{"a":[]}`, "/a/-", `{"a":[V]}`},
		{`{"a":null,"b":0}`, "/a", `{"a":V,"b":0}`},
		{`{"a/b":{"c~d":1}}`, "/a~1b/c~0d", `{"a/b":{"c~d":V}}`},
		{`[{"x":1},{"y":2}]`, "/1/y", `[{"x":1},{"y":V}]`},
		{`{"a":{}}`, "/b/c", ""}, {`{"a":1}`, "/a/b", ""}, {`{"a":[1]}`, "/a/7", ""}, {`{"a":[1]}`, "/a/x", ""}, {`{"a":[]}`, "/a/0/b", ""}, {`{"a"`, "/a", ""}, {``, "/a", ""},
	} {
		got, err := ApplyPatch([]byte(test.doc), []PatchOperation{{Op: "add", Path: test.path, Value: json.RawMessage("V")}})
		if string(got) != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%s %s: %s, %v; want %s", test.doc, test.path, got, err, test.want)
		}
	}
}

func TestMembers(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		`{"b":1,"B":2}`: "B b", `{}`: "", `null`: "", `[]`: "!", `7`: "!", `{"a":1,"a":1}`: "!", `{"\u0061":1,"a":1}`: "!", `{"a"}`: "!", `{"a":1`: "!", `{"a":1,}`: "!",
	} {
		all, err := parseObject(json.RawMessage(doc))
		got := strings.Join(slices.Sorted(maps.Keys(all)), " ")
		if err != nil {
			got = "!"
		}
		if got != want {
			t.Errorf("%s: %q (%v), want %q", doc, got, err, want)
		}
	}
}
