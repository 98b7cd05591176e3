package drivers

import (
	"os"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

func TestMain(m *testing.M) {
	// UTC as on DSQL: the zone of a throw-away server is otherwise the machine's.
	os.Exit(pgtest.Main(m, pgtest.TLS(), pgtest.MaxConnections(400), pgtest.Setting("timezone", "UTC")))
}

// route is a way to a database of its own.
type route struct {
	name string
	dsn  string
	// database is where it ends, for what a test does there directly.
	database string
	// lacks: the backend has DSQL's dialect.
	lacks bool
}

// backends is fewer than the clients of most scenarios, and than the crowd by
// far, so that sessions change backends all the time.
const backends = 5

// cancelGrace is how long Sluice waits for PostgreSQL to heed a cancel: a machine that is short of time forks a process
// for each, and what Sluice says of itself behind the grace lacks PostgreSQL's context. The stand-in heeds none, so a
// shorter grace loses nothing there.
const cancelGrace = 2 * time.Second

// openRoutes starts everything that the routes need. The first is direct.
func openRoutes(t *testing.T) []route {
	t.Helper()
	pg := pgtest.Shared(t)
	// Waiting is what a crowd does; it shall not fail the tests of a slow machine.
	env := harness.Env{
		"DSQL_RESERVOIR_CHECKOUT_WAIT": "1m",
		"DSQL_CONNECTION_RATE_LIMIT":   "1000", "DSQL_CONNECTION_BURST_LIMIT": "1000",
		"DSQL_CANCEL_GRACE":         cancelGrace.String(),
		"DSQL_LISTEN_MAX_CLIENTS":   "500",
		"DSQL_PREPARED_PER_BACKEND": "20", // so that they are forgotten, too
	}
	few := env.With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": itoa(backends)})
	many := env.With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "100", "DSQL_PINS_MAX": "100",
		"DSQL_RESERVOIR_TARGET_READY": "0", "DSQL_PAIRING": "session"})

	direct, transaction, session := pg.NewDatabase(t), pg.NewDatabase(t), pg.NewDatabase(t)
	throughTransaction := harness.StartSluice(t, harness.SluiceConfig{
		Env: few.With(harness.PostgresEnv(pg)).With(harness.Env{"DSQL_BACKEND_DATABASE": transaction})})
	throughSession := harness.StartSluice(t, harness.SluiceConfig{Env: many.With(harness.PostgresEnv(pg))})
	plain := pg.NewDatabase(t)
	throughPlain := harness.StartSluice(t, harness.SluiceConfig{
		Env: few.With(harness.PostgresEnv(pg)).With(harness.Env{"DSQL_BACKEND_DATABASE": plain, "DSQL_RELAY_PLAIN_CONN": "true"})})
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Upstream: pg,
		// Every client has schemas of its own. Longer than it takes to see one who waits, and to cancel him. Nobody
		// replays the OC001 that a backend meets after another has made a table.
		Args: []string{"--limit", "schemas=1000", "--lock-timeout", "4s", "--schema-conflicts=false"}})
	throughSim := harness.StartSluice(t, harness.SluiceConfig{Env: few.With(sim.Env()).With(harness.Env{"DSQL_CANCEL_GRACE": "600ms"})})
	return []route{
		{name: "direct", dsn: pg.DSN(direct), database: direct},
		{name: "transaction", dsn: throughTransaction.DSN(transaction), database: transaction},
		{name: "plain", dsn: throughPlain.DSN(plain), database: plain},
		{name: "session", dsn: throughSession.DSN(session), database: session},
		{name: "stand-in", dsn: throughSim.DSN("postgres"), database: "postgres", lacks: true},
	}
}
