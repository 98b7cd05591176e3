package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// mapping has bytea columns of keys mapped.
func mapping(s *setup) { s.rules.Bytea, s.rules.ByteaCheck = rewrite.ByteaHex, true }

// mappingKinds are the kinds of server with mapped columns.
var mappingKinds = map[string][]option{"postgres": {mapping}, "dsql": {asDSQL, withReplay, mapping}}

// loads is how often the schema was read for a cause.
func loads(t *testing.T, s *sluice, cause string) int {
	t.Helper()
	return int(s.count(t, "dsql_schema_loads_total", cause))
}

// loaded checks how often the schema was read, by cause.
func loaded(t *testing.T, s *sluice, start, change, missing int) {
	t.Helper()
	if a, b, c := loads(t, s, "start"), loads(t, s, "change"), loads(t, s, "missing"); a != start || b != change || c != missing {
		t.Errorf("read %d times at the start, %d for a change, %d for a name; want %d, %d, %d", a, b, c, start, change, missing)
	}
}

// The schema is read in front of the first text, behind DDL of the process, and for a text
// that names a relation which it lacks: not for any other.
func TestSchemaIsReadWhenItMust(t *testing.T) {
	t.Parallel()
	for kind, opts := range mappingKinds {
		t.Run(kind, func(t *testing.T) {
			pg := newPostgres(t)
			s := startSluice(t, pg, opts...)
			for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec} {
				before := [3]int{loads(t, s, "start"), loads(t, s, "change"), loads(t, s, "missing")}
				c := connectTo(t, s, "postgres", mode)
				run(t, c, "SELECT 1", "SELECT count(*) FROM pg_class", "SELECT 1 FROM information_schema.tables LIMIT 1",
					"WITH c AS (SELECT 1 AS a) SELECT a FROM c, generate_series(1, 2)", "SELECT EXTRACT(year FROM now())")
				loaded(t, s, 1, before[1], before[2])
				run(t, c, "CREATE TABLE own (a int PRIMARY KEY)", "SELECT * FROM own", "SELECT a FROM own JOIN own o USING (a)", "DROP TABLE own", "SELECT 1 + 1")
				loaded(t, s, 1, before[1]+2, before[2])
				pg.SQL(t, "postgres", "CREATE TABLE other (a int PRIMARY KEY)")
				run(t, c, "INSERT INTO other VALUES (1)", "SELECT * FROM other", "UPDATE other SET a = 2", "DELETE FROM other")
				loaded(t, s, 1, before[1]+2, before[2]+1)
				pg.SQL(t, "postgres", "DROP TABLE other")
				run(t, c, "CREATE TABLE third (a int)", "DROP TABLE third", "SELECT 2 + 0")
			}
		})
	}
}

// keyed makes the table t of a schema past Sluice, with k as its key: mapped, or of type text.
func keyed(t *testing.T, pg postgres, schema string, mapped bool) {
	t.Helper()
	sql := "CREATE SCHEMA IF NOT EXISTS " + schema + "; CREATE TABLE " + schema + ".t (n int, k text PRIMARY KEY)"
	if mapped {
		sql = strings.ReplaceAll(sql, " k text", " k__byteahex text CHECK (k__byteahex ~ '^([0-9a-f]{2})*$')")
		sql = strings.ReplaceAll(sql, "CHECK", "CONSTRAINT k__byteahex CHECK")
	}
	pg.SQL(t, "postgres", sql)
}

// comments has a session comment on t.k, and checks whose column that is: it has another name
// where it is mapped, in schemas that begin with m.
func comments(t *testing.T, pg postgres, c *pgx.Conn, schema, what string) {
	t.Helper()
	run(t, c, "COMMENT ON COLUMN t.k IS '"+what+"'")
	commented(t, pg, schema, what)
}

func commented(t *testing.T, pg postgres, name, what string) {
	t.Helper()
	column := "k"
	if strings.HasPrefix(name, "m") {
		column += schema.MappedSuffix
	}
	got := pg.SQL(t, "postgres", "SELECT col_description(a.attrelid, a.attnum) FROM pg_attribute a WHERE attrelid = '"+name+".t'::regclass AND attname = '"+column+"'")
	if !strings.Contains(got, what) {
		t.Errorf("%s: the comment on %s.t.%s is %q", what, name, column, got)
	}
}

// A name stands for what the session's search path says, wherever that comes from: clients
// take turns on one backend.
func TestNamesBySearchPath(t *testing.T) {
	t.Parallel()
	for kind, opts := range mappingKinds {
		t.Run(kind, func(t *testing.T) {
			pg := newPostgres(t)
			for schema, mapped := range map[string]bool{"m1": true, "p1": false, "m_app": true, "public": false} {
				keyed(t, pg, schema, mapped)
			}
			s := startSluice(t, pg, append(opts, maxOpen(1), func(s *setup) { s.proxy.Databases = []string{"postgres", "m_*=schema:*"} })...)
			for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeCacheStatement} {
				usual, of := connectTo(t, s, "postgres", mode), connectTo(t, s, "m_app", mode)
				m1, p1 := connectTo(t, s, "postgres", mode, "search_path", "nowhere, m1"), connectTo(t, s, "postgres", mode, "search_path", "p1,m1")
				for round := range 3 {
					what := fmt.Sprint(mode, round)
					comments(t, pg, usual, "public", what)
					comments(t, pg, of, "m_app", what)
					comments(t, pg, m1, "m1", what)
					comments(t, pg, p1, "p1", what)
				}
				run(t, usual, "SET search_path TO 'm1', p1")
				comments(t, pg, usual, "m1", "set")
				run(t, m1, "SET search_path TO DEFAULT")
				comments(t, pg, m1, "m1", "back")
				run(t, usual, "RESET search_path")
				comments(t, pg, usual, "public", "reset")
				run(t, p1, "BEGIN", "SET LOCAL search_path TO m1")
				comments2 := func(schema, what string) {
					run(t, p1, "COMMENT ON COLUMN t.k IS '"+what+"'", "COMMIT")
					commented(t, pg, schema, what)
				}
				comments2("m1", "local")
				comments(t, pg, p1, "p1", "behind local")
				run(t, p1, "BEGIN", "SET search_path TO m1", "ROLLBACK")
				comments(t, pg, p1, "p1", "behind rollback")
				run(t, p1, "BEGIN", "SET LOCAL search_path TO m1", "SET LOCAL search_path TO public")
				comments2("public", "local twice")
			}
		})
	}
}

// Where nobody knows the search path, a name that may be a mapped table's is refused, unless
// the text gives its schema.
func TestNamesByAnUnknownPath(t *testing.T) {
	t.Parallel()
	for kind, opts := range mappingKinds {
		t.Run(kind, func(t *testing.T) {
			pg := newPostgres(t)
			keyed(t, pg, "m1", true)
			keyed(t, pg, "public", false)
			pg.SQL(t, "postgres", "CREATE TABLE u (a int); CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'")
			s := startSluice(t, pg, append(opts, maxOpen(3))...)
			for name, script := range map[string]string{
				"set_config":              "Q SELECT set_config('search_path', 'm1', false)\n< Z\nQ COMMENT ON COLUMN t.k IS 'no'\n< Z\n",
				"set_config of a block":   "Q BEGIN\n< Z\nQ SELECT set_config('search_path', 'm1', true)\n< Z\nQ COMMENT ON COLUMN t.k IS 'no'\n< Z\n",
				"a string":                "Q SET search_path TO m1; COMMENT ON COLUMN t.k IS 'no'\n< Z\n",
				"a string, with a block":  "Q BEGIN; SET LOCAL search_path TO m1; COMMENT ON COLUMN t.k IS 'no'; COMMIT\n< Z\n",
				"the end of what was set": "Q BEGIN\n< Z\nQ SET LOCAL search_path TO m1\n< Z\nQ ROLLBACK; COMMENT ON COLUMN t.k IS 'no'\n< Z\n",
				"a string, by a function": "Q SELECT f(); COMMENT ON COLUMN t.k IS 'no'\n< Z\n",
				"a group":                 "P - | SET search_path TO m1\nB - | -\nE -\nP - | COMMENT ON COLUMN t.k IS 'no'\nB - | -\nE -\nS\n< Z\n",
			} {
				c := dialRaw(t, s.addr)
				if got := c.say(t, script); !strings.Contains(got, "C=0A000") || strings.Count(got, "E S=") != 1 {
					t.Errorf("%s: got\n%s", name, got)
				}
				c.say(t, "Q ROLLBACK\n< Z\n")
				if got := c.say(t, "Q SELECT a FROM u\n< Z\nQ COMMENT ON COLUMN m1.t.k IS 'named'\n< Z\n"); strings.Contains(got, "C=0A000") {
					t.Errorf("%s: then\n%s", name, got)
				}
				if got := pg.SQL(t, "postgres", "SELECT count(*) FROM pg_description WHERE description = 'no'"); !strings.Contains(got, "0") {
					t.Errorf("%s: a comment was made: %s", name, got)
				}
			}
			commented(t, pg, "m1", "named")
			// Behind the end of a block in a group the path is known again, once the end is answered.
			if got := dialRaw(t, s.addr).say(t, "Q BEGIN\n< Z\nQ SET LOCAL search_path TO m1\n< Z\n"+ext("COMMIT")+ext("COMMENT ON COLUMN t.k IS 'behind'")+"S\n< Z\n"); strings.Contains(got, "E S=") {
				t.Errorf("behind the end of a block: %s", got)
			}
			commented(t, pg, "public", "behind")
		})
	}
}

// A prepared statement means what its names stand for when it is bound.
func TestPreparedNamesFollow(t *testing.T) {
	t.Parallel()
	for kind, opts := range mappingKinds {
		t.Run(kind, func(t *testing.T) {
			pg := newPostgres(t)
			keyed(t, pg, "m1", true)
			keyed(t, pg, "public", false)
			s := startSluice(t, pg, append(opts, maxOpen(2))...)
			c := dialRaw(t, s.addr)
			c.say(t, "P s | COMMENT ON COLUMN t.k IS 'one'\nS\n< Z\n")
			const execute = "B - | s\nE -\nS\n< Z\n"
			for _, step := range []struct{ set, schema string }{
				{"Q SELECT 1\n< Z\n", "public"}, {"Q SET search_path TO m1\n< Z\n", "m1"}, {"Q RESET search_path\n< Z\n", "public"},
				{"Q BEGIN\n< Z\nQ SET LOCAL search_path TO m1\n< Z\n", "m1"},
			} {
				pg.SQL(t, "postgres", "COMMENT ON COLUMN m1.t.k__byteahex IS NULL; COMMENT ON COLUMN public.t.k IS NULL")
				if got := c.say(t, step.set+execute+"Q COMMIT\n< Z\n"); strings.Contains(got, "E S=") {
					t.Errorf("%s: got\n%s", step.set, got)
				}
				commented(t, pg, step.schema, "one")
			}
			c.say(t, "Q SELECT 1 + 0\n< Z\n")
			// The table is made anew with a mapped column, where nobody here sees it.
			pg.SQL(t, "postgres", "DROP TABLE public.t")
			keyed(t, pg, "public", true)
			// What is logged is planned anew and sent again, anything else fails.
			if got := c.say(t, execute); strings.Contains(got, "C=42703") != (kind == "postgres") || strings.Contains(got, "E S=") != (kind == "postgres") {
				t.Errorf("by the old schema: got\n%s", got)
			}
			if got := c.say(t, execute); strings.Contains(got, "E S=") {
				t.Errorf("behind the error: got\n%s", got)
			}
		})
	}
}

// Clients that come at once wait for one reading.
func TestOneReaderOfTheSchema(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	s := startSluice(t, pg, mapping, asDSQL, withReplay)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			c := dialRaw(t, s.addr)
			if got := c.say(t, "Q SELECT 1 + 0\n< Z\n"); !strings.HasSuffix(got, "C SELECT 1\\x00\nZ I\n") {
				t.Errorf("got\n%s", got)
			}
		})
	}
	all.Wait()
	loaded(t, s, 1, 0, 0)
}

// A session that keeps the only backend reads the schema by it.
func TestSchemaByTheSessionsOwnBackend(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	s := startSluice(t, pg, mapping, asDSQL, withReplay, sessionPairing, maxOpen(1))
	c := connectTo(t, s, "postgres", pgx.QueryExecModeCacheStatement)
	keyed(t, pg, "m1", true)
	run(t, c, "SELECT 1", "CREATE TABLE own (a int)", "SELECT * FROM own", "SET search_path TO m1")
	comments(t, pg, c, "m1", "one")
	run(t, c, "SELECT 1 + 0")
	keyed(t, pg, "m2", true)
	run(t, c, "SELECT n FROM m2.t", "SET search_path TO m2, m1")
	comments(t, pg, c, "m2", "two")
	loaded(t, s, 1, 2, 1)
}

// Without a schema no text is planned: it is refused, until there is a backend.
func TestNoSchemaWithoutBackend(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	var up atomic.Bool
	s := startSluice(t, pg, mapping, asDSQL, withReplay, func(s *setup) {
		s.proxy.Startup.Timeout = 300 * time.Millisecond
		s.wrap = func(dial reservoir.DialFunc) reservoir.DialFunc {
			return func(ctx context.Context, x *reservoir.Startup) (*reservoir.Conn, error) {
				if !up.Load() {
					return nil, errors.New("down")
				}
				return dial(ctx, x)
			}
		}
	})
	c := dialRaw(t, s.addr)
	for name, script := range map[string]string{"simple": "Q SELECT * FROM pg_class LIMIT 0\n< Z\n", "extended": "P - | SELECT * FROM pg_class LIMIT 0\nB - | -\nE -\nS\n< Z\n",
		"block": "Q BEGIN\n< Z\nQ SELECT 1\n< Z\nQ ROLLBACK\n< Z\n"} {
		if got := c.say(t, script); strings.Count(got, "E S=") != 1 || !strings.Contains(got, "E S=ERROR C=53300 M=the relations of the database could not be read") || !strings.HasSuffix(got, "Z I\n") {
			t.Errorf("%s: got\n%s", name, got)
		}
	}
	up.Store(true)
	for try := 0; !strings.HasSuffix(c.say(t, "Q SELECT 1\n< Z\n"), "C SELECT 1\\x00\nZ I\n"); try++ {
		if try == 100 {
			t.Fatal("the backend is there, and texts are refused")
		}
	}
}

// A client that waits for the first reading of the schema is told why there is no backend to read it
// with, also where whoever reads waits for one for longer.
func TestNoSchemaTellsWhyThereIsNoBackend(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t), mapping, asDSQL, func(s *setup) {
		s.backends.CheckoutWait = time.Minute
		s.wrap = func(reservoir.DialFunc) reservoir.DialFunc {
			return func(context.Context, *reservoir.Startup) (*reservoir.Conn, error) {
				return nil, errors.New("the cluster is deleted")
			}
		}
	})
	c := dialRaw(t, s.addr)
	got := c.say(t, "Q SELECT * FROM pg_class\n< Z\n")
	for _, want := range []string{"C=53300", "M=the relations of the database could not be read", "0 of ", "last dial failed: the cluster is deleted", "cannot open connections to the server"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

// A text in a block that names what the snapshot lacks waits for another backend; where none
// is to be had it is refused, since the name may be a mapped table's.
func TestMissingNameInABlock(t *testing.T) {
	t.Parallel()
	for backends, want := range map[int]string{1: "E S=ERROR C=53300", 2: "C SELECT 0"} {
		t.Run(fmt.Sprint(backends), func(t *testing.T) {
			pg := newPostgres(t)
			s := startSluice(t, pg, mapping, asDSQL, withReplay, maxOpen(backends))
			c := dialRaw(t, s.addr)
			c.say(t, "Q BEGIN\n< Z\nQ SELECT 1\n< Z\n")
			pg.SQL(t, "postgres", "CREATE TABLE late (a int)")
			if got := c.say(t, "Q SELECT * FROM late\n< Z\n"); !strings.Contains(got, want) {
				t.Errorf("got\n%s\nwant %s", got, want)
			}
			if got := c.say(t, "Q ROLLBACK\n< Z\nQ SELECT * FROM late\n< Z\n"); !strings.HasSuffix(got, "C SELECT 0\\x00\nZ I\n") {
				t.Errorf("then:\n%s", got)
			}
		})
	}
}

// A text that nobody reads is refused where it may name a table with mapped columns, and
// passes where it names none.
func TestUnreadTextsOverMappedTables(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	keyed(t, pg, "m1", true)
	pg.SQL(t, "postgres", "CREATE TABLE other (a text)")
	s := startSluice(t, pg, mapping, asDSQL, withReplay, configure(func(c *proxy.Config) { c.MaxStatementBytes = 1 << 20 }))
	deep := strings.Repeat("(", 3000) + "1" + strings.Repeat(")", 3000)
	for script, want := range map[string]string{
		"Q SELECT * FROM m1.T, (VALUES (" + deep + ")) v\n< Z\n":                                                  "C=0A000",
		"P - | SELECT * FROM m1.t, (VALUES (" + deep + ")) v\nB - | -\nE -\nS\n< Z\n":                             "C=0A000",
		"Q SELECT * FROM " + `u&"m1"."\0074"` + ", (VALUES (" + deep + ")) v\n< Z\n":                              "C=0A000",
		"Q BEGIN\n< Z\nQ INSERT INTO other VALUES ('" + strings.Repeat("x", 1<<20) + "')\n< Z\nQ ROLLBACK\n< Z\n": "C=0A000",
	} {
		if got := dialRaw(t, s.addr).say(t, script); !strings.Contains(got, want) || strings.Count(got, "E S=") != 1 {
			t.Errorf("%.60s: got %.300s", script, got)
		}
	}
	pg.SQL(t, "postgres", "DROP TABLE m1.t; CREATE TABLE fresh (a int)")
	c := dialRaw(t, s.addr)
	c.say(t, "Q SELECT * FROM fresh\n< Z\n")
	for _, script := range []string{"Q SELECT (" + deep + ") FROM other\n< Z\n", "Q INSERT INTO other VALUES ('" + strings.Repeat("x", 1<<20) + "')\n< Z\n"} {
		if got := c.say(t, script); strings.Contains(got, "E S=") {
			t.Errorf("%.60s: got %.300s", script, got)
		}
	}
}

// Where nothing is mapped, a text over a table with mapped columns is refused: it would see
// their digits. Others pass, and nobody waits for the schema but the first.
func TestMappedTablesOfOthers(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	keyed(t, pg, "public", true)
	keyed(t, pg, "p1", false)
	pg.SQL(t, "postgres", "CREATE TABLE other (t int)")
	s := startSluice(t, pg, asDSQL, withReplay, configure(func(c *proxy.Config) { c.WatchMapped = true }))
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeCacheStatement} {
		c := connectTo(t, s, "postgres", mode)
		for _, sql := range []string{"SELECT * FROM t", "SELECT 1; INSERT INTO T VALUES (1, '61')", "UPDATE public.t SET n = 1", "WITH x AS (SELECT 1) SELECT n FROM x, t"} {
			if strings.Contains(sql, ";") && mode != pgx.QueryExecModeSimpleProtocol {
				continue
			}
			_, err := c.Exec(t.Context(), sql)
			failsAs(t, sql, err, "0A000", "rewrite.bytea: hex")
		}
		run(t, c, "SELECT 1", "SELECT t FROM other AS t", "SELECT t.t FROM other t", "SELECT * FROM p1.t", "BEGIN")
		_, err := c.Exec(t.Context(), "DELETE FROM t")
		failsAs(t, "in a block", err, "0A000")
		run(t, c, "ROLLBACK", "CREATE TABLE more (a int)", "DROP TABLE more", "SELECT 1")
	}
	if n := loads(t, s, "start"); n != 1 {
		t.Errorf("read %d times at the start", n)
	}
}

// A statement of a string that cannot be mapped never reaches the server: those before it
// run, and are undone with it, and a string that commits in front keeps what it has committed.
func TestRefusedInAString(t *testing.T) {
	t.Parallel()
	for kind, opts := range mappingKinds {
		t.Run(kind, func(t *testing.T) {
			pg := newPostgres(t)
			keyed(t, pg, "m1", true)
			pg.SQL(t, "postgres", "CREATE TABLE other (a int)")
			s := startSluice(t, pg, opts...)
			c := dialRaw(t, s.addr)
			const refused = "CREATE STATISTICS no ON n, k FROM m1.t"
			for script, rows := range map[string]string{
				"Q INSERT INTO other VALUES (1); " + refused + "; INSERT INTO other VALUES (2)\n< Z\n":                "0",
				"Q BEGIN; INSERT INTO other VALUES (1); COMMIT; " + refused + "; INSERT INTO other VALUES (2)\n< Z\n": "1",
				"Q " + refused + "\n< Z\n":                      "0",
				"P - | " + refused + "\nB - | -\nE -\nS\n< Z\n": "0",
			} {
				pg.SQL(t, "postgres", "DELETE FROM other")
				got := c.say(t, script)
				if strings.Count(got, "E S=") != 1 || !strings.Contains(got, "C=0A000 M=cannot map the bytea columns") || !strings.HasSuffix(got, "Z I\n") {
					t.Errorf("%s: got\n%s", script, got)
				}
				if n := pg.SQL(t, "postgres", "SELECT count(*) FROM other"); !strings.Contains(n, rows) {
					t.Errorf("%s: %s rows, want %s", script, n, rows)
				}
			}
		})
	}
}

// Two schemas have the same table, with a mapped key in one: clients of both take turns on
// one backend, in every way of preparing the same texts.
func TestMappedAndNaturalInTurns(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	keyed(t, pg, "m1", true)
	pg.SQL(t, "postgres", "CREATE SCHEMA p1; CREATE TABLE p1.t (n int, k bytea PRIMARY KEY)")
	s := startSluice(t, pg, asDSQL, withReplay, mapping, maxOpen(1))
	modes := []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}
	for m, mode := range modes {
		m1, p1 := connectTo(t, s, "postgres", mode, "search_path", "m1"), connectTo(t, s, "postgres", mode, "search_path", "p1")
		for round := range 2 {
			for _, c := range []*pgx.Conn{m1, p1} {
				key := []byte{byte(m), 0xff, byte(round)}
				if _, err := c.Exec(t.Context(), "INSERT INTO t VALUES ($1, $2)", round, key); err != nil {
					t.Fatal(mode, err)
				}
				var n int
				var k []byte
				if err := c.QueryRow(t.Context(), "SELECT * FROM t WHERE k = $1", key).Scan(&n, &k); err != nil || n != round || !bytes.Equal(k, key) {
					t.Errorf("%v: %d %x (%v)", mode, n, k, err)
				}
				_, err := c.Exec(t.Context(), "INSERT INTO t VALUES ($1, $2)", round, key)
				failsAs(t, "twice", err, "23505", fmt.Sprintf(`Key (k)=(\x%x) already exists.`, key))
				if err != nil && strings.Contains(err.Error(), schema.MappedSuffix) {
					t.Errorf("%v: %v", mode, err)
				}
				_, err = c.Exec(t.Context(), "INSERT INTO t (n) VALUES (1)")
				var e *pgconn.PgError
				if !errors.As(err, &e) || e.Code != "23502" || e.ColumnName != "k" || e.Message != `null value in column "k" of relation "t" violates not-null constraint` {
					t.Errorf("%v: no key: %v", mode, err)
				}
			}
		}
	}
}

// A prepared SELECT * returns what its client was told, or fails as PostgreSQL's own.
func TestStarBehindAChange(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	keyed(t, pg, "public", true)
	s := startSluice(t, pg, asDSQL, withReplay, mapping)
	c := dialRaw(t, s.addr)
	c.say(t, "P s | SELECT * FROM t\nD S s\nS\n< Z\n")
	const execute = "B - | s\nE -\nS\n< Z\n"
	if got := c.say(t, execute); strings.Contains(got, "E S=") {
		t.Fatalf("got\n%s", got)
	}
	c.say(t, "Q ALTER TABLE t ADD COLUMN late int\n< Z\n")
	if got := c.say(t, execute); !strings.Contains(got, "C=0A000 M=cached plan must not change result type") {
		t.Errorf("behind the change: got\n%s", got)
	}
	if got := c.say(t, "P - | SELECT * FROM t\nB - | -\nD P -\nE -\nS\n< Z\n"); !strings.Contains(got, "late") || strings.Contains(got, "E S=") {
		t.Errorf("prepared anew: got\n%s", got)
	}
}

// replacedBackends has the backends of a Sluice end, and waits until they are gone.
func replacedBackends(t *testing.T, pg postgres) {
	t.Helper()
	pg.SQL(t, "postgres", "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
}

// A backend that was dialled behind a change of another process is told of none: the schema is
// read by that backend before a text that was planned by an older one gets there, in every way.
func TestSchemaMeetsANewBackend(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	keyed(t, pg, "public", true)
	s := startSluice(t, pg, asDSQL, withReplay, mapping, maxOpen(1))
	c := dialRaw(t, s.addr)
	c.say(t, "Q SELECT * FROM t\n< Z\n")
	for i, script := range []string{"Q SELECT * FROM t\n< Z\n", "P - | SELECT * FROM t\nD S -\nS\n< Z\n", "P - | SELECT * FROM t\nB - | -\nD P -\nE -\nS\n< Z\n",
		"Q BEGIN\n< Z\nQ SELECT * FROM t\n< Z\nQ COMMIT\n< Z\n", "Q BEGIN\n< Z\nP - | SELECT * FROM t\nB - | -\nD P -\nE -\nS\n< Z\nQ COMMIT\n< Z\n"} {
		column := fmt.Sprint("late", i)
		pg.SQL(t, "postgres", "ALTER TABLE t ADD COLUMN "+column+" int")
		replacedBackends(t, pg)
		if got := c.say(t, script); !strings.Contains(got, column) || strings.Contains(got, "E S=") {
			t.Errorf("%s: got\n%s", script, got)
		}
	}
	if n := loads(t, s, "backend"); n < 5 {
		t.Errorf("read %d times for a backend", n)
	}
}

// A statement whose column the server does not know is planned by the schema as it is now, and
// sent again once, where nothing of its transaction was told; a client's own mistake is told as
// it is.
func TestUnknownNameIsPlannedAnew(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	keyed(t, pg, "public", false)
	s := startSluice(t, pg, asDSQL, withReplay, mapping, maxOpen(2))
	c := dialRaw(t, s.addr)
	c.say(t, "Q SELECT k FROM t\n< Z\n")
	mapped := false
	for name, script := range map[string]string{
		"simple":          "Q SELECT k FROM t WHERE k IS NULL\n< Z\n",
		"extended":        "P - | SELECT k FROM t WHERE k IS NULL\nB - | -\nE -\nS\n< Z\n",
		"a flush":         "P - | SELECT k FROM t WHERE k IS NULL\nB - | -\nE -\nH\n< C\nS\n< Z\n",
		"a group":         "P - | SELECT 1\nB - | -\nE -\nP - | SELECT k FROM t WHERE k IS NULL\nB - | -\nE -\nS\n< Z\n",
		"a string":        "Q SELECT 1; SELECT k FROM t WHERE k IS NULL\n< Z\n",
		"begins a block":  "Q BEGIN\n< Z\nQ SELECT k FROM t WHERE k IS NULL\n< Z\nQ COMMIT\n< Z\n",
		"change of names": "Q CREATE INDEX ON t (k)\n< Z\n",
	} {
		pg.SQL(t, "postgres", "SELECT pg_sleep(0.3); DROP TABLE t")
		mapped = !mapped
		keyed(t, pg, "public", mapped)
		if got := c.say(t, script); strings.Contains(got, "E S=") || strings.Contains(got, "Z E") {
			t.Errorf("%s: got\n%s", name, got)
		}
	}
	pg.SQL(t, "postgres", "SELECT pg_sleep(0.3)")
	for range 2 {
		got := c.say(t, "Q SELECT nobodys FROM t\n< Z\nQ SELECT 1\n< Z\n")
		if !strings.Contains(got, `C=42703 M=column "nobodys" does not exist`) || strings.Contains(got, "Replay") || strings.Count(got, "E S=") != 1 {
			t.Errorf("a mistake: got\n%s", got)
		}
	}
	pg.SQL(t, "postgres", "SELECT pg_sleep(0.3)")
	c.say(t, "Q SELECT n FROM t\n< Z\nQ BEGIN\n< Z\nQ SELECT 1\n< Z\n")
	pg.SQL(t, "postgres", "DROP TABLE t")
	keyed(t, pg, "public", !mapped)
	if got := c.say(t, "Q SELECT k FROM t\n< Z\nQ ROLLBACK\n< Z\n"); strings.Count(got, "C=42703") != 1 || !strings.HasSuffix(got, "Z I\n") {
		t.Errorf("within a block: got\n%s", got)
	}
	pg.SQL(t, "postgres", "SELECT pg_sleep(0.3)")
	if got := c.say(t, "Q SELECT k FROM t\n< Z\n"); strings.Contains(got, "E S=") {
		t.Errorf("behind the block: got\n%s", got)
	}
}

// COPY into a table with mapped columns is refused before the server asks for data.
func TestCopyIntoMappedColumns(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	keyed(t, pg, "public", true)
	pg.SQL(t, "postgres", "CREATE TABLE other (a text)")
	s := startSluice(t, pg, asDSQL, withReplay, mapping)
	c := dialRaw(t, s.addr)
	for _, script := range []string{"Q COPY t FROM STDIN\n< Z\n", "Q COPY t (n, k) FROM STDIN\n< Z\n", "Q COPY public.t (k) FROM STDIN WITH (FORMAT csv)\n< Z\n",
		"P - | COPY t FROM STDIN\nB - | -\nE -\nS\n< Z\n", "Q SELECT 1; COPY t FROM STDIN\n< Z\n"} {
		if got := c.say(t, script); !strings.Contains(got, "C=0A000") || !strings.Contains(got, "INSERT") || strings.Contains(got, "\nG") || !strings.HasSuffix(got, "Z I\n") {
			t.Errorf("%s: got\n%s", script, got)
		}
	}
	x := connectTo(t, s, "postgres", pgx.QueryExecModeCacheStatement)
	_, err := x.CopyFrom(t.Context(), pgx.Identifier{"t"}, []string{"n", "k"}, pgx.CopyFromRows([][]any{{1, []byte("a")}}))
	failsAs(t, "pgx", err, "0A000")
	if n, err := x.CopyFrom(t.Context(), pgx.Identifier{"other"}, []string{"a"}, pgx.CopyFromRows([][]any{{"1"}, {"2"}})); n != 2 || err != nil {
		t.Errorf("into another table: %d (%v)", n, err)
	}
	for table, want := range map[string]string{"t": "0A000", "other": "COPY 1"} {
		psql := pg.Program("psql", "-X", "-v", "VERBOSITY=verbose", "-d", "host=127.0.0.1 dbname=postgres user=postgres sslmode=disable port="+s.addr[strings.LastIndexByte(s.addr, ':')+1:],
			"-c", "\\copy "+table+" FROM STDIN", "-c", "SELECT 'in step'")
		psql.Stdin = strings.NewReader("x\n\\.\n")
		if out, _ := psql.CombinedOutput(); !strings.Contains(string(out), want) || !strings.Contains(string(out), "in step") {
			t.Errorf("psql, %s: %s", table, out)
		}
	}
}

// Where the server refuses to tell the relations, a text that names none passes: alone, in
// a block, prepared. One that names a relation is refused, since that may be mapped, and says
// why. When the server tells, all pass.
func TestSchemaThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE ROLE app LOGIN; REVOKE SELECT ON pg_catalog.pg_constraint FROM PUBLIC; CREATE TABLE other (a int); GRANT ALL ON other TO app")
	s := startSluice(t, pg, asDSQL, withReplay, mapping, maxOpen(2), func(s *setup) { s.dial.User = "app" })
	c := dialRaw(t, s.addr)
	for script, rows := range map[string]string{
		"Q SELECT 1\n< Z\n": "C SELECT 1",
		"Q BEGIN\n< Z\nQ SELECT now()\n< Z\nQ COMMIT\n< Z\n":                        "C SELECT 1",
		"P s | SELECT 1\nS\n< Z\nB - | s\nE -\nS\n< Z\nC S s\nS\n< Z\n":             "C SELECT 1",
		"Q SET TimeZone TO 'UTC'\n< Z\nQ SHOW TimeZone\n< Z\n":                      "C SHOW",
		"Q SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'other'\n< Z\n":        "C SELECT 1",
		"Q WITH w AS (SELECT 2 AS a) SELECT a FROM w, generate_series(1, 2)\n< Z\n": "C SELECT 2",
	} {
		if got := c.say(t, script); !strings.Contains(got, rows) || strings.Contains(got, "E S=") {
			t.Errorf("%s: got\n%s", script, got)
		}
	}
	for _, script := range []string{"Q SELECT * FROM other\n< Z\n", "Q INSERT INTO other VALUES (1)\n< Z\n", "Q CREATE TABLE more (k bytea PRIMARY KEY)\n< Z\n",
		"Q DROP TABLE other\n< Z\n", "P - | DELETE FROM other\nB - | -\nE -\nS\n< Z\n", "Q SELECT 1; SELECT a FROM other\n< Z\n"} {
		if got := c.say(t, script); strings.Count(got, "E S=") != 1 || !strings.Contains(got, "C=53300 M=the relations of the database could not be read") ||
			!strings.Contains(got, "42501") || !strings.Contains(got, "rewrite.bytea: off") {
			t.Errorf("%s: got\n%s", script, got)
		}
	}
	before := loads(t, s, "start")
	for range 20 {
		c.say(t, "Q SELECT 1\n< Z\n")
	}
	if n := loads(t, s, "start") - before; n > 10 {
		t.Errorf("20 texts had the schema read %d times", n)
	}
	pg.SQL(t, "postgres", "GRANT SELECT ON pg_catalog.pg_constraint TO PUBLIC")
	for try := 0; !strings.Contains(c.say(t, "Q SELECT a FROM other\n< Z\n"), "C SELECT 0"); try++ {
		if try == 100 {
			t.Fatal("the schema may be read, and texts are refused")
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// A session in a block waits for a reading of the schema that has a backend, and whose answer
// is late.
func TestLateSchemaInABlock(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	s := startSluice(t, pg, mapping, asDSQL, withReplay, maxOpen(2))
	c := dialRaw(t, s.addr)
	c.say(t, "Q BEGIN\n< Z\nQ SELECT 1\n< Z\n")
	pg.SQL(t, "postgres", "CREATE TABLE late (a int)")
	lock, err := pgx.Connect(t.Context(), pg.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close(context.Background())
	if _, err := lock.Exec(t.Context(), "BEGIN; LOCK TABLE pg_catalog.pg_constraint IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	var free sync.WaitGroup
	free.Go(func() {
		time.Sleep(2 * time.Second)
		lock.Exec(context.Background(), "COMMIT")
	})
	defer free.Wait()
	if got := c.say(t, "Q SELECT * FROM late\n< Z\n"); !strings.Contains(got, "C SELECT 0") {
		t.Errorf("got\n%s", got)
	}
}

// A client's own mistake behind other statements is told behind their answers, also where the
// schema was read for it.
func TestMistakesBehindOthers(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	keyed(t, pg, "public", true)
	s := startSluice(t, pg, asDSQL, withReplay, mapping)
	perform(t, s.addr, "Q SELECT k FROM t\n< Z\n")
	for _, script := range []string{
		"Q BEGIN READ WRITE; SELECT * FROM nosuch\n< Z\nQ ROLLBACK\n< Z\n",
		"Q SELECT 1; SELECT nosuch FROM t; SELECT 2\n< Z\n",
		"P - | SELECT 1\nB - | -\nE -\nP - | SELECT nosuch FROM t\nB - | -\nE -\nP - | SELECT 2\nB - | -\nE -\nS\n< Z\n",
		"P s | SELECT 1\nP - | SELECT * FROM nosuch\nS\n< Z\nB - | s\nE -\nS\n< Z\n",
		"Q SELECT 1; SET TimeZone TO 'Asia/Tokyo'; SELECT * FROM nosuch\n< Z\nQ SHOW TimeZone\n< Z\n",
		"Q BEGIN\n< Z\nP - | SELECT 1\nB - | -\nE -\nP - | SELECT * FROM nosuch\nB - | -\nE -\nS\n< Z\nQ ROLLBACK\n< Z\n",
	} {
		pg.SQL(t, "postgres", "SELECT pg_sleep(0.3)")
		if got, want := perform(t, s.addr, script), perform(t, pg.addr, script); got != want {
			t.Errorf("%s\n%s", script, firstDifference(got, want))
		}
	}
}
