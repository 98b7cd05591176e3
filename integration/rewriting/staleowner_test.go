package rewriting

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// A shard has two owners that take it from each other by Temporal's own transactions,
// and write as owners for as long as they believe to be one.
const (
	contestedShards = 4
	// turns of each owner: it takes the shard over, or writes.
	turns = 80
)

// contested are Temporal's tables as far as these transactions go, and one that says
// which transaction made a range_id.
const contested = `
	CREATE TABLE owned_shards (shard_id int PRIMARY KEY, range_id bigint NOT NULL, data bytea NOT NULL, data_encoding varchar(16) NOT NULL);
	CREATE TABLE executions (shard_id int NOT NULL, namespace_id bytea NOT NULL, workflow_id varchar(255) NOT NULL, run_id bytea NOT NULL,
		db_record_version bigint NOT NULL, data bytea NOT NULL, PRIMARY KEY (shard_id, namespace_id, workflow_id, run_id));
	CREATE TABLE transfer_tasks (shard_id int NOT NULL, task_id bigint NOT NULL, data bytea NOT NULL, data_encoding varchar(16) NOT NULL, PRIMARY KEY (shard_id, task_id));
	CREATE TABLE takeovers (shard_id int NOT NULL, range_id bigint NOT NULL, PRIMARY KEY (shard_id, range_id))`

// rangeBits are those of a task's ID below the range_id of the owner that made it.
const rangeBits = 20

// staleTasks are those that were committed behind the takeover of their owner's shard:
// the new owner has read past their IDs, and nobody ever finds them.
const staleTasks = `
	SELECT count(*) FROM transfer_tasks t JOIN takeovers o ON o.shard_id = t.shard_id AND o.range_id = (t.task_id >> 20) + 1
	WHERE pg_xact_commit_timestamp(t.xmin) > pg_xact_commit_timestamp(o.xmin)`

// The database itself is the judge, by the order in which transactions committed. No
// task may be of an owner that had lost its shard; without the lock some are.
func TestStaleOwnersNeverCommit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, policy string
		holds        bool
	}{
		{"locked", `[]`, true},
		{"stripped", `[{"tables":["owned_shards"],"policy":"strip","fenced_by":"range_id"}]`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			pg := pgtest.Start(t, pgtest.MaxConnections(100), pgtest.Setting("track_commit_timestamp", "on"))
			bin := harness.Binaries(t)
			sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg})
			sluice := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env().With(harness.Env{
				"DSQL_RESERVOIR_MAX_OPEN": "20", "DSQL_REWRITE_BYTEA": "hex", "DSQL_RETRY_BASE_DELAY": "1ms", "DSQL_REWRITE_LOCKING_POLICIES": test.policy,
			})})
			contest(t, sim, sluice.DSN("postgres"))
			if stale := pg.SQL(t, "postgres", staleTasks); test.holds != (stale == "0") {
				t.Errorf("%s tasks were committed behind the takeover of their shard", stale)
			} else {
				t.Logf("%s tasks were committed behind the takeover of their shard", stale)
			}
		})
	}
}

// outcomes count what came of the owners' turns.
type outcomes struct{ written, taken, lost, conflicts atomic.Int64 }

// contest has the owners play their turns, while commits conflict, so that some of
// their transactions are run again by Sluice.
func contest(t *testing.T, sim *harness.DSQLSim, dsn string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for statement := range strings.SplitSeq(contested, ";") {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	for shard := range contestedShards {
		if _, err := conn.Exec(ctx, "INSERT INTO owned_shards VALUES ($1, 1, '', '')", shard); err != nil {
			t.Fatal(err)
		}
	}
	sim.Admin(t, http.MethodPost, "/faults", `[{"at": "commit", "action": "fail", "error": "conflict", "probability": 0.1, "seed": 1}]`)
	var came outcomes
	var wait sync.WaitGroup
	for n := range 2 * contestedShards {
		wait.Go(func() {
			o := owner{shard: n / 2, random: rand.New(rand.NewPCG(uint64(n), 1)), came: &came}
			if err := o.play(ctx, dsn); err != nil {
				t.Errorf("owner %d of shard %d: %v", n%2, o.shard, err)
			}
		})
	}
	wait.Wait()
	t.Logf("%d writes of owners, %d takeovers; %d found that they own the shard no more, %d were told 40001",
		came.written.Load(), came.taken.Load(), came.lost.Load(), came.conflicts.Load())
	for _, n := range []*atomic.Int64{&came.written, &came.taken, &came.lost, &came.conflicts} {
		if n.Load() == 0 {
			t.Error("one of these never happened")
		}
	}
}

// owner believes that it has its shard, under a range_id.
type owner struct {
	shard, tasks int
	rangeID      int64
	random       *rand.Rand
	conn         *pgx.Conn
	came         *outcomes
}

var errNotOwner = errors.New("the shard is another owner's")

func (o *owner) play(ctx context.Context, dsn string) (err error) {
	if o.conn, err = pgx.Connect(ctx, dsn); err != nil {
		return err
	}
	defer o.conn.Close(context.Background())
	for range turns {
		turn, count := o.write, &o.came.written
		if o.rangeID == 0 || o.random.IntN(4) == 0 {
			turn, count = o.take, &o.came.taken
		}
		switch err := turn(ctx); {
		case err == nil:
			count.Add(1)
		case errors.Is(err, errNotOwner):
			o.came.lost.Add(1)
			o.rangeID = 0
		case code(err) == "40001":
			o.came.conflicts.Add(1)
		default:
			return err
		}
	}
	return nil
}

// pause lets the other owner come in between.
func (o *owner) pause() { time.Sleep(time.Duration(o.random.IntN(3000)) * time.Microsecond) }

// holds reads the shard's lease, with the lock that this takes, and compares it.
func (o *owner) holds(ctx context.Context, tx pgx.Tx, lock string, want int64) error {
	var rangeID int64
	if err := tx.QueryRow(ctx, "SELECT range_id FROM owned_shards WHERE shard_id = $1 "+lock, o.shard).Scan(&rangeID); err != nil {
		return err
	}
	if rangeID != want {
		return errNotOwner
	}
	o.pause()
	return nil
}

// take is UpdateShard: it reads the lease, and increments that one.
func (o *owner) take(ctx context.Context) error {
	var current int64
	if err := o.conn.QueryRow(ctx, "SELECT range_id FROM owned_shards WHERE shard_id = $1", o.shard).Scan(&current); err != nil {
		return err
	}
	err := pgx.BeginFunc(ctx, o.conn, func(tx pgx.Tx) error {
		if err := o.holds(ctx, tx, "FOR UPDATE", current); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, "UPDATE owned_shards SET range_id = $1, data = $2, data_encoding = $3 WHERE shard_id = $4", current+1, []byte{}, "", o.shard)
		if err != nil {
			return err
		}
		if tag.RowsAffected() != 1 {
			return fmt.Errorf("%d shards were updated", tag.RowsAffected())
		}
		_, err = tx.Exec(ctx, "INSERT INTO takeovers VALUES ($1, $2)", o.shard, current+1)
		return err
	})
	if err == nil {
		o.rangeID = current + 1
	}
	return err
}

// write is UpdateWorkflowExecution or AddHistoryTasks: the lease is read and not
// written, and what is written is no row that a takeover touches.
func (o *owner) write(ctx context.Context) error {
	o.tasks++
	task := o.rangeID<<rangeBits + int64(o.tasks)
	return pgx.BeginFunc(ctx, o.conn, func(tx pgx.Tx) error {
		if err := o.holds(ctx, tx, "FOR SHARE", o.rangeID); err != nil {
			return err
		}
		if o.random.IntN(2) == 0 {
			run := fmt.Appendf(nil, "%016d", o.tasks)
			if _, err := tx.Exec(ctx, "INSERT INTO executions VALUES ($1, $2, $3, $4, $5, $6)", o.shard, make([]byte, 16), fmt.Sprint(task), run, 1, []byte{}); err != nil {
				return err
			}
			o.pause()
		}
		if _, err := tx.Exec(ctx, "INSERT INTO transfer_tasks (shard_id, task_id, data, data_encoding) VALUES ($1, $2, $3, $4)", o.shard, task, []byte{}, ""); err != nil {
			return err
		}
		o.pause()
		return nil
	})
}
