package fleet

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// clients run short transactions until they are stopped, and count what is not
// as it should be.
type clients struct {
	stop    context.CancelFunc
	done    sync.WaitGroup
	queries atomic.Int64
	errors  atomic.Int64
	ended   atomic.Int64 // sockets that the daemon closed
	lost    atomic.Int64 // of errors, those that tell of a lost backend
	lastAt  atomic.Int64 // in Unix nanoseconds, of the last error
	last    atomic.Pointer[error]
}

func startClients(t *testing.T, s *harness.Sluice, n int) *clients {
	ctx, cancel := context.WithCancel(t.Context())
	c := &clients{stop: cancel}
	for range n {
		conn, err := pgx.Connect(t.Context(), s.DSN("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		c.done.Go(func() {
			defer conn.Close(context.Background())
			for ctx.Err() == nil {
				_, err := conn.Exec(context.Background(), "SELECT 1")
				switch {
				case err == nil:
					c.queries.Add(1)
				case conn.IsClosed():
					c.ended.Add(1)
					c.last.Store(&err)
					return
				default:
					if refusal, ok := errors.AsType[*pgconn.PgError](err); ok && refusal.Code == "08006" {
						c.lost.Add(1)
					}
					c.errors.Add(1)
					c.lastAt.Store(time.Now().UnixNano())
					c.last.Store(&err)
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	return c
}

func (c *clients) end() {
	c.stop()
	c.done.Wait()
}
