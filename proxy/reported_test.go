package proxy_test

import (
	"fmt"
	"regexp"
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
