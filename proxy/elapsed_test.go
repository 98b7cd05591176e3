package proxy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy"
)

// The time for replays counts while the client waits: a transaction that met a conflict long ago is replayed at the next
// one too, at a statement, at its COMMIT and at a return to a savepoint.
func TestElapsedCountsByRequest(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling+"CREATE TABLE elapsed (a int)")
	const most = 300 * time.Millisecond
	s := startSluice(t, pg, withSavepoints, maxOpen(3), configure(func(c *proxy.Config) { c.Retry.Policy.MaxElapsed = most }))
	for name, c := range map[string]struct{ early, late string }{
		"a statement":     {"Q BEGIN\n< Z\nQ SELECT stumble(1)\n< Z\n", "Q SELECT stumble(2)\n< Z\nQ COMMIT\n< Z\n"},
		"extended":        {ext("BEGIN") + ext("SELECT stumble(1)") + "S\n< Z\n", ext("SELECT stumble(2)") + ext("COMMIT") + "S\n< Z\n"},
		"a return":        {"Q BEGIN\n< Z\nQ SELECT stumble(1)\n< Z\nQ SELECT second(3)\n< Z\nQ SAVEPOINT a\n< Z\nQ INSERT INTO elapsed VALUES (1)\n< Z\n", "Q ROLLBACK TO a\n< Z\nQ COMMIT\n< Z\n"},
		"without a first": {"Q BEGIN\n< Z\nQ SELECT second(3)\n< Z\nQ SAVEPOINT a\n< Z\nQ INSERT INTO elapsed VALUES (1)\n< Z\n", "Q ROLLBACK TO a\n< Z\nQ COMMIT\n< Z\n"},
	} {
		stumbles(t, pg, true)
		client := dialRaw(t, s.addr)
		got := client.say(t, c.early)
		time.Sleep(2 * most)
		got += client.say(t, c.late)
		if strings.Contains(got, "E S=") || !strings.Contains(got, "C COMMIT") {
			t.Errorf("%s: %s", name, got)
		}
	}
}
