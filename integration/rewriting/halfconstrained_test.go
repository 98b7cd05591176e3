package rewriting

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// until waits for a condition, which a query of the catalog reports by "t".
func until(t *testing.T, pg *pgtest.Server, query string) {
	t.Helper()
	for begun := time.Now(); pg.SQL(t, "postgres", query) != "t"; time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > limit/2 {
			t.Fatal("in vain: ", query)
		}
	}
}

// refusedStep is in a statement as its client has sent it.
const refusedStep = "ADD CONSTRAINT positive"

// A statement whose backend is lost in any of its steps, before or behind it, is told so with
// what may stand, and goes on when it is sent again: what stands then is PostgreSQL's.
func TestConstraintsWhoseBackendIsLost(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, sim, sluice := plainAndSluice(t, nil)
	conn := dialled(t, sluice, pgx.QueryExecModeSimpleProtocol)
	ways := map[string]int{}
	for _, test := range []struct {
		sql   string
		steps []string
	}{
		{"ALTER TABLE child ADD UNIQUE (pid, a)", []string{"ON child (", "FROM sys.jobs", "i.indisvalid FROM", "USING INDEX"}},
		{"ALTER TABLE child ADD CONSTRAINT named UNIQUE (pid) DEFERRABLE", []string{"ON child (", "USING INDEX"}},
		{"ALTER TABLE child ADD FOREIGN KEY (pid) REFERENCES public.parent ON DELETE CASCADE", []string{"NOT VALID", "VALIDATE CONSTRAINT", "FROM sys.jobs"}},
		{"ALTER TABLE child ADD CONSTRAINT positive CHECK (a > 0 AND pk <> 'x')", []string{refusedStep, "NOT VALID", "VALIDATE CONSTRAINT"}},
		{"ALTER TABLE child ADD CHECK (a > 0), ADD UNIQUE (a)", []string{"ON child (", "USING INDEX", "NOT VALID", "VALIDATE CONSTRAINT"}},
		{"ALTER TABLE child ADD g int, ADD CONSTRAINT late CHECK (g > 0)", []string{"ADD COLUMN", "NOT VALID"}},
	} {
		pg.SQL(t, "plain", constrained)
		pg.SQL(t, "plain", test.sql)
		want := pg.SQL(t, "plain", standing)
		for _, step := range test.steps {
			for _, at := range []string{"statement", "running", "answered"} {
				pg.SQL(t, "postgres", constrained)
				before := pg.SQL(t, "postgres", standing)
				sim.Admin(t, http.MethodPost, "/faults", fmt.Sprintf(`[{"at": "%s", "action": "cut", "contains": "%s"}]`, at, step))
				_, err := conn.Exec(ctx, test.sql)
				sim.Admin(t, http.MethodDelete, "/faults", "")
				e, ok := errors.AsType[*pgconn.PgError](err)
				if step == refusedStep && at != "statement" && err == nil { // the stand-in refuses it, and runs nothing
					continue
				}
				if !ok || e.Code != "08007" {
					t.Errorf("%s, %s %s: %v", test.sql, at, step, err)
					continue
				}
				if at == "running" { // it is on its way
					time.Sleep(200 * time.Millisecond)
				}
				until(t, pg, "SELECT count(*) = 0 FROM pg_stat_activity WHERE state <> 'idle' AND pid <> pg_backend_pid() AND backend_type = 'client backend'") // it runs to its end
				until(t, pg, "SELECT count(*) = 0 FROM sys.jobs WHERE status = 'submitted'")
				recover := func() string {
					after := pg.SQL(t, "postgres", standing)
					if after != before && !strings.Contains(e.Detail, "may stand: ") {
						return "untold"
					}
					_, undo, several := strings.Cut(e.Hint, "Take it back, and send the statement again: ")
					switch {
					case several:
						for sql := range strings.SplitSeq(strings.TrimSuffix(undo, "."), "; ") {
							if _, err := conn.Exec(ctx, sql); err != nil && code(err) != "42704" && code(err) != "42703" {
								return sql + ": " + err.Error()
							}
						}
					case after == want: // it was done, and the client has looked
						return "done"
					case after != before && !strings.Contains(e.Hint, "send the statement again"):
						return "no hint"
					}
					if _, err := conn.Exec(ctx, test.sql); err != nil {
						return err.Error() + whole(err)
					}
					return map[bool]string{true: "from the start", false: "goes on"}[after == before]
				}
				how := recover()
				ways[how]++
				if how != "done" && how != "goes on" && how != "from the start" {
					t.Errorf("%s, %s %s, once more: %s (%s)", test.sql, at, step, how, e.Hint)
				}
				if got := pg.SQL(t, "postgres", standing); got != want {
					t.Errorf("%s, %s %s:\n%s", test.sql, at, step, differing(got, want))
				}
			}
		}
	}
	t.Log(ways)
	if ways["goes on"] == 0 || ways["from the start"] == 0 {
		t.Error("not all ways are there")
	}
}

// A statement that is cancelled, or whose time is over, while a job runs leaves nothing.
func TestConstraintsCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg := pgtest.Start(t, pgtest.MaxConnections(100))
	bin := harness.Binaries(t)
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg, Args: []string{"--job-delay", "1h"}})
	sluice := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env().With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "5", "DSQL_CANCEL_GRACE": "100ms"})})
	pg.SQL(t, "postgres", constrained)
	before := pg.SQL(t, "postgres", standing)
	for _, test := range []struct{ sql, begun string }{
		{"ALTER TABLE child ADD UNIQUE (pid)", "SELECT count(*) = 1 FROM pg_class WHERE relname = 'child_pid_sluice_key'"},
		{"ALTER TABLE child ADD g int, ADD FOREIGN KEY (g) REFERENCES parent", "SELECT count(*) = 1 FROM pg_constraint WHERE conname = 'child_g_sluice_fkey'"},
		{"ALTER TABLE child ADD CHECK (a > 0)", "SELECT count(*) = 1 FROM pg_constraint WHERE conname = 'child_a_sluice_check'"},
	} {
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeCacheStatement} {
			conn := dialled(t, sluice, mode)
			for _, way := range []string{"cancel", "timeout", "leave"} {
				if way == "timeout" {
					if _, err := conn.Exec(ctx, "SET statement_timeout = '1s'"); err != nil {
						t.Fatal(err)
					}
				}
				done := make(chan error, 1)
				go func() { _, err := conn.Exec(ctx, test.sql); done <- err }()
				until(t, pg, test.begun)
				time.Sleep(50 * time.Millisecond)
				switch way {
				case "cancel":
					conn.PgConn().CancelRequest(ctx)
				case "leave":
					conn.PgConn().Conn().Close()
				}
				if err := <-done; way != "leave" && (code(err) != "57014" || detailOf(err) != "") {
					t.Errorf("%s, %s: %v %s", test.sql, way, err, detailOf(err))
				}
				if way == "leave" {
					until(t, pg, strings.Replace(test.begun, "= 1", "= 0", 1))
				}
				if got := pg.SQL(t, "postgres", standing); got != before && way != "leave" {
					t.Fatalf("%s, %s:\n%s", test.sql, way, differing(got, before))
				}
				if way != "leave" {
					if _, err := conn.Exec(ctx, "SELECT 1"); err != nil {
						t.Errorf("%s, %s: behind it %v", test.sql, way, err)
					}
				}
			}
			until(t, pg, "SELECT count(*) = 0 FROM pg_attribute WHERE attname = 'g' AND attrelid = 'child'::regclass")
		}
	}
}

// detailOf is the DETAIL of an error.
func detailOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Detail
	}
	return ""
}

// What cannot be taken back is told, with the statement that does so; a column that holds
// values by then stays.
func TestConstraintsThatStand(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, sim, sluice := plainAndSluice(t, nil)
	pg.SQL(t, "postgres", constrained)
	conn := dialled(t, sluice, pgx.QueryExecModeSimpleProtocol)
	sim.Admin(t, http.MethodPost, "/faults", `[{"at": "statement", "action": "fail", "error": "conflict", "contains": "DROP ", "count": -1}]`)
	for sql, want := range map[string]string{
		"ALTER TABLE child ADD UNIQUE (twice)":                  `23505|Key (twice)=(7) is duplicated. Of what the statement adds there stands: index "child_twice_sluice_key".|If it is not valid yet (pg_constraint, pg_index), send the statement again: it goes on from there. Or give it up: DROP INDEX "public"."child_twice_sluice_key".`,
		"ALTER TABLE child ADD CONSTRAINT c CHECK (bad < 5)":    `23514|Of what the statement adds there stands: constraint "c_sluice_check", not validated.|If it is not valid yet (pg_constraint, pg_index), send the statement again: it goes on from there. Or give it up: ALTER TABLE child DROP CONSTRAINT "c_sluice_check".`,
		"ALTER TABLE child ADD g int, ADD CHECK (bad + id < 9)": `23514|Of what the statement adds there stands: constraint "child_sluice_check", not validated; column "g".|Take it back, and send the statement again: ALTER TABLE child DROP CONSTRAINT "child_sluice_check"; ALTER TABLE child DROP COLUMN "g".`,
	} {
		_, err := conn.Exec(ctx, sql)
		if got := code(err) + "|" + detailOf(err) + "|" + hintOf(err); got != want {
			t.Errorf("%s:\n got %s\nwant %s", sql, got, want)
		}
	}
	sim.Admin(t, http.MethodDelete, "/faults", "")
	// Sent again it fails as before. What an earlier one has left, or somebody else, is not dropped.
	_, err := conn.Exec(ctx, "ALTER TABLE child ADD CONSTRAINT c CHECK (bad < 5)")
	if code(err) != "23514" || !strings.Contains(detailOf(err), `constraint "c_sluice_check", not validated`) {
		t.Errorf("%v %s", err, detailOf(err))
	}
	// An index that has failed is made anew, and dropped.
	if _, err := conn.Exec(ctx, "ALTER TABLE child ADD UNIQUE (twice)"); code(err) != "23505" || detailOf(err) != "Key (twice)=(7) is duplicated." {
		t.Errorf("%v %s", err, detailOf(err))
	}
	if n := pg.SQL(t, "postgres", "SELECT count(*) FROM pg_class WHERE relname LIKE 'child_twice%'"); n != "0" {
		t.Errorf("%s indexes", n)
	}
	pg.SQL(t, "postgres", "UPDATE child SET bad = 3; ALTER TABLE child DROP COLUMN g CASCADE")
	if _, err := conn.Exec(ctx, "ALTER TABLE child ADD CONSTRAINT c CHECK (bad < 5)"); err != nil {
		t.Error(err)
	}
	for sql, want := range map[string]string{
		"ALTER TABLE child ADD CONSTRAINT c CHECK (bad < 5)":                        "42710", // it is valid
		"ALTER TABLE child ADD CONSTRAINT other CHECK (bad < 6)":                    "42710",
		"ALTER TABLE child ADD CONSTRAINT elsewhere CHECK (bad < 6)":                "", // of another table
		"ALTER TABLE child ADD CONSTRAINT fk FOREIGN KEY (a) REFERENCES parent":     "42710",
		"ALTER TABLE child ADD CONSTRAINT partial UNIQUE (a)":                       "42P07",
		"ALTER TABLE child ADD CONSTRAINT columns UNIQUE (b, a)":                    "42P07",
		"ALTER TABLE child ADD CONSTRAINT parent UNIQUE (a)":                        "42P07",
		"ALTER TABLE child ADD CONSTRAINT foreign_index UNIQUE (a)":                 "42P07",
		"ALTER TABLE child ADD CONSTRAINT whole UNIQUE (a, id)":                     "42P07", // the client's own
		"ALTER TABLE child ADD CONSTRAINT mine UNIQUE (a, id)":                      "",      // what a lost statement has left
		"ALTER TABLE child ADD CONSTRAINT whole2 UNIQUE NULLS NOT DISTINCT (a, id)": "42P07",
	} {
		pg.SQL(t, "postgres", `CREATE TABLE IF NOT EXISTS elsewhere (bad int, a int);
			ALTER TABLE child DROP CONSTRAINT IF EXISTS other, DROP CONSTRAINT IF EXISTS fk, DROP CONSTRAINT IF EXISTS elsewhere, DROP CONSTRAINT IF EXISTS mine;
			ALTER TABLE elsewhere DROP CONSTRAINT IF EXISTS elsewhere; ALTER TABLE elsewhere ADD CONSTRAINT elsewhere CHECK (bad < 6) NOT VALID;
			ALTER TABLE child ADD CONSTRAINT other CHECK (bad < 7) NOT VALID; ALTER TABLE child ADD CONSTRAINT fk FOREIGN KEY (b) REFERENCES parent NOT VALID;
			DROP INDEX IF EXISTS partial, columns, foreign_index, whole, whole2;
			CREATE UNIQUE INDEX IF NOT EXISTS mine_sluice_key ON child (a, id);
			CREATE UNIQUE INDEX partial ON child (a) WHERE b > 0; CREATE UNIQUE INDEX columns ON child (a, b); CREATE UNIQUE INDEX foreign_index ON elsewhere (a);
			CREATE UNIQUE INDEX whole ON child (a, id); CREATE UNIQUE INDEX whole2 ON child (a, id)`)
		if _, err := conn.Exec(ctx, sql); code(err) != want {
			t.Errorf("%s: %v, want %s", sql, err, want)
		}
		if n := pg.SQL(t, "postgres", "SELECT count(*) FROM pg_class WHERE relkind = 'i' AND relname IN ('partial', 'columns', 'foreign_index', 'whole', 'whole2', 'mine', 'mine_sluice_key')"); n != "6" {
			t.Errorf("%s: %s indexes are left", sql, n)
		}
	}
	// A column is dropped while it is empty.
	pg.SQL(t, "postgres", "CREATE FUNCTION wait(v int) RETURNS bool LANGUAGE sql AS 'SELECT false'")
	for _, written := range []bool{false, true} {
		sim.Admin(t, http.MethodPost, "/faults", `[{"at": "statement", "action": "stall", "seconds": 1, "contains": "NOT VALID"}]`)
		done := make(chan error, 1)
		go func() { _, err := conn.Exec(ctx, "ALTER TABLE child ADD z int, ADD CHECK (id < 0)"); done <- err }()
		until(t, pg, "SELECT count(*) = 1 FROM pg_attribute WHERE attname = 'z' AND attrelid = 'child'::regclass")
		if written {
			pg.SQL(t, "postgres", "UPDATE child SET z = 1 WHERE id = 1")
		}
		if err := <-done; code(err) != "23514" || strings.Contains(detailOf(err), `column "z"`) != written {
			t.Errorf("written %t: %v %s", written, err, detailOf(err))
		}
		if n := pg.SQL(t, "postgres", "SELECT count(*) FROM pg_attribute WHERE attname = 'z' AND attrelid = 'child'::regclass"); (n == "1") != written {
			t.Errorf("written %t: %s columns", written, n)
		}
		sim.Admin(t, http.MethodDelete, "/faults", "")
	}
}

// Of clients that add the same at once, each is told what stands: a named one is added once,
// and nobody is told that a constraint is there while it is not.
func TestConstraintsAtOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg, _, sluice := plainAndSluice(t, nil)
	for round := range 6 {
		pg.SQL(t, "postgres", constrained)
		for _, sql := range []string{"ALTER TABLE child ADD CONSTRAINT c UNIQUE (pid)", "ALTER TABLE child ADD CONSTRAINT d FOREIGN KEY (pid) REFERENCES parent",
			"ALTER TABLE child ADD CONSTRAINT e CHECK (bad < 5)"} {
			var group sync.WaitGroup
			errs := make([]error, 4)
			for i := range errs {
				conn := dialled(t, sluice, pgx.QueryExecModeSimpleProtocol)
				group.Go(func() { _, errs[i] = conn.Exec(ctx, sql) })
			}
			group.Wait()
			n, failing := 0, strings.Contains(sql, "bad")
			for _, err := range errs {
				switch c := code(err); {
				case c == "":
					n++
				case c == "42710", c == "42P07", c == "42704", c == "40001", failing && c == "23514":
				default:
					t.Errorf("%d, %s: %v (%s)", round, sql, err, detailOf(err))
				}
			}
			valid := pg.SQL(t, "postgres", "SELECT count(*) FROM pg_constraint WHERE conname IN ('c', 'd', 'e') AND convalidated AND conrelid = 'child'::regclass")
			t.Logf("%d, %s: %d of 4 succeed, %v", round, sql, n, errs)
			if failing && n > 0 || !failing && (n == 0 || valid == "0") {
				t.Errorf("%d, %s: %d succeed", round, sql, n)
			}
		}
	}
}

// A drain that ends while a job runs cuts the statement, which is an unknown outcome. What it
// has made stands, and the statement that is sent to another Sluice goes on from there.
func TestConstraintsCutByADrain(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	pg := pgtest.Start(t, pgtest.MaxConnections(100))
	bin := harness.Binaries(t)
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg, Args: []string{"--job-delay", "1h"}})
	pg.SQL(t, "postgres", constrained)
	for _, test := range []struct{ sql, begun string }{
		{"ALTER TABLE child ADD UNIQUE (pid)", "SELECT count(*) = 1 FROM pg_class WHERE relname = 'child_pid_sluice_key'"},
		{"ALTER TABLE child ADD FOREIGN KEY (pid) REFERENCES parent", "SELECT count(*) = 1 FROM pg_constraint WHERE conname = 'child_pid_sluice_fkey'"},
	} {
		old := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env().With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "5", "DSQL_DRAIN_TIMEOUT": "1s"})})
		conn := dialled(t, old, pgx.QueryExecModeSimpleProtocol)
		done := make(chan error, 1)
		go func() { _, err := conn.Exec(ctx, test.sql); done <- err }()
		until(t, pg, test.begun)
		old.Signal(syscall.SIGTERM)
		if err := <-done; code(err) != "08007" || !strings.Contains(detailOf(err), "may stand: ") {
			t.Errorf("%s: %v %s", test.sql, err, detailOf(err))
		}
		until(t, pg, test.begun)
	}
	sim.Stop(syscall.SIGTERM, 10*time.Second)
	pg.SQL(t, "postgres", "DELETE FROM sys.jobs WHERE job_type <> 'INDEX_BUILD'; SELECT sys.dsqlsim_finish('0')") // a stand-in that ends takes its jobs with it
	sim = harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg, Args: []string{"--job-delay", "10ms"}})
	next := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env().With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "5"})})
	conn := dialled(t, next, pgx.QueryExecModeSimpleProtocol)
	for _, sql := range []string{"ALTER TABLE child ADD UNIQUE (pid)", "ALTER TABLE child ADD FOREIGN KEY (pid) REFERENCES parent"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Errorf("%s: %v %s", sql, err, detailOf(err))
		}
	}
	if got := pg.SQL(t, "postgres", "SELECT string_agg(conname || ' ' || convalidated, ', ' ORDER BY conname) FROM pg_constraint WHERE conrelid = 'child'::regclass AND contype <> 'p'"); got != "child_pid_fkey true, child_pid_key true" {
		t.Errorf("there are %s", got)
	}
}
