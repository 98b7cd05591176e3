package replay

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m, pgtest.TLS(), pgtest.MaxConnections(300))) }

// rig is a daemon in front of a stand-in.
type rig struct {
	sim    *harness.DSQLSim
	sluice *harness.Sluice
}

func start(t *testing.T, env harness.Env) *rig {
	t.Helper()
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Upstream: pgtest.Shared(t)})
	all := sim.Env().With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "20", "DSQL_CONNECTION_RATE_LIMIT": "1000"}).With(env)
	return &rig{sim: sim, sluice: harness.StartSluice(t, harness.SluiceConfig{Env: all})}
}

// drivers are opened by database/sql under these names.
var drivers = []string{"pgx", "postgres"}

// open returns one connection of a driver, which it keeps.
func (r *rig) open(t *testing.T, driver string) *sql.Conn {
	t.Helper()
	db, err := sql.Open(driver, r.sluice.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); db.Close() })
	return conn
}

func (r *rig) exec(t *testing.T, conn *sql.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := conn.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// plan has faults happen; it is a JSON list.
func (r *rig) plan(t *testing.T, faults string) {
	t.Helper()
	if faults != "" {
		r.sim.Admin(t, "POST", "/faults", faults)
	}
}

// unplanned fails the test when a planned fault has not happened.
func (r *rig) unplanned(t *testing.T) {
	t.Helper()
	if left := strings.TrimSpace(r.sim.Admin(t, "GET", "/faults", "")); left != "[]" && left != "null" {
		t.Errorf("did not happen: %s", left)
		r.sim.Admin(t, "DELETE", "/faults", "")
	}
}

type event struct {
	Seq     uint64
	Session uint64
	Kind    string
	Verb    string
	SQL     string
	Outcome string
	Detail  string
}

// ledger is what happened after an event.
func (r *rig) ledger(t *testing.T, after uint64) (events []event) {
	t.Helper()
	text := r.sim.Admin(t, "GET", fmt.Sprintf("/ledger?after=%d", after), "")
	if err := json.Unmarshal([]byte(text), &events); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return events
}

// last is the number of the newest event.
func (r *rig) last(t *testing.T) uint64 {
	events := r.ledger(t, 0)
	if len(events) == 0 {
		return 0
	}
	return events[len(events)-1].Seq
}

// metric sums up the series of a metric, those with a label's text if one is given.
func (r *rig) metric(t *testing.T, name, label string) float64 {
	t.Helper()
	text, err := r.sluice.Metrics(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	n, _ := harness.SumMetric(t, text, name, label)
	return n
}
