package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
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

	// faultOneWay is the delay in one direction that makes a statement take 10 ms.
	faultOneWay = 5 * time.Millisecond
	// warmUp is the time before the first sample, in which the pool of backends fills.
	warmUp = 5 * time.Second
	// recovery is the time between a fault and the second measurement of the workload's rate of transactions.
	recovery = 5 * time.Second

	steadyClients   = 16
	fightingClients = 64
	// faultPool is the pool size, enough for all clients at once.
	faultPool = 100
)

// faultWorkload is a workload of several clients. One of them meets a planned fault, which is an error or a cut
// connection that dsqlsim injects. No two clients change the same rows.
type faultWorkload struct {
	id, title string
	plan      string // the faults that dsqlsim injects, in JSON
	statement func(client int) []string
}

func faultWorkloads() []faultWorkload {
	return []faultWorkload{
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

// contendingStatements returns the statements of a client that competes with others: a transaction that updates one row
// shared by all.
func contendingStatements(int) []string {
	return []string{"BEGIN", "UPDATE account SET n = n + 1 WHERE id = -1", "COMMIT"}
}

// faultResult has a workload's rates before and after an injected fault (error or cut), and the ratio of the two
// rates.
type faultResult struct {
	ID     string       `json:"id"`
	Title  string       `json:"title"`
	Before roundSummary `json:"before_per_second"`
	After  roundSummary `json:"after_per_second"`
	Ratio  roundSummary `json:"rate_after_to_before"`
}

// contentionResult is the share of transactions on one shared row that ended with a conflict at the client.
type contentionResult struct {
	Title string       `json:"title"`
	Told  roundSummary `json:"told_of_a_conflict"` // share of its transactions
}

// measureFaults measures whether one injected fault slows a workload down for good, while other clients compete for
// one row. It also measures how many conflicts reach these other clients, with one Sluice and with two.
func (b *bench) measureFaults(ctx context.Context, r *report) error {
	if !b.isSelected(idFaults) {
		return nil
	}
	loads := faultWorkloads()
	f := faultMeasurement{bench: b, loads: loads, before: make([][]float64, len(loads)), after: make([][]float64, len(loads))}
	defer f.stopAll()
	if err := f.startAll(ctx); err != nil {
		return err
	}
	for round := range b.rounds {
		if err := f.sampleAll(ctx, round); err != nil {
			return err
		}
	}
	for i, l := range loads {
		r.Faults = append(r.Faults, faultResult{l.id, l.title, summarize(f.before[i]), summarize(f.after[i]), summarize(roundRatios(f.after[i], f.before[i]))})
	}
	r.Fights = []contentionResult{
		{fmt.Sprintf("%d clients of one Sluice", fightingClients), summarize(f.alone)},
		{fmt.Sprintf("%d clients of each of two", fightingClients/2), summarize(f.both)},
	}
	return nil
}

// faultMeasurement holds the programs and the samples of the bench's part with injected faults. A program is nil
// until it runs.
type faultMeasurement struct {
	*bench
	sim     *harness.DSQLSim
	far     *delayRelay // to sim
	sluices [2]*harness.Sluice

	loads         []faultWorkload
	before, after [][]float64 // rates by load, and round
	alone, both   []float64   // shares told of a conflict: of one Sluice's clients, of two's
}

// startAll starts all programs, makes the tables and fills the pools. After an error, stopAll ends the programs that
// startAll has started.
func (f *faultMeasurement) startAll(ctx context.Context) error {
	dir, err := os.MkdirTemp(f.rig.dir, "faults-")
	if err != nil {
		return err
	}
	if f.sim, err = harness.LaunchDSQLSim(ctx, harness.DSQLSimConfig{Bin: f.bin, Dir: dir, Upstream: f.rig.postgres}); err != nil {
		return err
	}
	if f.far, err = newDelayRelay(net.JoinHostPort(loopback, strconv.Itoa(f.sim.Port)), faultOneWay); err != nil {
		return err
	}
	go f.far.serve() // ends with close
	for i := range f.sluices {
		dir, err := os.MkdirTemp(dir, "sluice-")
		if err != nil {
			return err
		}
		f.sluices[i], err = harness.LaunchSluice(ctx, harness.SluiceConfig{Bin: f.bin, Dir: dir, Env: f.sim.Env().With(harness.Env{
			"DSQL_BACKEND_PORT": strconv.Itoa(f.far.port()), "DSQL_RESERVOIR_MAX_OPEN": strconv.Itoa(faultPool), "DSQL_LOG_LEVEL": "error"})})
		if err != nil {
			return err
		}
	}
	if err := createFaultTables(ctx, f.sluices[0].DSN("postgres")); err != nil {
		return err
	}
	for _, s := range f.sluices {
		all := startClients(s.DSN("postgres"), fightingClients+steadyClients, func(int) []string { return []string{"BEGIN", "SELECT 1", "COMMIT"} })
		time.Sleep(warmUp)
		if _, err := all.stop(); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
	}
	return nil
}

// stopAll ends the programs, in the reverse order of their start.
func (f *faultMeasurement) stopAll() {
	for _, s := range slices.Backward(f.sluices[:]) {
		if s != nil {
			s.Stop(syscall.SIGTERM, stopGrace)
		}
	}
	if f.far != nil {
		f.far.close()
	}
	if f.sim != nil {
		f.sim.Stop(syscall.SIGTERM, stopGrace)
	}
}

// sampleAll takes one sample of each workload, and one of each group of clients that compete for a row.
func (f *faultMeasurement) sampleAll(ctx context.Context, round int) error {
	fighters := startClients(f.sluices[0].DSN("postgres"), fightingClients, contendingStatements)
	for i, l := range f.loads {
		before, after, err := f.measureOneFault(ctx, l)
		if err != nil {
			fighters.stop()
			return fmt.Errorf("%s: %w", l.title, err)
		}
		f.before[i], f.after[i] = append(f.before[i], before), append(f.after[i], after)
		f.printProgress(round, l.title, "before "+formatNumber(before)+"/s", "after "+formatNumber(after)+"/s")
	}
	alone, err := fighters.stop()
	if err != nil {
		return err
	}
	both, err := f.runSharedContention()
	if err != nil {
		return err
	}
	f.alone, f.both = append(f.alone, alone), append(f.both, both)
	f.printProgress(round, "told of a conflict", fmt.Sprintf("one Sluice %.2f %%", 100*alone), fmt.Sprintf("two %.2f %%", 100*both))
	return nil
}

// runSharedContention makes clients of both Sluices fight for one row. It returns the share of their transactions that
// ended with a conflict at the client.
func (f *faultMeasurement) runSharedContention() (told float64, err error) {
	var crowds [len(f.sluices)]*clientGroup
	for i, s := range f.sluices {
		crowds[i] = startClients(s.DSN("postgres"), fightingClients/len(crowds), contendingStatements)
	}
	time.Sleep(3 * time.Duration(f.seconds) * time.Second)
	for _, c := range crowds {
		share, err := c.stop()
		if err != nil {
			return 0, err
		}
		told += share / float64(len(crowds))
	}
	return told, nil
}

// measureOneFault measures a workload's rate before and after dsqlsim injects one fault.
func (f *faultMeasurement) measureOneFault(ctx context.Context, l faultWorkload) (before, after float64, err error) {
	c := startClients(f.sluices[0].DSN("postgres"), steadyClients, l.statement)
	rate := func(after time.Duration) float64 {
		time.Sleep(after)
		n, began := c.committed.Load(), time.Now()
		time.Sleep(time.Duration(f.seconds) * time.Second)
		return float64(c.committed.Load()-n) / time.Since(began).Seconds()
	}
	before = rate(time.Second)
	if _, err = f.sim.Ask(ctx, "POST", "/faults", "["+l.plan+"]"); err == nil {
		after = rate(recovery)
		_, err = f.sim.Ask(ctx, "DELETE", "/faults", "")
	}
	_, stopped := c.stop()
	return before, after, errors.Join(err, stopped, ctx.Err())
}

// createFaultTables drops and creates the tables, because another part of a run may have created tables of the same
// names.
func createFaultTables(ctx context.Context, dsn string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, sql := range []string{
		"DROP TABLE IF EXISTS made", "DROP TABLE IF EXISTS account", "DROP SEQUENCE IF EXISTS number",
		"CREATE TABLE made (a int, b int)", "CREATE TABLE account (id int PRIMARY KEY, n int)", "CREATE SEQUENCE number CACHE 65536",
		"INSERT INTO account SELECT g, 0 FROM generate_series(-1, 1700) g",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// clientGroup is a number of clients, each of which runs one transaction after the other.
type clientGroup struct {
	ended           chan struct{}
	once            sync.Once
	all             sync.WaitGroup
	committed, told atomic.Int64
	failed          atomic.Pointer[error] // the first that is no conflict
}

func startClients(dsn string, clients int, statements func(client int) []string) *clientGroup {
	c := &clientGroup{ended: make(chan struct{})}
	for client := range clients {
		c.all.Go(func() {
			if err := c.runClient(dsn, func() []string { return statements(client) }); err != nil {
				c.failed.CompareAndSwap(nil, &err)
			}
		})
	}
	return c
}

// runClient runs transactions on one connection, one after the other, until the group is stopped.
func (c *clientGroup) runClient(dsn string, statements func() []string) error {
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

// stop ends the clients. It returns the share of their transactions that ended with a conflict at the client.
func (c *clientGroup) stop() (told float64, err error) {
	c.once.Do(func() { close(c.ended) })
	c.all.Wait()
	if failed := c.failed.Load(); failed != nil {
		return 0, *failed
	}
	n := float64(c.told.Load())
	return n / max(n+float64(c.committed.Load()), 1), nil
}
