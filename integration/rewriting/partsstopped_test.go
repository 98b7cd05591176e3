package rewriting

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// A cancel or a timeout that comes while Sluice commits a part holds for the statement that
// the client waits for: it is not run, and the client is told at once behind the COMMIT.
func TestPartsCancelled(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct {
		set, grace  string
		commit, ddl float64 // seconds that they take
		cancels     bool
	}{
		"cancel, acted on meanwhile": {"SELECT 1", "100ms", 2, 0, true},
		"cancel, not acted on yet":   {"SELECT 1", "20s", 2, 0, true},
		"timeout":                    {"SET statement_timeout = '700ms'", "100ms", 2, 0, false},
		"timeout of both together":   {"SET statement_timeout = '1800ms'", "100ms", 1.3, 1.3, false},
	} {
		for _, extended := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, extended %v", name, extended), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				r := startParts(t, "autocommit", harness.Env{"DSQL_CANCEL_GRACE": way.grace})
				r.pg.SQL(t, "postgres", "CREATE TABLE kept (n int)")
				c, notices := r.dial(t, r.sluice.DSN("postgres"))
				for _, sql := range []string{way.set, "BEGIN", "INSERT INTO kept VALUES (5)"} {
					toldOf(ctx, c, sql, false, notices)
				}
				faults := fmt.Sprintf(`[{"at": "commit", "action": "stall", "seconds": %g}`, way.commit)
				if way.ddl > 0 {
					faults += fmt.Sprintf(`, {"at": "statement", "contains": "TABLE a", "action": "stall", "seconds": %g}`, way.ddl)
				}
				r.sim.Admin(t, http.MethodPost, "/faults", faults+"]")
				if way.cancels {
					go func() {
						time.Sleep(700 * time.Millisecond)
						c.CancelRequest(context.Background())
					}()
				}
				*notices = nil
				if got, want := toldOf(ctx, c, "CREATE TABLE a (id int)", extended, notices), "57014 E WARNING|01000|a part"; !alike(got, want) {
					t.Errorf("got %s, want %s", got, want)
				}
				*notices = nil
				if got, want := toldOf(ctx, c, "ROLLBACK", extended, notices), "ROLLBACK I WARNING|01000|what was"; !alike(got, want) {
					t.Errorf("got %s, want %s", got, want)
				}
				if got := r.pg.SQL(t, "postgres", "SELECT count(*) FROM kept") + r.pg.SQL(t, "postgres", "SELECT count(*) FROM pg_class WHERE relname = 'a'"); got != "10" {
					t.Errorf("rows and tables: %s", got)
				}
			})
		}
	}
}

// Whose early COMMIT has an outcome that nobody knows is told so, wherever the session ends: where
// it keeps its backend, whose loss is its end, and where a drain cuts it.
func TestPartsOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct {
		env    harness.Env
		faults string
		drains bool
	}{
		"kept backend lost": {harness.Env{"DSQL_PAIRING": "session"}, `[{"at": "committed", "action": "cut"}]`, false},
		"cut by a drain":    {harness.Env{"DSQL_DRAIN_TIMEOUT": "500ms"}, `[{"at": "committed", "action": "stall", "seconds": 20}]`, true},
	} {
		for _, sql := range []string{"CREATE TABLE a (id int)", "ALTER TABLE kept ADD CONSTRAINT once UNIQUE (n)", "CREATE TABLE a (id int); CREATE TABLE b (id int)"} {
			t.Run(name+", "+sql, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				r := startParts(t, "autocommit", way.env)
				r.pg.SQL(t, "postgres", "CREATE TABLE kept (n int)")
				c, notices := r.dial(t, r.sluice.DSN("postgres"))
				for _, sql := range []string{"BEGIN", "INSERT INTO kept VALUES (5)"} {
					toldOf(ctx, c, sql, false, notices)
				}
				r.sim.Admin(t, http.MethodPost, "/faults", way.faults)
				if way.drains {
					go func() {
						time.Sleep(500 * time.Millisecond)
						r.sluice.Signal(syscall.SIGTERM)
					}()
				}
				_, err := c.Exec(ctx, sql).ReadAll()
				var first *pgconn.PgError
				if !errors.As(err, &first) || first.Code != "08007" {
					t.Errorf("the client was told %v, want 08007", err)
				}
				if _, err := c.Exec(ctx, "SELECT 1").ReadAll(); err == nil || strings.Contains(err.Error(), "08007") && !errors.Is(err, io.EOF) {
					t.Errorf("then it was told %v", err)
				}
			})
		}
	}
}

// The data of a COPY belong to its group of a string, and to its part of a block.
func TestPartsOfCopies(t *testing.T) {
	t.Parallel()
	pg := pgtest.Start(t, pgtest.MaxConnections(100))
	bin := harness.Binaries(t)
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg, Args: []string{"--copy"}})
	sluice := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env().With(harness.Env{"DSQL_DDL_IN_TRANSACTIONS": "autocommit"})})
	psql := pg.Program("psql", "-qAt", sluice.DSN("postgres"),
		"-c", "CREATE TABLE c (n int); COPY c FROM STDIN; CREATE TABLE d (n int); INSERT INTO d SELECT n FROM c; COPY d TO STDOUT",
		"-c", "BEGIN", "-c", "CREATE TABLE e (n int)", "-c", "COPY e FROM STDIN", "-c", "ROLLBACK", "-c", "SELECT count(*) FROM e")
	psql.Stdin = strings.NewReader("1\n2\n\\.\n7\n8\n\\.\n")
	out, err := psql.Output()
	if got := string(out); err != nil || got != "1\n2\n0\n" {
		t.Errorf("%v, %q", err, got)
	}
}

// A string takes time that goes with its length: four times the groups may take nine times as
// long; what goes with the square takes sixteen.
func TestPartsOfLongStrings(t *testing.T) {
	t.Parallel()
	r := startParts(t, "autocommit", nil)
	c, _ := r.dial(t, r.sluice.DSN("postgres"))
	took := func(blocks int) time.Duration {
		began := time.Now()
		got := answers(t.Context(), c, strings.Repeat("BEGIN;COMMIT;", blocks)+"CREATE VIEW a AS SELECT 1; DROP VIEW a", false)
		if len(got) != 2*blocks+3 || got[len(got)-1] != "I" {
			t.Fatalf("%d answers, the last is %s", len(got), got[len(got)-1])
		}
		return time.Since(began)
	}
	for try := 1; ; try++ {
		short, long := took(8000), took(32000)
		if long < 9*short {
			return
		}
		if try == 3 {
			t.Fatalf("%v, and %v for four times the length", short, long)
		}
	}
}
