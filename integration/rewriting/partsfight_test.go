package rewriting

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// certainty is what a client has been told of one part of its transaction.
type certainty uint8

const (
	never certainty = iota
	unknown
	certain
)

// fight is one transaction of several parts: rows, a table, rows, and so on. Its rows add one to
// a counter that others add to, and leave their own mark.
type fight struct {
	id    int
	parts int // of rows; a table stands between each two
	told  []certainty
	code  string // of the error that ended it; "" for a COMMIT
}

// run plays the transaction, and says what each part's client knows of it: each notice of an early
// commit is one part that is in, in their order, and where the outcome of a COMMIT is unknown
// it is that of the next.
func (f *fight) run(ctx context.Context, c *pgconn.PgConn, notices *[]string, rng *rand.Rand) {
	*notices = nil
	var err error
	said := func(sql string) bool {
		_, err = c.Exec(ctx, sql).ReadAll()
		return err == nil
	}
	ok := said("BEGIN")
	for p := 0; ok && p < f.parts; p++ {
		ok = (p == 0 || said(fmt.Sprintf("CREATE TABLE f%d_%d (id int)", f.id, p))) &&
			said(fmt.Sprintf("INSERT INTO marks VALUES (%d, %d)", f.id, p)) &&
			said(fmt.Sprintf("UPDATE counters SET n = n + 1 WHERE k = %d", rng.IntN(3)))
	}
	if ok {
		ok = said("COMMIT")
	}
	f.told = make([]certainty, 2*f.parts-1)
	in := 0
	for _, n := range *notices {
		if strings.Contains(n, "a part of the transaction is committed") {
			f.told[in], in = certain, in+1
		}
	}
	switch f.code = code(err); {
	case ok:
		f.told[in] = certain
	case f.code == "08007":
		f.told[in] = unknown
	}
	if !c.IsClosed() {
		c.Exec(ctx, "ROLLBACK").Close()
	}
}

// Several clients add to the same counters in transactions that are committed in parts, where
// commits are refused and connections are cut before and behind them. No part that a client
// was told of is missing, none is there that it was told of as undone, and none is there twice
// or by half.
func TestPartsFight(t *testing.T) {
	t.Parallel()
	const clients = 4
	r := startParts(t, "autocommit", harness.Env{"DSQL_RETRY_BASE_DELAY": "1ms", "DSQL_RESERVOIR_MAX_OPEN": "6"})
	r.pg.SQL(t, "postgres", "CREATE TABLE counters (k int PRIMARY KEY, n int); INSERT INTO counters VALUES (0, 0), (1, 0), (2, 0); CREATE TABLE marks (id int, p int, PRIMARY KEY (id, p))")
	r.sim.Admin(t, http.MethodPost, "/faults", `[{"at": "commit", "action": "fail", "error": "conflict", "probability": 0.1, "seed": 1, "count": -1},
		{"at": "committed", "action": "cut", "probability": 0.03, "seed": 2, "count": -1}, {"at": "commit", "action": "cut", "probability": 0.03, "seed": 3, "count": -1}]`)
	all := make([][]*fight, clients)
	var playing sync.WaitGroup
	for n := range clients {
		playing.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(n), 7))
			c, notices := r.dial(t, r.sluice.DSN("postgres"))
			for i := range 8 * *partsPrograms {
				if c.IsClosed() {
					c, notices = r.dial(t, r.sluice.DSN("postgres"))
				}
				f := &fight{id: n*10_000 + i, parts: 1 + rng.IntN(3)}
				f.run(t.Context(), c, notices, rng)
				all[n] = append(all[n], f)
			}
		})
	}
	playing.Wait()
	r.sim.Admin(t, http.MethodDelete, "/faults", "")
	there := map[string]bool{}
	for name := range strings.FieldsSeq(r.pg.SQL(t, "postgres", "SELECT string_agg(id || '-' || p, ' ') FROM marks") + " " + r.pg.SQL(t, "postgres", `SELECT string_agg(relname, ' ') FROM pg_class WHERE relname ~ '^f\d'`)) {
		there[name] = true
	}
	known, codes := map[certainty]int{}, map[string]int{}
	for _, fights := range all {
		for _, f := range fights {
			codes[f.code]++
			for i, told := range f.told {
				name := fmt.Sprintf("%d-%d", f.id, i/2)
				if i%2 == 1 {
					name = fmt.Sprintf("f%d_%d", f.id, i/2+1)
				}
				known[told]++
				if told == certain && !there[name] || told == never && there[name] {
					t.Errorf("part %d of %+v: there %v", i, f, there[name])
				}
			}
		}
	}
	if marks, sum := r.pg.SQL(t, "postgres", "SELECT count(*) FROM marks"), r.pg.SQL(t, "postgres", "SELECT sum(n) FROM counters"); marks != sum {
		t.Errorf("%s parts are there, and the counters have %s", marks, sum)
	}
	t.Logf("parts certain %d, unknown %d, undone %d; ends %v", known[certain], known[unknown], known[never], codes)
	if known[unknown] == 0 || known[never] == 0 || known[certain] < known[never] {
		t.Error("the fight was none")
	}
}
