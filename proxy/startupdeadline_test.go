package proxy_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/reservoir"
)

// The time for a startup is the client's: it is over with the greeting, and a server that takes long leaves a
// client that took long the time to be greeted.
func TestStartupDeadlineEnds(t *testing.T) {
	t.Parallel()
	const limit = 2 * time.Second
	s := startSluice(t, sharedPostgres(t), sessionPairing, configure(func(c *proxy.Config) { c.Startup.Timeout = limit }), func(s *setup) {
		s.wrap = func(dial reservoir.DialFunc) reservoir.DialFunc {
			return func(ctx context.Context, x *reservoir.Startup) (*reservoir.Conn, error) {
				time.Sleep(limit / 2)
				return dial(ctx, x)
			}
		}
	})
	conn := dialTCP(t, s.addr)
	time.Sleep(3 * limit / 4)
	c, _ := greetRaw(t, conn, nil) // a quarter of the limit late
	for range 2 {
		if got := c.say(t, "Q SELECT 1\n< Z\n"); !strings.HasSuffix(got, "Z I\n") {
			t.Errorf("got %q", got)
		}
		time.Sleep(5 * limit / 4) // whatever was left of it has passed
	}
}
