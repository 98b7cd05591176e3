package proxy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/integration/pgtest"
	"github.com/sluice-proxy/sluice/proxy"
)

// hiding are texts that are valid UTF-8, in which a SET is a part of a string
// constant; in that encoding it is a statement, which sets
// enable_seqscan: a server does not report that.
var hiding = map[string]string{
	"SJIS":            "SELECT E'\xc3\x95\x5c'; SET enable_seqscan TO $$off$$ --'",
	"SHIFT_JIS_2004":  "SELECT E'\xc3\x95\x5c'; SET enable_seqscan TO $$off$$ --'",
	"BIG5":            "SELECT E'\xe3\xa1\xa5\x5c'; SET enable_seqscan TO $$off$$ --'",
	"GBK":             "SELECT E'\xe3\x81\x95\x5c'; SET enable_seqscan TO $$off$$ --'",
	"GB18030":         "SELECT E'\xe3\x81\x95\x5c'; SET enable_seqscan TO $$off$$ --'",
	"\"Windows-936\"": "SELECT E'\xe3\x81\x95\x5c'; SET enable_seqscan TO $$off$$ --'",
}

// A text that the server does not read as UTF-8 hides nothing from the next client,
// whatever changed the encoding.
func TestTextsInOtherEncodings(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	pg.SQL(t, "postgres", "CREATE FUNCTION reading_recode(e text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN set_config('client_encoding', e, true); END $$")
	s := startSluice(t, pg, maxOpen(1))
	simple := func(statements ...string) string { return "Q " + strings.Join(statements, "\n< Z\nQ ") + "\n< Z\n" }
	for encoding, text := range hiding {
		call := strings.Replace(text, "; SET enable_seqscan TO $$off$$", ", set_config($$enable_seqscan$$, $$off$$, false)", 1)
		for name, script := range map[string]string{
			"SET":                   simple("SET client_encoding TO "+encoding, text),
			"SET NAMES":             simple("SET NAMES "+strings.ReplaceAll("'"+encoding+"'", `"`, ""), text),
			"in a block":            simple("BEGIN", "SET client_encoding TO "+encoding, text, "COMMIT"),
			"LOCAL":                 simple("BEGIN", "SET LOCAL client_encoding TO "+encoding, text, "COMMIT"),
			"set_config":            simple("BEGIN", "SELECT set_config('client_encoding', '"+strings.Trim(encoding, `"`)+"', true)", text, "COMMIT"),
			"a block's own string":  simple("BEGIN; SET LOCAL client_encoding TO "+encoding, text, "COMMIT"),
			"chained":               simple("BEGIN", "SET client_encoding TO "+encoding, "COMMIT AND CHAIN", text, "COMMIT"),
			"behind a rollback":     simple("SET client_encoding TO "+encoding, "BEGIN", "SET client_encoding TO UTF8", "ROLLBACK", text),
			"behind a savepoint":    simple("SET client_encoding TO "+encoding, "BEGIN", "SAVEPOINT a", "SET client_encoding TO UTF8", "ROLLBACK TO a", text, "COMMIT"),
			"a function":            simple("BEGIN", "SELECT reading_recode('"+strings.Trim(encoding, `"`)+"')", text, "COMMIT"),
			"extended":              ext("SET client_encoding TO "+encoding) + "S\n< Z\n" + ext(call) + "S\n< Z\n",
			"prepared in the group": ext("SET client_encoding TO "+encoding) + ext(call) + "S\n< Z\n",
			"in a group":            ext("SET client_encoding TO "+encoding) + "Q " + text + "\n< Z\n",
			"set_config in a group": "Q BEGIN\n< Z\n" + ext("SELECT set_config('client_encoding', '"+strings.Trim(encoding, `"`)+"', true)") + "Q " + text + "\n< Z\nQ COMMIT\n< Z\n",
		} {
			t.Run(encoding+"/"+name, func(t *testing.T) {
				if got := perform(t, s.addr, script); !strings.Contains(got, "C SET\n") && !strings.Contains(got, "off") {
					t.Fatalf("the text does not hide a SET:\n%s", got)
				}
				waitFor(t, "the backend to come back or go", func() bool { return s.backends.Stats().InUse == 0 })
				if got := perform(t, s.addr, "Q SHOW enable_seqscan\n< Z\n"); strings.Contains(got, "off") {
					t.Errorf("another client has its enable_seqscan:\n%s", got)
				}
			})
		}
		t.Run(encoding+"/startup", func(t *testing.T) {
			for _, params := range []map[string]string{
				{"client_encoding": strings.Trim(encoding, `"`)},
				{"options": "-c client_encoding=" + strings.Trim(encoding, `"`)},
			} {
				c, _ := startRaw(t, s.addr, params)
				for _, sql := range []string{text, "SET client_encoding TO UTF8", "RESET client_encoding", text} {
					c.queue(encodeLine(t, "Q", sql))
					c.readThrough("Z")
				}
				c.conn.Close()
				waitFor(t, "the backend to come back or go", func() bool { return s.backends.Stats().InUse == 0 })
				if got := perform(t, s.addr, "Q SHOW enable_seqscan\n< Z\n"); strings.Contains(got, "off") {
					t.Errorf("another client has its enable_seqscan:\n%s", got)
				}
			}
		})
	}
	t.Run("ASCII is read", func(t *testing.T) {
		before := s.count(t, "dsql_pins_total", "unparsed")
		got := perform(t, s.addr, simple("SET client_encoding TO SJIS", "SET TimeZone TO 'Asia/Tokyo'", "SELECT 1", "SHOW TimeZone"))
		if !strings.Contains(got, "Asia/Tokyo") || s.count(t, "dsql_pins_total", "unparsed") != before {
			t.Errorf("pinned:\n%s", got)
		}
	})
}

// A statement whose text nobody but the server can read goes on to be what it was prepared
// as, whatever is set behind it.
func TestStatementsInOtherEncodings(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", `CREATE ROLE reader; GRANT reader TO CURRENT_USER;
		CREATE FUNCTION reading_zone() RETURNS int LANGUAGE plpgsql AS $$ BEGIN SET TimeZone TO 'Asia/Tokyo'; RETURN 1; END $$`)
	s := startSluice(t, pg, maxOpen(1))
	const run = "B - | s\nD P -\nE -\nS\n< Z\n"
	n := 0
	for _, encoding := range []string{"SJIS", "BIG5", "GBK"} {
		for name, script := range map[string]string{
			"in a block":           "Q BEGIN\n< Z\nQ SET LOCAL client_encoding TO %s\n< Z\n%s\nQ COMMIT\n< Z\n",
			"a block's own string": "Q BEGIN; SET client_encoding TO %s\n< Z\n%s\nQ ROLLBACK\n< Z\n",
			"session":              "Q SET client_encoding TO %s\n< Z\n%s",
		} {
			for _, change := range []string{"SET LOCAL TIME ZONE 'Asia/Tokyo'", "SET TimeZone TO 'Asia/Tokyo'", "SET DateStyle TO SQL, DMY", "SET IntervalStyle TO sql_standard",
				"SET search_path TO pg_catalog", "SET ROLE reader", "SELECT set_config('TimeZone', 'Asia/Tokyo', false)", "SELECT reading_zone()", "RESET TimeZone", "SET client_encoding TO UTF8", "SET LOCAL client_encoding TO EUC_CN", "RESET client_encoding"} {
				for _, text := range []string{"SELECT '\xc3\xa9'", "SELECT '02/03/2026'::date, '\xc3\xa9'", "SELECT $1::int, '\xc3\xa9'", "SELECT 1 AS \"\xc3\xa9\""} {
					if n++; n%proxy.OneIn != 0 {
						continue
					}
					bind := run
					if strings.Contains(text, "$1") {
						bind = strings.ReplaceAll(run, "B - | s", "B - | s | 7")
					}
					script := fmt.Sprintf(script, encoding, "P s | "+text+"\nD S s\nS\n< Z\n"+bind+"Q "+change+"\n< Z\n"+bind+bind)
					if got, want := perform(t, s.addr, script), perform(t, pg.addr, script); got != want {
						t.Errorf("%s, %s, %s, %s:\n%s\nPostgreSQL:\n%s", encoding, name, change, text, got, want)
					}
					waitFor(t, "the backend to come back or go", func() bool { return s.backends.Stats().InUse == 0 })
				}
			}
		}
	}
}

// With standard_conforming_strings off at the server a backslash escapes in every
// string constant, and hides a SET in the same way.
func TestTextsThatEscape(t *testing.T) {
	t.Parallel()
	const text = `SELECT '\', '; SET TimeZone TO $$Asia/Tokyo$$ --'`
	check := func(t *testing.T, s *sluice, script string) {
		t.Helper()
		got := perform(t, s.addr, script)
		waitFor(t, "the backend to come back or go", func() bool { return s.backends.Stats().InUse == 0 })
		if got := perform(t, s.addr, "Q SHOW TimeZone\n< Z\n"); strings.Contains(got, "Tokyo") {
			t.Errorf("another client has its TimeZone:\n%s", got)
		}
		if !strings.Contains(got, "C SET") && !strings.Contains(got, "Asia/Tokyo") {
			t.Errorf("the text does not hide a SET:\n%s", got)
		}
	}
	t.Run("at the server", func(t *testing.T) {
		pg := newPostgres(t, pgtest.Setting("standard_conforming_strings", "off"))
		for name, script := range map[string]string{"simple": "Q " + text + "\n< Z\n", "in a block": "Q BEGIN\n< Z\nQ " + text + "\n< Z\nQ COMMIT\n< Z\n"} {
			t.Run(name, func(t *testing.T) { // the first text comes before any backend
				s := startSluice(t, pg, maxOpen(1))
				for range 3 {
					check(t, s, script)
				}
			})
		}
		t.Run("prepared", func(t *testing.T) {
			s := startSluice(t, pg, maxOpen(1))
			for round := range 3 {
				before := s.count(t, "dsql_pins_total", "unparsed")
				perform(t, s.addr, "P - | SELECT set_config('TimeZone', 'Asia/Tokyo', false), '\\', ', false)\nS\n< Z\n"+ext(`SELECT '\\', 1`)+"S\n< Z\n")
				if s.count(t, "dsql_pins_total", "unparsed") == before {
					t.Errorf("round %d: a text with a backslash was read", round)
				}
				waitFor(t, "the backend to come back or go", func() bool { return s.backends.Stats().InUse == 0 })
			}
		})
	})
	t.Run("in a block", func(t *testing.T) {
		s := startSluice(t, sharedPostgres(t), maxOpen(1))
		for _, set := range []string{"SET LOCAL standard_conforming_strings = off", "SELECT set_config('standard_conforming_strings', 'off', true)", "SET standard_conforming_strings = off"} {
			check(t, s, fmt.Sprintf("Q BEGIN\n< Z\nQ %s\n< Z\nQ %s\n< Z\nQ COMMIT\n< Z\n", set, text))
		}
	})
}
