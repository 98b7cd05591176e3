package rewriting

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
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
// a counter that others add to, and leave their own mark. What it discards, by returning to a
// savepoint, would do the same.
type fight struct {
	id    int
	parts int // of rows; a table stands between each two
	told  []certainty
	code  string // of the error that ended it; "" for a COMMIT

	c   *pgconn.PgConn
	rng *rand.Rand
	err error // of what was said last
	sql string
}

// said reports whether the statement was run.
func (f *fight) said(ctx context.Context, format string, values ...any) bool {
	f.sql = fmt.Sprintf(format, values...)
	_, f.err = f.c.Exec(ctx, f.sql).ReadAll()
	return f.err == nil
}

// run plays the transaction, and says what each part's client knows of it: each notice of an early
// commit is one part that is in, in their order, and where the outcome of a COMMIT is unknown
// it is that of the next.
func (f *fight) run(ctx context.Context, notices *[]string) {
	*notices = nil
	ok := false
	if f.rng.IntN(4) == 0 {
		ok = f.said(ctx, "%s", f.strung())
	} else {
		ok = f.said(ctx, "BEGIN")
		for p := 0; ok && p < f.parts; p++ {
			ok = (p == 0 || f.said(ctx, "CREATE TABLE f%d_%d (id int)", f.id, p)) && f.leaves(ctx, p) &&
				f.said(ctx, "INSERT INTO marks VALUES (%d, %d)", f.id, p) && f.discards(ctx, p) && f.adds(ctx)
		}
		ok = ok && f.said(ctx, "COMMIT")
	}
	f.told = make([]certainty, 2*f.parts-1)
	in := 0
	for _, n := range *notices {
		if strings.Contains(n, "a part of the transaction is committed") {
			f.told[in], in = certain, in+1
		}
	}
	switch f.code = code(f.err); {
	case ok:
		f.told[in] = certain
	case f.code == "08007":
		f.told[in] = unknown
	}
	if !f.c.IsClosed() {
		f.c.Exec(ctx, "ROLLBACK").Close()
	}
}

// strung is the transaction in one string, with a block in it or around it, or none.
func (f *fight) strung() string {
	begins := f.rng.IntN(2 * f.parts)
	var all []string
	for p := range f.parts {
		if p > 0 {
			all = append(all, fmt.Sprintf("CREATE TABLE f%d_%d (id int)", f.id, p))
		}
		if p == begins {
			all = append(all, "BEGIN")
		}
		all = append(all, fmt.Sprintf("INSERT INTO marks VALUES (%d, %d); UPDATE counters SET n = n + 1 WHERE k = %d", f.id, p, f.rng.IntN(3)))
	}
	if begins < f.parts {
		all = append(all, "COMMIT")
	}
	return strings.Join(all, "; ")
}

// leaves releases a savepoint of the part before, or tries to return to it, which fails. It sets
// one in front of the next part's rows, and may return to it behind the first of them, which has the
// table committed and fails.
func (f *fight) leaves(ctx context.Context, p int) bool {
	if p > 0 {
		switch f.rng.IntN(12) {
		case 0:
			return f.said(ctx, "ROLLBACK TO before%d", p-1)
		case 1, 2, 3:
			if !f.said(ctx, "RELEASE before%d", p-1) {
				return false
			}
		}
	}
	if !f.said(ctx, "SAVEPOINT before%d", p) || p == 0 || f.rng.IntN(3) > 0 {
		return f.err == nil
	}
	return f.fails(ctx, p-1) && f.said(ctx, "ROLLBACK TO before%d", p)
}

// fails inserts a mark that is there.
func (f *fight) fails(ctx context.Context, p int) bool {
	return !f.said(ctx, "INSERT INTO marks VALUES (%d, %d)", f.id, p) && code(f.err) == "23505"
}

// discards returns to a savepoint behind changes, one of which may have failed; or keeps nothing
// but its name.
func (f *fight) discards(ctx context.Context, p int) bool {
	switch f.rng.IntN(4) {
	case 0:
		return true
	case 1:
		return f.said(ctx, "SAVEPOINT s") && f.said(ctx, "RELEASE s")
	case 2:
		return f.said(ctx, "SAVEPOINT s") && f.adds(ctx) && f.said(ctx, "INSERT INTO marks VALUES (%d, %d)", f.id, p+100) && f.said(ctx, "ROLLBACK TO s")
	}
	return f.said(ctx, "SAVEPOINT s") && f.fails(ctx, p) && f.said(ctx, "ROLLBACK TO s")
}

// adds raises a counter, in one statement, or by what the client has read.
func (f *fight) adds(ctx context.Context) bool {
	k := f.rng.IntN(3)
	how := f.rng.IntN(4)
	if how < 2 {
		return f.said(ctx, "UPDATE counters SET n = n + 1 WHERE k = %d", k)
	}
	sql := fmt.Sprintf("SELECT n FROM counters WHERE k = %d", k)
	if how == 2 {
		sql += " FOR UPDATE"
	}
	read, err := f.c.Exec(ctx, sql).ReadAll()
	if f.err = err; err != nil {
		return false
	}
	n, err := strconv.Atoi(string(read[0].Rows[0][0]))
	f.err = err
	return err == nil && f.said(ctx, "UPDATE counters SET n = %d WHERE k = %d", n+1, k)
}

// reads looks at all counters and marks in transactions of their own, until ctx ends: no part is
// there by half at any time, and what was read is read again. It returns how many have looked.
func (r *partsRig) reads(ctx context.Context, t *testing.T) (looked int) {
	c, _ := r.dial(t, r.sluice.DSN("postgres"))
	const sum, marks = "SELECT sum(n) FROM counters", "SELECT count(*) FROM marks"
	for ctx.Err() == nil {
		if c.IsClosed() {
			c, _ = r.dial(t, r.sluice.DSN("postgres"))
		}
		var got []string
		for _, sql := range []string{"BEGIN", sum, marks, sum, "COMMIT"} {
			all, err := c.Exec(t.Context(), sql).ReadAll()
			if err != nil {
				got = nil
				break
			}
			for _, row := range all[0].Rows {
				got = append(got, string(row[0]))
			}
		}
		if got == nil {
			c.Exec(t.Context(), "ROLLBACK").Close()
			continue
		}
		if looked++; got[0] != got[1] || got[0] != got[2] {
			t.Errorf("a reader has seen %s, and again %s, in the counters, and %s parts", got[0], got[2], got[1])
		}
	}
	return looked
}

// Several clients add to the same counters in transactions that are committed in parts and return
// to savepoints, where commits are refused and connections are cut before and behind them. No part
// that a client was told of is missing, none is there that it was told of as undone, and none is there
// twice or by half, at any time that somebody reads; nor is what was discarded. Nobody of whose
// transaction a part is there is told to send it again (40001).
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
				f := &fight{id: n*10_000 + i, parts: 1 + rng.IntN(3), c: c, rng: rng}
				f.run(t.Context(), notices)
				all[n] = append(all[n], f)
			}
		})
	}
	var reading sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	looked := 0
	reading.Go(func() { looked = r.reads(ctx, t) })
	playing.Wait()
	stop()
	reading.Wait()
	r.sim.Admin(t, http.MethodDelete, "/faults", "")
	there := map[string]bool{}
	for name := range strings.FieldsSeq(r.pg.SQL(t, "postgres", "SELECT string_agg(id || '-' || p, ' ') FROM marks") + " " + r.pg.SQL(t, "postgres", `SELECT string_agg(relname, ' ') FROM pg_class WHERE relname ~ '^f\d'`)) {
		there[name] = true
	}
	known, codes := map[certainty]int{}, map[string]int{}
	for _, fights := range all {
		for _, f := range fights {
			if codes[f.code]++; f.code == "40001" && slices.Contains(f.told, certain) {
				t.Errorf("%+v is to be sent again: %v", f, f.err)
			}
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
	if n := r.pg.SQL(t, "postgres", "SELECT count(*) FROM marks WHERE p >= 100"); n != "0" {
		t.Errorf("%s marks are there that were discarded", n)
	}
	t.Logf("parts certain %d, unknown %d, undone %d; ends %v; read %d times", known[certain], known[unknown], known[never], codes, looked)
	if looked < 10 || known[unknown] == 0 || known[never] == 0 || known[certain] < known[never] {
		t.Error("the fight was none")
	}
}
