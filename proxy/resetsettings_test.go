package proxy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/integration/pgtest"
	"github.com/sluice-proxy/sluice/proxy"
)

const settingFunctions = `
CREATE FUNCTION sets(name text, value text, local bool) RETURNS text LANGUAGE sql AS $$ SELECT set_config(name, value, local) $$;
CREATE TABLE setting_rows (a int);
CREATE FUNCTION sets_too() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('work_mem', '77MB', false); RETURN NEW; END $$;
CREATE TRIGGER sets BEFORE INSERT ON setting_rows FOR EACH ROW EXECUTE FUNCTION sets_too();
CREATE ROLE setting_role;`

// A function that sets something for the session does so for its client only.
func TestFunctionsThatSet(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", settingFunctions)
	resets := func(r proxy.ResetPolicy) option { return configure(func(c *proxy.Config) { c.Reset = r }) }
	const look = "Q SELECT current_setting('TimeZone'), current_setting('DateStyle'), current_setting('work_mem'), current_setting('search_path'), current_user\n< Z\n"
	for name, test := range map[string]struct {
		script string
		lasts  bool // for its own client, as on a connection of its own
		always bool // only reset by always
	}{
		"reported":              {"Q SELECT sets('TimeZone', 'Asia/Tokyo', false)\n< Z\n", true, false},
		"reported, extended":    {ext("SELECT sets('DateStyle', 'SQL, DMY', false)") + "S\n< Z\n", true, false},
		"reported, in a block":  {"Q BEGIN\n< Z\nQ SELECT sets('TimeZone', 'Asia/Tokyo', false)\n< Z\nQ COMMIT\n< Z\n", true, false},
		"reported, rolled back": {"Q BEGIN\n< Z\nQ SELECT sets('TimeZone', 'Asia/Tokyo', false)\n< Z\nQ ROLLBACK\n< Z\n", true, false},
		"half a DateStyle":      {"Q BEGIN\n< Z\nQ SELECT set_config('DateStyle', 'SQL', true)\n< Z\nQ SET DateStyle = 'DMY'\n< Z\nQ COMMIT\n< Z\n", true, false},
		"local":                 {"Q BEGIN\n< Z\nQ SELECT sets('work_mem', '9MB', true)\n< Z\nQ COMMIT\n< Z\n", true, false},
		"not reported":          {"Q SELECT sets('work_mem', '9MB', false)\n< Z\n", false, false},
		"suspended":             {"P - | SELECT sets('work_mem', '9MB', false) FROM generate_series(1, 3)\nB - | -\nE - 1\nS\n< Z\n", false, false},
		"behind a savepoint":    {"Q BEGIN\n< Z\nQ SAVEPOINT s\n< Z\nQ ROLLBACK TO s\n< Z\nQ SELECT sets('work_mem', '9MB', false)\n< Z\nQ RELEASE s\n< Z\nQ COMMIT AND CHAIN\n< Z\nQ ROLLBACK\n< Z\n", false, false},
		"in a write":            {"Q DELETE FROM setting_rows WHERE sets('work_mem', '9MB', false) = ''; UPDATE setting_rows SET a = 1\n< Z\nQ INSERT INTO setting_rows SELECT 1 WHERE sets('search_path', 'x', false) = ''\n< Z\n", false, false},
		"in a pipeline":         {ext("SELECT sets('work_mem', '9MB', false)") + ext("COMMIT") + ext("SELECT 1/0") + "S\n< Z\n", false, false},
		"by a trigger":          {"Q INSERT INTO setting_rows VALUES (1)\n< Z\n", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			for mode, opts := range map[string][]option{"auto": {resets(proxy.ResetAuto)}, "default": {fastReplay}, "always": {resets(proxy.ResetAlways)}, "always on dsql": {asDSQL, resets(proxy.ResetAlways)}} {
				if test.always && mode != "always" || strings.Contains(mode, "dsql") && !test.lasts {
					continue
				}
				s := startSluice(t, pg, append(opts, maxOpen(1))...)
				perform(t, s.addr, "Q SELECT 1\n< Z\n") // a backend tells what clients are told
				params := map[string]string{"IntervalStyle": "iso_8601"}
				direct, _ := dialWith(t, pg.addr, params)
				c, _ := dialWith(t, s.addr, params)
				other := dialRaw(t, s.addr)
				fresh := dialRaw(t, pg.addr).play(t, look)
				if got, want := c.play(t, test.script), direct.play(t, test.script); got != want {
					t.Errorf("%s: %s", mode, firstDifference(got, want))
				}
				if found := other.play(t, look); found != fresh {
					t.Errorf("%s: another client finds\n%s", mode, found)
				}
				want := direct.play(t, look)
				if !test.lasts {
					want = fresh
				}
				if got := c.play(t, look); got != want {
					t.Errorf("%s: its client finds\n%snot\n%s", mode, got, want)
				}
			}
		})
	}
}

// A session whose role a function has changed keeps it, and its backend.
func TestFunctionThatSetsTheRole(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", settingFunctions)
	s := startSluice(t, pg, maxOpen(2))
	const script = "Q SELECT sets('role', 'setting_role', false)\n< Z\nQ SELECT current_user\n< Z\n"
	c := dialRaw(t, s.addr)
	if got, want := c.play(t, script), perform(t, pg.addr, "Q SELECT 1\n< Z\n"+script); !strings.HasSuffix(want, got[strings.Index(got, "Q SELECT current"):][len("Q SELECT current_user\n"):]) {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := dialRaw(t, s.addr).play(t, "Q SELECT current_user\n< Z\n"); !strings.Contains(got, `postgres\nC`) && !strings.Contains(got, "postgres\n") {
		t.Errorf("another client is %s", got)
	}
	if n := s.count(t, "dsql_pins_total", "role"); n != 1 {
		t.Errorf("%v pins, want 1", n)
	}
}

// Statements that are prepared while set_config or a function has other values in force are
// not those of other clients, nor theirs its own.
func TestSetConfigAndPreparedStatements(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", settingFunctions)
	text := func(n int) string { return fmt.Sprintf("SELECT timestamptz '2024-01-0%d 00:00' AT TIME ZONE 'UTC'", n) }
	for name, how := range map[string]string{
		"set_config":           "Q SELECT set_config('TimeZone', 'Asia/Tokyo', true)\n< Z\n",
		"set_config, extended": ext("SELECT set_config('TimeZone', 'Asia/Tokyo', true)") + "S\n< Z\n",
		"a parameter":          "P - | SELECT set_config('TimeZone', $1, true)\nB - | - | Asia/Tokyo\nE -\nS\n< Z\n",
		"a pipeline":           ext("SELECT set_config('TimeZone', 'Asia/Tokyo', true)"),
		"a function":           "Q SELECT sets('TimeZone', 'Asia/Tokyo', true)\n< Z\n",
		"a function, pipeline": ext("SELECT sets('TimeZone', 'Asia/Tokyo', true)"),
		"a function, string":   "Q SELECT 1; SELECT sets('TimeZone', 'Asia/Tokyo', true)\n< Z\n",
	} {
		t.Run(name, func(t *testing.T) {
			for _, opts := range [][]option{nil, {fastReplay}} {
				s := startSluice(t, pg, append(opts, maxOpen(1))...)
				play := func(script string) {
					t.Helper()
					want := perform(t, pg.addr, script)
					if got := perform(t, s.addr, script); got != want {
						t.Errorf("%s\n%s", script, firstDifference(got, want))
					}
				}
				prepared := "P s | " + text(1) + "\nS\n< Z\n"
				play(ext(text(2)) + "S\n< Z\n")
				play(prepared + "Q BEGIN\n< Z\n" + how + ext(text(3)) + ext(text(2)) + "S\n< Z\nQ COMMIT\n< Z\nB - | s\nE -\nS\n< Z\n" + ext(text(3)) + "S\n< Z\n")
				for n := range 3 {
					play(ext(text(n+1)) + "S\n< Z\n")
				}
			}
		})
	}
}

// Behind a reset in a string stands what the client gave at its startup, for a value of
// DateStyle that says a half and in the block that the string begins; where the server
// would have its own in force there, the string is refused.
func TestStringsBehindAReset(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	for name, opts := range map[string][]option{"postgres": nil, "dsql": {asDSQL, answering, allIgnored}} {
		s := startSluice(t, pg, append(opts, maxOpen(1))...)
		for _, startup := range []string{"DMY", "SQL", "SQL, DMY"} {
			for _, script := range []string{
				"Q SET DateStyle TO 'YMD'; SET DateStyle TO DEFAULT; SET DateStyle = 'ISO'\n< Z\n",
				"Q SELECT 1 AS one; RESET DateStyle; SET DateStyle = 'ISO'\n< Z\n",
				"Q RESET ALL; SET DateStyle = 'MDY'\n< Z\n",
				"Q SELECT 1 AS one; RESET ALL; COMMIT; BEGIN READ ONLY\n< Z\n",
				"Q BEGIN\n< Z\nQ SELECT 1 AS one; RESET ALL; COMMIT AND CHAIN\n< Z\n",
				"Q SELECT 1 AS one; RESET ALL; BEGIN\n< Z\n",
				"Q BEGIN\n< Z\nQ SELECT 1 AS one; RESET ALL; ROLLBACK; BEGIN\n< Z\n",
			} {
				script += "Q SHOW DateStyle\n< Z\nQ COMMIT\n< Z\n"
				params := map[string]string{"DateStyle": startup}
				direct, _ := dialWith(t, pg.addr, params)
				through, _ := dialWith(t, s.addr, params)
				want, got := direct.play(t, script), through.play(t, script)
				direct.conn.Close()
				through.conn.Close()
				if got != want && !strings.Contains(got, "M=a RESET to a value of the client's startup") {
					t.Errorf("%s, DateStyle %s:\n%s", name, startup, firstDifference(got, want))
				}
			}
		}
	}
}

// A RESET without a Sync belongs to the block of a BEGIN behind it, whose ROLLBACK undoes it in the same moment, for a
// block that AND CHAIN begins and for what follows in the same text.
func TestResetInFrontOfABegin(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	n := 0
	for name, opts := range map[string][]option{"postgres": nil, "dsql": {asDSQL, answering, allIgnored}} {
		s := startSluice(t, pg, append(opts, maxOpen(1))...)
		for setting, values := range map[string][2]string{"TimeZone": {"Europe/Paris", "Asia/Tokyo"}, "DateStyle": {"German", "SQL, DMY"}, "IntervalStyle": {"postgres_verbose", ""}, "work_mem": {"9MB", ""}} {
			params, show := map[string]string{setting: values[1]}, "SHOW "+setting
			if values[1] == "" {
				params = nil
			}
			for _, reset := range []string{"RESET " + setting, "RESET ALL", "SET " + setting + " TO DEFAULT"} {
				for _, begin := range []string{"Q BEGIN\n< Z\n", "P - | BEGIN\nB - | -\nE -\nS\n< Z\n", "S\n< Z\nQ BEGIN\n< Z\n", "", "Q SELECT 1/0\n< Z\n", "P - | SELECT 1/0\nB - | -\nE -\nS\n< Z\n",
					"P - | BEGIN\nB - | -\nE -\nP - | ROLLBACK\nB - | -\nE -\nP - | " + show + "\nB - | -\nE -\nS\n< Z\n", "S\n< Z\nP - | BEGIN\nB - | -\nE -\nP - | " + reset + "\nB - | -\nE -\nP - | ROLLBACK\nB - | -\nE -\nP - | " + show + "\nB - | -\nE -\nS\n< Z\n"} {
					for _, end := range []string{"Q ROLLBACK AND CHAIN\n< Z\n", "Q ROLLBACK; BEGIN; " + show + "\n< Z\n", "Q ROLLBACK; " + show + "\n< Z\n", "Q COMMIT AND CHAIN\n< Z\n", "Q ROLLBACK\n< Z\n"} {
						if n++; setting != "TimeZone" && setting != "work_mem" && n%proxy.OneIn != 0 {
							continue
						}
						script := "Q SET " + setting + " TO '" + values[0] + "'\n< Z\nP - | " + reset + "\nB - | -\nE -\n" + begin + "Q " + show + "\n< Z\n" + end + "Q " + show + "\n< Z\nQ ROLLBACK\n< Z\nQ " + show + "\n< Z\n"
						direct, _ := dialWith(t, pg.addr, params)
						through, _ := dialWith(t, s.addr, params)
						want, got := direct.play(t, script), through.play(t, script)
						direct.conn.Close()
						through.conn.Close()
						unknown := setting == "work_mem" && strings.Contains(got, `M=the value of "work_mem" is not known at this place`) // refused: docs/compatibility
						if got != want && !unknown {
							t.Errorf("%s, %s:\n%s\n%s", name, script, firstDifference(got, want), got)
						}
					}
				}
			}
		}
	}
}

// PREPARE TRANSACTION ends a block as COMMIT does: no statement and no block behind it runs
// under a value that a RESET in front has taken from the server's default.
func TestResetBesidePrepareTransaction(t *testing.T) {
	t.Parallel()
	s := startSluice(t, newPostgres(t, pgtest.Setting("max_prepared_transactions", "5")))
	for _, script := range []string{
		"Q BEGIN\nQ SELECT 1/0\nQ PREPARE TRANSACTION 'x'; RESET ALL; SHOW TimeZone\nQ ROLLBACK\n< ZZZZ",
		"Q BEGIN\nQ RESET ALL; PREPARE TRANSACTION 'x'; BEGIN\nQ SHOW TimeZone\nQ ROLLBACK\n< ZZZZ",
	} {
		c, _ := startRaw(t, s.addr, map[string]string{"timezone": "Asia/Tokyo"})
		if got := c.say(t, script); !strings.Contains(got, "C=0A000") || strings.Contains(got, "D ") {
			t.Errorf("%s\n%s", script, got)
		}
	}
}
