package rewriting

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// slowly gives data, and then calls what comes then, once.
type slowly struct {
	io.Reader
	then func() error
}

func (s *slowly) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if err == io.EOF && s.then != nil {
		then := s.then
		s.then = nil
		if err := then(); err != nil {
			return 0, err
		}
	}
	return n, err
}

// A COPY that does not come to its end leaves whole batches, and its client is told how many rows
// they are: given up, cancelled, out of time, cut at a COMMIT.
func TestCopyInEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := startCopies(t, harness.Env{"DSQL_CANCEL_GRACE": "100ms"})
	r.pg.SQL(t, "postgres", manyTable)
	other, _ := r.dial(t, r.sluice.DSN("postgres"))
	const timeout = "SET statement_timeout = '5s'"
	const stay = " 6000 rows are in, and stay so: copy.from commits a COPY in batches."
	for name, way := range map[string]struct {
		rows         int
		set, faults  string
		cancelAfter  time.Duration
		then         func(c *pgconn.PgConn) error
		want, inside string
	}{
		"given up":         {rows: 7000, then: func(*pgconn.PgConn) error { return errors.New("no more") }, want: "57014 | COPY from stdin failed: no more | COPY many, line 7000 |" + stay, inside: "6000"},
		"given up at once": {rows: 5, then: func(*pgconn.PgConn) error { return errors.New("no more") }, want: "57014 | COPY from stdin failed: no more | COPY many, line 5", inside: "0"},
		"cancelled meanwhile": {rows: 7000, then: func(c *pgconn.PgConn) error {
			return r.has(ctx, other, "6000", func() error { return c.CancelRequest(context.Background()) })
		}, want: "57014 | canceling statement due to user request |  |" + stay, inside: "6000"},
		"cancelled":           {rows: 7000, faults: `[{"at": "statement", "verb": "INSERT", "action": "stall", "seconds": 9, "skip": 2}]`, cancelAfter: 3 * time.Second, want: "57014 | canceling statement due to user request |  |" + stay, inside: "6000"},
		"out of time":         {rows: 7000, set: timeout, faults: `[{"at": "statement", "verb": "INSERT", "action": "stall", "seconds": 9, "skip": 2}]`, want: "57014 | canceling statement due to statement timeout |  |" + stay, inside: "6000"},
		"cut at a COMMIT":     {rows: 7000, faults: `[{"at": "committing", "action": "cut", "skip": 2}]`, want: "08007 | the backend connection was lost while a commit was under way: its outcome is unknown |  |" + stay, inside: "7000"},
		"cut behind a COMMIT": {rows: 7000, faults: `[{"at": "committed", "action": "cut", "skip": 1}]`, want: "08007 | the backend connection was lost while a commit was under way: its outcome is unknown |  | 3000 rows", inside: "6000"},
		"too many conflicts":  {rows: 7000, faults: `[{"at": "statement", "verb": "INSERT", "action": "fail", "error": "conflict", "skip": 2, "count": -1}]`, want: "25000 | the rest of a COPY that is committed in part met a conflict: change conflicts with another transaction (OC000) |  | Replay refused", inside: "6000"},
		"with nothing in":     {rows: 7, faults: `[{"at": "statement", "verb": "INSERT", "action": "fail", "error": "conflict", "count": -1}]`, want: "40001 | change conflicts with another transaction (OC000) |", inside: "0"},
	} {
		t.Run(name, func(t *testing.T) {
			r.pg.SQL(t, "postgres", "DELETE FROM many")
			c, _ := r.dial(t, r.sluice.DSN("postgres"))
			if way.set != "" {
				answers(ctx, c, way.set, false)
			}
			if way.faults != "" {
				r.sim.Admin(t, http.MethodPost, "/faults", way.faults)
				defer r.sim.Admin(t, http.MethodDelete, "/faults", "")
			}
			if way.cancelAfter > 0 {
				time.AfterFunc(way.cancelAfter, func() { c.CancelRequest(context.Background()) })
			}
			data := &slowly{Reader: strings.NewReader(lines(0, way.rows))}
			if way.then != nil {
				data.then = func() error { return way.then(c) }
			}
			tag, err := c.CopyFrom(ctx, data, "COPY many FROM STDIN")
			if got := copyTold(tag, err); !strings.HasPrefix(got, way.want) {
				t.Errorf("got %s\nwant %s", got, way.want)
			}
			r.sim.Admin(t, http.MethodDelete, "/faults", "")
			got := ""
			for end := time.Now().Add(10 * time.Second); got != way.inside && time.Now().Before(end); { // a COMMIT may be on its way
				got = r.pg.SQL(t, "postgres", "SELECT count(*) FROM many")
			}
			if got != way.inside {
				t.Errorf("%s rows are in, want %s", got, way.inside)
			}
			if got := strings.Join(answers(ctx, c, "SELECT 1", false), " "); got != `row ["1"] SELECT 1 I` {
				t.Errorf("behind it: %s", got)
			}
		})
	}
}

// A client that leaves in the middle leaves whole batches, and no backend that is at work.
func TestCopyInLeft(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := startCopies(t, harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "1"})
	r.pg.SQL(t, "postgres", manyTable)
	c, _ := r.dial(t, r.sluice.DSN("postgres"))
	other, _ := r.dial(t, r.sluice.DSN("postgres"))
	_, err := c.CopyFrom(ctx, &slowly{strings.NewReader(lines(0, 4000)), func() error { return r.has(ctx, other, "3000", c.Conn().Close) }}, "COPY many FROM STDIN")
	if err == nil {
		t.Error("a client that has left is told success")
	}
	if err := r.has(ctx, other, "3000", func() error { return nil }); err != nil {
		t.Error(err)
	}
}

// has waits until the table has so many rows, by another session, and then does what comes then.
func (r *partsRig) has(ctx context.Context, other *pgconn.PgConn, rows string, then func() error) error {
	for {
		got := strings.Join(answers(ctx, other, "SELECT count(*) FROM many", false), " ")
		switch {
		case got == fmt.Sprintf("row [%q] SELECT 1 I", rows):
			return then()
		case !strings.HasPrefix(got, `row ["`) || ctx.Err() != nil:
			return errors.New(got)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// While data are awaited outside of a block no backend is held: with one, others are served.
func TestCopyInHoldsNoBackend(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := startCopies(t, harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "1"})
	r.pg.SQL(t, "postgres", manyTable)
	c, _ := r.dial(t, r.sluice.DSN("postgres"))
	other, _ := r.dial(t, r.sluice.DSN("postgres"))
	tag, err := c.CopyFrom(ctx, &slowly{strings.NewReader(lines(0, 3500)), func() error {
		return r.has(ctx, other, "3000", func() error { return nil })
	}}, "COPY many FROM STDIN")
	if got := copyTold(tag, err); got != "COPY 3500" {
		t.Error(got)
	}
}

// A block with a COPY is run again behind a conflict, as one with its INSERTs is, and is all or
// nothing.
func TestCopyInBlock(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := startCopies(t, nil)
	r.pg.SQL(t, "postgres", manyTable)
	c, notices := r.dial(t, r.sluice.DSN("postgres"))
	block := func(rows int, data string) string {
		r.pg.SQL(t, "postgres", "DELETE FROM many")
		told := answers(ctx, c, "BEGIN", false)
		told = append(told, answers(ctx, c, "INSERT INTO many VALUES (-1, 'first')", false)...)
		told = append(told, copyAnswer(ctx, c, "COPY many FROM STDIN", lines(0, rows)+data))
		told = append(told, answers(ctx, c, "COMMIT", false)...)
		return strings.Join(append(told, r.pg.SQL(t, "postgres", "SELECT count(*) FROM many")), ", ")
	}
	r.sim.Admin(t, http.MethodPost, "/faults", `[{"at": "commit", "action": "fail", "error": "conflict", "count": 2}]`)
	if got, want := block(2500, ""), "BEGIN, T, INSERT 0 1, T, COPY 2500, COMMIT, I, 2501"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r.sim.Admin(t, http.MethodDelete, "/faults", "")
	if got, want := block(3000, ""), "BEGIN, T, INSERT 0 1, T, 54000 | transaction row limit exceeded | , ROLLBACK, I, 0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := block(1500, "x"), `BEGIN, T, INSERT 0 1, T, 22P04 | missing data for column "v" | COPY many, line 1501: "x", ROLLBACK, I, 0`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := block(1500, "x\tx\n"), `BEGIN, T, INSERT 0 1, T, 22P02 | invalid input syntax for type integer: "x" | COPY many, line 1501, column id: "x", ROLLBACK, I, 0`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if len(*notices) > 0 {
		t.Errorf("notices: %q", *notices)
	}
}

// What is no COPY that can be carried out is refused before the client sends any row, and the
// session goes on.
func TestCopyInRefused(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := startCopies(t, nil)
	r.pg.SQL(t, "postgres", manyTable+"; CREATE TABLE points (p point); CREATE VIEW shown AS SELECT 1 AS a; CREATE DOMAIN small AS int CHECK (value < 9); CREATE TABLE domains (a small)")
	c, _ := r.dial(t, r.sluice.DSN("postgres"))
	asked := 0
	for _, sql := range []string{
		"COPY many FROM STDIN WHERE id > 1", "COPY many FROM STDIN (FREEZE)", "COPY many FROM STDIN (ENCODING 'LATIN1')",
		"COPY points FROM STDIN BINARY", "COPY shown FROM STDIN", "COPY many FROM STDIN; SELECT 1", "BEGIN; COPY many FROM STDIN; COMMIT",
	} {
		_, err := c.CopyFrom(ctx, &slowly{strings.NewReader(""), func() error { asked++; return nil }}, sql)
		var e *pgconn.PgError
		if !errors.As(err, &e) || e.Code != "0A000" && e.Code != "42809" || e.Hint == "" && e.Code == "0A000" {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if got := strings.Join(answers(ctx, c, "SET client_encoding = 'LATIN1'", false), " "); got == "SET I" {
		if got := copyAnswer(ctx, c, "COPY many FROM STDIN", "1\tx\n"); !strings.HasPrefix(got, "0A000") {
			t.Errorf("in LATIN1: %s", got)
		}
		answers(ctx, c, "SET client_encoding = 'UTF8'", false)
	}
	answers(ctx, c, "BEGIN", false)
	answers(ctx, c, "SELECT nosuch", false)
	if got := copyAnswer(ctx, c, "COPY many FROM STDIN", "1\tx\n"); !strings.HasPrefix(got, "25P02") {
		t.Errorf("in a failed block: %s", got)
	}
	answers(ctx, c, "ROLLBACK", false)
	if got := copyAnswer(ctx, c, "COPY domains FROM STDIN", "1\n9\n"); !strings.HasPrefix(got, "23514") {
		t.Errorf("of a domain: %s", got)
	}
	if got := copyAnswer(ctx, c, "COPY many FROM STDIN", "1\tx\n"); got != "COPY 1" {
		t.Errorf("afterwards: %s", got)
	}
}

// raw is a client that sends frames as they are.
func (r *partsRig) raw(t *testing.T) (*pgproto3.Frontend, func(until string) string) {
	t.Helper()
	c, _ := r.dial(t, r.sluice.DSN("postgres"))
	conn, err := c.Hijack()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Conn.Close() })
	f := pgproto3.NewFrontend(conn.Conn, conn.Conn)
	return f, func(until string) string {
		if err := f.Flush(); err != nil {
			t.Fatal(err)
		}
		conn.Conn.SetReadDeadline(time.Now().Add(limit))
		var got []string
		for {
			m, err := f.Receive()
			if err != nil {
				t.Fatalf("%v behind %q", err, got)
			}
			said := strings.TrimPrefix(fmt.Sprintf("%T", m), "*pgproto3.")
			switch m := m.(type) {
			case *pgproto3.ErrorResponse:
				said += " " + m.Code
			case *pgproto3.CommandComplete:
				said += " " + string(m.CommandTag)
			case *pgproto3.ReadyForQuery:
				said += " " + string(m.TxStatus)
			}
			got = append(got, said)
			if strings.HasPrefix(said, until) {
				return strings.Join(got, ", ")
			}
		}
	}
}

// A frame that is no part of a COPY ends the session behind its error, as in PostgreSQL, and nothing is stored.
func TestCopyInBrokenOff(t *testing.T) {
	t.Parallel()
	r := startCopies(t, nil)
	r.pg.SQL(t, "postgres", manyTable)
	f, until := r.raw(t)
	f.Send(&pgproto3.Query{String: "COPY many FROM STDIN"})
	until("CopyInResponse")
	f.Send(&pgproto3.CopyData{Data: []byte("1\tx\n")})
	f.Send(&pgproto3.Parse{Query: "SELECT 1"})
	f.Send(&pgproto3.Sync{})
	for range 2 {
		if got := until("ErrorResponse"); got != "ErrorResponse 08P01" {
			t.Errorf("got %s, want 08P01 of the frame, and of the session's end", got)
		}
	}
	if m, err := f.Receive(); err == nil {
		t.Errorf("got %T behind the session's end", m)
	}
	if got := r.pg.SQL(t, "postgres", "SELECT count(*) FROM many"); got != "0" {
		t.Errorf("%s rows are stored", got)
	}
}

// By the extended protocol a COPY is answered at its Sync; what stands beside it in its group is
// refused.
func TestCopyInExtended(t *testing.T) {
	t.Parallel()
	r := startCopies(t, nil)
	r.pg.SQL(t, "postgres", manyTable)
	prepare := func(f *pgproto3.Frontend) {
		f.Send(&pgproto3.Parse{Query: "COPY many FROM STDIN"})
		f.Send(&pgproto3.Bind{})
		f.Send(&pgproto3.Describe{ObjectType: 'P'})
		f.Send(&pgproto3.Execute{})
	}
	const begun = "ParseComplete, BindComplete, NoData, CopyInResponse"
	for name, way := range map[string]struct {
		before func(f *pgproto3.Frontend)
		behind []pgproto3.FrontendMessage
		want   string
		rows   string
	}{
		"alone":         {nil, []pgproto3.FrontendMessage{&pgproto3.CopyDone{}, &pgproto3.Sync{}}, "CommandComplete COPY 1, ReadyForQuery I", "1"},
		"flushed":       {nil, []pgproto3.FrontendMessage{&pgproto3.Flush{}, &pgproto3.Sync{}, &pgproto3.CopyDone{}, &pgproto3.Sync{}}, "CommandComplete COPY 1, ReadyForQuery I", "1"},
		"followed":      {nil, []pgproto3.FrontendMessage{&pgproto3.CopyDone{}, &pgproto3.Parse{Query: "SELECT 1"}, &pgproto3.Sync{}}, "ErrorResponse 0A000, ReadyForQuery I", "0"},
		"given up":      {nil, []pgproto3.FrontendMessage{&pgproto3.CopyFail{Message: "no"}, &pgproto3.Sync{}}, "ErrorResponse 57014, ReadyForQuery I", "0"},
		"malformed":     {nil, []pgproto3.FrontendMessage{&pgproto3.CopyData{Data: []byte("x\n")}, &pgproto3.CopyData{Data: []byte("x\n")}, &pgproto3.CopyDone{}, &pgproto3.Sync{}}, "ErrorResponse 22P04, ReadyForQuery I", "0"},
		"another query": {nil, []pgproto3.FrontendMessage{&pgproto3.CopyDone{}, &pgproto3.Query{String: "SELECT 1"}, &pgproto3.Sync{}}, "ErrorResponse 0A000, ReadyForQuery I", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			r.pg.SQL(t, "postgres", "DELETE FROM many")
			f, until := r.raw(t)
			prepare(f)
			f.Send(&pgproto3.Flush{})
			if got := until("CopyInResponse"); got != begun {
				t.Fatalf("got %s, want %s", got, begun)
			}
			f.Send(&pgproto3.CopyData{Data: []byte("1\tx\n")})
			for _, m := range way.behind {
				f.Send(m)
			}
			if got := until("ReadyForQuery"); got != way.want {
				t.Errorf("got %s, want %s", got, way.want)
			}
			f.Send(&pgproto3.Query{String: "SELECT count(*) FROM many"})
			if got := until("ReadyForQuery"); !strings.HasSuffix(got, "CommandComplete SELECT 1, ReadyForQuery I") {
				t.Errorf("behind it: %s", got)
			}
			if got := r.pg.SQL(t, "postgres", "SELECT count(*) FROM many"); got != way.rows {
				t.Errorf("%s rows are in, want %s", got, way.rows)
			}
		})
	}
	r.pg.SQL(t, "postgres", "DELETE FROM many")
	f, until := r.raw(t)
	f.Send(&pgproto3.Query{String: "BEGIN"})
	until("ReadyForQuery")
	prepare(f)
	f.Send(&pgproto3.Sync{}) // as libpq sends it along
	until("CopyInResponse")
	f.Send(&pgproto3.CopyData{Data: []byte("1\tx\n")})
	f.Send(&pgproto3.CopyDone{})
	f.Send(&pgproto3.Sync{})
	if got := until("ReadyForQuery"); got != "CommandComplete COPY 1, ReadyForQuery T" {
		t.Errorf("in a block: %s", got)
	}
	r.sim.Admin(t, http.MethodPost, "/faults", `[{"at": "commit", "action": "fail", "error": "conflict", "count": 1}]`)
	f.Send(&pgproto3.Query{String: "COMMIT"})
	if got := until("ReadyForQuery"); got != "CommandComplete COMMIT, ReadyForQuery I" {
		t.Errorf("the COMMIT: %s", got)
	}
	if got := r.pg.SQL(t, "postgres", "DELETE FROM many RETURNING id"); !strings.HasPrefix(got, "1") {
		t.Errorf("behind the COMMIT: %s", got)
	}
	f.Send(&pgproto3.Parse{Query: "INSERT INTO many VALUES (7, 'x')"})
	f.Send(&pgproto3.Bind{})
	f.Send(&pgproto3.Execute{})
	prepare(f)
	f.Send(&pgproto3.Sync{})
	if got := until("ReadyForQuery"); !strings.Contains(got, "ErrorResponse 0A000, ReadyForQuery I") {
		t.Errorf("behind an INSERT: %s", got)
	}
	if got := r.pg.SQL(t, "postgres", "SELECT count(*) FROM many"); got != "0" {
		t.Errorf("%s rows are in", got)
	}
}

// setConfig is what a dump has that the stand-in refuses.
var setConfig = regexp.MustCompile(`SELECT pg_catalog.set_config.*`)

// pgx copies in the binary format, also into mapped columns, psql and psycopg as text; what
// pg_dump has written of PostgreSQL is loaded as it is.
func TestCopyInClients(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := startCopies(t, nil)
	dsn := r.sluice.DSN("postgres")
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	const create = `CREATE TABLE kinds (id bytea PRIMARY KEY, s smallint, i bigint, f double precision, n numeric(9,4), t text, v varchar(9), b boolean, d date, ts timestamptz, u uuid, j jsonb, iv interval)`
	if _, err := conn.Exec(ctx, create); err != nil {
		t.Fatal(err)
	}
	r.pg.SQL(t, "reference", create)
	at := time.Date(2026, 2, 3, 4, 5, 6, 789000, time.UTC)
	var rows [][]any
	for i := range 3100 {
		rows = append(rows, []any{[]byte{byte(i), byte(i >> 8), 0, '\''}, int16(i), int64(-i), float64(i) / 7, fmt.Sprintf("%d.%d", i, i), "it's \\ ü", nil, i%2 == 0, at, at, [16]byte{byte(i)}, map[string]any{"a": i}, time.Duration(i) * time.Second})
	}
	names := []string{"id", "s", "i", "f", "n", "t", "v", "b", "d", "ts", "u", "j", "iv"}
	plain, err := pgx.Connect(ctx, r.pg.DSN("reference"))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close(ctx)
	const query = "SELECT id, s, i, f, n, t, v, b, d, ts, u, j, iv FROM kinds ORDER BY id"
	var said [2]string
	for i, c := range []*pgx.Conn{conn, plain} {
		if n, err := c.CopyFrom(ctx, pgx.Identifier{"kinds"}, names, pgx.CopyFromRows(rows)); n != 3100 || err != nil {
			t.Fatalf("pgx copies %d rows: %v", n, err)
		}
		result := c.PgConn().ExecParams(ctx, query, nil, nil, nil, nil).Read()
		said[i] = fmt.Sprintf("%q %v", result.Rows, result.Err)
	}
	if said[0] != said[1] {
		t.Error("what pgx has copied is not what PostgreSQL has of it")
	}
	r.pg.SQL(t, "reference", "CREATE TABLE dumped (id bigint PRIMARY KEY, v text); INSERT INTO dumped SELECT i, 'x' || chr(9) || i FROM generate_series(1, 3500) i")
	dump, err := r.pg.Program("pg_dump", "-h", r.pg.SocketDir, "-p", fmt.Sprint(r.pg.Port), "-U", r.pg.User, "-t", "dumped", "-O", "-x", "--data-only", "reference").Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, "CREATE TABLE dumped (id bigint PRIMARY KEY, v text)"); err != nil {
		t.Fatal(err)
	}
	script := exec.CommandContext(ctx, "psql", dsn, "-X", "-q", "-c", `\copy dumped (id, v) FROM stdin WITH (FORMAT csv)`)
	script.Stdin = strings.NewReader("-1,\"a\nb\"\n-2,\n")
	if out, err := script.CombinedOutput(); err != nil {
		t.Errorf("psql: %v: %s", err, out)
	}
	load := exec.CommandContext(ctx, "psql", dsn, "-X", "-q", "-v", "ON_ERROR_STOP=1")
	load.Stdin = bytes.NewReader(setConfig.ReplaceAll(dump, nil))
	if out, err := load.CombinedOutput(); err != nil || !strings.Contains(string(out), "in 2 transactions") {
		t.Errorf("the dump: %v: %s", err, out)
	}
	python := exec.CommandContext(ctx, "/usr/bin/python3", "-c", `
import sys, psycopg
with psycopg.connect(sys.argv[1]) as c:
    with c.cursor() as cur:
        with cur.copy("COPY dumped (id, v) FROM STDIN") as copy:
            for i in range(5): copy.write_row((-10 - i, None if i else "it's"))
        with cur.copy("COPY dumped (id, v) FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(["int8", "text"])
            copy.write_row((-20, "é"))
`, dsn)
	if out, err := python.CombinedOutput(); err != nil {
		t.Errorf("psycopg: %v: %s", err, out)
	}
	if got := r.pg.SQL(t, "postgres", "SELECT count(*), count(v), min(v) FILTER (WHERE id = -1) = E'a\\nb', sum(id) FROM dumped"); got != fmt.Sprintf("3508|3503|t|%d", 3500*3501/2-3-60-20) {
		t.Errorf("rows: %s", got)
	}
}

// A COPY behind DDL in a block that is committed in parts is the first of the next part, and the
// client is told of the early commit.
func TestCopyInParts(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := startCopies(t, harness.Env{"DSQL_DDL_IN_TRANSACTIONS": "autocommit"})
	c, notices := r.dial(t, r.sluice.DSN("postgres"))
	for _, end := range []string{"COMMIT", "ROLLBACK"} {
		*notices = nil
		told := answers(ctx, c, "BEGIN", false)
		told = append(told, answers(ctx, c, "CREATE TABLE made (id int PRIMARY KEY, v text)", false)...)
		told = append(told, copyAnswer(ctx, c, "COPY made FROM STDIN", lines(0, 120)))
		told = append(told, answers(ctx, c, end, false)...)
		rows := map[string]string{"COMMIT": "120", "ROLLBACK": "0"}[end]
		told = append(told, r.pg.SQL(t, "postgres", "SELECT count(*) FROM made"))
		if got, want := strings.Join(told, ", "), "BEGIN, T, CREATE TABLE, T, COPY 120, "+end+", I, "+rows; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if n := len(*notices); n != map[string]int{"COMMIT": 1, "ROLLBACK": 2}[end] || !strings.Contains((*notices)[0], "CREATE TABLE made") {
			t.Errorf("%s: %q", end, *notices)
		}
		r.pg.SQL(t, "postgres", "DROP TABLE made")
	}
	// The list has the client's COPY, and no INSERT of Sluice's.
	r.pg.SQL(t, "postgres", manyTable)
	*notices = nil
	answers(ctx, c, "BEGIN", false)
	told := []string{copyAnswer(ctx, c, "COPY many FROM STDIN", lines(0, 120))}
	told = append(append(told, answers(ctx, c, "CREATE TABLE made (id int)", false)...), answers(ctx, c, "ROLLBACK", false)...)
	if got, want := strings.Join(told, ", "), "COPY 120, CREATE TABLE, T, ROLLBACK, I"; got != want || len(*notices) != 2 || !strings.Contains((*notices)[0], "Committed: COPY many FROM STDIN.") {
		t.Errorf("got %s, want %s: %q", got, want, *notices)
	}
}

// Mapped columns are copied to as bytea, as text and as CSV, and errors have the client's names and
// values.
func TestCopyInMapped(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := startCopies(t, nil)
	c, _ := r.dial(t, r.sluice.DSN("postgres"))
	plain, _ := r.dial(t, r.pg.DSN("reference"))
	const create = "CREATE TABLE keyed (k bytea PRIMARY KEY, n int NOT NULL)"
	answers(ctx, c, create, false)
	answers(ctx, plain, create, false)
	if got := r.pg.SQL(t, "postgres", "SELECT attname FROM pg_attribute WHERE attrelid = 'keyed'::regclass AND attnum = 1"); got != "k__byteahex" {
		t.Fatalf("the key is %s: nothing is mapped", got)
	}
	for _, step := range []struct{ sql, data string }{
		{"COPY keyed FROM STDIN", "\\\\x00ff\t1\n\\\\x27\t2\n"},
		{"COPY keyed (n, k) FROM STDIN (FORMAT csv)", "3,a'b\n4,\\x\n5,\\001\n"},
		{"COPY keyed FROM STDIN", "\\\\x0102\t1\n\\\\x0g\t2\n"},
		{"COPY keyed FROM STDIN", "\\\\x0102\t1\n\\\\x03\tx\n"},
		{"COPY keyed FROM STDIN", "\\\\x0102\t1\n\\\\x27\t2\n"},
		{"COPY keyed FROM STDIN", "\\N\t1\n"},
		{"COPY keyed (nosuch) FROM STDIN", ""},
	} {
		want, got := copyAnswer(ctx, plain, step.sql, step.data), copyAnswer(ctx, c, step.sql, step.data)
		if got != want {
			t.Errorf("%s of %q\n got %s\nwant %s", step.sql, step.data, got, want)
		}
	}
	const query = "SELECT k, n FROM keyed ORDER BY k"
	if want, got := answers(ctx, plain, query, false), answers(ctx, c, query, false); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("rows are %q, want %q", got, want)
	}
}

// Where COPY goes to the server, and that refuses it, the error says what to do.
func TestCopyInHint(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := startParts(t, "refuse", harness.Env{"DSQL_COPY_FROM": "server"})
	r.pg.SQL(t, "postgres", manyTable)
	c, _ := r.dial(t, r.sluice.DSN("postgres"))
	_, err := c.CopyFrom(ctx, strings.NewReader("1\tx\n"), "COPY many FROM STDIN")
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code != "0A000" || !strings.Contains(e.Hint, "copy.from") {
		t.Errorf("the refusal is %+v", e)
	}
}

// A client that is slow about its data is waited for, in a block and outside of one.
func TestCopyInSlow(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := startCopies(t, harness.Env{"DSQL_CLIENT_IDLE_TIMEOUT": "1s", "DSQL_CLIENT_IDLE_TRANSACTION_TIMEOUT": "1s"})
	r.pg.SQL(t, "postgres", manyTable)
	for _, begin := range []string{"SELECT 1", "BEGIN"} {
		c, _ := r.dial(t, r.sluice.DSN("postgres"))
		answers(ctx, c, begin, false)
		wait := func() error { time.Sleep(3 * time.Second); return nil }
		tag, err := c.CopyFrom(ctx, &slowly{io.MultiReader(strings.NewReader(lines(0, 100)), &slowly{strings.NewReader(""), wait}, strings.NewReader(lines(100, 200))), wait}, "COPY many FROM STDIN")
		if got := copyTold(tag, err); got != "COPY 200" {
			t.Errorf("behind %s: %s", begin, got)
		}
		answers(ctx, c, "ROLLBACK", false)
		r.pg.SQL(t, "postgres", "DELETE FROM many")
	}
}
