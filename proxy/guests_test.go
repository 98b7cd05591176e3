package proxy_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/proxy"
)

// A goroutine that one client after the other is on brings nothing of one to the next: whatever
// the first has done, and however it left, the second finds what a new client finds.
func TestGuestsMeetNobody(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg, withReplay, asDSQL)
	const asks = "SHOW application_name"
	known := dialRaw(t, s.addr) // what clients are told of a server that nobody has seen is something else
	known.queue(encode(t, &pgproto3.Query{String: "SELECT 1"}))
	known.readThrough("Z")
	known.conn.Close()
	first := ""
	for _, sql := range []string{"", "SET application_name = 'other'", "BEGIN", "BEGIN; SELECT 1", "SELECT 1/0", "PREPARE p AS SELECT 1",
		"BEGIN; SELECT 1/0", "SET statement_timeout = 1; SELECT 1", "SET search_path = nowhere", "DECLARE c CURSOR WITH HOLD FOR SELECT 1"} {
		for _, leaves := range []string{"goodbye", "close", "linger"} {
			c := dialRaw(t, s.addr)
			if sql != "" {
				c.queue(encode(t, &pgproto3.Query{String: sql}, &pgproto3.Parse{Name: "p", Query: "SELECT 2"}, &pgproto3.Sync{}))
				c.readThrough("ZZ")
			}
			switch leaves {
			case "goodbye":
				c.queue(encode(t, &pgproto3.Terminate{}))
				c.flush()
			case "linger":
				time.Sleep(15 * time.Millisecond)
				c.queue(encode(t, &pgproto3.Query{String: "SELECT 1"}))
				c.readThrough("Z")
			}
			c.conn.Close()
			waitFor(t, "the client to be gone", func() bool { return s.Stats().Clients == 0 })

			next, greeted := dialWith(t, s.addr, map[string]string{"application_name": "next"})
			next.queue(encode(t, &pgproto3.Query{String: asks}, &pgproto3.Query{String: "EXECUTE p"}, &pgproto3.Query{String: "FETCH c"},
				&pgproto3.Bind{PreparedStatement: "p"}, &pgproto3.Sync{}, &pgproto3.Query{String: "SHOW search_path"}, &pgproto3.Query{String: "SELECT 3"}))
			got := greeted + next.readThrough("ZZZZZZ")
			next.conn.Close()
			waitFor(t, "the next client to be gone", func() bool { return s.Stats().Clients == 0 })
			if first == "" {
				first = got
				if !strings.Contains(got, "next") || strings.Count(got, "E ") < 3 {
					t.Fatalf("a new client got %q", got)
				}
			}
			if got != first {
				t.Errorf("behind %q and %s a client got\n%s\nwant\n%s", sql, leaves, got, first)
			}
		}
	}
}

// Clients that linger go on where they were, however many come at once, and whatever awaits them.
func TestGuestsLinger(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg, withReplay, asDSQL, maxOpen(4))
	var all sync.WaitGroup
	for i := range 40 {
		c := dialRaw(t, s.addr)
		all.Go(func() {
			for turn := range 12 { // on both sides of the last first turn
				for _, sql := range []string{"BEGIN", "SELECT 1", "COMMIT"} {
					if (i+turn)%5 == 0 {
						time.Sleep(time.Duration(8+(i+turn)%7) * time.Millisecond)
					}
					c.queue(encode(t, &pgproto3.Query{String: sql}))
					if got, want := c.readThrough("Z"), map[string]string{"BEGIN": "Z T", "SELECT 1": "Z T", "COMMIT": "Z I"}[sql]; !strings.Contains(got, want) {
						t.Errorf("%s is answered %q", sql, got)
						return
					}
				}
			}
		})
	}
	all.Wait()
}

// The limit of an idle client counts from its last turn, also where its patience as a guest ends first,
// and a guest that lingers is drained.
func TestGuestsEnd(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	for _, limit := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond} {
		s := startSluice(t, pg, configure(func(c *proxy.Config) { c.ClientIdleTimeout = limit }))
		if got := dialRaw(t, s.addr).readThrough("E"); !strings.Contains(got, "57P05") {
			t.Errorf("idle for %s: %q", limit, got)
		}
	}
	for _, wait := range []time.Duration{0, 5 * time.Millisecond, 10 * time.Millisecond, 30 * time.Millisecond} {
		s := startSluice(t, pg)
		c := dialRaw(t, s.addr)
		time.Sleep(wait)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if got := c.readThrough("E"); !strings.Contains(got, "57P01") {
			t.Errorf("drained after %s: %q", wait, got)
		}
	}
}
