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
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

var partsPrograms = flag.Int("parts.programs", 8, "half as many random migrations as the least of TestParts's ways plays")

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
		harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "10", "DSQL_DDL_IN_TRANSACTIONS": policy}).With(env)})
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
func partsProgram(rng *rand.Rand) (program []request) {
	statement := func() string {
		n := rng.IntN(3)
		all := []string{
			"CREATE TABLE t%d (id int PRIMARY KEY, v int)", "CREATE TABLE IF NOT EXISTS t%d (id int PRIMARY KEY, v int)",
			"ALTER TABLE t%d ADD COLUMN w text", "ALTER TABLE t%d DROP COLUMN w", "ALTER TABLE t%d RENAME COLUMN v TO vv", "ALTER TABLE t%d RENAME COLUMN vv TO v",
			"DROP TABLE t%d", "DROP TABLE IF EXISTS t%d", "CREATE VIEW s%[1]d AS SELECT 1", "DROP VIEW s%d",
			"INSERT INTO t%d SELECT COALESCE(max(id), 0) + 1, 7 FROM t%[1]d", "INSERT INTO t%d VALUES (1, 1)", "UPDATE t%d SET id = id + 100", "DELETE FROM t%d WHERE id > 200",
			"SELECT count(*) FROM t%d", "SELECT id FROM t%d ORDER BY id LIMIT 3", "SELECT 1", "INSERT INTO log VALUES (%d)", "INSERT INTO log VALUES (%d + 10)",
			"SELECT count(*) FROM log",
		}
		sql := all[rng.IntN(len(all))]
		if strings.Contains(sql, "%") {
			sql = fmt.Sprintf(sql, n)
		}
		return sql
	}
	block := false
	for range 4 + rng.IntN(20) {
		q := request{extended: rng.IntN(3) == 0}
		switch k := rng.IntN(10); {
		case q.extended && k > 6: // JDBC puts BEGIN in front of a block's first statement
			if !block {
				q.statements, block = []string{"BEGIN", statement()}, true
			} else if k == 7 {
				q.statements, block = []string{statement(), "COMMIT"}, false
			} else {
				q.statements = []string{"COMMIT", "BEGIN", statement()}
			}
		case !block && k < 5:
			q.statements, block = []string{"BEGIN"}, true
		case block && k == 0:
			q.statements, block = []string{"ROLLBACK"}, false
		case block && k < 3:
			q.statements, block = []string{"COMMIT"}, false
		case k == 9:
			q.extended = false
			for range 2 + rng.IntN(4) {
				q.statements = append(q.statements, statement())
			}
			if !block && rng.IntN(3) == 0 {
				q.statements = append(append([]string{"BEGIN"}, q.statements...), "COMMIT")
			}
		default:
			q.statements = []string{statement()}
		}
		program = append(program, q)
	}
	return append(program, request{statements: []string{"ROLLBACK"}})
}

// reference runs a program on plain PostgreSQL as ddl.in_transactions promises: it commits in
// front of a statement that does not go with what its transaction holds.
type reference struct {
	c         *pgconn.PgConn
	ddl, rows bool
}

func ofDDL(sql string) bool {
	return slices.Contains([]string{"CREATE", "ALTER", "DROP"}, strings.Fields(sql)[0])
}

func ofRows(sql string) bool {
	return slices.Contains([]string{"INSERT", "UPDATE", "DELETE"}, strings.Fields(sql)[0])
}

// ask runs one request.
func (r *reference) ask(ctx context.Context, q request) []string {
	tooMuch, ddl, rows := false, false, false
	for _, sql := range q.statements {
		tooMuch = tooMuch || ofDDL(sql) && (ddl || rows) || ofRows(sql) && ddl
		ddl, rows = ddl || ofDDL(sql), rows || ofRows(sql)
	}
	switch {
	case len(q.statements) == 1:
		return r.one(ctx, q.sql(), q.extended)
	case q.extended:
		return r.pipeline(ctx, q)
	case !ddl || r.c.TxStatus() == 'I' && !tooMuch:
		r.note(ctx, q.sql(), ddl, rows)
		return answers(ctx, r.c, q.sql(), false)
	}
	var out []string
	for i := 0; i < len(q.statements); i++ {
		sql := q.statements[i]
		for alone := ofDDL(sql) || sql == "BEGIN" || sql == "COMMIT"; !alone && i+1 < len(q.statements); i++ {
			if next := q.statements[i+1]; ofDDL(next) || next == "COMMIT" {
				break
			}
			sql += "; " + q.statements[i+1]
		}
		got := r.one(ctx, sql, false)
		out = append(out, got[:len(got)-1]...)
		if strings.HasPrefix(got[max(0, len(got)-2)], "error") {
			break
		}
	}
	return append(out, string(r.c.TxStatus()))
}

// pipeline runs statements with one Sync: it is the first, or the one behind BEGIN, that may not
// go with what the transaction holds.
func (r *reference) pipeline(ctx context.Context, q request) []string {
	for _, sql := range q.statements {
		switch sql {
		case "COMMIT":
		case "BEGIN":
			r.ddl, r.rows = false, false
		default:
			if q.statements[0] != "COMMIT" && r.c.TxStatus() != 'I' {
				r.note(ctx, sql, ofDDL(sql), ofRows(sql))
			} else {
				r.ddl, r.rows = ofDDL(sql), ofRows(sql)
			}
		}
	}
	return answers(ctx, r.c, q.sql(), true)
}

// note commits where sql does not go with the transaction.
func (r *reference) note(ctx context.Context, sql string, ddl, rows bool) {
	switch r.c.TxStatus() {
	case 'I':
		r.ddl, r.rows = false, false
		return
	case 'E':
		return
	}
	if ddl && (r.ddl || r.rows) || rows && r.ddl {
		r.c.Exec(ctx, "COMMIT; BEGIN").Close()
		r.ddl, r.rows = false, false
	}
	r.ddl, r.rows = r.ddl || ddl, r.rows || rows
}

func (r *reference) one(ctx context.Context, sql string, extended bool) []string {
	var ddl, rows bool
	for one := range strings.SplitSeq(sql, "; ") {
		ddl, rows = ddl || ofDDL(one), rows || ofRows(one)
	}
	r.note(ctx, sql, ddl, rows)
	return answers(ctx, r.c, sql, extended)
}

// contents are the tables of a database with their columns and rows.
const contents = `SELECT string_agg(c.relname || ' ' || (SELECT string_agg(a.attname, ',' ORDER BY a.attname) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
	|| ' ' || CASE c.relkind WHEN 'r' THEN query_to_xml('SELECT * FROM ' || quote_ident(c.relname) || ' ORDER BY 1', true, true, '')::text ELSE '' END, E'\n' ORDER BY c.relname)
	FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'v')`

// Random migrations leave what plain PostgreSQL leaves that is told to commit where
// ddl.in_transactions promises it, and their clients are told the same; also where a tenth of
// the commits meet a conflict, and where an answer of COMMIT is late.
func TestParts(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		name, faults string
		env          harness.Env
		programs     int
	}{
		{"quiet", "", nil, 4 * *partsPrograms},
		{"conflicts", `[{"at": "commit", "action": "fail", "error": "conflict", "probability": 0.1, "seed": 1, "count": -1}]`, harness.Env{"DSQL_RETRY_BASE_DELAY": "1ms"}, 3 * *partsPrograms},
		{"kept backend", "", harness.Env{"DSQL_PAIRING": "session"}, 2 * *partsPrograms},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			r := startParts(t, "autocommit-destructive", way.env)
			if way.faults != "" {
				r.sim.Admin(t, http.MethodPost, "/faults", way.faults)
			}
			early := 0
			for seed := range way.programs {
				const fresh = "DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE TABLE log (n int)"
				r.pg.SQL(t, "postgres", fresh)
				r.pg.SQL(t, "reference", fresh)
				program := partsProgram(rand.New(rand.NewPCG(uint64(seed), 1)))
				c, notices := r.dial(t, r.sluice.DSN("postgres"))
				plain, _ := r.dial(t, r.pg.DSN("reference"))
				ref := &reference{c: plain}
				for i, q := range program {
					want := ref.ask(ctx, q)
					if got := answers(ctx, c, q.sql(), q.extended); !slices.Equal(got, want) {
						t.Fatalf("seed %d: %s\nSluice:     %q\nPostgreSQL: %q\nbehind %v", seed, q.sql(), got, want, program[:i])
					}
				}
				if got, want := r.pg.SQL(t, "postgres", contents), r.pg.SQL(t, "reference", contents); got != want {
					t.Fatalf("seed %d: %v leaves\n%s\nPostgreSQL:\n%s", seed, program, got, want)
				}
				for _, n := range *notices {
					if strings.Contains(n, "a part of the transaction is committed") {
						early++
					}
				}
				c.Close(ctx)
				plain.Close(ctx)
			}
			text, err := r.sluice.Metrics(ctx)
			if err != nil {
				t.Fatal(err)
			}
			counted, _ := harness.Metric(t, text, "dsql_early_commits_total", "")
			t.Logf("%d programs, %.0f parts committed early, %d warnings", way.programs, counted, early)
			if early < way.programs/2 || int(counted) != early {
				t.Errorf("%d warnings, %.0f counted", early, counted)
			}
		})
	}
}

// scripts are what one client sends, under a policy, and what it is told: tags, codes, and
// notices by their first words.
var scripts = []struct {
	name, policy string
	env          harness.Env
	faults       string
	simple       bool // by simple Query only
	steps        [][2]string
}{
	{name: "modes behind BEGIN", policy: "refuse", simple: true, steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY", "SET T"}, {"SELECT 1", "SELECT 1 T"}, {"INSERT INTO kept VALUES (9)", "25006 E"}, {"ROLLBACK", "ROLLBACK I"},
		{"START TRANSACTION", "START TRANSACTION T"}, {"SET TRANSACTION READ ONLY", "SET T"}, {"SET TRANSACTION READ WRITE", "SET T"}, {"INSERT INTO kept VALUES (9)", "INSERT 0 1 T"}, {"COMMIT", "COMMIT I"},
		{"BEGIN READ ONLY", "BEGIN T"}, {"SET TRANSACTION READ WRITE", "0A000 E"}, {"ROLLBACK", "ROLLBACK I"},
		{"BEGIN", "BEGIN T"}, {"SELECT 1", "SELECT 1 T"}, {"SET TRANSACTION READ ONLY", "0A000 E"}, {"ROLLBACK", "ROLLBACK I"},
		{"BEGIN", "BEGIN T"}, {"SET TRANSACTION READ ONLY", "SET T"}, {"ROLLBACK", "ROLLBACK I"}, {"BEGIN", "BEGIN T"}, {"INSERT INTO kept VALUES (9)", "INSERT 0 1 T"}, {"ROLLBACK", "ROLLBACK I"},
	}},
	{name: "one statement of DDL is run as it is asked", policy: "autocommit", steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"SELECT 1", "SELECT 1 T"}, {"CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE T"}, {"ROLLBACK", "ROLLBACK I"},
		{"SELECT count(*) FROM a", "42P01 I"},
		{"BEGIN", "BEGIN T"}, {"DROP TABLE kept", "DROP TABLE T"}, {"COMMIT", "COMMIT I"}, {"SELECT count(*) FROM kept", "42P01 I"},
	}},
	{name: "refused, with the tools' switches", policy: "refuse", steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"CREATE TABLE a (id int)", "CREATE TABLE T"}, {"CREATE TABLE b (id int)", "0A000 E Run each statement of DDL in a transaction of its own: Rails disable_ddl_transaction!"},
		{"ROLLBACK", "ROLLBACK I"}, {"CREATE TABLE a (id int); INSERT INTO a VALUES (1)", "CREATE TABLE 0A000 I Run each statement of DDL"}, {"SELECT count(*) FROM a", "42P01 I"},
	}},
	{name: "what a rollback leaves", policy: "autocommit", steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE T"},
		{"INSERT INTO a VALUES (1)", "INSERT 0 1 T WARNING|01000|a part of the transaction is committed, since DSQL takes one statement of DDL in a transaction|Committed: CREATE TABLE a (id int PRIMARY KEY)."},
		{"SELECT count(*) FROM a", "SELECT 1 T"},
		{"ALTER TABLE a ADD COLUMN v int", "ALTER TABLE T WARNING|01000|a part of the transaction is committed, since DSQL takes one statement of DDL in a transaction|Committed: INSERT INTO a VALUES (1)."},
		{"ROLLBACK", "ROLLBACK I WARNING|01000|what was committed before stays (ddl.in_transactions)|Committed: CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (1)."},
		{"SELECT v FROM a", "42703 I"}, {"SELECT id FROM a", "SELECT 1 I"},
	}},
	{name: "what a failed block leaves", policy: "autocommit", steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE T"}, {"INSERT INTO a VALUES (1)", "INSERT 0 1 T WARNING|01000|a part"},
		{"INSERT INTO a VALUES (1)", "23505 E"}, {"CREATE TABLE b (id int)", "25P02 E"},
		{"COMMIT", "ROLLBACK I WARNING|01000|what was committed before stays (ddl.in_transactions)|Committed: CREATE TABLE a (id int PRIMARY KEY)."},
		{"BEGIN", "BEGIN T"}, {"ROLLBACK", "ROLLBACK I"}, {"SELECT count(*) FROM a", "SELECT 1 I"},
	}},
	{name: "a DROP is not committed early", policy: "autocommit", steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"DROP TABLE kept", "DROP TABLE T"}, {"CREATE TABLE kept (id int)", "0A000 E Send the DROP as the last statement"}, {"ROLLBACK", "ROLLBACK I"},
		{"DROP TABLE kept; CREATE TABLE kept (id int)", "0A000 I Send the DROP as the last"},
		{"BEGIN", "BEGIN T"}, {"ALTER TABLE kept DROP COLUMN n", "ALTER TABLE T"}, {"INSERT INTO kept VALUES (1)", "0A000 E Send the DROP"}, {"ROLLBACK", "ROLLBACK I"},
		{"SELECT n FROM kept", "SELECT 1 I"},
		{"CREATE TABLE b (id int); DROP TABLE kept", "CREATE TABLE DROP TABLE I WARNING|01000|a part"}, {"SELECT n FROM kept", "42P01 I"},
	}},
	{name: "unless it is opted into", policy: "autocommit-destructive", steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"DROP TABLE kept", "DROP TABLE T"}, {"CREATE TABLE kept (m int)", "CREATE TABLE T WARNING|01000|a part"}, {"COMMIT", "COMMIT I"}, {"SELECT m FROM kept", "SELECT 0 I"},
	}},
	{name: "a string stops at its error", policy: "autocommit", steps: [][2]string{
		{"CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (1); INSERT INTO a VALUES (1); CREATE TABLE b (id int)",
			"CREATE TABLE INSERT 0 1 23505 I WARNING|01000|a part WARNING|01000|what was committed before stays (ddl.in_transactions)|Committed: CREATE TABLE a (id int PRIMARY KEY)."},
		{"SELECT 1 FROM a", "SELECT 0 I"}, {"SELECT 1 FROM b", "42P01 I"},
		{"CREATE TABLE b (id int); INSERT INTO b VALUES (1), (2) RETURNING idd", "CREATE TABLE 42703 at 66 I WARNING|01000|a part WARNING|01000|what was"},
		{"BEGIN; CREATE TABLE c (id int); CREATE TABLE d (id int); COMMIT", "BEGIN CREATE TABLE CREATE TABLE COMMIT I WARNING|01000|a part"},
		{"BEGIN; CREATE TABLE e (id int); CREATE TABLE c (id int); COMMIT", "BEGIN CREATE TABLE 42P07 E WARNING|01000|a part"},
		{"ROLLBACK", "ROLLBACK I WARNING|01000|what was committed before stays (ddl.in_transactions)|Committed: CREATE TABLE e (id int)."},
		{"CREATE TABLE f (id int); CREATE TRIGGER x BEFORE INSERT ON f EXECUTE FUNCTION y()", "CREATE TABLE 0A000 I"}, {"SELECT 1 FROM f", "42P01 I"},
	}},
	{name: "SET LOCAL", policy: "autocommit", steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"SET LOCAL statement_timeout = '5s'", "SET T"}, {"CREATE TABLE a (id int)", "CREATE TABLE T"}, {"CREATE TABLE b (id int)", "0A000 E Write SET without LOCAL."}, {"ROLLBACK", "ROLLBACK I"},
		{"BEGIN", "BEGIN T"}, {"SET timezone = 'Asia/Tokyo'", "SET T"}, {"CREATE TABLE a (id int)", "CREATE TABLE T"}, {"CREATE TABLE b (id int)", "CREATE TABLE T WARNING|01000|a part"},
		{"SELECT to_char(to_timestamp(0), 'HH24')::int / (to_char(to_timestamp(0), 'HH24')::int - 9)", "22012 E"}, {"ROLLBACK", "ROLLBACK I WARNING|01000|what was"},
	}},
	{name: "savepoints", policy: "autocommit", steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE T"}, {"SAVEPOINT one", "SAVEPOINT T"}, {"SAVEPOINT two", "SAVEPOINT T"},
		{"INSERT INTO a VALUES (1)", "INSERT 0 1 T WARNING|01000|a part"}, {"RELEASE SAVEPOINT two", "RELEASE T"}, {"RELEASE SAVEPOINT two", "3B001 E"}, {"ROLLBACK", "ROLLBACK I WARNING|01000|what was"},
		{"BEGIN", "BEGIN T"}, {"INSERT INTO a VALUES (2)", "INSERT 0 1 T"}, {"SAVEPOINT one", "SAVEPOINT T"}, {"CREATE TABLE b (id int)", "CREATE TABLE T WARNING|01000|a part"},
		{"ROLLBACK TO SAVEPOINT one", "0A000 E Roll the whole transaction back."}, {"ROLLBACK", "ROLLBACK I WARNING|01000|what was"}, {"SELECT 1 FROM b", "42P01 I"},
		{"BEGIN", "BEGIN T"}, {"SAVEPOINT s", "SAVEPOINT T"}, {"CREATE TABLE c (id int)", "CREATE TABLE T"}, {"ROLLBACK TO s", "ROLLBACK T"}, {"INSERT INTO a VALUES (3)", "INSERT 0 1 T"}, {"COMMIT", "COMMIT I"},
		{"SELECT 1 FROM c", "42P01 I"}, {"SELECT 1 FROM a", "SELECT 2 I"},
	}},
	{name: "a conflict behind a part", policy: "autocommit", env: harness.Env{"DSQL_RETRY_ENABLED": "false", "DSQL_RETRY_SAVEPOINTS": "off"},
		faults: `[{"at": "commit", "action": "fail", "error": "conflict", "skip": 1, "count": 2}]`, steps: [][2]string{
			{"BEGIN", "BEGIN T"}, {"INSERT INTO kept VALUES (5)", "INSERT 0 1 T"}, {"CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE T WARNING|01000|a part"},
			{"INSERT INTO kept VALUES (6)", "25000 E Do not send the whole transaction again: go on behind what is committed."}, {"ROLLBACK", "ROLLBACK I WARNING|01000|what was"},
			{"SELECT 1 FROM kept WHERE n > 4", "SELECT 1 I"},
			{"BEGIN", "BEGIN T"}, {"INSERT INTO kept VALUES (7)", "INSERT 0 1 T"}, {"CREATE TABLE a (id int PRIMARY KEY)", "40001 E"}, {"ROLLBACK", "ROLLBACK I"},
			{"SELECT 1 FROM kept WHERE n > 4", "SELECT 1 I"},
		}},
	{name: "the backend is lost in an early COMMIT", policy: "autocommit",
		faults: `[{"at": "committed", "action": "cut"}]`, steps: [][2]string{
			{"BEGIN", "BEGIN T"}, {"INSERT INTO kept VALUES (5)", "INSERT 0 1 T"}, {"CREATE TABLE a (id int PRIMARY KEY)", "08007 E"}, {"ROLLBACK", "ROLLBACK I"},
			{"SELECT 1 FROM kept WHERE n > 4", "SELECT 1 I"},
		}},
	{name: "of several steps", policy: "autocommit", simple: true, env: harness.Env{"DSQL_DDL_ADD_COLUMN_DEFAULT": "backfill"}, steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"INSERT INTO kept VALUES (5)", "INSERT 0 1 T"}, {"ALTER TABLE kept ADD COLUMN d int DEFAULT 4", "ALTER TABLE T WARNING|01000|a part"},
		{"INSERT INTO kept VALUES (6)", "INSERT 0 1 T"}, {"CREATE UNIQUE INDEX of_n ON kept (n)", "CREATE INDEX T WARNING|01000|a part"}, {"ROLLBACK", "ROLLBACK I WARNING|01000|what was"},
		{"INSERT INTO kept VALUES (6)", "23505 I"}, {"SELECT 1 FROM kept WHERE d = 4 AND n > 1", "SELECT 2 I"},
		{"BEGIN", "BEGIN T"}, {"INSERT INTO kept VALUES (8)", "INSERT 0 1 T"}, {"CREATE UNIQUE INDEX of_d ON kept (d)", "58000 E Drop the index WARNING|01000|a part"}, {"COMMIT", "ROLLBACK I WARNING|01000|what was"},
		{"SELECT 1 FROM kept WHERE n = 8", "SELECT 1 I"},
	}},
	{name: "modes that a BEGIN of Sluice's would lose", policy: "autocommit", steps: [][2]string{
		{"BEGIN READ ONLY", "BEGIN T"}, {"SELECT 1", "SELECT 1 T"}, {"CREATE TABLE a (id int)", "25006 E"}, {"ROLLBACK", "ROLLBACK I"},
		{"START TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION T"}, {"CREATE TABLE a (id int)", "CREATE TABLE T"}, {"CREATE TABLE b (id int)", "CREATE TABLE T WARNING|01000|a part"}, {"COMMIT", "COMMIT I"},
	}},
}

// Each policy does what it says, and the client is told all of it.
func TestPartsTold(t *testing.T) {
	t.Parallel()
	for _, script := range scripts {
		for _, extended := range []bool{false, true} {
			if extended && script.simple {
				continue
			}
			t.Run(fmt.Sprintf("%s, extended %v", script.name, extended), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				r := startParts(t, script.policy, script.env)
				r.pg.SQL(t, "postgres", "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)")
				if script.faults != "" {
					r.sim.Admin(t, http.MethodPost, "/faults", script.faults)
				}
				c, notices := r.dial(t, r.sluice.DSN("postgres"))
				for _, step := range script.steps {
					*notices = nil
					one := extended && !strings.Contains(step[0], ";")
					if got := toldOf(ctx, c, step[0], one, notices); !alike(got, step[1]) {
						t.Errorf("%s\n got %s\nwant %s", step[0], got, step[1])
					}
				}
			})
		}
	}
}

// alike compares an answer with what is wanted; each notice, and a hint, may be wanted by its
// beginning, or a hint not at all.
func alike(got, want string) bool {
	gots, wants := strings.Split(got, " WARNING|"), strings.Split(want, " WARNING|")
	if len(gots) != len(wants) || !strings.HasPrefix(gots[0]+" ", wants[0]+" ") && !(strings.Contains(wants[0], "000 ") && strings.HasPrefix(gots[0], wants[0])) {
		return false
	}
	for i := 1; i < len(wants); i++ {
		if !strings.HasPrefix(gots[i], wants[i]) {
			return false
		}
	}
	return true
}

// toldOf is all that one request was told, in one line.
func toldOf(ctx context.Context, c *pgconn.PgConn, sql string, extended bool, notices *[]string) string {
	var words []string
	var err error
	if extended {
		r := c.ExecParams(ctx, sql, nil, nil, nil, nil).Read()
		if err = r.Err; err == nil {
			words = append(words, r.CommandTag.String())
		}
	} else {
		var all []*pgconn.Result
		all, err = c.Exec(ctx, sql).ReadAll()
		for _, r := range all {
			if r.Err == nil {
				words = append(words, r.CommandTag.String())
			}
		}
	}
	hint := ""
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		if words, hint = append(words, e.Code), e.Hint; e.Position > 0 && e.Code == "42703" && strings.Contains(sql, ";") {
			words = append(words, fmt.Sprintf("at %d", e.Position))
		}
	} else if err != nil {
		words = append(words, err.Error())
	}
	words = append(words, string(c.TxStatus()))
	if hint != "" {
		words = append(words, hint)
	}
	return strings.Join(append(words, *notices...), " ")
}
