package rewriting

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// hinted are the tables of TestHintsAreTrue. Keyless tables have a column to choose rows by.
const hinted = `DROP TABLE IF EXISTS keyless, keyed, large, made, few CASCADE;
	CREATE TABLE keyless (a int, v text); INSERT INTO keyless SELECT i, 'x' FROM generate_series(1, 4000) i; CREATE TABLE keyed (id int PRIMARY KEY, a int, v text);
	CREATE TABLE large (id int PRIMARY KEY, v text); INSERT INTO large SELECT i, 'x' FROM generate_series(1, 4000) i; CREATE TABLE few (a int)`

// followed are refused statements: the code, a part of the hint, and the statements with which a client that follows the
// hint comes to the end. A statement COPY has its number of rows in front.
var followed = []struct {
	name       string
	said       []string // the last is refused
	code, hint string
	then       []string
	check      string // a query that is true afterwards
}{
	{"CREATE INDEX in a DO block", []string{"DO $$BEGIN CREATE INDEX made_i ON keyed (a); END$$"}, "0A000", "Send the statement by itself where the block would run it",
		[]string{"CREATE INDEX made_i ON keyed (a)"}, "to_regclass('made_i') IS NOT NULL"},
	{"CREATE INDEX under a condition", []string{"DO $$BEGIN IF NOT EXISTS (SELECT 1 FROM pg_class WHERE relname = 'made_i') THEN CREATE INDEX made_i ON keyed (a); END IF; END$$"}, "0A000", "Send the statement by itself where the block would run it",
		[]string{"SELECT NOT EXISTS (SELECT 1 FROM pg_class WHERE relname = 'made_i')", "CREATE INDEX made_i ON keyed (a)"}, "to_regclass('made_i') IS NOT NULL"},
	{"a mapped key in a DO block", []string{"DO $$BEGIN CREATE TABLE made (k bytea PRIMARY KEY); EXCEPTION WHEN duplicate_table THEN NULL; END$$"}, "0A000", "by itself where the block would run it, and ignore the errors that the block ignores: Sluice",
		[]string{"CREATE TABLE made (k bytea PRIMARY KEY)", `INSERT INTO made VALUES ('\x01')`}, "to_regclass('made') IS NOT NULL"},
	{"an extension in a DO block", []string{"DO $$BEGIN CREATE EXTENSION pgcrypto; END$$"}, "0A000", "Send the statement by itself", []string{"CREATE EXTENSION pgcrypto"}, "true"},
	{"a refused statement in a DO block", []string{"DO $$BEGIN CREATE TABLE made (a int) PARTITION BY HASH (a); END$$"}, "0A000", "refused by itself, too. To that one: Leave PARTITION BY out.",
		[]string{"DO $$BEGIN CREATE TABLE made (a int); END$$"}, "to_regclass('made') IS NOT NULL"},
	{"a DO block beside a statement", []string{"SELECT 1; DO $$BEGIN CREATE TABLE made (a int); END$$"}, "0A000", "Send the block alone outside of a transaction", []string{"DO $$BEGIN CREATE TABLE made (a int); END$$"}, "to_regclass('made') IS NOT NULL"},
	{"a DO block of another form", []string{"DO $$BEGIN CREATE TABLE made (a int); CREATE TABLE made2 (a int); END$$"}, "0A000", "do it in the application", []string{"CREATE TABLE made (a int)"}, "to_regclass('made') IS NOT NULL"},

	{"TRUNCATE beside a statement", []string{"SELECT 1; TRUNCATE large"}, "54000", "Send TRUNCATE alone outside of a transaction", []string{"TRUNCATE large"}, "NOT EXISTS (SELECT FROM large)"},
	{"TRUNCATE in a block", []string{"BEGIN", "TRUNCATE large"}, "54000", "Send TRUNCATE alone outside of a transaction", []string{"ROLLBACK", "TRUNCATE large"}, "NOT EXISTS (SELECT FROM large)"},
	{"TRUNCATE without a key", []string{"TRUNCATE keyless"}, "54000", "Delete at most 3,000 rows at a time.", []string{"DELETE FROM keyless WHERE a <= 3000", "TRUNCATE keyless"}, "NOT EXISTS (SELECT FROM keyless)"},
	{"DELETE of a listed table beside a statement", []string{"SELECT 1; DELETE FROM large WHERE id > 0"}, "54000", "Send the DELETE alone outside of a transaction: for a table under rewrite.chunked_delete", []string{"DELETE FROM large WHERE id > 0"}, "NOT EXISTS (SELECT FROM large)"},
	{"DELETE in a block", []string{"BEGIN", "DELETE FROM large WHERE id > 0"}, "54000", "Send the DELETE alone outside of a transaction", []string{"ROLLBACK", "DELETE FROM large WHERE id > 0"}, "NOT EXISTS (SELECT FROM large)"},
	{"DELETE of a table beside a statement", []string{"SELECT 1; DELETE FROM keyless WHERE a > 0"}, "54000", "Or delete at most 3,000 rows at a time.", []string{"DELETE FROM keyless WHERE a > 3000", "DELETE FROM keyless WHERE a > 0"}, "NOT EXISTS (SELECT FROM keyless)"},
	{"DELETE of another form", []string{"DELETE FROM large WHERE id > 0 OR v = 'x'"}, "54000", "Delete at most 3,000 rows at a time.", []string{"DELETE FROM large WHERE id <= 2000", "DELETE FROM large WHERE id > 2000"}, "NOT EXISTS (SELECT FROM large)"},

	{"COPY in a block, outside", []string{"BEGIN", "3500 COPY keyed (id, v) FROM STDIN"}, "54000", "Send the COPY outside of a transaction", []string{"ROLLBACK", "3500 COPY keyed (id, v) FROM STDIN"}, "(SELECT count(*) = 3500 FROM keyed)"},
	{"COPY in a block, of less", []string{"BEGIN", "INSERT INTO few VALUES (1)", "3000 COPY keyed (id, v) FROM STDIN"}, "54000", "Or COPY less: a transaction changes at most 3,000 rows", []string{"ROLLBACK", "BEGIN", "INSERT INTO few VALUES (1)", "2999 COPY keyed (id, v) FROM STDIN", "COMMIT"}, "(SELECT count(*) = 2999 FROM keyed)"},
	{"COPY beside a statement", []string{"SELECT 1; COPY keyed (id, v) FROM STDIN"}, "0A000", "Send it in a request of its own.", []string{"5 COPY keyed (id, v) FROM STDIN"}, "(SELECT count(*) = 5 FROM keyed)"},
	{"COPY with WHERE", []string{"COPY keyed (id, v) FROM STDIN WHERE id > 1"}, "0A000", "Leave it out", []string{"5 COPY keyed (id, v) FROM STDIN"}, "(SELECT count(*) = 5 FROM keyed)"},

	{"a default without a key", []string{"ALTER TABLE keyless ADD COLUMN c int DEFAULT 5"}, "0A000",
		"ALTER TABLE keyless ADD COLUMN c int; ALTER TABLE keyless ALTER COLUMN c SET DEFAULT 5; UPDATE keyless SET c = DEFAULT WHERE c IS NULL, at most 3,000 rows at a time. Choose the rows of each UPDATE by other columns.",
		[]string{"ALTER TABLE keyless ADD COLUMN c int", "ALTER TABLE keyless ALTER COLUMN c SET DEFAULT 5", "UPDATE keyless SET c = DEFAULT WHERE c IS NULL AND a <= 2000", "UPDATE keyless SET c = DEFAULT WHERE c IS NULL AND a > 2000"}, "(SELECT count(*) = 4000 FROM keyless WHERE c = 5)"},
	{"a default without a key behind another command", []string{"ALTER TABLE keyless ADD COLUMN d int, ADD COLUMN c int DEFAULT 5"}, "0A000", "Choose the rows of each UPDATE by other columns.",
		[]string{"ALTER TABLE keyless ADD COLUMN d int"}, "true"},
	{"a serial column without a key", []string{"ALTER TABLE keyless ADD COLUMN c serial"}, "0A000", "Create the table anew with bigint GENERATED BY DEFAULT AS IDENTITY (CACHE 1).",
		[]string{"CREATE TABLE made (a int, v text, c bigint GENERATED BY DEFAULT AS IDENTITY (CACHE 1))", "INSERT INTO made (a, v) SELECT a, v FROM keyless WHERE a <= 2000"}, "(SELECT count(*) = 2000 FROM made)"},
	{"a type without a key", []string{"ALTER TABLE keyless ALTER COLUMN a TYPE bigint"}, "0A000", "at most 3,000 rows at a time",
		[]string{`ALTER TABLE keyless ADD COLUMN "a_new" bigint`, `UPDATE keyless SET "a_new" = a WHERE "a_new" IS NULL AND a IS NOT NULL AND a <= 2000`, `UPDATE keyless SET "a_new" = a WHERE "a_new" IS NULL AND a IS NOT NULL`, "ALTER TABLE keyless DROP COLUMN a", `ALTER TABLE keyless RENAME COLUMN "a_new" TO a`},
		"(SELECT count(*) = 4000 FROM keyless WHERE a > 0)"},
	{"a default beside a statement", []string{"SELECT 1; ALTER TABLE keyed ADD COLUMN c int DEFAULT 5"}, "0A000", "Send the statement alone outside of a transaction: it is then carried out (ddl.add_column_default).", []string{"ALTER TABLE keyed ADD COLUMN c int DEFAULT 5"}, "true"},
}

// A client that follows the hint of a refusal comes to its end, by both protocols. A refused statement leaves nothing.
func TestHintsAreTrue(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	env := harness.Env{"DSQL_DDL_CARRY_OUT": "all", "DSQL_COPY_FROM": "insert", "DSQL_REWRITE_TRUNCATE": "batches", "DSQL_REWRITE_CHUNKED_DELETE": "large", "DSQL_REWRITE_BYTEA": "hex"}
	r := startParts(t, "autocommit", env)
	// Several statements are refused where none of them is committed by itself.
	whole := harness.StartSluice(t, harness.SluiceConfig{Bin: harness.Binaries(t), Env: r.sim.Env().With(env).With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "5", "DSQL_DDL_IN_TRANSACTIONS": "refuse"})})
	const columns = "SELECT coalesce(string_agg(attrelid::regclass || '.' || attname, ' ' ORDER BY attrelid, attnum), '') FROM pg_attribute WHERE attrelid IN ('keyless'::regclass, 'keyed'::regclass) AND attnum > 0 AND NOT attisdropped"
	run := func(c *pgconn.PgConn, sql string, extended bool) error {
		rows := 0
		if n, _ := fmt.Sscanf(sql, "%d COPY", &rows); n == 1 {
			_, err := c.CopyFrom(ctx, strings.NewReader(lines(0, rows)), sql[strings.Index(sql, "COPY"):])
			return err
		}
		if extended {
			return c.ExecParams(ctx, sql, nil, nil, nil, nil).Read().Err
		}
		_, err := c.Exec(ctx, sql).ReadAll()
		return err
	}
	for _, extended := range []bool{false, true} {
		for _, h := range followed {
			if extended && strings.Contains(h.said[len(h.said)-1], "; ") && !strings.HasPrefix(h.said[0], "DO") {
				continue // several statements are for a simple Query
			}
			r.pg.SQL(t, "postgres", hinted)
			dsn := r.sluice.DSN("postgres")
			if strings.HasPrefix(h.said[0], "SELECT 1; ") {
				dsn = whole.DSN("postgres")
			}
			c, _ := r.dial(t, dsn)
			before := r.pg.SQL(t, "postgres", columns)
			for i, sql := range h.said {
				err := run(c, sql, extended)
				if last := i == len(h.said)-1; last && (code(err) != h.code || !strings.Contains(hintOf(err), h.hint)) || !last && err != nil {
					t.Errorf("%s, extended %v: %s: %v (%s)", h.name, extended, sql, err, hintOf(err))
				}
			}
			if got := r.pg.SQL(t, "postgres", columns); got != before {
				t.Errorf("%s, extended %v: columns %s, and %s before", h.name, extended, got, before)
			}
			for _, sql := range h.then {
				if err := run(c, sql, extended); err != nil {
					t.Errorf("%s, extended %v: the hint %q is not true: %s: %v (%s)", h.name, extended, h.hint, sql, err, hintOf(err))
				}
			}
			if got := r.pg.SQL(t, "postgres", "SELECT "+h.check); got != "t" {
				t.Errorf("%s, extended %v: %s is %s", h.name, extended, h.check, got)
			}
			if err := c.Close(ctx); err != nil {
				t.Error(err)
			}
		}
	}
}
