package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
)

const (
	idFaults = "faults"

	// faultOneWay makes a statement take 10 ms.
	faultOneWay = 5 * time.Millisecond
	// warmUp suffices for a pool to be filled.
	warmUp = 5 * time.Second
	// recovery is how long after the fault the rate is measured again.
	recovery = 5 * time.Second

	steadyClients   = 16
	fightingClients = 64
	// faultPool suffices for all of them at once.
	faultPool = 100
)

// faultLoad is what clients run while one fault happens to one of them. No two
// want the same rows.
type faultLoad struct {
	id, title string
	plan      string // of the stand-in's faults
	statement func(client int) []string
}

func faultLoads() []faultLoad {
	return []faultLoad{
		{"insert", "INSERT in autocommit, one OC001", `{"at":"statement","action":"fail","error":"schema","contains":"INTO made"}`,
			func(int) []string { return []string{"INSERT INTO made VALUES (7, 7)"} }},
		{"number", "BEGIN; SELECT nextval; UPDATE of a random row; COMMIT, one OC000", `{"at":"statement","action":"fail","error":"conflict","contains":"UPDATE account"}`,
			func(client int) []string {
				id := client*100 + rand.IntN(100)
				return []string{"BEGIN", "SELECT nextval('number')", fmt.Sprintf("UPDATE account SET n = n + 1 WHERE id = %d", id), "COMMIT"}
			}},
		{"block", "BEGIN; INSERT; COMMIT, one backend cut", `{"at":"statement","action":"cut","contains":"INTO made"}`,
			func(int) []string { return []string{"BEGIN", "INSERT INTO made VALUES (7, 7)", "COMMIT"} }},
	}
}

// fight is what all who fight run.
func fight(int) []string {
	return []string{"BEGIN", "UPDATE account SET n = n + 1 WHERE id = -1", "COMMIT"}
}

// faultResult is what becomes of a workload after one fault, in a share of what it
// was before.
type faultResult struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Before figure `json:"before_per_second"`
	After  figure `json:"after_per_second"`
	Ratio  figure `json:"rate_after_to_before"`
}

// fightResult is how many transactions of a fight were told of a conflict.
type fightResult struct {
	Title string `json:"title"`
	Told  figure `json:"told_of_a_conflict"` // share of its transactions
}

// faults measures whether one fault slows down for good, while others fight for
// one row, and whether a conflict of theirs reaches a client; then what reaches
// the clients of two Sluices that fight.
func (b *bench) faults(ctx context.Context, r *report) error {
	if !b.wants(idFaults) {
		return nil
	}
	dir, err := os.MkdirTemp(b.rig.dir, "faults-")
	if err != nil {
		return err
	}
	sim, err := harness.LaunchDSQLSim(ctx, harness.DSQLSimConfig{Bin: b.bin, Dir: dir, Upstream: b.rig.postgres})
	if err != nil {
		return err
	}
	defer sim.Stop(syscall.SIGTERM, stopGrace)
	far, err := newRelay(net.JoinHostPort(loopback, strconv.Itoa(sim.Port)), faultOneWay)
	if err != nil {
		return err
	}
	defer far.close()
	go far.serve() // ends with close
	var daemons [2]*harness.Sluice
	for i := range daemons {
		dir, err := os.MkdirTemp(dir, "sluice-")
		if err != nil {
			return err
		}
		daemons[i], err = harness.LaunchSluice(ctx, harness.SluiceConfig{Bin: b.bin, Dir: dir, Env: sim.Env().With(harness.Env{
			"DSQL_BACKEND_PORT": strconv.Itoa(far.port()), "DSQL_RESERVOIR_MAX_OPEN": strconv.Itoa(faultPool), "DSQL_LOG_LEVEL": "error"})})
		if err != nil {
			return err
		}
		defer daemons[i].Stop(syscall.SIGTERM, stopGrace)
	}
	if err := prepareFaults(ctx, daemons[0].DSN("postgres")); err != nil {
		return err
	}
	for _, d := range daemons { // pools fill
		all := startCrowd(d.DSN("postgres"), fightingClients+steadyClients, func(int) []string { return []string{"BEGIN", "SELECT 1", "COMMIT"} })
		time.Sleep(warmUp)
		if _, err := all.stop(); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
	}
	loads := faultLoads()
	before, after := make([][]float64, len(loads)), make([][]float64, len(loads))
	var alone, both []float64
	for round := range b.rounds {
		fighters := startCrowd(daemons[0].DSN("postgres"), fightingClients, fight)
		for i, l := range loads {
			x, y, err := b.oneFault(ctx, sim, daemons[0].DSN("postgres"), l)
			if err != nil {
				fighters.stop()
				return fmt.Errorf("%s: %w", l.title, err)
			}
			before[i], after[i] = append(before[i], x), append(after[i], y)
			b.say(round, l.title, "before "+number(x)+"/s", "after "+number(y)+"/s")
		}
		told, err := fighters.stop()
		if err != nil {
			return err
		}
		var crowds [2]*crowd
		for i, d := range daemons {
			crowds[i] = startCrowd(d.DSN("postgres"), fightingClients/2, fight)
		}
		time.Sleep(3 * time.Duration(b.seconds) * time.Second)
		var apart float64
		for _, c := range crowds {
			share, err := c.stop()
			if err != nil {
				return err
			}
			apart += share / float64(len(crowds))
		}
		alone, both = append(alone, told), append(both, apart)
		b.say(round, "told of a conflict", fmt.Sprintf("one Sluice %.2f %%", 100*told), fmt.Sprintf("two %.2f %%", 100*apart))
	}
	for i, l := range loads {
		r.Faults = append(r.Faults, faultResult{l.id, l.title, summarize(before[i]), summarize(after[i]), summarize(ratios(after[i], before[i]))})
	}
	r.Fights = []fightResult{
		{fmt.Sprintf("%d clients of one Sluice", fightingClients), summarize(alone)},
		{fmt.Sprintf("%d clients of each of two", fightingClients/2), summarize(both)},
	}
	return nil
}

// oneFault measures a workload's rate before one fault, and after it.
func (b *bench) oneFault(ctx context.Context, sim *harness.DSQLSim, dsn string, l faultLoad) (before, after float64, err error) {
	c := startCrowd(dsn, steadyClients, l.statement)
	rate := func(after time.Duration) float64 {
		time.Sleep(after)
		n, began := c.committed.Load(), time.Now()
		time.Sleep(time.Duration(b.seconds) * time.Second)
		return float64(c.committed.Load()-n) / time.Since(began).Seconds()
	}
	before = rate(time.Second)
	if _, err = sim.Ask(ctx, "POST", "/faults", "["+l.plan+"]"); err == nil {
		after = rate(recovery)
		_, err = sim.Ask(ctx, "DELETE", "/faults", "")
	}
	_, stopped := c.stop()
	return before, after, errors.Join(err, stopped, ctx.Err())
}

// prepareFaults makes the tables.
func prepareFaults(ctx context.Context, dsn string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, sql := range []string{
		"CREATE TABLE made (a int, b int)", "CREATE TABLE account (id int PRIMARY KEY, n int)", "CREATE SEQUENCE number CACHE 65536",
		"INSERT INTO account SELECT g, 0 FROM generate_series(-1, 1700) g",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// crowd is clients that run one transaction after the other.
type crowd struct {
	ended           chan struct{}
	once            sync.Once
	all             sync.WaitGroup
	committed, told atomic.Int64
	failed          atomic.Pointer[error] // the first that is no conflict
}

func startCrowd(dsn string, clients int, statements func(client int) []string) *crowd {
	c := &crowd{ended: make(chan struct{})}
	for client := range clients {
		c.all.Go(func() {
			if err := c.run(dsn, func() []string { return statements(client) }); err != nil {
				c.failed.CompareAndSwap(nil, &err)
			}
		})
	}
	return c
}

// run is one client.
func (c *crowd) run(dsn string, statements func() []string) error {
	ctx := context.Background()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for {
		select {
		case <-c.ended:
			return nil
		default:
		}
		var conflict *pgconn.PgError
		for _, sql := range statements() {
			if _, err = conn.Exec(ctx, sql); err != nil {
				break
			}
		}
		switch {
		case err == nil:
			c.committed.Add(1)
		case errors.As(err, &conflict) && conflict.Code == "40001":
			c.told.Add(1)
			if conn.PgConn().TxStatus() != 'I' {
				_, err = conn.Exec(ctx, "ROLLBACK")
			}
		}
		if err != nil && conflict == nil {
			return err
		}
	}
}

// stop ends the clients and returns the share of their transactions that were told
// of a conflict.
func (c *crowd) stop() (told float64, err error) {
	c.once.Do(func() { close(c.ended) })
	c.all.Wait()
	if failed := c.failed.Load(); failed != nil {
		return 0, *failed
	}
	n := float64(c.told.Load())
	return n / max(n+float64(c.committed.Load()), 1), nil
}
