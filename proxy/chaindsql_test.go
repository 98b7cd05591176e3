package proxy_test

import (
	"strings"
	"testing"
)

// Kind dsql refuses AND CHAIN in a failed block for what it is, whatever has failed it, and the block stays open.
func TestChainInFailedBlocksOfDSQL(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE chained (n int)")
	for name, opts := range map[string][]option{"": {asDSQL}, "session": {asDSQL, sessionPairing}, "replay": {asDSQL, withReplay}} {
		s := startSluice(t, pg, append(opts, maxOpen(2))...)
		for title, fails := range map[string]string{
			"by the server":   "Q BEGIN\n< Z\nQ SELECT 1/0\n< Z\n",
			"behind a write":  "Q BEGIN\n< Z\nQ INSERT INTO chained VALUES (1)\n< Z\nQ SELECT 1/0\n< Z\n",
			"by Sluice":       "Q BEGIN\n< Z\nE nosuch\nS\n< Z\n",
			"with its server": "Q BEGIN\n< Z\nQ SELECT pg_terminate_backend(pg_backend_pid()) /* sluice: no-retry */\n< Z\n",
		} {
			for _, end := range []string{"COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "ROLLBACK AND CHAIN; INSERT INTO chained VALUES (2)"} {
				requests := []string{"Q " + end + "\n< Z\n"}
				if !strings.Contains(end, ";") {
					requests = append(requests, ext(end)+"S\n< Z\n", ext("SELECT 7")+ext(end)+"S\n< Z\n", ext(end)+ext("INSERT INTO chained VALUES (3)")+"S\n< Z\n")
				}
				for i, request := range requests {
					c := dialRaw(t, s.addr)
					got := c.say(t, fails)
					if name == "session" && strings.Contains(got, "S=FATAL") {
						c.conn.Close()
						continue // such a session ends with its server
					}
					want := "E S=ERROR C=0A000 M=AND CHAIN is not supported"
					if i == 2 {
						want = "C=25P02" // of what is in front of it
					}
					if got := c.say(t, request); !strings.Contains(got, want) || strings.Count(got, "E S=") != 1 || !strings.HasSuffix(got, "Z E\n") {
						t.Errorf("%s, %s, %q: want %s, then Z E, in\n%s", name, title, request, want, got)
					}
					got = c.say(t, "Q ROLLBACK\n< Z\nQ SELECT count(*) + 70 AS n FROM chained\n< Z\n")
					c.conn.Close()
					if !strings.Contains(got, "C ROLLBACK") || !strings.Contains(got, `\x0270`) {
						t.Errorf("%s, %s, %q: the block does not end:\n%s", name, title, request, got)
					}
				}
			}
		}
	}
}
