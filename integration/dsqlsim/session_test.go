package dsqlsim_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim"
)

func TestPipelineKeepsOrder(t *testing.T) {
	t.Parallel()
	w := start(t, nil).raw(t)
	var messages []pgproto3.FrontendMessage
	messages = append(messages, group("SELECT 'a'", "SELECT 'b'")...)
	messages = append(messages, group("SELECT 'c'", "SAVEPOINT s", "SELECT 'd'")...)
	messages = append(messages, group("SELECT 'e'", "SELECT 1/0", "SELECT 'f'")...)
	messages = append(messages, &pgproto3.Query{String: "SELECT 'g'; SELECT 'h'"}, &pgproto3.Query{String: ""})
	messages = append(messages, group("SELECT 'i'")...)
	got := strings.Join(w.ask(6, messages...), ",")
	want := "1,2,D a,SELECT 1,1,2,D b,SELECT 1,Z I," +
		"1,2,D c,SELECT 1,E 0A000,Z I," +
		"1,2,D e,SELECT 1,1,E 22012,Z I," +
		"T ?column?,D g,SELECT 1,T ?column?,D h,SELECT 1,Z I,EmptyQueryResponse,Z I," +
		"1,2,D i,SELECT 1,Z I"
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// Flush brings the answers so far, without Sync; Close, Describe and a portal
// with a row limit work.
func TestExtendedProtocolInSteps(t *testing.T) {
	t.Parallel()
	w := start(t, nil).raw(t)
	step := func(want string, messages ...pgproto3.FrontendMessage) {
		t.Helper()
		for _, m := range messages {
			w.Send(m)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for range strings.Split(want, ",") {
			m, err := w.Receive()
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, brief(m))
		}
		if joined := strings.Join(got, ","); joined != want {
			t.Errorf("got %s, want %s", joined, want)
		}
	}
	step("BEGIN,Z T", &pgproto3.Query{String: "BEGIN"})
	step("1,t,T g", &pgproto3.Parse{Name: "s", Query: "SELECT g FROM generate_series(1, 3) g"}, &pgproto3.Describe{ObjectType: 'S', Name: "s"}, &pgproto3.Flush{})
	step("2,D 1,D 2,PortalSuspended", &pgproto3.Bind{DestinationPortal: "p", PreparedStatement: "s"}, &pgproto3.Execute{Portal: "p", MaxRows: 2}, &pgproto3.Flush{})
	step("D 3,SELECT 1,3", &pgproto3.Execute{Portal: "p", MaxRows: 2}, &pgproto3.Close{ObjectType: 'P', Name: "p"}, &pgproto3.Flush{})
	step("Z T", &pgproto3.Sync{})
	step("FunctionCallResponse,Z T", &pgproto3.FunctionCall{Function: 1598, ResultFormatCode: 1}) // random()
	step("E 42704,Z E", &pgproto3.Query{String: "SHOW nonsense"})
	step("E 25P02,Z E", &pgproto3.Parse{Query: "SELECT 1"}, &pgproto3.Sync{})
	step("ROLLBACK,Z I", &pgproto3.Query{String: "COMMIT"})
}

// A pipeline longer than all buffers, written while its answers are read.
func TestLongPipeline(t *testing.T) {
	t.Parallel()
	const n = pipelineSteps
	w := start(t, nil).raw(t)
	w.ask(1, &pgproto3.Parse{Name: "s", Query: "SELECT $1::text"}, &pgproto3.Sync{})
	written := make(chan error, 1)
	go func() {
		for i := range n {
			w.SendBind(&pgproto3.Bind{PreparedStatement: "s", Parameters: [][]byte{fmt.Append(nil, i)}})
			w.SendExecute(&pgproto3.Execute{})
			if i%1000 == 0 {
				if err := w.Flush(); err != nil {
					written <- err
					return
				}
			}
		}
		w.SendSync(&pgproto3.Sync{})
		written <- w.Flush()
	}()
	rows := 0
	for {
		m, err := w.Receive()
		if err != nil {
			t.Fatalf("after %d rows: %v", rows, err)
		}
		switch m := m.(type) {
		case *pgproto3.DataRow:
			if got := string(m.Values[0]); got != fmt.Sprint(rows) {
				t.Fatalf("row %d is %q", rows, got)
			}
			rows++
		case *pgproto3.ErrorResponse:
			t.Fatal(m.Message)
		case *pgproto3.ReadyForQuery:
			if rows != n {
				t.Errorf("%d rows", rows)
			}
			if err := <-written; err != nil {
				t.Error(err)
			}
			return
		}
	}
}

// Both directions beyond every buffer, and a frame larger than a batch.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	conn := start(t, nil).connect(t)
	value := []byte(strings.Repeat("x", 9<<20))
	for range largeMessages {
		got := conn.ExecParams(deadline(t), "SELECT $1::text, repeat('y', 20000000)", [][]byte{value}, nil, nil, nil).Read()
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		if a, b := len(got.Rows[0][0]), len(got.Rows[0][1]); a != len(value) || b != 20_000_000 {
			t.Errorf("%d and %d bytes", a, b)
		}
	}
	// A longer message than a cluster takes ends the connection without a word.
	err := conn.ExecParams(deadline(t), "SELECT $1::text", [][]byte{make([]byte, 11<<20)}, nil, nil, nil).Read().Err
	if _, told := err.(*pgconn.PgError); err == nil || told {
		t.Errorf("got %v, want a closed connection", err)
	}
}

func TestLargeResultIsStreamed(t *testing.T) {
	t.Parallel()
	w := start(t, nil).raw(t)
	w.SendQuery(&pgproto3.Query{String: fmt.Sprintf("SELECT repeat('x', 1000) FROM generate_series(1, %d)", streamedRows)})
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond) // the client is slow: everything backs up
	for rows := 0; ; {
		m, err := w.Receive()
		if err != nil {
			t.Fatal(err)
		}
		switch m.(type) {
		case *pgproto3.DataRow:
			rows++
		case *pgproto3.ReadyForQuery:
			if rows != streamedRows {
				t.Errorf("%d rows", rows)
			}
			return
		}
	}
}

func TestVanishedClientLeavesNothing(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	c.direct(t, "CREATE TABLE t (id int PRIMARY KEY)")
	w := c.raw(t)
	w.ask(1, &pgproto3.Query{String: "BEGIN; INSERT INTO t VALUES (1)"})
	_ = w.conn.Close()
	busy := c.raw(t)
	busy.ask(1, &pgproto3.Query{String: "BEGIN; INSERT INTO t VALUES (2)"})
	busy.SendQuery(&pgproto3.Query{String: "SELECT pg_sleep(600)"})
	if err := busy.Flush(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the sleep", func() bool {
		return c.direct(t, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND datname = current_database() AND pid <> pg_backend_pid()") == "1"
	})
	_ = busy.conn.Close()
	eventually(t, "the end of both connections", func() bool {
		return c.direct(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()") == "0"
	})
	if n := c.direct(t, "SELECT count(*) FROM t"); n != "0" {
		t.Errorf("%s rows are left", n)
	}
	eventually(t, "zero connections", func() bool { return c.ConnectionCount() == 0 })
}

// What a client sent before its goodbye still runs, as on any server.
func TestLastWordsAreHeard(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	c.direct(t, "CREATE TABLE t (id int PRIMARY KEY)")
	w := c.raw(t)
	for i := range 50 {
		w.SendQuery(&pgproto3.Query{String: fmt.Sprintf("INSERT INTO t VALUES (%d)", i)})
	}
	w.Send(&pgproto3.Terminate{})
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "fifty rows", func() bool { return c.direct(t, "SELECT count(*) FROM t") == "50" })
}

func TestCancel(t *testing.T) {
	t.Parallel()
	for name, honour := range map[string]bool{"ignored": false, "honoured": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, func(config *dsqlsim.Config) { config.HonourCancel = honour })
			conn := c.connect(t)
			result := make(chan error, 1)
			go func() { result <- conn.Exec(context.Background(), "SELECT pg_sleep(1.5)").Close() }()
			eventually(t, "the sleep", func() bool {
				return c.direct(t, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(1.5)%' AND datname = current_database() AND pid <> pg_backend_pid()") == "1"
			})
			if err := conn.CancelRequest(deadline(t)); err != nil && err != io.EOF {
				t.Fatal(err)
			}
			switch err := <-result; {
			case honour && (err == nil || pgError(t, err).Code != "57014"):
				t.Errorf("got %v, want 57014", err)
			case !honour && err != nil:
				t.Errorf("got %v, want none", err)
			}
			eventually(t, "the ledger to tell", func() bool {
				for _, e := range c.EventsAfter(0) {
					if e.Kind == "cancel" && e.Outcome == name && e.PID == conn.PID() && e.Session > 0 {
						return true
					}
				}
				return false
			})
		})
	}
}

func TestNoticesAndSettings(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	c.direct(t, "CREATE FUNCTION warn() RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'careful'; END $$")
	w := c.raw(t)
	for sql, want := range map[string]string{
		"SELECT warn()":                          "T warn,NoticeResponse,D ,SELECT 1,Z I",
		"SET application_name = 'other'":         "SET,ParameterStatus,Z I",
		"SET disable_sync_create_index = off":    "SET,Z I",
		"SHOW disable_sync_create_index":         "T disable_sync_create_index,D off,SHOW,Z I",
		"BEGIN; SET LOCAL ROLE postgres; COMMIT": "BEGIN,SET,COMMIT,Z I",
	} {
		if sql == "SHOW disable_sync_create_index" {
			w.ask(1, &pgproto3.Query{String: "SET disable_sync_create_index = off"})
		}
		if got := strings.Join(w.ask(1, &pgproto3.Query{String: sql}), ","); got != want {
			t.Errorf("%s:\n got %s\nwant %s", sql, got, want)
		}
	}
}

func TestLostUpstream(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	for name, prepare := range map[string]string{"idle": "SELECT 1", "in a transaction": "BEGIN"} {
		w := c.raw(t)
		w.ask(1, &pgproto3.Query{String: prepare})
		c.direct(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
		m, err := w.Receive()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if e, ok := m.(*pgproto3.ErrorResponse); !ok || e.Code != "57P01" || e.Severity != "FATAL" {
			t.Errorf("%s: got %+v", name, m)
		}
		if m, err := w.Receive(); err == nil {
			t.Errorf("%s: %T after the end", name, m)
		}
	}
}

func TestUnreachableUpstream(t *testing.T) {
	t.Parallel()
	c := start(t, func(config *dsqlsim.Config) { config.Upstream = "host=" + t.TempDir() })
	_, err := pgconn.ConnectConfig(deadline(t), c.config(t))
	if e := pgError(t, err); e.Severity != "FATAL" || e.Code != "XX000" {
		t.Errorf("got %s %s", e.Severity, e.Code)
	}
}

func TestBrokenMessages(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	for name, send := range map[string]string{
		"unknown type":     "y\x00\x00\x00\x04",
		"short length":     "Q\x00\x00\x00\x03",
		"negative length":  "Q\xff\xff\xff\xff",
		"no end of string": "Q\x00\x00\x00\x05x",
		"no end of name":   "P\x00\x00\x00\x05x",
		"empty Describe":   "D\x00\x00\x00\x04",
		"huge length":      "d\x7f\xff\xff\xff",
	} {
		w := c.raw(t)
		if _, err := w.conn.Write([]byte(send)); err != nil {
			t.Fatal(err)
		}
		for {
			m, err := w.Receive()
			if err != nil {
				break
			}
			if e, ok := m.(*pgproto3.ErrorResponse); !ok || e.Severity != "FATAL" {
				t.Errorf("%s: %+v", name, m)
			}
		}
	}
	// Frames that mean nothing outside a COPY are ignored.
	w := c.raw(t)
	if got := w.ask(1, &pgproto3.CopyData{Data: []byte("x")}, &pgproto3.CopyDone{}, &pgproto3.Query{String: ""}); len(got) != 2 {
		t.Errorf("got %q", got)
	}
}

func TestDeepTexts(t *testing.T) {
	t.Parallel()
	conn := start(t, nil).connect(t)
	for _, sql := range []string{
		"SELECT 1" + strings.Repeat("+1", 30_000),
		"SELECT " + strings.Repeat("(", 30_000) + "1" + strings.Repeat(")", 30_000),
		"SELECT '" + strings.Repeat("x", 3<<20) + "' FOR SHARE",
	} {
		if err := conn.Exec(deadline(t), sql).Close(); err != nil {
			pgError(t, err) // PostgreSQL may refuse it, but must be asked
		}
	}
	if err := conn.Exec(deadline(t), "SELECT 1").Close(); err != nil {
		t.Error(err)
	}
}

// A named portal that was bound in front of a transaction's first effect is still
// there when the effect must be tried again.
func TestNamedPortalIsTriedAgain(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	c.direct(t, "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)")
	first, second := c.raw(t), c.raw(t)
	first.ask(1, simple("BEGIN; UPDATE t SET n = 1 WHERE id = 1"))
	second.ask(1, simple("BEGIN"))
	got := strings.Join(second.ask(1,
		&pgproto3.Parse{Query: "UPDATE t SET n = 2 WHERE id = 1"},
		&pgproto3.Bind{DestinationPortal: "c1"}, &pgproto3.Describe{ObjectType: 'P', Name: "c1"}, &pgproto3.Execute{Portal: "c1"},
		&pgproto3.Bind{DestinationPortal: "c2"}, &pgproto3.Execute{Portal: "c2"}, &pgproto3.Sync{}), ",")
	if want := "1,2,n,UPDATE 1,2,UPDATE 1,Z T"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := strings.Join(second.ask(1, simple("COMMIT")), ","); got != "COMMIT,Z I" {
		t.Error(got)
	}
}

// A portal that was bound while the transaction was out of another's way sees what
// the transaction has written.
func TestPortalSeesOwnWrites(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	c.direct(t, "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)")
	first, second := c.raw(t), c.raw(t)
	first.ask(1, simple("BEGIN; UPDATE t SET n = 1 WHERE id = 1"))
	if got := strings.Join(second.ask(1, simple("BEGIN; UPDATE t SET n = 2 WHERE id = 1; ROLLBACK")), ","); got != "BEGIN,UPDATE 1,ROLLBACK,Z I" {
		t.Fatal(got)
	}
	got := strings.Join(first.ask(1, &pgproto3.Parse{Query: "SELECT n::text FROM t WHERE id = 1"}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Sync{}), ",")
	if want := "1,2,D 1,SELECT 1,Z T"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// What a portal that is read in parts has written is not lost without a word when
// its transaction must get out of another's way.
func TestWriteReadInParts(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	c.direct(t, "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)")
	first, second := c.raw(t), c.raw(t)
	first.ask(1, simple("BEGIN"))
	got := strings.Join(first.ask(1, &pgproto3.Parse{Query: "UPDATE t SET n = n + 1 WHERE id = 1 RETURNING n::text"},
		&pgproto3.Bind{DestinationPortal: "c1"}, &pgproto3.Execute{Portal: "c1", MaxRows: 1}, &pgproto3.Execute{Portal: "c1", MaxRows: 1}, &pgproto3.Sync{}), ",")
	if want := "1,2,D 1,PortalSuspended,UPDATE 0,Z T"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	second.ask(1, simple("BEGIN; UPDATE t SET n = n + 10 WHERE id = 1; ROLLBACK"))
	got = strings.Join(first.ask(1, simple("COMMIT")), ",")
	if n := c.direct(t, "SELECT n FROM t"); (got == "COMMIT,Z I") != (n == "1") {
		t.Errorf("the row holds %s after %s", n, got)
	}
}

// A portal that was read in part ends with a conflict when its transaction must get out of
// another's way: at its next Describe, as at its next Execute. Its Close is no error.
func TestReadInPartsGivesWay(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	c.direct(t, "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)")
	describe, execute := &pgproto3.Describe{ObjectType: 'P', Name: "c1"}, &pgproto3.Execute{Portal: "c1", MaxRows: 1}
	for name, test := range map[string]struct {
		frames []pgproto3.FrontendMessage
		want   string
	}{
		"describe":             {[]pgproto3.FrontendMessage{describe}, "E 40001,Z E"},
		"describe and execute": {[]pgproto3.FrontendMessage{describe, execute}, "E 40001,Z E"},
		"execute":              {[]pgproto3.FrontendMessage{execute}, "E 40001,Z E"},
		"close":                {[]pgproto3.FrontendMessage{&pgproto3.Close{ObjectType: 'P', Name: "c1"}}, "3,Z T"},
	} {
		first, second := c.raw(t), c.raw(t)
		first.ask(1, simple("BEGIN; UPDATE t SET n = n + 1 WHERE id = 1"))
		got := strings.Join(first.ask(1, &pgproto3.Parse{Query: "SELECT g::text FROM generate_series(1, 9) g"},
			&pgproto3.Bind{DestinationPortal: "c1"}, describe, execute, &pgproto3.Sync{}), ",")
		if want := "1,2,T g,D 1,PortalSuspended,Z T"; got != want {
			t.Fatalf("%s: got %s, want %s", name, got, want)
		}
		if got := strings.Join(second.ask(1, simple("BEGIN; UPDATE t SET n = n + 10 WHERE id = 1; ROLLBACK")), ","); got != "BEGIN,UPDATE 1,ROLLBACK,Z I" {
			t.Fatalf("%s: %s", name, got)
		}
		if got := strings.Join(first.ask(1, append(test.frames, &pgproto3.Sync{})...), ","); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
		first.ask(1, simple("ROLLBACK"))
	}
}
