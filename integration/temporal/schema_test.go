package temporal

import (
	"flag"
	"testing"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

var schemasFlag = flag.Bool("schemas", false, "write the differences of Temporal's schema into testdata/schema.txt, and nothing else")

// What the stock tool leaves through Sluice is what it leaves on PostgreSQL, but for a closed list. (The
// versions one by one are refused: docs/temporal.md.)
func TestSchemaIsPostgreSQLs(t *testing.T) {
	programs := build(t)
	plain := stockDatabase(t, programs)
	upstream := pgtest.Start(t, pgtest.MaxConnections(150))
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Upstream: upstream})
	sluice := harness.StartSluice(t, harness.SluiceConfig{Env: sim.Env().With(sluiceEnv)})
	programs.setUp(t, pgx5, mainSchema, at(sluice))
	differences := pgtest.SchemaDifferences(plain.Schema(t, "temporal"), upstream.Schema(t, "postgres"))
	pgtest.HoldSchema(t, differences, "testdata/schema.txt", *schemasFlag)
}
