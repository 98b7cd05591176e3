package proxy_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-proxy/sluice/retry"
)

// withSavepoints has them emulated.
func withSavepoints(s *setup) {
	fastReplay(s)
	s.proxy.Retry.Savepoints = retry.Relaxed
}

// strictly has them emulated, and all that they discard compared. The PostgreSQL behind has row
// locks: what is discarded behind a write of a row is run on DSQL's stand-in only.
func strictly(s *setup) {
	asDSQL(s)
	fastReplay(s)
	s.proxy.Retry.Savepoints = retry.Strict
}

// ext runs a statement by the extended protocol, without the Sync.
func ext(sql string) string { return "P - | " + sql + "\nB - | -\nE -\n" }

// What an application does with savepoints is answered as by PostgreSQL, whether
// conflicts come in between or not.
func TestSavepoints(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling+"CREATE TABLE saved (a int PRIMARY KEY) WITH (autovacuum_enabled = off); CREATE TABLE random (a int)")
	routes := map[string]*sluice{
		"fast":    startSluice(t, pg, withSavepoints, maxOpen(3)),
		"slow":    startSluice(t, pg, slowReplay, withSavepoints, maxOpen(3)),
		"dsql":    startSluice(t, pg, withSavepoints, asDSQL),
		"session": startSluice(t, pg, withSavepoints, asDSQL, sessionPairing, maxOpen(5)),
	}
	lines := func(statements ...string) string {
		var b strings.Builder
		for _, s := range statements {
			fmt.Fprintf(&b, "Q %s\n< Z\n", s)
		}
		return b.String()
	}
	for name, script := range map[string]string{
		"the main use": lines("BEGIN", "INSERT INTO saved VALUES (1)", "SAVEPOINT a", "INSERT INTO saved VALUES (1)", "ROLLBACK TO a", "INSERT INTO saved VALUES (2)", "COMMIT"),
		"released":     lines("BEGIN", "SAVEPOINT a", "INSERT INTO saved VALUES (1)", "RELEASE a", "INSERT INTO saved VALUES (2)", "COMMIT"),
		"at the start": lines("BEGIN", "SAVEPOINT a", "INSERT INTO saved VALUES (1)", "ROLLBACK TO SAVEPOINT a", "INSERT INTO saved VALUES (2)", "COMMIT"),
		"nothing else": lines("BEGIN", "SAVEPOINT a", "ROLLBACK TO a", "RELEASE SAVEPOINT a", "COMMIT", "BEGIN", "SAVEPOINT b", "ROLLBACK", "BEGIN", "ROLLBACK TO b", "COMMIT"),
		"outside":      lines("SAVEPOINT a", "RELEASE a", "ROLLBACK TO a", "SELECT 1") + ext("SAVEPOINT a") + "S\n" + ext("SELECT 1") + ext("SAVEPOINT a") + "S\n< Z Z\n",
		"no such name": lines("BEGIN", "RELEASE a", "SELECT 1", "SAVEPOINT a", "ROLLBACK TO a", "COMMIT", "BEGIN", "SELECT 1", "ROLLBACK TO a", "ROLLBACK TO a", "ROLLBACK",
			"BEGIN", "SAVEPOINT a", "RELEASE b", "ROLLBACK TO b", "ROLLBACK TO a", "SELECT 1", "COMMIT"),
		"a failed block": lines("BEGIN", "SELECT 1", "SAVEPOINT a", "SELECT nosuch", "SAVEPOINT b", "RELEASE a", "SELECT 1", "ROLLBACK TO a", "SAVEPOINT b", "SELECT 1/0", "ROLLBACK TO b", "RELEASE b", "INSERT INTO saved VALUES (1)", "COMMIT"),
		"names":          lines("BEGIN", `SAVEPOINT "A b"`, "SAVEPOINT Ab", "INSERT INTO saved VALUES (1)", "ROLLBACK TO AB", `ROLLBACK TO "A b"`, "RELEASE ab", `RELEASE "AB"`, "ROLLBACK"),
		"the same name":  lines("BEGIN", "SAVEPOINT a", "INSERT INTO saved VALUES (1)", "SAVEPOINT a", "INSERT INTO saved VALUES (2)", "ROLLBACK TO a", "TABLE saved", "RELEASE a", "ROLLBACK TO a", "TABLE saved", "COMMIT"),
		"nested":         lines("BEGIN", "INSERT INTO saved VALUES (1)", "SAVEPOINT a", "INSERT INTO saved VALUES (2)", "SAVEPOINT b", "INSERT INTO saved VALUES (3)", "ROLLBACK TO a", "RELEASE b", "ROLLBACK TO a", "INSERT INTO saved VALUES (4)", "COMMIT"),
		"twice back":     lines("BEGIN", "SAVEPOINT a", "INSERT INTO saved VALUES (1)", "ROLLBACK TO a", "INSERT INTO saved VALUES (2)", "ROLLBACK TO a", "INSERT INTO saved VALUES (3)", "COMMIT"),
		"reads are kept": lines("BEGIN", "INSERT INTO saved VALUES (1)", "SAVEPOINT a", "SELECT * FROM saved", "INSERT INTO saved VALUES (2)", "SELECT * FROM saved", "ROLLBACK TO a", "SELECT * FROM saved", "COMMIT"),
		"rolled back":    lines("BEGIN", "SAVEPOINT a", "INSERT INTO saved VALUES (1)", "ROLLBACK TO a", "ROLLBACK", "SELECT 1"),
		"commit in E":    lines("BEGIN", "SAVEPOINT a", "SELECT nosuch", "COMMIT", "BEGIN", "SAVEPOINT a", "SELECT nosuch", "ROLLBACK", "SELECT 1"),
		"in one string":  lines("BEGIN", "SAVEPOINT a; SAVEPOINT b", "INSERT INTO saved VALUES (1)", "ROLLBACK TO b; RELEASE b", "INSERT INTO saved VALUES (2)", "ROLLBACK TO a; RELEASE b; SAVEPOINT c", "ROLLBACK TO a; RELEASE a", "SELECT 1", "COMMIT"),
		"several, prepared": "Q BEGIN\n< Z\n" + ext("SAVEPOINT a; SAVEPOINT b") + "S\n< Z\n" + ext("SELECT 1") + "S\n" + ext("ROLLBACK; SAVEPOINT c") + "S\nP s1 | COMMIT; SAVEPOINT a\nD S s1\nS\nQ ROLLBACK\n< Z Z Z Z\n" +
			"P s1 | SELECT 1; SAVEPOINT b\nD S s1\nS\nD S s1\nS\n< Z Z\nQ BEGIN\n< Z\nQ SAVEPOINT a\n< Z\nP s1 | RELEASE a; SELECT 1\nS\nQ ROLLBACK TO a\nP - | SELECT 1\nS\nP - | BEGIN; BEGIN\nB - | -\nS\nQ COMMIT\n< Z Z Z Z Z\n" +
			"P - | BEGIN; SAVEPOINT a\nD S -\nB - | -\nE -\nS\nP - | SET TimeZone TO 'UTC'; SHOW TimeZone\nS\nP - | ; SELECT 1;;\nB - | -\nE -\nS\nP - | ;\nB - | -\nE -\nE -\nS\nP - | SELEC 1; SELECT 1\nS\n< Z Z Z Z Z\n",
		"settings":           lines("BEGIN", "SET TimeZone = 'Asia/Tokyo'", "SAVEPOINT a", "SET TimeZone = 'UTC'", "SET LOCAL application_name = 'x'", "ROLLBACK TO a", "SHOW TimeZone", "SHOW application_name", "COMMIT", "SHOW TimeZone", "SHOW application_name", "RESET ALL"),
		"settings, released": lines("BEGIN", "SAVEPOINT a", "SET TimeZone = 'Asia/Tokyo'", "RELEASE a", "SAVEPOINT b", "SET TimeZone = 'UTC'", "ROLLBACK TO b", "SHOW TimeZone", "COMMIT", "SHOW TimeZone"),
		"settings, at once":  lines("BEGIN", "SAVEPOINT a", "SET application_name = 'x'", "SET statement_timeout = '7s'", "SET LOCAL TimeZone = 'Asia/Tokyo'", "ROLLBACK TO a", "SHOW TimeZone", "SHOW application_name", "SHOW statement_timeout", "SET application_name = 'y'", "SAVEPOINT b", "SET application_name = 'z'", "ROLLBACK TO b", "COMMIT", "SHOW TimeZone", "SHOW application_name", "SHOW statement_timeout", "RESET ALL"),
		"prepared":           "Q BEGIN\n< Z\nP s1 | SAVEPOINT a\nD S s1\nP s2 | ROLLBACK TO a\nP s3 | INSERT INTO saved VALUES ($1)\nS\n< Z\nB - | s1\nD P -\nE -\nS\n< Z\nB - | s3 | 1\nE -\nS\nB - | s3 | 1\nE -\nS\n< Z Z\nB - | s2\nE -\nE -\nS\n< Z\nB - | s2\nE -\nS\nB - | s3 | 2\nE -\nS\nQ COMMIT\n< Z Z Z\n",
		"prepared behind":    "Q BEGIN\n< Z\nQ SAVEPOINT a\n< Z\nP s3 | INSERT INTO saved VALUES ($1)\nB - | s3 | 1\nE -\nS\n< Z\nQ ROLLBACK TO a\n< Z\nB - | s3 | 2\nE -\nS\n< Z\nQ COMMIT\n< Z\n",
		"in a failed block":  "Q BEGIN\n< Z\n" + ext("SAVEPOINT a") + "S\n" + ext("SELECT 1/0") + "S\n" + ext("SAVEPOINT b") + "S\n" + ext("RELEASE a") + "S\nP - | ROLLBACK TO a\nD S -\nB - | -\nD P -\nE -\nS\n" + ext("SELECT 1") + "S\nQ COMMIT\n< Z Z Z Z Z Z Z\n",
		"in one group": "Q BEGIN\n< Z\n" + ext("INSERT INTO saved VALUES (1)") + ext("SAVEPOINT a") + ext("SELECT * FROM saved") + ext("INSERT INTO saved VALUES (2)") + ext("ROLLBACK TO a") +
			ext("INSERT INTO saved VALUES (3)") + ext("RELEASE a") + "S\n< Z\nQ SELECT * FROM saved\n< Z\nQ COMMIT\n< Z\n",
		"a group of its own": ext("BEGIN") + ext("SAVEPOINT a") + ext("INSERT INTO saved VALUES (1)") + "S\n< Z\n" + ext("INSERT INTO saved VALUES (1)") + "S\n< Z\n" + ext("ROLLBACK TO a") + ext("INSERT INTO saved VALUES (2)") + ext("COMMIT") + "S\n< Z\nQ SELECT * FROM saved\n< Z\n",
		"skipped":            "Q BEGIN\n< Z\nQ SAVEPOINT a\n< Z\n" + ext("SELECT 1/0") + ext("ROLLBACK TO a") + ext("SAVEPOINT b") + "S\nQ ROLLBACK TO b\nQ ROLLBACK TO a\n" + ext("INSERT INTO saved VALUES (1)") + ext("SELECT 1/0") + "Q SAVEPOINT a\nS\nQ ROLLBACK TO a\nQ COMMIT\n< Z Z Z Z Z Z\n",
		"back in E, group":   "Q BEGIN\n< Z\nQ SELECT 1\n< Z\nQ SAVEPOINT a\n< Z\nQ SELECT 1/0\n< Z\n" + ext("ROLLBACK TO a") + ext("INSERT INTO saved VALUES (1)") + "S\n< Z\nQ COMMIT\n< Z\nQ TABLE saved\n< Z\n",
		"DDL":                lines("BEGIN", "SAVEPOINT a", "CREATE TABLE saved_made (a int)", "ROLLBACK TO a", "SELECT * FROM saved_made", "ROLLBACK TO a", "CREATE TABLE saved_made (b int)", "ROLLBACK"),

		"conflict at COMMIT":  lines("BEGIN", "INSERT INTO saved VALUES (1)", "SAVEPOINT a", "INSERT INTO saved VALUES (1)", "ROLLBACK TO a", "INSERT INTO late VALUES (1)", "COMMIT", "TABLE saved"),
		"conflict behind":     lines("BEGIN", "INSERT INTO saved VALUES (1)", "SAVEPOINT a", "INSERT INTO saved VALUES (2)", "SELECT stumble(1)", "ROLLBACK TO a", "SELECT stumble(2)", "INSERT INTO saved VALUES (3)", "COMMIT", "TABLE saved"),
		"conflict in between": lines("BEGIN", "SELECT stumble(1)", "SAVEPOINT a", "SELECT stumble(2)", "SAVEPOINT b", "SELECT stumble(3)", "ROLLBACK TO b", "ROLLBACK TO a", "SELECT stumble(4)", "COMMIT"),
		"conflict on the way": lines("BEGIN", "SELECT second(1)", "SAVEPOINT a", "INSERT INTO saved VALUES (1)", "SELECT 1/0", "ROLLBACK TO a", "INSERT INTO saved VALUES (1)", "COMMIT"),
		"lost on the way":     lines("BEGIN", "INSERT INTO saved VALUES (1)", "SAVEPOINT a", "SELECT die(1)", "INSERT INTO saved VALUES (1)", "ROLLBACK TO a", "SELECT die(2)", "COMMIT", "TABLE saved"),
		"conflict in a group": "Q BEGIN\n< Z\n" + ext("INSERT INTO saved VALUES (1)") + ext("SELECT stumble(1)") + ext("SAVEPOINT a") + ext("SELECT stumble(2)") + ext("INSERT INTO saved VALUES (2)") + ext("SELECT stumble(3)") + ext("ROLLBACK TO a") + ext("SELECT stumble(4)") + "S\n< Z\nQ SELECT * FROM saved\n< Z\nQ COMMIT\n< Z\n",
	} {
		t.Run(name, func(t *testing.T) {
			reset := func(yes bool) { stumbles(t, pg, yes, "saved") }
			reset(false)
			want := perform(t, pg.addr, script)
			for route, s := range routes {
				reset(true)
				before := replayed(t, s)
				if got := perform(t, s.addr, script); got != want {
					t.Errorf("through Sluice (%s):\n%s", route, firstDifference(got, want))
				}
				if conflicts := regexp.MustCompile(`stumble\(|die\(|second\(|late`).MatchString(script); conflicts != (replayed(t, s) > before) {
					t.Errorf("%s: %v replays", route, replayed(t, s)-before)
				}
				if route != "session" {
					waitFor(t, "backends to come back", func() bool { return s.backends.Stats().InUse == 0 })
				}
			}
		})
	}
	t.Run("off", func(t *testing.T) {
		script := lines("BEGIN", "INSERT INTO saved VALUES (1)", "SAVEPOINT a", "INSERT INTO saved VALUES (1)", "ROLLBACK TO a", "COMMIT", "SAVEPOINT a; SELECT 1")
		pg.SQL(t, "postgres", "TRUNCATE saved")
		want := perform(t, pg.addr, script)
		pg.SQL(t, "postgres", "TRUNCATE saved")
		if got := perform(t, startSluice(t, pg, fastReplay).addr, script); got != want {
			t.Errorf("not the server's:\n%s", firstDifference(got, want))
		}
	})
}

// What random dialogues with savepoints are made of.
var savepointTexts = []string{
	"BEGIN", "BEGIN", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT a", "SAVEPOINT a", "SAVEPOINT b", "SAVEPOINT \"A\"", "RELEASE a", "RELEASE SAVEPOINT b",
	"ROLLBACK TO a", "ROLLBACK TO a", "ROLLBACK TO SAVEPOINT b", "ROLLBACK TO \"A\"",
	"INSERT INTO random VALUES (1)", "INSERT INTO random VALUES ($1::int) RETURNING a", "SELECT count(*) FROM random", "SELECT 1/0", "SELECT nosuch",
	"SELECT 1 AS one", "SELECT $1::int AS n", "",
	"SET TimeZone = 'Asia/Tokyo'", "SET LOCAL TimeZone = 'Europe/Berlin'", "SHOW TimeZone", "RESET ALL", "SELECT set_config('TimeZone', 'Asia/Kolkata', false)", "SELECT set_config('TimeZone', $1, true)", "SELECT current_setting('TimeZone')", "SET search_path = random_a, public", "SELECT * FROM random_x",
}

// TestRandomSavepoints holds random dialogues against PostgreSQL, without
// conflicts and with them.
func TestRandomSavepoints(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling+`CREATE TABLE random (a int); CREATE SCHEMA random_a; CREATE SCHEMA random_b;
		CREATE TABLE random_a.random_x AS SELECT 1 AS v; CREATE TABLE random_b.random_x AS SELECT text 'b' AS v`)
	reset := func(yes bool) { stumbles(t, pg, yes, "random") }
	for name, texts := range map[string][]string{"without conflicts": savepointTexts,
		"with conflicts": append(savepointTexts, "SELECT stumble(1)", "SELECT stumble(2)", "SELECT stumble(3), 1/0", "INSERT INTO late VALUES (4)")} {
		t.Run(name, func(t *testing.T) {
			routes := []*sluice{startSluice(t, pg, withSavepoints, maxOpen(3)), startSluice(t, pg, strictly, maxOpen(4))}
			played, returned, refused, last := 0, 0, map[string]int{}, ""
			rapid.Check(t, func(r *rapid.T) {
				// Portals that have a name may outlive a return.
				script := wholeUse.ReplaceAllString(drawDialogue(r, texts), "B -$1\nE -$2\n")
				script = portalUse.ReplaceAllString(script, "")
				script = rapid.SampledFrom([]string{"", "Q BEGIN\n< Z\n", "Q BEGIN\nQ SAVEPOINT a\n< Z Z\n"}).Draw(r, "start") + script
				script = strings.Replace(script, "to_regclass('random_t')", "1", 1)
				script = strings.Replace(script, "Q EXECUTE p2\n< Z Z", "< Z", 1)
				got, want := bothWays(t, pg, routes[rapid.IntRange(0, 1).Draw(r, "route")], script, reset)
				played++
				before := last
				last = script
				if m := savepointRefused.FindStringSubmatch(got); m != nil {
					refused[m[1]]++
					return
				}
				returned += strings.Count(got, "C ROLLBACK")
				if got != want {
					r.Fatalf("%s\nbefore:\n%s\nthrough Sluice:\n%s", script, before, firstDifference(got, want))
				}
			})
			t.Logf("%d dialogues, %d returns, %v and %v replays, refused: %v", played, returned, replayed(t, routes[0]), replayed(t, routes[1]), refused)
			if returned < 10 {
				t.Error("hardly anything was rolled back")
			}
		})
	}
}

var (
	wholeUse         = regexp.MustCompile(`(?m)^B c1( .*)\n(?:D P c1\n)?E c1(.*)\n`)
	portalUse        = regexp.MustCompile(`(?m)^(B|E|D P|C P) c1.*\n`)
	savepointRefused = regexp.MustCompile(`(must not share a string|is not possible in this transaction|cannot return to savepoint|Replay refused)`)
)

// A typing mistake behind a savepoint stops no return to it, whatever the group has in front of it and behind:
// the server has run nothing of the text, nor of what follows.
func TestReturnBehindATypingMistake(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE noted (n int)")
	s := startSluice(t, pg, strictly, maxOpen(3))
	for name, group := range map[string]string{
		"alone": ext("SELEKT 1"), "one behind": ext("SELEKT 1") + ext("INSERT INTO noted VALUES (2)"), "several": ext("INSERT INTO noted VALUES (2)") + ext("SELEKT 1") + ext("SELEKT 2") + ext("COMMIT"),
		"prepared first": "P a | SELECT 1\nP b | SELEKT 1\nB - | a\nE -\nB - | b\nE -\n", "a savepoint behind": ext("SELEKT 1") + ext("SAVEPOINT b") + ext("SELECT 1"),
	} {
		pg.SQL(t, "postgres", "DELETE FROM noted")
		got := dialRaw(t, s.addr).say(t, "Q BEGIN\n< Z\nQ INSERT INTO noted VALUES (1)\n< Z\nQ SAVEPOINT a\n< Z\n"+group+"S\n< Z\nQ ROLLBACK TO a\n< Z\nQ INSERT INTO noted VALUES (3)\n< Z\nQ COMMIT\n< Z\n")
		if strings.Count(got, "E S=") != 1 || !strings.Contains(got, "E S=ERROR C=42601") || !strings.Contains(got, "C ROLLBACK") || !strings.Contains(got, "C COMMIT") {
			t.Errorf("%s: got\n%s", name, got)
		}
		if n := strings.Fields(pg.SQL(t, "postgres", "SELECT string_agg(n::text, ',' ORDER BY n) FROM noted")); len(n) != 1 || n[0] != "1,3" {
			t.Errorf("%s: %v are stored", name, n)
		}
	}
}
