package proxy_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy"
)

const leavingFunctions = `
CREATE FUNCTION does(text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXECUTE $1; RETURN 1; END $$;
CREATE FUNCTION pg_does(text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXECUTE $1; RETURN 1; END $$;
CREATE TABLE leaving_rows (a int); INSERT INTO leaving_rows VALUES (1);`

const unseenFunctions = `
CREATE FUNCTION leaves() RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'CREATE TEMP TABLE IF NOT EXISTS left_table AS SELECT 1 AS secret'; PERFORM pg_advisory_lock(7); RETURN 1; END $$;
CREATE FUNCTION hands_on() RETURNS int LANGUAGE plpgsql AS $$ DECLARE x int; BEGIN x := leaves(); RETURN x; END $$;
CREATE FUNCTION on_row() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE x int; BEGIN x := hands_on(); RETURN NEW; END $$;
CREATE TABLE unseen_rows (a int);
CREATE TRIGGER leaves BEFORE INSERT ON unseen_rows FOR EACH ROW EXECUTE FUNCTION on_row();
CREATE VIEW unseen_view AS SELECT hands_on() AS a;
CREATE TABLE unseen_default (a int, b int DEFAULT leaves());`

// looksAround shows what a session has at its backend.
const looksAround = `Q SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema()), (SELECT count(*) FROM pg_proc WHERE pronamespace = pg_my_temp_schema()), (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()), (SELECT count(*) FROM pg_prepared_statements WHERE from_sql), (SELECT count(*) FROM pg_cursors WHERE is_holdable), (SELECT count(*) FROM pg_listening_channels())` + "\n< Z\n"

// What a function has left at a backend is its client's alone, as on a connection of its own, and
// nobody's when that client has gone.
func TestWhatFunctionsLeave(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", leavingFunctions)
	q := func(sql string) string { return "Q " + sql + "\n< Z\n" }
	scripts := map[string]string{
		"temporary table":         q("SELECT does('CREATE TEMP TABLE left_table AS SELECT 1 AS a')"),
		"in a block":              q("BEGIN") + q("SELECT does('CREATE TEMP TABLE left_table AS SELECT 1 AS a')") + q("COMMIT"),
		"rolled back":             q("BEGIN") + q("SELECT does('CREATE TEMP TABLE left_table AS SELECT 1 AS a')") + q("ROLLBACK"),
		"temporary function":      q("SELECT does('CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS ''SELECT 1''')"),
		"temporary type":          q("SELECT does('CREATE TYPE pg_temp.e AS ENUM (''a'')')"),
		"dropped at the end":      q("SELECT does('CREATE TEMP TABLE left_table ON COMMIT DROP AS SELECT 1 AS a')"),
		"advisory lock":           q("SELECT does('SELECT pg_advisory_lock(1)')"),
		"lock of what fails":      q("SELECT does('SELECT pg_advisory_lock(1)'), 1/0"),
		"lock, rolled back":       q("BEGIN") + q("SELECT does('SELECT pg_advisory_lock(1)')") + q("ROLLBACK"),
		"lock of a failed string": q("SELECT does('SELECT pg_advisory_lock(1)'); SELECT 1/0"),
		"lock, given up":          q("SELECT does('SELECT pg_advisory_lock(1)')") + q("SELECT does('SELECT pg_advisory_unlock_all()')"),
		"prepared":                q("SELECT does('PREPARE left_statement AS SELECT 1')"),
		"prepared, rolled back":   q("BEGIN") + q("SELECT does('PREPARE left_statement AS SELECT 1')") + q("ROLLBACK"),
		"cursor":                  q("SELECT does('DECLARE left_cursor CURSOR WITH HOLD FOR SELECT 1')"),
		"listening":               q("SELECT does('LISTEN left_channel')"),
		"extended":                ext("SELECT does('LISTEN left_channel')") + "S\n< Z\n",
		"in a pipeline":           ext("SELECT 1") + ext("SELECT does('PREPARE left_statement AS SELECT 1')") + ext("SELECT 1/0") + "S\n< Z\n",
		"in a write":              q("DELETE FROM leaving_rows WHERE does('LISTEN left_channel') = 2; INSERT INTO leaving_rows SELECT does('SELECT pg_advisory_lock(1)')"),
		"in a COPY":               q("COPY (SELECT does('PREPARE left_statement AS SELECT 1')) TO STDOUT"),
		"by EXPLAIN":              q("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT does('LISTEN left_channel')"),
		"of a builtin's prefix":   q("SELECT pg_does('SELECT pg_advisory_lock(1)')"),
		"path of the transaction": q("BEGIN") + q("SET LOCAL search_path TO pg_temp") + q("CREATE TABLE left_table (a int)") + q("COMMIT"),
		"path by set_config":      q("BEGIN") + q("SELECT set_config('search_path', 'pg_temp', true)") + q("SELECT 1 AS a INTO left_table") + q("COMMIT"),
		"path, in a string":       q("SET LOCAL search_path TO pg_temp; CREATE TABLE left_table (a int)"),
		"path of a function":      q("BEGIN") + q("SELECT does('SET LOCAL search_path TO pg_temp')") + q("CREATE TABLE left_table AS SELECT 1 AS a") + q("COMMIT"),
		"with a timeout":          q("SET statement_timeout = '300ms'") + q("SELECT does('LISTEN left_channel')"),
		"by a FunctionCall":       "F 2880 | 8\n< Z\n", // pg_advisory_lock(bigint)
		"of an unread text":       q("SELECT does('LISTEN left_channel'), " + strings.Repeat("(", 2100) + "1" + strings.Repeat(")", 2100)),
		"unread, in a block":      q("BEGIN") + q("SELECT does('PREPARE left_statement AS SELECT 1'), "+strings.Repeat("(", 2100)+"1"+strings.Repeat(")", 2100)) + q("COMMIT"),
		"nothing":                 q("SELECT does('SELECT 1')"),
	}
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) { othersFindNothing(t, pg, script) })
	}
}

// othersFindNothing plays a script on the only backend that is free, and has other clients look at
// what they get: right behind the script, and behind the client's own look, nobody gets that backend, or with
// nothing on it; when the client has gone somebody gets one.
func othersFindNothing(t *testing.T, pg postgres, script string) {
	t.Helper()
	s := startSluice(t, pg, maxOpen(2), func(s *setup) { s.backends.CheckoutWait = 250 * time.Millisecond })
	holder := dialRaw(t, s.addr)
	holder.say(t, "Q BEGIN\n< Z\nQ SELECT 1\n< Z\n")
	direct, c := dialRaw(t, pg.addr), dialRaw(t, s.addr)
	fresh := dialRaw(t, pg.addr).play(t, looksAround)
	// Locks of the two ways must not meet: the direct client's are gone when its connection is.
	want := direct.play(t, script) + direct.play(t, looksAround)
	direct.say(t, "X\n< $\n")
	beside := func(when string) {
		if found := dialRaw(t, s.addr).play(t, looksAround); found != fresh && !strings.Contains(found, "C=53300") {
			t.Errorf("%s another client finds\n%s", when, found)
		}
	}
	got := c.play(t, script)
	beside("right behind it")
	if got += c.play(t, looksAround); got != want {
		t.Errorf("its client: %s", firstDifference(got, want))
	}
	beside("behind its client's look")
	c.say(t, "X\n< $\n")
	other := dialRaw(t, s.addr)
	waitFor(t, "a backend that is free", func() bool { return !strings.Contains(other.say(t, "Q SELECT 1\n< Z\n"), "C=53300") })
	if found := other.play(t, looksAround); found != fresh {
		t.Errorf("behind it another client finds\n%s", found)
	}
}

// Where the question for what functions have left has no answer, a session that may have lost some of it
// ends: one that has called a function, or of whose text nobody knows that. Any other goes on.
func TestLooksWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string
		ends bool
	}{
		"a function":      {"SELECT does('LISTEN left_channel') /*c*/", true},
		"an unread text":  {"SELECT does('LISTEN left_channel'), " + strings.Repeat("(", 2100) + "1" + strings.Repeat(")", 2100) + " /*c*/", true},
		"DDL, which none": {"CREATE TABLE left_nothing (a int) /*c*/", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := newPostgres(t)
			pg.SQL(t, "postgres", leavingFunctions)
			var p ownPlanter
			s := startSluice(t, pg, p.option, maxOpen(2))
			c := dialRaw(t, s.addr)
			c.say(t, "Q SELECT 1 /*c*/\n< Z\n")
			var cut atomic.Int64
			p.plants(func(message []byte) ownFault {
				if cut.Load() > 0 || !strings.Contains(string(message), "pg_listening_channels") {
					return ownFault{}
				}
				cut.Add(1)
				return ownFaults["loss"]
			})
			got := c.say(t, "Q "+test.text+"\n< Z\nQ SELECT count(*) FROM leaving_rows /*c*/\n< Z\n")
			if ended := strings.Count(got, "Z I") < 2; cut.Load() == 0 || ended != test.ends {
				t.Errorf("%d questions were cut; the session has ended: %v, want %v:\n%s", cut.Load(), ended, test.ends, got[max(0, len(got)-400):])
			}
		})
	}
}

// What is left where no text calls a function is found too: by triggers, defaults and views, and by
// the functions that these call.
func TestWhatUnseenFunctionsLeave(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", unseenFunctions)
	for name, script := range map[string]string{
		"trigger":           "Q INSERT INTO unseen_rows VALUES (1)\n< Z\n",
		"default":           "Q BEGIN\n< Z\nQ INSERT INTO unseen_default VALUES (1)\n< Z\nQ ROLLBACK\n< Z\n",
		"view":              "Q SELECT a FROM unseen_view\n< Z\n",
		"left in its block": "Q BEGIN\n< Z\nQ INSERT INTO unseen_rows VALUES (1)\n< Z\n",
		"COPY":              "Q COPY unseen_rows FROM STDIN\n< G\nd 1\\n\nc\n< Z\n",
	} {
		t.Run(name, func(t *testing.T) { othersFindNothing(t, pg, script) })
	}
}

// A function that leaves something is one more reason to keep a backend, and counts as one: where no
// more sessions may, its session ends, and nobody gets what it has left.
func TestTooMuchIsLeft(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", leavingFunctions)
	s := startSluice(t, pg, maxOpen(2), configure(func(c *proxy.Config) { c.MaxPins = 1 }))
	keeper := dialRaw(t, s.addr)
	keeper.say(t, "Q LISTEN a\n< Z\n")
	c := dialRaw(t, s.addr)
	if got := c.say(t, "Q SELECT does('PREPARE left_statement AS SELECT 1')\n< $\n"); !strings.Contains(got, "Z I") || !strings.Contains(got, "E S=FATAL") {
		t.Errorf("told %s", got)
	}
	if found := dialRaw(t, s.addr).play(t, looksAround); found != dialRaw(t, pg.addr).play(t, looksAround) {
		t.Errorf("another client finds\n%s", found)
	}
}

// What a function makes hides what others see by that name: in its session alone, and from its call on. Nor does
// anybody learn of it what a text returns, or that it can be parsed.
func TestNamesThatFunctionsHide(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", leavingFunctions+unseenFunctions+`CREATE TABLE hidden AS SELECT text 'public' AS a;
		CREATE FUNCTION hides() RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'CREATE TEMP TABLE hidden ON COMMIT DROP AS SELECT 7 AS seven, true AS b'; RETURN 1; END $$;
		CREATE VIEW hiding AS SELECT hides() AS a`)
	asks := func(sql string) string { return "P s | " + sql + "\nD S s\nB - | s\nE -\nC S s\nS\n< Z\n" }
	parses := func(sql string) string { return "P s | " + sql + "\nH\nC S s\nS\n< Z\n" }
	for name, hide := range map[string]string{
		"table":        "Q SELECT does('CREATE TEMP TABLE hidden ON COMMIT DROP AS SELECT 7 AS seven, true AS b')\n< Z\n",
		"extended":     ext("SELECT does('CREATE TEMP TABLE hidden ON COMMIT DROP AS SELECT 7 AS seven, true AS b')") + "S\n< Z\n",
		"view":         "Q SELECT * FROM hiding\n< Z\n",
		"in one group": ext("SELECT does('CREATE TEMP TABLE hidden ON COMMIT DROP AS SELECT 7 AS seven, true AS b')") + asks("SELECT * FROM hidden"),
	} {
		for end, told := range map[string]string{"committed": "Q COMMIT\n< Z\n", "rolled back": "Q ROLLBACK\n< Z\n"} {
			for _, opts := range [][]option{nil, {fastReplay}, {configure(func(c *proxy.Config) { c.DescribeMemory = time.Hour })}} {
				s := startSluice(t, pg, append(opts, maxOpen(1))...)
				var got, want strings.Builder
				direct, through := []*rawClient{dialRaw(t, pg.addr), dialRaw(t, pg.addr)}, []*rawClient{dialRaw(t, s.addr), dialRaw(t, s.addr)}
				for i, script := range []string{1: asks("SELECT * FROM hidden"),
					2: "Q BEGIN\n< Z\n" + hide + asks("SELECT * FROM hidden") + parses("SELECT seven FROM hidden") + asks("SELECT b FROM hidden") + told,
					3: asks("SELECT * FROM hidden") + parses("SELECT seven FROM hidden") + asks("SELECT b FROM hidden"),
					4: asks("SELECT * FROM hidden") + "Q BEGIN\n< Z\n" + hide + asks("SELECT * FROM hidden") + told + asks("SELECT * FROM hidden")} {
					want.WriteString(direct[i%2].play(t, script))
					got.WriteString(through[i%2].play(t, script))
				}
				if got.String() != want.String() {
					t.Errorf("%s, %s, %d: %s", name, end, len(opts), firstDifference(got.String(), want.String()))
				}
			}
		}
	}
}

// A role that a function sets stays its client's, in a session that keeps its backend for what another function has
// left, and where no report of the server's tells of the role. The next client has its own.
func TestRolesThatFunctionsSet(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", leavingFunctions+`CREATE ROLE plain LOGIN; CREATE ROLE one; CREATE ROLE two; GRANT one, two TO plain; GRANT CREATE, USAGE ON SCHEMA public TO one, two, plain`)
	q := func(sql string) string { return "Q " + sql + "\n< Z\n" }
	look := q("SELECT current_user, session_user, current_setting('role')")
	reset := startSluice(t, pg)
	for _, script := range []string{q("SELECT does('RESET ROLE')") + look, q("SELECT does('SET ROLE two')") + look + q("SELECT does('RESET ROLE')") + look,
		q("BEGIN") + q("SELECT does('RESET ROLE')") + look + q("COMMIT") + look, q("SET ROLE NONE") + q("BEGIN") + q("SELECT does('SELECT 1')") + look + q("COMMIT") + look,
		q("SET ROLE two") + q("DO 'BEGIN RESET ROLE; END'") + look, q("LISTEN a") + q("SELECT does('RESET ROLE')") + look} {
		direct, _ := startRaw(t, pg.addr, map[string]string{"role": "one"})
		c, _ := startRaw(t, reset.addr, map[string]string{"role": "one"})
		if got, want := c.play(t, script), direct.play(t, script); got != want {
			t.Errorf("given at the startup: %s", firstDifference(got, want))
		}
	}
	for name, script := range map[string]string{
		"set":                   q("SELECT does('SET ROLE one')"),
		"of a kept backend":     q("SELECT does('LISTEN a')") + q("SELECT does('SET ROLE one')") + look + q("SELECT does('UNLISTEN *')"),
		"authorization":         q("SELECT does('LISTEN a')") + q("SELECT does('SET SESSION AUTHORIZATION one')") + look,
		"together":              q("SELECT does('LISTEN a; SET ROLE one')") + look + q("SELECT does('UNLISTEN *')"),
		"and reset":             q("SELECT does('SET ROLE one')") + look + q("SELECT does('RESET ROLE')"),
		"in a block":            q("BEGIN") + q("SELECT does('SET ROLE one')") + look + q("COMMIT"),
		"rolled back":           q("BEGIN") + q("SELECT does('SET ROLE one')") + look + q("ROLLBACK"),
		"for its transaction":   q("BEGIN") + q("SELECT does('SET LOCAL ROLE one')") + look + q("COMMIT"),
		"behind the client's":   q("SET ROLE two") + look + q("SELECT does('SET ROLE one')"),
		"the client's":          q("SET ROLE two") + look + q("SELECT does('SELECT 1')"),
		"by set_config":         q("SELECT does('SELECT set_config(''role'', ''one'', false)')"),
		"two, one by one":       q("SELECT does('SET ROLE one')") + look + q("SELECT does('SET ROLE two')"),
		"a name with a quote":   q("SELECT does('CREATE ROLE \"o\"\"ne\"; SET ROLE \"o\"\"ne\"; CREATE TEMP TABLE x (a int)')") + look + q("SELECT does('DROP TABLE x')") + look + q("SELECT does('RESET ROLE; DROP ROLE \"o\"\"ne\"')"),
		"with a short deadline": q("SET statement_timeout = '300ms'") + q("SELECT does('SET ROLE one')"),
	} {
		for _, user := range []string{"postgres", "plain"} {
			s := startSluice(t, pg, maxOpen(2), func(s *setup) { s.dial.User = user })
			direct, _ := startRaw(t, pg.addr, map[string]string{"user": user})
			c := dialRaw(t, s.addr)
			if got, want := c.play(t, script+look+look), direct.play(t, script+look+look); got != want {
				t.Errorf("%s, %s: %s", name, user, firstDifference(got, want))
			}
			for range 2 {
				fresh, _ := startRaw(t, pg.addr, map[string]string{"user": user})
				if got, want := dialRaw(t, s.addr).play(t, look), fresh.play(t, look); got != want {
					t.Errorf("%s, %s: another: %s", name, user, firstDifference(got, want))
				}
			}
		}
	}
}
