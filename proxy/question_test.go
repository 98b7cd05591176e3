package proxy_test

import (
	"strings"
	"testing"
	"time"
)

// A turn that waits for what Sluice itself asks the server ends by cancel and timeout: a
// server that hangs would keep it for five seconds with each backend.
func TestQuestionsEndWithTheTurn(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	s := startSluice(t, pg, asDSQL, maxOpen(2))
	waitFor(t, "backends", func() bool { return s.backends.Stats().Ready == 2 })
	lock := dialRaw(t, pg.addr)
	lock.say(t, "Q BEGIN; LOCK TABLE pg_catalog.pg_proc IN ACCESS EXCLUSIVE MODE\n< Z\n")
	for name, stop := range map[string]func(c *rawClient, cancel func()){
		"cancel":  func(c *rawClient, cancel func()) { cancel() },
		"timeout": func(*rawClient, func()) {},
	} {
		c, cancel := dialKeyed(t, s.addr, nil)
		if name == "timeout" {
			c.say(t, "Q SET statement_timeout = 500\n< Z\n")
		}
		began := time.Now()
		c.say(t, "Q SELECT 1\n")
		time.Sleep(300 * time.Millisecond)
		stop(c, cancel)
		if got, took := c.readThrough("Z"), time.Since(began); !strings.Contains(got, "C=57014") || took > 4*time.Second {
			t.Errorf("%s: after %v\n%s", name, took, got)
		}
	}
	lock.say(t, "Q ROLLBACK\n< Z\nX\n")
	c := dialRaw(t, s.addr)
	if got := c.say(t, "Q SELECT 1\n< Z\n"); strings.Contains(got, "E S=") {
		t.Errorf("behind the lock: %s", got)
	}
}
