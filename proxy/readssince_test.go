package proxy_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A return behind which the server has nothing to undo is no new transaction: its time stays, which only the
// server knows here, and so does what nobody could be told again.
func TestReturnBehindReads(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE since (a int); CREATE SEQUENCE since_s")
	s := startSluice(t, pg, strictly, maxOpen(2))
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		for _, behind := range [][]string{{}, {"SELECT 1"}, {"SELECT count(*) FROM since", "SHOW search_path"}, {"SET TimeZone = 'Asia/Tokyo'"}, {"SAVEPOINT b", "SELECT 1", "RELEASE b"}} {
			c := connectTo(t, s, "postgres", mode)
			stays := true
			var began, drawn time.Time
			run(t, c, "BEGIN", "INSERT INTO since VALUES (1)")
			scan := func(into any, sql string) {
				t.Helper()
				if err := c.QueryRow(t.Context(), sql).Scan(into); err != nil {
					t.Fatalf("%s, %v: %s", mode, behind, detailOf(err))
				}
			}
			scan(&began, "SELECT now()")
			scan(&drawn, "SELECT clock_timestamp() WHERE EXISTS (SELECT FROM since)")
			run(t, c, "SAVEPOINT a")
			run(t, c, behind...)
			if len(behind) > 0 && behind[0] == "SET TimeZone = 'Asia/Tokyo'" {
				stays = false // the server is told of the setting, and has to forget it
			}
			_, err := c.Exec(t.Context(), "ROLLBACK TO a")
			if !stays {
				var zone string
				if err == nil {
					if scan(&zone, "SHOW TimeZone"); zone == "Asia/Tokyo" {
						t.Errorf("%s: the time zone stays", mode)
					}
				}
				run(t, c, "ROLLBACK")
				continue
			}
			if err != nil {
				t.Fatalf("%s, %v: %s", mode, behind, detailOf(err))
			}
			var now time.Time
			if scan(&now, "SELECT now()"); !now.Equal(began) {
				t.Errorf("%s, %v: the transaction was begun anew", mode, behind)
			}
			run(t, c, "ROLLBACK TO a", "COMMIT")
		}
		// What writes is undone.
		for _, behind := range []string{"INSERT INTO since VALUES (2)", "SELECT 1 FROM since FOR UPDATE", "DECLARE c CURSOR FOR SELECT 1", "SELECT nosuch"} {
			c := connectTo(t, s, "postgres", mode)
			run(t, c, "BEGIN", "SELECT 1", "SAVEPOINT a")
			if _, err := c.Exec(t.Context(), behind); (err != nil) != (behind == "SELECT nosuch") {
				t.Fatal(err)
			}
			run(t, c, "ROLLBACK TO a")
			var left int
			if err := c.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM since WHERE a = 2) + (SELECT count(*) FROM pg_cursors WHERE name = 'c')").Scan(&left); err != nil || left > 0 {
				t.Errorf("%s, %s: %d are left, %v", mode, behind, left, err)
			}
			run(t, c, "COMMIT")
		}
	}
}
