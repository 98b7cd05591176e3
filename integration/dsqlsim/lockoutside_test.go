package dsqlsim_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/dsqlsim"
)

// With LocksOutsideBlocks nobody deletes a row in front of the commit of a transaction that names it in a locking
// clause; without it the clause does nothing. A transaction outside of a block is sent in every form.
func TestLocksOutsideBlocks(t *testing.T) {
	t.Parallel()
	const lock, wait, write = "SELECT 1 FROM held WHERE id = 1 FOR KEY SHARE", "SELECT pg_sleep(1)", "INSERT INTO written VALUES (1)"
	const whole = "INSERT INTO written SELECT 1 FROM (SELECT id FROM held WHERE id = 1 FOR KEY SHARE) AS h WHERE pg_sleep(1)::text = ''"
	for _, locks := range []bool{false, true} {
		for form, say := range map[string]func(ctx context.Context, c *pgconn.PgConn) error{
			"a multi-statement query": func(ctx context.Context, c *pgconn.PgConn) error {
				return c.Exec(ctx, lock+"; "+wait+"; "+write).Close()
			},
			"a pipeline": func(ctx context.Context, c *pgconn.PgConn) error {
				p := c.StartPipeline(ctx)
				for _, sql := range []string{lock, wait, write} {
					p.SendQueryParams(sql, nil, nil, nil, nil)
				}
				return errors.Join(p.Sync(), p.Close())
			},
			"one statement": func(ctx context.Context, c *pgconn.PgConn) error {
				return c.Exec(ctx, whole).Close()
			},
			"one prepared": func(ctx context.Context, c *pgconn.PgConn) error {
				return c.ExecParams(ctx, whole, nil, nil, nil, nil).Read().Err
			},
		} {
			t.Run(form, func(t *testing.T) {
				t.Parallel()
				c := start(t, func(config *dsqlsim.Config) { config.LocksOutsideBlocks = locks })
				c.direct(t, "CREATE TABLE held (id int PRIMARY KEY); INSERT INTO held VALUES (1); CREATE TABLE written (n int PRIMARY KEY)")
				holder, other := c.connect(t), c.connect(t)
				done := make(chan error, 1)
				go func() { done <- say(t.Context(), holder) }()
				for c.direct(t, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()") != "1" {
					time.Sleep(5 * time.Millisecond)
				}
				err := other.Exec(t.Context(), "DELETE FROM held WHERE id = 1").Close()
				written := c.direct(t, "SELECT count(*) FROM written")
				held := <-done
				if both := err == nil && written == "0" && held == nil; both == locks {
					t.Errorf("locks %v: behind %s rows the deletion was answered %v, and the transaction %v", locks, written, err, held)
				}
			})
		}
	}
}
