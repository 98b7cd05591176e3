package proxy_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/rewrite"
)

// inBatches lists the table many, and what begins with it.
func inBatches(s *setup) { asDSQL(s); s.rules = rewrite.Rules{Chunked: []string{"many*"}} }

// limited is a server on which a DELETE of more rows of the table than limit fails as on DSQL.
// The function at runs in front of each, with calls, the number of those before.
func limited(t *testing.T, limit int, at string) postgres {
	t.Helper()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", fmt.Sprintf(`CREATE SEQUENCE calls MINVALUE 0;
		CREATE TABLE many (k int, v text, g int NOT NULL, PRIMARY KEY (k, g));
		CREATE FUNCTION limits() RETURNS trigger LANGUAGE plpgsql AS $$
		DECLARE calls bigint := nextval('calls');
		BEGIN
			%s
			IF (SELECT count(*) FROM gone) > %d THEN RAISE EXCEPTION 'transaction row limit exceeded' USING ERRCODE = '54000'; END IF;
			RETURN NULL;
		END $$;
		CREATE TRIGGER limits AFTER DELETE ON many REFERENCING OLD TABLE AS gone EXECUTE FUNCTION limits();
		INSERT INTO many SELECT i, 'x', i %% 2 FROM generate_series(1, 14100) i`, at, limit))
	return pg
}

// left are the rows that are there.
func left(t *testing.T, pg postgres, where string) string {
	t.Helper()
	return pg.SQL(t, "postgres", "SELECT count(*) FROM many WHERE "+where)
}

// A DELETE that the server refuses for its rows is carried out in batches, whatever the
// protocol and the formats of its values are, and what stays is what does not match.
func TestDeleteInBatches(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int{"at once": 3000, "halved": 800} {
		pg := limited(t, limit, "")
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement} {
			for replay, opts := range map[string][]option{"": {inBatches}, ", replay": {inBatches, withReplay}} {
				what := name + ", " + mode.String() + replay
				s := startSluice(t, pg, opts...)
				c := connectTo(t, s, "postgres", mode)
				tag, err := c.Exec(t.Context(), "DELETE FROM many WHERE g = $1 AND k >= $2 AND k < $3 -- mine", 1, 2, 14001)
				if err != nil || tag.String() != "DELETE 6999" {
					t.Errorf("%s: %q (%v)", what, tag, err)
				}
				if n, m := left(t, pg, "true"), left(t, pg, "NOT (g = 1 AND k >= 2 AND k < 14001)"); n != m || n != "7101" {
					t.Errorf("%s: %s rows are left, of which %s do not match", what, n, m)
				}
				isText(t, c, "SELECT 'well'", "well")
				run(t, c, "DELETE FROM many WHERE k < 5")
				if n := s.count(t, "dsql_delete_batches_total", ""); name == "at once" && n != 3 || n < 3 {
					t.Errorf("%s: %v batches", what, n)
				}
				pg.SQL(t, "postgres", "INSERT INTO many SELECT i, 'x', i % 2 FROM generate_series(1, 14100) i ON CONFLICT DO NOTHING")
			}
		}
	}
}

// The answer to the frames is that to a DELETE which was not refused.
func TestFramesOfDeleteInBatches(t *testing.T) {
	t.Parallel()
	pg := limited(t, 3000, "")
	s := startSluice(t, pg, inBatches, withReplay)
	f := framesOf(t, s)
	f.ask(t, 1, &pgproto3.Query{String: "SELECT 1"})
	got := f.ask(t, 1, &pgproto3.Parse{Query: "DELETE FROM many WHERE k <= $1"},
		&pgproto3.Bind{ParameterFormatCodes: []int16{1}, Parameters: [][]byte{{0, 0, 0x27, 0x10}}},
		&pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{}, &pgproto3.Sync{})
	if want := "ParseComplete BindComplete NoData DELETE 10000 I"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := f.ask(t, 1, &pgproto3.Query{String: "DELETE FROM many WHERE k > 10000"}); got != "DELETE 4100 I" {
		t.Error(got)
	}
}

// Closes between the Execute and the Sync, and a Flush whose Sync has arrived, do not keep a DELETE from its batches.
// Behind an error the statement that was closed is there.
func TestClosesOfDeleteInBatches(t *testing.T) {
	t.Parallel()
	pg := limited(t, 3000, "")
	s := startSluice(t, pg, inBatches, withReplay)
	f := framesOf(t, s)
	const fill = "INSERT INTO many SELECT i, 'x', i % 2 FROM generate_series(1, 14100) i ON CONFLICT DO NOTHING"
	portal, statement := &pgproto3.Close{ObjectType: 'P'}, &pgproto3.Close{ObjectType: 'S', Name: "d"}
	for _, behind := range [][]pgproto3.FrontendMessage{{portal}, {statement}, {portal, statement}, {statement, portal, &pgproto3.Close{ObjectType: 'S', Name: "none"}}, {&pgproto3.Flush{}}, {portal, &pgproto3.Flush{}}} {
		pg.SQL(t, "postgres", fill)
		f.ask(t, 1, &pgproto3.Close{ObjectType: 'S', Name: "d"}, &pgproto3.Parse{Name: "d", Query: "DELETE FROM many WHERE k > $1"}, &pgproto3.Sync{})
		want, closed := "BindComplete DELETE 14100", false
		for _, m := range behind {
			if _, flush := m.(*pgproto3.Flush); !flush {
				want += " CloseComplete"
			}
			closed = closed || m == pgproto3.FrontendMessage(statement)
		}
		frames := append([]pgproto3.FrontendMessage{&pgproto3.Bind{PreparedStatement: "d", Parameters: [][]byte{[]byte("0")}}, &pgproto3.Execute{}}, behind...)
		if got := f.ask(t, 1, append(frames, &pgproto3.Sync{})...); got != want+" I" {
			t.Errorf("%T: got %s, want %s I", behind, got, want)
		}
		got := f.ask(t, 1, &pgproto3.Bind{PreparedStatement: "d", Parameters: [][]byte{[]byte("0")}}, &pgproto3.Sync{})
		if strings.Contains(got, "26000") != closed {
			t.Errorf("%T: closed %v, and then %s", behind, closed, got)
		}
	}
	// The second batch fails.
	pg.SQL(t, "postgres", fill+"; CREATE TABLE refers (k int, g int, FOREIGN KEY (k, g) REFERENCES many DEFERRABLE INITIALLY DEFERRED); INSERT INTO refers VALUES (14000, 0)")
	f.ask(t, 1, &pgproto3.Parse{Name: "d", Query: "DELETE FROM many WHERE k > $1"}, &pgproto3.Sync{})
	f.send(t, &pgproto3.Bind{PreparedStatement: "d", Parameters: [][]byte{[]byte("0")}}, &pgproto3.Execute{}, portal, statement, &pgproto3.Sync{})
	if told := f.failure(t); told.Code != "23503" {
		t.Errorf("%+v", told)
	}
	f.ready(t)
	if got := f.ask(t, 1, &pgproto3.Bind{PreparedStatement: "d", Parameters: [][]byte{[]byte("0")}}, &pgproto3.Sync{}); got != "BindComplete I" {
		t.Error(got)
	}
}

// TRUNCATE of a table that an open cursor or portal reads is refused as in PostgreSQL.
func TestTruncateInUse(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	const tables = "CREATE TABLE used (k int PRIMARY KEY); CREATE TABLE other (k int PRIMARY KEY); CREATE VIEW seen AS SELECT k FROM used"
	pg.SQL(t, "postgres", "CREATE DATABASE plain")
	pg.SQL(t, "postgres", tables)
	pg.SQL(t, "plain", tables)
	s := startSluice(t, pg, asDSQL, mapping, func(s *setup) {
		s.rules.Truncate, s.rules.Dialect, s.rules.Cursors = rewrite.TruncateDelete, true, true
	})
	text := func(sql string) string { return "Q " + sql + "\n< Z\n" }
	bound := func(sql, portal string, rest string) string {
		return "P - | " + sql + "\nB " + portal + " | -\n" + rest
	}
	const declare = "DECLARE c NO SCROLL CURSOR FOR SELECT k FROM "
	for name, script := range map[string]string{
		"cursor":             text(declare+"used") + text("TRUNCATE used"),
		"read cursor":        text(declare+"used") + text("FETCH ALL FROM c") + text("TRUNCATE used"),
		"closed cursor":      text(declare+"used") + text("CLOSE c") + text("TRUNCATE used"),
		"held cursor":        text("DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT k FROM used") + text("TRUNCATE used"),
		"stored cursor":      text("DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT k FROM used") + text("COMMIT") + text("TRUNCATE used"),
		"other table":        text(declare+"other") + text("TRUNCATE used"),
		"no table":           text("DECLARE c NO SCROLL CURSOR FOR SELECT 1") + text("TRUNCATE used"),
		"several tables":     text(declare+"other") + text("TRUNCATE used, other"),
		"in a string":        text(declare+"used") + text("TRUNCATE public.used; SELECT 2"),
		"behind its end":     text(declare+"used") + text("COMMIT; TRUNCATE used"),
		"failed block":       text(declare+"used") + text("SELECT 1/0") + text("TRUNCATE used"),
		"suspended portal":   bound("SELECT k FROM used", "c1", "E c1 1\nS\n< Z\n") + bound("TRUNCATE used", "-", "E -\nS\n< Z\n"),
		"finished portal":    bound("SELECT k FROM used", "c1", "E c1\nS\n< Z\n") + text("TRUNCATE used"),
		"bound portal":       bound("SELECT k FROM used FOR UPDATE", "c1", "S\n< Z\n") + text("TRUNCATE used"),
		"closed portal":      bound("SELECT k FROM used", "c1", "E c1 1\nC P c1\nS\n< Z\n") + text("TRUNCATE used"),
		"unnamed portal":     bound("SELECT k FROM used", "-", "E - 1\nS\n< Z\n") + text("TRUNCATE used"),
		"beside the unnamed": bound("SELECT k FROM used", "-", "E - 1\n") + bound("TRUNCATE used", "t", "E t\nS\n< Z\n"),
		"replaced portal":    bound("SELECT k FROM used", "-", "E - 1\n") + bound("TRUNCATE used", "-", "E -\nS\n< Z\n"),
		"RETURNING":          bound("INSERT INTO used VALUES (901), (902) RETURNING k", "c1", "E c1 1\nS\n< Z\n") + text("TRUNCATE used"),
	} {
		for _, begin := range []string{"BEGIN", "BEGIN READ ONLY", "SELECT 1"} {
			if begin != "BEGIN" && (strings.Contains(script, "DECLARE") || name == "bound portal") {
				continue
			}
			script := text(begin) + script + text("ROLLBACK")
			var got [2]string
			for i, database := range []string{"postgres", "plain"} {
				pg.SQL(t, database, "TRUNCATE used, other; INSERT INTO used SELECT generate_series(1, 5); INSERT INTO other VALUES (1)")
				addr := s.addr
				if i > 0 {
					addr = pg.addr
				}
				c, _ := startRaw(t, addr, map[string]string{"database": database})
				got[i] = c.say(t, script)
			}
			if got[0] != got[1] {
				t.Errorf("%s behind %s:\n%s", name, begin, firstDifference(got[0], got[1]))
			}
		}
	}
	c := dialRaw(t, s.addr)
	got := c.say(t, text("BEGIN")+text("DECLARE c NO SCROLL CURSOR FOR SELECT k FROM seen")+text("TRUNCATE used"))
	if !strings.Contains(got, "C=55006") || !strings.Contains(got, "Close the cursor or portal first") {
		t.Errorf("beside a view: %s", got)
	}
}

// Where something else is in the transaction, or the statement or the table is not one for
// batches, the client is told the server's error, with what helps.
func TestDeleteNotInBatches(t *testing.T) {
	t.Parallel()
	pg := limited(t, 3000, "")
	pg.SQL(t, "postgres", `CREATE TABLE many_keyless AS SELECT k FROM many; CREATE TABLE other AS SELECT k FROM many;
		CREATE TRIGGER limits AFTER DELETE ON many_keyless REFERENCING OLD TABLE AS gone EXECUTE FUNCTION limits();
		CREATE TRIGGER limits AFTER DELETE ON other REFERENCING OLD TABLE AS gone EXECUTE FUNCTION limits()`)
	s := startSluice(t, pg, inBatches, withReplay)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec} {
		c := connectTo(t, s, "postgres", mode)
		refused := func(sql, hint string) {
			t.Helper()
			_, err := c.Exec(t.Context(), sql)
			failsAs(t, sql, err, "54000", "transaction row limit exceeded", hint)
		}
		refused("DELETE FROM other WHERE k > 0", rewrite.ChunkedUnlistedHint)
		refused("DELETE FROM many", rewrite.ChunkedOtherHint)
		refused("DELETE FROM many WHERE k > 0 RETURNING k", rewrite.ChunkedOtherHint)
		refused("DELETE FROM many_keyless WHERE k > 0", "has no primary key")
		run(t, c, "BEGIN")
		refused("DELETE FROM many WHERE k > 0", rewrite.ChunkedAloneHint)
		run(t, c, "ROLLBACK")
		if mode == pgx.QueryExecModeSimpleProtocol {
			refused("SELECT 1; DELETE FROM many WHERE k > 0", rewrite.ChunkedSeveralHint)
		}
	}
	f := framesOf(t, s)
	run := func(sql string) []pgproto3.FrontendMessage {
		return []pgproto3.FrontendMessage{&pgproto3.Parse{Query: sql}, &pgproto3.Bind{}, &pgproto3.Execute{}}
	}
	const many = "DELETE FROM many WHERE k > 0"
	for _, pipeline := range [][]pgproto3.FrontendMessage{
		append(append(run("SELECT 1"), run(many)...), &pgproto3.Sync{}),
		append(append(run("SELECT set_config('a.b', 'c', false)"), run(many)...), &pgproto3.Sync{}),
		append(append(run(many), run("SELECT 1")...), &pgproto3.Sync{}),
		append(run(many), &pgproto3.Flush{}),
	} {
		f.send(t, pipeline...)
		if told := f.failure(t); told.Code != "54000" || told.Hint != rewrite.ChunkedAloneHint {
			t.Errorf("%+v", told)
		}
		if _, open := pipeline[len(pipeline)-1].(*pgproto3.Flush); open {
			f.send(t, &pgproto3.Sync{})
		}
		f.ready(t)
	}
	// What the clock tells would be another time in each batch.
	f.send(t, &pgproto3.Parse{Query: "DELETE FROM many WHERE v <> $1"}, &pgproto3.Bind{Parameters: [][]byte{[]byte("now")}}, &pgproto3.Execute{}, &pgproto3.Sync{})
	if told := f.failure(t); told.Code != "54000" || told.Hint != rewrite.ChunkedOtherHint {
		t.Errorf("%+v", told)
	}
	if n := left(t, pg, "true"); n != "14100" {
		t.Errorf("%s rows are left", n)
	}
}

// A batch that meets a conflict is run again alone, and the statement itself before it is
// refused for its rows; one that meets no end of them fails, and
// the error says what is deleted.
func TestConflictInBatch(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]string{"calls = 0": "", "calls = 2": "", "calls > 2": "40001"} {
		pg := limited(t, 3000, "IF "+at+" THEN RAISE EXCEPTION 'lost (OC000)' USING ERRCODE = '40001'; END IF;")
		s := startSluice(t, pg, inBatches, withReplay)
		c := connectTo(t, s, "postgres", pgx.QueryExecModeExec)
		tag, err := c.Exec(t.Context(), "DELETE FROM many WHERE k > $1", 100)
		if want == "" {
			if err != nil || tag.String() != "DELETE 14000" || left(t, pg, "k > 100") != "0" {
				t.Errorf("%q (%v)", tag, err)
			}
			continue
		}
		failsAs(t, at, err, want, "5800 rows are deleted, and stay so.")
		if n := left(t, pg, "k > 100"); n != "8200" {
			t.Errorf("%s rows are left", n)
		}
	}
}

// An error of a batch has no position, and says what is deleted; so has a cancel, which ends
// the batches behind the one that runs.
func TestBatchesEnd(t *testing.T) {
	t.Parallel()
	pg := limited(t, 3000, "IF calls = 2 THEN RAISE EXCEPTION 'enough'; ELSIF calls = 5 THEN PERFORM pg_sleep(0.5); END IF;")
	s := startSluice(t, pg, inBatches, withReplay)
	c := connectTo(t, s, "postgres", pgx.QueryExecModeSimpleProtocol)
	_, err := c.Exec(t.Context(), "DELETE FROM many WHERE k > 0")
	failsAs(t, "an error", err, "P0001", "enough", "2900 rows are deleted, and stay so.")
	f := framesOf(t, s)
	f.send(t, &pgproto3.Query{String: "DELETE FROM many WHERE k > 0"})
	awaitSleep(t, pg)
	f.cancel(t, s)
	if told := f.failure(t); told.Code != "57014" || told.Detail != "5800 rows are deleted, and stay so." {
		t.Errorf("%+v", told)
	}
	f.ready(t)
	if n := left(t, pg, "true"); n != "5400" {
		t.Errorf("%s rows are left", n)
	}
	if got := f.ask(t, 1, &pgproto3.Query{String: "DELETE FROM many WHERE k > 0"}); got != "DELETE 5400 I" {
		t.Error(got)
	}
}

// Batches end behind the one that runs when their client is gone, whether its socket was reset, since it had not
// read all, or closed.
func TestClientOfBatchesLeaves(t *testing.T) {
	t.Parallel()
	for _, reads := range []bool{false, true} {
		pg := limited(t, 3000, "IF calls = 2 THEN PERFORM pg_sleep(1); END IF;")
		s := startSluice(t, pg, inBatches)
		f := framesOf(t, s)
		f.send(t, &pgproto3.Query{String: "DELETE FROM many WHERE k > 0"})
		awaitSleep(t, pg)
		if reads {
			f.conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			io.Copy(io.Discard, f.conn)
		}
		f.conn.Close()
		waitFor(t, "the session to end", func() bool { return s.Stats().Clients == 0 })
		for pg.SQL(t, "postgres", sleeps) != "0" { // the batch that the client left behind
			time.Sleep(5 * time.Millisecond)
		}
		if n := left(t, pg, "true"); n != "8300" {
			t.Errorf("reads %v: %s rows are left", reads, n)
		}
	}
}

// The loss of the backend in a batch is an unknown outcome, and the client stays. In front of
// the first batch nothing is deleted, and the client is told the server's error.
func TestBackendOfBatchesLost(t *testing.T) {
	t.Parallel()
	for _, at := range []struct {
		word, code, detail string
		after              bool
		left               string
	}{
		{"pg_constraint", "54000", "", false, "14100"},
		{"LIMIT 2900", "08007", "0 rows are deleted, and stay so.", false, "14100"},
		{"LIMIT 2900", "08007", "0 rows are deleted, and stay so.", true, "11200"},
	} {
		pg := limited(t, 3000, "")
		cut := &cutter{}
		s := startSluice(t, pg, inBatches, withReplay, cut.option)
		f := framesOf(t, s)
		cut.arm(at.word, at.after)
		f.send(t, &pgproto3.Query{String: "DELETE FROM many WHERE k > 0"})
		if told := f.failure(t); told.Code != at.code || told.Detail != at.detail {
			t.Errorf("%+v: %+v", at, told)
		}
		f.ready(t)
		if n := left(t, pg, "true"); n != at.left {
			t.Errorf("%+v: %s rows are left", at, n)
		}
		if got := f.ask(t, 1, &pgproto3.Query{String: "DELETE FROM many WHERE k = 14100"}); got != "DELETE 1 I" {
			t.Error(got)
		}
	}
}

// frames is a client that writes and reads frames.
type frames struct {
	*pgproto3.Frontend
	conn net.Conn
	key  pgproto3.BackendKeyData
}

func framesOf(t *testing.T, s *sluice) *frames {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	f := &frames{Frontend: pgproto3.NewFrontend(conn, conn), conn: conn}
	f.send(t, &pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "postgres", "database": "postgres"}})
	f.ready(t)
	return f
}

func (f *frames) send(t *testing.T, messages ...pgproto3.FrontendMessage) {
	t.Helper()
	for _, m := range messages {
		f.Send(m)
	}
	if err := f.Flush(); err != nil {
		t.Fatal(err)
	}
}

func (f *frames) next(t *testing.T) pgproto3.BackendMessage {
	t.Helper()
	m, err := f.Receive()
	if err != nil {
		t.Fatal(err)
	}
	if key, ok := m.(*pgproto3.BackendKeyData); ok {
		f.key = *key
	}
	return m
}

// ask sends and returns what is answered up to that many ReadyForQuery.
func (f *frames) ask(t *testing.T, turns int, messages ...pgproto3.FrontendMessage) string {
	t.Helper()
	f.send(t, messages...)
	var got []string
	for turns > 0 {
		switch m := f.next(t).(type) {
		case *pgproto3.CommandComplete:
			got = append(got, string(m.CommandTag))
		case *pgproto3.ErrorResponse:
			got = append(got, m.Code, m.Message)
		case *pgproto3.ReadyForQuery:
			got = append(got, string(m.TxStatus))
			turns--
		default:
			got = append(got, strings.TrimPrefix(fmt.Sprintf("%T", m), "*pgproto3."))
		}
	}
	return strings.Join(got, " ")
}

// failure is the next error.
func (f *frames) failure(t *testing.T) pgproto3.ErrorResponse {
	t.Helper()
	for {
		switch m := f.next(t).(type) {
		case *pgproto3.ErrorResponse:
			return *m
		case *pgproto3.ReadyForQuery:
			t.Fatal("there was no error")
		}
	}
}

func (f *frames) ready(t *testing.T) {
	t.Helper()
	for {
		if _, ok := f.next(t).(*pgproto3.ReadyForQuery); ok {
			return
		}
	}
}

func (f *frames) cancel(t *testing.T, s *sluice) {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	request, err := (&pgproto3.CancelRequest{ProcessID: f.key.ProcessID, SecretKey: f.key.SecretKey}).Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	conn.Write(request)
	conn.Read(make([]byte, 1))
}

const sleeps = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"

// awaitSleep waits until a statement of the server sleeps.
func awaitSleep(t *testing.T, pg postgres) {
	t.Helper()
	for pg.SQL(t, "postgres", sleeps) == "0" {
		time.Sleep(5 * time.Millisecond)
	}
}
