package charts

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	"sigs.k8s.io/yaml"
)

const (
	chartDir  = "../../deploy/helm/sluice"
	manifests = "../../deploy/kubernetes"
	namespace = "sluice-system"
)

// Versions of Kubernetes that the chart is rendered for: the oldest that it takes, and the
// one that the schemas are of.
var kubeVersions = []string{"1.29.0", "1.36.3"}

// An object is a decoded document.
type object map[string]any

// name is "Kind name".
func (o object) name() string {
	kind, _ := o["kind"].(string)
	metadata, _ := o["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	return kind + " " + name
}

// A rendering is what helm install would make, and say.
type rendering struct {
	objects []object
	text    string // of all objects
	notes   string
}

// one is the object of a name.
func (r rendering) one(t *testing.T, name string) object {
	t.Helper()
	for _, o := range r.objects {
		if o.name() == name {
			return o
		}
	}
	t.Fatalf("no %s", name)
	return nil
}

// A release is what helm is told beside the values. Its zero value is the usual one.
type release struct {
	name        string // "" is sluice
	kubeVersion string // "" is the newest
	engine      engine.Engine
}

// render does what helm template does: values are merged and held against their schema,
// the templates carried out, the documents sorted.
func (r release) render(c *chart.Chart, values string) (rendering, error) {
	if r.name == "" {
		r.name = "sluice"
	}
	if r.kubeVersion == "" {
		r.kubeVersion = kubeVersions[len(kubeVersions)-1]
	}
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		return rendering{}, err
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	version, err := chartutil.ParseKubeVersion(r.kubeVersion)
	if err != nil {
		return rendering{}, err
	}
	capabilities.KubeVersion = *version
	if !chartutil.IsCompatibleRange(c.Metadata.KubeVersion, version.String()) {
		return rendering{}, fmt.Errorf("the chart wants Kubernetes %s", c.Metadata.KubeVersion)
	}
	all, err := chartutil.ToRenderValues(c, given, chartutil.ReleaseOptions{Name: r.name, Namespace: namespace, Revision: 1, IsInstall: true}, capabilities)
	if err != nil {
		return rendering{}, err
	}
	files, err := r.engine.Render(c, all)
	if err != nil {
		return rendering{}, err
	}
	return sorted(files)
}

// sorted takes the notes out of rendered files, and their documents apart.
func sorted(files map[string]string) (r rendering, err error) {
	files = maps.Clone(files)
	for name, text := range files {
		if strings.HasSuffix(name, "/NOTES.txt") {
			r.notes = strings.TrimSpace(text)
			delete(files, name)
		}
	}
	hooks, found, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return r, err
	}
	if len(hooks) != 0 {
		return r, fmt.Errorf("%d hooks: nothing looks at them here", len(hooks))
	}
	var text strings.Builder
	for i, m := range found {
		var o object
		if err := yaml.UnmarshalStrict([]byte(m.Content), &o); err != nil {
			return r, fmt.Errorf("%s: %w", m.Name, err)
		}
		r.objects = append(r.objects, o)
		if i > 0 {
			text.WriteString("---\n")
		}
		text.WriteString(m.Content + "\n")
	}
	r.text = text.String()
	return r, nil
}

func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// mustRender renders what has to go well.
func mustRender(t *testing.T, r release, values string) rendering {
	t.Helper()
	out, err := r.render(loadChart(t), values)
	if err != nil {
		t.Fatalf("%v; values\n%s", err, values)
	}
	return out
}

// manifest is the one object of a kind in a file of deploy/kubernetes.
func manifest(t *testing.T, file, kind string) object {
	t.Helper()
	text, err := os.ReadFile(manifests + "/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var found []object
	for _, doc := range releaseutil.SplitManifests(string(text)) {
		var o object
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		if o["kind"] == kind {
			found = append(found, o)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s: %d of %s", file, len(found), kind)
	}
	return found[0]
}

// at is what stands at a path, nil where there is nothing; a number is an element of a list.
func at(of any, path ...any) any {
	for _, step := range path {
		switch o := of.(type) {
		case object:
			of = o[step.(string)]
		case map[string]any:
			of = o[step.(string)]
		case []any:
			i := step.(int)
			if i >= len(o) {
				return nil
			}
			of = o[i]
		default:
			return nil
		}
	}
	return of
}

// list is a list at a path.
func list(of any, path ...any) []any {
	l, _ := at(of, path...).([]any)
	return l
}
