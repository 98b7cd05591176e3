package proxy_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// CREATE DATABASE and DROP DATABASE of a name that stands for a schema make and drop it, and
// fail where PostgreSQL's fail.
func TestDatabasesMadeAndDropped(t *testing.T) {
	t.Parallel()
	for kind, opts := range kinds {
		t.Run(kind, func(t *testing.T) {
			pg := newPostgres(t)
			s := startSluice(t, pg, append(opts, asSchemas, maxOpen(2))...)
			for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement} {
				c := connectTo(t, s, "plain", mode)
				exec := func(sql, tag string) {
					t.Helper()
					got, err := c.Exec(t.Context(), sql)
					if err != nil || got.String() != tag {
						t.Errorf("%s, %s: %q (%v)", mode, sql, got, err)
					}
				}
				fails := func(sql, code string, holds ...string) {
					t.Helper()
					_, err := c.Exec(t.Context(), sql)
					failsAs(t, mode.String()+", "+sql, err, code, holds...)
				}
				_, err := tryConnect(t, s, "app_a", mode)
				failsAs(t, "connecting", err, "3D000", `database "app_a" does not exist`)
				fails("DROP DATABASE app_a", "3D000", `database "app_a" does not exist`)
				exec("DROP DATABASE IF EXISTS app_a", "DROP DATABASE")
				exec(`CREATE DATABASE "app_a" TEMPLATE template0 ENCODING 'UTF8'`, "CREATE DATABASE")
				fails("CREATE DATABASE app_a", "42P04", `database "app_a" already exists`)
				fails("CREATE DATABASE app_b OWNER postgres", "0A000", `"owner"`)
				in := connectTo(t, s, "app_a", mode)
				run(t, in, "CREATE TABLE t (k bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text)", "CREATE TABLE u (k int)",
					"CREATE VIEW v AS SELECT * FROM t", "CREATE VIEW a AS SELECT * FROM v", "CREATE SEQUENCE q CACHE 1", "CREATE DOMAIN d AS int")
				_, err = in.Exec(t.Context(), "DROP DATABASE app_a")
				failsAs(t, "its own", err, "55006", "cannot drop the currently open database")
				closed := make(chan error, 1)
				time.AfterFunc(300*time.Millisecond, func() { closed <- in.Close(context.Background()) })
				exec("DROP DATABASE app_a", "DROP DATABASE") // waits for the session
				if err := <-closed; err != nil {
					t.Error(err)
				}
				if left := pg.SQL(t, "postgres", "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'app%'"); left != "0" {
					t.Errorf("%s: %s schemas stay", mode, left)
				}
				run(t, c, "BEGIN")
				fails("CREATE DATABASE app_a", "25001", "CREATE DATABASE cannot run inside a transaction block")
				fails("CREATE DATABASE app_a", "25P02")
				run(t, c, "ROLLBACK")
				run(t, c, "BEGIN")
				isText(t, c, "SELECT 'held'", "held")
				fails("DROP DATABASE IF EXISTS app_a", "25001", "DROP DATABASE cannot run inside a transaction block")
				run(t, c, "ROLLBACK")
				if mode == pgx.QueryExecModeSimpleProtocol {
					fails("CREATE DATABASE app_a; SELECT 1", "25001")
					fails("SELECT 1; DROP DATABASE app_a", "25001")
				}
				isText(t, c, "SELECT 'well'", "well")
			}
		})
	}
}

// A session that stays in the database keeps it; FORCE does not look.
func TestDropDatabaseInUse(t *testing.T) {
	t.Parallel()
	s := startSluice(t, newPostgres(t), asSchemas)
	c := connectTo(t, s, "postgres", pgx.QueryExecModeExec)
	run(t, c, "CREATE DATABASE app_a")
	in := connectTo(t, s, "app_a", pgx.QueryExecModeExec)
	run(t, in, "CREATE TABLE kept (k int)")
	_, err := c.Exec(t.Context(), "DROP DATABASE app_a")
	failsAs(t, "in use", err, "55006", "is being accessed by other users", "There is 1 other session using the database.")
	isText(t, in, "SELECT count(*)::text FROM kept", "0")
	run(t, c, "DROP DATABASE app_a WITH (FORCE)")
	_, err = in.Exec(t.Context(), "SELECT * FROM kept")
	failsAs(t, "behind FORCE", err, "42P01")
}

// A session that keeps its backend makes and drops databases on that one, and a transaction in
// the database may end while it is waited for, although there is one backend.
func TestDatabaseStatementsOfPinnedSessions(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	for name, opts := range map[string][]option{"pairing session": {asDSQL, sessionPairing, maxOpen(2)}, "pinned": {asDSQL, maxOpen(2)}} {
		s := startSluice(t, pg, append(opts, asSchemas)...)
		c := connectTo(t, s, "plain", pgx.QueryExecModeSimpleProtocol)
		if name == "pinned" {
			run(t, c, "PREPARE kept AS SELECT 'kept'")
		}
		isText(t, c, "SELECT 'mine'", "mine")
		run(t, c, "CREATE DATABASE app_a")
		in := connectTo(t, s, "app_a", pgx.QueryExecModeSimpleProtocol)
		run(t, in, "CREATE TABLE t (k int)", "SET search_path TO public", "RESET ALL")
		isText(t, in, "SHOW search_path", "app_a")
		in.Close(t.Context())
		run(t, c, "DROP DATABASE app_a")
		if name == "pinned" {
			isText(t, c, "EXECUTE kept", "kept")
		}
	}
	s := startSluice(t, pg, asSchemas, asDSQL, maxOpen(1))
	c := connectTo(t, s, "plain", pgx.QueryExecModeExec)
	run(t, c, "CREATE DATABASE app_a")
	in := connectTo(t, s, "app_a", pgx.QueryExecModeExec)
	ended := make(chan error, 1)
	run(t, in, "BEGIN")
	time.AfterFunc(200*time.Millisecond, func() {
		_, err := in.Exec(context.Background(), "CREATE TABLE t (k int)")
		ended <- errors.Join(err, in.Close(context.Background()))
	})
	run(t, c, "DROP DATABASE app_a")
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What cannot be dropped is told, what could be dropped is gone, and the statement can be sent
// again.
func TestDropDatabaseInPart(t *testing.T) {
	t.Parallel()
	s := startSluice(t, newPostgres(t), asSchemas, asDSQL)
	c := connectTo(t, s, "postgres", pgx.QueryExecModeExec)
	run(t, c, "CREATE DATABASE app_a", "CREATE TABLE app_a.used (k int)", "CREATE TABLE app_a.free (k int)",
		"CREATE VIEW public.uses AS SELECT * FROM app_a.used")
	_, err := c.Exec(t.Context(), "DROP DATABASE app_a")
	failsAs(t, "in part", err, "2BP01", "1 objects of the database are dropped", `table "app_a"."used" stay`, "Drop in the schema")
	isText(t, c, "SELECT string_agg(tablename, ',') FROM pg_tables WHERE schemaname = 'app_a'", "used")
	run(t, c, "DROP VIEW public.uses")
	run(t, c, "CREATE FUNCTION app_a.f(int, \"odd name\" text DEFAULT 'x') RETURNS int LANGUAGE sql AS 'SELECT 1'",
		"CREATE TABLE app_a.a (k int PRIMARY KEY, b int)", "CREATE TABLE app_a.b (k int PRIMARY KEY, a int REFERENCES app_a.a)",
		"ALTER TABLE app_a.a ADD CONSTRAINT \"in a circle\" FOREIGN KEY (b) REFERENCES app_a.b",
		"CREATE TABLE app_a.early (k int CHECK (app_a.f(k) > 0))", "DROP DATABASE app_a")
	_, err = tryConnect(t, s, "app_a", pgx.QueryExecModeExec)
	failsAs(t, "dropped", err, "3D000")
}

// A backend that is lost over such a statement leaves its outcome unknown, what a cancel or
// timeout ends is told with how far it came, and the client's session goes on.
func TestDatabaseStatementsInterrupted(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	var cut cutter
	s := startSluice(t, pg, asSchemas, asDSQL, withReplay, cut.option, maxOpen(2))
	c := connectTo(t, s, "plain", pgx.QueryExecModeExec)
	for _, after := range []bool{false, true} {
		cut.arm("CREATE SCHEMA", after)
		_, err := c.Exec(t.Context(), "CREATE DATABASE app_a")
		failsAs(t, "lost", err, "08007", "outcome is unknown")
		made := pg.SQL(t, "postgres", "SELECT count(*) FROM pg_namespace WHERE nspname = 'app_a'")
		if want := map[bool]string{true: "1", false: "0"}[after]; made != want {
			t.Errorf("%s schemas, want %s", made, want)
		}
	}
	run(t, c, "CREATE TABLE app_a.a (k int)", "CREATE TABLE app_a.b (k int)", "CREATE TABLE app_a.c (k int)")
	cut.arm(`"app_a"."b"`, false)
	_, err := c.Exec(t.Context(), "DROP DATABASE app_a")
	failsAs(t, "lost", err, "08007", "1 objects of the database are dropped, and stay so.")

	cut.arm("pg_namespace", false)
	connectTo(t, s, "app_a", pgx.QueryExecModeExec).Close(t.Context()) // another backend is asked

	holder := connectTo(t, s, "plain", pgx.QueryExecModeExec)
	run(t, holder, "BEGIN", "INSERT INTO app_a.c VALUES (1)")
	run(t, c, "SET statement_timeout = '300ms'")
	_, err = c.Exec(t.Context(), "DROP DATABASE app_a")
	failsAs(t, "out of time", err, "57014", "statement timeout", "1 objects of the database are dropped")
	run(t, c, "SET statement_timeout = 0")
	time.AfterFunc(300*time.Millisecond, func() { c.PgConn().CancelRequest(t.Context()) })
	_, err = c.Exec(t.Context(), "DROP DATABASE app_a")
	failsAs(t, "cancelled", err, "57014", "user request")
	run(t, holder, "ROLLBACK")
	run(t, c, "DROP DATABASE app_a")
	if st := s.backends.Stats(); st.InUse != 0 {
		t.Errorf("%d backends are lent", st.InUse)
	}
}

// The statements of a pipeline stand alone: behind another they are refused, and in front of
// others they are done by the time these run.
func TestDatabaseStatementsInAPipeline(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	s := startSluice(t, pg, asSchemas, asDSQL, withReplay)
	got := perform(t, s.addr, ext("CREATE DATABASE app_a")+ext("CREATE TABLE app_a.t (k int)")+"S\n< Z\n")
	if !strings.Contains(got, "CREATE DATABASE") || !strings.Contains(got, "CREATE TABLE") {
		t.Errorf("in front: %s", got)
	}
	for _, first := range []string{"SELECT 1", "SHOW statement_timeout"} {
		if got := perform(t, s.addr, ext(first)+ext("DROP DATABASE app_a")+"S\n< Z\n"); !strings.Contains(got, "C=25001") || !strings.Contains(got, "within a pipeline") {
			t.Errorf("behind %s: %s", first, got)
		}
	}
	if n := pg.SQL(t, "postgres", "SELECT count(*) FROM app_a.t"); n != "0" {
		t.Errorf("the table has %s rows", n)
	}
}
