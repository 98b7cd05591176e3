package rewriting

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

var partsPrograms = flag.Int("parts.programs", 8, "half as many random migrations as the least of TestParts's ways plays")
var partsSeed = flag.Int("parts.seed", 0, "the first seed of TestParts's programs")

// partsRig is Sluice in front of the stand-in, and a database of plain PostgreSQL that the same
// statements are run in.
type partsRig struct {
	pg     *pgtest.Server
	sim    *harness.DSQLSim
	sluice *harness.Sluice
}

func startParts(t *testing.T, policy string, env harness.Env) *partsRig {
	t.Helper()
	r := &partsRig{pg: pgtest.Start(t, pgtest.MaxConnections(100))}
	r.pg.SQL(t, "postgres", "CREATE DATABASE reference")
	bin := harness.Binaries(t)
	r.sim = harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: r.pg})
	r.sluice = harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: r.sim.Env().With(
		harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "10", "DSQL_DDL_IN_TRANSACTIONS": policy, "DSQL_COPY_FROM": "insert"}).With(env)})
	return r
}

// dial connects and gathers the notices.
func (r *partsRig) dial(t *testing.T, dsn string) (*pgconn.PgConn, *[]string) {
	t.Helper()
	config, err := pgconn.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	notices := new([]string)
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		*notices = append(*notices, strings.Join([]string{n.Severity, n.Code, n.Message, n.Detail}, "|"))
	}
	c, err := pgconn.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c, notices
}

// answers are what a request got: the rows and tag of each statement, the error's code, and
// where the transaction stands.
func answers(ctx context.Context, c *pgconn.PgConn, sql string, extended bool) []string {
	var out []string
	note := func(r *pgconn.Result) {
		for _, row := range r.Rows {
			out = append(out, fmt.Sprintf("row %q", row))
		}
		if r.Err == nil {
			out = append(out, r.CommandTag.String())
		}
	}
	var err error
	switch {
	case strings.HasPrefix(sql, "COPY "):
		var tag pgconn.CommandTag
		if tag, err = c.CopyFrom(ctx, strings.NewReader(copied), sql); err == nil {
			out = append(out, tag.String())
		}
	case extended && strings.Contains(sql, "; "): // in one pipeline
		err = pipelined(ctx, c, strings.Split(sql, "; "), note)
	case extended:
		r := c.ExecParams(ctx, sql, nil, nil, nil, nil).Read()
		note(r)
		err = r.Err
	default:
		var all []*pgconn.Result
		all, err = c.Exec(ctx, sql).ReadAll()
		for _, r := range all {
			note(r)
		}
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		out = append(out, "error "+e.Code)
	} else if err != nil {
		out = append(out, err.Error())
	}
	return append(out, string(c.TxStatus()))
}

// pipelined sends statements with one Sync behind them.
func pipelined(ctx context.Context, c *pgconn.PgConn, statements []string, note func(*pgconn.Result)) (err error) {
	p := c.StartPipeline(ctx)
	for _, sql := range statements {
		p.SendQueryParams(sql, nil, nil, nil, nil)
	}
	if err := p.Sync(); err != nil {
		return err
	}
	for {
		results, rerr := p.GetResults()
		if rerr != nil {
			err = cmp.Or(err, rerr)
		}
		switch r := results.(type) {
		case *pgconn.ResultReader:
			one := r.Read()
			err = cmp.Or(err, one.Err)
			note(one)
		case *pgconn.PipelineSync:
			return cmp.Or(err, p.Close())
		case nil:
			if rerr == nil {
				return cmp.Or(err, p.Close())
			}
		}
	}
}

// A request of a random program: one statement, or a string of several.
type request struct {
	statements []string
	extended   bool
}

func (q request) sql() string { return strings.Join(q.statements, "; ") }

// partsProgram is a random migration: blocks and strings of DDL, changes of rows and reads,
// some of which fail, ended in all ways.
//
// chained has blocks begun in a request that has committed another: such a block is not run again, and
// has no savepoints. kept: the session keeps its backend, so that SET TRANSACTION READ ONLY is refused.
func partsProgram(rng *rand.Rand, chained, kept bool) (program []request) {
	statement := func() string {
		n := rng.IntN(3)
		all := []string{
			"CREATE TABLE t%d (id int PRIMARY KEY, v int)", "CREATE TABLE IF NOT EXISTS t%d (id int PRIMARY KEY, v int)",
			"ALTER TABLE t%d ADD COLUMN w text", "ALTER TABLE t%d DROP COLUMN w", "ALTER TABLE t%d RENAME COLUMN v TO vv", "ALTER TABLE t%d RENAME COLUMN vv TO v",
			"DROP TABLE t%d", "DROP TABLE IF EXISTS t%d", "CREATE VIEW s%[1]d AS SELECT 1", "DROP VIEW s%d",
			"INSERT INTO t%d SELECT COALESCE(max(id), 0) + 1, 7 FROM t%[1]d", "INSERT INTO t%d VALUES (1, 1)", "UPDATE t%d SET id = id + 100", "DELETE FROM t%d WHERE id > 200",
			"SELECT count(*) FROM t%d", "SELECT id FROM t%d ORDER BY id LIMIT 3", "SELECT 1", "INSERT INTO log VALUES (%d)", "INSERT INTO log VALUES (%d + 10)",
			"SELECT count(*) FROM log", "ANALYZE t%d", "SELECT id FROM t%d ORDER BY id FOR UPDATE",
		}
		sql := all[rng.IntN(len(all))]
		if strings.Contains(sql, "%") {
			sql = fmt.Sprintf(sql, n)
		}
		return sql
	}
	reads, moves := rng.IntN(4) == 0, rng.IntN(4) == 0 // blocks that are READ ONLY; COPY and cursors in the place of savepoints
	holds := moves && rng.IntN(2) == 0                 // cursors WITH HOLD too, without the COMMITs in strings that are refused behind them
	block, saves := false, false
	for range 4 + rng.IntN(24) {
		q := request{extended: rng.IntN(3) == 0}
		switch k := rng.IntN(10); {
		case q.extended && k > 6: // JDBC puts BEGIN in front of a block's first statement
			if !block {
				q.statements, block, saves = []string{"BEGIN", statement()}, true, true
			} else if k == 7 {
				q.statements, block = []string{statement(), "COMMIT"}, false
			} else if q.statements = []string{statement()}; chained && !holds {
				q.statements, saves = []string{"COMMIT", "BEGIN", q.statements[0]}, false
			}
		case reads && !block && k < 3 && rng.IntN(2) == 0:
			q.statements, block, saves = []string{"BEGIN READ ONLY"}, true, true
			if rng.IntN(3) == 0 && !kept {
				program = append(program, request{statements: []string{"BEGIN"}, extended: q.extended})
				q.statements[0] = "SET TRANSACTION READ ONLY"
			}
		case !block && k < 5:
			q.statements, block, saves = []string{"BEGIN"}, true, true
		case moves && k < 7 && rng.IntN(2) == 0:
			q = request{statements: []string{moving(rng, block, holds)}}
		case block && k == 0:
			if q.statements, block = []string{"ROLLBACK"}, false; holds {
				program, q = append(program, q), request{statements: []string{"FETCH 1 FROM c0"}}
			}
		case block && k < 3:
			q.statements, block = []string{"COMMIT"}, false
		case block && saves && !moves && k > 3 && rng.IntN(2) == 0:
			q.statements = []string{fmt.Sprintf([]string{"SAVEPOINT s%d", "SAVEPOINT s%d", "ROLLBACK TO s%d", "RELEASE s%d"}[rng.IntN(4)], rng.IntN(2))}
		case k == 8 && !q.extended && !holds: // a string that begins a block, or ends one
			q.statements, block, saves = controlled(rng, statement, block, saves, chained)
		case k == 9:
			q.extended = false
			for range 2 + rng.IntN(4) {
				q.statements = append(q.statements, statement())
			}
			if !block && !holds && rng.IntN(3) == 0 {
				q.statements = append(append([]string{"BEGIN"}, q.statements...), "COMMIT")
			}
		default:
			q.statements = []string{statement()}
		}
		program = append(program, q)
	}
	return append(program, request{statements: []string{"ROLLBACK"}})
}

// moving is a statement of a cursor, or a COPY, whose rows answers sends. Only cursors WITH HOLD are outside of blocks.
func moving(rng *rand.Rand, block, holds bool) string {
	table, name := rng.IntN(2), rng.IntN(2)
	if !block && !holds || rng.IntN(3) == 0 {
		return fmt.Sprintf("COPY t%d (id, v) FROM STDIN", table)
	}
	hold := ""
	if holds && (!block || rng.IntN(3) > 0) {
		hold = " WITH HOLD"
	}
	return []string{
		fmt.Sprintf("DECLARE c%d NO SCROLL CURSOR%s FOR SELECT id FROM t%d ORDER BY id", name, hold, table), fmt.Sprintf("FETCH 2 FROM c%d", name),
		fmt.Sprintf("FETCH ALL FROM c%d", name), fmt.Sprintf("CLOSE c%d", name), fmt.Sprintf("DECLARE c%d NO SCROLL CURSOR%s FOR SELECT 7", name, hold),
	}[rng.IntN(5)]
}

// copied is what a COPY of a program sends: rows that some programs have already.
const copied = "1\t1\n1001\t2\n"

// controlled is a string that begins or ends a block, with statements in front of that and behind. chained:
// it may do something behind an end. It returns whether a block is open behind it, and may have savepoints.
func controlled(rng *rand.Rand, statement func() string, block, saves, chained bool) ([]string, bool, bool) {
	end := []string{"COMMIT", "ROLLBACK"}[rng.IntN(2)]
	switch n := rng.IntN(5); {
	case !block && n < 2:
		return []string{"BEGIN", statement()}, true, true
	case !block && n == 2:
		return []string{"BEGIN", statement(), end}, false, saves
	case !block: // DDL in front of it may be committed by itself, and then the block is not run again
		first := statement()
		for ofDDL(first) {
			first = statement()
		}
		return []string{first, "BEGIN", statement()}, true, true
	case n < 2 || !chained:
		return []string{statement(), end}, false, saves
	case n == 2:
		return []string{end, statement()}, false, saves
	case n == 3:
		return []string{end, "BEGIN", statement()}, true, false
	}
	return []string{statement(), end, "BEGIN", statement()}, true, false
}

// contents are the tables and views of a schema with their columns and rows.
const contents = `SELECT string_agg(c.relname || ' ' || (SELECT string_agg(a.attname, ',' ORDER BY a.attname) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
	|| ' ' || CASE c.relkind WHEN 'r' THEN query_to_xml('SELECT * FROM ' || c.oid::regclass || ' ORDER BY 1', true, true, '')::text ELSE '' END, E'\n' ORDER BY c.relname)
	FROM pg_class c WHERE c.relnamespace = '%s'::regnamespace AND c.relkind IN ('r', 'v')`

// play runs the program of a seed in a schema of its own, on both sides. It returns how many
// parts were committed early, and what differs; "" for nothing.
func (r *partsRig) play(t *testing.T, schema string, seed uint64, chained, kept bool) (early int, difference string) {
	ctx := t.Context()
	for _, database := range []string{"postgres", "reference"} {
		r.pg.SQL(t, database, fmt.Sprintf("DROP SCHEMA IF EXISTS %s CASCADE; CREATE SCHEMA %[1]s; CREATE TABLE %[1]s.log (n int); CREATE TABLE %[1]s.t0 (id int PRIMARY KEY, v int); CREATE TABLE %[1]s.t1 (id int PRIMARY KEY, v int)", schema))
	}
	program := partsProgram(rand.New(rand.NewPCG(seed, 1)), chained, kept)
	c, notices := r.dial(t, r.sluice.DSN("postgres"))
	defer c.Close(ctx)
	plain, _ := r.dial(t, r.pg.DSN("reference"))
	defer plain.Close(ctx)
	ref := &reference{c: plain, holds: slices.ContainsFunc(program, func(q request) bool { return strings.Contains(q.sql(), "WITH HOLD") })}
	// A block behind a COMMIT of its request is not run again. Hence the backend learns of earlier DDL before the program.
	first := []request{{statements: []string{"SET search_path = " + schema}}, {statements: []string{"SELECT count(*) FROM log"}}}
	for i, q := range append(first, program...) {
		want := ref.ask(ctx, q)
		if got := answers(ctx, c, q.sql(), q.extended); !slices.Equal(got, want) {
			return 0, fmt.Sprintf("seed %d: %s\nSluice:     %q\nPostgreSQL: %q\nbehind %v", seed, q.sql(), got, want, program[:max(0, i-len(first))])
		}
	}
	if got, want := r.pg.SQL(t, "postgres", fmt.Sprintf(contents, schema)), r.pg.SQL(t, "reference", fmt.Sprintf(contents, schema)); got != want {
		return 0, fmt.Sprintf("seed %d: %v leaves\n%s\nPostgreSQL:\n%s", seed, program, got, want)
	}
	for _, n := range *notices {
		if strings.Contains(n, "a part of the transaction is committed") {
			early++
		}
	}
	return early, ""
}

// Random migrations leave what plain PostgreSQL leaves that is told to commit where
// ddl.in_transactions promises it, and their clients are told the same; also where a tenth of
// the commits meet a conflict, where several clients change the schema at a time on fewer
// backends, and where each keeps its backend.
func TestParts(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		name, faults      string
		env               harness.Env
		clients, programs int
	}{
		{"quiet", "", nil, 1, 4 * *partsPrograms},
		{"conflicts", `[{"at": "commit", "action": "fail", "error": "conflict", "probability": 0.1, "seed": 1, "count": -1}]`, harness.Env{"DSQL_RETRY_BASE_DELAY": "1ms"}, 1, 3 * *partsPrograms},
		{"several clients", "", harness.Env{"DSQL_RETRY_BASE_DELAY": "1ms", "DSQL_RESERVOIR_MAX_OPEN": "4"}, 3, *partsPrograms},
		{"kept backend", "", harness.Env{"DSQL_PAIRING": "session"}, 1, 2 * *partsPrograms},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			r := startParts(t, "autocommit-destructive", way.env)
			if way.faults != "" {
				r.sim.Admin(t, http.MethodPost, "/faults", way.faults)
			}
			var early atomic.Int64
			var clients sync.WaitGroup
			for n := range way.clients {
				clients.Go(func() {
					for seed := *partsSeed; seed < *partsSeed+way.programs; seed++ {
						parts, difference := r.play(t, fmt.Sprintf("own%d", n), uint64(seed*way.clients+n), way.faults == "" && way.clients == 1, way.env["DSQL_PAIRING"] == "session")
						if early.Add(int64(parts)); difference != "" {
							t.Error(difference)
							return
						}
					}
				})
			}
			clients.Wait()
			text, err := r.sluice.Metrics(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			counted, _ := harness.SumMetric(t, text, "dsql_early_commits_total", "")
			t.Logf("%d programs of each of %d, %.0f parts committed early, %d warnings", way.programs, way.clients, counted, early.Load())
			if !t.Failed() && (int(early.Load()) < way.programs/2 || int64(counted) != early.Load()) {
				t.Errorf("%d warnings, %.0f counted", early.Load(), counted)
			}
		})
	}
}
