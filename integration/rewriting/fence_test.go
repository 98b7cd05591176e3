package rewriting

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// The fence is Temporal's: an owner of a shard reads its range_id FOR SHARE and
// then writes elsewhere; who takes the shard over bumps range_id. A write of the
// old owner must not commit behind a bump that it did not see.
const (
	owners = 4
	// rounds of each owner; a bump comes at a random moment of three in four.
	rounds = 500
)

// Feature: dsql-locking-compatibility, Property 2: Conditional update
// atomicity: coordinated updates are fenced by a version, or by a row that is locked.
func TestFence(t *testing.T) {
	for _, test := range []struct {
		policy string
		holds  bool
	}{
		{`[]`, true}, // the default
		{`[{"tables":["shards"],"policy":"strip","fenced_by":"range_id"}]`, false},
	} {
		t.Run(test.policy, func(t *testing.T) {
			_, sluice := standIn(t, harness.Env{"DSQL_REWRITE_LOCKING_POLICIES": test.policy})
			stale, committed := fence(t, sluice.DSN("postgres"))
			t.Logf("%d writes of owners committed, %d of them behind a bump", committed, stale)
			if committed == 0 {
				t.Error("no write has committed")
			}
			if test.holds != (stale == 0) {
				t.Errorf("%d stale writes", stale)
			}
		})
	}
}

func fence(t *testing.T, dsn string) (stale, committed int64) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var staleWrites, writes atomic.Int64
	var wait sync.WaitGroup
	for owner := range owners {
		wait.Go(func() {
			if err := own(ctx, dsn, owner, &staleWrites, &writes); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	return staleWrites.Load(), writes.Load()
}

// own plays one owner, and who takes over from it, on a shard of their own.
func own(ctx context.Context, dsn string, owner int, stale, writes *atomic.Int64) error {
	random := rand.New(rand.NewPCG(uint64(owner), 1))
	shard := 100 + owner
	a, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer a.Close(context.Background())
	b, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer b.Close(context.Background())
	if _, err := b.Exec(ctx, "INSERT INTO shards VALUES ($1, 1)", shard); err != nil {
		return err
	}
	for round := range rounds {
		bumped := false
		// step lets the other take the shard over in front of the round's n-th step, or never.
		at := random.IntN(4)
		step := func(n int) error {
			if n != at {
				return nil
			}
			_, err := b.Exec(ctx, "UPDATE shards SET range_id = range_id + 1 WHERE shard_id = $1", shard)
			bumped = err == nil
			return err
		}
		tx, err := a.Begin(ctx)
		if err != nil {
			return err
		}
		var seen int64
		read := func() error {
			if err := step(0); err != nil {
				return err
			}
			return tx.QueryRow(ctx, "SELECT range_id FROM shards WHERE shard_id = $1 FOR SHARE", shard).Scan(&seen)
		}
		write := func() error {
			_, err := tx.Exec(ctx, "INSERT INTO tasks VALUES ($1, $2)", 1000+owner*rounds+round, shard)
			return err
		}
		err = errors.Join(read(), step(1))
		unseen := bumped && at > 0
		if err == nil {
			err = errors.Join(write(), step(2))
			unseen = bumped && at > 0
		}
		if err == nil {
			err = tx.Commit(ctx)
		}
		switch {
		case err == nil:
			writes.Add(1)
			if unseen {
				stale.Add(1)
			}
		case code(err) == "40001":
			tx.Rollback(ctx)
		default:
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}
