package proxy_test

import (
	"fmt"
	"strings"
	"testing"
)

// What may write, although it looks like a read, is not run again when its answer is
// lost: its client is told that nobody knows. What surely reads is.
func TestReadsThatWrite(t *testing.T) {
	t.Parallel()
	pg := postgres{Server: newPostgres(t)}
	pg.addr = pg.Address()
	pg.SQL(t, "postgres", `CREATE TABLE plain_rows (a int); CREATE TABLE wrote (a int);
		INSERT INTO plain_rows VALUES (1)`)
	pg.SQL(t, "postgres", "CREATE DATABASE pure")
	pg.SQL(t, "postgres", `
		CREATE FUNCTION writes() RETURNS int LANGUAGE sql AS $$ INSERT INTO wrote VALUES (1) RETURNING a $$;
		CREATE FUNCTION wk(plain_rows) RETURNS int LANGUAGE sql AS $$ INSERT INTO wrote VALUES (2) RETURNING a $$;
		CREATE FUNCTION adds(plain_rows, int) RETURNS int LANGUAGE sql AS $$ INSERT INTO wrote VALUES (3) RETURNING a $$;
		CREATE FUNCTION casts(plain_rows) RETURNS int LANGUAGE sql AS $$ INSERT INTO wrote VALUES (4) RETURNING a $$;
		CREATE FUNCTION gathers(int, plain_rows) RETURNS int LANGUAGE sql AS $$ INSERT INTO wrote VALUES (5) RETURNING a $$;
		CREATE FUNCTION lower(plain_rows) RETURNS int LANGUAGE sql AS $$ INSERT INTO wrote VALUES (6) RETURNING a $$;
		CREATE FUNCTION checks(int) RETURNS bool LANGUAGE sql AS $$ INSERT INTO wrote VALUES (7) RETURNING true $$;
		CREATE OPERATOR @@@ (FUNCTION = adds, LEFTARG = plain_rows, RIGHTARG = int);
		CREATE CAST (plain_rows AS int) WITH FUNCTION casts(plain_rows);
		CREATE AGGREGATE max(plain_rows) (SFUNC = gathers, STYPE = int);
		CREATE DOMAIN checked AS int CHECK (checks(VALUE));
		CREATE VIEW writing AS SELECT writes()`)
	pg.SQL(t, "pure", "CREATE TABLE plain_rows (a int); INSERT INTO plain_rows VALUES (1); CREATE VIEW reading AS SELECT a FROM plain_rows;"+
		"CREATE FUNCTION stable_one() RETURNS int STABLE LANGUAGE sql AS 'SELECT 1'; CREATE FUNCTION fires() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'")
	routes := map[string]string{
		"simple":   "Q %s\n< Z\n",
		"extended": "P - | %s\nB - | -\nE -\nS\n< Z\n",
	}
	rows := func() string { return strings.TrimSpace(pg.SQL(t, "postgres", "SELECT count(*) FROM wrote")) }
	for name, opts := range map[string][]option{"": nil, "replay": {fastReplay}} {
		var cut cutter
		s := startSluice(t, pg, append(opts, cut.option, maxOpen(2))...)
		for _, sql := range []string{"SELECT * FROM writing", "TABLE writing", "SELECT k.wk FROM plain_rows k", "SELECT (k).wk FROM plain_rows k",
			"SELECT k @@@ 1 FROM plain_rows k", "SELECT k::int FROM plain_rows k", "SELECT max(k) FROM plain_rows k", "SELECT lower(k) FROM plain_rows k",
			"SELECT a::checked FROM plain_rows", "WITH w AS (SELECT * FROM writing) SELECT * FROM w", "SELECT 1 WHERE EXISTS (SELECT writes FROM writing WHERE writes > 0)",
			"VALUES ((SELECT writes FROM writing))", "EXPLAIN ANALYZE SELECT * FROM writing", "COPY (SELECT * FROM writing) TO STDOUT"} {
			for route, script := range routes {
				pg.SQL(t, "postgres", "TRUNCATE wrote")
				cut.arm("doomed", true)
				got := perform(t, s.addr, fmt.Sprintf(script, strings.Replace(sql, " ", " /* doomed */ ", 1)))
				if n := rows(); n != "1" || !strings.Contains(got, "C=08007") {
					t.Errorf("%s %s: %s: %s rows, and the client was told\n%s", name, route, sql, n, got)
				}
			}
		}
		// In a block nothing is committed before the COMMIT.
		pg.SQL(t, "postgres", "TRUNCATE wrote")
		cut.arm("doomed", true)
		got := perform(t, s.addr, "Q BEGIN\n< Z\nQ SELECT /* doomed */ * FROM writing\n< Z\nQ COMMIT\n< Z\n")
		if n := rows(); name == "replay" && (n != "1" || strings.Contains(got, "\nE ")) || name == "" && (n != "0" || !strings.Contains(got, "C=08006")) {
			t.Errorf("%s, in a block: %s rows, and the client was told\n%s", name, n, got)
		}
	}
	inPure := func(s *setup) { s.dial.Database = "pure" }
	for name, opts := range map[string][]option{"": nil, "replay": {fastReplay}} {
		var cut cutter
		s := startSluice(t, pg, append(opts, cut.option, inPure, maxOpen(2))...)
		for _, sql := range []string{"SELECT 1", "SELECT * FROM plain_rows", "SELECT a, k.a FROM plain_rows k WHERE a = 1", "SELECT * FROM reading", "SELECT stable_one() FROM reading"} {
			for route, script := range routes {
				cut.arm("doomed", true)
				got := perform(t, s.addr, fmt.Sprintf(script, strings.Replace(sql, " ", " /* doomed */ ", 1)))
				told := strings.Contains(got, "C=08006")
				if strings.Contains(sql, "stable_one") { // a function of a user's is a write
					told = strings.Contains(got, "C=08007")
				} else if name == "replay" {
					told = !strings.Contains(got, "E S=")
				}
				if !told {
					t.Errorf("%s %s: %s: the client was told\n%s", name, route, sql, got)
				}
			}
		}
		// A function that is made here is known at once.
		cut.word.Store(nil)
		perform(t, s.addr, "Q CREATE TABLE wrote (a int)\n< Z\nQ CREATE FUNCTION writes() RETURNS int LANGUAGE sql AS $$ INSERT INTO wrote VALUES (1) RETURNING a $$\n< Z\nQ CREATE VIEW writing AS SELECT writes()\n< Z\n")
		cut.arm("doomed", true)
		got := perform(t, s.addr, "Q SELECT /* doomed */ * FROM writing\n< Z\n")
		if n := strings.TrimSpace(pg.SQL(t, "pure", "SELECT count(*) FROM wrote")); n != "1" || !strings.Contains(got, "C=08007") {
			t.Errorf("%s, made here: %s rows, and the client was told\n%s", name, n, got)
		}
		pg.SQL(t, "pure", "DROP VIEW writing; DROP FUNCTION writes; DROP TABLE wrote")
	}
}
