package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
	"github.com/sluice-proxy/sluice/integration/replay/oracle"
)

// tellers is how many clients run at a time.
const tellers = 12

// loners is how many transactions of a batch run by themselves.
const loners = 40

// chaos is what goes wrong by plan, beside the conflicts that clients make of
// themselves.
const chaos = `[
 {"at":"commit","action":"fail","error":"conflict","probability":0.06},
 {"at":"commit","action":"fail","error":"schema","probability":0.01},
 {"at":"statement","contains":"register","action":"fail","error":"conflict","probability":0.01},
 {"at":"row","contains":"register","action":"fail","error":"conflict","probability":0.01},
 {"at":"row","row":3,"contains":"register","action":"fail","error":"conflict","probability":0.01},
 {"at":"statement","action":"stall","seconds":0.2,"probability":0.002},
 {"at":"statement","action":"stall","seconds":5,"probability":0.0002},
 {"at":"running","action":"stall","seconds":5,"probability":0.0002},
 {"at":"row","row":2,"action":"stall","seconds":5,"probability":0.0002},
 {"at":"answered","action":"stall","seconds":5,"probability":0.0002},
 {"at":"commit","action":"stall","seconds":5,"probability":0.0004},
 {"at":"committing","action":"stall","seconds":5,"probability":0.0004},
 {"at":"committed","action":"stall","seconds":5,"probability":0.0004},
 {"at":"statement","action":"cut","probability":0.002},
 {"at":"running","action":"cut","probability":0.002},
 {"at":"row","row":2,"action":"cut","probability":0.003},
 {"at":"answered","action":"cut","probability":0.002},
 {"at":"commit","action":"cut","probability":0.004},
 {"at":"committing","action":"cut","probability":0.004},
 {"at":"committed","action":"cut","probability":0.004}]`

// world is what the clients of the oracle work in: two daemons, so that conflicts
// are not all settled at one gate, on one stand-in, on one PostgreSQL.
type world struct {
	sim     *harness.DSQLSim
	daemons []*harness.Sluice
	truth   *pgx.Conn // to PostgreSQL itself
	clients []*teller
	seed    uint64
	size    int // programs of a batch

	clock   atomic.Int64
	returns atomic.Int64 // to savepoints
	copies  atomic.Int64 // COPYs that were answered
	fetches atomic.Int64 // FETCHes that were
	locked  atomic.Int64 // locks that clients held
	thefts  atomic.Int64 // locks that were taken over
	lost    atomic.Int64 // programs that heard of it
	// overtaken are statements whose backend knew a newer schema than that they were planned by. Why the backend knew
	// it first is not known: one program in 5,000 may show it.
	overtaken atomic.Int64
	seen      uint64 // events of the ledger

	mu    sync.Mutex
	codes map[string]int // errors that clients got
	sum   totals
}

// totals are what has happened, for people and against vacuous runs.
type totals struct{ programs, committed, aborted, unknown, conflicts, planned, cuts int }

// newWorld starts daemons from bin; "" is the one that is under test.
func newWorld(t *testing.T, bin harness.Bin, seed uint64, size int) *world {
	t.Helper()
	pg := pgtest.Shared(t)
	args := []string{"--ledger", "500000", "--tell-at-once"}
	if seed%2 == 0 { // nobody knows whether clusters do, and no advisory lock may rest on it
		args = append(args, "--lock-outside-blocks")
	}
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Upstream: pg, Args: args})
	w := &world{sim: sim, seed: seed, size: size, codes: make(map[string]int)}
	for _, env := range []harness.Env{
		{},
		// Answers are delivered early, and a cancel request does something.
		{"DSQL_RETRY_HELD_BYTES": "512", "DSQL_CANCEL_GRACE": "20ms"},
	} {
		all := sim.Env().With(harness.Env{
			"DSQL_RESERVOIR_MAX_OPEN": "20", "DSQL_CONNECTION_RATE_LIMIT": "1000", "DSQL_RETRY_BUDGET_BURST": "1000000",
			"DSQL_RETRY_BASE_DELAY": "20ms", "DSQL_BACKEND_SILENCE_TIMEOUT": "1s", "DSQL_COPY_FROM": "insert",
			"DSQL_REWRITE_ADVISORY_LOCKS": "table", "DSQL_REWRITE_ADVISORY_LOCKS_LEASE": "10s", "DSQL_REWRITE_ADVISORY_LOCKS_LONGEST": "20s",
		}).With(env)
		w.daemons = append(w.daemons, harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: all}))
	}
	var err error
	if w.truth, err = pgx.Connect(t.Context(), pg.DSN("postgres")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.truth.Close(context.Background()) })
	setup, err := pgx.Connect(t.Context(), w.daemons[0].DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer setup.Close(context.Background())
	for _, sql := range oracleSchema {
		if _, err := setup.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	for n := range tellers {
		c := &teller{world: w, number: n, before: make(lists)}
		w.clients = append(w.clients, c)
		t.Cleanup(c.leave)
	}
	sim.Admin(t, "POST", "/faults", chaos)
	return w
}

// tick reads the clock of all clients.
func (w *world) tick() int64 { return w.clock.Add(1) }

// saw counts a tag that a client got.
func (w *world) saw(tag string) {
	switch verb, _, _ := strings.Cut(tag, " "); verb {
	case "COPY":
		w.copies.Add(1)
	case "FETCH":
		w.fetches.Add(1)
	}
}

// count counts an error that a client got.
func (w *world) count(code string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.codes[code]++
}

// batch runs the programs of a batch on all clients, and returns every breach of
// what they were told, and the errors that no client may get.
func (w *world) batch(t *testing.T, number int) (breaches []oracle.Violation, errs []error) {
	t.Helper()
	first := number * batchStride
	if _, err := w.truth.Exec(t.Context(), "INSERT INTO register SELECT k, '' FROM generate_series($1::int, $2) k", first, first+keysOfBatch+guards-1); err != nil {
		t.Fatal(err)
	}
	var next atomic.Int64
	var all []*oracle.Txn
	var wg sync.WaitGroup
	for _, c := range w.clients {
		clear(c.before)
		wg.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= w.size {
					return
				}
				if n == w.size/2 {
					w.changeSchema(t, number)
				}
				txns, err := c.run(t.Context(), draw(w.seed, number, n, w.size))
				w.mu.Lock()
				all = append(all, txns...)
				if err != nil {
					errs = append(errs, err)
				}
				w.mu.Unlock()
			}
		})
	}
	done, stolen := make(chan struct{}), make(chan []*oracle.Txn, 1)
	go func() { stolen <- w.thief(t, number, done) }()
	wg.Wait()
	close(done)
	all = append(all, <-stolen...)
	for _, c := range w.clients {
		if c.pinned { // its backend is lent until it leaves
			c.leave()
		}
	}
	w.sum.programs += w.size
	w.settle(t)
	if err := w.alone(t, number); err != nil {
		errs = append(errs, err)
	}
	breaches = oracle.CheckHistory(w.history(t, number, all))
	return append(breaches, oracle.CheckLedger(all, w.ledger(t))...), errs
}

// alone runs some transactions while no other runs, and returns what is wrong with them: a replay
// answers what was answered before, and what a client was told of its row is in the row.
func (w *world) alone(t *testing.T, number int) error {
	const reason = "dsql_tx_replay_refused_total"
	before, committed := w.metric(t, reason, "differs"), 0
	for i := range loners {
		id := -1 - number*loners - i
		conn, err := pgx.Connect(t.Context(), w.daemons[i%len(w.daemons)].DSN("postgres"))
		if err != nil {
			return err
		}
		said, err := insertAlone(t.Context(), conn, id)
		conn.Close(t.Context())
		if err != nil { // a conflict that was told, a loss
			continue
		}
		var is string
		if err := w.truth.QueryRow(t.Context(), "SELECT concat_ws(' ', n, u, chance, number) FROM made WHERE id = $1", id).Scan(&is); err != nil {
			return err
		}
		if is != said {
			return fmt.Errorf("row %d is %q, its client was told %q", id, is, said)
		}
		committed++
	}
	w.settle(t)
	if differ := w.metric(t, reason, "differs") - before; differ > 0 {
		return fmt.Errorf("%w: %v of %d transactions", errNotKept, differ, loners)
	}
	if committed < loners/2 {
		return fmt.Errorf("with nobody else there, %d of %d transactions committed", committed, loners)
	}
	return nil
}

// errNotKept tells of what a replay could not answer again, though nobody has changed anything.
var errNotKept = errors.New("with nobody else there, replays answered otherwise")

// insertAlone inserts a row that the server fills in, and returns what its client was told of it.
func insertAlone(ctx context.Context, conn *pgx.Conn, id int) (said string, err error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return "", err
	}
	defer tx.Rollback(context.Background())
	var n, u, chance string
	var count int64
	if err := tx.QueryRow(ctx, "INSERT INTO made (id) VALUES ($1) RETURNING n, u, chance, number", id).Scan(&n, &u, &chance, &count); err != nil {
		return "", err
	}
	if _, err := tx.Exec(ctx, "UPDATE mark SET chance = 0 WHERE id = 0"); err != nil {
		return "", err
	}
	return fmt.Sprint(n, " ", u, " ", chance, " ", count), tx.Commit(ctx)
}

// changeSchema makes every session of the stand-in meet OC001 once.
func (w *world) changeSchema(t *testing.T, number int) {
	conn, err := pgx.Connect(t.Context(), w.daemons[0].DSN("postgres"))
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), fmt.Sprintf("CREATE TABLE IF NOT EXISTS side_%d (id int PRIMARY KEY)", number))
	if code, _, _ := told(err); err != nil && code != "40001" && code != "08007" {
		t.Error(err)
	}
}

// settle waits until nothing is under way: no backend is lent, the stand-in has
// seen the end of each that was lost, and PostgreSQL is idle.
func (w *world) settle(t *testing.T) {
	t.Helper()
	const busy = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND state <> 'idle' AND pid <> pg_backend_pid()"
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		var active int
		if err := w.truth.QueryRow(t.Context(), busy).Scan(&active); err != nil {
			t.Fatal(err)
		}
		backends := w.metric(t, "dsql_reservoir_size", "")
		lent := w.metric(t, "dsql_reservoir_in_use", "") + w.metric(t, "dsql_reservoir_dialing", "")
		connected, _ := harness.SumMetric(t, w.sim.Admin(t, "GET", "/metrics", ""), "dsqlsim_connections", "")
		if active == 0 && lent == 0 && backends == connected {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not settled: %d sessions of PostgreSQL, %v backends lent, %v ready, %v connections", active, lent, backends, connected)
		}
	}
}

// history is what is in the database of a batch, and what its clients know.
func (w *world) history(t *testing.T, number int, all []*oracle.Txn) *oracle.History {
	t.Helper()
	slices.SortFunc(all, func(a, b *oracle.Txn) int { return a.ID - b.ID })
	h := &oracle.History{Txns: all, Lists: make(map[int][]int), Marks: make(map[int]string), Times: make(map[int]string)}
	rows, err := w.truth.Query(t.Context(), "SELECT k, log FROM register WHERE k BETWEEN $1 AND $2", number*batchStride, (number+1)*batchStride-1)
	if err != nil {
		t.Fatal(err)
	}
	var k int
	var text string
	if _, err := pgx.ForEachRow(rows, []any{&k, &text}, func() error { h.Lists[k] = elements(text); return nil }); err != nil {
		t.Fatal(err)
	}
	first := number * w.size * idsOf * idStride
	rows, err = w.truth.Query(t.Context(), "SELECT id, u || ' ' || chance, at::text FROM mark WHERE id > $1 AND id < $2 UNION ALL "+
		"SELECT id, concat_ws(' ', n, u, chance, number, at), at FROM made WHERE id > $1 AND id < $2", first, first+w.size*idsOf*idStride)
	if err != nil {
		t.Fatal(err)
	}
	var at *string
	if _, err := pgx.ForEachRow(rows, []any{&k, &text, &at}, func() error {
		if h.Marks[k] = text; at != nil {
			h.Times[k] = *at
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, txn := range all {
		switch txn.Outcome {
		case oracle.Committed:
			w.sum.committed++
		case oracle.Aborted:
			w.sum.aborted++
		default:
			w.sum.unknown++
		}
	}
	return h
}

// ledger is what the stand-in has recorded since the last time.
func (w *world) ledger(t *testing.T) (events []oracle.Event) {
	t.Helper()
	if err := json.Unmarshal([]byte(w.sim.Admin(t, "GET", fmt.Sprintf("/ledger?after=%d", w.seen), "")), &events); err != nil {
		t.Fatal(err)
	}
	if len(events) == 0 || events[0].Seq != w.seen+1 {
		t.Fatalf("the ledger has forgotten what came after event %d", w.seen)
	}
	w.seen = events[len(events)-1].Seq
	for _, e := range events {
		switch {
		case e.Kind == "fault" && e.Outcome == "cut":
			w.sum.cuts++
		case e.Kind == "fault" && e.Outcome == "fail":
			w.sum.planned++
		case e.Kind == "statement" && e.Outcome == "40001":
			w.sum.conflicts++
		}
	}
	return events
}

// metric is the sum over both daemons.
func (w *world) metric(t *testing.T, name, label string) (sum float64) {
	t.Helper()
	for _, d := range w.daemons {
		text, err := d.Metrics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n, _ := harness.SumMetric(t, text, name, label)
		sum += n
	}
	return sum
}

// report prints what has happened.
func (w *world) report(t *testing.T) {
	t.Helper()
	n := &w.sum
	t.Logf("seed %d: %d programs; transactions: %d committed, %d aborted, %d unknown; conflicts: %d, of them %d planned; %d connections cut; "+
		"%v replays, %v of them after a loss; %d returns to savepoints; %d programs under locks, %d thefts, %d heard of them; %v refused; %v backends given up for their silence; errors that clients got: %s",
		w.seed, n.programs, n.committed, n.aborted, n.unknown, n.conflicts, n.planned, n.cuts,
		w.metric(t, "dsql_tx_retries_total", ""), w.metric(t, "dsql_tx_retries_total", "backend_lost"),
		w.returns.Load(), w.locked.Load(), w.thefts.Load(), w.lost.Load(), w.metric(t, "dsql_tx_replay_refused_total", ""), w.metric(t, "dsql_reservoir_discards_total", "silent"), w.errors())
}

// vacuous fails a test in which too little has happened to show anything. The shares
// are about half of what the faults and keys here lead to.
func (w *world) vacuous(t *testing.T) {
	t.Helper()
	n := &w.sum
	if told := w.overtaken.Load(); told > 1+int64(n.programs)/5000 {
		t.Errorf("%d were told that the schema had changed while they waited, in %d programs", told, n.programs)
	}
	for _, each := range []struct {
		what  string
		count int
		least float64 // of the programs
	}{
		{"commits", n.committed, 0.4},
		{"aborts", n.aborted, 0.1},
		{"unknown outcomes", n.unknown, 0.01},
		{"planned conflicts", n.planned, 0.05},
		{"conflicts of their own", n.conflicts - n.planned, 0.05},
		{"cuts", n.cuts, 0.02},
		{"returns to savepoints", int(w.returns.Load()), 0.03},
		{"COPYs", int(w.copies.Load()), 0.005},
		{"FETCHes", int(w.fetches.Load()), 0.02},
		{"programs under locks", int(w.locked.Load()), 0.04},
		{"thefts of locks", int(w.thefts.Load()), 0.003},
		{"programs that heard of a theft", int(w.lost.Load()), 0.001},
		{"replays", int(w.metric(t, "dsql_tx_retries_total", "")), 0.15},
		{"replays after a loss", int(w.metric(t, "dsql_tx_retries_total", "backend_lost")), 0.01},
		{"killed clients", w.codes[""], 0.003},
		{"backends given up for their silence", int(w.metric(t, "dsql_reservoir_discards_total", "silent")), 0.001},
	} {
		if float64(each.count) < each.least*float64(n.programs) {
			t.Errorf("%d %s in %d programs: this shows too little", each.count, each.what, n.programs)
		}
	}
}

func (w *world) errors() string {
	var parts []string
	for _, code := range slices.Sorted(maps.Keys(w.codes)) {
		name := code
		if name == "" {
			name = "killed"
		}
		parts = append(parts, fmt.Sprintf("%d %s", w.codes[code], name))
	}
	return strings.Join(parts, ", ")
}
