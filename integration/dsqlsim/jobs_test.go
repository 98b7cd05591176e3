package dsqlsim_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/dsqlsim"
)

var jobForm = regexp.MustCompile(`^[a-z2-7]{26}$`)

// one is the only value of a result.
func one(t *testing.T, conn *pgconn.PgConn, sql string, params ...string) string {
	t.Helper()
	a := runStep(t, conn, false, sql, params)
	if a.Code != "" || len(a.Rows) != 1 {
		t.Fatalf("%s: %+v", sql, a)
	}
	return a.Rows[0][0]
}

// An index is built in the background: its job can be looked up and waited for,
// and the index is of use then, not before.
func TestJobs(t *testing.T) {
	t.Parallel()
	c := start(t, func(config *dsqlsim.Config) { config.JobDelay = 1500 * time.Millisecond })
	conn := c.connect(t)
	must(t, conn, "CREATE TABLE t (id int, v text CHECK (v <> ''))")
	for _, unique := range []string{"", "UNIQUE "} {
		id := one(t, conn, "CREATE "+unique+"INDEX ASYNC i ON t (id)")
		if !jobForm.MatchString(id) {
			t.Fatalf("job_id %q", id)
		}
		const look = "SELECT status FROM sys.jobs WHERE job_id = $1"
		if got := one(t, conn, look, id); got != "submitted" {
			t.Errorf("status %s at first", got)
		}
		const valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'i'::regclass"
		if got := one(t, conn, valid); got != "f" {
			t.Error("valid at once")
		}
		begun := time.Now()
		if a := runStep(t, conn, false, "CALL sys.wait_for_job('"+id+"')", nil); a.Code != "" || a.Tags[0] != "CALL" {
			t.Errorf("wait: %+v", a)
		}
		t.Logf("waited %v", time.Since(begun))
		if got := one(t, conn, look, id); got != "completed" {
			t.Errorf("status %s behind the wait", got)
		}
		if got := one(t, conn, valid); got != "t" {
			t.Error("not valid behind the wait")
		}
		must(t, conn, "CALL sys.wait_for_job('"+id+"')") // it is over: at once
		if unique == "" {
			must(t, conn, "DROP INDEX i")
		}
	}
	must(t, conn, "ALTER TABLE t ADD CONSTRAINT u UNIQUE USING INDEX i")
	must(t, conn, "ALTER TABLE t ADD CONSTRAINT c CHECK (id > 0) NOT VALID")
	id := one(t, conn, "ALTER TABLE ASYNC t VALIDATE CONSTRAINT c")
	must(t, conn, "CALL sys.wait_for_job('"+id+"')")
	if got := one(t, conn, "SELECT count(*) FROM sys.jobs WHERE status = 'completed'"); got != "3" {
		t.Errorf("%s jobs, want 3", got)
	}
}

func TestJobsOfTransactions(t *testing.T) {
	t.Parallel()
	c := start(t, func(config *dsqlsim.Config) { config.JobDelay = 20 * time.Millisecond })
	conn := c.connect(t)
	must(t, conn, "CREATE TABLE t (id int)")

	must(t, conn, "BEGIN")
	id := one(t, conn, "CREATE INDEX ASYNC i ON t (id)")
	if a := runStep(t, conn, false, "CALL sys.wait_for_job('"+id+"')", nil); a.Code != "25001" {
		t.Errorf("wait in a block: %+v", a)
	}
	must(t, conn, "ROLLBACK")
	if a := runStep(t, conn, false, "CALL sys.wait_for_job('"+id+"')", nil); a.Code != "42704" {
		t.Errorf("a job that was rolled back: %+v", a)
	}

	must(t, conn, "BEGIN")
	id = one(t, conn, "CREATE INDEX ASYNC i ON t (id)")
	must(t, conn, "COMMIT")
	must(t, conn, "CALL sys.wait_for_job('"+id+"')")

	a := runStep(t, conn, false, "CREATE INDEX ASYNC IF NOT EXISTS i ON t (id)", nil)
	if a.Code != "" || len(a.Rows) != 0 {
		t.Errorf("nothing to do: %+v", a)
	}
}

// Jobs that the server cannot have seen being submitted are completed as well.
func TestJobsOfAnotherServer(t *testing.T) {
	t.Parallel()
	c := start(t, func(config *dsqlsim.Config) { config.JobDelay = 20 * time.Millisecond })
	conn := c.connect(t)
	c.direct(t, "INSERT INTO sys.jobs (job_id, status, job_type) VALUES ('aaaaaaaaaaaaaaaaaaaaaaaaaa', 'submitted', 'INDEX_BUILD')")
	must(t, conn, "CALL sys.wait_for_job('aaaaaaaaaaaaaaaaaaaaaaaaaa')")
	if got := one(t, conn, "SELECT status FROM sys.jobs"); got != "completed" {
		t.Errorf("status %s", got)
	}
}

// A job that finds rows against an index or a constraint is completed, with details, and
// neither becomes valid. Until then rows to come are held to both.
func TestJobsThatFail(t *testing.T) {
	t.Parallel()
	c := start(t, func(config *dsqlsim.Config) { config.JobDelay = 300 * time.Millisecond })
	conn := c.connect(t)
	must(t, conn, "CREATE TABLE p (id int PRIMARY KEY)")
	must(t, conn, "CREATE TABLE t (a int, b int, p int)")
	must(t, conn, "CREATE TABLE other (a int)")
	must(t, conn, "INSERT INTO t VALUES (1, NULL, 1), (1, NULL, NULL), (2, 5, NULL)")
	must(t, conn, "ALTER TABLE t ADD CONSTRAINT positive CHECK (a > 1) NOT VALID")
	must(t, conn, "ALTER TABLE other ADD CONSTRAINT positive CHECK (a > 1) NOT VALID")
	must(t, conn, `ALTER TABLE t ADD CONSTRAINT "refer""s" FOREIGN KEY (p) REFERENCES p NOT VALID`)
	const indexValid = "SELECT indisvalid FROM pg_index WHERE indexrelid = $1::regclass"
	const valid = "SELECT convalidated FROM pg_constraint WHERE conname = $1 AND conrelid = 't'::regclass"
	for _, job := range []struct{ begin, check, name, details string }{
		{"CREATE UNIQUE INDEX ASYNC i ON t (a)", indexValid, "i", `could not create unique index "public.i"`},
		{"CREATE UNIQUE INDEX ASYNC IF NOT EXISTS n ON t (b) NULLS NOT DISTINCT", indexValid, "n", `could not create unique index "public.n"`},
		{"alter table async t validate constraint positive", valid, "positive", `check constraint "positive" of relation "t" is violated by some row`},
		{`ALTER TABLE ASYNC ONLY t VALIDATE /* it */ CONSTRAINT "refer""s" -- now`, valid, `refer"s`, `insert or update on table "t" violates foreign key constraint "refer"s"`},
	} {
		id := one(t, conn, job.begin)
		if got := one(t, conn, job.check, job.name); got != "f" {
			t.Errorf("%s: valid at once", job.begin)
		}
		must(t, conn, "CALL sys.wait_for_job('"+id+"')")
		if got := one(t, conn, "SELECT status || ': ' || details FROM sys.jobs WHERE job_id = $1", id); got != "completed: "+job.details {
			t.Errorf("%s: %s", job.begin, got)
		}
		if got := one(t, conn, job.check, job.name); got != "f" {
			t.Errorf("%s: valid behind its job", job.begin)
		}
	}
	for sql, code := range map[string]string{"INSERT INTO t VALUES (2, 9, NULL)": "23505", "INSERT INTO t VALUES (3, 5, NULL)": "23505",
		"INSERT INTO t VALUES (0, 8, NULL)": "23514", "INSERT INTO t VALUES (4, 7, 7)": "23503", "ALTER TABLE ASYNC t VALIDATE CONSTRAINT nothing": "42704",
		"ALTER TABLE t ADD CONSTRAINT i UNIQUE USING INDEX i": "55000"} {
		if a := runStep(t, conn, false, sql, nil); a.Code != code {
			t.Errorf("%s: %s %s", sql, a.Code, a.Message)
		}
	}
	must(t, conn, "DELETE FROM t WHERE a = 1")
	must(t, conn, "CALL sys.wait_for_job('"+one(t, conn, "ALTER TABLE ASYNC t VALIDATE CONSTRAINT positive")+"')")
	if got := one(t, conn, "SELECT string_agg(conrelid::regclass || ' ' || convalidated, ', ' ORDER BY conrelid) FROM pg_constraint WHERE conname = 'positive'"); got != "t true, other false" {
		t.Errorf("validated: %s", got)
	}
	must(t, conn, "INSERT INTO t VALUES (7, 8, NULL)")
	must(t, conn, "DROP INDEX i")
	must(t, conn, "CALL sys.wait_for_job('"+one(t, conn, "CREATE UNIQUE INDEX ASYNC i ON t (a) WHERE b IS NOT NULL")+"')")
	must(t, conn, "DROP INDEX i")
	must(t, conn, "CALL sys.wait_for_job('"+one(t, conn, "CREATE UNIQUE INDEX ASYNC i ON t (a)")+"')")
	must(t, conn, "ALTER TABLE t ADD CONSTRAINT i UNIQUE USING INDEX i DEFERRABLE INITIALLY DEFERRED")
}
