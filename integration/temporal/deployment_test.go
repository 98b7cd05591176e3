package temporal

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// The plugins by which Temporal can talk to a PostgreSQL: over lib/pq, and over pgx.
const libpq, pgx5 = "postgres12", "postgres12_pgx"

// sluiceEnv is Sluice's configuration beside the backend.
var sluiceEnv = harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "40"}

// faults fail one in twenty COMMITs, and one in twenty of the writes that Temporal
// sends in autocommit: there the commit is part of the statement.
const faults = `[
	{"at": "commit", "action": "fail", "error": "conflict", "probability": 0.05, "seed": 1},
	{"at": "statement", "verb": "INSERT", "contains": "INTO history_node", "action": "fail", "error": "conflict", "probability": 0.05, "seed": 2}
]`

// setup says how to deploy.
type setup struct {
	plugin  string
	faults  string   // in force from the schema on
	standIn []string // further flags of the stand-in
	env     harness.Env
	// visibility is behind a second Sluice, in a PostgreSQL; else in SQLite.
	visibility bool
}

// deployment is a Temporal server and what stands behind it, from the server down.
type deployment struct {
	server *server
	tap    *tap
	sluice *harness.Sluice
	sim    *harness.DSQLSim
	pg     *pgtest.Server
	client *caller

	// What another of them is started with, and what those that ended have counted.
	simConfig    harness.DSQLSimConfig
	sluiceConfig harness.SluiceConfig
	sums         map[string]float64
}

// deploy starts all of them, with Temporal's schema and a namespace.
func deploy(t *testing.T, s setup) *deployment {
	t.Helper()
	temporal := build(t)
	bin, dir := harness.Binaries(t), t.TempDir()
	d := &deployment{pg: pgtest.Start(t, pgtest.MaxConnections(150)), sums: map[string]float64{}}
	d.simConfig = harness.DSQLSimConfig{Bin: bin, Dir: dir, Upstream: d.pg, Args: s.standIn}
	d.sim = harness.StartDSQLSim(t, d.simConfig)
	d.sluiceConfig = harness.SluiceConfig{Bin: bin, Dir: dir, Env: d.sim.Env().With(sluiceEnv).With(s.env)}
	d.sluice = harness.StartSluice(t, d.sluiceConfig)
	temporal.setUp(t, s.plugin, mainSchema, d.sluice)
	visibility := ""
	if s.visibility {
		at := harness.StartSluice(t, harness.SluiceConfig{Env: harness.PostgresEnv(pgtest.Start(t, pgtest.MaxConnections(150)))})
		temporal.setUp(t, s.plugin, visibilitySchema, at)
		visibility = fmt.Sprintf("%s:%d", at.Host, at.Port)
	}
	d.sim.Admin(t, http.MethodPost, "/faults", s.faults)
	d.tap = startTap(t, fmt.Sprintf("%s:%d", d.sluice.Host, d.sluice.Port))
	d.server = startServer(t, temporal.server, s.plugin, d.tap.address(), visibility)
	d.registerNamespace(t)
	d.client = &caller{Client: d.server.client(t, namespace)}
	return d
}

func (d *deployment) registerNamespace(t *testing.T) {
	t.Helper()
	c, err := client.NewNamespaceClient(client.Options{HostPort: d.server.frontend, Logger: quiet{t}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = c.Register(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: namespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	if err != nil {
		t.Fatalf("register a namespace: %v", err)
	}
}

// verifyErrors that no error but those of the given SQLSTATEs has reached Temporal.
func (d *deployment) verifyErrors(t *testing.T, sqlStates ...string) {
	t.Helper()
	for _, e := range d.tap.all() {
		if !slices.Contains(sqlStates, e.sqlState) {
			t.Errorf("Temporal was told %v", e)
		}
	}
}
