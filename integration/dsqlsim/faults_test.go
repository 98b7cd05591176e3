package dsqlsim_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim"
)

func (c *cluster) plan(t *testing.T, planned ...dsqlsim.Fault) {
	t.Helper()
	if err := c.AddFaults(planned...); err != nil {
		t.Fatal(err)
	}
}

// outcomes are those of a session's statements, from its ledger.
func (c *cluster) outcomes(pid uint32) []string {
	var found []string
	for _, e := range c.EventsAfter(0) {
		if e.Kind == "statement" && e.PID == pid {
			found = append(found, e.Verb+" "+e.Outcome)
		}
	}
	return found
}

func TestPlannedRefusals(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	for name, want := range map[string][2]string{
		"rate":        {"53400", "Unable to accept connection, rate exceeded."},
		"connections": {"53300", "Unable to accept connection, too many open connections."},
		"denied":      {"08006", denied},
		"waking-up":   {"08006", "unable to accept connection, waking up cluster, please retry later"},
	} {
		c.plan(t, dsqlsim.Fault{At: dsqlsim.AtConnect, Action: dsqlsim.Fail, Error: name, Count: 2})
		for range 2 {
			_, err := pgconn.ConnectConfig(deadline(t), c.config(t))
			if e := pgError(t, err); e.Code != want[0] || e.Message != want[1] || e.Severity != "FATAL" {
				t.Errorf("%s: got %s %s %q", name, e.Severity, e.Code, e.Message)
			}
		}
		c.connect(t)
	}
	c.plan(t, dsqlsim.Fault{At: dsqlsim.AtConnect, Action: dsqlsim.Cut})
	_, err := pgconn.ConnectConfig(deadline(t), c.config(t))
	if _, told := errors.AsType[*pgconn.PgError](err); err == nil || told {
		t.Errorf("got %v, want a closed connection", err)
	}
}

// transaction sends BEGIN, INSERT, COMMIT in one of three ways and returns the
// answers; cut connections end them with EOF.
var transactions = map[string][]pgproto3.FrontendMessage{
	"simple": {&pgproto3.Query{String: "BEGIN"}, &pgproto3.Query{String: "INSERT INTO t VALUES (1)"}, &pgproto3.Query{String: "COMMIT"}},
	"string": {&pgproto3.Query{String: "BEGIN; INSERT INTO t VALUES (1); COMMIT"}},
	"group":  group("BEGIN", "INSERT INTO t VALUES (1)", "COMMIT"),
}

func (w *wire) until(messages ...pgproto3.FrontendMessage) []string {
	w.t.Helper()
	for _, m := range messages {
		w.Send(m)
	}
	w.Send(&pgproto3.Query{String: "-- last"})
	if err := w.Flush(); err != nil {
		w.t.Fatal(err)
	}
	var answers []string
	for {
		m, err := w.Receive()
		if err != nil {
			return append(answers, "EOF")
		}
		if _, last := m.(*pgproto3.EmptyQueryResponse); last {
			return answers
		}
		switch short := brief(m); short {
		case "1", "2": // so that all three read alike
		default:
			answers = append(answers, short)
		}
	}
}

func TestFaultsAroundCommit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		fault dsqlsim.Fault
		// what the client sees last, and whether the row is there
		simple, other string
		committed     bool
	}{
		{"conflict", dsqlsim.Fault{At: dsqlsim.AtCommit, Action: dsqlsim.Fail, Error: "conflict"},
			"BEGIN,Z T,INSERT 0 1,Z T,E 40001,Z I", "BEGIN,INSERT 0 1,E 40001,Z I", false},
		{"schema conflict", dsqlsim.Fault{At: dsqlsim.AtCommit, Action: dsqlsim.Fail, Error: "schema"},
			"BEGIN,Z T,INSERT 0 1,Z T,E 40001,Z I", "BEGIN,INSERT 0 1,E 40001,Z I", false},
		{"cut before", dsqlsim.Fault{At: dsqlsim.AtCommit, Action: dsqlsim.Cut},
			"BEGIN,Z T,INSERT 0 1,Z T,EOF", "EOF", false},
		{"cut after", dsqlsim.Fault{At: dsqlsim.Committed, Action: dsqlsim.Cut},
			"BEGIN,Z T,INSERT 0 1,Z T,EOF", "EOF", true},
		{"cut on the way", dsqlsim.Fault{At: dsqlsim.Committing, Action: dsqlsim.Cut},
			"BEGIN,Z T,INSERT 0 1,Z T,EOF", "EOF", true},
		{"conflict in a result", dsqlsim.Fault{At: dsqlsim.AtRow, Action: dsqlsim.Fail, Error: "conflict", Verb: "INSERT"},
			"BEGIN,Z T,E 40001,Z E,ROLLBACK,Z I", "BEGIN,E 40001,Z E", false},
		{"stall", dsqlsim.Fault{At: dsqlsim.AtCommit, Action: dsqlsim.Stall, Seconds: 0.2},
			"BEGIN,Z T,INSERT 0 1,Z T,COMMIT,Z I", "BEGIN,INSERT 0 1,COMMIT,Z I", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := start(t, nil)
			c.direct(t, "CREATE TABLE t (id int)")
			for way, messages := range transactions {
				c.direct(t, "DELETE FROM t")
				w := c.raw(t)
				c.plan(t, test.fault)
				want := test.other
				if way == "simple" {
					want = test.simple
				}
				began := time.Now()
				if got := strings.Join(w.until(messages...), ","); got != want {
					t.Errorf("%s:\n got %s\nwant %s", way, got, want)
				}
				if took := time.Since(began); test.fault.Action == dsqlsim.Stall && took < 200*time.Millisecond {
					t.Errorf("%s: took %v only", way, took)
				}
				if strings.HasSuffix(want, "EOF") {
					// The client may know before PostgreSQL has committed.
					eventually(t, "the end of the session", func() bool { return c.ConnectionCount() == 0 })
				}
				if got := c.direct(t, "SELECT count(*) FROM t") == "1"; got != test.committed {
					t.Errorf("%s: committed: %v", way, got)
				}
				if left := c.PendingFaults(); len(left) != 0 {
					t.Errorf("%s: still planned: %+v", way, left)
				}
			}
		})
	}
}

func TestFaultsAtStatements(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	c.direct(t, "CREATE TABLE t (id int)")
	conn := c.connect(t)
	run := func(sql string) error { return conn.Exec(deadline(t), sql).Close() }

	c.plan(t, dsqlsim.Fault{At: dsqlsim.AtStatement, Action: dsqlsim.Fail, Error: "schema", Skip: 1})
	if err := run("SELECT 1"); err != nil {
		t.Error(err)
	}
	if e := pgError(t, run("INSERT INTO t VALUES (1)")); e.Code != "40001" || e.Message != "schema has been updated by another transaction (OC001)" {
		t.Errorf("got %s %q", e.Code, e.Message)
	}
	if err := run("INSERT INTO t VALUES (2)"); err != nil {
		t.Error(err)
	}
	c.plan(t, dsqlsim.Fault{At: dsqlsim.AtStatement, Action: dsqlsim.Fail, Error: "conflict"})
	e := pgError(t, conn.ExecParams(deadline(t), "INSERT INTO t VALUES (3)", nil, nil, nil, nil).Read().Err)
	if e.Code != "40001" || e.Message != "change conflicts with another transaction (OC000)" {
		t.Errorf("got %s %q", e.Code, e.Message)
	}
	// Another session's fault is not ours.
	c.plan(t, dsqlsim.Fault{At: dsqlsim.AtStatement, Action: dsqlsim.Cut, Session: 1000})
	if err := run("INSERT INTO t VALUES (4)"); err != nil {
		t.Error(err)
	}
	c.ClearFaults()
	// The row is there, the client does not know.
	c.plan(t, dsqlsim.Fault{At: dsqlsim.Answered, Action: dsqlsim.Cut})
	if conn.ExecParams(deadline(t), "INSERT INTO t VALUES (5)", nil, nil, nil, nil).Read().Err == nil {
		t.Error("the answer arrived")
	}
	if got := c.direct(t, "SELECT string_agg(id::text, ' ' ORDER BY id) FROM t"); got != "2 4 5" {
		t.Errorf("rows %s", got)
	}
	want := []string{"SELECT SELECT 1", "INSERT 40001", "INSERT INSERT 0 1", "INSERT 40001", "INSERT INSERT 0 1", "INSERT INSERT 0 1"}
	if got := c.outcomes(conn.PID()); strings.Join(got, ",") != strings.Join(want, ",") {
		t.Errorf("ledger\n got %q\nwant %q", got, want)
	}
}

// A conflict in a result of an implicit transaction of several statements: none of
// them has happened.
func TestFaultInAnImplicitTransaction(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	c.direct(t, "CREATE TABLE t (id int)")
	conn := c.connect(t)
	for _, at := range []string{"first", "second", "third"} {
		c.plan(t, dsqlsim.Fault{At: dsqlsim.AtRow, Action: dsqlsim.Fail, Error: "conflict", Contains: at})
		err := conn.Exec(deadline(t), "INSERT INTO t SELECT 1 AS first; SELECT 2 AS second; INSERT INTO t SELECT 3 AS third").Close()
		if e := pgError(t, err); e.Code != "40001" {
			t.Errorf("at the %s statement: %v", at, e)
		}
		if rows := c.direct(t, "SELECT count(*) FROM t"); rows != "0" {
			t.Errorf("at the %s statement: %s rows were written", at, rows)
		}
	}
}

// What follows a COMMIT that fails in one string does not run.
func TestFaultBetweenTransactionsOfOneString(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	c.direct(t, "CREATE TABLE t (id int PRIMARY KEY)")
	conn := c.connect(t)
	const both = "BEGIN; INSERT INTO t VALUES (1); COMMIT; BEGIN; INSERT INTO t VALUES (2); COMMIT"
	c.plan(t, dsqlsim.Fault{At: dsqlsim.AtCommit, Action: dsqlsim.Fail, Error: "conflict"})
	if e := pgError(t, conn.Exec(deadline(t), both).Close()); e.Code != "40001" {
		t.Error(e)
	}
	if rows := c.direct(t, "SELECT count(*) FROM t"); rows != "0" {
		t.Errorf("%s rows are there after a planned conflict", rows)
	}
}

// A client that waits behind a Flush notices that its connection is cut, whatever
// became of the statements in between.
func TestCutBeforeSync(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	c.direct(t, "CREATE TABLE t (id int)")
	w := c.raw(t)
	c.plan(t, dsqlsim.Fault{At: dsqlsim.Answered, Action: dsqlsim.Cut, Verb: "INSERT"})
	for _, m := range append(group("BEGIN", "INSERT INTO t VALUES (1)", "SELECT 1 / 0")[:9], &pgproto3.Flush{}) {
		w.Send(m)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := w.Receive(); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("the connection is still there")
		} else if err != nil {
			break
		}
	}
	if rows := c.direct(t, "SELECT count(*) FROM t"); rows != "0" {
		t.Errorf("%s rows: nobody sent a Sync", rows)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	busy := make(chan error, 1)
	conn := c.connect(t)
	go func() { busy <- conn.Exec(context.Background(), "SELECT pg_sleep(600)").Close() }()
	idle := c.raw(t)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if <-busy == nil {
		t.Error("the busy client was served to the end")
	}
	if m, err := idle.Receive(); err == nil {
		t.Errorf("the idle client got %T", m)
	}
	eventually(t, "the end of the PostgreSQL connections", func() bool {
		return c.direct(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()") == "0"
	})
}
