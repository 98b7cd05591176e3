package proxy_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-proxy/sluice/retry"
)

// Statements that meet a conflict once: stumble(n) at the statement, trip(n) at
// the n-th row it is asked for, and an INSERT into late at COMMIT. Sequences are not
// rolled back, so they know.
const stumbling = `
CREATE SEQUENCE stumble_1; CREATE SEQUENCE stumble_2; CREATE SEQUENCE stumble_3; CREATE SEQUENCE stumble_4;
CREATE FUNCTION stumble(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
	IF nextval('stumble_' || n) = 1 THEN
		RAISE EXCEPTION 'change conflicts with another transaction, please retry: (OC000)' USING ERRCODE = '40001';
	END IF;
	RETURN n; END $$;
CREATE FUNCTION second(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
	IF nextval('stumble_' || n) = 2 THEN
		RAISE EXCEPTION 'schema has been updated by another transaction, please retry: (OC001)' USING ERRCODE = '40001';
	END IF;
	RETURN n; END $$;
CREATE FUNCTION die(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
	IF nextval('stumble_' || n) = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(1); END IF;
	RETURN n; END $$;
CREATE TABLE late (n int) WITH (autovacuum_enabled = off);
CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM stumble(NEW.n); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late();
CREATE TABLE stumbled (a int) WITH (autovacuum_enabled = off); CREATE TABLE stumble_rows AS SELECT generate_series(1, 300) AS g;`

// stumbles sets which statements meet a conflict the next time, and empties the tables, and more of them.
func stumbles(t testing.TB, pg postgres, yes bool, more ...string) {
	t.Helper()
	pg.SQL(t, "postgres", fmt.Sprintf(`SELECT setval('stumble_' || n, %d, false) FROM generate_series(1, 4) n; %s`,
		map[bool]int{true: 1, false: 100}[yes], emptied(append(more, "late", "stumbled")...)))
}

// emptied is SQL that does what TRUNCATE does, waits included, without new files: a server is slow to make them.
// Rows stay in the order of their INSERTs if the table is created with autovacuum_enabled = off.
func emptied(tables ...string) string {
	names := strings.Join(tables, ", ")
	return "LOCK TABLE " + names + "; DELETE FROM " + strings.Join(tables, "; DELETE FROM ")
}

// fastReplay replays without long pauses, and as often as a test wants.
func fastReplay(s *setup) {
	withReplay(s)
	s.proxy.Retry.Policy.FirstDelay = time.Millisecond
	s.proxy.Retry.Policy.BaseDelay, s.proxy.Retry.Policy.MaxDelay = time.Millisecond, time.Millisecond
	s.proxy.Retry.Policy.MaxRetries = 20
	s.proxy.Retry.BudgetBurst, s.proxy.Retry.BudgetPerSecond = 1e6, 1e6
}

// slowReplay gives its backend away between two attempts.
func slowReplay(s *setup) {
	fastReplay(s)
	s.proxy.Retry.Policy.FirstDelay = 210 * time.Millisecond
	s.proxy.Retry.Policy.BaseDelay, s.proxy.Retry.Policy.MaxDelay = 210*time.Millisecond, 210*time.Millisecond
	s.proxy.Retry.Policy.JitterFactor = 0
}

// A client cannot tell that its transaction met a conflict: what it is answered
// is what PostgreSQL answers when there is none.
func TestConflictsAreInvisible(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling)
	routes := map[string]*sluice{
		"fast":    startSluice(t, pg, fastReplay, maxOpen(3)),
		"slow":    startSluice(t, pg, slowReplay, maxOpen(3)),
		"dsql":    startSluice(t, pg, fastReplay, asDSQL),
		"session": startSluice(t, pg, fastReplay, asDSQL, sessionPairing, maxOpen(5)),
	}
	for name, script := range map[string]string{
		"autocommit":              "Q SELECT stumble(1)\n< Z",
		"autocommit at commit":    "Q INSERT INTO late VALUES (1) RETURNING n\n< Z\nQ SELECT count(*) FROM late\n< Z",
		"a block in one string":   "Q BEGIN; INSERT INTO stumbled VALUES (1); INSERT INTO late VALUES (1); SELECT stumble(2); COMMIT\n< Z\nQ SELECT count(*) FROM stumbled\n< Z",
		"at a statement":          "Q BEGIN\nQ INSERT INTO stumbled VALUES (7) RETURNING a\n< Z Z\nQ SELECT * FROM stumbled\nQ SELECT stumble(1)\n< Z Z\nQ COMMIT\nQ SELECT * FROM stumbled\n< Z Z",
		"at the first statement":  "Q BEGIN\n< Z\nQ SELECT stumble(1)\n< Z\nQ INSERT INTO stumbled VALUES (1)\n< Z\nQ COMMIT\n< Z\nQ SELECT * FROM stumbled\n< Z",
		"at COMMIT":               "Q BEGIN\n< Z\nQ INSERT INTO stumbled VALUES (7) RETURNING a\n< Z\nQ INSERT INTO late VALUES (3)\n< Z\nQ COMMIT\n< Z\nQ SELECT * FROM stumbled, late\n< Z",
		"in a result":             "Q BEGIN\n< Z\nQ SELECT g, CASE WHEN g = 250 THEN stumble(1) END AS s FROM stumble_rows\n< Z\nQ COMMIT\n< Z",
		"twice":                   "Q BEGIN\n< Z\nQ SELECT stumble(1)\n< Z\nQ SELECT stumble(2)\n< Z\nQ INSERT INTO late VALUES (3), (4)\n< Z\nQ COMMIT\n< Z",
		"during a replay":         "Q BEGIN\n< Z\nQ SELECT second(1)\n< Z\nQ SELECT stumble(4)\n< Z\nQ COMMIT\n< Z",
		"extended":                "Q BEGIN\n< Z\nP s1 | SELECT $1::int + stumble(1) AS a\nB - | s1 | 5\nD P -\nE -\nS\n< Z\nB - | s1 | 6\nE -\nS\n< Z\nQ COMMIT\n< Z\nB - | s1 | 7\nE -\nS\n< Z",
		"prepared in the block":   "Q BEGIN\n< Z\nP s1 | SELECT $1::int AS a\nD S s1\nS\n< Z\nB - | s1 | 5\nE -\nS\n< Z\nQ SELECT stumble(1)\n< Z\nB - | s1 | 6\nE -\nS\n< Z\nC S s1\nS\n< Z\nQ INSERT INTO late VALUES (2)\n< Z\nQ COMMIT\n< Z",
		"a pipeline":              "P - | INSERT INTO stumbled VALUES ($1)\nB - | - | 1\nE -\nP - | INSERT INTO late VALUES (1)\nB - | -\nE -\nP - | SELECT stumble(2)\nB - | -\nE -\nS\n< Z\nQ SELECT * FROM stumbled\n< Z",
		"with a BEGIN of its own": "P - | BEGIN\nB - | -\nE -\nP - | INSERT INTO stumbled VALUES ($1)\nB - | - | 1\nE -\nS\n< Z\nP - | SELECT stumble(2)\nB - | -\nE -\nS\n< Z\nP - | COMMIT\nB - | -\nE -\nS\n< Z\nQ SELECT * FROM stumbled\n< Z",
		"flushed":                 "Q BEGIN\n< Z\nP - | SELECT g FROM stumble_rows WHERE g < 4\nB c1 | -\nE c1 2\nH\n< s\nP - | SELECT stumble(1)\nB - | -\nE -\nH\n< C\nE c1\nH\n< C\nS\n< Z\nQ COMMIT\n< Z",
		"flushed outside":         "P - | SELECT g FROM stumble_rows WHERE g < 4\nB c1 | -\nE c1 2\nH\n< s\nP - | SELECT stumble(1)\nB - | -\nE -\nH\n< C\nE c1\nH\n< C\nS\n< Z",
		"flushed, then twice":     "P s1 | SELECT 1 AS one\nD S s1\nH\n< T\nB - | s1\nE -\nP - | INSERT INTO stumbled VALUES (1)\nB - | -\nE -\nP - | SELECT stumble(1)\nB - | -\nE -\nP - | SELECT stumble(2)\nB - | -\nE -\nS\n< Z\nQ SELECT * FROM stumbled\n< Z",
		"portals half read":       "Q BEGIN\n< Z\nP - | SELECT g FROM stumble_rows WHERE g < 6\nB c1 | -\nE c1 2\nS\n< Z\nQ SELECT stumble(1)\n< Z\nE c1 2\nS\n< Z\nQ SELECT stumble(2)\n< Z\nE c1\nS\n< Z\nC P c1\nS\n< Z\nQ INSERT INTO late VALUES (3)\n< Z\nQ COMMIT\n< Z",
		"a cursor":                "Q BEGIN\n< Z\nQ DECLARE k CURSOR FOR SELECT g FROM stumble_rows\nQ FETCH 2 FROM k\nQ SELECT stumble(1)\nQ FETCH 2 FROM k\n< Z Z Z Z\nQ COMMIT\n< Z",
		"settings":                "Q BEGIN\n< Z\nQ SET TimeZone = 'Asia/Tokyo'\n< Z\nQ SELECT stumble(1)\n< Z\nQ SHOW TimeZone\n< Z\nQ INSERT INTO late VALUES (2)\n< Z\nQ COMMIT\n< Z\nQ SHOW TimeZone\n< Z\nQ BEGIN; SET TimeZone = 'UTC'; SELECT stumble(3); ROLLBACK\n< Z\nQ SHOW TimeZone\n< Z",
		"settings in the turn":    "Q BEGIN\n< Z\nQ SELECT 1\n< Z\nQ SET TimeZone = 'Asia/Tokyo'; SELECT stumble(1)\n< Z\nQ COMMIT\n< Z\nQ SHOW TimeZone\n< Z\nQ BEGIN\n< Z\nQ SET TimeZone = 'UTC'\n< Z\nQ SELECT stumble(2); ROLLBACK; BEGIN\n< Z\nQ COMMIT\n< Z\nQ SHOW TimeZone\n< Z\nconnect\nQ SHOW TimeZone\n< Z",
		"an inner COMMIT":         "Q BEGIN\n< Z\nQ INSERT INTO late VALUES (4)\n< Z\nQ SET TimeZone = 'Asia/Tokyo'\n< Z\nQ SELECT 1; COMMIT; BEGIN\n< Z\nQ ROLLBACK\n< Z\nQ SHOW TimeZone\n< Z\nconnect\nQ SHOW TimeZone\n< Z",
		"an error after it":       "Q BEGIN\n< Z\nQ SELECT stumble(1)\n< Z\nQ SELECT 1/0\n< Z\nQ SELECT 1\n< Z\nQ ROLLBACK\n< Z\nP s1 | SELECT stumble(2), 1/0\nP s2 | SELECT 1\nB - | s1\nE -\nP s3 | SELECT 2\nS\n< Z\nB - | s2\nE -\nS\n< Z\nB - | s3\nE -\nS\n< Z",
		"NULL and empty":          "Q BEGIN\n< Z\nQ SELECT NULL AS n, '' AS e\n< Z\nP - | SELECT $1::text IS NULL AS n, $2::text AS e\nB - | - | \\N,\nE -\nS\n< Z\nQ SELECT stumble(1)\n< Z\nQ COMMIT\n< Z",
		"streamed":                "Q BEGIN\n< Z\nQ SELECT g, repeat('x', 1000) AS x, CASE WHEN g = 250 THEN stumble(1) WHEN g = 260 THEN stumble(2) END AS s FROM stumble_rows\n< Z\nQ SELECT stumble(3)\n< Z\nQ COMMIT\n< Z",
		"streamed in a pipeline":  "P - | SELECT g, repeat('x', 1000) AS x FROM stumble_rows\nB - | -\nE -\nP - | INSERT INTO late VALUES (1), (2)\nB - | -\nE -\nS\n< Z\nQ SELECT * FROM late\n< Z",
		"a suspended writer":      "Q BEGIN\n< Z\nP - | INSERT INTO stumbled VALUES (7) RETURNING a\nB - | -\nE - 1\nP - | SELECT count(*) FROM stumbled\nB - | -\nE -\nS\n< Z\nP i | INSERT INTO stumbled VALUES (8) RETURNING a\nB - | i\nE - 1\nP c | SELECT count(*) FROM stumbled\nB - | c\nE -\nB - | i\nE - 1\nB - | c\nE -\nS\n< Z\nQ SELECT stumble(1)\n< Z\nQ INSERT INTO late VALUES (2)\n< Z\nQ COMMIT\n< Z",
		"a notice":                "Q BEGIN\n< Z\nQ DROP TABLE IF EXISTS no_such_table\n< Z\nQ SELECT stumble(1)\n< Z\nQ COMMIT\n< Z",
		"DDL":                     "Q BEGIN\n< Z\nQ CREATE TABLE stumble_made (a int)\n< Z\nP - | SELECT * FROM stumble_made\nB - | -\nE -\nS\n< Z\nQ SELECT stumble(1)\n< Z\nQ DROP TABLE stumble_made\n< Z\nQ INSERT INTO late VALUES (2)\n< Z\nQ COMMIT\n< Z",
		"pipelined Syncs":         "P - | SELECT stumble(1)\nB - | -\nE -\nS\nP - | SELECT stumble(2)\nB - | -\nE -\nS\nQ BEGIN\nQ SELECT stumble(3)\nQ INSERT INTO late VALUES (4)\nQ COMMIT\nQ SELECT * FROM late\n< Z Z Z Z Z Z Z",
	} {
		t.Run(name, func(t *testing.T) {
			stumbles(t, pg, false)
			want := perform(t, pg.addr, script)
			for route, s := range routes {
				for round := range 2 {
					stumbles(t, pg, true)
					before := replayed(t, s)
					if got := perform(t, s.addr, script); got != want {
						t.Errorf("through Sluice (%s, round %d):\n%s", route, round, firstDifference(got, want))
					}
					if replayed(t, s) == before {
						t.Errorf("%s: nothing was replayed", route)
					}
				}
				if s.backends.Stats().InUse > 0 && route != "session" {
					waitFor(t, "backends to come back", func() bool { return s.backends.Stats().InUse == 0 })
				}
			}
		})
	}
}

// replayed is how many replays there were.
func replayed(t testing.TB, s *sluice) (n float64) { return s.sum(t, "dsql_tx_retries_total") }

// sum adds up all series of a metric.
func (s *sluice) sum(t testing.TB, name string) (n float64) {
	t.Helper()
	for _, more := range s.series(t, name) {
		n += more
	}
	return n
}

// The loss of a backend before anything that can commit was sent is as invisible.
func TestLossIsInvisible(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling)
	s := startSluice(t, pg, fastReplay, maxOpen(3))
	for name, script := range map[string]string{
		"first statement": "Q BEGIN\n< Z\nQ SELECT die(1)\n< Z\nQ COMMIT\n< Z",
		"later":           "Q BEGIN\n< Z\nQ INSERT INTO stumbled VALUES (7) RETURNING a\n< Z\nP s1 | SELECT $1::int AS a\nB - | s1 | 5\nE -\nS\n< Z\nQ SELECT die(1)\n< Z\nB - | s1 | 5\nE -\nS\n< Z\nQ SELECT * FROM stumbled\n< Z\nQ COMMIT\n< Z",
		"first group":     "P - | BEGIN\nB - | -\nE -\nP - | INSERT INTO stumbled VALUES (die(1))\nB - | -\nE -\nS\n< Z\nP - | SELECT * FROM stumbled\nB - | -\nE -\nS\n< Z\nQ COMMIT\n< Z",
		"and a conflict":  "Q BEGIN\n< Z\nQ SELECT stumble(1)\n< Z\nQ SELECT die(2)\n< Z\nQ INSERT INTO late VALUES (3)\n< Z\nQ COMMIT\n< Z",
		"flushed":         "Q BEGIN\n< Z\nP - | SELECT g FROM stumble_rows WHERE g < 4\nB c1 | -\nE c1 2\nH\n< s\nP - | SELECT die(1)\nB - | -\nE -\nH\n< C\nE c1\nH\n< C\nS\n< Z\nQ COMMIT\n< Z",
	} {
		t.Run(name, func(t *testing.T) {
			stumbles(t, pg, false)
			want := perform(t, pg.addr, script)
			stumbles(t, pg, true)
			if got := perform(t, s.addr, script); got != want {
				t.Errorf("through Sluice:\n%s", firstDifference(got, want))
			}
		})
	}
}

// A replay that waits for an answer before it sends on may be told an error, or
// that its transaction is over: it must still come to its end.
func TestReplayThatEndsEarly(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling)
	// The conflict is one of the schema, behind which a replay prepares statements
	// again, and asks what they return.
	pg.SQL(t, "postgres", `CREATE TABLE altered (n int); CREATE FUNCTION altered() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF nextval('stumble_4') = 1 THEN RAISE EXCEPTION 'schema has been updated by another transaction (OC001)' USING ERRCODE = '40001'; END IF;
		RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER altered AFTER INSERT ON altered DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION altered();
		CREATE FUNCTION stays(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
			IF n > 1 AND nextval('stumble_3') > 1 THEN RAISE EXCEPTION 'gone' USING ERRCODE = '42P01'; END IF; RETURN n; END $$`)
	s := startSluice(t, pg, fastReplay, maxOpen(1))
	const prepare = "P s | SELECT 1 AS one\nD S s\nS\nB - | s\nE -\nS\nQ BEGIN\nQ INSERT INTO altered VALUES (1)\n< Z Z Z Z\n"
	for name, test := range map[string]struct{ script, want string }{
		"an error": {prepare + "P - | SELECT stays(2)\nB - | -\nE -\nP - | SET CONSTRAINTS ALL IMMEDIATE\nB - | -\nE -\nB - | s\nE -\nS\n< Z\n", "C=42P01 M=gone"},
		"a commit": {prepare + "P - | COMMIT\nB - | -\nE -\nB - | s\nE -\nS\n< Z\n", "C COMMIT\\x00\nE S=ERROR C=08006"},
	} {
		t.Run(name, func(t *testing.T) {
			stumbles(t, pg, true)
			got := perform(t, s.addr, test.script+"Q ROLLBACK\n< Z\n")
			if !strings.Contains(got, test.want) || !strings.HasSuffix(got, "C ROLLBACK\\x00\nZ I\n") || replayed(t, s) == 0 {
				t.Errorf("want %s:\n%s", test.want, got)
			}
			waitFor(t, "backends to come back", func() bool { return s.backends.Stats().InUse == 0 })
		})
	}
}

// What replayable random dialogues are made of.
var stumbleTexts = []string{
	"SELECT stumble(1)", "SELECT stumble(2)", "SELECT stumble(3) AS s, 1/0", "INSERT INTO late VALUES (3)", "INSERT INTO late VALUES (4)",
	"SELECT g, CASE WHEN g = 4 THEN stumble(4) END AS s FROM stumble_rows WHERE g < 6",
	"SELECT 1 AS one", "SELECT $1::int AS n", "SELECT 1/0", "SELECT generate_series(1,5) AS g", "",
	"BEGIN", "START TRANSACTION", "COMMIT", "END", "ROLLBACK",
	"SET TimeZone = 'Asia/Tokyo'", "SET LOCAL TimeZone = 'Europe/Berlin'", "SHOW TimeZone", "SELECT current_setting('TimeZone')",
	"SET application_name = 'x'", "SHOW application_name",
	"INSERT INTO random VALUES (1)", "INSERT INTO random VALUES ($1::int) RETURNING a", "SELECT count(*) FROM random",
	"DECLARE k1 CURSOR FOR SELECT generate_series(1,3) AS d", "FETCH 1 FROM k1", "SELECT nosuch",
}

// bothWays plays a script directly and through Sluice; reset is told whether there
// shall be conflicts.
func bothWays(t *testing.T, pg postgres, s *sluice, script string, reset func(bool)) (got, want string) {
	play := func(addr string) string { return bindComplaint.ReplaceAllString(perform(t, addr, script), `$1""`) }
	reset(false)
	want = play(pg.addr)
	reset(true)
	return play(s.addr), want
}

var detail = regexp.MustCompile(`Replay refused: (.*?)\. H=`)

// TestRandomConflicts plays random dialogues with conflicts in them, which must
// be answered as without.
//
// Feature: dsql-locking-compatibility, Property 3: Serialization conflict retry:
// 40001 is retried, and nobody can tell.
func TestRandomConflicts(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling+"CREATE TABLE random (a int)")
	reset := func(yes bool) { stumbles(t, pg, yes, "random") }
	s := startSluice(t, pg, fastReplay, maxOpen(3), func(s *setup) { s.proxy.Retry.Policy.MaxElapsed = retry.DefaultMaxElapsed })
	played, refused, last := 0, map[string]int{}, ""
	rapid.Check(t, func(r *rapid.T) {
		script := drawDialogue(r, stumbleTexts)
		script = strings.Replace(script, "to_regclass('random_t')", "1", 1)
		got, want := bothWays(t, pg, s, script, reset)
		played++
		if m := detail.FindStringSubmatch(got); m != nil && !strings.Contains(m[1], "result of") {
			refused[m[1]]++ // the client was told; what follows differs
			return
		}
		if got != want {
			r.Fatalf("%s\nbefore:\n%s\nthrough Sluice:\n%s", script, last, firstDifference(got, want))
		}
		last = script
	})
	t.Logf("%d dialogues, %v replays, refused: %v", played, replayed(t, s), refused)
	if replayed(t, s) < float64(played)/4 {
		t.Error("hardly anything was replayed")
	}
}
