package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// A schema tool that lists the tables of public, and drops each by its bare name, finds and
// drops those of its own database, in every way of sending its question.
func TestOverwriteInOneOfTwoDatabases(t *testing.T) {
	t.Parallel()
	for kind, opts := range kinds {
		t.Run(kind, func(t *testing.T) {
			s := startSluice(t, newPostgres(t), append(opts, asSchemas, maxOpen(1))...)
			admin := connectTo(t, s, "postgres", pgx.QueryExecModeSimpleProtocol)
			run(t, admin, "CREATE DATABASE app_a", "CREATE DATABASE app_b", "CREATE TABLE public.shards (k int)", "CREATE TABLE public.of_public (k int)")
			list := func(c *pgx.Conn) string {
				t.Helper()
				rows, err := c.Query(t.Context(), "select table_name from information_schema.tables where table_schema='public'")
				if err != nil {
					t.Fatal(err)
				}
				names, err := pgx.CollectRows(rows, pgx.RowTo[string])
				if err != nil {
					t.Fatal(err)
				}
				slices.Sort(names)
				return strings.Join(names, " ")
			}
			for _, name := range []string{"app_a", "app_b"} {
				run(t, connectTo(t, s, name, pgx.QueryExecModeExec), "CREATE TABLE shards (k int)", "CREATE TABLE of_"+name+" (k int)", "INSERT INTO shards VALUES (1)")
			}
			for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement} {
				a := connectTo(t, s, "app_a", mode)
				for _, name := range []string{"app_a", "app_b"} {
					if got := list(connectTo(t, s, name, mode)); got != "of_"+name+" shards" {
						t.Errorf("%s lists %s", name, got)
					}
				}
				plain := connectTo(t, s, "plain", mode)
				run(t, plain, "SET search_path TO app_a") // does not make it a session of that database
				if got := list(plain); got != "of_public shards" {
					t.Errorf("public lists %s", got)
				}
				for name := range strings.FieldsSeq(list(a)) {
					run(t, a, "DROP TABLE "+name)
				}
				if got := list(a); got != "" {
					t.Errorf("there stay %s", got)
				}
				run(t, a, "CREATE TABLE shards (k int)", "CREATE TABLE of_app_a (k int)")
				for name, want := range map[string]string{"app_a": "0", "app_b": "1", "plain": "0"} {
					isText(t, connectTo(t, s, name, mode), "SELECT count(*)::text FROM shards", want)
				}
			}
		})
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
