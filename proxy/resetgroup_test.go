package proxy_test

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy"
)

// Behind a RESET the startup's values are in force, as at a server of the client's own:
// in the same pipeline, and in the same string of statements unless that is refused.
func TestResetsInGroups(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	pg.SQL(t, "postgres", "DROP SCHEMA IF EXISTS reset_s CASCADE; DROP TABLE IF EXISTS public.reset_t; CREATE SCHEMA reset_s; CREATE TABLE reset_s.reset_t AS SELECT 1 AS a; CREATE TABLE public.reset_t AS SELECT 'public' AS a")
	const look = "SELECT current_setting('TimeZone'), current_setting('search_path')"
	group := func(sqls ...string) string {
		var b strings.Builder
		for _, sql := range sqls {
			b.WriteString(ext(sql))
		}
		return b.String() + "S\n< Z\n"
	}
	scripts := []string{}
	for _, set := range []string{"SET TimeZone = 'Europe/Berlin'", "SET LOCAL search_path = public", "SET search_path = public"} {
		for _, reset := range []string{"RESET ALL", "RESET TimeZone", "RESET search_path", "SET search_path TO DEFAULT", "SET LOCAL TimeZone TO DEFAULT", "SET TIME ZONE LOCAL"} {
			block := "Q BEGIN\n< Z\nQ " + set + "\n< Z\n"
			scripts = append(scripts,
				block+group(reset, look, "SELECT a FROM reset_t")+"Q COMMIT\n< Z\nQ "+look+"\n< Z\n",
				block+group("SELECT 1", reset, "SELECT a FROM reset_t", "SELECT 2/0")+"Q ROLLBACK\n< Z\nQ "+look+"\n< Z\n",
				block+group("SAVEPOINT x", reset, "SELECT a FROM reset_t", "ROLLBACK TO x", look)+"Q COMMIT\n< Z\nQ "+look+"\n< Z\n",
				group("SELECT 1", set, reset, look, "SELECT a FROM reset_t")+"Q "+look+"\n< Z\n",
				group("BEGIN", set, reset, look, "COMMIT", look)+"Q "+look+"\n< Z\n",
				block+ext(reset)+"Q "+look+"\n< Z\nQ COMMIT\n< Z\nQ "+look+"\n< Z\n",
				block+ext(reset)+"H\n"+ext(look)+"S\n< Z\nQ COMMIT\n< Z\nQ "+look+"\n< Z\n",
				block+"Q "+reset+"; "+look+"; SELECT a FROM reset_t\n< Z\nQ ROLLBACK\n< Z\nQ "+look+"\n< Z\n",
				"Q BEGIN; "+set+"; "+reset+"; "+look+"\n< Z\nQ COMMIT\n< Z\nQ "+look+"\n< Z\n",
				"Q SELECT 1; "+set+"; "+reset+"; SELECT a FROM reset_t\n< Z\nQ "+look+"\n< Z\n",
			)
		}
	}
	strung := len(scripts)
	for _, reset := range []string{"CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; SELECT pg_advisory_unlock_all(); DISCARD SEQUENCES; DISCARD TEMP",
		"SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL", "RESET ALL; DEALLOCATE ALL", "RESET ALL; SET TimeZone = 'Europe/Berlin'", "RESET ALL; COMMIT"} {
		scripts = append(scripts, "Q "+reset+"\n< Z\nQ "+look+"\n< Z\n", "Q LISTEN l\n< Z\nQ SET TimeZone = 'Europe/Berlin'\n< Z\nQ "+reset+"\n< Z\nQ "+look+"\n< Z\n",
			"Q SET search_path = public\n< Z\nQ SELECT a FROM reset_t\n< Z\nQ "+reset+"\n< Z\nQ "+look+"\n< Z\n")
	}
	for route, opts := range map[string][]option{"": nil, "replay": {fastReplay}} {
		s := startSluice(t, pg, append(opts, maxOpen(3))...)
		for i, script := range scripts {
			if i%proxy.OneIn != 0 {
				continue
			}
			play := func(addr string) (out string) {
				c, _ := dialWith(t, addr, map[string]string{"TimeZone": "Asia/Tokyo", "search_path": "reset_s"})
				c.reports = false
				defer c.conn.Close()
				for line := range strings.Lines(script) {
					verb, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
					if verb == "<" {
						out += c.readThrough(rest)
						continue
					}
					c.queue(encodeLine(t, verb, rest))
				}
				return out
			}
			got, want := play(s.addr), play(pg.addr)
			if got != want && (i >= strung || !strings.Contains(got, "C=0A000")) {
				t.Errorf("route %q: %s\n%s", route, script, firstDifference(got, want))
			}
		}
	}
}
