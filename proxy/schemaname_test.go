package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/proxy"
)

// asSchemas maps names to schemas: those that begin with app_, and one by its name.
func asSchemas(s *setup) {
	s.proxy.Databases = []string{"postgres", "plain", "app_*=schema:*", "books=schema:Book Shelf"}
}

// kinds are the two kinds of server, both played by PostgreSQL.
var kinds = map[string][]option{"postgres": nil, "dsql": {asDSQL, withReplay}}

// connectTo connects a client to a database of that name, in one way of pgx.
func connectTo(t *testing.T, s *sluice, name string, mode pgx.QueryExecMode, params ...string) *pgx.Conn {
	t.Helper()
	c, err := tryConnect(t, s, name, mode, params...)
	if err != nil {
		t.Fatalf("database %s: %v", name, err)
	}
	return c
}

func tryConnect(t *testing.T, s *sluice, name string, mode pgx.QueryExecMode, params ...string) (*pgx.Conn, error) {
	t.Helper()
	config, err := pgx.ParseConfig("postgres://postgres@" + s.addr + "/" + name + "?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = mode
	for i := 0; i < len(params); i += 2 {
		config.RuntimeParams[params[i]] = params[i+1]
	}
	c, err := pgx.ConnectConfig(t.Context(), config)
	if err == nil {
		t.Cleanup(func() { c.Close(context.Background()) })
	}
	return c, err
}

// run runs statements one after the other.
func run(t *testing.T, c *pgx.Conn, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// isText is the one value of a query, as text.
func isText(t *testing.T, c *pgx.Conn, sql, want string, args ...any) {
	t.Helper()
	var got string
	if err := c.QueryRow(t.Context(), sql, args...).Scan(&got); err != nil || got != want {
		t.Errorf("%s %v: %q (%v), want %q", sql, args, got, err, want)
	}
}

// failsAs checks an error of the server's protocol, and that its texts hold something.
func failsAs(t *testing.T, what string, err error, code string, holds ...string) {
	t.Helper()
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("%s: %v, want %s", what, err, code)
		return
	}
	for _, text := range holds {
		if all := e.Message + "|" + e.Detail + "|" + e.Hint; !strings.Contains(all, text) {
			t.Errorf("%s: %q, want %q in it", what, all, text)
		}
	}
}

// Clients of two databases make the same table and do not see each other's rows, in turns on
// one backend, in every way of preparing the same texts.
func TestDatabasesApartOnOneBackend(t *testing.T) {
	t.Parallel()
	for kind, opts := range kinds {
		t.Run(kind, func(t *testing.T) {
			s := startSluice(t, newPostgres(t), append(opts, asSchemas, maxOpen(1))...)
			run(t, connectTo(t, s, "postgres", pgx.QueryExecModeSimpleProtocol), "CREATE DATABASE app_a", "CREATE DATABASE app_b",
				"CREATE TABLE public.kv (k int PRIMARY KEY, v text)", "INSERT INTO public.kv VALUES (1, 'public')")
			modes := []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
				pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}
			clients := map[string][]*pgx.Conn{}
			for _, name := range []string{"app_a", "app_b"} {
				for _, mode := range modes {
					clients[name] = append(clients[name], connectTo(t, s, name, mode))
				}
				run(t, clients[name][0], "CREATE TABLE kv (k int PRIMARY KEY, v text)")
			}
			for round := range 3 {
				for m := range modes {
					for _, name := range []string{"app_a", "app_b"} {
						c, key := clients[name][m], 100*round+m
						if _, err := c.Exec(t.Context(), "INSERT INTO kv VALUES ($1, $2)", key, name); err != nil {
							t.Fatal(err)
						}
						isText(t, c, "SELECT string_agg(DISTINCT v, ',') FROM kv", name)
						isText(t, c, "SELECT v FROM kv WHERE k = $1", name, key)
						tx, err := c.Begin(t.Context())
						if err != nil {
							t.Fatal(err)
						}
						if err := tx.QueryRow(t.Context(), "UPDATE kv SET v = v WHERE k = $1 RETURNING v", key).Scan(new(string)); err != nil {
							t.Error(err)
						}
						if err := tx.Commit(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			plain := connectTo(t, s, "plain", pgx.QueryExecModeCacheStatement)
			isText(t, plain, "SELECT string_agg(DISTINCT v, ',') FROM kv", "public")
			isText(t, clients["app_a"][0], "SELECT current_database() || ' ' || current_schema()", "postgres app_a")
			isText(t, clients["app_a"][0], "SELECT count(*)::text FROM kv", fmt.Sprint(3*len(modes)))
		})
	}
}

// The search_path of such a session is its schema alone, and every reset returns to it.
func TestSearchPathOfADatabase(t *testing.T) {
	t.Parallel()
	for kind, opts := range kinds {
		t.Run(kind, func(t *testing.T) {
			s := startSluice(t, newPostgres(t), append(opts, asSchemas, maxOpen(1))...)
			admin := connectTo(t, s, "postgres", pgx.QueryExecModeSimpleProtocol)
			run(t, admin, "CREATE DATABASE app_a", `CREATE DATABASE books`)
			isText(t, connectTo(t, s, "books", pgx.QueryExecModeExec), "SHOW search_path", `"Book Shelf"`)
			for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeDescribeExec} {
				c := connectTo(t, s, "app_a", mode)
				is := func(when, want string) {
					t.Helper()
					isText(t, admin, "SHOW search_path", `"$user", public`) // on the same backend, in between
					isText(t, c, "SHOW search_path", want)
					isText(t, c, "SELECT current_setting('search_path')", want)
					if want == "app_a" {
						isText(t, c, "SELECT array_to_string(current_schemas(false), ' ')", "app_a")
					}
					if t.Failed() {
						t.Fatalf("%s, %s", mode, when)
					}
				}
				is("at the start", "app_a")
				for _, reset := range []string{"RESET search_path", "SET search_path TO DEFAULT", "RESET ALL", "DISCARD ALL"} {
					run(t, c, reset)
					is(reset, "app_a")
					run(t, c, "SET search_path TO public, app_a")
					is("SET", "public, app_a")
					run(t, c, reset)
					is("SET and "+reset, "app_a")
					if reset == "DISCARD ALL" {
						continue // refused in a block
					}
					for _, end := range []string{"COMMIT", "ROLLBACK"} {
						run(t, c, "BEGIN", "SET search_path TO public")
						isText(t, c, "SHOW search_path", "public")
						run(t, c, reset)
						isText(t, c, "SHOW search_path", "app_a")
						isText(t, c, "SELECT current_schema()", "app_a")
						run(t, c, end)
						is(reset+" in a block, "+end, "app_a")
						run(t, c, "BEGIN", reset, end)
						is(reset+" at the beginning of a block, "+end, "app_a")
					}
				}
				run(t, c, "BEGIN", "SET LOCAL search_path TO public")
				isText(t, c, "SHOW search_path", "public")
				run(t, c, "COMMIT")
				is("SET LOCAL", "app_a")
			}
		})
	}
}

// A search_path in the startup is the database's own, or is refused.
func TestSearchPathOfAStartup(t *testing.T) {
	t.Parallel()
	s := startSluice(t, newPostgres(t), asSchemas)
	run(t, connectTo(t, s, "postgres", pgx.QueryExecModeSimpleProtocol), "CREATE DATABASE app_a", "CREATE DATABASE books")
	for _, test := range []struct {
		database, name, value string
		taken                 bool
	}{
		{"app_a", "search_path", "app_a", true},
		{"app_a", "search_path", ` "app_a" `, true},
		{"app_a", "options", "-c search_path=APP_A", true},
		{"books", "search_path", `"Book Shelf"`, true},
		{"plain", "search_path", "app_a, public", true},
		{"app_a", "search_path", "public", false},
		{"app_a", "search_path", "app_a, public", false},
		{"app_a", "search_path", "", false},
		{"app_a", "options", "-c search_path=public", false},
		{"app_a", "options", "-csearch_path=app_b", false},
		{"books", "search_path", "Book Shelf", false},
	} {
		c, err := tryConnect(t, s, test.database, pgx.QueryExecModeExec, test.name, test.value)
		switch {
		case !test.taken:
			failsAs(t, test.database+" "+test.value, err, "0A000", "search_path of the startup", "Leave search_path out")
		case err != nil:
			t.Errorf("%s %s: %v", test.database, test.value, err)
		case test.database != "plain":
			isText(t, c, "SELECT array_to_string(current_schemas(false), ' ')", map[string]string{"app_a": "app_a", "books": "Book Shelf"}[test.database])
		}
	}
}

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
	run(t, c, "CREATE FUNCTION app_a.f() RETURNS int LANGUAGE sql AS 'SELECT 1'")
	_, err = c.Exec(t.Context(), "DROP DATABASE app_a")
	failsAs(t, "a function", err, "2BP01", "app_a.f()")
	run(t, c, "DROP FUNCTION app_a.f()", "DROP DATABASE app_a")
	_, err = tryConnect(t, s, "app_a", pgx.QueryExecModeExec)
	failsAs(t, "dropped", err, "3D000")
}

// A schema tool that lists the tables of public, and drops each by its bare name, reaches
// those of its own database only.
func TestOverwriteInOneOfTwoDatabases(t *testing.T) {
	t.Parallel()
	s := startSluice(t, newPostgres(t), asSchemas, asDSQL)
	admin := connectTo(t, s, "postgres", pgx.QueryExecModeSimpleProtocol)
	run(t, admin, "CREATE DATABASE app_a", "CREATE DATABASE app_b", "CREATE TABLE public.shards (k int)")
	for _, name := range []string{"app_a", "app_b"} {
		run(t, connectTo(t, s, name, pgx.QueryExecModeExec), "CREATE TABLE shards (k int)", "INSERT INTO shards VALUES (1)")
	}
	a := connectTo(t, s, "app_a", pgx.QueryExecModeExec)
	rows, err := a.Query(t.Context(), "select table_name from information_schema.tables where table_schema='public'")
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(names) == 0 {
		t.Fatalf("%q, %v", names, err)
	}
	for _, name := range names {
		run(t, a, "DROP TABLE "+name)
	}
	run(t, a, "CREATE TABLE shards (k int)")
	for name, want := range map[string]string{"app_a": "0", "app_b": "1", "plain": "0"} {
		isText(t, connectTo(t, s, name, pgx.QueryExecModeExec), "SELECT count(*)::text FROM shards", want)
	}
}

// The prefix decides, and a name of its own goes before it.
func TestDatabaseNamesOfSchemas(t *testing.T) {
	t.Parallel()
	of := proxy.Config{Kind: proxy.DSQL, Pairing: proxy.Session, Database: "postgres",
		Databases: []string{"postgres", "app_main", "app_*=schema:*", "books=schema:shelf"}}.SchemaOf()
	for name, want := range map[string]string{"app_": "app_", "app_x y": "app_x y", "books": "shelf", "app_main": "", "postgres": "",
		"other": "", "app_é": "", "app_" + strings.Repeat("x", 60): ""} {
		if got, ok := of(name); got != want || ok != (want != "") {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if (proxy.Config{Kind: proxy.DSQL, Database: "postgres", Databases: []string{"a"}}).SchemaOf() != nil {
		t.Error("a list without schemas maps")
	}
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

// What is remembered of a text is remembered for the schema that it was read in: a table of
// the same name has other columns in another database.
func TestDescriptionsApart(t *testing.T) {
	t.Parallel()
	for kind, opts := range kinds {
		t.Run(kind, func(t *testing.T) {
			s := startSluice(t, newPostgres(t), append(opts, asSchemas, maxOpen(1), configure(func(c *proxy.Config) { c.DescribeMemory = time.Minute }))...)
			admin := connectTo(t, s, "postgres", pgx.QueryExecModeSimpleProtocol)
			run(t, admin, "CREATE DATABASE app_a", "CREATE DATABASE app_b", "CREATE TABLE app_a.t (k int, v text)", "CREATE TABLE app_b.t (n text)",
				"INSERT INTO app_a.t VALUES (1, 'a')", "INSERT INTO app_b.t VALUES ('b')")
			for round := range 3 {
				for name, want := range map[string]string{"app_a": "k v 1 a", "app_b": "n b"} {
					for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec} {
						rows, err := connectTo(t, s, name, mode).Query(t.Context(), "SELECT * FROM t")
						if err != nil {
							t.Fatalf("round %d, %s, %s: %v", round, name, mode, err)
						}
						var got []any
						for _, f := range rows.FieldDescriptions() {
							got = append(got, f.Name)
						}
						for rows.Next() {
							values, err := rows.Values()
							if err != nil {
								t.Fatal(err)
							}
							got = append(got, values...)
						}
						if text := strings.TrimSpace(fmt.Sprintln(got...)); rows.Err() != nil || text != want {
							t.Errorf("round %d, %s, %s: %s (%v), want %s", round, name, mode, text, rows.Err(), want)
						}
					}
				}
			}
		})
	}
}
