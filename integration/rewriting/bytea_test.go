package rewriting

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// temporalSchema are the statements by which Temporal's tool makes its tables, from the
// golden file of package rewrite.
func temporalSchema(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../rewrite/testdata/temporal_schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, part := range strings.Split(string(text), "-- in\n")[1:] {
		sql, _, _ := strings.Cut(part, "\n-- out")
		switch {
		case sql == "CREATE DATABASE temporal":
			return all // what follows brings older schemas up to date
		case !strings.Contains(sql, "DATABASE") && sql != "DROP TABLE temporal":
			all = append(all, sql)
		}
	}
	return all
}

// The stand-in refuses bytea in keys, as a cluster does: with the mapping it takes the
// schema of a stock Temporal as it is.
func TestTemporalSchemaWithByteaKeys(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg := pgtest.Start(t, pgtest.MaxConnections(200))
	bin := harness.Binaries(t)
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg})
	for _, bytea := range []string{"off", "hex"} {
		sluice := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env().With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "5", "DSQL_REWRITE_BYTEA": bytea})})
		conn, err := pgx.Connect(ctx, sluice.DSN("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		schema, refused := temporalSchema(t), 0
		for _, sql := range schema {
			if bytea == "off" && !strings.Contains(sql, "BYTEA") {
				continue
			}
			if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
				refused++
				if bytea == "hex" || code(err) != "0A000" {
					t.Errorf("%s\n%v", sql, err)
				}
			} else if table, _, _ := strings.Cut(strings.TrimPrefix(sql, "CREATE TABLE "), "("); bytea == "off" {
				if _, err := conn.Exec(ctx, "DROP TABLE "+table); err != nil {
					t.Error(err)
				}
			}
		}
		if bytea == "off" && refused != 22 {
			t.Errorf("without the mapping %d of %d statements are refused, want 22", refused, len(schema))
		}
	}
	const mapped = `SELECT count(*) || ' in ' || count(DISTINCT attrelid) FROM pg_attribute a WHERE attname LIKE '%\_\_byteahex' AND atttypid = 'text'::regtype
		AND attrelid IN (SELECT oid FROM pg_class WHERE relkind = 'r')
		AND EXISTS (SELECT FROM pg_constraint WHERE conrelid = attrelid AND conname = attname AND contype = 'c' AND conkey = ARRAY[attnum])`
	if got := pg.SQL(t, "postgres", mapped); got != "34 in 22" {
		t.Errorf("mapped columns with their CHECKs: %s, want 34 in 22", got)
	}
}
