package proxy_test

import (
	"strings"
	"testing"
)

// A client that was told what a statement returns is not given anything else,
// even when another client has had it prepared anew on the same backend.
func TestToldBeforeTheChange(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg, maxOpen(1))
	say := func(c *rawClient, lines ...string) string {
		for _, l := range lines {
			verb, rest, _ := strings.Cut(l, " ")
			c.queue(encodeLine(t, verb, rest))
		}
		return c.readThrough("Z")
	}
	first, second := dialRaw(t, s.addr), dialRaw(t, s.addr)
	say(first, "Q CREATE TABLE told (a int); INSERT INTO told VALUES (1)")
	say(first, "P s | SELECT * FROM told", "D S s", "S")
	say(second, "Q ALTER TABLE told ALTER a TYPE text")
	if got := say(second, "P s | SELECT * FROM told", "D S s", "B - | s", "E -", "S"); !strings.Contains(got, "a:25/0") {
		t.Fatalf("second client: %s", got)
	}
	if got := say(first, "B - | s", "E -", "S"); !strings.Contains(got, "C=0A000 M=cached plan must not change result type") {
		t.Errorf("first client, told of an int, got %s", got)
	}
	if got := say(first, "P new | SELECT * FROM told", "D S new", "B - | new", "E -", "S"); !strings.Contains(got, "C SELECT 1") {
		t.Errorf("prepared anew: %s", got)
	}
}
