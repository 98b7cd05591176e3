package charts

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/yannh/kubeconform/pkg/validator"
)

// words are what a reader replaces in a manifest.
var words = strings.NewReplacer("IMAGE", "registry.example/sluice:1.0", "CA_BUNDLE", "QQ==")

// schemas validates by the committed files alone: where none fits, that is an error.
var schemas = sync.OnceValues(func() (validator.Validator, error) {
	dir, err := filepath.Abs("schemas")
	if err != nil {
		return nil, err
	}
	return validator.New([]string{dir + "/{{.ResourceKind}}{{.KindSuffix}}.json"}, validator.Opts{Strict: true})
})

// problems are what is wrong with a stream of documents, of which there have to be so many.
func problems(t *testing.T, text string, documents int) (found []string) {
	t.Helper()
	v, err := schemas()
	if err != nil {
		t.Fatal(err)
	}
	results := v.Validate("", io.NopCloser(strings.NewReader(text)))
	for _, result := range results {
		switch result.Status {
		case validator.Valid:
		case validator.Empty:
			found = append(found, "an empty document")
		case validator.Error, validator.Invalid, validator.Skipped:
			found = append(found, result.Err.Error())
		}
	}
	if len(results) != documents || documents == 0 {
		found = append(found, "another number of documents than there should be")
	}
	return found
}

// conforms holds every document of a text against the schema of its kind.
func conforms(t *testing.T, name, text string, documents int) {
	t.Helper()
	for _, problem := range problems(t, text, documents) {
		t.Errorf("%s: %s", name, problem)
	}
}

// manifestFiles are all files of deploy/kubernetes with the words replaced.
func manifestFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(manifests, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(manifests, path)
		files[name] = words.Replace(string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("only %d manifests", len(files))
	}
	return files
}

func TestManifestsConform(t *testing.T) {
	for name, text := range manifestFiles(t) {
		if filepath.Ext(name) != ".yaml" {
			t.Errorf("%s: nothing looks at it", name)
		}
		conforms(t, name, text, strings.Count("\n"+text, "\n---\n")+1)
	}
}

// Every schema is of a kind that is in use, and every kind in use was in it: else
// TestManifestsConform and TestVariants would have failed.
func TestSchemasAreUsed(t *testing.T) {
	used := map[string]bool{}
	note := func(text string) {
		for doc := range strings.SplitSeq(text, "\n---\n") {
			var kind string
			for line := range strings.Lines(doc) {
				if of, is := strings.CutPrefix(line, "kind: "); is {
					kind = strings.ToLower(strings.TrimSpace(of))
				}
			}
			used[kind] = true
		}
	}
	for _, text := range manifestFiles(t) {
		note(text)
	}
	for _, v := range variants {
		note(mustRender(t, release{name: v.release}, v.values).text)
	}
	files, err := filepath.Glob("schemas/*.json")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d schemas, %v", len(files), err)
	}
	for _, file := range files {
		kind, _, _ := strings.Cut(filepath.Base(file), "-")
		if !used[kind] {
			t.Errorf("%s: no manifest has the kind", file)
		}
	}
}

// What is wrong in a manifest is noticed.
func TestMistakesAreNoticed(t *testing.T) {
	files := manifestFiles(t)
	for _, test := range []struct{ name, file, old, new, want string }{
		{"a misspelt field", "inject/webhook.yaml", "  replicas: 2", "  replicsa: 2", "'replicsa' not allowed"},
		{"one inside of an init container", "sidecar.yaml", "restartPolicy: Always", "restartPolcy: Always", "'restartPolcy' not allowed"},
		{"one of a security context", "sidecar.yaml", "runAsNonRoot:", "runAsNonroot:", "'runAsNonroot' not allowed"},
		{"one of a probe", "plain.yaml", "periodSeconds:", "periodSecond:", "'periodSecond' not allowed"},
		{"one of a webhook", "inject/webhook.yaml", "    reinvocationPolicy:", "    reinvocationpolicy:", "'reinvocationpolicy' not allowed"},
		{"one of a policy", "inject/policy.yaml", "      jsonPatch:", "      jsonpatch:", "'jsonpatch' not allowed"},
		{"one of a monitor", "podmonitor.yaml", "podMetricsEndpoints:", "podMetricEndpoints:", "'podMetricEndpoints' not allowed"},
		{"one of an alert", "prometheusrule.yaml", "          for: 1m", "          form: 1m", "'form' not allowed"},
		{"a number for text", "sidecar.yaml", `value: "429496729"`, "value: 429496729", "got number, want string"},
		{"text for a number", "sidecar.yaml", "containerPort: 9432", `containerPort: "9432"`, "got string, want integer"},
		{"null for an object", "podmonitor.yaml", "selector: {}", "selector:", "got null, want object"},
		{"a missing field", "networkpolicy.yaml", "  egress:\n    # Names.\n    - to:", "  egress:\n    # Names.\n    - t0:", "'t0' not allowed"},
		{"no selector", "sidecar.yaml", "  selector:\n    matchLabels: {app: app}\n", "", "missing property 'selector'"},
		{"a bundle that is no base64", "inject/webhook.yaml", "caBundle: QQ==", "caBundle: CA_BUNDLE", "does not match pattern"},
		{"a field twice", "irsa.yaml", "kind: ServiceAccount", "kind: ServiceAccount\nkind: ServiceAccount", `"kind" already set`},
		{"no kind", "irsa.yaml", "kind: ServiceAccount\n", "", "missing 'kind' key"},
		{"no version", "irsa.yaml", "apiVersion: v1\n", "", "missing 'apiVersion' key"},
		{"no metadata", "irsa.yaml", "metadata:", "metadatas:", "missing property 'metadata'"},
		{"another version", "irsa.yaml", "apiVersion: v1", "apiVersion: v2", "could not find schema for ServiceAccount"},
		{"a kind without a schema", "irsa.yaml", "kind: ServiceAccount", "kind: Pod", "could not find schema for Pod"},
		{"an empty document", "irsa.yaml", "apiVersion: v1", "---\n# nothing\n---\napiVersion: v1", "an empty document"},
	} {
		text := files[test.file]
		if strings.Count(text, test.old) == 0 {
			t.Errorf("%s: %s has no %q", test.name, test.file, test.old)
			continue
		}
		text = strings.Replace(text, test.old, test.new, 1)
		found := problems(t, text, strings.Count("\n"+text, "\n---\n")+1)
		if !slices.ContainsFunc(found, func(p string) bool { return strings.Contains(p, test.want) }) {
			t.Errorf("%s: found %q, want %s", test.name, found, test.want)
		}
	}
	for _, nothing := range []string{"", "\n", "# a comment\n"} {
		if found := problems(t, nothing, 0); len(found) == 0 {
			t.Errorf("%q conforms", nothing)
		}
	}
}
