package proxy_test

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
)

// slowResets has the server take half a second for the question which settings were reset. asked is closed when
// the question is sent.
type slowResets struct {
	once  sync.Once
	asked chan struct{}
}

func (q *slowResets) option(s *setup) {
	s.dial.Wrap = func(c net.Conn) net.Conn { return &slowResetsConn{Conn: rawconn.Wrap(c), q: q} }
}

type slowResetsConn struct {
	rawconn.Conn
	q *slowResets
}

func (c *slowResetsConn) Write(b []byte) (int, error) {
	const from = "FROM pg_catalog.pg_settings WHERE"
	if text := bytes.TrimSuffix(b[min(len(b), wire.HeaderLen):], []byte{0}); bytes.Contains(text, []byte(from)) {
		slow := strings.Replace(string(text), from, "FROM pg_catalog.pg_settings, pg_catalog.pg_sleep(0.5) WHERE", 1)
		if _, err := c.Conn.Write(wire.AppendStrings(nil, wire.Query, slow)); err != nil {
			return 0, err
		}
		c.q.once.Do(func() { close(c.q.asked) })
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// A cancel that is still on its way when its statement has ended does not hit the question which settings the
// statement has reset: the question waits until the cancel has reached the server.
func TestLateCancelsBesideResets(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", leavingFunctions)
	const running = "SELECT string_agg(state, ',') FROM pg_stat_activity WHERE query LIKE 'SELECT does(''RESET%'"
	for name, begin := range map[string]string{"in a block": "Q BEGIN\n< Z\n", "of a kept backend": "Q LISTEN a\n< Z\nQ BEGIN\n< Z\n"} {
		t.Run(name, func(t *testing.T) {
			q := slowResets{asked: make(chan struct{})}
			looks, late := connect(t, pg.addr), connect(t, pg.addr)
			is := func(looks *pgx.Conn, state string) bool {
				var got *string
				return looks.QueryRow(t.Context(), running).Scan(&got) == nil && got != nil && *got == state
			}
			s := startSluice(t, pg, q.option, maxOpen(2), func(s *setup) {
				s.proxy.CancelGrace = time.Minute
				s.wrap = func(dial reservoir.DialFunc) reservoir.DialFunc {
					return func(ctx context.Context, start *reservoir.Startup) (*reservoir.Conn, error) {
						c, err := dial(ctx, start)
						if c == nil {
							return c, err
						}
						send := c.SendCancel
						c.SendCancel = func(ctx context.Context) error { // it arrives behind the end of its statement
							for !is(late, "idle in transaction") && ctx.Err() == nil {
								select {
								case <-q.asked:
									return send(ctx)
								default:
								}
							}
							select {
							case <-q.asked:
							case <-time.After(200 * time.Millisecond): // the question waits
							}
							return send(ctx)
						}
						return c, err
					}
				}
			})
			c, cancel := dialKeyed(t, s.addr, map[string]string{"TimeZone": "Asia/Tokyo"})
			c.say(t, begin+"Q SELECT does('RESET TimeZone') FROM pg_sleep(0.3)\n")
			waitFor(t, "the statement to run", func() bool { return is(looks, "active") })
			done := make(chan struct{})
			go func() {
				defer close(done)
				cancel()
			}()
			got := c.say(t, "< Z\nQ SHOW TimeZone\n< Z\nQ COMMIT\n< Z\nQ SHOW TimeZone\n< Z\n")
			<-done
			if strings.Contains(got, "\nE ") || strings.Count(got, "Asia/Tokyo") != 2 {
				t.Errorf("the question was hit, or the client has others' settings: %s", got)
			}
		})
	}
}
