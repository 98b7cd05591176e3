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
	for _, bytea := range []string{"off", "auto"} {
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
				if bytea != "off" || code(err) != "0A000" {
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

// changes are statements over tables with mapped columns, one after another, with the code
// of the error that they get; want is what PostgreSQL answers behind them.
var changes = []struct{ sql, code string }{
	{"CREATE TABLE parents (k bytea PRIMARY KEY DEFAULT '\\x00' CHECK (length(k) < 5), n int UNIQUE)", ""},
	{"CREATE TABLE children (id int PRIMARY KEY, k bytea REFERENCES parents, v bytea, later bytea)", ""},
	{"CREATE TABLE IF NOT EXISTS children (k bytea PRIMARY KEY)", ""},
	{"CREATE TABLE children (k bytea PRIMARY KEY)", "42P07"},
	{"CREATE TABLE copies (LIKE parents)", "0A000"},
	{"CREATE TABLE twice (k bytea PRIMARY KEY, k int)", "42701"},
	{"CREATE INDEX ON children (k)", ""},
	{"CREATE INDEX mine ON children (id) INCLUDE (k)", ""},
	{"CREATE INDEX ON children (later)", ""},
	{"CREATE INDEX ON children (v)", "0A000"},
	{"CREATE INDEX lengths ON children (length(k))", ""},
	{"CREATE STATISTICS s ON id, k FROM children", "0A000"},
	{"COMMENT ON COLUMN children.k IS 'the parent'", ""},
	{"ALTER TABLE children ALTER COLUMN k SET DEFAULT '\\x01'", ""},
	{"ALTER TABLE parents ALTER COLUMN k DROP DEFAULT", ""},
	{"ALTER TABLE parents ALTER COLUMN k TYPE text", "0A000"},
	{"ALTER TABLE children DROP CONSTRAINT k__byteahex", "0A000"},
	{"ALTER TABLE children ADD COLUMN k int", "42701"},
	{"ALTER TABLE children RENAME COLUMN v TO k", "42701"},
	{"ALTER TABLE children RENAME COLUMN k TO v", "42701"},
	{"ALTER TABLE children RENAME COLUMN k TO \"Parent\"", ""},
	{"ALTER TABLE children ALTER COLUMN \"Parent\" SET DEFAULT '\\x02'::bytea", ""},
	{"ALTER TABLE children ADD CHECK (\"Parent\" <> '\\xff') NOT VALID", ""},
	{"ALTER TABLE children DROP CONSTRAINT \"children_Parent_check\"", ""},
	{"ALTER TABLE children DROP COLUMN later", ""},
	{"ALTER TABLE children ADD COLUMN later timestamp NULL, ADD COLUMN more bytea NULL", ""},
	{"DROP INDEX children_k_idx", ""},
	{"DROP TABLE children", ""},
	{"DROP TABLE parents", ""},
}

func TestChangesOverMappedColumns(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, sluice := standIn(t, harness.Env{"DSQL_REWRITE_BYTEA_COLUMNS": "children.later"})
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			for _, change := range changes {
				if _, err := c.run(ctx, sluice.DSN("postgres"), change.sql, nil); code(err) != change.code {
					t.Errorf("%s: %v, want %q", change.sql, err, change.code)
				}
			}
		})
	}
}
