package proxy_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy"
)

// pairedSettings are settings with the values that clients give them: another client's SET, what a client
// asks for at its startup ("-" for nothing), and what it sets.
var pairedSettings = map[string]struct {
	values, startups, sets []string
	postgres               bool // not on DSQL
}{
	"DateStyle": {values: []string{"'SQL, DMY'", "'German'", "'Postgres'", "'YMD'", "ISO, DMY"}, startups: []string{"-", "ISO", "SQL, YMD"},
		sets: []string{"'SQL'", "'DMY'", "'German'", "SQL, US"}},
	"IntervalStyle": {values: []string{"'iso_8601'", "sql_standard"}, startups: []string{"-", "iso_8601", "postgres_verbose"}, sets: []string{"'postgres'", "sql_standard"}},
	"TimeZone": {values: []string{"'Asia/Tokyo'", "'Europe/Berlin'", "5"}, startups: []string{"-", "Asia/Tokyo", "America/New_York"},
		sets: []string{"'UTC'", "'Asia/Tokyo'", "-3"}},
	"client_encoding":    {values: []string{"'LATIN1'", "'UTF8'"}, startups: []string{"-", "LATIN1", "UTF8"}, sets: []string{"'LATIN1'", "'UTF8'", "WIN1252"}},
	"extra_float_digits": {values: []string{"0", "-5"}, startups: []string{"-", "3", "-2"}, sets: []string{"1", "-15"}},
	"search_path": {values: []string{"pg_catalog", "'$user', public", "''"}, startups: []string{"-", "pg_catalog", `"$user", public`},
		sets: []string{"public, pg_catalog", `"$user"`, "'a b', public"}},
	"bytea_output":                  {postgres: true, values: []string{"'escape'"}, startups: []string{"-", "escape"}, sets: []string{"hex", "'escape'"}},
	"xmloption":                     {postgres: true, values: []string{"document"}, startups: []string{"-", "document"}, sets: []string{"content"}},
	"default_transaction_isolation": {postgres: true, values: []string{"'serializable'"}, startups: []string{"-", "repeatable read"}, sets: []string{"'read committed'"}},
	"default_transaction_read_only": {postgres: true, values: []string{"on"}, startups: []string{"-", "on"}, sets: []string{"off", "on"}},
	"work_mem":                      {postgres: true, values: []string{"'1MB'", "256"}, startups: []string{"-", "2MB"}, sets: []string{"'3MB'", "1024"}},
	"lock_timeout":                  {postgres: true, values: []string{"'1s'"}, startups: []string{"-", "1500"}, sets: []string{"'2.5s'"}},
	"statement_timeout":             {postgres: true, values: []string{"'10s'"}, startups: []string{"-", "15000"}, sets: []string{"'1min'"}},
	"my.own":                        {postgres: true, values: []string{"'x'"}, startups: []string{"mine"}, sets: []string{"'y'", "'1', '2'"}},
}

// settingForms are the ways to set: %[1]s is the name and %[2]s the value.
var settingForms = map[string]string{
	"nothing":        "",
	"SET":            "Q SET %[1]s TO %[2]s\n< Z\n",
	"SET =":          "Q SET SESSION %[1]s = %[2]s\n< Z\n",
	"extended":       "P - | SET %[1]s TO %[2]s\nB - | -\nE -\nS\n< Z\n",
	"LOCAL":          "Q BEGIN\n< Z\nQ SET LOCAL %[1]s TO %[2]s\n< Z\nQ SHOW %[1]s\n< Z\nQ COMMIT\n< Z\n",
	"block":          "Q BEGIN\n< Z\nQ SET %[1]s TO %[2]s\n< Z\nQ SHOW %[1]s\n< Z\nQ COMMIT\n< Z\n",
	"rolled back":    "Q BEGIN\n< Z\nQ SET %[1]s TO %[2]s\n< Z\nQ ROLLBACK\n< Z\n",
	"failed":         "Q BEGIN\n< Z\nQ SET %[1]s TO %[2]s\n< Z\nQ SELECT 1/0\n< Z\nQ COMMIT\n< Z\n",
	"savepoint":      "Q BEGIN\n< Z\nQ SAVEPOINT s\n< Z\nQ SET %[1]s TO %[2]s\n< Z\nQ ROLLBACK TO s\n< Z\nQ SHOW %[1]s\n< Z\nQ COMMIT\n< Z\n",
	"chain":          "Q BEGIN\n< Z\nQ SET %[1]s TO %[2]s\n< Z\nQ COMMIT AND CHAIN\n< Z\nQ ROLLBACK\n< Z\n",
	"string":         "Q SET %[1]s TO %[2]s; SELECT 1; COMMIT; SELECT 1/0\n< Z\n",
	"local first":    "Q BEGIN\n< Z\nQ SET LOCAL %[1]s TO DEFAULT; SELECT 1\n< Z\nQ SET %[1]s TO %[2]s\n< Z\nQ COMMIT\n< Z\n",
	"reset":          "Q SET %[1]s TO %[2]s\n< Z\nQ RESET %[1]s\n< Z\n",
	"default":        "Q SET %[1]s TO %[2]s\n< Z\nQ BEGIN\n< Z\nQ SET %[1]s TO DEFAULT\n< Z\nQ SHOW %[1]s\n< Z\nQ COMMIT\n< Z\n",
	"reset ext":      "Q SET %[1]s TO %[2]s\n< Z\nP - | RESET %[1]s\nB - | -\nE -\nS\n< Z\nP - | SHOW %[1]s\nB - | -\nE -\nS\n< Z\n",
	"reset in block": "Q SET %[1]s TO %[2]s\n< Z\nQ BEGIN\n< Z\nQ SELECT 1\n< Z\nP - | RESET %[1]s\nB - | -\nE -\nS\n< Z\nQ SHOW %[1]s\n< Z\nQ COMMIT\n< Z\n",
	"RESET ALL":      "Q SET %[1]s TO %[2]s\n< Z\nQ RESET ALL\n< Z\n",
	"RESET ALL in a block": "Q SET %[1]s TO %[2]s\n< Z\nQ BEGIN\n< Z\nQ SELECT 1\n< Z\nQ RESET ALL\n< Z\nQ SHOW %[1]s\n< Z\n" +
		"Q SAVEPOINT s\n< Z\nQ SET %[1]s TO %[2]s\n< Z\nQ ROLLBACK TO s\n< Z\nQ SHOW %[1]s\n< Z\nQ COMMIT\n< Z\n",
	"RESET ALL undone": "Q SET %[1]s TO %[2]s\n< Z\nQ BEGIN\n< Z\nQ SELECT 1\n< Z\nQ SAVEPOINT s\n< Z\nQ RESET ALL\n< Z\nQ ROLLBACK TO s\n< Z\nQ SHOW %[1]s\n< Z\nQ ROLLBACK\n< Z\n",
	"DISCARD ALL":      "Q SET %[1]s TO %[2]s\n< Z\nQ DISCARD ALL\n< Z\n",
}

// A client sees its own settings, whatever the client before it on the same backend had set: by SHOW, in
// what values look like, and in what it is told of parameters.
func TestSettingsInPairs(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	wanted, n := map[string]string{}, 0
	for _, kind := range []string{"postgres", "dsql"} {
		s := startSluice(t, pg, append(map[string][]option{"dsql": {asDSQL, fastReplay}}[kind], maxOpen(1))...)
		first := dialRaw(t, s.addr)
		for _, name := range slices.Sorted(maps.Keys(pairedSettings)) {
			p := pairedSettings[name]
			if p.postgres && kind == "dsql" {
				continue
			}
			t.Run(kind+"/"+name, func(t *testing.T) {
				look := fmt.Sprintf("Q SHOW %s\n< Z\nQ SELECT current_setting('%[1]s'), date '2024-03-01', timestamptz '2024-03-01 00:00Z', interval '1 day 2:03', "+
					"float8 '0.1' + 0.2, bytea '\\x00ff', 'x'::text\n< Z\n", name)
				for i, startup := range p.startups {
					params := map[string]string{"client_encoding": "UTF8"}
					if startup != "-" {
						params[name] = startup
					}
					for j, set := range p.sets {
						for k, form := range slices.Sorted(maps.Keys(settingForms)) {
							if name != "DateStyle" && (i+k)%len(p.sets) != j {
								continue // the others are not merged
							}
							if n++; n%proxy.OneIn != 0 {
								continue
							}
							script := settingForms[form]
							if script != "" {
								script = fmt.Sprintf(script, name, set)
							}
							key := name + startup + script
							want, ok := wanted[key]
							if !ok {
								var direct *rawClient
								direct, want = dialWith(t, pg.addr, params)
								want = sortedLines(want) + direct.play(t, look+script+look)
								direct.conn.Close()
								wanted[key] = want
							}
							value := p.values[len(script)%len(p.values)]
							first.play(t, fmt.Sprintf("Q SET %s TO %s\n< Z\n", name, value))
							through, got := dialWith(t, s.addr, params)
							got = sortedLines(got)
							for i, part := range strings.SplitAfter(look+script+look, "< Z\n") {
								if i%2 == 1 && !strings.Contains(script, "BEGIN") {
									first.play(t, "Q SELECT 1\n< Z\n") // has its own again
								}
								got += through.play(t, part)
							}
							through.conn.Close()
							if got != want {
								t.Fatalf("another client: %s, startup %s: %s\n%s\n%s", value, startup, form, script, firstDifference(got, want))
							}
						}
					}
				}
			})
		}
	}
}

// sortedLines has the reports of a startup in order.
func sortedLines(s string) string {
	lines := strings.SplitAfter(s, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}
