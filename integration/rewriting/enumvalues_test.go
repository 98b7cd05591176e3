package rewriting

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// Clients that add values to one enumeration at once, while others write those that it has: each value is
// there once its client is told so, no other is refused, and one CHECK is left. A statement that was
// prepared before takes the value, too.
func TestEnumValuesAtOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, _, sluice := plainAndSluice(t, harness.Env{"DSQL_DDL_CREATE_ENUM": "domain", "DSQL_RESERVOIR_MAX_OPEN": "20"}, domainChanges)
	const name = "Größe, die mit 63 Bytes im Namen \"gerade so\" hineinpasst, ja!"
	kind := pgx.Identifier{name}.Sanitize()
	conn := dialled(t, sluice, pgx.QueryExecModeExec)
	for _, sql := range []string{"CREATE TYPE " + kind + " AS ENUM ('old')", "CREATE TABLE person (id int PRIMARY KEY, now " + kind + " DEFAULT 'old')"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	stop := make(chan struct{})
	var adders, writers sync.WaitGroup
	var mu sync.Mutex
	told, added := map[string]int{}, 0
	for n := range 4 {
		adds, writes := dialled(t, sluice, pgx.QueryExecModeExec), dialled(t, sluice, pgx.QueryExecModeCacheStatement)
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
				_, err := writes.Exec(ctx, "INSERT INTO person VALUES ($1, 'old')", n+4*i)
				mu.Lock()
				told[code(err)]++
				mu.Unlock()
			}
		})
		adders.Go(func() {
			for i := range 4 {
				value := fmt.Sprint("it's ", n, " ", i)
				_, err := adds.Exec(ctx, "ALTER TYPE "+kind+" ADD VALUE '"+strings.ReplaceAll(value, "'", "''")+"' BEFORE 'old'")
				if code(err) == "40001" {
					continue
				}
				if err == nil {
					// The value is a constant. PostgreSQL checks a parameter at the Bind of a prepared statement, and inside a
					// transaction that began before the ALTER by the CHECKs that the transaction knew then.
					_, err = adds.Exec(ctx, fmt.Sprintf("INSERT INTO person (id, now) VALUES (%d, '%s')", -1-n-4*i, strings.ReplaceAll(value, "'", "''")))
				}
				mu.Lock()
				if added++; err != nil && code(err) != "40001" {
					told["adding "+whole(err)]++
				}
				mu.Unlock()
			}
		})
	}
	adders.Wait()
	close(stop)
	writers.Wait()
	if t.Log(told, added); told[""] < 5 || told["23514"] > 0 || len(told) > 1 || added < 12 {
		t.Errorf("%v, %d added", told, added)
	}
	shown := pg.SQL(t, "postgres", "SELECT count(*) || ' ' || string_agg(pg_get_constraintdef(oid), ' ') FROM pg_constraint WHERE pg_get_constraintdef(oid) LIKE '%old%' AND contypid <> 0")
	if !strings.HasPrefix(shown, "1 ") || strings.Count(shown, "it''s") != added {
		t.Errorf("%d added, and there are %s", added, shown)
	}
}

// domainChanges has the stand-in take what no cluster of October 2026 takes.
const domainChanges = "--allow-domain-changes"

// A server that refuses ALTER DOMAIN ... ADD CONSTRAINT, as clusters do, has changed nothing, and the client is told
// what there is to do.
func TestEnumValueWithoutAlterDomain(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, sluice := standIn(t, harness.Env{"DSQL_DDL_CREATE_ENUM": "domain"})
	conn := dialled(t, sluice, pgx.QueryExecModeExec)
	for _, step := range []struct{ sql, code, words string }{
		{"CREATE TYPE mood AS ENUM ('sad')", "", ""},
		{"ALTER TYPE mood ADD VALUE 'ok'", "0A000", "For the domain mood the server refuses ALTER DOMAIN, too"},
		{"SELECT 'ok'::mood", "23514", ""},
		{"SELECT 'sad'::mood", "", ""},
		{"ALTER TYPE mood ADD VALUE 'sad'", "42710", ""},
		{"ALTER TYPE mood ADD VALUE IF NOT EXISTS 'ok'", "0A000", "Make a domain of all values under another name (CREATE DOMAIN)"},
		{"CREATE TABLE person (now mood)", "", ""},
		{"DROP TYPE mood CASCADE", "0A000", "DROP DOMAIN with CASCADE unsupported"},
		{"ALTER TYPE mood RENAME VALUE 'sad' TO 'it''s'", "0A000", "UPDATE <table> SET <column> = 'it''s' WHERE <column> = 'sad'"},
	} {
		_, err := conn.Exec(ctx, step.sql)
		if e := pgError(err); code(err) != step.code || e != nil && !strings.Contains(e.Message+e.Detail+e.Hint, step.words) {
			t.Errorf("%s: %v %s (%s)", step.sql, err, whole(err), hintOf(err))
		}
	}
}

// What is not one CHECK over a list of texts stands for no enumeration.
func TestEnumValueOfOtherDomains(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, _, sluice := plainAndSluice(t, harness.Env{"DSQL_DDL_CREATE_ENUM": "domain"}, domainChanges)
	conn := dialled(t, sluice, pgx.QueryExecModeExec)
	const shown = "SELECT string_agg(pg_get_constraintdef(oid) || conname, ' ' ORDER BY conname) FROM pg_constraint WHERE contypid = 'mood'::regtype"
	for domain, want := range map[string]string{
		"text":                                                                   "0A000",
		"varchar(9) CHECK (VALUE IN ('a'))":                                      "0A000",
		"int CHECK (VALUE IN (1, 2))":                                            "0A000",
		"text CHECK (VALUE <> 'a')":                                              "0A000",
		"text CHECK (VALUE IN ('a')) CHECK (VALUE > '')":                         "0A000",
		"text CHECK (lower(VALUE) IN ('a'))":                                     "0A000",
		"text CONSTRAINT mine CHECK (VALUE IN ('a', 'b')) NOT NULL":              "",
		"text CONSTRAINT x9 CHECK (VALUE IN ('a'))":                              "",
		"text CONSTRAINT x09 CHECK (VALUE IN ('a'))":                             "0A000",
		"text CONSTRAINT x9999999999 CHECK (VALUE = 'a')":                        "0A000",
		"text CONSTRAINT x CHECK (VALUE = 'a') CONSTRAINT y CHECK (VALUE = 'a')": "55000",
	} {
		pg.SQL(t, "postgres", "DROP DOMAIN IF EXISTS mood; CREATE DOMAIN mood AS "+domain)
		before := pg.SQL(t, "postgres", shown)
		_, err := conn.Exec(ctx, "ALTER TYPE public.mood ADD VALUE 'z'")
		if code(err) != want {
			t.Errorf("%s: %v (%s)", domain, err, hintOf(err))
		}
		if after := pg.SQL(t, "postgres", shown); (after == before) != (want != "") || want == "" && strings.Count(after, "CHECK") != 1 {
			t.Errorf("%s: %s", domain, after)
		}
	}
}

// Where transactions are committed in parts, a value is added outside of its transaction, as other DDL is; where
// they are not, the hint says how.
func TestEnumValueInTransactions(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, _, sluice := plainAndSluice(t, harness.Env{"DSQL_DDL_CARRY_OUT": "all", "DSQL_CLIENT_MAY_SET": "ddl.in_transactions"}, domainChanges)
	conn := dialled(t, sluice, pgx.QueryExecModeSimpleProtocol)
	expect := func(sql, want string) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql); code(err) != want || want == "0A000" && !strings.Contains(hintOf(err), "ddl.create_enum") {
			t.Errorf("%s: %v (%s), want %q", sql, err, hintOf(err), want)
		}
	}
	expect("CREATE TYPE mood AS ENUM ('sad')", "")
	for i, script := range [][]string{
		{"BEGIN", "CREATE TABLE person (id int PRIMARY KEY, now mood)", "ALTER TYPE mood ADD VALUE '0'", "INSERT INTO person VALUES (0, '0')", "COMMIT"},
		{"BEGIN; ALTER TYPE mood ADD VALUE '1'; INSERT INTO person VALUES (1, '1'); COMMIT"},
		{"ALTER TYPE mood ADD VALUE '2'; ALTER TYPE mood ADD VALUE IF NOT EXISTS '2'; INSERT INTO person VALUES (2, '2')"},
		{"DO $$ BEGIN ALTER TYPE mood ADD VALUE '3'; EXCEPTION WHEN duplicate_object THEN NULL; END $$", "DO $$ BEGIN ALTER TYPE mood ADD VALUE '3'; EXCEPTION WHEN duplicate_object THEN NULL; END $$", "INSERT INTO person VALUES (3, '3')"},
	} {
		for _, sql := range script {
			expect(sql, "")
		}
		if got := scalar(t, conn, "SELECT count(*) FROM person WHERE now = '"+fmt.Sprint(i)+"'"); got != "1" {
			t.Errorf("%v: %s rows", script, got)
		}
	}
	expect("BEGIN READ ONLY", "")
	expect("ALTER TYPE mood ADD VALUE '4'", "25006")
	expect("ROLLBACK", "")
	expect("SET default_transaction_read_only = on", "")
	expect("ALTER TYPE mood ADD VALUE '4'", "25006")
	expect("DO $$ BEGIN ALTER TYPE mood ADD VALUE '4'; END $$", "25006")
	expect("RESET default_transaction_read_only", "")
	expect("SET sluice.ddl.in_transactions = 'refuse'", "")
	expect("BEGIN", "")
	expect("ALTER TYPE mood ADD VALUE '4'", "0A000")
	expect("ROLLBACK", "")
	expect("SELECT '4'::mood", "23514")
}

// scalar is the one value that a query answers.
func scalar(t *testing.T, conn *pgx.Conn, sql string) (value string) {
	t.Helper()
	var n any
	if err := conn.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return fmt.Sprint(n)
}
