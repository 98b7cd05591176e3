package rewrite

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// cpuTime is what the process has used so far: unlike the clock's, it is the same
// on a busy machine.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// TestTimeGoesWithLength holds that no rule takes time that grows faster than a
// text: a hostile one would stop all others. Four times the length may take ten
// times as long; what goes with the square takes sixteen. Not parallel, so that it
// counts nothing of other tests.
func TestTimeGoesWithLength(t *testing.T) {
	repeat := func(head, each, tail string) func(int) string {
		return func(n int) string { return head + strings.Repeat(each, n) + tail }
	}
	for name, text := range map[string]func(int) string{
		"serial columns": repeat("CREATE TABLE t (", "a serial, ", "a serial)"),
		"identities":     repeat("CREATE TABLE t (", "a int GENERATED ALWAYS AS IDENTITY (START 5), ", "a int)"),
		"added":          repeat("ALTER TABLE t ADD a int", ", ALTER a ADD GENERATED ALWAYS AS IDENTITY", ""),
		"options":        repeat("CREATE SEQUENCE q AS int", " INCREMENT 5", ""),
		"sequences":      repeat("", "CREATE SEQUENCE q AS int;", ""),
		"more in one":    repeat("CREATE SCHEMA s", " CREATE SEQUENCE q", ""),
		"keys down":      repeat("CREATE INDEX i ON t (a DESC", ", a text_ops DESC NULLS LAST", ")"),
		"UUIDs":          repeat("INSERT INTO t VALUES (1)", ", (uuid_generate_v4())", ""),
		"UUIDs' names":   repeat("SELECT 1", ", uuid_generate_v4()", ""),
		"many UUIDs":     repeat("", "SELECT uuid_generate_v4();", ""),
		"UUIDs locked":   repeat("SELECT uuid_generate_v4() FROM t", " FOR SHARE", ""),
		"extensions":     repeat("", "CREATE EXTENSION pgcrypto;", ""),
		"dropped":        repeat("DROP EXTENSION IF EXISTS a", ", a", ""),
		"drops of one":   repeat("", "DROP INDEX CONCURRENTLY i;", ""),
		"checks":         repeat("CREATE TABLE t (a bytea", " CHECK (true)", ")"),
		"clauses":        repeat("SELECT a FROM t", " FOR SHARE", ""),
		"stripped":       repeat("SELECT a FROM stripped_t", " FOR SHARE", ""),
		"of":             repeat("SELECT a FROM t FOR SHARE OF a", ", a", ""),
		"wrong ones":     repeat("CREATE TABLE t (a serial STORAGE PLAIN);", "SELECT a FROM t FOR SHARE;", ""),
		"tables in one":  repeat("CREATE SCHEMA s", " CREATE TABLE t (a serial)", ""),
		"statements":     repeat("", "SELECT a FROM t FOR SHARE;", ""),
		"tables":         repeat("SELECT a FROM t", ", t", " FOR SHARE"),
		"keys":           repeat("CREATE INDEX i ON t (a", ", a ASC", ")"),
		"drops":          repeat("", "DROP TABLE a;", ""),
		"databases":      repeat("", "DROP DATABASE a;", ""),
		"alters":         repeat("ALTER TABLE t ADD a int", ", ADD b int NOT NULL", ""),
		"validations":    repeat("ALTER TABLE t ADD a int", ", VALIDATE CONSTRAINT c", ""),
		"levels":         repeat("BEGIN ISOLATION LEVEL READ COMMITTED", ", ISOLATION LEVEL READ COMMITTED", ""),
		"conditions":     repeat("SELECT 1 FROM a, b WHERE a.id = 1", " AND a.b = $1", " FOR UPDATE"),
		"subqueries":     repeat("SELECT 1 FROM t", ", (SELECT 1 FOR SHARE)", " FOR SHARE"),
	} {
		t.Run(name, func(t *testing.T) {
			checkLinear(t, func(n int) time.Duration {
				p, sql := goldenPlanner(t), []byte(text(n))
				began := cpuTime(t)
				p.SplitPlan(p.Plan(sql))
				return cpuTime(t) - began
			})
		})
	}
}

// checkLinear holds that what takes time with n does not take it with the square of n.
func checkLinear(t *testing.T, took func(n int) time.Duration) {
	t.Helper()
	short, long := took(2000), took(8000)
	for try := 0; try < 2 && long > 10*short+5*time.Millisecond; try++ { // the collector may have come in between
		short, long = min(short, took(2000)), min(long, took(8000))
	}
	if long > 10*short+5*time.Millisecond {
		t.Errorf("2,000 of it took %v and 8,000 took %v", short, long)
	}
}
