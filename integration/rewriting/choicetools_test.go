package rewriting

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// chooseBy are clients that choose by their startup, each as its own users write it: they run
// statements in one transaction, and return what these have answered.
func chooseBy(t *testing.T, r *partsRig) map[string]func(t *testing.T, statements []string) string {
	dsn, err := url.Parse(r.sluice.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	with := func(query url.Values) string {
		all := *dsn
		query.Set("sslmode", "disable")
		all.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20") // which all read
		return all.String()
	}
	const option, key, value = "-c sluice.ddl.carry_out=all", "sluice.ddl.carry_out", "all"
	own, options := url.Values{key: {value}}, url.Values{"options": {option}}
	program := func(t *testing.T, command ...string) string {
		return printed(t, exec.CommandContext(t.Context(), command[0], command[1:]...), "")
	}
	inGo := func(driver, dsn string) func(*testing.T, []string) string {
		return func(t *testing.T, statements []string) string { return inTransaction(t, driver, dsn, statements) }
	}
	return map[string]func(*testing.T, []string) string{
		"psql, PGOPTIONS": func(t *testing.T, statements []string) string {
			psql := r.pg.Program("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-1", "-d", r.sluice.DSN("postgres"), "-f", "-")
			psql.Env = append(psql.Env, "PGOPTIONS="+option)
			return printed(t, psql, strings.Join(statements, ";\n")+";\n")
		},
		"lib/pq, a parameter": inGo("postgres", with(own)), "lib/pq, options": inGo("postgres", with(options)),
		"pgx, a parameter": inGo("pgx", with(own)), "pgx, options": inGo("pgx", with(options)),
		"psycopg": func(t *testing.T, statements []string) string {
			return program(t, append([]string{"/usr/bin/python3", "testdata/choose/choose.py", with(options)}, statements...)...)
		},
		"JDBC": func(t *testing.T, statements []string) string {
			address := fmt.Sprintf("jdbc:postgresql://%s/postgres?user=admin&options=%s", dsn.Host, strings.ReplaceAll(url.QueryEscape(option), "+", "%20"))
			return program(t, append([]string{"java", "-XX:TieredStopAtLevel=1", "-cp", "/usr/share/java/postgresql.jar", "testdata/choose/Choose.java", address}, statements...)...)
		},
		"JDBC, SET LOCAL": func(t *testing.T, statements []string) string {
			address := fmt.Sprintf("jdbc:postgresql://%s/postgres?user=admin", dsn.Host)
			statements = append([]string{"SET LOCAL sluice.ddl.carry_out = 'all'"}, statements...)
			return program(t, append([]string{"java", "-XX:TieredStopAtLevel=1", "-cp", "/usr/share/java/postgresql.jar", "testdata/choose/Choose.java", address}, statements...)...)
		},
	}
}

// inTransaction runs statements by database/sql.
func inTransaction(t *testing.T, driver, dsn string, statements []string) string {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	var out strings.Builder
	for _, statement := range statements {
		rows, err := tx.QueryContext(t.Context(), statement)
		if err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		for rows.Next() {
			var value string
			if err := rows.Scan(&value); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&out, value)
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Each client's own way to give startup options chooses, and a migration in a transaction that DSQL
// refuses is carried out for it, and for nobody else.
func TestClientsChoose(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := startParts(t, "auto", harness.Env{"DSQL_CLIENT_MAY_SET": "ddl.carry_out"})
	n := 0
	for name, run := range chooseBy(t, r) {
		n++
		table := fmt.Sprintf("t%d", n)
		t.Run(name, func(t *testing.T) {
			got := run(t, []string{"SHOW sluice.ddl.in_transactions", "CREATE TABLE " + table + " (id int PRIMARY KEY)", "INSERT INTO " + table + " VALUES (1)",
				"ALTER TABLE " + table + " ADD COLUMN d int NOT NULL DEFAULT 7", "ALTER TABLE " + table + " ALTER COLUMN d SET NOT NULL", "SELECT d FROM " + table})
			var values []string
			for line := range strings.Lines(got) {
				if line = strings.TrimSpace(line); line == "7" || strings.HasPrefix(line, "autocommit") {
					values = append(values, line)
				}
			}
			if strings.Join(values, " ") != "autocommit-destructive 7" {
				t.Errorf("it printed\n%s", got)
			}
		})
		c, notices := r.dial(t, r.sluice.DSN("postgres"))
		if got := ask(ctx, c, notices, "ALTER TABLE "+table+" ADD COLUMN e int DEFAULT 7", "simple", ""); !strings.HasPrefix(got[0], "error|0A000|") {
			t.Errorf("another client: %q", got)
		}
	}
}
