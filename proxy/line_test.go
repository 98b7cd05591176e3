package proxy_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/proxy"
)

// Clients that wait in line for two backends are cancelled, time out and leave, while others take
// the places that they had: each gets its own answer, and nobody is told of what another has asked
// for. In the end the server is closed over a full line.
func TestLine(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg, asDSQL, maxOpen(2), configure(func(c *proxy.Config) { c.CancelGrace = time.Minute }))
	const clients = 16
	var all sync.WaitGroup
	for i := range clients {
		random := rand.New(rand.NewPCG(uint64(i), 18))
		all.Go(func() {
			c, cancel := dialKeyed(t, s.addr, nil)
			for turn := range 25 {
				how := random.IntN(8)
				timeout := "0"
				if how == 1 {
					timeout = fmt.Sprint(1 + random.IntN(8))
				}
				c.queue(encode(t, &pgproto3.Query{String: "SET statement_timeout = " + timeout}))
				if got := c.readThrough("Z"); !strings.Contains(got, "SET") {
					t.Errorf("SET: %q", got)
				}
				mine := fmt.Sprintf("%d.%d", i, turn)
				c.queue(encode(t, &pgproto3.Query{String: fmt.Sprintf("SELECT '%s' FROM pg_sleep(0.00%d)", mine, random.IntN(4))}))
				c.flush()
				var asked sync.WaitGroup
				switch how {
				case 0:
					asked.Go(func() { time.Sleep(time.Duration(random.IntN(6)) * time.Millisecond); cancel() })
				case 2:
					time.Sleep(time.Duration(random.IntN(6)) * time.Millisecond)
					c.conn.Close()
					c, cancel = dialKeyed(t, s.addr, nil)
					continue
				}
				got := c.readThrough("Z")
				asked.Wait()
				stopped := strings.Contains(got, "57014")
				if stopped == strings.Contains(got, mine) || stopped && how > 1 || !strings.HasSuffix(got, "Z I\n") {
					t.Errorf("%s, of kind %d, is answered %q", mine, how, got)
				}
			}
		})
	}
	all.Wait()

	holders := []*rawClient{dialRaw(t, s.addr), dialRaw(t, s.addr)}
	for _, c := range holders {
		c.queue(encode(t, &pgproto3.Query{String: "BEGIN; SELECT 1"}))
		c.readThrough("Z")
	}
	var waiting []*rawClient
	for range clients {
		c := dialRaw(t, s.addr)
		c.queue(encode(t, &pgproto3.Query{String: "SELECT 1"}))
		c.flush()
		waiting = append(waiting, c)
	}
	waitFor(t, "a line", func() bool { return s.backends.Stats().Waiting == clients })
	s.Close()
	for _, c := range append(waiting, holders...) {
		if got := c.readThrough("E"); !strings.Contains(got, "57P01") {
			t.Errorf("cut in line: %q", got)
		}
	}
}
