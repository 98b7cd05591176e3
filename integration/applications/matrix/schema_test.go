package matrix

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// What migrations leave on Sluice's cluster is compared with what they leave on PostgreSQL, by pg_dump.
// testdata/schemas has the differences of each tool in each configuration: the list is closed, and any
// other difference fails.

var schemasFlag = flag.Bool("schemas", false, "write the differences of schemas into testdata/schemas, and nothing else")

// schemaOf returns the schema of a route's database.
func schemaOf(t *testing.T, r route) []string {
	t.Helper()
	return r.upstream.Schema(t, r.database)
}

// compareSchemas holds the differences of a route against those that are listed, or lists them.
func (tl *tool) compareSchemas(t *testing.T, r route, plain []string) {
	t.Helper()
	file := filepath.Join("testdata", "schemas", strings.ReplaceAll(tl.name, "/", " ")+", "+r.configuration.name+".txt")
	pgtest.HoldSchema(t, pgtest.SchemaDifferences(plain, schemaOf(t, r)), file, *update || *schemasFlag)
}
