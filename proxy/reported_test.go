package proxy_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/integration/pgtest"
)

var reportLine = regexp.MustCompile(`(?m)^S (\w+)=(.*)$`)

// A client whose backend was lost, or whose replay was refused, has been told in front of ReadyForQuery
// which parameters are in force then.
func TestParametersAfterLoss(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", changing)
	stumbles(t, pg, true)
	scripts := map[string]struct{ script, word string }{
		"in a block":      {"Q BEGIN\n< Z\nQ SET TimeZone = 'Asia/Tokyo'\n< Z\nQ SET DateStyle = 'SQL'\n< Z\nQ SELECT nextval('changing'), 'doomed'\n< Z\n", "doomed"},
		"SET LOCAL":       {"Q BEGIN\n< Z\nQ SET LOCAL TimeZone = 'Asia/Tokyo'; SELECT nextval('changing')\n< Z\nQ SELECT 'doomed'\n< Z\n", "doomed"},
		"refused":         {"Q BEGIN\n< Z\nQ SET TimeZone = 'Asia/Tokyo'\n< Z\nQ SELECT nextval('changing')\n< Z\nQ SELECT conflicts()\n< Z\n", ""},
		"at COMMIT":       {"Q BEGIN\n< Z\nQ SET TimeZone = 'Asia/Tokyo'\n< Z\nQ SET IntervalStyle = iso_8601\n< Z\nQ COMMIT\n< Z\n", "COMMIT"},
		"autocommit":      {"Q SET TimeZone = 'Asia/Tokyo'\n< Z\n", "Asia/Tokyo"},
		"a string":        {"Q SET TimeZone = 'Asia/Tokyo'; COMMIT; SET DateStyle = 'German'; SELECT 'doomed'\n< Z\n", "doomed"},
		"a group":         {ext("BEGIN") + ext("SET TimeZone = 'Asia/Tokyo'") + "S\n< Z\n" + ext("SELECT 'doomed'") + "S\n< Z\n", "doomed"},
		"behind a Flush":  {ext("BEGIN") + ext("SET TimeZone = 'Asia/Tokyo'") + "S\n< Z\n" + ext("SELECT 'doomed'") + "H\nS\n< Z\n", "doomed"},
		"at ROLLBACK":     {"Q BEGIN\n< Z\nQ SET TimeZone = 'Asia/Tokyo'\n< Z\nQ SELECT nextval('changing')\n< Z\nQ ROLLBACK\n< Z\n", "ROLLBACK"},
		"client encoding": {"Q BEGIN\n< Z\nQ SET client_encoding = 'LATIN1'\n< Z\nQ SELECT nextval('changing'), 'doomed'\n< Z\n", "doomed"},
	}
	for route, opts := range map[string][]option{"postgres": nil, "replay": {fastReplay}, "dsql": {asDSQL, fastReplay}, "no replay": {asDSQL}} {
		var cut cutter
		s := startSluice(t, pg, append(opts, cut.option, maxOpen(8))...)
		for name, test := range scripts {
			for _, after := range []bool{false, true} {
				c, out := dialWith(t, s.addr, map[string]string{"TimeZone": "America/New_York"})
				told := map[string]string{}
				learn := func(out string) {
					for _, m := range reportLine.FindAllStringSubmatch(out, -1) {
						told[m[1]] = m[2]
					}
				}
				learn(out)
				before := told["TimeZone"]
				if test.word != "" {
					cut.arm(test.word, after)
				}
				out = c.play(t, test.script)
				cut.word.Store(nil)
				learn(out)
				if strings.HasSuffix(out, "Z E\n") {
					if told["TimeZone"] != before {
						t.Errorf("%s, %s: in the failed block the client believes in %s:\n%s", route, name, told["TimeZone"], out)
					}
					learn(c.play(t, "Q ROLLBACK\n< Z\n"))
				}
				for _, p := range []string{"TimeZone", "DateStyle", "IntervalStyle", "client_encoding"} {
					if is := c.play(t, fmt.Sprintf("Q SHOW %s\n< Z\n", p)); !strings.Contains(is, told[p]+"\n") {
						t.Errorf("%s, %s, %v: the client believes in %s %s:\n%s\nbut\n%s", route, name, after, p, told[p], out, is)
					}
				}
				c.conn.Close()
			}
		}
	}
}

// A setting that a RESET in a block has given its startup value is told as that, also
// when no backend is there to ask.
func TestParameterOfAResetInABlock(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t), maxOpen(1))
	c, _ := dialWith(t, s.addr, map[string]string{"TimeZone": "America/New_York"})
	defer c.conn.Close()
	told := "America/New_York"
	for _, sql := range []string{"BEGIN", "SET TimeZone TO 'Asia/Tokyo'", "SET TimeZone TO DEFAULT", "COMMIT", "SET work_mem = '4MB'", "SET DateStyle TO 'SQL, DMY'", "SELECT 1", "RESET work_mem", "SELECT 1"} {
		c.queue(encodeLine(t, "Q", sql))
		for _, m := range reportLine.FindAllStringSubmatch(c.readThrough("Z"), -1) {
			if m[1] == "TimeZone" {
				told = m[2]
			}
		}
		if want := map[bool]string{true: "Asia/Tokyo", false: "America/New_York"}[strings.Contains(sql, "Tokyo")]; told != want {
			t.Errorf("behind %s the client was told TimeZone=%q, want %q", sql, told, want)
		}
	}
}

// Behind what resets a session that keeps its backend, the client's startup values are in
// force, and it is not told of others.
func TestParametersAfterReset(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg)
	for _, before := range []string{"", "Q LISTEN l\n< Z\n", "Q SET TimeZone = 'Asia/Tokyo'\n< Z\nQ LISTEN l\n< Z\n", "Q CREATE TEMP TABLE IF NOT EXISTS reset_t (a int)\n< Z\n"} {
		for _, reset := range []string{"DISCARD ALL", "RESET ALL", "RESET TimeZone", "SET TimeZone TO DEFAULT", "SET SESSION AUTHORIZATION DEFAULT; RESET ALL",
			"SET TimeZone TO DEFAULT; BEGIN READ ONLY; SELECT 1/0", "BEGIN; RESET TimeZone; SAVEPOINT a; SELECT 1/0"} {
			for route, script := range map[string]string{"simple": "Q " + reset + "\n< Z\n", "extended": ext(reset) + "S\n< Z\n"} {
				if route == "extended" && strings.Contains(reset, ";") {
					continue
				}
				play := func(addr string) string {
					c, out := dialWith(t, addr, map[string]string{"TimeZone": "America/New_York", "DateStyle": "SQL, DMY"})
					defer c.conn.Close()
					for line := range strings.Lines(before + script + "Q SELECT current_setting('TimeZone'), current_setting('DateStyle')\n< Z\n") {
						verb, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
						if verb == "<" {
							out += c.readThrough(rest)
							continue
						}
						c.queue(encodeLine(t, verb, rest))
						c.flush()
					}
					told := map[string]string{}
					for _, m := range reportLine.FindAllStringSubmatch(out, -1) {
						told[m[1]] = m[2]
					}
					row, _, _ := strings.Cut(out[strings.LastIndex(out, "\nD ")+1:], "\n")
					return fmt.Sprint(told["TimeZone"], " ", told["DateStyle"], " ", row)
				}
				if got, want := play(s.addr), play(pg.addr); got != want {
					t.Errorf("behind %q, %s %s: %s, directly %s", before, route, reset, got, want)
				}
			}
		}
	}
}

// However many settings were made before, a client is told what the server makes of its own.
func TestParametersBehindManySettings(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg, maxOpen(1))
	var many strings.Builder
	for i := range 1100 {
		fmt.Fprintf(&many, "Q SET work_mem = '%dkB'\n< Z\n", 100+i)
	}
	const script = "tell TimeZone\nQ SET search_path TO s2\n< Z\nP s1 | SET TIME ZONE -3\nB - | s1\nE -\nS\n< Z\nB - | s1\nE -\nS\n< Z\nQ SHOW TimeZone\n< Z\nQ RESET search_path\n< Z\nB - | s1\nE -\nS\n< Z\n"
	for _, before := range []string{"", many.String(), ""} {
		perform(t, s.addr, "Q SELECT 1\n< Z\n"+before)
		if want, got := perform(t, pg.addr, script), perform(t, s.addr, script); got != want {
			t.Errorf("behind %d settings: %s", strings.Count(before, "Q"), firstDifference(got, want))
		}
	}
}

// What a client is told is of its own server, also where another Sluice of the process stands in front of
// a server with other defaults.
func TestParametersOfAnotherServer(t *testing.T) {
	t.Parallel()
	other := startSluice(t, newPostgres(t, pgtest.Setting("TimeZone", "Pacific/Auckland"), pgtest.Setting("DateStyle", "SQL, DMY")))
	for route, opts := range kinds {
		s := startSluice(t, sharedPostgres(t), append(opts, asSchemas, maxOpen(1))...)
		for _, script := range []string{
			"Q SELECT 1\n< Z\n",
			"Q SET TimeZone = 'Asia/Tokyo'\n< Z\nQ RESET TimeZone\n< Z\n",
			"Q SET TimeZone = 'Asia/Tokyo'\n< Z\nQ DISCARD ALL\n< Z\n",
			"Q BEGIN\n< Z\nQ SET TimeZone = 'Asia/Tokyo'\n< Z\nQ ROLLBACK\n< Z\n",
			"Q BEGIN; SET TimeZone = 'Asia/Tokyo'; RESET ALL\n< Z\nQ SELECT 1/0\n< Z\nQ COMMIT\n< Z\n",
			"Q CREATE DATABASE postgres\n< Z\n",
		} {
			c, greeting := dialWith(t, s.addr, map[string]string{})
			perform(t, other.addr, "Q SELECT 1\n< Z\nQ SET TimeZone = 'Asia/Tokyo'\n< Z\nQ RESET TimeZone\n< Z\n")
			out := greeting + c.play(t, script) + c.play(t, "Q SELECT 1\n< Z\n")
			if strings.Contains(out, "Auckland") || strings.Contains(out, "SQL, DMY") {
				t.Errorf("%s: the client is told of another server:\n%s", route, out)
			}
		}
	}
}

// parametersInOrder is a transcript in which parameters that were told together are in the order of
// their names.
func parametersInOrder(transcript string) string {
	lines := strings.Split(transcript, "\n")
	for i := 0; i < len(lines); i++ {
		end := i
		for end < len(lines) && strings.HasPrefix(lines[end], "S ") {
			end++
		}
		slices.Sort(lines[i:end])
		i = max(i, end)
	}
	return strings.Join(lines, "\n")
}

// What a client is told of a parameter is the truth behind each request, also where a transaction has
// begun behind a SET in the same string, which belongs to it, and in a block that has failed.
func TestParametersOfASetInFrontOfABegin(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	q := func(sql string) string { return "Q " + sql + "\n< Z\n" }
	scripts := map[string]string{}
	for name, begin := range map[string]string{"one": "SET TimeZone = 'Asia/Tokyo'; BEGIN", "two": "SET DateStyle = 'SQL, DMY'; SET TimeZone = 'Asia/Tokyo'; BEGIN",
		"behind a read": "SELECT 1; SET TimeZone = 'Asia/Tokyo'; BEGIN", "in front of a read": "SET TimeZone = 'Asia/Tokyo'; BEGIN; SELECT 1", "a reset": "RESET TimeZone; BEGIN",
		"behind a block": "BEGIN; SET TimeZone = 'Asia/Tokyo'; COMMIT; BEGIN", "chained": "BEGIN; SET TimeZone = 'Asia/Tokyo'; COMMIT AND CHAIN", "read only": "SET TimeZone = 'Asia/Tokyo'; BEGIN READ ONLY",
		"beside what is kept": "SET application_name = 'x'; SET TimeZone = 'Asia/Tokyo'; BEGIN", "behind what is kept": "SET TimeZone = 'Asia/Tokyo'; SET application_name = 'x'; BEGIN",
		"by set_config": "SELECT set_config('TimeZone', 'Asia/Tokyo', false); BEGIN", "local": "SET LOCAL TimeZone = 'Asia/Tokyo'; BEGIN", "in a pipeline": ""} {
		for then, block := range map[string]string{"local": q("SET LOCAL TimeZone = 'Europe/Berlin'"), "set": q("SET TimeZone = 'Europe/Berlin'"), "default": q("SET LOCAL TimeZone TO DEFAULT"), "reset": q("RESET TimeZone"),
			"nothing": "", "read": q("SELECT 2"), "kept": q("SET LOCAL application_name = 'y'") + q("SET LOCAL TimeZone = 'Europe/Berlin'"), "extended": ext("SET LOCAL TimeZone = 'Europe/Berlin'") + "S\n< Z\n" + ext("SELECT 1/0") + "S\n< Z\n",
			"misspelt": q("SET LOCAL TimeZone = 'Europe/Berlin'") + q("SELEC 1"), "by a function": q("SELECT set_config('TimeZone', 'Europe/Berlin', true)"), "wrong": q("SET LOCAL TimeZone = 'Europe/Berlin'") + q("SET LOCAL TimeZone = 'Nope'"), "savepoint": q("SAVEPOINT a") + q("SET TimeZone = 'Europe/Berlin'") + q("SELECT 1/0") + q("ROLLBACK TO a"), "in a string": q("SET LOCAL TimeZone = 'Europe/Berlin'; SELECT 1/0")} {
			start := q(begin)
			if begin == "" {
				start = ext("SET TimeZone = 'Asia/Tokyo'") + ext("BEGIN") + "S\n< Z\n"
			}
			scripts[name+", "+then] = start + block + q("SELECT 1/0") + q("SELECT 1") + q("ROLLBACK") + q("SHOW TimeZone")
			scripts[name+", "+then+", committed"] = start + block + q("COMMIT") + q("SHOW TimeZone")
		}
	}
	for route, opts := range map[string][]option{"plain": {fastReplay}, "dsql": {asDSQL}} {
		t.Run(route, func(t *testing.T) {
			s := startSluice(t, pg, append(opts, maxOpen(2))...)
			perform(t, s.addr, "Q SELECT 1\n< Z\n") // a backend tells what clients are told
			for name, script := range scripts {
				for _, params := range []map[string]string{{}, {"TimeZone": "America/New_York"}} {
					if len(params) > 0 && !strings.HasPrefix(name, "one") && !strings.HasPrefix(name, "a reset") {
						continue
					}
					if route == "dsql" && (strings.Contains(script, "CHAIN") || strings.Contains(script, "SAVEPOINT")) {
						continue
					}
					direct, _ := dialWith(t, pg.addr, params)
					c, _ := dialWith(t, s.addr, params)
					got, want := c.play(t, script), direct.play(t, script)
					if strings.Contains(got, "C=0A000 M=a RESET to a value of the client's startup") { // docs/compatibility.md
						want = got
					}
					if parametersInOrder(got) != parametersInOrder(want) {
						t.Errorf("%s, %v: %s", name, params, firstDifference(got, want))
					}
					c.conn.Close()
					direct.conn.Close()
				}
			}
		})
	}
}
