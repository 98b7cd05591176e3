package proxy_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/rewrite"
)

// mapping has bytea columns of keys mapped.
func mapping(s *setup) { s.rules.Bytea, s.rules.ByteaCheck = rewrite.ByteaHex, true }

// mappingKinds are the kinds of server with mapped columns.
var mappingKinds = map[string][]option{"postgres": {mapping}, "dsql": {asDSQL, withReplay, mapping}}

// loads is how often the schema was read for a cause.
func loads(t *testing.T, s *sluice, cause string) int {
	t.Helper()
	return int(s.count(t, "dsql_schema_loads_total", cause))
}

// loaded checks how often the schema was read, by cause.
func loaded(t *testing.T, s *sluice, start, change, missing int) {
	t.Helper()
	if a, b, c := loads(t, s, "start"), loads(t, s, "change"), loads(t, s, "missing"); a != start || b != change || c != missing {
		t.Errorf("read %d times at the start, %d for a change, %d for a name; want %d, %d, %d", a, b, c, start, change, missing)
	}
}

// The schema is read in front of the first text, behind DDL of the process, and for a text
// that names a relation which it lacks: not for any other.
func TestSchemaIsReadWhenItMust(t *testing.T) {
	t.Parallel()
	for kind, opts := range mappingKinds {
		t.Run(kind, func(t *testing.T) {
			pg := newPostgres(t)
			s := startSluice(t, pg, opts...)
			for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec} {
				before := [3]int{loads(t, s, "start"), loads(t, s, "change"), loads(t, s, "missing")}
				c := connectTo(t, s, "postgres", mode)
				run(t, c, "SELECT 1", "SELECT count(*) FROM pg_class", "SELECT 1 FROM information_schema.tables LIMIT 1",
					"WITH c AS (SELECT 1 AS a) SELECT a FROM c, generate_series(1, 2)", "SELECT EXTRACT(year FROM now())")
				loaded(t, s, 1, before[1], before[2])
				run(t, c, "CREATE TABLE own (a int PRIMARY KEY)", "SELECT * FROM own", "SELECT a FROM own JOIN own o USING (a)", "DROP TABLE own", "SELECT 1")
				loaded(t, s, 1, before[1]+2, before[2])
				pg.SQL(t, "postgres", "CREATE TABLE other (a int PRIMARY KEY)")
				run(t, c, "INSERT INTO other VALUES (1)", "SELECT * FROM other", "UPDATE other SET a = 2", "DELETE FROM other")
				loaded(t, s, 1, before[1]+2, before[2]+1)
				pg.SQL(t, "postgres", "DROP TABLE other")
				run(t, c, "CREATE TABLE third (a int)", "DROP TABLE third", "SELECT 2")
			}
		})
	}
}
