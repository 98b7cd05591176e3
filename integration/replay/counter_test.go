package replay

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/integration/harness"
)

var increments = flag.Int("increments", 80, "transactions of each client in the counter tests")

const counters = 16

// Clients that never retry count up, each transaction guarded by a row that it
// locks or reads. Each of them counts on a row of its own behind one guard, or all
// on one row, where the number written is made of the one that was read: an update
// that is lost shows in the sum.
//
// Feature: dsql-locking-compatibility, Property 4: Concurrency safety: no
// update of concurrent writers is lost.
func TestCounter(t *testing.T) {
	for _, test := range []struct {
		name          string
		guard, target func(client int) int
		lock          string
		leaks         bool // conflicts may reach clients
	}{
		{"one guard, rows of their own", func(int) int { return 0 }, func(c int) int { return c + 1 }, " FOR UPDATE", false},
		{"one row", func(int) int { return 1 }, func(int) int { return 1 }, " FOR UPDATE", true},
		{"one row, read without a lock", func(int) int { return 1 }, func(int) int { return 1 }, "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			// On a slow machine a client waits longer for its turn than the default allows a replay.
			r := start(t, harness.Env{"DSQL_RETRY_MAX_ELAPSED": "60s"})
			setup, err := pgx.Connect(t.Context(), r.sluice.DSN("postgres"))
			if err != nil {
				t.Fatal(err)
			}
			defer setup.Close(context.Background())
			for _, s := range []string{"DROP TABLE IF EXISTS counter", "CREATE TABLE counter (id int PRIMARY KEY, n int NOT NULL)"} {
				if _, err := setup.Exec(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			for id := range counters + 1 {
				if _, err := setup.Exec(t.Context(), "INSERT INTO counter VALUES ($1, 0)", id); err != nil {
					t.Fatal(err)
				}
			}
			var acknowledged, refused atomic.Int64
			var wg sync.WaitGroup
			for c := range counters {
				wg.Go(func() {
					conn, err := pgx.Connect(t.Context(), r.sluice.DSN("postgres"))
					if err != nil {
						t.Error(err)
						return
					}
					defer conn.Close(context.Background())
					for range *increments {
						switch err := count(t.Context(), conn, test.guard(c), test.target(c), test.lock); sqlstate(err) {
						case "":
							acknowledged.Add(1)
						case "40001":
							refused.Add(1)
						default:
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			var total int64
			if err := setup.QueryRow(t.Context(), "SELECT sum(n) FROM counter").Scan(&total); err != nil {
				t.Fatal(err)
			}
			if total != acknowledged.Load() {
				t.Errorf("the rows count %d, %d commits were acknowledged", total, acknowledged.Load())
			}
			if acknowledged.Load()+refused.Load() != int64(counters**increments) {
				t.Errorf("%d acknowledged, %d refused", acknowledged.Load(), refused.Load())
			}
			if !test.leaks && refused.Load() > 0 {
				t.Errorf("%d conflicts reached clients", refused.Load())
			}
			t.Logf("%d acknowledged, %d conflicts reached clients, %v replays, %v refused, %v of them exhausted", acknowledged.Load(), refused.Load(),
				r.metric(t, "dsql_tx_retries_total", ""), r.metric(t, "dsql_tx_replay_refused_total", ""), r.metric(t, "dsql_tx_replay_refused_total", `reason="exhausted"`))
		})
	}
}

func count(ctx context.Context, conn *pgx.Conn, guard, target int, lock string) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var n int
		if err := tx.QueryRow(ctx, "SELECT n FROM counter WHERE id = $1"+lock, guard).Scan(&n); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		update, args := "UPDATE counter SET n = n + 1 WHERE id = $1", []any{target}
		if guard == target {
			update, args = "UPDATE counter SET n = $2 WHERE id = $1", append(args, n+1)
		}
		if _, err := tx.Exec(ctx, update, args...); err != nil {
			return fmt.Errorf("update: %w", err)
		}
		return nil
	})
}
