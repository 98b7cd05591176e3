package injectcmd

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/cmd/sluice/config"
	"github.com/sluice-proxy/sluice/cmd/sluice/config/configtest"
	"github.com/sluice-proxy/sluice/cmd/sluice/inject"
)

// A chartContainer is one that the chart runs, as integration/charts has rendered it.
type chartContainer struct {
	Variant, Container string
	Args               []string
	Env                map[string]string
}

// chartContainers are those of every variant, with dollar signs as Kubernetes hands them on.
func chartContainers(t *testing.T) (all []chartContainer) {
	t.Helper()
	text, err := os.ReadFile("../../../integration/charts/testdata/containers.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), "$$", "$")), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// The chart's containers start: their flags, variables and values are ones that there are.
func TestChartContainersStart(t *testing.T) {
	started := map[string]int{}
	for _, c := range chartContainers(t) {
		started[c.Container]++
		env := maps.Clone(c.Env)
		delete(env, "GOMEMLIMIT") // Go's own
		command, rest, err := newRoot().Find(c.Args)
		if err == nil {
			err = command.ParseFlags(rest)
		}
		if err != nil {
			t.Errorf("%s, %s: %v", c.Variant, c.Container, err)
			continue
		}
		switch command.Name() {
		case "serve":
			for name := range env {
				if problem := strangeVariable(name); problem != "" {
					t.Errorf("%s: %s", c.Variant, problem)
				}
			}
			checkChartConfig(t, c.Variant, configtest.Source{Env: env}.MustLoad(t))
		case "inject":
			if len(env) > 0 {
				t.Errorf("%s: the injector takes no variables, and has %v", c.Variant, env)
			}
			checkChartInjector(t, c.Variant, c.Args[1:])
		default:
			t.Errorf("%s: %q", c.Variant, c.Args)
		}
	}
	if started["sluice"] < 3 || started["injector"] < 6 {
		t.Errorf("checked %v", started)
	}
}

// checkChartConfig looks at what a standalone pod promises.
func checkChartConfig(t *testing.T, variant string, c *config.Config) {
	t.Helper()
	want := map[string]any{"auth.method": "scram-sha-256", "drain.mode": config.DrainPlain, "backend.endpoint": configtest.Endpoint}
	if variant == "everything" {
		want["backend.user"], want["backend.max_message_bytes"], want["retry.jitter_factor"] = "a$(HOME)$$b", 5000000, 0.25
		want["rewrite.chunked_delete"], want["drain.timeout"] = []string{"history_*", "timers"}, 40*time.Second
	}
	for key, value := range want {
		if got := c.Value(key); !reflect.DeepEqual(got, value) {
			t.Errorf("%s: %s is %v, want %v", variant, key, got, value)
		}
	}
}

// checkChartInjector makes the injector of these arguments, and has it judge a pod.
func checkChartInjector(t *testing.T, variant string, args []string) {
	t.Helper()
	command := NewCommand("")
	if err := command.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	flags := command.Flags()
	flag := func(name string) string { return flags.Lookup(name).Value.String() }
	settings, _ := flags.GetStringArray("set")
	o := injectOptions{settings: settings, log: config.Log{Format: flag("log-format")}, config: inject.Config{Image: flag("image"), PullPolicy: flag("image-pull-policy"),
		MemoryLimit: flag("memory-limit"), MemoryRequest: flag("memory-request"), CPURequest: flag("cpu-request")}}
	injector, err := o.newInjector()
	if err != nil {
		t.Errorf("%s: %v", variant, err)
		return
	}
	annotations := map[string]string{}
	if !slices.Contains(settings, "backend.endpoint="+configtest.Endpoint) {
		annotations["sluice.dev/backend.endpoint"] = configtest.Endpoint
	}
	if _, refused := injectedVariables(t, injector, annotations); refused != "" {
		t.Errorf("%s: a pod is refused: %s", variant, refused)
	}
}

// What the chart keeps from the injector is what no pod may be given, secrets aside, which
// the schema has not.
func TestChartKnowsWhatIsNotPerPod(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/helm/sluice/templates/_helpers.tpl")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`has \$key \(list ([^)]*)\)`).FindSubmatch(text)
	if list == nil {
		t.Fatal("no list of keys in _helpers.tpl")
	}
	got := strings.Fields(strings.ReplaceAll(string(list[1]), `"`, ""))
	if want := slices.Sorted(maps.Keys(refusedInPods)); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
