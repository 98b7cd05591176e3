package rewriting

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

var schemaNames = harness.Env{"DSQL_LISTEN_DATABASES": "postgres,app_*=schema:*"}

// Databases that are schemas are made, used and dropped by each way of each driver.
func TestDatabasesAsSchemas(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, sluice := standIn(t, schemaNames)
	for i, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			do := func(database, sql, want string, args ...any) {
				t.Helper()
				out, err := c.run(ctx, sluice.DSN(database), sql, args)
				if err != nil && code(err) != want || err == nil && want != "" && !strings.Contains(out, want) {
					t.Errorf("%s: %s: %q (%v), want %s", database, sql, out, err, want)
				}
			}
			one, two := fmt.Sprintf("app_one_%d", i), fmt.Sprintf("app_two_%d", i)
			do(one, "SELECT 1", "3D000")
			do("unlisted", "SELECT 1", "3D000")
			for _, name := range []string{one, two} {
				do("postgres", "CREATE DATABASE "+name, "")
				do("postgres", "CREATE DATABASE "+name, "42P04")
				do(name, "CREATE TABLE shards (shard_id int PRIMARY KEY, name text)", "")
				do(name, "CREATE INDEX ON shards (name)", "")
				do(name, "CREATE VIEW names AS SELECT name FROM shards", "")
				do(name, "CREATE FUNCTION one() RETURNS int LANGUAGE sql AS 'SELECT 1'", "")
				do(name, "INSERT INTO shards VALUES (1, '"+name+"')", "")
				do(name, "SELECT name FROM shards WHERE shard_id = $1 FOR SHARE", name, 1)
			}
			do(two, "SELECT string_agg(name, ',') FROM shards", two)
			do(one, "SELECT current_database() || '.' || current_schema()", "postgres."+one)
			do("postgres", "SELECT count(*) || ' shards' FROM shards", "2 shards") // those of the stand-in's public
			do("postgres", "DROP DATABASE "+one, "")
			do("postgres", "DROP DATABASE "+one, "3D000")
			do("postgres", "DROP DATABASE IF EXISTS "+one, "")
			do(one, "SELECT 1", "3D000")
			do(two, "SELECT string_agg(name, ',') FROM shards", two)
			do("postgres", "DROP DATABASE IF EXISTS "+two, "")
		})
	}
}

// A cluster takes ten schemas, public among them.
func TestTenthDatabase(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, sluice := standIn(t, schemaNames)
	conn, err := pgx.Connect(ctx, sluice.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for n := 1; n <= 9; n++ {
		if _, err := conn.Exec(ctx, fmt.Sprintf("CREATE DATABASE app_%d", n)); err != nil {
			t.Fatal(err)
		}
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE app_10")
	if e, ok := err.(*pgconn.PgError); !ok || e.Code != "54000" || e.Message != "more than 10 schemas not allowed" || !strings.Contains(e.Hint, "Drop a database") {
		t.Errorf("the tenth: %#v", err)
	}
	for _, sql := range []string{"DROP DATABASE app_1", "CREATE DATABASE app_10"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// With kind postgres behind Sluice, CREATE DATABASE of such a name is no real database.
func TestDatabasesAsSchemasOfPostgreSQL(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg := pgtest.Start(t)
	sluice := harness.StartSluice(t, harness.SluiceConfig{Bin: harness.Binaries(t), Env: harness.PostgresEnv(pg).With(schemaNames)})
	for _, c := range clients {
		for _, sql := range []string{"CREATE DATABASE app_x", "DROP DATABASE app_x"} {
			if _, err := c.run(ctx, sluice.DSN("postgres"), sql, nil); err != nil {
				t.Errorf("%s, %s: %v", c.name, sql, err)
			}
			if n := pg.SQL(t, "postgres", "SELECT count(*) FROM pg_database WHERE datname LIKE 'app%'"); n != "0" {
				t.Errorf("%s databases", n)
			}
		}
	}
}
