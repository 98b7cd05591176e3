package dsqlsim_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"

	"github.com/sluice-proxy/sluice/integration/dsqlsim"
)

// client is a stock driver's connection: it runs a statement and returns the
// first column of the rows that arrived, and the error.
type client func(sql string) ([]string, error)

// clients connects with each of the drivers, in each of their protocols.
var clients = map[string]func(*testing.T, *cluster) client{
	"pgx":        func(t *testing.T, c *cluster) client { return c.pgx(t, pgx.QueryExecModeCacheStatement) },
	"pgx simple": func(t *testing.T, c *cluster) client { return c.pgx(t, pgx.QueryExecModeSimpleProtocol) },
	"lib/pq":     func(t *testing.T, c *cluster) client { return c.pq(t) },
}

func (c *cluster) pgx(t *testing.T, mode pgx.QueryExecMode) client {
	t.Helper()
	config, err := pgx.ParseConfig("host=" + endpoint)
	if err != nil {
		t.Fatal(err)
	}
	config.Config = *c.config(t)
	config.DefaultQueryExecMode = mode
	conn, err := pgx.ConnectConfig(deadline(t), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return func(sql string) ([]string, error) {
		rows, err := conn.Query(deadline(t), sql)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		var got []string
		for rows.Next() {
			values, err := rows.Values()
			if err != nil {
				return got, err
			}
			got = append(got, fmt.Sprint(values[0]))
		}
		return got, rows.Err()
	}
}

func (c *cluster) pq(t *testing.T) client {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, c.CAPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	connector, err := pq.NewConnector("host=" + endpoint + " port=5432 user=admin dbname=postgres sslmode=verify-full sslrootcert=" + ca +
		" password='" + adminToken(t) + "'")
	if err != nil {
		t.Fatal(err)
	}
	connector.Dialer(toAddress{c.address})
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	conn, err := db.Conn(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	return func(sql string) ([]string, error) {
		rows, err := conn.QueryContext(deadline(t), sql)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		var got []string
		for rows.Next() {
			var value string
			if err := rows.Scan(&value); err != nil {
				return got, err
			}
			got = append(got, value)
		}
		return got, rows.Err()
	}
}

// outcomeOf is the SQLSTATE of an error, "ok" for none, "lost" for a connection
// that ended, "hung" for one that was waited for in vain.
func outcomeOf(err error) string {
	if err == nil {
		return "ok"
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	if e, ok := errors.AsType[*pq.Error](err); ok {
		return string(e.Code)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "hung"
	}
	return "lost"
}

// lastSession is the number of the connection that came last.
func (c *cluster) lastSession() uint64 {
	var id uint64
	for _, e := range c.EventsAfter(0) {
		if e.Kind == "connect" {
			id = e.Session
		}
	}
	return id
}

// story tells what the ledger says of a session: its statements as
// transaction.statement VERB outcome, the ends of its transactions, and faults.
func (c *cluster) story(session uint64) []string {
	var told []string
	for _, e := range c.EventsAfter(0) {
		if e.Session != session {
			continue
		}
		switch e.Kind {
		case "statement":
			told = append(told, fmt.Sprintf("%d.%d %s %s", e.Transaction, e.Statement, e.Verb, e.Outcome))
		case "transaction":
			told = append(told, strings.TrimSpace(fmt.Sprintf("%d %s %s", e.Transaction, e.Outcome, e.Detail)))
		case "fault":
			told = append(told, fmt.Sprintf("%s: %s", e.Detail, e.Outcome))
		}
		if (e.Kind == "statement" || e.Kind == "transaction") && e.PID == 0 {
			told = append(told, "no backend")
		}
	}
	return told
}

// play runs statements and returns their outcomes; a result's rows are told in
// front of its outcome.
func play(run client, statements []string) string {
	var told []string
	for _, statement := range statements {
		rows, err := run(statement)
		outcome := outcomeOf(err)
		if len(rows) > 0 {
			outcome = strings.Join(rows, " ") + " " + outcome
		}
		told = append(told, outcome)
		if outcome == "lost" {
			break
		}
	}
	return strings.Join(told, ", ")
}

// Every planned fault, seen by stock drivers, with what the ledger says of it
// and the rows that are there in the end.
func TestFaultsWithDrivers(t *testing.T) {
	t.Parallel()
	insert := func(id int) string { return fmt.Sprintf("INSERT INTO t VALUES (%d)", id) }
	const five = "SELECT g FROM generate_series(1, 5) g"
	for _, test := range []struct {
		name  string
		plan  []dsqlsim.Fault
		do    []string
		want  string   // what the client sees
		story []string // what the ledger says
		rows  string   // what is in the table
	}{
		{
			name: "conflict at the second COMMIT of the session",
			plan: []dsqlsim.Fault{{At: dsqlsim.AtCommit, Action: dsqlsim.Fail, Error: "conflict", Skip: 1, PerSession: true}},
			do:   []string{"BEGIN", insert(1), "COMMIT", "BEGIN", insert(2), "COMMIT", "BEGIN", insert(3), "COMMIT"},
			want: "ok, ok, ok, ok, ok, 40001, ok, ok, ok",
			story: []string{
				"1.0 BEGIN BEGIN", "1.1 INSERT INSERT 0 1", "1.2 COMMIT COMMIT", "1 committed",
				"2.0 BEGIN BEGIN", "2.1 INSERT INSERT 0 1", "commit conflict: fail", "2.2 COMMIT 40001", "2 rolled back 40001",
				"3.0 BEGIN BEGIN", "3.1 INSERT INSERT 0 1", "3.2 COMMIT COMMIT", "3 committed",
			},
			rows: "1 3",
		},
		{
			name: "conflict at the second statement of the third transaction",
			plan: []dsqlsim.Fault{{At: dsqlsim.AtStatement, Action: dsqlsim.Fail, Error: "conflict", Transaction: 3, Statement: 2}},
			do:   []string{insert(1), "BEGIN", insert(2), insert(3), "COMMIT", "BEGIN", insert(4), insert(5), insert(6), "ROLLBACK", insert(7)},
			want: "ok, ok, ok, ok, ok, ok, ok, 40001, 25P02, ok, ok",
			story: []string{
				"1.1 INSERT INSERT 0 1", "1 committed",
				"2.0 BEGIN BEGIN", "2.1 INSERT INSERT 0 1", "2.2 INSERT INSERT 0 1", "2.3 COMMIT COMMIT", "2 committed",
				"3.0 BEGIN BEGIN", "3.1 INSERT INSERT 0 1", "statement conflict: fail", "3.2 INSERT 40001", "3.3 INSERT 25P02", "3.4 ROLLBACK ROLLBACK", "3 rolled back 40001",
				"4.1 INSERT INSERT 0 1", "4 committed",
			},
			rows: "1 2 3 7",
		},
		{
			name: "OC001 at the next statement",
			plan: []dsqlsim.Fault{{At: dsqlsim.AtStatement, Action: dsqlsim.Fail, Error: "schema"}},
			do:   []string{insert(1), insert(2)},
			want: "40001, ok",
			story: []string{
				"statement schema: fail", "1.1 INSERT 40001", "1 rolled back 40001",
				"2.1 INSERT INSERT 0 1", "2 committed",
			},
			rows: "2",
		},
		{
			name: "conflict in the middle of a result",
			plan: []dsqlsim.Fault{{At: dsqlsim.AtRow, Action: dsqlsim.Fail, Error: "conflict", Row: 3, Contains: "series"}},
			do:   []string{"BEGIN", insert(1), five, "ROLLBACK", five},
			want: "ok, ok, 1 2 3 40001, ok, 1 2 3 4 5 ok",
			story: []string{
				"1.0 BEGIN BEGIN", "1.1 INSERT INSERT 0 1", "row conflict: fail", "1.2 SELECT 40001", "1.3 ROLLBACK ROLLBACK", "1 rolled back 40001",
				"2.1 SELECT SELECT 5", "2 committed",
			},
		},
		{
			name: "conflict in the middle of an autocommit write's result",
			plan: []dsqlsim.Fault{{At: dsqlsim.AtRow, Action: dsqlsim.Fail, Error: "conflict", Row: 1}},
			do:   []string{"INSERT INTO t VALUES (1), (2) RETURNING id", insert(3)},
			want: "1 40001, ok",
			story: []string{
				"row conflict: fail", "1.1 INSERT 40001", "1 rolled back 40001",
				"2.1 INSERT INSERT 0 1", "2 committed",
			},
			rows: "3",
		},
		{
			name:  "conflict in a result with fewer rows",
			plan:  []dsqlsim.Fault{{At: dsqlsim.AtRow, Action: dsqlsim.Fail, Error: "conflict", Row: 100}},
			do:    []string{five, insert(1)},
			want:  "1 2 3 4 5 40001, ok",
			story: []string{"row conflict: fail", "1.1 SELECT 40001", "1 rolled back 40001", "2.1 INSERT INSERT 0 1", "2 committed"},
			rows:  "1",
		},
		{
			name: "conflict during the replay",
			plan: []dsqlsim.Fault{
				{At: dsqlsim.AtCommit, Action: dsqlsim.Fail, Error: "conflict", Name: "first"},
				{At: dsqlsim.AtStatement, Action: dsqlsim.Fail, Error: "conflict", After: "first", Statement: 2},
				{At: dsqlsim.AtRow, Action: dsqlsim.Fail, Error: "conflict", After: "first", Contains: "series", Row: 2, Skip: 1},
			},
			do: []string{"BEGIN", five, insert(1), "COMMIT",
				"BEGIN", five, insert(1), "ROLLBACK",
				"BEGIN", five, "ROLLBACK",
				"BEGIN", five, insert(1), "COMMIT"},
			want: "ok, 1 2 3 4 5 ok, ok, 40001, ok, 1 2 3 4 5 ok, 40001, ok, ok, 1 2 40001, ok, ok, 1 2 3 4 5 ok, ok, ok",
			story: []string{
				"1.0 BEGIN BEGIN", "1.1 SELECT SELECT 5", "1.2 INSERT INSERT 0 1", "commit conflict: fail", "1.3 COMMIT 40001", "1 rolled back 40001",
				"2.0 BEGIN BEGIN", "2.1 SELECT SELECT 5", "statement conflict: fail", "2.2 INSERT 40001", "2.3 ROLLBACK ROLLBACK", "2 rolled back 40001",
				"3.0 BEGIN BEGIN", "row conflict: fail", "3.1 SELECT 40001", "3.2 ROLLBACK ROLLBACK", "3 rolled back 40001",
				"4.0 BEGIN BEGIN", "4.1 SELECT SELECT 5", "4.2 INSERT INSERT 0 1", "4.3 COMMIT COMMIT", "4 committed",
			},
			rows: "1",
		},
		{
			name:  "cut before COMMIT is forwarded",
			plan:  []dsqlsim.Fault{{At: dsqlsim.AtCommit, Action: dsqlsim.Cut}},
			do:    []string{"BEGIN", insert(1), "COMMIT"},
			want:  "ok, ok, lost",
			story: []string{"1.0 BEGIN BEGIN", "1.1 INSERT INSERT 0 1", "commit: cut", "1 lost"},
		},
		{
			name:  "cut after COMMIT is forwarded",
			plan:  []dsqlsim.Fault{{At: dsqlsim.Committing, Action: dsqlsim.Cut}},
			do:    []string{"BEGIN", insert(1), "COMMIT"},
			want:  "ok, ok, lost",
			story: []string{"1.0 BEGIN BEGIN", "1.1 INSERT INSERT 0 1", "committing: cut", "1.2 COMMIT COMMIT", "1 committed"},
			rows:  "1",
		},
		{
			name:  "cut after the server committed",
			plan:  []dsqlsim.Fault{{At: dsqlsim.Committed, Action: dsqlsim.Cut}},
			do:    []string{"BEGIN", insert(1), "COMMIT"},
			want:  "ok, ok, lost",
			story: []string{"1.0 BEGIN BEGIN", "1.1 INSERT INSERT 0 1", "committed: cut", "1.2 COMMIT COMMIT", "1 committed"},
			rows:  "1",
		},
		{
			name:  "cut while an autocommit write runs",
			plan:  []dsqlsim.Fault{{At: dsqlsim.Running, Action: dsqlsim.Cut}},
			do:    []string{insert(1)},
			want:  "lost",
			story: []string{"running: cut", "1.1 INSERT INSERT 0 1", "1 committed"},
			rows:  "1",
		},
		{
			name:  "cut after an autocommit write, before its answer",
			plan:  []dsqlsim.Fault{{At: dsqlsim.Answered, Action: dsqlsim.Cut}},
			do:    []string{insert(1)},
			want:  "lost",
			story: []string{"answered: cut", "1.1 INSERT INSERT 0 1", "1 committed"},
			rows:  "1",
		},
		{
			name:  "cut before a statement",
			plan:  []dsqlsim.Fault{{At: dsqlsim.AtStatement, Action: dsqlsim.Cut, Verb: "insert"}},
			do:    []string{"BEGIN", insert(1)},
			want:  "ok, lost",
			story: []string{"1.0 BEGIN BEGIN", "statement: cut", "1 lost"},
		},
		{
			name:  "cut in the middle of a result",
			plan:  []dsqlsim.Fault{{At: dsqlsim.AtRow, Action: dsqlsim.Cut, Row: 2}},
			do:    []string{"INSERT INTO t VALUES (1), (2), (3) RETURNING id"},
			want:  "1 2 lost",
			story: []string{"row: cut", "1 lost"},
		},
		{
			name:  "stall in the middle of a result",
			plan:  []dsqlsim.Fault{{At: dsqlsim.AtRow, Action: dsqlsim.Stall, Row: 2, Seconds: stalled.Seconds()}},
			do:    []string{"BEGIN", insert(1), five, "COMMIT"},
			want:  "ok, ok, 1 2 3 4 5 ok, ok",
			story: []string{"1.0 BEGIN BEGIN", "row: stall", "1.1 INSERT INSERT 0 1", "1.2 SELECT SELECT 5", "1.3 COMMIT COMMIT", "1 committed"},
			rows:  "1",
		},
		{
			name:  "stall before a statement",
			plan:  []dsqlsim.Fault{{At: dsqlsim.AtStatement, Action: dsqlsim.Stall, Seconds: stalled.Seconds(), Verb: "INSERT"}},
			do:    []string{insert(1)},
			want:  "ok",
			story: []string{"statement: stall", "1.1 INSERT INSERT 0 1", "1 committed"},
			rows:  "1",
		},
		{
			name:  "stall while COMMIT is on its way",
			plan:  []dsqlsim.Fault{{At: dsqlsim.Committing, Action: dsqlsim.Stall, Seconds: stalled.Seconds()}},
			do:    []string{"BEGIN", insert(1), "END"},
			want:  "ok, ok, ok",
			story: []string{"1.0 BEGIN BEGIN", "1.1 INSERT INSERT 0 1", "committing: stall", "1.2 END COMMIT", "1 committed"},
			rows:  "1",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := start(t, nil)
			c.direct(t, "CREATE TABLE t (id int PRIMARY KEY)")
			for driver, connect := range clients {
				c.direct(t, "DELETE FROM t")
				run := connect(t, c)
				session := c.lastSession()
				c.plan(t, test.plan...)
				began := time.Now()
				got := play(run, test.do)
				took := time.Since(began)
				if got != test.want {
					t.Errorf("%s sees\n     %s\nwant %s", driver, got, test.want)
				}
				if stalls := test.plan[0].Action == dsqlsim.Stall; stalls && took < stalled {
					t.Errorf("%s: took only %v", driver, took)
				}
				if strings.HasSuffix(test.want, "lost") {
					c.awaitEnd(t, session)
				}
				if told := c.story(session); strings.Join(told, "\n") != strings.Join(test.story, "\n") {
					t.Errorf("%s: the ledger says\n     %q\nwant %q", driver, told, test.story)
				}
				if rows := c.direct(t, "SELECT coalesce(string_agg(id::text, ' ' ORDER BY id), '') FROM t"); rows != test.rows {
					t.Errorf("%s: rows %q, want %q", driver, rows, test.rows)
				}
				c.ClearFaults()
			}
		})
	}
}

// stalled is how long a planned stall lasts here.
const stalled = 150 * time.Millisecond

// A client that is cut off while its statement runs learns so at once, and the
// ledger does not claim to know what it could not see.
func TestCutWhileRunning(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	run := clients["pgx"](t, c)
	session := c.lastSession()
	c.plan(t, dsqlsim.Fault{At: dsqlsim.Running, Action: dsqlsim.Cut, Contains: "pg_sleep", Name: "sleeper"})
	if got := play(run, []string{"SELECT pg_sleep(600)"}); got != "lost" {
		t.Errorf("got %s", got)
	}
	c.awaitEnd(t, session)
	if got := strings.Join(c.story(session), ", "); got != "running: cut, 1 unknown" {
		t.Errorf("the ledger says %s", got)
	}
	for _, e := range c.EventsAfter(0) {
		if e.Kind == "fault" && e.Fault != "sleeper" {
			t.Errorf("the ledger names the fault %q", e.Fault)
		}
	}
}
