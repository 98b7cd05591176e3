package rewriting

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// accounts are nine rows.
const accounts = "INSERT INTO accounts SELECT i, i FROM generate_series(1, 9) i"

// reader is a client with a cursor, in one of pgx's ways to send a statement.
type reader struct {
	t    *testing.T
	ctx  context.Context
	conn *pgx.Conn
}

func newReader(t *testing.T, ctx context.Context, dsn string, mode pgx.QueryExecMode) reader {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode, config.LookupFunc = mode, loopback
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return reader{t, ctx, conn}
}

// do runs a statement that must succeed.
func (r reader) do(sql string, args ...any) {
	r.t.Helper()
	if _, err := r.conn.Exec(r.ctx, sql, args...); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
}

// fetch is the first column of what a FETCH gives.
func (r reader) fetch(sql string) ([]int, error) {
	rows, err := r.conn.Query(r.ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (id int, err error) {
		var n int
		err = row.Scan(&id, &n)
		return id, err
	})
}

var cursorModes = map[string]pgx.QueryExecMode{"simple": pgx.QueryExecModeSimpleProtocol, "exec": pgx.QueryExecModeExec, "prepared": pgx.QueryExecModeCacheStatement}

// A transaction that meets a conflict with a cursor read in part is run again, where the rows
// that its client has are what they were; else the client is told of the conflict.
func TestConflictBesideACursor(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	sim, sluice := standIn(t, nil)
	other := newReader(t, ctx, direct(t, sim), pgx.QueryExecModeExec)
	other.do("CREATE TABLE accounts (id int PRIMARY KEY, n int NOT NULL)")
	other.do(accounts)
	for name, mode := range cursorModes {
		for also, refused := range map[string]bool{"UPDATE accounts SET n = n + 1 WHERE id = 8": false, "UPDATE accounts SET n = -1 WHERE id = 2": true} {
			t.Run(name+" "+also, func(t *testing.T) {
				other := reader{t, ctx, other.conn}
				other.do("UPDATE accounts SET n = id WHERE n <> id")
				r := newReader(t, ctx, sluice.DSN("postgres"), mode)
				r.do("BEGIN")
				r.do("DECLARE c NO SCROLL CURSOR FOR SELECT id, n FROM accounts ORDER BY id")
				if got, err := r.fetch("FETCH FORWARD 3 FROM c"); err != nil || !slices.Equal(got, []int{1, 2, 3}) {
					t.Fatalf("%v, %v", got, err)
				}
				other.do("UPDATE accounts SET n = n + 100 WHERE id = 9")
				other.do(also)
				r.do("UPDATE accounts SET n = n + 10 WHERE id = 9")
				got, err := r.fetch("FETCH 3 FROM c")
				if err == nil && !slices.Equal(got, []int{4, 5, 6}) {
					t.Errorf("%v", got)
				}
				if err == nil {
					_, err = r.conn.Exec(ctx, "COMMIT")
				}
				told, _ := errors.AsType[*pgconn.PgError](err)
				if (told != nil) != refused || refused && told.Code != "40001" {
					t.Errorf("refused %v: %v", refused, err)
				}
				r.conn.Exec(ctx, "ROLLBACK")
				n := 0
				if err := other.conn.QueryRow(ctx, "SELECT n FROM accounts WHERE id = 9").Scan(&n); err != nil || (n == 119) == refused {
					t.Errorf("%d, %v", n, err)
				}
			})
		}
	}
}

// Where a cluster does not suspend portals, the first FETCH of some rows says so, and what to
// do; one of all works.
func TestClusterWithoutSuspension(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	sim, sluice := standIn(t, nil, "--without-suspension")
	other := newReader(t, ctx, direct(t, sim), pgx.QueryExecModeExec)
	other.do("CREATE TABLE accounts (id int PRIMARY KEY, n int NOT NULL)")
	other.do(accounts)
	for name, mode := range cursorModes {
		t.Run(name, func(t *testing.T) {
			r := newReader(t, ctx, sluice.DSN("postgres"), mode)
			for range 2 {
				r.do("BEGIN")
				r.do("DECLARE c CURSOR FOR SELECT id, n FROM accounts ORDER BY id")
				_, err := r.fetch("FETCH 3 FROM c")
				told, _ := errors.AsType[*pgconn.PgError](err)
				if told == nil || told.Code != "0A000" || !strings.Contains(told.Hint, "FETCH ALL") {
					t.Errorf("%+v", told)
				}
				r.do("ROLLBACK")
				r.do("BEGIN")
				r.do("DECLARE c CURSOR FOR SELECT id, n FROM accounts ORDER BY id")
				if got, err := r.fetch("FETCH ALL FROM c"); err != nil || len(got) != 9 {
					t.Errorf("%v, %v", got, err)
				}
				r.do("MOVE ALL FROM c")
				r.do("CLOSE c")
				r.do("COMMIT")
			}
		})
	}
}

// A cursor WITH HOLD of a part that is committed ends with a ROLLBACK of its transaction, and stays behind its COMMIT,
// whatever the parts behind it do.
func TestHeldCursorsOfParts(t *testing.T) {
	t.Parallel()
	r := startParts(t, "autocommit", nil)
	plain, _ := r.dial(t, r.pg.DSN("reference"))
	for _, database := range []string{"postgres", "reference"} {
		r.pg.SQL(t, database, "CREATE TABLE accounts (id int PRIMARY KEY, n int); INSERT INTO accounts SELECT i, i FROM generate_series(1, 9) i")
	}
	const declare = "DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT id FROM accounts WHERE id < 9 ORDER BY id"
	for i, behind := range [][]string{
		{"ROLLBACK"}, {"COMMIT"}, {"INSERT INTO accounts VALUES (77)", "ROLLBACK"}, {"INSERT INTO accounts VALUES (78)", "COMMIT"}, {"SELECT 1/0", "ROLLBACK"}, {"SELECT 1/0", "COMMIT"},
		{"FETCH 2 FROM c", "INSERT INTO accounts VALUES (79)", "ROLLBACK"}, {"FETCH 2 FROM c", "SELECT 1", "COMMIT"}, {"CREATE TABLE y%d (a int)", "ROLLBACK"}, {"CREATE TABLE y%d (a int)", "COMMIT"}, {"CLOSE c", "ROLLBACK"}, {"CLOSE c", declare, "COMMIT"},
		{"CREATE TABLE y%d (a int)", "CREATE TABLE z%[1]d (a int)", "ROLLBACK"}, {"CREATE TABLE y%d (a int)", "INSERT INTO accounts VALUES (1)", "COMMIT"},
	} {
		for _, extended := range []bool{false, true} {
			c, _ := r.dial(t, r.sluice.DSN("postgres"))
			n := 2 * i
			if extended {
				n++
			}
			program := append([]string{"BEGIN", "UPDATE accounts SET n = n + 1 WHERE id = 9", declare, "CREATE TABLE x%d (a int)"}, behind...)
			for _, sql := range append(program, "FETCH 1 FROM c", "CLOSE c", "DECLARE d CURSOR WITH HOLD FOR SELECT 5", "FETCH 1 FROM d", "CLOSE d") {
				if strings.Contains(sql, "%") {
					sql = fmt.Sprintf(sql, n)
				}
				if got, want := answers(t.Context(), c, sql, extended), answers(t.Context(), plain, sql, extended); !slices.Equal(got, want) {
					t.Errorf("%s: got %q, want %q behind %q", sql, got, want, behind)
				}
			}
			r.pg.SQL(t, "reference", fmt.Sprintf("DROP TABLE IF EXISTS x%d, y%[1]d, z%[1]d; DELETE FROM accounts WHERE id > 9", n))
			r.pg.SQL(t, "postgres", fmt.Sprintf("DROP TABLE IF EXISTS x%d, y%[1]d, z%[1]d; DELETE FROM accounts WHERE id > 9", n))
		}
	}
}
