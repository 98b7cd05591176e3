package packaging

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// composition is a compose file, as far as it is looked at. A field that is not here is
// an error.
type composition struct {
	Services map[string]service
	Volumes  map[string]struct {
		DriverOpts map[string]string `yaml:"driver_opts"`
	}
}

type service struct {
	Image string
	Build struct {
		Context, Target string
		Args            map[string]string
	}
	DependsOn map[string]struct{ Condition string } `yaml:"depends_on"`
	Command   []string
	Entry     []string          `yaml:"entrypoint"`
	Env       map[string]string `yaml:"environment"`
	Network   string            `yaml:"network_mode"`
	Volumes   []string
	Tmpfs     []string
	Memory    string   `yaml:"mem_limit"`
	ReadOnly  bool     `yaml:"read_only"`
	Drop      []string `yaml:"cap_drop"`
	Security  []string `yaml:"security_opt"`
	Grace     string   `yaml:"stop_grace_period"`
	Health    *struct {
		Test     []string
		Interval string
		Retries  int
	} `yaml:"healthcheck"`
}

func compose(t *testing.T) composition {
	t.Helper()
	var c composition
	in := yaml.NewDecoder(strings.NewReader(content(t, "deploy/compose.yaml")))
	in.KnownFields(true)
	if err := in.Decode(&c); err != nil {
		t.Fatal(err)
	}
	return c
}

// Everything waits until what it needs is healthy, and can be asked for its health by a
// program that is in its image.
func TestComposeStartsInOrder(t *testing.T) {
	t.Parallel()
	c := compose(t)
	_, stages := dockerfile(t)
	var order []string
	for next := "application"; ; {
		order = append([]string{next}, order...)
		if len(order) > len(c.Services) {
			t.Fatalf("in a circle: %v", order)
		}
		needs := c.Services[next].DependsOn
		if len(needs) == 0 {
			break
		}
		for name, how := range needs {
			if how.Condition != "service_healthy" || c.Services[name].Health == nil {
				t.Errorf("%s does not wait for %s to be healthy", next, name)
			}
			next = name
		}
	}
	if want := []string{"postgres", "dsqlsim", "sluice", "application"}; !slices.Equal(order, want) || len(c.Services) != len(want) {
		t.Errorf("they start as %v of %d, want %v", order, len(c.Services), want)
	}
	for name, s := range c.Services {
		if s.Health != nil && (len(s.Health.Test) < 2 || s.Health.Test[0] != "CMD") {
			t.Errorf("%s is asked by a shell: %v", name, s.Health.Test)
		}
		if (s.Image == "") == (s.Build.Target == "") {
			t.Errorf("%s has image %q and builds %q", name, s.Image, s.Build.Target)
		}
		if s.Build.Target == "" {
			continue
		}
		if named(stages, s.Build.Target) == nil || s.Build.Context != ".." || s.Build.Args["VERSION"] == "" {
			t.Errorf("%s builds %+v", name, s.Build)
		}
		if !slices.Equal(s.Health.Test, []string{"CMD", "/" + name, "healthcheck"}) {
			t.Errorf("%s has no %v", name, s.Health.Test)
		}
		if !s.ReadOnly || !slices.Equal(s.Drop, []string{"ALL"}) || !slices.Equal(s.Security, []string{"no-new-privileges:true"}) {
			t.Errorf("%s may do more than it needs: %+v", name, s)
		}
	}
	if app := c.Services["application"]; app.Network != "service:sluice" || app.Env["PGHOST"] != "127.0.0.1" {
		t.Errorf("the application does not find Sluice on its own loopback: %+v", app)
	}
}

// Nothing is kept: volumes are memory, and nothing of the machine is mounted.
func TestComposeKeepsNothing(t *testing.T) {
	t.Parallel()
	c := compose(t)
	for name, v := range c.Volumes {
		if v.DriverOpts["type"] != "tmpfs" || v.DriverOpts["device"] != "tmpfs" || !strings.Contains(v.DriverOpts["o"], "uid=65532") {
			t.Errorf("volume %s is %v", name, v.DriverOpts)
		}
	}
	for name, s := range c.Services {
		for _, mount := range s.Volumes {
			source, _, _ := strings.Cut(mount, ":")
			if _, ok := c.Volumes[source]; !ok {
				t.Errorf("%s mounts %s", name, mount)
			}
		}
		if strings.HasPrefix(s.Image, "postgres:") && !slices.Equal(s.Tmpfs, []string{"/var/lib/postgresql/data"}) {
			t.Errorf("%s: its image makes a volume of what is no tmpfs: %v", name, s.Tmpfs)
		}
	}
}

// The programs know what they are told.
func TestComposeIsUnderstood(t *testing.T) {
	t.Parallel()
	c := compose(t)
	keys := content(t, "docs/configuration.md")
	for variable := range c.Services["sluice"].Env {
		name, ours := strings.CutPrefix(variable, "DSQL_")
		section, key, _ := strings.Cut(strings.ToLower(name), "_")
		if ours && !strings.Contains(keys, "| `"+section+"."+key+"` |") {
			t.Errorf("%s is no key of the configuration", variable)
		}
	}
	bin := string(harness.Binaries(t))
	help, err := exec.Command(filepath.Join(bin, "dsqlsim"), "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, arg := range c.Services["dsqlsim"].Command {
		flag, _, _ := strings.Cut(arg, "=")
		if !strings.Contains(string(help), flag+" ") {
			t.Errorf("dsqlsim has no flag %s", flag)
		}
	}
	cmd := exec.Command(filepath.Join(bin, "sluice"), "check")
	for name, value := range c.Services["sluice"].Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, "DSQL_BACKEND_CA_FILE=") // it is made by dsqlsim
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("sluice check: %v\n%s", err, out)
	}
}
