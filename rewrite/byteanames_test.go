package rewrite

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/sluice-proxy/sluice/integration/pgtest"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// long is a name that PostgreSQL cuts where it makes another of it.
var long = strings.Repeat("länge", 7)

// named are definitions over bytea keys that leave names to PostgreSQL.
var named = []string{
	`CREATE TABLE t (k bytea PRIMARY KEY)`,
	`CREATE TABLE t (k bytea UNIQUE, n int)`,
	`CREATE TABLE t (k bytea PRIMARY KEY UNIQUE)`,
	`CREATE TABLE t (k bytea UNIQUE PRIMARY KEY)`,
	`CREATE TABLE t (k bytea UNIQUE UNIQUE, UNIQUE (k))`,
	`CREATE TABLE t (k bytea UNIQUE DEFERRABLE, UNIQUE (k))`,
	`CREATE TABLE t (k bytea UNIQUE NOT DEFERRABLE INITIALLY IMMEDIATE UNIQUE DEFERRABLE UNIQUE INITIALLY DEFERRED, UNIQUE (k) DEFERRABLE, UNIQUE (k))`,
	`CREATE TABLE t (k bytea UNIQUE DEFERRABLE INITIALLY DEFERRED UNIQUE NOT DEFERRABLE, UNIQUE (k) INITIALLY DEFERRED)`,
	`CREATE TABLE t (k bytea, n int, UNIQUE NULLS NOT DISTINCT (k), UNIQUE (k))`,
	`CREATE TABLE t (k bytea, n int, PRIMARY KEY (k, n), UNIQUE (k, n), UNIQUE (n, k))`,
	`CREATE TABLE t (k bytea, n int, PRIMARY KEY (k), UNIQUE (n) INCLUDE (k), UNIQUE (k) INCLUDE (k, n), UNIQUE (k) INCLUDE (k, n))`,
	`CREATE TABLE t (k_n bytea UNIQUE, k bytea, n int, UNIQUE (k, n), UNIQUE (k) INCLUDE (n))`,
	`CREATE TABLE t (n int, m int, k bytea, CONSTRAINT t_k_key1 UNIQUE (n), UNIQUE (k), UNIQUE (k) DEFERRABLE, UNIQUE (k) INCLUDE (m))`,
	`CREATE TABLE t (id bytea PRIMARY KEY, parent bytea REFERENCES t, n bytea REFERENCES t (id))`,
	`CREATE TABLE t (id bytea, n int, p bytea, PRIMARY KEY (id, n), FOREIGN KEY (p, n) REFERENCES t, FOREIGN KEY (p, n) REFERENCES t (id, n), FOREIGN KEY (id, n) REFERENCES t)`,
	`CREATE TABLE "T ""x" ("K" bytea, "k " bytea UNIQUE, UNIQUE ("K", "k "))`,
	`CREATE TABLE t (k bytea DEFAULT '\x00' NOT NULL UNIQUE, n int CHECK (n > 0) UNIQUE CHECK (n < 9), CHECK (n <> 5))`,
	fmt.Sprintf(`CREATE TABLE t (%[1]s bytea UNIQUE, b bytea, UNIQUE (b, %[1]s), UNIQUE (%[1]s, b))`, long),
	fmt.Sprintf(`CREATE TABLE %[1]s%[1]s (%[1]s bytea UNIQUE, b bytea UNIQUE, UNIQUE (b, %[1]s), UNIQUE (%[1]s, b))`, long),
	`CREATE TABLE t (k bytea UNIQUE CHECK (length(k) > 3) CHECK (k <> ''), CHECK (t.k > 'a'), n int CHECK (n < 5), CHECK (length(k) < n), CHECK (n > length(k)))`,
	`CREATE TABLE t (k bytea UNIQUE, b bytea, CONSTRAINT t_k_check CHECK (b <> ''), CHECK (k IS NOT NULL), CHECK (k = ANY (ARRAY[k, ''::bytea])), CHECK (b > 'c'))`,
	`CREATE TABLE t (k bytea DEFAULT substr('\x0102'::bytea, 2) PRIMARY KEY, l int GENERATED ALWAYS AS (length(k)) STORED CHECK (l > 0), CHECK (k::text LIKE '%' COLLATE "C"))`,
	`CREATE TABLE t (b bytea, k bytea GENERATED ALWAYS AS (b || '\x00') STORED UNIQUE, g bytea GENERATED ALWAYS AS (k2) STORED UNIQUE, k2 bytea UNIQUE, l bytea GENERATED ALWAYS AS (k2) STORED)`,
	`ALTER TABLE i ADD CHECK (k <> 'a'), ADD CHECK (k <> k1) NOT VALID, ADD CHECK (n > 0)`,
	`CREATE INDEX x ON i ((k), (i.k1), md5(k), (k || k1)) WHERE k > '\x01' AND n > 0`,
	`CREATE INDEX ON i (k)`,
	`CREATE INDEX ON i ((k), n)`,
	`CREATE UNIQUE INDEX ON i (n, k) INCLUDE (m)`,
	`CREATE INDEX ON i (k, k) INCLUDE (k, k1)`,
	`CREATE INDEX ON i USING btree (k1, k ASC NULLS FIRST)`,
	`ALTER TABLE i ADD UNIQUE (k, n)`,
	`ALTER TABLE i ADD CONSTRAINT mine UNIQUE (k, n)`,
	`ALTER TABLE i ADD UNIQUE (k) INCLUDE (n)`,
}

// Clients write the names of constraints and read them in errors, so those that PostgreSQL
// chooses must not depend on how a column is stored.
func TestNamesOverMappedColumns(t *testing.T) {
	planner, err := New(byteaConfig())
	if err != nil {
		t.Fatal(err)
	}
	pg := pgtest.Start(t)
	var made [2][]string
	names := schema.New([]schema.Relation{{Schema: "public", Name: "i", Columns: []schema.Column{
		{Name: "k", Mapped: true}, {Name: "k1", Mapped: true}, {Name: "n"}, {Name: "m"}}}}).ResolverFor([]string{"public"})
	for _, sql := range named {
		plan := planner.PlanWithNames([]byte(sql), names)
		if plan.Text == "" || !strings.Contains(plan.Text, schema.MappedSuffix) {
			t.Errorf("%s\nis not mapped: %q", sql, plan.Text)
			continue
		}
		for i, text := range []string{sql, plan.Text} {
			made[i] = namesOf(t, pg, []string{"k bytea, k1 bytea", "k__byteahex text, k1__byteahex text"}[i], text)
		}
		made[1] = slices.DeleteFunc(made[1], func(name string) bool { return strings.HasSuffix(name, schema.MappedSuffix) })
		if !slices.Equal(made[0], made[1]) {
			t.Errorf("%s\n%s\nPostgreSQL's names %q\nwhere mapped       %q", sql, plan.Text, made[0], made[1])
		}
	}
}

// byteaConfig maps bytea keys and rewrites nothing else.
func byteaConfig() Config {
	config := Defaults()
	config.Rules = Rules{Bytea: ByteaHex, ByteaCheck: true}
	return config
}

// namesOf are the names of indexes and constraints that a statement makes, beside a table i
// with columns.
func namesOf(t *testing.T, pg *pgtest.Server, columns, sql string) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pg.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), "CREATE TABLE i ("+columns+", n int, m int)"); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s\n%v", sql, err)
	}
	rows, err := tx.Query(t.Context(), `SELECT conname::text FROM pg_constraint WHERE connamespace = 'public'::regnamespace
		UNION SELECT relname FROM pg_class WHERE relkind = 'i' AND relnamespace = 'public'::regnamespace ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return all
}
