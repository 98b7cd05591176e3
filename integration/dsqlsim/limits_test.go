package dsqlsim_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim"
)

// The row that is one too many fails at its statement, in every protocol, in a
// block and by itself, and nothing of the transaction stays.
func TestRowLimit(t *testing.T) {
	t.Parallel()
	c := start(t, func(config *dsqlsim.Config) { config.Limits.TransactionRows = 10 })
	insert := func(n int) string { return fmt.Sprintf("INSERT INTO t SELECT generate_series(1, %d)", n) }
	for protocol, send := range protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			c.direct(t, "CREATE TABLE "+protocol+" (id int)")
			w := c.raw(t)
			run := func(sql, want string) {
				t.Helper()
				answers := w.ask(1, send(strings.ReplaceAll(sql, "INTO t", "INTO "+protocol))...)
				answers = slices.DeleteFunc(answers, func(a string) bool { return len(a) == 1 })
				if got := strings.Join(answers, " "); got != want {
					t.Errorf("%s: got %q, want %q", sql, got, want)
				}
			}
			rows := func(want string) {
				t.Helper()
				if got := c.direct(t, "SELECT count(*) FROM "+protocol); strings.TrimSpace(got) != want {
					t.Errorf("%s rows, want %s", got, want)
				}
			}
			run(insert(11), "E 54000 Z I")
			run("BEGIN", "BEGIN Z T")
			run(insert(5), "INSERT 0 5 Z T")
			run(insert(5), "INSERT 0 5 Z T")
			run(insert(1), "E 54000 Z E")
			run("SELECT 1", "E 25P02 Z E")
			run("COMMIT", "ROLLBACK Z I")
			rows("0")
			run(insert(10), "INSERT 0 10 Z I")
			run("BEGIN", "BEGIN Z T")
			run(insert(10), "INSERT 0 10 Z T")
			run("COMMIT", "COMMIT Z I")
			rows("20")
		})
	}
}

// A fault that is planned for another statement changes nothing of what a row too many does:
// nothing of the statement stays.
func TestRowLimitWhileFaultsArePlanned(t *testing.T) {
	t.Parallel()
	c := start(t, func(config *dsqlsim.Config) { config.Limits.TransactionRows = 10 })
	c.direct(t, "CREATE TABLE planned AS SELECT generate_series(1, 11) AS id")
	for _, at := range []dsqlsim.FaultPoint{dsqlsim.AtStatement, dsqlsim.AtRow, dsqlsim.Running, dsqlsim.Answered, dsqlsim.Committed} {
		c.plan(t, dsqlsim.Fault{At: at, Action: dsqlsim.Cut, Contains: "of another"})
		for protocol, send := range protocols {
			w := c.raw(t)
			answers := slices.DeleteFunc(w.ask(1, send("DELETE FROM planned WHERE id > 0")...), func(a string) bool { return len(a) == 1 })
			if got := strings.Join(answers, " "); got != "E 54000 Z I" {
				t.Errorf("%s, %s: %q", at, protocol, got)
			}
			if got := strings.TrimSpace(c.direct(t, "SELECT count(*) FROM planned")); got != "11" {
				t.Fatalf("%s, %s: %s rows are left of 11", at, protocol, got)
			}
		}
	}
}

// A Query that has a parameter fails as at PostgreSQL, also where it writes.
func TestParametersInAQuery(t *testing.T) {
	t.Parallel()
	w := start(t, nil).raw(t)
	w.ask(1, &pgproto3.Query{String: "CREATE TABLE parameters (a int)"})
	for _, sql := range []string{"SELECT $1::int", "SELECT $1::int; SELECT 1; DELETE FROM parameters", "DELETE FROM parameters WHERE a = $1"} {
		const want = "E 42P02,Z I"
		if got := strings.Join(w.ask(1, &pgproto3.Query{String: sql}), ","); got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
}

// Several statements in one message count together, and a COMMIT among them does
// not save what is too much.
func TestRowLimitOfSeveral(t *testing.T) {
	t.Parallel()
	c := start(t, func(config *dsqlsim.Config) { config.Limits.TransactionRows = 10 })
	c.direct(t, "CREATE TABLE t (id int)")
	const six = "INSERT INTO t SELECT generate_series(1, 6)"
	w := c.raw(t)
	for _, test := range []struct {
		name     string
		messages []pgproto3.FrontendMessage
		want     []string
	}{
		{"a Query", query(six + "; " + six + "; SELECT 1"), []string{"INSERT 0 6", "E 54000", "Z I"}},
		{"a Query with COMMIT", query("BEGIN; " + six + "; " + six + "; COMMIT"), []string{"BEGIN", "INSERT 0 6", "E 54000", "Z E"}},
		{"the end of the block", query("ROLLBACK"), []string{"ROLLBACK", "Z I"}},
		{"a pipeline", group(six, six, "SELECT 1"), []string{"1", "2", "INSERT 0 6", "1", "2", "E 54000", "Z I"}},
		{"a pipeline with COMMIT", group("BEGIN", six, six, "COMMIT"),
			[]string{"1", "2", "BEGIN", "1", "2", "INSERT 0 6", "1", "2", "E 54000", "Z E"}},
		{"the end of that block", query("ROLLBACK"), []string{"ROLLBACK", "Z I"}},
		{"a Query that fits", query(six + "; SELECT 1; DELETE FROM t WHERE id < 3"),
			[]string{"INSERT 0 6", "T ?column?", "D 1", "SELECT 1", "DELETE 2", "Z I"}},
		{"with an error of PostgreSQL's", query(six + "; SELECT 1 / 0"), []string{"INSERT 0 6", "E 22012", "Z I"}},
		{"returning rows", query("INSERT INTO t VALUES (9) RETURNING id"), []string{"T id", "D 9", "INSERT 0 1", "Z I"}},
	} {
		if got := w.ask(1, test.messages...); !slices.Equal(got, test.want) {
			t.Errorf("%s:\n got %q\nwant %q", test.name, got, test.want)
		}
	}
	if got := strings.TrimSpace(c.direct(t, "SELECT count(*) FROM t")); got != "5" {
		t.Errorf("%s rows, want 5", got)
	}
}

func query(sql string) []pgproto3.FrontendMessage {
	return []pgproto3.FrontendMessage{&pgproto3.Query{String: sql}}
}

// A transaction that writes too much fails at COMMIT, and leaves a session that
// works.
func TestSizeLimit(t *testing.T) {
	t.Parallel()
	c := start(t, func(config *dsqlsim.Config) { config.Limits.TransactionBytes = 1 << 20 })
	c.direct(t, "CREATE TABLE t (id int, v text)")
	conn := c.connect(t)
	value := []byte(randomText(300_000))
	for n, want := range map[int]string{3: "", 4: "54000"} {
		must(t, conn, "BEGIN")
		for range n {
			if r := conn.ExecParams(deadline(t), "INSERT INTO t VALUES (1, $1)", [][]byte{value}, nil, nil, nil).Read(); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		_, err := conn.Exec(deadline(t), "COMMIT").ReadAll()
		if code(err) != want {
			t.Errorf("%d values: got %v, want %q", n, err, want)
		}
		if want != "" && pgError(t, err).Message != "transaction size limit 10mb exceeded" {
			t.Errorf("got %q", pgError(t, err).Message)
		}
		if status := conn.TxStatus(); status != 'I' {
			t.Errorf("status %c after COMMIT", status)
		}
	}
	if got := strings.TrimSpace(c.direct(t, "SELECT count(*) FROM t")); got != "3" {
		t.Errorf("%s rows, want 3", got)
	}
}

// An aged transaction learns it at its next statement, whatever that is but for
// ROLLBACK; a statement that runs is left alone.
func TestAgeLimit(t *testing.T) {
	t.Parallel()
	c := start(t, func(config *dsqlsim.Config) { config.Limits.TransactionAge = 200 * time.Millisecond })
	conn := c.connect(t)
	for next, want := range map[string]string{"SELECT 1": "E", "COMMIT": "I", "ROLLBACK": "I"} {
		must(t, conn, "BEGIN")
		must(t, conn, "SELECT pg_sleep(0.3)")
		_, err := conn.Exec(deadline(t), next).ReadAll()
		if next == "ROLLBACK" {
			if err != nil {
				t.Error(err)
			}
		} else if code(err) != "54000" || pgError(t, err).Message != "transaction age limit of 300s exceeded" {
			t.Errorf("%s: got %v", next, err)
		}
		if got := string(conn.TxStatus()); got != want {
			t.Errorf("%s: status %s, want %s", next, got, want)
		}
		if want == "E" {
			if _, err := conn.Exec(deadline(t), "SELECT 1").ReadAll(); code(err) != "25P02" {
				t.Errorf("then: %v", err)
			}
			must(t, conn, "ROLLBACK")
		}
	}
}

func TestMessageLimit(t *testing.T) {
	t.Parallel()
	c := start(t, func(config *dsqlsim.Config) { config.Limits.MessageBytes = 1 << 16 })
	w := c.raw(t)
	fits := "SELECT 1 /*" + strings.Repeat("x", 1<<16-14) + "*/"
	if got := w.ask(1, query(fits)...); got[len(got)-1] != "Z I" {
		t.Errorf("at the limit: %q", got)
	}
	w.Send(&pgproto3.Query{String: fits + " "})
	if w.Flush() != nil {
		return // it is closed already
	}
	if m, err := w.Receive(); !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("over the limit: got %T, %v, want the end of the connection", m, err)
	}
}

// Values count as they are stored, keys as they are.
func TestValueLimits(t *testing.T) {
	t.Parallel()
	c := start(t, func(config *dsqlsim.Config) {
		config.Limits.ValueBytes, config.Limits.RowBytes, config.Limits.KeyBytes = 10_000, 15_000, 100
	})
	conn := c.connect(t)
	must(t, conn, "CREATE TABLE v (id int PRIMARY KEY, a text, b bytea, j jsonb)")
	must(t, conn, "CREATE TABLE k (id text PRIMARY KEY, other text)")
	must(t, conn, "ALTER TABLE v ADD COLUMN late text")
	for _, test := range []struct {
		sql, param string
		want       string
	}{
		{"INSERT INTO v (id, a) VALUES (1, $1)", randomText(9_990), ""},
		{"INSERT INTO v (id, a) VALUES (2, $1)", strings.Repeat("x", 100_000), ""},
		{"INSERT INTO v (id, a) VALUES (3, $1)", randomText(10_001), "datatype limit greater than 10000 bytes not supported for text"},
		{"INSERT INTO v (id, b) VALUES (3, convert_to($1, 'UTF8'))", randomText(10_001), "datatype limit greater than 10000 bytes not supported for bytea"},
		{"INSERT INTO v (id, j) VALUES (3, to_jsonb($1::text))", randomText(11_000), "datatype limit greater than 10000 bytes not supported for jsonb"},
		{"UPDATE v SET late = $1 WHERE id = 2", randomText(10_001), "datatype limit greater than 10000 bytes not supported for text"},
		{"UPDATE v SET late = $1 WHERE id = 1", randomText(9_000), "maximum row size exceeded"},
		{"INSERT INTO k VALUES ($1)", randomText(100), ""},
		{"INSERT INTO k VALUES ($1)", randomText(101), "key size too large"},
		{"INSERT INTO k VALUES ($1)", randomText(3_000), "key size too large"},
		{"INSERT INTO k VALUES ('a', $1)", randomText(1_000), ""},
	} {
		r := conn.ExecParams(deadline(t), test.sql, [][]byte{[]byte(test.param)}, nil, nil, nil).Read()
		got := ""
		if r.Err != nil {
			e := pgError(t, r.Err)
			if got = e.Message; e.Code != "54000" || e.Where != "" {
				t.Errorf("%s: %s, where %q", test.sql, e.Code, e.Where)
			}
		}
		if got != test.want {
			t.Errorf("%s, %d bytes:\n got %q\nwant %q", test.sql, len(test.param), got, test.want)
		}
	}
	must(t, conn, "ALTER TABLE v DROP COLUMN a")
	must(t, conn, "INSERT INTO v (id) VALUES (9)")
}

func must(t *testing.T, conn *pgconn.PgConn, sql string) {
	t.Helper()
	if _, err := conn.Exec(deadline(t), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// code is the SQLSTATE of an error, "" without one.
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}
