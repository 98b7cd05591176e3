package temporal

import (
	"testing"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// The stock tool makes two databases that are schemas, sets one up anew with --overwrite, and
// drops it, and the other keeps its tables and rows.
func TestSchemaToolOnTwoDatabases(t *testing.T) {
	programs := build(t)
	pg := pgtest.Start(t, pgtest.MaxConnections(150))
	pg.SQL(t, "postgres", "CREATE TABLE shards (of_public int)")
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Upstream: pg})
	sluice := harness.StartSluice(t, harness.SluiceConfig{Env: sim.Env().With(harness.Env{"DSQL_LISTEN_DATABASES": "postgres,temporal_*=schema:*"})})
	runs := func(plugin, database string, args ...string) {
		t.Helper()
		programs.tool(t, plugin, database, at(sluice), args...)
	}
	count := func(what, want string) {
		t.Helper()
		if got := pg.SQL(t, "postgres", "SELECT count(*) FROM "+what); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	setUp := []string{"setup-schema", "--version", mainSchema.version, "--schema-name", mainSchema.name}
	const one, two = "temporal_one", "temporal_two"
	plugins := map[string]string{one: libpq, two: pgx5}
	for name, plugin := range plugins {
		runs(plugin, name, "create-database")
		runs(plugin, name, "create-database") // takes it well that it is there
		runs(plugin, name, setUp...)
		runs(plugin, name, "update-schema", "--schema-name", mainSchema.name) // there is nothing to do
		pg.SQL(t, "postgres", "INSERT INTO "+name+".shards (shard_id, range_id, data, data_encoding) VALUES (1, 1, '', '')")
	}
	tables := pg.SQL(t, "postgres", "SELECT count(*) FROM pg_tables WHERE schemaname = '"+one+"'")
	runs(plugins[one], one, append(setUp, "--overwrite")...)
	count(one+".shards", "0")
	count(two+".shards", "1")
	for name := range plugins {
		count("pg_tables WHERE schemaname = '"+name+"'", tables)
	}
	runs(plugins[one], one, "drop-database", "--force")
	count("pg_namespace WHERE nspname = '"+one+"'", "0")
	count(two+".shards", "1")
	runs(plugins[two], two, "drop-database", "--force")
	count("pg_namespace WHERE nspname LIKE 'temporal%'", "0")
	count("pg_tables WHERE schemaname = 'public'", "1")
}
