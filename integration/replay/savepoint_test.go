package replay

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// relaxed has less of what is discarded compared.
var relaxed = harness.Env{"DSQL_RETRY_SAVEPOINTS": "relaxed"}

// tryInsert is what savepoints are mostly for: to insert, and to do something else
// where the row is there already.
func tryInsert(ctx context.Context, conn *sql.Conn) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT n FROM account WHERE id = $1", 2).Scan(&n); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "SAVEPOINT try"); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO account VALUES ($1, 1)", 1); sqlstate(err) != "23505" {
		return errors.Join(errors.New("the insert did not fail as it should"), err)
	}
	if _, err := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT try"); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE account SET n = n + 1 WHERE id = $1", 1); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "RELEASE try"); err != nil {
		return err
	}
	return tx.Commit()
}

// nested has a part in a savepoint that is kept, and one that is not.
func nested(ctx context.Context, conn *sql.Conn) error {
	return conn.Raw(func(driver any) error {
		raw, ok := driver.(interface{ Conn() *pgx.Conn })
		if !ok {
			return errors.New("not pgx")
		}
		return pgx.BeginFunc(ctx, raw.Conn(), func(tx pgx.Tx) error {
			if err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "UPDATE account SET n = n + 1 WHERE id = $1", 1)
				return err
			}); err != nil {
				return err
			}
			undo := errors.New("undo")
			err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, "UPDATE account SET n = n + 100 WHERE id = $1", 1); err != nil {
					return err
				}
				return undo
			})
			if !errors.Is(err, undo) || sqlstate(err) != undo.Error() {
				return errors.Join(errors.New("the inner transaction"), err)
			}
			return nil
		})
	})
}

// Savepoints through the drivers, conflicts and losses in between.
func TestSavepoints(t *testing.T) {
	r := start(t, nil)
	for _, test := range []struct {
		name    string
		program func(context.Context, *sql.Conn) error
		drivers []string
		faults  string
		code    string
		adds    int
	}{
		{"insert or update", tryInsert, drivers, ``, "", 1},
		{"conflict at COMMIT", tryInsert, drivers, `[{"at":"commit","action":"fail","error":"conflict","count":2}]`, "", 1},
		{"conflict behind the savepoint", tryInsert, drivers, `[{"at":"statement","action":"fail","error":"conflict","contains":"INSERT INTO account"}]`, "", 1},
		{"conflict on the way back", tryInsert, drivers, `[{"at":"statement","action":"fail","error":"schema","contains":"SELECT n FROM account","skip":1}]`, "", 1},
		{"the schema changes again and again on the way back", tryInsert, drivers, `[{"at":"statement","action":"fail","error":"schema","contains":"SELECT n FROM account","skip":1,"count":12}]`, "", 1},
		{"lost on the way back", tryInsert, drivers, `[{"at":"running","action":"cut","contains":"SELECT n FROM account","skip":1}]`, "", 1},
		{"lost behind it", tryInsert, drivers, `[{"at":"running","action":"cut","contains":"UPDATE account"}]`, "", 1},
		{"always a conflict", tryInsert, drivers, `[{"at":"commit","action":"fail","error":"schema","count":16}]`, "40001", 0},
		{"nested", nested, drivers[:1], ``, "", 1},
		{"nested, conflict at COMMIT", nested, drivers[:1], `[{"at":"commit","action":"fail","error":"conflict","count":2}]`, "", 1},
		{"nested, conflict in the part that is undone", nested, drivers[:1], `[{"at":"statement","action":"fail","error":"conflict","contains":"n + 100"}]`, "", 1},
	} {
		for _, driver := range test.drivers {
			t.Run(test.name+"/"+driver, func(t *testing.T) {
				conn := r.open(t, driver)
				r.exec(t, conn, "DROP TABLE IF EXISTS account", "CREATE TABLE account (id int PRIMARY KEY, n int NOT NULL)",
					"INSERT INTO account VALUES (1, 10), (2, 20)")
				if err := test.program(t.Context(), conn); err != nil { // everything is prepared
					t.Fatal(err)
				}
				r.plan(t, test.faults)
				from := r.last(t)
				if err := test.program(t.Context(), conn); sqlstate(err) != test.code {
					t.Errorf("the application sees %v, want %q", err, test.code)
				}
				r.unplanned(t)
				events := r.settled(t, from)
				n, err := strconv.Atoi(pgtest.Shared(t).SQL(t, "postgres", "SELECT n FROM account WHERE id = 1"))
				if err != nil || n != 11+test.adds {
					t.Errorf("the account is at %d, want %d (%v)", n, 11+test.adds, err)
				}
				if t.Failed() {
					for _, e := range events {
						t.Logf("%+v", e)
					}
				}
			})
		}
	}
}

// A row that was read, and that another changed before the return, fails it.
func TestReturnMeetsAnothersCommit(t *testing.T) {
	r := start(t, nil)
	for _, driver := range drivers {
		conn, other := r.open(t, driver), r.open(t, driver)
		r.exec(t, conn, "DROP TABLE IF EXISTS account", "CREATE TABLE account (id int PRIMARY KEY, n int NOT NULL)",
			"INSERT INTO account VALUES (1, 10)", "BEGIN", "SELECT n FROM account", "SAVEPOINT a", "SELECT n FROM account")
		if _, err := conn.ExecContext(t.Context(), "INSERT INTO account VALUES (1, 0)"); sqlstate(err) != "23505" {
			t.Fatal(err)
		}
		r.exec(t, other, "UPDATE account SET n = n + 1")
		if _, err := conn.ExecContext(t.Context(), "ROLLBACK TO a"); sqlstate(err) != "40001" {
			t.Errorf("%s: %v", driver, err)
		}
		r.exec(t, conn, "ROLLBACK")
	}
}

// A part that is discarded is compared by default, where that is not given up.
func TestDiscardedPartMeetsAnothersCommit(t *testing.T) {
	for _, test := range []struct {
		env  harness.Env
		want string
	}{{nil, "40001"}, {relaxed, ""}} {
		r := start(t, test.env)
		for _, driver := range drivers {
			conn, other := r.open(t, driver), r.open(t, driver)
			r.exec(t, conn, "DROP TABLE IF EXISTS account", "CREATE TABLE account (id int PRIMARY KEY, n int NOT NULL)",
				"INSERT INTO account VALUES (1, 10), (2, 10)", "BEGIN", "UPDATE account SET n = n + 1 WHERE id = 2", "SAVEPOINT a",
				"UPDATE account SET n = n + 1 WHERE id = 2", "SELECT n FROM account ORDER BY id", "ROLLBACK TO a", "SELECT 1",
				"UPDATE account SET n = n + 2 WHERE id = 2", "SELECT n FROM account ORDER BY id DESC")
			r.exec(t, other, "UPDATE account SET n = n + 1 WHERE id = 1")
			if _, err := conn.ExecContext(t.Context(), "ROLLBACK TO a"); sqlstate(err) != test.want {
				t.Errorf("%v, %s: %v", test.env, driver, err)
			}
			r.exec(t, conn, "ROLLBACK")
		}
	}
}

// Switched off they are DSQL's, which has none.
func TestSavepointsOff(t *testing.T) {
	r := start(t, harness.Env{"DSQL_RETRY_SAVEPOINTS": "off"})
	for _, driver := range drivers {
		conn := r.open(t, driver)
		r.exec(t, conn, "BEGIN")
		if _, err := conn.ExecContext(t.Context(), "SAVEPOINT a"); sqlstate(err) != "0A000" {
			t.Errorf("%s: %v", driver, err)
		}
		r.exec(t, conn, "ROLLBACK")
	}
}
