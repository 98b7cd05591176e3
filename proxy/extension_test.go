package proxy_test

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy"
)

// Statements about extensions that Sluice answers come out as from PostgreSQL, with their
// notices, in every place of a string and whatever is sent around them.
func TestExtensionsInStrings(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE IF NOT EXISTS extended (a int)")
	routes := map[string]string{}
	for name, opts := range map[string][]option{
		"dsql":          {asDSQL, answering, allIgnored},
		"dsql, replay":  {asDSQL, answering, allIgnored, withReplay},
		"dsql, session": {asDSQL, answering, allIgnored, sessionPairing},
		"dedicated":     {answering, sessionPairing}, // the server is sent a query in the place of each
	} {
		routes[name] = startSluice(t, pg, append(opts, maxOpen(3))...).addr
	}
	const drop = `DROP EXTENSION IF EXISTS nosuch, "uuid-ossp" CASCADE`
	forms := append(stringForms, "SET client_min_messages = warning; L; RESET client_min_messages; L", "SELECT 1 AS one; SET client_min_messages TO Error; L; RESET client_min_messages; SELECT 1 AS one",
		"SET client_min_messages = log; L; SELECT 1 AS one")
	n := 0
	for name, around := range surroundings {
		for _, form := range forms {
			if n++; n%proxy.OneIn != 0 {
				continue
			}
			text := strings.ReplaceAll(replaceL(form, drop), "INTO strung ", "INTO extended ")
			for _, frames := range []string{"Q " + text + "\n", "P l | " + drop + "\nD S l\nB - | l\nD P -\nE -\nP - | SELECT 1 AS one\nB - | -\nE -\nB - | l\nE - 1\nE -\nS\nQ " + text + "\n< Z\n"} {
				script := beforeString + around[0] + frames + "< Z\n" + around[1] + probes
				want := perform(t, pg.addr, script)
				for route, addr := range routes {
					if route == "dedicated" && strings.Contains(text, "client_min_messages") {
						continue // the server's to know
					}
					if got := perform(t, addr, script); got != want && !strings.Contains(want, "must be called before any query") {
						t.Errorf("%s, %s, %s:\n%s", route, name, text, firstDifference(got, want))
					}
				}
			}
		}
	}
}
