package temporal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/sockets"
)

// schema is one of those that the schema tool carries: the version that the server
// asks for, and the collapsed file's name.
type schema struct{ version, name string }

var (
	mainSchema       = schema{"1.19", "postgresql/v12/temporal"}
	visibilitySchema = schema{"1.14", "postgresql/v12/visibility"}
)

// startLimit is for a server that shares two cores with what it talks to.
const startLimit = 2 * time.Minute

// programs are Temporal's own commands, by the names that go build gives them.
type programs struct{ server, schemaTool string }

// build makes Temporal's programs from the module's requirements, with the flags of
// the tests, so that what both import is compiled once. Where nothing has changed the
// go command's cache makes this short.
func build(t *testing.T) programs {
	t.Helper()
	made, err := buildOnce()
	if err != nil {
		t.Fatalf("build Temporal: %v", err)
	}
	return made
}

var buildOnce = sync.OnceValues(func() (programs, error) {
	dir := filepath.Join("..", "..", "bin", "temporal") + string(filepath.Separator)
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir, "go.temporal.io/server/cmd/server", "go.temporal.io/server/cmd/tools/sql")
	if out, err := cmd.CombinedOutput(); err != nil {
		return programs{}, fmt.Errorf("%w\n%s", err, out)
	}
	return programs{server: dir + "server", schemaTool: dir + "sql"}, nil
})

// Before the other stages, .ci/stages has this do what takes minutes.
func TestPrograms(t *testing.T) { build(t) }

// setUp has the stock tool apply a collapsed schema to what is at an address.
func (p programs) setUp(t *testing.T, plugin string, s schema, address string) {
	t.Helper()
	p.tool(t, plugin, "temporal", address, "setup-schema", "--version", s.version, "--schema-name", s.name)
}

func (p programs) tool(t *testing.T, plugin, database, address string, args ...string) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	all := append([]string{"--plugin", plugin, "--endpoint", host, "--port", port, "--user", "temporal", "--database", database}, args...)
	if out, err := exec.CommandContext(t.Context(), p.schemaTool, all...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(all, " "), err, out)
	}
}

// site is what all processes of one cluster share.
type site struct {
	file, plugin string
	data         string // the address of the Sluice that their data are behind
	visibility   string // and of the one for visibility; none: it is in SQLite
	shards       int
	frontend     int    // port
	callbacks    int    // the frontend's port for HTTP, where history completes operations of Nexus
	dynamic      string // file of the dynamic configuration; none: the server's own values
}

// site of processes whose data are behind an address.
func (p programs) site(t *testing.T, plugin, data string) site {
	ports := freePorts(t, 2)
	return site{file: p.server, plugin: plugin, data: data, shards: shards, frontend: ports[0], callbacks: ports[1]}
}

// server is a process of a Temporal cluster that runs until its test ends.
type server struct {
	frontend, metrics string // host:port, and a URL
	program           *harness.Program

	site     site
	dir      string
	services []string
}

// startServer starts a process with some of the services, or with all.
func startServer(t *testing.T, at site, services ...string) *server {
	t.Helper()
	ports := freePorts(t, 8)
	s := &server{
		frontend: fmt.Sprintf("127.0.0.1:%d", at.frontend), metrics: fmt.Sprintf("http://127.0.0.1:%d/metrics", ports[0]),
		site: at, dir: t.TempDir(), services: services,
	}
	dynamic := ""
	if at.dynamic != "" {
		var err error
		if dynamic, err = filepath.Abs(at.dynamic); err != nil {
			t.Fatal(err)
		}
	}
	out, err := os.Create(s.config())
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	err = template.Must(template.ParseFiles("testdata/server.yaml")).Execute(out, map[string]any{
		"Plugin": at.plugin, "Sluice": at.data, "Visibility": at.visibility, "SQLite": filepath.Join(s.dir, "visibility.db"), "Shards": at.shards, "Dynamic": dynamic,
		"Frontend": at.frontend, "Callbacks": at.callbacks, "Metrics": ports[0], "Ports": ports[1:],
	})
	if err != nil {
		t.Fatal(err)
	}
	s.start(t)
	t.Cleanup(func() { s.complain(t) })
	return s
}

func (s *server) config() string { return filepath.Join(s.dir, "server.yaml") }

// start it, anew if it has ended.
func (s *server) start(t *testing.T) {
	t.Helper()
	args := []string{"--config-file", s.config(), "--allow-no-auth", "start"}
	for _, service := range s.services {
		args = append(args, "--service", service)
	}
	s.program = harness.Start(t, s.site.file, s.dir, nil, args...)
}

// complain shows, when the test has failed, what the server did not like; the
// end of its log is shown by the harness.
func (s *server) complain(t *testing.T) {
	if !t.Failed() {
		return
	}
	for line := range strings.Lines(s.program.Log()) {
		if strings.Contains(line, `"level":"warn"`) || strings.Contains(line, `"level":"error"`) || strings.Contains(line, `"level":"fatal"`) {
			line, _, _ = strings.Cut(line, `,"logging-call-at"`)
			t.Logf("Temporal: %.600s", line)
		}
	}
}

// freePorts finds ports that fit into the smallint which Temporal's schema has for them.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	ports, err := sockets.FreePorts(n)
	if err != nil {
		t.Fatal(err)
	}
	return ports
}

// waitReady until the frontend answers, and has met hosts of the services history and matching, which start beside it.
func (s *server) waitReady(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	c := s.client(t, "temporal-system")
	for {
		_, err := c.CheckHealth(ctx, &client.CheckHealthRequest{})
		if err == nil {
			_, err = c.DescribeTaskQueue(ctx, "nobody", enumspb.TASK_QUEUE_TYPE_WORKFLOW)
		}
		if err == nil {
			_, err = c.DescribeWorkflowExecution(ctx, "nobody", "")
			if unknown := (*serviceerror.NotFound)(nil); errors.As(err, &unknown) {
				return
			}
		}
		select {
		case <-s.program.Exited():
			t.Fatalf("Temporal has ended while starting: %v", s.program.Err())
		case <-ctx.Done():
			t.Fatalf("Temporal is not ready: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// client of the server; it ends with the test.
func (s *server) client(t *testing.T, namespace string) client.Client {
	t.Helper()
	c, err := client.NewLazyClient(client.Options{HostPort: s.frontend, Namespace: namespace, Logger: quiet{t}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// quiet shows errors of the SDK only.
type quiet struct{ testing.TB }

var _ log.Logger = quiet{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (q quiet) Error(msg string, pairs ...any) {
	q.Logf("SDK: %s %s", msg, strings.TrimSpace(fmt.Sprintln(pairs...)))
}
