package replay

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// detail of an error of either driver.
func detail(err error) string {
	var fromPgx *pgconn.PgError
	var fromPq *pq.Error
	switch {
	case errors.As(err, &fromPgx):
		return fromPgx.Detail
	case errors.As(err, &fromPq):
		return fromPq.Detail
	}
	return ""
}

const inResult = `[{"at":"row","action":"fail","error":"conflict","contains":"RETURNING","row":2}]`

const atCommit = `[{"at":"commit","action":"fail","error":"conflict"}]`

// fresh makes the table that the tests below read and write.
func (r *rig) fresh(t *testing.T, conn *sql.Conn) {
	t.Helper()
	r.exec(t, conn, "DROP TABLE IF EXISTS account", "CREATE TABLE account (id int PRIMARY KEY, n int NOT NULL, v text)",
		"INSERT INTO account VALUES (1, 10, 'one'), (2, 20, 'two'), (3, 30, '')")
}

// What another client changes between a transaction and its replay: where the
// application has read it, it gets its conflict and the reason; where it has not,
// it notices nothing.
func TestReplayComparesWhatWasRead(t *testing.T) {
	r := start(t, nil)
	for _, test := range []struct {
		name   string
		query  string // of the application, whose argument is 1
		meddle string // of somebody else, before the application commits
		detail string // "": the replay goes unnoticed
	}{
		{"nothing that was read", "SELECT n FROM account WHERE id = $1", "UPDATE account SET n = 31 WHERE id = 3", ""},
		{"a value", "SELECT n FROM account WHERE id = $1", "UPDATE account SET n = 11 WHERE id = 1", "statement 1 (select) differs in its values."},
		{"the number of rows", "SELECT id FROM account WHERE id > $1", "INSERT INTO account VALUES (4, 40)", "statement 1 (select) differs in its size."},
		{"the order of rows", "SELECT id FROM account WHERE id >= $1 ORDER BY n", "UPDATE account SET n = 60 - n WHERE id <> 2", "statement 1 (select) differs in its values."},
		{"a tag", "UPDATE account SET v = 'x' WHERE n > 25 AND id > $1", "INSERT INTO account VALUES (4, 40)", "statement 1 (update) differs in its values."},
		{"an error for a result", "SELECT 100 / n FROM account WHERE id = $1", "UPDATE account SET n = 0 WHERE id = 1", "differs in its outcome."},
		{"a notice", "DROP TABLE IF EXISTS extra -- $1", "CREATE TABLE extra (id int PRIMARY KEY)", "differs in its size."},
		{"NULL for an empty text", "SELECT v FROM account WHERE id = $1 + 2", "UPDATE account SET v = NULL WHERE id = 3", "statement 1 (select) differs in its values."},
	} {
		for _, driver := range drivers {
			t.Run(test.name+"/"+driver, func(t *testing.T) {
				conn := r.open(t, driver)
				r.fresh(t, conn)
				err := r.meddled(t, conn, test.query, test.meddle)
				if test.detail == "" && err != nil {
					t.Errorf("the application sees %v: %s", err, detail(err))
				}
				if test.detail != "" && (sqlstate(err) != "40001" || !strings.Contains(detail(err), test.detail)) {
					t.Errorf("the application sees %v: %s", err, detail(err))
				}
				r.unplanned(t)
			})
		}
	}
}

// meddled runs a transaction that meets a conflict at COMMIT, after somebody who
// is not seen by the stand-in has changed something.
func (r *rig) meddled(t *testing.T, conn *sql.Conn, query, meddle string) error {
	t.Helper()
	pg := pgtest.Shared(t)
	pg.SQL(t, "postgres", "DROP TABLE IF EXISTS extra")
	tx, err := conn.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	var args []any
	if !strings.Contains(query, "--") {
		args = []any{1}
	}
	// Prepared for the first time in the transaction that is run again.
	st, err := tx.PrepareContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := st.QueryContext(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		t.Fatal(err)
	}
	pg.SQL(t, "postgres", meddle)
	r.plan(t, atCommit)
	return tx.Commit()
}

// How much of a transaction is kept has bounds, and what commits in the middle of
// a text is over.
func TestReplayBounds(t *testing.T) {
	r := start(t, nil)
	sized := func(bytes int) func(context.Context, *sql.Conn) error {
		return func(ctx context.Context, conn *sql.Conn) error {
			rows, err := conn.QueryContext(ctx, "UPDATE account SET n = n + 1 RETURNING repeat('x', $1)", bytes)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
			}
			return rows.Err()
		}
	}
	parameter := func(bytes int) func(context.Context, *sql.Conn) error {
		return func(ctx context.Context, conn *sql.Conn) error {
			tx, err := conn.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if _, err := tx.ExecContext(ctx, "UPDATE account SET v = $1 WHERE id = 2", strings.Repeat("v", bytes)); err != nil {
				return err
			}
			return tx.Commit()
		}
	}
	text := func(all string) func(context.Context, *sql.Conn) error {
		return func(ctx context.Context, conn *sql.Conn) error { _, err := conn.ExecContext(ctx, all); return err }
	}
	for _, test := range []struct {
		name    string
		program func(context.Context, *sql.Conn) error
		faults  string
		reason  string // "": the replay goes unnoticed
		changed string // what a change left, of max(id), n of 1 and length of v of 2
	}{
		{"a held answer", sized(30_000), inResult, "", "3,11,3"},
		{"an answer over retry.held_bytes, compared before the Sync", sized(35_000), inResult, "", "3,11,3"},
		{"an answer over retry.held_bytes, in a simple Query", text("UPDATE account SET n = n + 1 RETURNING repeat('x', 35000)"), inResult, "part of the result was delivered", "3,10,3"},
		{"a logged parameter", parameter(500_000), atCommit, "", "3,10,500000"},
		{"a parameter over retry.log_bytes", parameter(4_300_000), atCommit, "sent more than is kept", "3,10,3"},
		{"a text with a block in it", text("BEGIN; UPDATE account SET n = 11 WHERE id = 1; COMMIT"), atCommit, "", "3,11,3"},
		{"a text with two blocks", text("BEGIN; UPDATE account SET n = 11 WHERE id = 1; COMMIT; BEGIN; UPDATE account SET n = 12 WHERE id = 1; COMMIT"),
			`[{"at":"commit","action":"fail","error":"conflict","skip":1}]`, "has ended already", "3,11,3"},
	} {
		for _, driver := range drivers {
			t.Run(test.name+"/"+driver, func(t *testing.T) {
				conn := r.open(t, driver)
				r.fresh(t, conn)
				r.plan(t, test.faults)
				before := r.metric(t, "dsql_tx_retries_total", "")
				err := test.program(t.Context(), conn)
				switch {
				case test.reason != "":
					if sqlstate(err) != "40001" || !strings.Contains(detail(err), test.reason) {
						t.Errorf("the application sees %v: %s", err, detail(err))
					}
				case err != nil:
					t.Errorf("the application sees %v: %s", err, detail(err))
				case r.metric(t, "dsql_tx_retries_total", "") == before:
					t.Error("nothing was run again")
				}
				r.unplanned(t)
				got := pgtest.Shared(t).SQL(t, "postgres",
					"SELECT concat_ws(',', max(id), max(n) FILTER (WHERE id = 1), max(length(v)) FILTER (WHERE id = 2)) FROM account")
				if got != test.changed {
					t.Errorf("it left %s, want %s", got, test.changed)
				}
			})
		}
	}
}

// Two groups in one write: a conflict of the first is settled before the second
// is run.
func TestTwoSyncsInOneWrite(t *testing.T) {
	r := start(t, harness.Env{})
	r.fresh(t, r.open(t, "pgx"))
	conn, err := pgconn.Connect(t.Context(), r.sluice.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	r.plan(t, `[{"at":"statement","action":"fail","error":"conflict","contains":"n + 1"}]`)
	pipeline := conn.StartPipeline(t.Context())
	pipeline.SendQueryParams("UPDATE account SET n = n + 1 WHERE id = 1 RETURNING n", nil, nil, nil, nil)
	pipeline.SendPipelineSync()
	pipeline.SendQueryParams("UPDATE account SET n = n * 2 WHERE id = 1 RETURNING n", nil, nil, nil, nil)
	if err := pipeline.Sync(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for {
		results, err := pipeline.GetResults()
		if err != nil {
			t.Fatal(err)
		}
		if results == nil {
			break
		}
		if reader, ok := results.(*pgconn.ResultReader); ok {
			for reader.NextRow() {
				got = append(got, string(reader.Values()[0]))
			}
			if _, err := reader.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := pipeline.Close(); err != nil {
		t.Fatal(err)
	}
	if want := "11 22"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	r.unplanned(t)
}
