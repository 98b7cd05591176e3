package proxy_test

import (
	"strings"
	"testing"
)

// The application's name is what the client has set, by SET, set_config or a function, as on a connection
// of its own, and nobody else's.
func TestApplicationNames(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", settingFunctions)
	const look = "Q SHOW application_name\n< Z\nQ SELECT current_setting('application_name')\n< Z\n"
	q := func(sql string) string { return "Q " + sql + "\n< Z\n" }
	block := func(sqls ...string) string {
		all := q("BEGIN")
		for _, sql := range sqls {
			all += q(sql) + look
		}
		return all
	}
	const constant, local = "SELECT set_config('application_name', 'x', false)", "SELECT set_config('application_name', 'x', true)"
	const computed, function = "SELECT set_config('application_' || 'name', 'z', false)", "SELECT sets('application_name', 'f', false)"
	for name, script := range map[string]string{
		"constant":               q(constant),
		"local":                  q(local),
		"qualified, cast, named": q("SELECT pg_catalog.set_config('Application_Name'::text, 'x'::text, false) AS n"),
		"two in a row":           q("SELECT set_config('application_name', 'x', false), set_config('application_name', 'y', false) AS second"),
		"beside another":         q("SELECT set_config('application_name', 'x', false), set_config('work_mem', '9MB', false)"),
		"beside a column":        q("SELECT set_config('application_name', 'x', false), 1"),
		"string":                 q("SELECT 1; " + constant + "; SHOW application_name; SELECT 2"),
		"string that fails":      q(constant + "; SELECT 1/0"),
		"string that ends":       q("BEGIN; " + constant + "; COMMIT; SELECT 1/0"),
		"string of a function":   q("BEGIN; " + function + "; COMMIT; SELECT 1/0"),
		"null":                   q("SET application_name = 'y'") + q("SELECT set_config('application_name', NULL, false)"),
		"null, local":            q("SET application_name = 'y'") + block("SELECT set_config('application_name', NULL::text, true)") + q("COMMIT"),
		"extended":               ext(constant) + "S\n< Z\n",
		"described":              "P s | " + constant + "\nD S s\nB - | s\nD P -\nE - 1\nE -\nS\n< Z\n",
		"parameter":              "P - | SELECT set_config('application_name', $1, false)\nD S -\nB - | - | x\nE -\nS\n< Z\n",
		"parameters":             "P - | SELECT set_config($1, $2, $3)\nB - | - | application_name,x,false\nE -\nS\n< Z\n",
		"pipeline":               ext(constant) + ext("SELECT 1") + "S\n< Z\n",
		"pipeline that fails":    ext("SELECT 1") + ext(constant) + ext("SELECT 1/0") + "S\n< Z\n",
		"block":                  block(constant) + q("COMMIT"),
		"block, rolled back":     block(constant) + q("ROLLBACK"),
		"block, failed":          block(constant, "SELECT 1/0") + q("ROLLBACK"),
		"savepoint":              block("SAVEPOINT s", constant, "ROLLBACK TO s", local) + q("COMMIT"),
		"computed":               q(computed),
		"computed, local":        q("SELECT set_config('application_' || 'name', 'z', true)"),
		"computed, block":        block(computed) + q("COMMIT"),
		"computed, chained":      block(computed, "COMMIT AND CHAIN", "SELECT 1") + q("COMMIT"),
		"computed, rolled back":  block(computed) + q("ROLLBACK"),
		"computed, failed":       block(computed, "SELECT 1/0") + q("ROLLBACK"),
		"computed, savepoint":    block("SAVEPOINT s", computed, "ROLLBACK TO s") + q("COMMIT"),
		"computed, in front":     block(computed, "SAVEPOINT s", function, "ROLLBACK TO s", "RELEASE s") + q("COMMIT"),
		"computed, then SET":     block(computed, "SET application_name = 'y'") + q("COMMIT"),
		"SET, then computed":     block("SET application_name = 'y'", computed) + q("COMMIT"),
		"SET LOCAL, computed":    block("SET LOCAL application_name = 'y'", computed) + q("COMMIT"),
		"function":               q(function),
		"function, extended":     ext(function) + "S\n< Z\n",
		"function, local":        block("SELECT sets('application_name', 'f', true)") + q("COMMIT"),
		"function twice":         q(function) + q("SET application_name = 'y'") + look + q(function),
		"computed twice":         q(computed) + q("SET application_name = 'y'") + look + q(computed),
		"function, then RESET":   q(function) + look + q("RESET application_name"),
		"function, kept backend": q("CREATE TEMP TABLE t (a int)") + q(function) + look + q("SET application_name = 'y'") + look + q(function),
		"function, then reads":   q(function) + look + q("SELECT 1") + look + block("SELECT 1") + q("COMMIT"),
	} {
		t.Run(name, func(t *testing.T) {
			for mode, opts := range map[string][]option{"": nil, "replay": {fastReplay}} {
				s := startSluice(t, pg, append(opts, maxOpen(1))...)
				perform(t, s.addr, q("SELECT 1")) // a backend tells what clients are told
				params := map[string]string{"application_name": "mine"}
				direct, _ := dialWith(t, pg.addr, params)
				c, _ := dialWith(t, s.addr, params)
				other := dialRaw(t, s.addr)
				if !strings.Contains(script, "TEMP") {
					other.play(t, q("SELECT 1"))
				}
				want := direct.play(t, script+look)
				if got := c.play(t, script+look); got != want {
					t.Errorf("%s: %s\n%s", mode, firstDifference(got, want), got)
				}
				if strings.Contains(script, "TEMP") {
					continue
				}
				if found := other.play(t, look); found != dialRaw(t, pg.addr).play(t, look) {
					t.Errorf("%s: another client finds\n%s", mode, found)
				}
				if got, want := c.play(t, look), direct.play(t, look); got != want {
					t.Errorf("%s: behind another client %s", mode, firstDifference(got, want))
				}
			}
		})
	}
}
