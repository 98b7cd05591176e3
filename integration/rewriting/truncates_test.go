package rewriting

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// truncated are tables that refer to each other in every way.
const truncated = `DROP TABLE IF EXISTS alone, parent, child, cascaded, grown, own, left_, right_, other.alone, "Odd ""name", "sluice truncate" CASCADE; DROP SCHEMA IF EXISTS other CASCADE; CREATE SCHEMA other;
	CREATE TABLE alone (id int PRIMARY KEY, v text); CREATE TABLE other.alone (id int PRIMARY KEY); CREATE TABLE "Odd ""name" (id int); CREATE TABLE "sluice truncate" (id int);
	CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES parent ON DELETE RESTRICT); CREATE TABLE cascaded (id int PRIMARY KEY, p int REFERENCES parent ON DELETE CASCADE);
	CREATE TABLE grown (id int PRIMARY KEY, c int REFERENCES child ON DELETE SET NULL); CREATE TABLE own (id int PRIMARY KEY, up int REFERENCES own);
	CREATE TABLE left_ (id int PRIMARY KEY, r int); CREATE TABLE right_ (id int PRIMARY KEY, l int REFERENCES left_ DEFERRABLE INITIALLY DEFERRED); ALTER TABLE left_ ADD FOREIGN KEY (r) REFERENCES right_;
	DROP SEQUENCE IF EXISTS numbers; CREATE SEQUENCE numbers; CREATE VIEW seen AS SELECT id FROM alone; CREATE VIEW counted AS SELECT count(*) FROM alone`

// refilled puts rows into them.
const refilled = `INSERT INTO alone SELECT i, 'x' FROM generate_series(1, 3) i ON CONFLICT DO NOTHING; INSERT INTO other.alone VALUES (1) ON CONFLICT DO NOTHING; INSERT INTO "Odd ""name" VALUES (1); INSERT INTO "sluice truncate" VALUES (1);
	INSERT INTO parent SELECT i FROM generate_series(1, 3) i ON CONFLICT DO NOTHING; INSERT INTO child VALUES (1, 1), (2, NULL), (3, 3) ON CONFLICT DO NOTHING; INSERT INTO cascaded VALUES (1, 1), (2, 2) ON CONFLICT DO NOTHING;
	INSERT INTO grown VALUES (1, 1), (2, 3) ON CONFLICT DO NOTHING; INSERT INTO own VALUES (1, NULL), (2, 1), (3, 2) ON CONFLICT DO NOTHING; INSERT INTO left_ VALUES (1, NULL) ON CONFLICT DO NOTHING; INSERT INTO right_ VALUES (1, 1) ON CONFLICT DO NOTHING; UPDATE left_ SET r = 1`

// leftOver are the rows that are there.
const leftOver = `SELECT format('alone %s other %s odd %s parent %s child %s cascaded %s grown %s own %s left %s right %s', (SELECT count(*) FROM alone), (SELECT count(*) FROM other.alone), (SELECT count(*) FROM "Odd ""name"),
	(SELECT count(*) FROM parent), (SELECT count(*) FROM child), (SELECT count(*) FROM cascaded), (SELECT string_agg(coalesce(c, 0)::text, ',') FROM grown), (SELECT count(*) FROM own), (SELECT count(*) FROM left_), (SELECT count(*) FROM right_))`

// truncations are random statements.
func truncations(random *rand.Rand) string {
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	tables := []string{"alone", "public.alone", "other.alone", `"Odd ""name"`, "parent", "child", "cascaded", "grown", "own", "left_", "right_"}
	sets := [][]string{{"parent", "child", "cascaded", "grown"}, {"child", "grown"}, {"left_", "right_"}, {"own", "alone", "own"}, {"right_", "left_", "parent", "grown", "cascaded", "child"}}
	var names []string
	switch random.IntN(6) {
	case 0, 1:
		names = slices.Clone(sets[random.IntN(len(sets))])
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	case 2:
		names = []string{pick("seen", "counted", "numbers", "nothing", "nowhere.alone", "pg_class", "alone_pkey")}
		if random.IntN(3) == 0 {
			names = append(names, "alone")
		}
	default:
		for range 1 + random.IntN(2) {
			names = append(names, pick(tables...))
		}
	}
	for i := range names {
		names[i] = pick("", "", "", "ONLY ") + names[i] + pick("", "", "", " *")
		if strings.HasPrefix(names[i], "ONLY") {
			names[i] = strings.TrimSuffix(names[i], " *")
		}
	}
	return pick("TRUNCATE ", "TRUNCATE TABLE ", "truncate /* a */ table ") + strings.Join(names, pick(", ", ",", " , -- b\n ")) +
		pick("", "", " RESTART IDENTITY", " CONTINUE IDENTITY") + pick("", "", "", " RESTRICT", " CASCADE")
}

// Random statements do to the rows, and answer, what TRUNCATE does in PostgreSQL: in blocks and
// strings, prepared or not. CASCADE that would truncate more is refused.
func TestTruncatesAsInPostgreSQL(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, _, sluice := plainAndSluice(t, harness.Env{"DSQL_REWRITE_TRUNCATE": "delete"})
	for _, database := range []string{"postgres", "plain"} {
		pg.SQL(t, database, truncated)
	}
	seed := uint64(time.Now().UnixNano())
	t.Log("seed ", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	told, cascades := map[string]int{}, 0
	for n, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement} {
		var conns [2]*pgx.Conn
		for i, dsn := range []string{sluice.DSN("postgres"), pg.DSN("plain")} {
			config, err := pgx.ParseConfig(dsn)
			if err != nil {
				t.Fatal(err)
			}
			config.DefaultQueryExecMode = mode
			if conns[i], err = pgx.ConnectConfig(ctx, config); err != nil {
				t.Fatal(err)
			}
			defer conns[i].Close(ctx)
		}
		var program []string
		run := func(sql string) (same bool) {
			program = append(program, sql)
			var tags, errs [2]string
			for i, conn := range conns {
				tag, err := conn.Exec(ctx, sql)
				tags[i], errs[i] = tag.String(), whole(err)
			}
			told[strings.Join(strings.SplitN(errs[0]+"||", "|", 4)[1:2], "")]++
			if strings.Contains(errs[0], "TRUNCATE ... CASCADE is not supported") && strings.Contains(sql, "CASCADE") {
				cascades++
				return false
			}
			if tags[0] != tags[1] || errs[0] != errs[1] {
				t.Errorf("%s:\n got %s %s\nwant %s %s\n%s", mode, tags[0], errs[0], tags[1], errs[1], strings.Join(program, ";\n"))
			}
			return true
		}
		for range 60 {
			program = nil
			for _, database := range []string{"postgres", "plain"} {
				pg.SQL(t, database, refilled)
			}
			same := true
			switch random.IntN(5) {
			case 0:
				for _, sql := range []string{"BEGIN", truncations(random), "INSERT INTO alone VALUES (77)", truncations(random), []string{"COMMIT", "ROLLBACK"}[random.IntN(2)]} {
					if same = run(sql) && same; !same {
						for _, conn := range conns {
							_, _ = conn.Exec(ctx, "ROLLBACK")
						}
						break
					}
				}
			case 1:
				if n > 0 { // a pipeline
					sql := truncations(random)
					var errs [2]string
					for i, conn := range conns {
						batch := &pgx.Batch{}
						first := "INSERT INTO alone VALUES (78)"
						if mode == pgx.QueryExecModeCacheStatement {
							// All are prepared before any runs, and what stands for a TRUNCATE of a table that is not
							// there fails then already: the error of the INSERT would come first in PostgreSQL alone.
							first += " ON CONFLICT DO NOTHING"
						}
						for _, text := range []string{first, sql, "INSERT INTO alone VALUES (79)"} {
							batch.Queue(text)
						}
						errs[i] = whole(conn.SendBatch(ctx, batch).Close())
					}
					if same = !strings.Contains(errs[0], "CASCADE is not supported"); same && errs[0] != errs[1] {
						t.Errorf("%s, a pipeline of %s:\n got %s\nwant %s", mode, sql, errs[0], errs[1])
					}
					break
				}
				same = run("INSERT INTO alone VALUES (78); " + truncations(random) + "; INSERT INTO alone VALUES (79)")
			case 2:
				same = run("BEGIN READ ONLY") && run("TRUNCATE alone") && run("ROLLBACK")
			default:
				same = run(truncations(random))
			}
			if got, want := pg.SQL(t, "postgres", leftOver), pg.SQL(t, "plain", leftOver); same && got != want {
				t.Fatalf("%s:\n got %s\nwant %s\n%s", mode, got, want, strings.Join(program, ";\n"))
			}
			if !same { // what PostgreSQL has truncated by CASCADE is there here
				for _, database := range []string{"postgres", "plain"} {
					pg.SQL(t, database, `TRUNCATE alone, other.alone, "Odd ""name", parent, child, cascaded, grown, own, left_, right_`)
				}
			}
		}
	}
	if t.Log(told, cascades); told[""] < 50 || len(told) < 6 || cascades == 0 {
		t.Errorf("told %v, %d by CASCADE", told, cascades)
	}
}

// More rows than a transaction may change are deleted in batches where that is asked for, tables
// that refer to others first, and said by a warning.
func TestTruncateInBatches(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, sim, sluice := plainAndSluice(t, harness.Env{"DSQL_REWRITE_TRUNCATE": "batches"})
	once := harness.StartSluice(t, harness.SluiceConfig{Bin: harness.Binaries(t), Env: sim.Env().With(harness.Env{"DSQL_REWRITE_TRUNCATE": "delete", "DSQL_RESERVOIR_MAX_OPEN": "5"})})
	pg.SQL(t, "postgres", truncated)
	fill := func() {
		pg.SQL(t, "postgres", `INSERT INTO alone SELECT i, 'x' FROM generate_series(1, 7000) i ON CONFLICT DO NOTHING; INSERT INTO parent SELECT i FROM generate_series(1, 4000) i ON CONFLICT DO NOTHING;
			INSERT INTO child SELECT i, i FROM generate_series(1, 4000) i ON CONFLICT DO NOTHING; INSERT INTO cascaded SELECT i, i FROM generate_series(1, 10) i ON CONFLICT DO NOTHING; INSERT INTO grown VALUES (1, 1) ON CONFLICT DO NOTHING;
			INSERT INTO own SELECT i, nullif(i - 1, 0) FROM generate_series(1, 4000) i ON CONFLICT DO NOTHING; INSERT INTO "Odd ""name" SELECT generate_series(1, 4000)`)
	}
	fill()
	exec := func(mode pgx.QueryExecMode, of *harness.Sluice, sql string) (tag string, notice string, err error) {
		config, err := pgx.ParseConfig(of.DSN("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		config.DefaultQueryExecMode = mode
		config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { notice = told((*pgconn.PgError)(n)) }
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		got, err := conn.Exec(ctx, sql)
		return got.String(), notice, err
	}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement} {
		before := pg.SQL(t, "postgres", leftOver)
		for sql, words := range map[string]string{"TRUNCATE own": "in a circle", `TRUNCATE "Odd ""name"`: "no primary key", "TRUNCATE alone; SELECT 1": "alone outside of a transaction"} {
			if _, _, err := exec(pgx.QueryExecModeSimpleProtocol, sluice, sql); code(err) != "54000" || !strings.Contains(hintOf(err), words) {
				t.Errorf("%s: %v (%s)", sql, err, hintOf(err))
			}
		}
		if _, _, err := exec(mode, once, "TRUNCATE alone"); code(err) != "54000" || !strings.Contains(hintOf(err), "to batches") {
			t.Errorf("delete: %v (%s)", err, hintOf(err))
		}
		if _, _, err := exec(mode, sluice, "TRUNCATE parent"); code(err) != "0A000" {
			t.Errorf("parent: %v", err)
		}
		if got := pg.SQL(t, "postgres", leftOver); got != before {
			t.Errorf("%s, want %s", got, before)
		}
		for sql, want := range map[string]string{"TRUNCATE alone": "TRUNCATE was carried out in 3 transactions|7000 rows", "TRUNCATE TABLE parent, grown, cascaded, child": "TRUNCATE was carried out in 6 transactions|8011 rows"} {
			tag, notice, err := exec(mode, sluice, sql)
			if err != nil || tag != "TRUNCATE TABLE" || !strings.HasPrefix(notice, "WARNING|01000|"+want) {
				t.Errorf("%s, %s: %s %v, %s", mode, sql, tag, err, notice)
			}
		}
		if got := pg.SQL(t, "postgres", leftOver); !strings.HasPrefix(got, "alone 0 other 0 odd 4000 parent 0 child 0 cascaded 0 grown  own 4000") {
			t.Error(got)
		}
		fill()
		pg.SQL(t, "postgres", `DELETE FROM "Odd ""name" WHERE ctid NOT IN (SELECT ctid FROM "Odd ""name" LIMIT 4000)`)
	}
	// A block, and one more statement.
	conn := dialled(t, sluice, pgx.QueryExecModeSimpleProtocol)
	for _, step := range [][2]string{{"BEGIN", ""}, {"TRUNCATE alone", "54000"}, {"SELECT 1", "25P02"}, {"ROLLBACK", ""}} {
		if _, err := conn.Exec(ctx, step[0]); code(err) != step[1] {
			t.Errorf("%s: %v", step[0], err)
		}
	}
	// A lost backend in the middle.
	sim.Admin(t, http.MethodPost, "/faults", `[{"at": "running", "action": "cut", "contains": "LIMIT 2900", "skip": 1}]`)
	if _, err := conn.Exec(ctx, "TRUNCATE alone"); code(err) != "08007" || !strings.Contains(pgError(err).Detail, "2900 rows are deleted") || !strings.Contains(hintOf(err), "goes on from there") {
		t.Errorf("cut: %v %s (%s)", err, whole(err), hintOf(err))
	}
	sim.Admin(t, http.MethodDelete, "/faults", "")
	if _, err := conn.Exec(ctx, "TRUNCATE alone"); err != nil {
		t.Error(err)
	}
}

// A TRUNCATE in a transaction that meets a conflict is run again, also where another number of
// rows is there by then: the client was told of none.
func TestTruncateIsRunAgain(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, sim, sluice := plainAndSluice(t, harness.Env{"DSQL_REWRITE_TRUNCATE": "batches"})
	pg.SQL(t, "postgres", truncated+"; "+refilled)
	fresh := 200
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement} {
		for _, text := range []string{"TRUNCATE alone", "TRUNCATE child, grown"} {
			pg.SQL(t, "postgres", refilled)
			conn := dialled(t, sluice, mode)
			for _, sql := range []string{"BEGIN", text, "INSERT INTO alone VALUES (99)"} {
				tag, err := conn.Exec(ctx, sql)
				if err != nil || strings.HasPrefix(sql, "TRUNCATE") && tag.String() != "TRUNCATE TABLE" {
					t.Fatalf("%s, %s: %q %v", mode, sql, tag, err)
				}
			}
			fresh += 10 // what is there the transaction has locked on the stand-in
			pg.SQL(t, "postgres", fmt.Sprintf("INSERT INTO alone SELECT i, 'new' FROM generate_series(%d, %d) i; INSERT INTO child VALUES (%d, 1)", fresh, fresh+5, fresh))
			sim.Admin(t, http.MethodPost, "/faults", `[{"at": "commit", "action": "fail", "error": "conflict"}]`)
			if _, err := conn.Exec(ctx, "COMMIT"); err != nil {
				t.Errorf("%s, %s: %v", mode, text, err)
			}
			sim.Admin(t, http.MethodDelete, "/faults", "")
			query := map[string]string{"TRUNCATE alone": "SELECT string_agg(id::text, ',') FROM alone", "TRUNCATE child, grown": "SELECT (SELECT count(*) FROM child) + (SELECT count(*) FROM grown) + 99"}[text]
			if got := pg.SQL(t, "postgres", query); got != "99" {
				t.Errorf("%s, %s: %s", mode, text, got)
			}
			pg.SQL(t, "postgres", "DELETE FROM alone")
		}
	}
	text, err := sluice.Metrics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	again := 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "dsql_tx_retries_total{") {
			again++
		}
	}
	if again == 0 || strings.Contains(text, `dsql_tx_replay_refused_total{reason="differs"} 1`) {
		t.Errorf("nothing was run again, or with another answer:\n%s", text)
	}
}
