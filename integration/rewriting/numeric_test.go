package rewriting

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// numericWays are ways in which a table gets a column n of type numeric without a precision.
var numericWays = [][]string{
	{"CREATE TABLE t (id int PRIMARY KEY, n %s)"},
	{"CREATE TABLE t (id int PRIMARY KEY, n %s NOT NULL DEFAULT 0 UNIQUE CHECK (n > -1e80))"},
	{"CREATE TABLE t (id int, n %s, PRIMARY KEY (id, n))"},
	{"CREATE TABLE t (id int PRIMARY KEY)", "ALTER TABLE t ADD COLUMN n %s"},
	{"CREATE TABLE t (id int PRIMARY KEY)", "ALTER TABLE t ADD COLUMN n %s NULL"},
	{"CREATE TABLE t (id int PRIMARY KEY)", "ALTER TABLE t ADD n %s DEFAULT 1.23456789 NOT NULL"},
	{"CREATE TABLE t (id int PRIMARY KEY)", "ALTER TABLE t ADD n %s UNIQUE, ADD CHECK (id > 0)"},
	{"CREATE TABLE t (id int PRIMARY KEY)", "ALTER TABLE t ADD n %s, ADD m %[1]s DEFAULT 2"},
	{"CREATE TABLE t (id int PRIMARY KEY, n int)", "ALTER TABLE t ALTER COLUMN n TYPE %s"},
	{"CREATE TABLE t (id int PRIMARY KEY, n numeric(4,1))", "ALTER TABLE t ALTER n SET DATA TYPE %s USING n::%[1]s"},
	{"CREATE TABLE t (id int PRIMARY KEY)", "DO $$ BEGIN ALTER TABLE t ADD COLUMN n %s; EXCEPTION WHEN duplicate_column THEN NULL; END $$"},
	{"CREATE DOMAIN amount AS %s", "CREATE TABLE t (id int PRIMARY KEY, n amount)"},
	{"CREATE TABLE t (id int PRIMARY KEY, n %s); INSERT INTO t VALUES (-1, 0.123456789)"},
}

// A column of type numeric without a precision stores every digit that its scale has room for, by whatever
// statement it was made; what has no room in front of the point is an error. Left as it is, a cluster rounds.
func TestNumericKeepsDigits(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	carried := harness.Env{"DSQL_DDL_CARRY_OUT": "all"}
	pg, sim, sluice := plainAndSluice(t, carried)
	seed := uint64(time.Now().UnixNano())
	t.Log("seed ", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	digits := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte(byte('0' + random.IntN(10)))
		}
		return b.String()
	}
	conn, plain := dialled(t, sluice, pgx.QueryExecModeSimpleProtocol), plainConn(ctx, t, pg)
	run := func(conn *pgx.Conn, sql string) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	const rows = "SELECT coalesce(string_agg(id || ' ' || trim_scale(n), E'\n' ORDER BY id), '') FROM t"
	for i, way := range numericWays {
		spelled := []string{"numeric", "DECIMAL", "dec", "pg_catalog.numeric"}[(i+random.IntN(4))%4]
		for _, conn := range []*pgx.Conn{conn, plain} {
			run(conn, "DROP TABLE IF EXISTS t")
			run(conn, "DROP DOMAIN IF EXISTS amount")
			for _, sql := range way {
				if strings.Contains(sql, "%") {
					sql = fmt.Sprintf(sql, spelled)
				}
				for one := range strings.SplitSeq(sql, "; INSERT") {
					if one != sql && !strings.HasPrefix(one, "CREATE") {
						one = "INSERT" + one
					}
					run(conn, one)
				}
			}
		}
		for id := range 12 {
			value := []string{"", "-"}[random.IntN(2)] + "1" + digits(random.IntN(90)) + "." + digits(random.IntN(39))
			sql := fmt.Sprintf("INSERT INTO t (id, n) VALUES (%d, %s)", id, value)
			_, err := conn.Exec(ctx, sql)
			if _, plainly := plain.Exec(ctx, sql); code(err) != code(plainly) {
				t.Errorf("%v: %s: %v, PostgreSQL: %v", way, sql, err, plainly)
			}
		}
		if got, want := pg.SQL(t, "postgres", rows), pg.SQL(t, "plain", rows); got != want {
			t.Errorf("%v, %s:\n%s", way, spelled, differing(got, want))
		}
		if _, err := conn.Exec(ctx, "INSERT INTO t (id, n) VALUES (99, 1e90)"); code(err) != "22003" && code(err) != "23514" {
			t.Errorf("%v: 10^90 is not refused: %v", way, err)
		}
	}
	for value, want := range map[string]string{"as-is": "1.234568", "20,4": "1.2346", "wide": "1.23456789012345678901234567890123456789"} {
		sluice := harness.StartSluice(t, harness.SluiceConfig{Bin: harness.Binaries(t), Env: sim.Env().With(harness.Env{"DSQL_REWRITE_NUMERIC": value, "DSQL_RESERVOIR_MAX_OPEN": "5"})})
		conn := dialled(t, sluice, pgx.QueryExecModeExec)
		run(conn, "DROP TABLE IF EXISTS t")
		run(conn, "CREATE TABLE t (n numeric)")
		run(conn, "INSERT INTO t VALUES (1.234567890123456789012345678901234567891)")
		var got string
		if err := conn.QueryRow(ctx, "SELECT trim_scale(n)::text FROM t").Scan(&got); err != nil || got != want {
			t.Errorf("%s: %s %v", value, got, err)
		}
	}
}
