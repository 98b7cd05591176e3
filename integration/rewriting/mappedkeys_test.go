package rewriting

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// unmappedKeys has no bytea columns of keys mapped, as kind dsql has by default.
var unmappedKeys = harness.Env{"DSQL_REWRITE_BYTEA": "off"}

// dialled is a client of a Sluice.
func dialled(t *testing.T, s *harness.Sluice, mode pgx.QueryExecMode) *pgx.Conn {
	t.Helper()
	return connectedTo(t, s.DSN("postgres"), mode)
}

// connectedTo is a connection that sends queries in that mode.
func connectedTo(t *testing.T, dsn string, mode pgx.QueryExecMode) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = mode
	c, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// A table that one Sluice makes has mapped columns for another too, from its first statement
// over it on: also where that names no column.
func TestMappedKeysOfAnother(t *testing.T) {
	t.Parallel()
	sim, one := standIn(t, nil)
	two := harness.StartSluice(t, harness.SluiceConfig{Bin: harness.Binaries(t), Env: sim.Env()})
	for mode, table := range map[pgx.QueryExecMode]string{pgx.QueryExecModeSimpleProtocol: "simple", pgx.QueryExecModeCacheStatement: "cached", pgx.QueryExecModeExec: "exec"} {
		a, b := dialled(t, one, mode), dialled(t, two, mode)
		for _, c := range []*pgx.Conn{a, b} { // each has a snapshot without the table
			if _, err := c.Exec(t.Context(), "SELECT count(*) FROM shards"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := a.Exec(t.Context(), "CREATE TABLE "+table+" (n int, k bytea, v bytea, PRIMARY KEY (n, k))"); err != nil {
			t.Fatal(err)
		}
		key := []byte{0, 0xff, 'a'}
		if _, err := b.Exec(t.Context(), "INSERT INTO "+table+" VALUES (1, $1, $2)", key, key); err != nil {
			t.Fatal(table, err)
		}
		for i, c := range []*pgx.Conn{a, b} {
			var n int
			var k, v []byte
			if err := c.QueryRow(t.Context(), "SELECT * FROM "+table+" WHERE k = $1", key).Scan(&n, &k, &v); err != nil || !bytes.Equal(k, key) || !bytes.Equal(v, key) {
				t.Errorf("%s, %d: %d %x %x (%v)", table, i+1, n, k, v, err)
			}
		}
		_, err := b.Exec(t.Context(), "INSERT INTO "+table+" VALUES (1, $1, NULL)", key)
		if err == nil || strings.Contains(err.Error(), "byteahex") {
			t.Errorf("%s: the error of a key that is there twice: %v", table, err)
		}
	}
}

// A Sluice that maps nothing refuses statements over a table that another has mapped.
func TestMappedKeysWithoutMapping(t *testing.T) {
	t.Parallel()
	sim, one := standIn(t, nil)
	two := harness.StartSluice(t, harness.SluiceConfig{Bin: harness.Binaries(t), Env: sim.Env().With(unmappedKeys)})
	if _, err := dialled(t, one, pgx.QueryExecModeExec).Exec(t.Context(), "CREATE TABLE keyed (k bytea PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	c := dialled(t, two, pgx.QueryExecModeExec)
	var e *pgconn.PgError
	if _, err := c.Exec(t.Context(), "SELECT * FROM keyed"); !errors.As(err, &e) || e.Code != "0A000" || !strings.Contains(e.Hint, "rewrite.bytea: hex") {
		t.Errorf("got %v", err)
	}
	if _, err := c.Exec(t.Context(), "SELECT * FROM shards"); err != nil {
		t.Error(err)
	}
}
