package replay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// A cursor that was read in part is read to its end where the server has lost it to a conflict:
// its transaction runs again. A FETCH meets that where the cursor is described, by whatever
// protocol, and no client gets an error of a portal.
func TestCursorMeetsAConflict(t *testing.T) {
	r := start(t, nil)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeCacheStatement} {
		t.Run(mode.String(), func(t *testing.T) {
			config, err := pgx.ParseConfig(r.sluice.DSN("postgres"))
			if err != nil {
				t.Fatal(err)
			}
			config.DefaultQueryExecMode = mode
			conn, err := pgx.ConnectConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(t.Context())
			other := r.open(t, "pgx")
			run := func(sql string) {
				t.Helper()
				if _, err := conn.Exec(t.Context(), sql); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
			fetch := func(sql, want string) {
				t.Helper()
				rows, err := conn.Query(t.Context(), sql)
				if err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
				ids, err := pgx.CollectRows(rows, pgx.RowTo[int])
				if err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
				if got := strings.Trim(fmt.Sprint(ids), "[]"); got != want {
					t.Errorf("%s: got %s, want %s", sql, got, want)
				}
			}
			r.exec(t, other, "DROP TABLE IF EXISTS account", "CREATE TABLE account (id int PRIMARY KEY, n int NOT NULL)",
				"INSERT INTO account VALUES (1, 10), (2, 20), (3, 30), (4, 40)")
			before := r.metric(t, "dsql_tx_retries_total", "")
			run("BEGIN")
			run("UPDATE account SET n = n + 1 WHERE id = 1")
			run("DECLARE c NO SCROLL CURSOR FOR SELECT id FROM account ORDER BY id")
			fetch("FETCH 2 FROM c", "1 2")
			// The other's write is in the way, and the stand-in has the block give way.
			r.exec(t, other, "BEGIN", "UPDATE account SET n = n + 10 WHERE id = 1", "ROLLBACK")
			fetch("FETCH ALL FROM c", "3 4")
			run("CLOSE c")
			run("COMMIT")
			if got := pgtest.Shared(t).SQL(t, "postgres", "SELECT n FROM account WHERE id = 1"); got != "11" {
				t.Errorf("the account has %s, want 11", got)
			}
			if r.metric(t, "dsql_tx_retries_total", "") == before {
				t.Error("nothing was replayed")
			}
		})
	}
}
