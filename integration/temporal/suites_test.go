package temporal

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

var suites = flag.Bool("suites", false, "run Temporal's own tests of its persistence")

// upstream are Temporal's tests of its persistence, by the way in which they talk to a
// PostgreSQL: over lib/pq, over pgx, and over pgx by the simple protocol. Each has the same
// tests.
var upstream = []string{"TestPQ", "TestPGX", "TestPGXSP"}

// leftOut are the suites that are not run: their tables are those of visibility, which
// belongs to another store.
const leftOut = "/^TestPostgreSQLVisibility(Persistence)?Suite$"

// leastTests is how many tests one of upstream has, without those of leftOut.
const leastTests = 425

// exceptions are tests that fail, with the reason, by their names below that of upstream.
var exceptions = map[string]string{
	"TestPostgreSQLTestClusterDropsDatabaseWithOpenConnection": "it ends the sessions in a database by pg_terminate_backend before it drops the database: " +
		"here that ends backends of Sluice, and not a client's session, for which DROP DATABASE is refused (55006)",
}

// Temporal's own tests of its persistence pass on the strict stand-in, but for exceptions.
// Each makes a database for itself, which is a schema here, and sets it up.
func TestPersistenceSuites(t *testing.T) {
	if !*suites {
		return
	}
	program, source := buildSuites(t)
	pg := pgtest.Start(t, pgtest.MaxConnections(150))
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Upstream: pg})
	sluice := harness.StartSluice(t, harness.SluiceConfig{Env: sim.Env().With(sluiceEnv).With(harness.Env{"DSQL_LISTEN_DATABASES": "postgres,test_*=schema:*"})})
	s := suiteRun{program: program, root: rootOf(t, source), at: sluice}
	var first []string
	for _, name := range upstream {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			results := s.run(t, name)
			results.verify(t)
			names := slices.Sorted(maps.Keys(results))
			if first == nil {
				first = names
			}
			if !slices.Equal(names, first) {
				t.Errorf("its %d tests are not those of %s, of which there are %d", len(names), upstream[0], len(first))
			}
			t.Logf("%s in %v", results, time.Since(began).Round(time.Second))
			if left := pg.SQL(t, "postgres", "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'test\\_%'"); left != "0" {
				t.Errorf("%s databases are left", left)
			}
		})
	}
}

// buildSuites makes the program of Temporal's tests, and returns where its source is.
func buildSuites(t *testing.T) (program, source string) {
	t.Helper()
	program, err := filepath.Abs(filepath.Join("..", "..", "bin", "temporal", "persistence.test"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-c", "-o", program, "go.temporal.io/server/common/persistence/tests").CombinedOutput()
	if err != nil {
		t.Fatalf("build Temporal's tests: %v\n%s", err, out)
	}
	out, err = exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "go.temporal.io/server").Output()
	if err != nil {
		t.Fatal(err)
	}
	return program, strings.TrimSpace(string(out))
}

// rootOf makes what the tests want to find of Temporal's source: its schema. That of
// visibility, which every test sets up beside the other, is empty: DSQL has not what it takes.
func rootOf(t *testing.T, source string) string {
	t.Helper()
	root := t.TempDir()
	const schemas = "schema/postgresql/v12"
	if err := os.CopyFS(filepath.Join(root, schemas, "temporal"), os.DirFS(filepath.Join(source, schemas, "temporal"))); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{schemas + "/visibility", "common/persistence/tests"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, schemas, "visibility", "schema.sql"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

type suiteRun struct {
	program, root string
	at            *harness.Sluice
}

// outcomes are those of the tests that have no others below them.
type outcomes map[string]*outcome

type outcome struct{ action, output string }

// run runs the tests below that of the name, one at a time: a cluster takes ten schemas.
func (s suiteRun) run(t *testing.T, name string) outcomes {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "tool", "test2json", s.program,
		"-test.v=test2json", "-test.run", "^"+name+"$", "-test.skip", "^"+name+"$"+leftOut, "-test.parallel", "1", "-test.timeout", "50m")
	cmd.Dir = filepath.Join(s.root, "common", "persistence", "tests") // they name the schema from there
	cmd.Env = append(os.Environ(), "TEMPORAL_ROOT="+s.root, "POSTGRES_SEEDS="+s.at.Host, fmt.Sprintf("POSTGRES_PORT=%d", s.at.Port))
	log, err := os.Create(filepath.Join(t.ArtifactDir(), name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	ended := cmd.Run() // fails with the tests
	if _, err := log.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	results, err := readOutcomes(log, name)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) < leastTests {
		t.Errorf("%d tests were run, at least %d are expected: %v", len(results), leastTests, ended)
	}
	return results
}

// readOutcomes reads what test2json says of the tests below that of the name. A test with
// others below it counts where it fails by itself: when it sets up, or cleans up.
func readOutcomes(log io.Reader, name string) (outcomes, error) {
	all := outcomes{}
	for d := json.NewDecoder(log); ; {
		var event struct{ Action, Test, Output string }
		if err := d.Decode(&event); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		test, ok := strings.CutPrefix(event.Test, name+"/")
		if !ok {
			continue
		}
		if all[test] == nil {
			all[test] = &outcome{}
		}
		if o := all[test]; event.Action == "output" {
			o.output += event.Output
			o.output = o.output[max(0, len(o.output)-mostOutput):]
		} else {
			o.action = event.Action
		}
	}
	explained := map[string]bool{} // failures of tests that have one below them that fails
	parents := map[string]bool{}
	for test, o := range all {
		for above := filepath.Dir(test); above != "."; above = filepath.Dir(above) {
			parents[above] = true
			explained[above] = explained[above] || o.action == "fail"
		}
	}
	for test := range parents {
		if o := all[test]; o != nil && (o.action == "pass" || explained[test]) {
			delete(all, test)
		}
	}
	return all, nil
}

// mostOutput is how much is kept of what a test prints: the end.
const mostOutput = 4000

// verify that all but the exceptions passed, and none of those.
func (all outcomes) verify(t *testing.T) {
	t.Helper()
	for _, test := range slices.Sorted(maps.Keys(all)) {
		o, why := all[test], exceptions[test]
		switch {
		case o.action == "skip":
			t.Logf("%s skips itself: %s", test, o.output)
		case o.action == "pass" && why != "":
			t.Errorf("%s passes, and is an exception: %s", test, why)
		case o.action != "pass" && why == "":
			t.Errorf("%s: its last word is %q\n%s", test, o.action, o.output)
		}
	}
	for test := range exceptions {
		if all[test] == nil {
			t.Errorf("%s is an exception, and was not run", test)
		}
	}
}

func (all outcomes) String() string {
	count := map[string]int{}
	for _, o := range all {
		count[o.action]++
	}
	return fmt.Sprintf("%d tests: %v", len(all), count)
}
