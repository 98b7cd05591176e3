package proxy_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
)

// hazards are what makes a text write that looks like a read, and such texts.
var hazards = []struct{ name, schema, texts string }{
	{"a view", "CREATE FUNCTION writes() RETURNS int LANGUAGE sql AS $$ INSERT INTO wrote VALUES (1) RETURNING a $$; CREATE VIEW writing AS SELECT writes()",
		"SELECT * FROM writing; TABLE writing; WITH w AS (SELECT * FROM writing) SELECT * FROM w; VALUES ((SELECT writes FROM writing)); " +
			"SELECT 1 WHERE EXISTS (SELECT writes FROM writing WHERE writes > 0); EXPLAIN ANALYZE SELECT * FROM writing; COPY (SELECT * FROM writing) TO STDOUT"},
	{"a view over a stable function", "CREATE FUNCTION writes() RETURNS int LANGUAGE sql AS $$ INSERT INTO wrote VALUES (1) RETURNING a $$; " +
		"CREATE FUNCTION middle() RETURNS int STABLE LANGUAGE sql AS 'SELECT writes()'; CREATE FUNCTION st() RETURNS int STABLE LANGUAGE sql AS 'SELECT middle()'; CREATE VIEW writing AS SELECT st() AS a",
		"SELECT * FROM writing"},
	{"a stable function that executes a text", "CREATE FUNCTION writes() RETURNS int LANGUAGE sql AS $$ INSERT INTO wrote VALUES (1) RETURNING a $$; " +
		"CREATE FUNCTION st() RETURNS int STABLE LANGUAGE plpgsql AS $$ DECLARE n int; BEGIN EXECUTE 'SELECT wri' || 'tes()' INTO n; RETURN n; END $$; CREATE VIEW writing AS SELECT st() AS a",
		"SELECT * FROM writing"},
	{"a stable function with a parsed body", "CREATE FUNCTION writes() RETURNS int LANGUAGE sql AS $$ INSERT INTO wrote VALUES (1) RETURNING a $$; " +
		"CREATE FUNCTION st() RETURNS int STABLE LANGUAGE sql RETURN writes(); CREATE VIEW writing AS SELECT st() AS a",
		"SELECT * FROM writing"},
	{"a stable function with an operator", "CREATE FUNCTION adds(int, int) RETURNS int LANGUAGE sql AS $$ INSERT INTO wrote VALUES (1) RETURNING a $$; " +
		"CREATE OPERATOR @@@ (FUNCTION = adds, LEFTARG = int, RIGHTARG = int); CREATE FUNCTION st() RETURNS int STABLE LANGUAGE sql AS 'SELECT 1 @@@ 1'; CREATE VIEW writing AS SELECT st() AS a",
		"SELECT * FROM writing"},
	{"an attribute", "CREATE FUNCTION wk(plain_rows) RETURNS int LANGUAGE sql AS $$ INSERT INTO wrote VALUES (1) RETURNING a $$",
		"SELECT k.wk FROM plain_rows k; SELECT (k).wk FROM plain_rows k"},
	{"an attribute of anything", "CREATE FUNCTION wk(anyelement) RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO wrote VALUES (1); RETURN 1; END $$",
		"SELECT k.wk FROM plain_rows k"},
	{"an operator", "CREATE FUNCTION adds(int, int) RETURNS int LANGUAGE sql AS $$ INSERT INTO wrote VALUES (1) RETURNING a $$; CREATE OPERATOR @@@ (FUNCTION = adds, LEFTARG = int, RIGHTARG = int)",
		"SELECT a @@@ 1 FROM plain_rows; SELECT 1 @@@ 1"},
	{"a cast", "CREATE TYPE pair AS (a int, b int); CREATE FUNCTION casts(pair) RETURNS int LANGUAGE sql AS $$ INSERT INTO wrote VALUES (1) RETURNING a $$; CREATE CAST (pair AS int) WITH FUNCTION casts(pair)",
		"SELECT ROW(a, 1)::pair::int FROM plain_rows"},
	{"an aggregate", "CREATE FUNCTION gathers(int, plain_rows) RETURNS int LANGUAGE sql AS $$ INSERT INTO wrote VALUES (1) RETURNING a $$; CREATE AGGREGATE max(plain_rows) (SFUNC = gathers, STYPE = int)",
		"SELECT max(k) FROM plain_rows k"},
	{"a function named like a builtin", "CREATE FUNCTION pg_sleep(int) RETURNS int LANGUAGE sql AS $$ INSERT INTO wrote VALUES (1) RETURNING a $$",
		"SELECT pg_sleep(1); SELECT pg_sleep(a) FROM plain_rows"},
	{"a domain", "CREATE FUNCTION checks(int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN INSERT INTO wrote VALUES (1); RETURN true; END $$; CREATE DOMAIN checked AS int CHECK (checks(VALUE))",
		"SELECT a::checked FROM plain_rows; SELECT '1'::checked"},
	{"a policy", "CREATE FUNCTION allows() RETURNS bool LANGUAGE plpgsql AS $$ BEGIN INSERT INTO wrote VALUES (1); RETURN true; END $$; " +
		"ALTER TABLE plain_rows ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON plain_rows USING (allows()); " +
		"CREATE ROLE bound LOGIN; GRANT ALL ON plain_rows, wrote TO bound", "SELECT a FROM plain_rows"},
}

// routesOf are the protocols that a text is sent in.
var routesOf = map[string]string{
	"simple":   "Q %s\n< Z\n",
	"extended": "P - | %s\nB - | -\nE -\nS\n< Z\n",
}

// What may write, although it looks like a read, is not run again when its answer is
// lost: its client is told that nobody knows. Each way is alone in a database.
func TestReadsThatWrite(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	for i, h := range hazards {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			db := fmt.Sprintf("hazard%d", i)
			pg.SQL(t, "postgres", "CREATE DATABASE "+db)
			pg.SQL(t, db, "CREATE TABLE plain_rows (a int); INSERT INTO plain_rows VALUES (1); CREATE TABLE wrote (a int)")
			pg.SQL(t, db, h.schema)
			rows := func() string { return pg.SQL(t, db, "SELECT count(*) FROM wrote") }
			for name, opts := range map[string][]option{"": nil, "replay": {fastReplay}} {
				var cut cutter
				s := startSluice(t, pg, append(opts, cut.option, maxOpen(2), inDatabase(db), func(s *setup) {
					if h.name == "a policy" {
						s.dial.User = "bound" // whom it binds
					}
				})...)
				for sql := range strings.SplitSeq(h.texts, "; ") {
					for route, script := range routesOf {
						pg.SQL(t, db, emptied("wrote"))
						cut.arm("doomed", true)
						got := perform(t, s.addr, fmt.Sprintf(script, strings.Replace(sql, " ", " /* doomed */ ", 1)))
						waitFor(t, "the server to run what it has read", func() bool { return rows() != "0" })
						if n := rows(); n != "1" || !strings.Contains(got, "C=08007") {
							t.Errorf("%s %s: %s: %s rows, and the client was told\n%s", name, route, sql, n, got)
						}
					}
				}
				if h.name != "a view" {
					continue
				}
				// In a block nothing is committed before the COMMIT.
				pg.SQL(t, db, emptied("wrote"))
				cut.arm("doomed", true)
				got := perform(t, s.addr, "Q BEGIN\n< Z\nQ SELECT /* doomed */ * FROM writing\n< Z\nQ COMMIT\n< Z\n")
				if n := rows(); name == "replay" && (n != "1" || strings.Contains(got, "\nE ")) || name == "" && (n != "0" || !strings.Contains(got, "C=08006")) {
					t.Errorf("%s, in a block: %s rows, and the client was told\n%s", name, n, got)
				}
			}
		})
	}
}

func inDatabase(name string) option { return func(s *setup) { s.dial.Database = name } }

// What surely reads is run again, or its client is told that it can be; also beside
// functions that may write, where only those who call them by name run them.
func TestReadsThatRead(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	const tables = "CREATE TABLE plain_rows (a int); INSERT INTO plain_rows VALUES (1); CREATE VIEW reading AS SELECT a FROM plain_rows; CREATE TABLE wrote (a int);" +
		"CREATE FUNCTION stable_one() RETURNS int STABLE LANGUAGE sql AS 'SELECT 1'; CREATE VIEW calling AS SELECT stable_one() AS a;" +
		"CREATE FUNCTION fires() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; CREATE TRIGGER t BEFORE INSERT ON plain_rows FOR EACH ROW EXECUTE FUNCTION fires();"
	for db, more := range map[string]string{"no_function": "",
		"functions": "CREATE FUNCTION writes() RETURNS int LANGUAGE sql AS $$ INSERT INTO wrote VALUES (1) RETURNING a $$; CREATE FUNCTION next_of(text) RETURNS int LANGUAGE sql AS 'SELECT 1';" +
			"CREATE TABLE defaults (a int DEFAULT writes())"} {
		t.Run(db, func(t *testing.T) {
			t.Parallel()
			pg.SQL(t, "postgres", "CREATE DATABASE "+db)
			pg.SQL(t, db, tables+more)
			for name, opts := range map[string][]option{"": nil, "replay": {fastReplay}} {
				var cut cutter
				s := startSluice(t, pg, append(opts, cut.option, inDatabase(db), maxOpen(2))...)
				for _, sql := range []string{"SELECT 1", "SELECT * FROM plain_rows", "SELECT a, k.a FROM plain_rows k WHERE a = 1", "SELECT * FROM reading", "SELECT * FROM calling",
					"SELECT count(*), now() FROM plain_rows", "SELECT pg_sleep(0)", "SELECT a + 1 FROM plain_rows", "SELECT stable_one() FROM reading"} {
					for route, script := range routesOf {
						cut.arm("doomed", true)
						got := perform(t, s.addr, fmt.Sprintf(script, strings.Replace(sql, " ", " /* doomed */ ", 1)))
						told := strings.Contains(got, "C=08006")
						if strings.Contains(sql, "stable_one") { // a function of a user's is a write
							told = strings.Contains(got, "C=08007")
						} else if name == "replay" {
							told = !strings.Contains(got, "E S=")
						}
						if !told {
							t.Errorf("%s %s: %s: the client was told\n%s", name, route, sql, got)
						}
					}
				}
			}
		})
	}
}

// moving is a backend's connection in front of whose question whether reads only read another client changes the
// schema.
type moving struct {
	*cuttable
	move func()
}

func (m *moving) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("p.prorettype")) {
		m.move()
	}
	return m.cuttable.Write(b)
}

// Where another client changes the schema in front of twenty questions whether reads only read, a lost read is still
// told to be one.
func TestReadsThatReadBesideDDL(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE plain_rows (a int); INSERT INTO plain_rows VALUES (1)")
	var cut cutter
	var maker *pgx.Conn
	const ( // whether a question has the schema changed
		off = iota
		armed
		busy // with the change, which has questions of its own
	)
	var state, left atomic.Int32
	var using sync.Mutex // the maker and moves
	moves := 0
	makes := func(name string) {
		using.Lock()
		defer using.Unlock()
		run(t, maker, "CREATE VIEW "+name+" AS SELECT 1")
		moves++
	}
	s := startSluice(t, pg, maxOpen(4), func(s *setup) {
		s.dial.Wrap = func(conn net.Conn) net.Conn {
			return &moving{&cuttable{Conn: rawconn.Wrap(conn), c: &cut, socket: conn}, func() {
				if left.Load() > 0 && state.CompareAndSwap(armed, busy) {
					left.Add(-1)
					makes("beside_" + rand.Text())
					state.CompareAndSwap(busy, armed)
				}
			}}
		}
	})
	maker = connectTo(t, s, "postgres", pgx.QueryExecModeSimpleProtocol)
	for route, script := range routesOf {
		makes("before_" + route)
		left.Store(20)
		state.Store(armed)
		cut.arm("doomed", true)
		if got := perform(t, s.addr, fmt.Sprintf(script, "SELECT /* doomed */ a + 1 FROM plain_rows")); !strings.Contains(got, "C=08006") {
			t.Errorf("%s: the client was told\n%s", route, got)
		}
		state.Store(off)
	}
	using.Lock()
	defer using.Unlock()
	if moves < 4 {
		t.Errorf("the schema was changed %d times", moves)
	}
}

// A function that is made here is known at once, and one that others have made before
// anything is run again.
func TestReadsThatWriteSince(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE wrote (a int)")
	statements := []string{"CREATE FUNCTION writes() RETURNS int LANGUAGE sql AS $$ INSERT INTO wrote VALUES (1) RETURNING a $$", "CREATE VIEW writing AS SELECT writes()"}
	for name, opts := range map[string][]option{"made here": nil, "made here, with replay": {fastReplay}, "made elsewhere, with replay": {fastReplay}} {
		var cut cutter
		s := startSluice(t, pg, append(opts, cut.option, maxOpen(2))...)
		perform(t, s.addr, "Q SELECT count(*) FROM wrote\n< Z\n")
		for _, sql := range statements {
			if strings.HasPrefix(name, "made here") {
				perform(t, s.addr, "Q "+sql+"\n< Z\n")
			} else {
				pg.SQL(t, "postgres", sql)
			}
		}
		cut.arm("doomed", true)
		got := perform(t, s.addr, "Q SELECT /* doomed */ * FROM writing\n< Z\n")
		waitFor(t, "the server to run what it has read", func() bool { return pg.SQL(t, "postgres", "SELECT count(*) FROM wrote") != "0" })
		if n := strings.TrimSpace(pg.SQL(t, "postgres", "SELECT count(*) FROM wrote")); n != "1" || !strings.Contains(got, "C=08007") {
			t.Errorf("%s: %s rows, and the client was told\n%s", name, n, got)
		}
		pg.SQL(t, "postgres", "DROP VIEW writing; DROP FUNCTION writes; TRUNCATE wrote")
	}
}
