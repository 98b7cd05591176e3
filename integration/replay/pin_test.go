package replay

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// A statement for which a session keeps its backend is not told that another session has
// changed the schema (OC001), by whatever protocol; nor is one of a session that kept its backend
// before.
func TestPinBehindAChangeOfTheSchema(t *testing.T) {
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Upstream: pgtest.Shared(t)})
	sluice := harness.StartSluice(t, harness.SluiceConfig{Env: sim.Env().With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "10", "DSQL_CONNECTION_RATE_LIMIT": "1000",
		"DSQL_REWRITE_BYTEA": "off"})}) // or the change is met by the question for it
	connect := func(mode pgx.QueryExecMode) *pgx.Conn {
		config, err := pgx.ParseConfig(sluice.DSN("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		config.DefaultQueryExecMode = mode
		c, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(t.Context()) })
		return c
	}
	changes := connect(pgx.QueryExecModeSimpleProtocol)
	n := 0
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec} {
		for _, statements := range [][]string{ // the first is before the change
			{"SELECT 1", "PREPARE p AS SELECT 1", "EXECUTE p"},
			{"SELECT 1", "BEGIN", "PREPARE p AS SELECT 1", "COMMIT", "EXECUTE p"},
			{"SELECT 1", "BEGIN", "SELECT 1", "PREPARE p AS SELECT 1", "COMMIT", "EXECUTE p"},
			{"PREPARE p AS SELECT 1", "SELECT 1", "EXECUTE p"},
			{"PREPARE p AS SELECT 1", "EXECUTE p"},
			{"PREPARE p AS SELECT 1", "BEGIN", "EXECUTE p", "SELECT 2", "COMMIT", "EXECUTE p"},
			{"PREPARE p AS SELECT 1", "PREPARE q AS SELECT 2", "EXECUTE q", "EXECUTE p"},
		} {
			n++
			c := connect(mode)
			run := func(c *pgx.Conn, statements ...string) {
				for _, sql := range statements {
					if _, err := c.Exec(t.Context(), sql); err != nil {
						t.Errorf("%v: %s: %v", statements, sql, err)
					}
				}
			}
			// Two backends, of which the one that changes the schema is busy then.
			run(changes, "BEGIN", "SELECT 1")
			run(c, statements[0])
			run(changes, "COMMIT", fmt.Sprintf("CREATE TABLE change_%d (a int)", n), "BEGIN", "SELECT 1")
			run(c, statements[1:]...)
			run(changes, "COMMIT")
			c.Close(t.Context())
		}
	}
}
