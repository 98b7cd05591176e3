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

// sluiceEnv is Sluice's configuration beside the backend, as docs/temporal.md has it.
var sluiceEnv = harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "40", "DSQL_RETRY_BASE_DELAY": "10ms"}

// faults fail one in twenty COMMITs, and one in twenty of the writes that Temporal
// sends in autocommit: there the commit is part of the statement.
const faults = `[
	{"at": "commit", "action": "fail", "error": "conflict", "probability": 0.05, "seed": 1},
	{"at": "statement", "verb": "INSERT", "contains": "INTO history_node", "action": "fail", "error": "conflict", "probability": 0.05, "seed": 2}
]`

// setup says how to deploy.
type setup struct {
	plugin  string
	behind  backend
	faults  string   // in force from the schema on
	standIn []string // further flags of the stand-in
	env     harness.Env
	// visibility is behind a second Sluice, in a PostgreSQL; else in SQLite.
	visibility bool
	// histories are processes that have the shards, when these have processes of their
	// own.
	histories int
	// fenced has the database keep book for verifyFence.
	fenced bool
	// unlimited leaves the server its own values of what is in dynamicConfig.
	unlimited bool
}

// backend is what the server's data are behind.
type backend int

const (
	sluiceOnDSQL     backend = iota // Sluice and the stand-in
	sluiceOnPostgres                // Sluice of kind postgres
	postgresAlone
)

// deployment is a Temporal server and what stands behind it, from the server down.
type deployment struct {
	server    *server   // the process with the frontend
	histories []*server // those with the shards, if they are others
	tap       *tap
	sluice    *harness.Sluice
	sim       *harness.DSQLSim
	pg        *pgtest.Server
	client    *caller

	// What another of them is started with, and what those that ended have counted.
	simConfig    harness.DSQLSimConfig
	sluiceConfig harness.SluiceConfig
	sums         map[string]float64
}

// shards are few where one process has them, and enough for each of several.
const shards, shardsToMove = 4, 16

// deploy starts all of them, with Temporal's schema and a namespace.
func deploy(t *testing.T, s setup) *deployment {
	t.Helper()
	temporal := build(t)
	d := &deployment{pg: pgtest.Start(t, pgtest.MaxConnections(150), pgtest.Setting("track_commit_timestamp", "on")), sums: map[string]float64{}}
	data := d.startData(t, s)
	temporal.setUp(t, s.plugin, mainSchema, data)
	if s.fenced {
		d.pg.SQL(t, "postgres", fence)
	}
	if s.faults != "" {
		d.sim.Admin(t, http.MethodPost, "/faults", s.faults)
	}
	d.tap = startTap(t, data)
	where := temporal.site(t, s.plugin, d.tap.address())
	if s.visibility {
		where.visibility = temporal.visibility(t, s.plugin)
	}
	if !s.unlimited {
		where.dynamic = dynamicConfig
		logSettings(t)
	}
	d.startServers(t, where, s.histories)
	return d
}

// startData starts what the server's data are behind, and returns its address.
func (d *deployment) startData(t *testing.T, s setup) string {
	t.Helper()
	bin, dir := harness.Binaries(t), t.TempDir()
	d.sluiceConfig = harness.SluiceConfig{Bin: bin, Dir: dir}
	switch s.behind {
	case postgresAlone:
		d.pg.SQL(t, "postgres", "CREATE ROLE temporal SUPERUSER LOGIN")
		d.pg.SQL(t, "postgres", "CREATE DATABASE temporal")
		return d.pg.Address()
	case sluiceOnPostgres:
		d.sluiceConfig.Env = harness.PostgresEnv(d.pg).With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "40"})
	default:
		d.simConfig = harness.DSQLSimConfig{Bin: bin, Dir: dir, Upstream: d.pg, Args: s.standIn}
		d.sim = harness.StartDSQLSim(t, d.simConfig)
		d.sluiceConfig.Env = d.sim.Env().With(sluiceEnv).With(s.env)
	}
	d.sluice = harness.StartSluice(t, d.sluiceConfig)
	return at(d.sluice)
}

// at is where a Sluice listens.
func at(s *harness.Sluice) string { return fmt.Sprintf("%s:%d", s.Host, s.Port) }

// visibility sets up a database of its own for that, behind a Sluice.
func (p programs) visibility(t *testing.T, plugin string) (address string) {
	t.Helper()
	sluice := harness.StartSluice(t, harness.SluiceConfig{Env: harness.PostgresEnv(pgtest.Start(t, pgtest.MaxConnections(150)))})
	p.setUp(t, plugin, visibilitySchema, at(sluice))
	return at(sluice)
}

// startServers starts a process with all services, or one with all but the shards, and
// these in as many others.
func (d *deployment) startServers(t *testing.T, where site, histories int) {
	t.Helper()
	var services []string
	if histories > 0 {
		where.shards = shardsToMove
		services = []string{"frontend", "matching", "worker"}
	}
	for n := range histories {
		d.histories = append(d.histories, startServer(t, where, "history"))
		if n == 0 {
			d.waitFirst(t)
		}
	}
	d.server = startServer(t, where, services...)
	d.server.waitReady(t)
	d.registerNamespace(t)
	d.client = &caller{Client: d.server.client(t, namespace)}
}

// waitFirst until the first process has written what each writes where it is missing: at the
// first start of all, one that does so at the same time ends, on a PostgreSQL too.
func (d *deployment) waitFirst(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(startLimit); d.pg.SQL(t, "postgres", "SELECT count(*) FROM cluster_metadata_info") == "0"; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the first process has not begun")
		}
	}
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
