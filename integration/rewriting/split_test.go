package rewriting

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// A cluster of early 2026 refuses to lock a join. Temporal's is of this form.
const (
	lockJoin = "SELECT s.range_id, s.data, t.task_id FROM shards s JOIN tasks t ON t.shard_id = s.shard_id WHERE s.shard_id = $1 AND t.task_id > $2 ORDER BY 3 FOR UPDATE"
	// Alone, its first condition would make $1 an int, and not the bigint that a
	// driver sends.
	lockTyped = "SELECT s.data, t.task_id FROM shards s, tasks t WHERE s.range_id > $1 AND s.shard_id = $1 AND t.task_id > $2 ORDER BY 2 FOR UPDATE"
	onOne     = "locking clause such as FOR UPDATE can be applied on a single table"
	onKey     = "locking clause such as FOR UPDATE can be applied only on tables with equality predicates on the key"
)

// oldStandIn is a stand-in for such a cluster, and Sluice.
func oldStandIn(t *testing.T, env harness.Env) (*harness.DSQLSim, *harness.Sluice) {
	return standIn(t, env, "--old-locking")
}

// What a client is answered when its query is sent in two parts is what
// PostgreSQL answers to one.
func TestJoinIsLocked(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg := pgtest.Shared(t)
	pg.SQL(t, "postgres", "DROP TABLE IF EXISTS shards, tasks;"+tables)
	sim, _ := oldStandIn(t, nil)
	bare := direct(t, sim)
	for _, replay := range []string{"true", "false"} {
		for _, c := range clients {
			t.Run(fmt.Sprintf("%s, replay %s", c.name, replay), func(t *testing.T) {
				sluice := harness.StartSluice(t, harness.SluiceConfig{Bin: harness.Binaries(t), Env: sim.Env().With(harness.Env{
					"DSQL_RESERVOIR_MAX_OPEN": "5", "DSQL_RETRY_ENABLED": replay})})
				args := []any{1, 0}
				for _, query := range []string{lockJoin, lockTyped} {
					if strings.HasPrefix(c.name, "pgx") {
						if _, err := c.run(ctx, bare, query, args); message(err) != onOne {
							t.Errorf("the cluster itself: %v", err)
						}
					}
					want, err := c.run(ctx, pg.DSN("postgres"), query, args)
					if err != nil {
						t.Fatal(err)
					}
					for time := range 3 {
						got, err := c.run(ctx, sluice.DSN("postgres"), query, args)
						if replay == "false" && time == 0 {
							if e, ok := errors.AsType[*pgconn.PgError](err); message(err) != onOne || ok && !strings.Contains(e.Hint, "From now on") {
								t.Errorf("without replay: %v", err)
							}
							continue
						}
						if err != nil || got != want {
							t.Errorf("time %d: %v, got\n%s\nwant\n%s", time+1, err, got, want)
						}
					}
				}
			})
		}
	}
}

// message is what a server said in a driver's error; "" for none.
func message(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Message
	}
	if e, ok := errors.AsType[*pq.Error](err); ok {
		return e.Message
	}
	return ""
}

// The row of the first table is locked: of two transactions that read it and
// change something else, one does not commit what the other has not seen.
func TestSplitKeepsTheGuarantee(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, sluice := oldStandIn(t, nil)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeCacheStatement} {
		t.Run(mode.String(), func(t *testing.T) {
			var conns [2]*pgx.Conn
			for i := range conns {
				config, err := pgx.ParseConfig(sluice.DSN("postgres"))
				if err != nil {
					t.Fatal(err)
				}
				config.DefaultQueryExecMode = mode
				if conns[i], err = pgx.ConnectConfig(ctx, config); err != nil {
					t.Fatal(err)
				}
				defer conns[i].Close(context.Background())
			}
			for round := range 3 { // in the first the query is refused
				id := 100 + 10*int(mode) + round
				tx, err := conns[0].Begin(ctx)
				if err != nil {
					t.Fatal(err)
				}
				var before int64
				if err := tx.QueryRow(ctx, "SELECT range_id FROM shards WHERE shard_id = 2").Scan(&before); err != nil {
					t.Fatal(err)
				}
				var seen int64
				if err := tx.QueryRow(ctx, lockJoin, 2, 0).Scan(&seen, new(*string), new(int)); err != nil || seen != before {
					t.Fatalf("round %d: read %d: %v, want %d", round, seen, err, before)
				}
				if _, err := conns[1].Exec(ctx, "UPDATE shards SET range_id = range_id + 1 WHERE shard_id = 2"); err != nil {
					t.Fatal(err)
				}
				if _, err := tx.Exec(ctx, "INSERT INTO tasks VALUES ($1, 1)", id); err != nil && code(err) != "40001" {
					t.Fatal(err)
				}
				if err := tx.Commit(ctx); code(err) != "40001" {
					t.Errorf("round %d: a write behind a change of what was locked: %v", round, err)
				}
				tx.Rollback(ctx)
			}
		})
	}
}

// In a block, behind what it has read already, the refusal stays invisible; with
// lib/pq, and binary values, and the unnamed statement and portal in use.
func TestSplitInABlock(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, sluice := oldStandIn(t, nil)
	db, err := sql.Open("postgres", sluice.DSN("postgres")+"&binary_parameters=yes")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for round := range 2 {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		var n, range_, task int
		var data sql.NullString
		err = errors.Join(
			tx.QueryRowContext(ctx, "SELECT count(*) FROM tasks WHERE shard_id = $1", 1).Scan(&n),
			tx.QueryRowContext(ctx, lockJoin, 1, 1).Scan(&range_, &data, &task))
		if err == nil {
			_, err = tx.ExecContext(ctx, "UPDATE shards SET range_id = range_id + 1 WHERE shard_id = $1", 1)
		}
		if err := errors.Join(err, tx.Commit()); err != nil || n != 2 || range_ != 10+round || task != 2 || data.String != "FOR SHARE" {
			t.Errorf("round %d: %d tasks, range %d, task %d, %v: %v", round, n, range_, task, data, err)
		}
	}
	counts, err := sluice.Metrics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`dsql_tx_retries_total{attempt="1",operation="other",sqlstate="0A000"} 1`, `feature="join_for_update"`} {
		if !strings.Contains(counts, want) {
			t.Errorf("%s is not counted", want)
		}
	}
}

// Where no other form is safe, or the other form is refused as well, the client
// gets the server's error with a hint; without the rule, without one.
func TestNoSplit(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, sluice := oldStandIn(t, nil)
	_, off := oldStandIn(t, harness.Env{"DSQL_REWRITE_SPLIT_FOR_UPDATE": "false"})
	const unsplit = "could not be split"
	for _, test := range []struct {
		sql, message, hint string
		sluice             *harness.Sluice
	}{
		{"SELECT s.range_id FROM shards s JOIN tasks t ON t.shard_id = s.shard_id WHERE t.task_id = 1 FOR UPDATE", onOne, unsplit, sluice},
		{"SELECT s.range_id FROM shards s JOIN tasks t ON t.shard_id = s.shard_id WHERE s.range_id = 10 FOR UPDATE", onKey, unsplit, sluice},
		{"SELECT range_id FROM shards WHERE range_id > 5 FOR UPDATE", onKey, unsplit, sluice},
		{strings.NewReplacer("$1", "1", "$2", "0").Replace(lockJoin), onOne, "", off},
	} {
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement} {
			for range 2 {
				_, err := pgxWay(mode)(ctx, test.sluice.DSN("postgres"), test.sql, nil)
				e, ok := errors.AsType[*pgconn.PgError](err)
				if !ok || e.Code != "0A000" || e.Message != test.message || !strings.Contains(e.Hint, test.hint) || test.hint == "" && e.Hint != "" {
					t.Errorf("%s, %s: %v, %+v", mode, test.sql, err, e)
				}
			}
		}
	}
}

// The position of an error in the part that answers is one in the client's text.
// (Of two statements in one string the stand-in tells it a character too far.)
func TestPositionInTwoParts(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, sluice := oldStandIn(t, nil)
	const text = "SELECT 'é', (SELECT range_id FROM shards WHERE nosuch = 1) FROM shards s, tasks t WHERE s.shard_id = 1 FOR NO KEY UPDATE"
	want := len([]rune(text[:strings.Index(text, "nosuch")])) + 1
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement} {
		for range 2 {
			_, err := pgxWay(mode)(ctx, sluice.DSN("postgres"), text, nil)
			e, ok := errors.AsType[*pgconn.PgError](err)
			if !ok || e.Code != "42703" || int(e.Position) != want {
				t.Errorf("%s: %v at %+v, want 42703 at %d", mode, err, e, want)
			}
		}
	}
}
