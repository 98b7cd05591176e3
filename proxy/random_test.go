package proxy_test

import (
	"cmp"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-proxy/sluice/proxy"
)

// What random dialogues are made of. $1 is an int where it occurs.
var randomTexts = []string{
	"SELECT 1 AS one", "SELECT $1::int AS n", "SELECT 1/0", "SELECT generate_series(1,5) AS g", "",
	"BEGIN", "START TRANSACTION", "BEGIN READ ONLY", "COMMIT", "END", "ROLLBACK", "ABORT",
	"SAVEPOINT a", "ROLLBACK TO a",
	"SET TimeZone = 'Asia/Tokyo'", "SET TimeZone = 'UTC'", "SET LOCAL TimeZone = 'Europe/Berlin'", "SHOW TimeZone",
	"SELECT current_setting('TimeZone')", "SET application_name = 'x'", "SHOW application_name",
	"SET search_path = random_a, public", "SET search_path = random_b, public",
	"SET statement_timeout = '10s'", "RESET ALL", "RESET statement_timeout", "SHOW statement_timeout",
	"INSERT INTO random VALUES (1)", "INSERT INTO random VALUES ($1::int)", "SELECT count(*) FROM random",
	"DECLARE k1 CURSOR FOR SELECT generate_series(1,3) AS d", "FETCH 1 FROM k1", "CLOSE k1",
	"PREPARE p2 AS SELECT 5 AS five", "EXECUTE p2", "DEALLOCATE s1", "DEALLOCATE ALL", "DISCARD ALL", "LISTEN random",
}

// Texts that a server may refuse to prepare.
var refusedTexts = []string{"SELECT nosuch", "SELECT * FROM random_x", "SELECT * FROM random_t", "DROP TABLE random_t", "CREATE TEMP TABLE random_t (a int)"}

// Where it matters what a transaction was, and how it ended.
var settingTexts = []string{
	"BEGIN", "COMMIT", "ROLLBACK", "SELECT nosuch", "SELECT 1 AS one", "SELECT current_setting('TimeZone')",
	"SET TimeZone = 'Asia/Tokyo'", "SET TimeZone = 'UTC'", "SET LOCAL TimeZone = 'Europe/Berlin'", "RESET ALL", "DISCARD ALL",
	"SET search_path = random_a, public", "SELECT * FROM random_x", "SET application_name = 'x'", "SHOW application_name",
	"PREPARE p2 AS SELECT 5 AS five", "EXECUTE p2", "CREATE TEMP TABLE random_t (a int)", "LISTEN random",
}

var randomScripts = []string{
	"SELECT 1; SELECT 2", "SELECT 1; ROLLBACK; SELECT 2", "SELECT 1; COMMIT; BEGIN", "BEGIN; SELECT 1",
	"BEGIN; INSERT INTO random VALUES (2); COMMIT", "INSERT INTO random VALUES (3); SELECT 1/0",
	"SET TimeZone = 'Asia/Tokyo'; SELECT current_setting('TimeZone')", "SELECT 1; ROLLBACK; SET TimeZone = 'UTC'",
	"BEGIN; SET TimeZone = 'Asia/Tokyo'; ROLLBACK; SHOW TimeZone",
}

// drawDialogue draws frames; every group of them is read to its end, at once or
// behind later ones.
func drawDialogue(t *rapid.T, texts []string) string {
	text := func() string { return rapid.SampledFrom(texts).Draw(t, "text") }
	var script strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&script, format+"\n", args...) }
	unread := 0
	for range rapid.IntRange(1, 12).Draw(t, "groups") {
		if rapid.IntRange(0, 2).Draw(t, "protocol") == 0 {
			sql := strings.ReplaceAll(text(), "$1", "1")
			if rapid.IntRange(0, 4).Draw(t, "several") == 0 {
				sql = rapid.SampledFrom(randomScripts).Draw(t, "script")
			}
			add("Q %s", sql)
		} else {
			for range rapid.IntRange(1, 4).Draw(t, "frames") {
				drawExtended(t, add, text)
			}
			add("S")
		}
		unread++
		if rapid.IntRange(0, 3).Draw(t, "read") > 0 {
			add("<%s", strings.Repeat(" Z", unread))
			unread = 0
		}
	}
	// The end of any transaction, what is left of it, and what the next client finds.
	add("S\nQ ROLLBACK\nQ SELECT count(*) FROM random\n<%s\nconnect\n"+
		"Q SELECT current_setting('TimeZone'), current_setting('search_path'), to_regclass('random_t')\nQ EXECUTE p2\n< Z Z",
		strings.Repeat(" Z", unread+3))
	return script.String()
}

func drawExtended(t *rapid.T, add func(string, ...any), text func() string) {
	statement := rapid.SampledFrom([]string{"-", "-", "s1", "s2"}).Draw(t, "statement")
	portal := rapid.SampledFrom([]string{"-", "-", "-", "c1"}).Draw(t, "portal")
	limit := rapid.SampledFrom([]string{"", "", " 2"}).Draw(t, "limit")
	switch rapid.IntRange(0, 7).Draw(t, "frame") {
	case 0, 1, 2: // all of a statement
		sql := text()
		if slices.Contains(refusedTexts, sql) || strings.Contains(sql, "nosuch") {
			statement = "-" // that a name is taken, Sluice sees before the server sees the text
		}
		add("P %s | %s", statement, cmp.Or(sql, "-"))
		if rapid.Bool().Draw(t, "describe") {
			add("D S %s", statement)
		}
		value := ""
		if strings.Contains(sql, "$1") {
			value = " | 7"
		}
		add("B %s | %s%s", portal, statement, value)
		if rapid.Bool().Draw(t, "describe portal") {
			add("D P %s", portal)
		}
		add("E %s%s", portal, limit)
	case 3:
		add("B %s | %s", portal, statement)
	case 4: // not the unnamed one: which error it is in a failed block depends on what a simple Query left
		add("E c1%s", limit)
	case 5:
		add("%s S %s", rapid.SampledFrom([]string{"D", "C"}).Draw(t, "verb"), statement)
	case 6:
		add("%s P %s", rapid.SampledFrom([]string{"D", "C"}).Draw(t, "verb"), "c1")
	case 7:
		add("H")
	}
}

// A server that complains of a Bind tells a statement by the name we gave it.
var bindComplaint = regexp.MustCompile(`(bind message supplies .* prepared statement )"\w*"`)

// fixSeed draws the same dialogues in every run, and fewer with the race detector, unless
// asked for others. It comes before the tests: each that draws reads these flags.
func fixSeed() {
	flag.Parse()
	if f := flag.Lookup("rapid.seed"); f.Value.String() == f.DefValue {
		flag.Set("rapid.seed", "1")
	}
	if f := flag.Lookup("rapid.checks"); f.Value.String() == "100" {
		flag.Set("rapid.checks", strconv.Itoa(max(20, 100/proxy.OneIn)))
	}
}

// TestRandomDialogues holds what Sluice answers to frames in any order against
// what PostgreSQL answers.
func TestRandomDialogues(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	pg.SQL(t, "postgres", `CREATE TABLE random (a int); CREATE SCHEMA random_a; CREATE SCHEMA random_b;
		CREATE TABLE random_a.random_x AS SELECT 1 AS v; CREATE TABLE random_b.random_x AS SELECT text 'b' AS v`)
	all := slices.Concat(randomTexts, refusedTexts)
	run := func(name string, texts []string, opts ...option) {
		addr := startSluice(t, pg, opts...).addr
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				script := "Q WITH d AS (DELETE FROM random) SELECT 1\n< Z\n" + drawDialogue(r, texts)
				play := func(addr string) string { return bindComplaint.ReplaceAllString(perform(t, addr, script), `$1""`) }
				want := play(pg.addr)
				if got := play(addr); got != want {
					r.Fatalf("%s\nthrough Sluice:\n%s", script, firstDifference(got, want))
				}
			})
		})
	}
	run("transaction", all, maxOpen(3))
	run("session", all, sessionPairing)
	run("settings", settingTexts, maxOpen(3))
	run("replay", all, maxOpen(3), withReplay)
	run("replay of settings", settingTexts, maxOpen(3), withReplay)
}
