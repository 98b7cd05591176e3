package proxy_test

import (
	"strings"
	"testing"
)

// A refusal of Sluice's own in a transaction, whose backend is lost before it has failed
// there too, is told all the same: the client keeps its connection.
func TestRefusedAsTheBackendIsLost(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE p (a int)")
	for name, test := range map[string]struct{ before, script, want, status string }{
		"a block":           {"Q BEGIN\n< Z\nQ SELECT 1\n< Z\n", "Q DISCARD ALL\n< Z\n", "E S=ERROR C=25001", "Z E"},
		"a block, extended": {"Q BEGIN\n< Z\nQ SELECT 1\n< Z\n", "P - | DISCARD ALL\nB - | -\nE -\nS\n< Z\n", "E S=ERROR C=25001", "Z E"},
		"flushed":           {"Q BEGIN\n< Z\nQ SELECT 1\n< Z\n", "P - | DISCARD ALL\nB - | -\nE -\nH\n< E\nS\n< Z\n", "E S=ERROR C=25001", "Z E"},
		"behind a write":    {"Q BEGIN\n< Z\n", "P - | INSERT INTO p VALUES (1)\nB - | -\nE -\nP - | DISCARD ALL\nB - | -\nE -\nS\n< Z\n", "E S=ERROR C=25001", "Z E"},
		"a block begun":     {"", "P - | BEGIN\nB - | -\nE -\nP - | SELECT 1\nB - | -\nE -\nP - | DISCARD ALL\nB - | -\nE -\nS\n< Z\n", "E S=ERROR C=25001", "Z E"},
		"outside a block":   {"", "Q LISTEN l\n< Z\n", "E S=ERROR C=53300", "Z I"},
		"outside, extended": {"", "P - | LISTEN l\nB - | -\nE -\nS\n< Z\n", "E S=ERROR C=", "Z I"},
		"in a group":        {"", "P - | SELECT a FROM p\nB - | -\nE -\nP - | LISTEN l\nB - | -\nE -\nS\n< Z\n", "E S=ERROR C=", "Z I"},
	} {
		for route, opts := range map[string][]option{"": nil, "replay": {fastReplay}} {
			for _, after := range []bool{false, true} {
				t.Run(name+"/"+route, func(t *testing.T) {
					var cut cutter
					s := startSluice(t, pg, append(opts, asDSQL, answering, allIgnored, cut.option, maxOpen(3), func(s *setup) { s.proxy.MaxPins = 1 })...)
					pinned := dialRaw(t, s.addr)
					pinned.say(t, "Q LISTEN x\n< Z\n")
					c := dialRaw(t, s.addr)
					c.say(t, test.before)
					cut.arm("sluice_refused", after)
					got := c.say(t, test.script)
					if !strings.Contains(got, test.want) || strings.Count(got, "E S=") != 1 || !strings.HasSuffix(got, test.status+"\n") {
						t.Errorf("got:\n%swant %s and %s", got, test.want, test.status)
					}
					if got := c.say(t, "Q ROLLBACK\n< Z\nQ SELECT count(*) FROM p\n< Z\n"); !strings.HasSuffix(got, "C SELECT 1\\x00\nZ I\n") || !strings.Contains(got, "\\x010") && !strings.Contains(got, "10\n") {
						t.Errorf("then:\n%s", got)
					}
					if cut.cuts.Load() != 1 {
						t.Errorf("cut %d times", cut.cuts.Load())
					}
				})
			}
		}
	}
}
