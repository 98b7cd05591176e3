package replay

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"

	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// sqlstate of an error of either driver; "" for none.
func sqlstate(err error) string {
	var fromPgx *pgconn.PgError
	var fromPq *pq.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &fromPgx):
		return fromPgx.Code
	case errors.As(err, &fromPq):
		return string(fromPq.Code)
	}
	return err.Error()
}

// interactive reads, writes and reads again, as an application does.
func interactive(ctx context.Context, conn *sql.Conn) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT n FROM account WHERE id = $1 FOR UPDATE", 1).Scan(&n); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE account SET n = $2 WHERE id = $1", 1, n+1); err != nil {
		return err
	}
	rows, err := tx.QueryContext(ctx, "SELECT id, n FROM account ORDER BY id")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id int
		if err := rows.Scan(&id, &n); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return tx.Commit()
}

func autocommit(ctx context.Context, conn *sql.Conn) error {
	var n int
	return conn.QueryRowContext(ctx, "UPDATE account SET n = n + 1 WHERE id = $1 RETURNING n", 1).Scan(&n)
}

func oneString(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "BEGIN; UPDATE account SET n = n + 1 WHERE id = 1; SELECT n FROM account; COMMIT")
	return err
}

func read(ctx context.Context, conn *sql.Conn) error {
	var n int
	return conn.QueryRowContext(ctx, "SELECT n AS reading FROM account WHERE id = $1", 1).Scan(&n)
}

// createIndex is answered in part by Sluice, which waits for the index.
func createIndex(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "CREATE INDEX ON account (n)")
	return err
}

// prepareIndex is the same by the extended protocol.
func prepareIndex(ctx context.Context, conn *sql.Conn) error {
	stmt, err := conn.PrepareContext(ctx, "CREATE INDEX ON account (n, id)")
	if err != nil {
		return err
	}
	defer stmt.Close()
	_, err = stmt.ExecContext(ctx)
	return err
}

// Faults at each point of a transaction: what the application sees, and what
// the stand-in's ledger says really happened.
//
// Feature: dsql-locking-compatibility, Property 6: Integrity under failure:
// faults never lose or double anything.
func TestFaults(t *testing.T) {
	r := start(t, nil)
	const outcomeUnknown = "08007"
	for _, test := range []struct {
		name    string
		program func(context.Context, *sql.Conn) error
		faults  string
		code    string // of the error that the application sees
		adds    int    // to the account, by transactions that the ledger knows as committed
	}{
		{"no fault", interactive, ``, "", 1},
		{"conflict at the first statement", interactive, `[{"at":"statement","action":"fail","error":"conflict","contains":"FOR UPDATE"}]`, "", 1},
		{"conflict at a later statement", interactive, `[{"at":"statement","action":"fail","error":"conflict","contains":"UPDATE account"}]`, "", 1},
		{"conflict in a result", interactive, `[{"at":"row","action":"fail","error":"conflict","contains":"ORDER BY id","row":2}]`, "", 1},
		{"conflict at COMMIT", interactive, `[{"at":"commit","action":"fail","error":"conflict"}]`, "", 1},
		{"schema conflict at COMMIT", interactive, `[{"at":"commit","action":"fail","error":"schema"}]`, "", 1},
		{"conflict at COMMIT, three times", interactive, `[{"at":"commit","action":"fail","error":"conflict","count":3}]`, "", 1},
		{"conflict during the replay", interactive, `[{"name":"first","at":"commit","action":"fail","error":"conflict"},
			{"after":"first","at":"statement","action":"fail","error":"conflict","contains":"FOR UPDATE"}]`, "", 1},
		{"always a conflict", interactive, `[{"at":"commit","action":"fail","error":"schema","count":16}]`, "40001", 0},
		{"backend lost at a statement", interactive, `[{"at":"running","action":"cut","contains":"UPDATE account"}]`, "", 1},
		{"backend lost before COMMIT arrives", interactive, `[{"at":"commit","action":"cut"}]`, outcomeUnknown, 0},
		{"backend lost while it commits", interactive, `[{"at":"committing","action":"cut"}]`, outcomeUnknown, 1},
		{"backend lost after it committed", interactive, `[{"at":"committed","action":"cut"}]`, outcomeUnknown, 1},
		{"lost in the replay", interactive, `[{"name":"first","at":"commit","action":"fail","error":"conflict"},
			{"after":"first","at":"answered","action":"cut","contains":"FOR UPDATE"}]`, "", 1},

		{"autocommit with RETURNING", autocommit, `[{"at":"statement","action":"fail","error":"conflict","contains":"RETURNING n","count":2}]`, "", 1},
		{"autocommit, in its result", autocommit, `[{"at":"row","action":"fail","error":"conflict","contains":"RETURNING n","row":1}]`, "", 1},
		{"autocommit, backend lost", autocommit, `[{"at":"running","action":"cut","contains":"RETURNING n"}]`, outcomeUnknown, 1},
		{"one string, conflict at COMMIT", oneString, `[{"at":"commit","action":"fail","error":"conflict","count":2}]`, "", 1},
		{"CREATE INDEX", createIndex, `[{"at":"statement","action":"fail","error":"schema","contains":"INDEX"}]`, "", 0},
		{"CREATE INDEX, again and again", createIndex, `[{"at":"statement","action":"fail","error":"conflict","contains":"INDEX","count":3}]`, "", 0},
		{"CREATE INDEX, always", createIndex, `[{"at":"statement","action":"fail","error":"schema","contains":"INDEX","count":16}]`, "40001", 0},
		{"CREATE INDEX, prepared", prepareIndex, `[{"at":"statement","action":"fail","error":"schema","contains":"INDEX"}]`, "", 0},
		{"read, conflict", read, `[{"at":"statement","action":"fail","error":"schema","contains":"reading"}]`, "", 0},
		{"read, backend lost", read, `[{"at":"running","action":"cut","contains":"reading"}]`, "", 0},
	} {
		for _, driver := range drivers {
			t.Run(test.name+"/"+driver, func(t *testing.T) {
				conn := r.open(t, driver)
				r.exec(t, conn, "DROP TABLE IF EXISTS account", "CREATE TABLE account (id int PRIMARY KEY, n int NOT NULL)",
					"INSERT INTO account VALUES (1, 10), (2, 20), (3, 30)")
				if err := test.program(t.Context(), conn); err != nil { // everything is prepared
					t.Fatal(err)
				}
				look := func() int {
					n, err := strconv.Atoi(pgtest.Shared(t).SQL(t, "postgres", "SELECT n FROM account WHERE id = 1"))
					if err != nil {
						t.Fatal(err)
					}
					return n
				}
				before := look()
				r.plan(t, test.faults)
				from := r.last(t)
				err := test.program(t.Context(), conn)
				if got := sqlstate(err); got != test.code {
					t.Errorf("the application sees %q (%v), want %q", got, err, test.code)
				}
				r.unplanned(t)
				events := r.settled(t, from)
				if grown := look() - before; grown != test.adds {
					t.Errorf("account grew by %d, want %d", grown, test.adds)
				}
				if n := writesCommitted(events); n != test.adds {
					t.Errorf("%d transactions that wrote have committed, want %d", n, test.adds)
				}
				if test.code == outcomeUnknown && attempts(events) > 1 {
					t.Error("it was sent again after an unknown outcome")
				}
				if t.Failed() {
					for _, e := range events {
						t.Logf("%+v", e)
					}
				}
			})
		}
	}
	if n := r.metric(t, "dsql_tx_retries_total", ""); n == 0 {
		t.Error("no replay was counted")
	}
	if n := r.metric(t, "dsql_tx_retries_total", "backend_lost"); n == 0 {
		t.Error("no replay after a loss was counted")
	}
}

// settled waits until every transaction has ended, and returns what happened.
func (r *rig) settled(t *testing.T, from uint64) []event {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		events := r.ledger(t, from)
		open := map[uint64]bool{}
		for _, e := range events {
			switch e.Kind {
			case "statement", "fault":
				open[e.Session] = true
			case "transaction", "close":
				open[e.Session] = false
			}
		}
		unsettled := false
		for _, yes := range open {
			unsettled = unsettled || yes
		}
		if !unsettled || time.Now().After(deadline) {
			return events
		}
	}
}

// writesCommitted is how many transactions that updated the account committed.
func writesCommitted(events []event) (n int) {
	wrote := map[uint64]bool{}
	for _, e := range events {
		switch {
		case e.Kind == "statement" && e.Outcome == "UPDATE 1":
			wrote[e.Session] = true
		case e.Kind == "transaction":
			if wrote[e.Session] && (e.Outcome == "committed" || e.Outcome == "unknown" && lastCommitted(events, e)) {
				n++
			}
			wrote[e.Session] = false
		}
	}
	return n
}

// lastCommitted reports whether the statement that ended a transaction of
// unknown outcome was answered by PostgreSQL.
func lastCommitted(events []event, end event) bool {
	for i := len(events) - 1; i >= 0; i-- {
		if e := events[i]; e.Session == end.Session && e.Kind == "statement" && e.Seq < end.Seq {
			return e.Outcome == "COMMIT" || e.Outcome == "UPDATE 1"
		}
	}
	return false
}

// attempts is how many transactions updated the account, or tried.
func attempts(events []event) (n int) {
	for _, e := range events {
		if e.Kind == "statement" && e.Verb == "UPDATE" {
			n++
		}
	}
	return n
}
