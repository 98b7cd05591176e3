package proxy_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/rewrite"
)

// answering has Sluice answer what resets a session, and what is said about extensions.
func answering(s *setup) { s.rules = rewrite.Rules{Session: true, Extensions: true} }

// localForms are statements that Sluice answers, for one kind of server or the other.
var localForms = []string{
	"SET lock_timeout = 0", "SET client_min_messages = warning", "SET statement_timeout = '61.5s'", "SET LOCAL statement_timeout = 90000", "RESET statement_timeout",
	"SET statement_timeout TO DEFAULT", "SET LOCAL statement_timeout TO DEFAULT", "SHOW statement_timeout",
	"SELECT current_setting('statement_timeout')", "SELECT pg_catalog.current_setting('Application_Name', true) AS n",
	"SET application_name = 'inside'", "SET LOCAL application_name = 'local'", "RESET application_name", "SHOW application_name", "SET application_name = a, b",
	"SET statement_timeout = 'soon'", "SET statement_timeout = 1, 2", "SET lock_timeout = -1", "SHOW lock_timeout",
	"DEALLOCATE st1", "DEALLOCATE nosuch", "DEALLOCATE PREPARE sluice_1", "DEALLOCATE ALL", "DISCARD ALL", "DISCARD TEMP", "DISCARD SEQUENCES",
	"CLOSE ALL", "UNLISTEN *", "SELECT pg_advisory_unlock_all()", "SELECT pg_advisory_unlock_all() AS v",
	"RESET ALL", "RESET TimeZone", "SET TimeZone TO DEFAULT", "SET TIME ZONE LOCAL", "SET LOCAL TimeZone = 'Asia/Tokyo'", "SET TimeZone = 'Asia/Tokyo'", "SHOW TimeZone",
	"SET SESSION AUTHORIZATION DEFAULT", "RESET ROLE",
	"DROP EXTENSION IF EXISTS nosuch", "DROP EXTENSION IF EXISTS \"No such\", pgcrypto CASCADE",
}

// stringForms are strings with one such statement, L, in each place.
var stringForms = []string{
	"L", "L; SELECT 1 AS one", "SELECT 1 AS one; L", "SELECT 1 AS one; L; SELECT 'ü' AS two;", "L; SELECT 1/0; SELECT 2", "SELECT 1/0; L", "SELECT nosuch; L", "L; SELECT 'ü', nosuch",
	"SET TimeZone = 'Europe/Paris'; L; SHOW TimeZone", "INSERT INTO strung VALUES (1); L; SELECT 1/0", "INSERT INTO strung VALUES (1); L", "BEGIN; L; COMMIT", "BEGIN; L; ROLLBACK", "BEGIN; L",
	"BEGIN; SELECT 1 AS one; L; SELECT 1/0; COMMIT", "BEGIN ISOLATION LEVEL SERIALIZABLE; L; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SELECT 1 AS one; COMMIT",
	"L; COMMIT; L; SELECT 1/0", "L; ROLLBACK; L", "ROLLBACK; L; SELECT 1 AS one", "COMMIT; L; SELECT 1 AS one; L", "L; SELECT 1; COMMIT; SELECT 1/0", "L;; /* a comment; */ L -- L",
	"SAVEPOINT a; L; ROLLBACK TO a; SELECT 1 AS one", "COPY (SELECT 1) TO STDOUT; L", "L; BEGIN; L; COMMIT; L", "SELECT 1 AS one WHERE false; L; COMMIT AND CHAIN; L; ROLLBACK",
}

// probes ask how the session stands.
const probes = "Q SHOW statement_timeout\n< Z\nQ SHOW application_name\n< Z\nQ SHOW TimeZone\n< Z\nQ SELECT current_setting('statement_timeout')\n< Z\nQ SELECT 2 AS two\n< Z\nB - | st1\nE -\nS\n< Z\n"

// surroundings are what a string stands in: the dialogue before, and after.
var surroundings = map[string][2]string{
	"idle":            {"", ""},
	"begun, commit":   {"Q BEGIN\n< Z\n", "Q COMMIT\n< Z\n"},
	"begun, rollback": {"Q BEGIN\n< Z\n", "Q ROLLBACK\n< Z\n"},
	"block":           {"Q BEGIN\n< Z\nQ SELECT 1 AS first\n< Z\n", "Q SHOW statement_timeout\n< Z\nQ SHOW application_name\n< Z\nQ COMMIT\n< Z\n"},
	"open group":      {"P - | SELECT 3 AS three\nB c1 | -\n", "Q SHOW statement_timeout\n< Z\nQ ROLLBACK\n< Z\n"},
	"failed block":    {"Q BEGIN\n< Z\nQ SELECT 1/0\n< Z\n", "Q COMMIT\n< Z\n"},
}

const beforeString = "tell application_name\nQ SET application_name = 'before'\n< Z\nQ SET statement_timeout = '100s'\n< Z\nP st1 | SELECT 1 AS st1\nS\n< Z\n"

// Whatever Sluice answers in a string of statements is answered as by PostgreSQL.
func TestLocalStatementsInStrings(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE strung (a int)")
	routes := map[string]string{}
	for name, opts := range map[string][]option{
		"dsql":          {asDSQL, answering, allIgnored},
		"dsql, replay":  {asDSQL, answering, allIgnored, withReplay},
		"dsql, session": {asDSQL, answering, allIgnored, sessionPairing},
		"postgres":      nil,
	} {
		routes[name] = startSluice(t, pg, append(opts, maxOpen(3))...).addr
	}
	var all [][2]string // surroundings and text
	for name := range surroundings {
		for _, local := range localForms {
			for _, form := range stringForms {
				all = append(all, [2]string{name, replaceL(form, local)})
			}
			for _, other := range localForms {
				all = append(all, [2]string{name, local + "; " + other})
			}
		}
	}
	slices.SortFunc(all, func(a, b [2]string) int { return strings.Compare(a[0]+a[1], b[0]+b[1]) })
	rand.New(rand.NewPCG(13, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if os.Getenv("ALL_STRINGS") == "" {
		all = all[:sampledStrings]
	}
	for _, c := range all {
		around := surroundings[c[0]]
		script := beforeString + around[0] + "Q " + c[1] + "\n< Z\n" + around[1] + probes
		want := perform(t, pg.addr, script)
		for name, addr := range routes {
			got := perform(t, addr, script)
			listed := strings.Contains(got, "M=CLOSE ALL cannot close the portals") || strings.Contains(want, "must be called before any query")
			if got != want && !listed { // in docs/compatibility.md
				t.Errorf("%s, %s, %s:\n%s", name, c[0], c[1], firstDifference(got, want))
				break
			}
		}
	}
}

// sampledStrings is how many of the strings are played; the variable ALL_STRINGS
// has all of them played.
var sampledStrings = 200 / proxy.OneIn

// replaceL puts a statement into a form.
func replaceL(form, local string) string {
	var out []string
	for part := range strings.SplitSeq(form, "; ") {
		if part == "L" {
			part = local
		} else if strings.HasPrefix(part, "L;") {
			part = local + part[1:]
		} else if strings.HasSuffix(part, " L -- L") {
			part = strings.TrimSuffix(part, "L -- L") + local + " -- L"
		}
		out = append(out, part)
	}
	return strings.Join(out, "; ")
}

// Behind a reset in a string stands the client's startup value, or the string is refused;
// the next client has its own values.
func TestResetsInStringsOfAStartup(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE strung_at (a int)")
	s := startSluice(t, pg, asDSQL, answering, allIgnored, withReplay, maxOpen(1))
	const look = "Q SHOW TimeZone\n< Z\nQ SHOW DateStyle\n< Z\n"
	fresh := perform(t, pg.addr, look)
	startup := map[string]string{"TimeZone": "America/New_York", "DateStyle": "SQL, DMY"}
	const at = "SELECT timestamp '2026-03-04 00:00'::timestamptz::text AS one"
	const sureRefused = "L; SELECT 1 AS one; COMMIT; L" // with RESET ALL, in a block: the sample may have no other that is refused
	refused, n := 0, 0
	perform(t, s.addr, "Q SELECT 1\n< Z\n") // from now on what the server reports is known
	for _, reset := range []string{"RESET ALL", "RESET TimeZone", "SET TimeZone TO DEFAULT", "RESET DateStyle", "RESET work_mem"} {
		for _, form := range append(stringForms, sureRefused, "SELECT 1 AS one; COMMIT; L; SELECT 1 AS one; L", "L; SHOW application_name; SELECT 1 AS one; COMMIT; SHOW application_name") {
			for name, around := range surroundings {
				sure := reset == "RESET ALL" && form == sureRefused && name == "begun, rollback"
				if n++; n%proxy.OneIn != 0 && !sure {
					continue
				}
				text := strings.ReplaceAll(strings.ReplaceAll(replaceL(form, reset), "SELECT 1 AS one", at), "INTO strung ", "INTO strung_at ")
				script := around[0] + "Q " + text + "\n< Z\n" + around[1]
				direct, _ := dialWith(t, pg.addr, startup)
				through, _ := dialWith(t, s.addr, startup)
				want, got := direct.play(t, script), through.play(t, script)
				direct.conn.Close()
				through.conn.Close()
				switch {
				case strings.Contains(got, "M=a RESET to a value of the client's startup"):
					refused++
				case got != want:
					t.Errorf("%s, %s:\n%s", name, text, firstDifference(got, want))
				}
				if next := perform(t, s.addr, look); next != fresh {
					t.Fatalf("%s, %s: the next client has\n%s", name, text, firstDifference(next, fresh))
				}
			}
		}
	}
	if refused == 0 {
		t.Error("no string was refused: none had a RESET in front of others")
	}
}

// The strings that pools send to reset a session are answered.
func TestResetStringsOfPools(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	for _, text := range []string{
		`SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;`,
		"CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; SELECT pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES;",
		"SET SESSION AUTHORIZATION DEFAULT;RESET ALL;CLOSE ALL;UNLISTEN *;SELECT pg_advisory_unlock_all();DISCARD SEQUENCES;DISCARD TEMP",
		"CLOSE ALL; UNLISTEN *; SELECT pg_advisory_unlock_all(); DISCARD SEQUENCES; DISCARD TEMP; RESET ALL; SET SESSION AUTHORIZATION DEFAULT",
		"DISCARD ALL", "RESET ALL", "RESET ALL;", "ROLLBACK", "ABORT", "RESET SESSION AUTHORIZATION", "SET SESSION AUTHORIZATION DEFAULT", "ROLLBACK; SELECT pg_advisory_unlock_all(); RESET ALL",
	} {
		s := startSluice(t, pg, asDSQL, answering, allIgnored, maxOpen(1))
		for name, around := range surroundings {
			t.Run(fmt.Sprintf("%s/%s", name, text), func(t *testing.T) {
				script := beforeString + "Q SET TimeZone = 'Asia/Tokyo'\n< Z\n" + around[0] + "Q " + text + "\n< Z\n" + around[1] + probes
				want := perform(t, pg.addr, script)
				if got := perform(t, s.addr, script); got != want {
					t.Errorf("through Sluice:\n%s", firstDifference(got, want))
				}
			})
		}
		if n := s.Stats().Pinned; n != 0 {
			t.Errorf("%s: %d sessions are pinned", text, n)
		}
	}
}

// CLOSE ALL closes no portals of the protocol here, and so it is refused while there are
// any in a block: also where the server has not answered the block's BEGIN yet.
func TestCloseAllBesidePortals(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t), asDSQL, answering, maxOpen(1))
	for _, behind := range []string{"S", "H", "C P nosuch"} {
		for _, text := range []string{"CLOSE ALL", "SELECT 1 AS one; CLOSE ALL", "CLOSE ALL; UNLISTEN *"} {
			script := "Q BEGIN\n< Z\nP - | SELECT 1 AS one\nB c1 | -\n" + behind + "\n"
			if behind == "S" {
				script += "< Z\n"
			}
			got := perform(t, s.addr, script+"Q "+text+"\n< Z\nE c1\nS\n< Z\n")
			if !strings.Contains(got, "M=CLOSE ALL cannot close the portals") || !strings.Contains(got, "C=25P02") {
				t.Errorf("%s behind %s:\n%s", text, behind, got)
			}
		}
	}
}

// Settings that Sluice keeps follow the server's savepoints, and the ends of blocks
// wherever they stand.
func TestKeptSettingsFollowTransactions(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	routes := map[string]string{"postgres": startSluice(t, pg).addr, "dsql": startSluice(t, pg, asDSQL, withReplay).addr}
	const set = "Q SET application_name = 'inside'\n< Z\n"
	extended := func(texts ...string) (script string) {
		for _, text := range texts {
			script += "P - | " + text + "\nB - | -\nE -\n"
		}
		return script + "S\n< Z\n"
	}
	for _, script := range []string{
		"Q BEGIN\n< Z\nQ SAVEPOINT a\n< Z\n" + set + "Q ROLLBACK TO a\n< Z\nQ SHOW application_name\n< Z\nQ COMMIT\n< Z\n",
		"Q BEGIN\n< Z\n" + set + "Q SAVEPOINT a\n< Z\nQ SET application_name = 'more'\n< Z\nQ SELECT 1/0\n< Z\nQ ROLLBACK TO a\n< Z\nQ SHOW application_name\n< Z\nQ COMMIT\n< Z\n",
		"Q BEGIN\n< Z\nQ SAVEPOINT a\n< Z\n" + set + "Q SAVEPOINT a\n< Z\nQ SET application_name = 'more'\n< Z\nQ RELEASE a\n< Z\nQ ROLLBACK TO a\n< Z\nQ COMMIT\n< Z\n",
		"Q BEGIN; SAVEPOINT a; SET application_name = 'inside'; ROLLBACK TO a; SHOW application_name; COMMIT\n< Z\n",
		"Q BEGIN\n< Z\nQ SELECT 1 AS one\n< Z\n" + set + "Q COMMIT AND CHAIN\n< Z\nQ SET application_name = 'more'\n< Z\nQ ROLLBACK\n< Z\n",
		"Q BEGIN\n< Z\nQ SELECT 1 AS one\n< Z\n" + set + "Q RESET ALL\n< Z\nQ SHOW application_name\n< Z\nQ COMMIT\n< Z\n",
		extended("BEGIN", "SET application_name = 'inside'", "ROLLBACK", "SELECT 1 AS one"),
		extended("BEGIN", "SET application_name = 'inside'", "COMMIT", "SELECT 1/0"),
		extended("BEGIN", "SELECT 1 AS one", "SET application_name = 'inside'", "ROLLBACK", "SET application_name = 'later'"),
		extended("BEGIN", "SELECT 1 AS one", "SET application_name = 'inside'", "COMMIT", "SET application_name = 'later'", "SELECT 1/0"),
		extended("SELECT pg_catalog.current_setting('statement_timeout') AS x", "SET statement_timeout TO DEFAULT", "RESET statement_timeout", "SET LOCAL TimeZone TO DEFAULT"),
		"P s | SELECT current_setting('statement_timeout')\nD S s\nB p | s\nD P p\nE p 1\nE p 1\nS\n< Z\n",
		"P - | SET lock_timeout = '1h'\nB - | -\nE -\nQ DISCARD ALL\n< Z\nS\n< Z\n",
		"P - | SHOW TimeZone\nB - | -\nE -\nQ SELECT 2 AS two; DISCARD ALL\n< Z\nS\n< Z\n",
		"P - | \nB - | -\nE -\nQ DISCARD ALL\n< Z\nS\n< Z\n",
		"Q SET default_transaction_deferrable = on\n< Z\nP - | RESET ALL\nB - | -\nE -\nQ SHOW transaction_deferrable\n< Z\nS\n< Z\n",
	} {
		script = beforeString + script + probes
		want := perform(t, pg.addr, script)
		for name, addr := range routes {
			if got := perform(t, addr, script); got != want {
				t.Errorf("%s:\n%s\n%s", name, script, firstDifference(got, want))
			}
		}
	}
}

// Nobody deallocates the statements of others, whose names on a shared backend are
// Sluice's.
func TestDeallocateInStringsSparesOthers(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	for name, opts := range map[string][]option{"postgres": nil, "dsql": {asDSQL}, "replay": {withReplay}} {
		t.Run(name, func(t *testing.T) {
			s := startSluice(t, pg, append(opts, maxOpen(1))...)
			other := dialRaw(t, s.addr)
			prepare := encode(t, &pgproto3.Parse{Name: "mine", Query: "SELECT 5 AS five"}, &pgproto3.Bind{PreparedStatement: "mine"}, &pgproto3.Execute{}, &pgproto3.Sync{})
			run := encode(t, &pgproto3.Bind{PreparedStatement: "mine"}, &pgproto3.Execute{}, &pgproto3.Sync{})
			other.queue(prepare)
			if got := other.readThrough("Z"); !strings.Contains(got, "C SELECT 1") {
				t.Fatal(got)
			}
			for _, text := range []string{"DEALLOCATE sluice_1; SELECT 1", "SELECT 1; DEALLOCATE sluice_1", "SELECT 1; DEALLOCATE ALL; SELECT 2", "BEGIN; DEALLOCATE ALL; COMMIT", "DEALLOCATE sluice_1"} {
				got := perform(t, s.addr, "Q "+text+"\n< Z\n")
				if strings.Contains(text, "sluice_1") != strings.Contains(got, `C=26000 M=prepared statement "sluice_1" does not exist`) {
					t.Errorf("%s:\n%s", text, got)
				}
				other.queue(run)
				if got := other.readThrough("Z"); !strings.Contains(got, "C SELECT 1") {
					t.Errorf("behind %s:\n%s", text, got)
				}
			}
		})
	}
}

// What the server would answer otherwise is refused, and the hint is true.
func TestSettingsAskedInOtherWays(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg, asDSQL)
	for _, text := range []string{"SELECT 1 + length(current_setting('statement_timeout'))", "SELECT setting FROM pg_settings WHERE name = 'Statement_Timeout'",
		"SELECT 1; SELECT current_setting('statement_timeout') || ''; SELECT 2"} {
		ask := "Q " + text + "\n< Z\n"
		if want, got := perform(t, pg.addr, ask), perform(t, s.addr, ask); got != want { // nothing was set
			t.Errorf("%s\n%s", text, firstDifference(got, want))
		}
		for _, ask := range []string{"Q " + text + "\n< Z\n", "P s | " + text + "\nB - | s\nE -\nS\n< Z\n"} {
			if strings.HasPrefix(ask, "P") && strings.Contains(text, ";") {
				continue
			}
			got := perform(t, s.addr, "Q SET statement_timeout = 5000\n< Z\n"+ask)
			if !strings.Contains(got, "C=0A000") || !strings.Contains(got, "H=Ask by SHOW statement_timeout") {
				t.Errorf("%s\n%s", ask, got)
			}
		}
	}
	if got := perform(t, s.addr, "Q SET statement_timeout = 5000; SELECT 1 AS one; SELECT current_setting('statement_timeout') || ''; SELECT 2\n< Z\n"); !strings.Contains(got, "C SELECT 1\\x00\nE S=ERROR C=0A000") {
		t.Error(got)
	}
}

// A conflict at any statement of a string is invisible, what Sluice answers in it
// included, and a string that fails leaves nothing of it.
func TestConflictsInStrings(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling)
	routes := map[string]*sluice{
		"dsql":     startSluice(t, pg, fastReplay, asDSQL, answering, maxOpen(3)),
		"postgres": startSluice(t, pg, fastReplay, maxOpen(3)),
	}
	strung := []string{"SET application_name = 'inside'", "SHOW application_name", "DEALLOCATE st1", "SET statement_timeout = '70s'", "SHOW statement_timeout", "RESET application_name", "SET LOCAL application_name = 'local'"}
	drawn := 0
	for _, form := range []string{"%s; %s; %s", "BEGIN; %s; %s; %s; COMMIT", "BEGIN; %s; %s; %s; ROLLBACK", "%s; %s; %s; SELECT 1/0", "INSERT INTO late VALUES (2); %s; %s; %s", "%s; %s; SELECT g, repeat('x', 1000) AS x FROM stumble_rows; %s; SELECT stumble(2) AS b"} {
		for range 2 { // more of them take too long
			for at := range 3 {
				drawn++
				parts := []any{strung[drawn%len(strung)], strung[(drawn+1)%len(strung)], "SELECT 1 AS one"}
				parts[at] = "SELECT stumble(1) AS a"
				for _, name := range []string{"idle", "block"} {
					begins, streams := strings.HasPrefix(form, "BEGIN"), strings.Contains(form, "x', 1000")
					// What commits by itself is not run again once a part of it was told.
					if name == "block" && begins || name == "idle" && streams {
						continue
					}
					around := surroundings[name]
					script := beforeString + around[0] + "Q " + fmt.Sprintf(form, parts...) + "\n< Z\n" + around[1] + probes
					stumbles(t, pg, false)
					want := perform(t, pg.addr, script)
					for route, s := range routes {
						stumbles(t, pg, true)
						before := replayed(t, s)
						if got := perform(t, s.addr, script); got != want {
							t.Errorf("%s, %s, %s:\n%s", route, name, fmt.Sprintf(form, parts...), firstDifference(got, want))
						}
						if replayed(t, s) == before {
							t.Errorf("%s, %s, %s: nothing was replayed", route, name, fmt.Sprintf(form, parts...))
						}
					}
				}
			}
		}
	}
}

// EXECUTE in SQL does not run what a client has prepared by the protocol, by the name
// that Sluice gave it: 26000, as for any name that the client does not know.
func TestExecuteSparesOthers(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE spared (n int)")
	for name, opts := range map[string][]option{"postgres": nil, "dsql": {asDSQL}, "replay": {withReplay}} {
		t.Run(name, func(t *testing.T) {
			s := startSluice(t, pg, append(opts, maxOpen(1))...)
			perform(t, s.addr, "P mine | INSERT INTO spared VALUES (1)\nB - | mine\nE -\nS\n< Z\n")
			const missing = `C=26000 M=prepared statement "sluice_1" does not exist`
			for _, script := range []string{
				"Q EXECUTE sluice_1\n< Z\n", "Q SELECT 1; EXECUTE sluice_1\n< Z\n", "Q EXECUTE sluice_1; SELECT 1\n< Z\n", "Q EXPLAIN ANALYZE EXECUTE sluice_1\n< Z\n",
				"Q BEGIN\n< Z\nQ EXECUTE Sluice_1\n< Z\nQ COMMIT\n< Z\n", "Q BEGIN; EXECUTE \"sluice_1\"; COMMIT\n< Z\n", "P - | EXECUTE sluice_1\nB - | -\nE -\nS\n< Z\n",
				"P - | SELECT 1\nB - | -\nE -\nP - | EXECUTE sluice_1\nB - | -\nE -\nS\n< Z\n",
				"Q PREPARE own AS SELECT 7 AS own\n< Z\nQ EXECUTE own\n< Z\nQ EXECUTE sluice_1\n< Z\nQ SELECT 1; EXECUTE sluice_1\n< Z\nP - | EXECUTE sluice_1\nB - | -\nE -\nS\n< Z\n",
			} {
				got := perform(t, s.addr, script)
				if want := strings.Count(strings.ToLower(script), "execute sluice_1") + strings.Count(script, `"sluice_1"`); strings.Count(got, missing) != want {
					t.Errorf("%d times %s in\n%s", want, missing, got)
				}
				if strings.Contains(script, "own") && !strings.Contains(got, `\x017`) {
					t.Errorf("no 7 in\n%s", got)
				}
			}
			if got := perform(t, s.addr, "Q PREPARE sluice_77 AS SELECT 7 AS own; EXECUTE sluice_77\n< Z\nQ EXECUTE sluice_77\n< Z\n"); strings.Count(got, `\x017`) != 2 {
				t.Errorf("not twice 7 in\n%s", got)
			}
		})
	}
	if got := perform(t, pg.addr, "Q SELECT count(*) FROM spared\n< Z\n"); !strings.Contains(got, `\x013`) {
		t.Errorf("somebody's INSERT was run:\n%s", got)
	}
}
