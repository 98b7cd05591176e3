package temporal

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/sluice-proxy/sluice/integration/harness"
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

// build makes Temporal's programs from the module's requirements. Where nothing
// has changed the go command's cache makes this short.
func build(t *testing.T) programs {
	t.Helper()
	dir := filepath.Join("..", "..", "bin", "temporal") + string(filepath.Separator)
	began := time.Now()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildmode=exe", "-ldflags=-s -w", "-o", dir, "go.temporal.io/server/cmd/server", "go.temporal.io/server/cmd/tools/sql")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build Temporal: %v\n%s", err, out)
	}
	t.Logf("built Temporal in %v", time.Since(began).Round(time.Second))
	return programs{server: dir + "server", schemaTool: dir + "sql"}
}

// setUp has the stock tool apply a collapsed schema.
func (p programs) setUp(t *testing.T, plugin string, s schema, at *harness.Sluice) {
	t.Helper()
	p.tool(t, plugin, "temporal", at, "setup-schema", "--version", s.version, "--schema-name", s.name)
}

func (p programs) tool(t *testing.T, plugin, database string, at *harness.Sluice, args ...string) {
	t.Helper()
	all := append([]string{"--plugin", plugin, "--endpoint", at.Host, "--port", fmt.Sprint(at.Port), "--user", "temporal", "--database", database}, args...)
	if out, err := exec.CommandContext(t.Context(), p.schemaTool, all...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(all, " "), err, out)
	}
}

// server is a Temporal server that runs until its test ends.
type server struct {
	frontend, metrics string // host:port
	program           *harness.Program
}

// startServer starts all services with their data behind the Sluice at address,
// visibility behind the one at visibility or, if there is none, in SQLite, and
// returns when the frontend answers.
func startServer(t *testing.T, file, plugin, address, visibility string) *server {
	t.Helper()
	dir := t.TempDir()
	ports := freePorts(t, 10)
	config := filepath.Join(dir, "server.yaml")
	out, err := os.Create(config)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	err = template.Must(template.ParseFiles("testdata/server.yaml")).Execute(out, map[string]any{
		"Plugin": plugin, "Sluice": address, "Visibility": visibility, "SQLite": filepath.Join(dir, "visibility.db"), "Frontend": ports[0], "Metrics": ports[1], "Ports": ports[2:],
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{frontend: fmt.Sprintf("127.0.0.1:%d", ports[0]), metrics: fmt.Sprintf("http://127.0.0.1:%d/metrics", ports[1])}
	s.program = harness.Start(t, file, dir, nil, "--config-file", config, "--allow-no-auth", "start")
	t.Cleanup(func() { s.complain(t) })
	s.waitReady(t)
	return s
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

// freePorts finds ports that fit into the smallint which Temporal's schema has
// for them: those that the system hands out mostly do not.
func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	const lowest, highest = 20000, 32767
	for range 100 * n {
		port := lowest + rand.IntN(highest-lowest+1)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		defer l.Close() // all are held until all are chosen, so that they differ
		if ports = append(ports, port); len(ports) == n {
			return ports
		}
	}
	t.Fatalf("%d of %d ports are free", len(ports), n)
	return nil
}

func (s *server) waitReady(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	c := s.client(t, "default")
	for {
		_, err := c.CheckHealth(ctx, &client.CheckHealthRequest{})
		if err == nil {
			return
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
