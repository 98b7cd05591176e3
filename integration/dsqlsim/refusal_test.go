package dsqlsim_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// failureOf are features of every family with their recorded answers; the whole
// table is package dialect's.
var failureOf = []struct{ sql, code, message string }{
	{"SAVEPOINT s", "0A000", "unsupported transaction statement: SAVEPOINT"},
	{"ROLLBACK TO SAVEPOINT s", "0A000", "unsupported transaction statement: ROLLBACK TO"},
	{"SET TRANSACTION READ ONLY", "0A000", `setting configuration parameter "TRANSACTION" not supported`},
	{"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "0A000", "Unsupported isolation level: SERIALIZABLE"},
	{"SELECT * FROM t FOR UPDATE OF nosuch", "42P01", `relation "nosuch" in FOR UPDATE clause not found in FROM clause`},
	{"SELECT * FROM t AS l WHERE EXISTS (SELECT 1 FROM t FOR UPDATE OF l)", "42P01", `relation "l" in FOR UPDATE clause not found in FROM clause`},
	{"SELECT * FROM t AS l FOR KEY SHARE OF t", "42P01", `relation "t" in FOR KEY SHARE clause not found in FROM clause`},
	{"SET statement_timeout = 1", "0A000", `setting configuration parameter "statement_timeout" not supported`},
	{"SELECT set_config('a.b', 'c', false)", "0A000", `setting configuration parameter "a.b" not supported`},
	{"LISTEN c", "0A000", "unsupported statement: Listen"},
	{"NOTIFY c", "0A000", "unsupported statement: Notify"},
	{"UNLISTEN c", "0A000", "unsupported statement: Unlisten"},
	{"TRUNCATE t", "0A000", "unsupported statement: Truncate"},
	{"CREATE TEMP TABLE x (id int)", "0A000", "TEMPORARY or TEMP table not supported for CREATE TABLE"},
	{"COPY t FROM STDIN", "0A000", "unsupported statement: Copy"},
	{"COPY t TO STDOUT", "0A000", "unsupported statement: Copy"},
	{"DECLARE c CURSOR FOR SELECT 1", "0A000", "unsupported statement: DeclareCursor"},
	{"FETCH ALL FROM c", "0A000", "unsupported statement: Fetch"},
	{"MOVE c", "0A000", "unsupported statement: Fetch"},
	{"CLOSE c", "0A000", "unsupported statement: ClosePortal"},
	{"LOCK TABLE t", "0A000", "unsupported statement: Lock"},
	{"SELECT pg_advisory_lock(1)", "0A000", "function pg_advisory_lock not supported"},
	{"SELECT * FROM t FOR SHARE", "0A000", "locking clauses other than FOR UPDATE/FOR KEY SHARE are not supported"},
	{"VACUUM t", "0A000", "unsupported VACUUM statement"},
	{"DO $$ BEGIN NULL; END $$", "0A000", "unsupported statement: Do"},
	{"DISCARD ALL", "0A000", "unsupported statement: Discard"},
	{"CREATE DATABASE d", "0A000", "unsupported statement: Createdb"},
	{"CREATE EXTENSION pgcrypto", "0A000", "unsupported statement: CreateExtension"},
	{"CREATE INDEX i ON t (id)", "0A000", "unsupported mode. please use CREATE INDEX ASYNC."},
	{"CREATE TABLE x (id serial)", "42704", `type "serial" does not exist`},
}

// protocols send one statement each in their own way, ending in one ReadyForQuery.
var protocols = map[string]func(sql string) []pgproto3.FrontendMessage{
	"simple": func(sql string) []pgproto3.FrontendMessage {
		return []pgproto3.FrontendMessage{&pgproto3.Query{String: sql}}
	},
	"extended": func(sql string) []pgproto3.FrontendMessage { return group(sql) },
	"named": func(sql string) []pgproto3.FrontendMessage {
		return []pgproto3.FrontendMessage{
			&pgproto3.Parse{Name: "s", Query: sql}, &pgproto3.Describe{ObjectType: 'S', Name: "s"}, &pgproto3.Flush{},
			&pgproto3.Bind{PreparedStatement: "s"}, &pgproto3.Execute{}, &pgproto3.Close{ObjectType: 'S', Name: "s"}, &pgproto3.Sync{},
		}
	},
}

// group is a Sync group of one statement each.
func group(statements ...string) []pgproto3.FrontendMessage {
	var messages []pgproto3.FrontendMessage
	for _, sql := range statements {
		messages = append(messages, &pgproto3.Parse{Query: sql}, &pgproto3.Bind{}, &pgproto3.Execute{})
	}
	return append(messages, &pgproto3.Sync{})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	c.direct(t, "CREATE TABLE t (id int PRIMARY KEY)")
	for protocol, send := range protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			w := c.raw(t)
			ask := func(sql string) (code, message, status string) {
				t.Helper()
				for _, m := range send(sql) {
					w.Send(m)
				}
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
				for {
					m, err := w.Receive()
					if err != nil {
						t.Fatalf("%s: %v", sql, err)
					}
					switch m := m.(type) {
					case *pgproto3.ErrorResponse:
						if code != "" || m.Severity != "ERROR" {
							t.Errorf("%s: one more error, or %s", sql, m.Severity)
						}
						code, message = m.Code, m.Message
					case *pgproto3.ReadyForQuery:
						return code, message, string(rune(m.TxStatus))
					}
				}
			}
			want := func(sql, wantCode, wantMessage, wantStatus string) {
				t.Helper()
				code, message, status := ask(sql)
				if code != wantCode || wantMessage != "" && message != wantMessage || status != wantStatus {
					t.Errorf("%s:\n got %s %q, then %s\nwant %s %q, then %s", sql, code, message, status, wantCode, wantMessage, wantStatus)
				}
			}
			for _, r := range failureOf {
				want(r.sql, r.code, r.message, "I")
				want("BEGIN", "", "", "T")
				want("SELECT 1", "", "", "T")
				want(r.sql, r.code, r.message, "E")
				want(r.sql, "25P02", "", "E")
				want("SELECT 1", "25P02", "", "E")
				want("COMMIT", "", "", "I") // answers ROLLBACK
				want("SELECT 1", "", "", "I")
			}
		})
	}
}

func TestRefusalRollsBack(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	c.direct(t, "CREATE TABLE t (id int PRIMARY KEY)")
	w := c.raw(t)
	for _, test := range []struct {
		name string
		send []pgproto3.FrontendMessage
		want string
	}{
		{"string", []pgproto3.FrontendMessage{&pgproto3.Query{String: "INSERT INTO t VALUES (1); TRUNCATE t; INSERT INTO t VALUES (2)"}},
			"INSERT 0 1,E 0A000,Z I"},
		{"group", group("INSERT INTO t VALUES (1)", "TRUNCATE t", "INSERT INTO t VALUES (2)"),
			"1,2,INSERT 0 1,E 0A000,Z I"},
		{"block", append(group("BEGIN", "INSERT INTO t VALUES (1)", "SAVEPOINT s", "COMMIT"), &pgproto3.Query{String: "COMMIT"}),
			"1,2,BEGIN,1,2,INSERT 0 1,E 0A000,Z E,ROLLBACK,Z I"},
		{"block in a string", []pgproto3.FrontendMessage{&pgproto3.Query{String: "BEGIN; INSERT INTO t VALUES (1); LISTEN c; COMMIT"}, &pgproto3.Query{String: "ROLLBACK"}},
			"BEGIN,INSERT 0 1,E 0A000,Z E,ROLLBACK,Z I"},
	} {
		ready := strings.Count(test.want, "Z ")
		if got := strings.Join(w.ask(ready, test.send...), ","); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
		}
		if n := c.direct(t, "SELECT count(*) FROM t"); n != "0" {
			t.Errorf("%s: %s rows are left", test.name, n)
		}
	}
}

func TestTransactionRules(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	w := c.raw(t)
	for _, test := range []struct {
		name string
		send []pgproto3.FrontendMessage
		want string
	}{
		{"two DDL in a block", []pgproto3.FrontendMessage{&pgproto3.Query{String: "BEGIN"}, &pgproto3.Query{String: "CREATE TABLE a (id int)"}, &pgproto3.Query{String: "CREATE TABLE b (id int)"}, &pgproto3.Query{String: "ROLLBACK"}},
			"BEGIN,Z T,CREATE TABLE,Z T,E 0A000,Z E,ROLLBACK,Z I"},
		{"two DDL in a string", []pgproto3.FrontendMessage{&pgproto3.Query{String: "CREATE TABLE a (id int); CREATE TABLE b (id int)"}},
			"CREATE TABLE,E 0A000,Z I"},
		{"two DDL in a group", group("CREATE TABLE a (id int)", "CREATE TABLE b (id int)"),
			"1,2,CREATE TABLE,1,2,E 0A000,Z I"},
		{"DDL and DML in a group's block", append(group("BEGIN", "CREATE TABLE a (id int)", "INSERT INTO a VALUES (1)"), &pgproto3.Query{String: "ROLLBACK"}),
			"1,2,BEGIN,1,2,CREATE TABLE,1,2,E 0A000,Z E,ROLLBACK,Z I"},
		{"one after the other", append(group("CREATE TABLE a (id int)"), group("INSERT INTO a VALUES (1)")...),
			"1,2,CREATE TABLE,Z I,1,2,INSERT 0 1,Z I"},
	} {
		ready := strings.Count(test.want, "Z ")
		if got := strings.Join(w.ask(ready, test.send...), ","); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
		}
	}
}

func TestIndexAsync(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	c.direct(t, "CREATE TABLE t (id int PRIMARY KEY, a int)")
	w := c.raw(t)
	check := func(name string, got []string, shape string) {
		t.Helper()
		for i, answer := range got {
			id, row := strings.CutPrefix(answer, "D ")
			if row {
				got[i] = "D"
				if len(id) != 26 || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") != "" {
					t.Errorf("%s: job_id %q", name, id)
				}
			}
		}
		if joined := strings.Join(got, ","); joined != shape {
			t.Errorf("%s:\n got %s\nwant %s", name, joined, shape)
		}
	}
	check("simple", w.ask(1, &pgproto3.Query{String: "CREATE INDEX ASYNC i1 ON t (a)"}), "T job_id,D,CREATE INDEX,Z I")
	check("extended", w.ask(1,
		&pgproto3.Parse{Name: "s", Query: "CREATE UNIQUE INDEX ASYNC IF NOT EXISTS i2 ON t (a)"}, &pgproto3.Describe{ObjectType: 'S', Name: "s"},
		&pgproto3.Bind{PreparedStatement: "s"}, &pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{}, &pgproto3.Sync{}),
		"1,t,T job_id,2,T job_id,D,CREATE INDEX,Z I")
	check("in a string", w.ask(1, &pgproto3.Query{String: "BEGIN; CREATE INDEX ASYNC i3 ON t (a); COMMIT"}),
		"BEGIN,T job_id,D,CREATE INDEX,COMMIT,Z I")
	check("qualified", w.ask(1, &pgproto3.Query{String: "CREATE INDEX ASYNC public.i4 ON t (a)"}), "E 42601,Z I")
	got := strings.Fields(c.direct(t, "SELECT indexname FROM pg_indexes WHERE tablename = 't' ORDER BY 1"))
	if !slices.Equal(got, []string{"i1", "i2", "i3", "t_pkey"}) {
		t.Errorf("indexes %q", got)
	}
}

func TestFailedParseLeavesTheOldStatement(t *testing.T) {
	t.Parallel()
	w := start(t, nil).raw(t)
	w.ask(1, &pgproto3.Parse{Name: "s", Query: "SHOW server_version"}, &pgproto3.Sync{})
	for _, sql := range []string{"SELECT 1", "SELECT nonsense", "SAVEPOINT s"} {
		w.ask(1, &pgproto3.Parse{Name: "s", Query: sql}, &pgproto3.Close{ObjectType: 'S', Name: "s"}, &pgproto3.Sync{})
		got := w.ask(1, &pgproto3.Bind{PreparedStatement: "s"}, &pgproto3.Execute{}, &pgproto3.Sync{})
		// The tag shows that we too still hold it for the SHOW that it is.
		if joined := strings.Join(got, ","); joined != "2,D 16.15,SHOW,Z I" {
			t.Errorf("after %s: %s", sql, joined)
		}
	}
}
