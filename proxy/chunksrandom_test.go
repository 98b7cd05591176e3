package proxy_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/rewrite"
)

var (
	chunkSeed     = flag.Uint64("chunks.seed", 1, "TestRandomDeletesInBatches: the seed")
	chunkPrograms = flag.Int("chunks.count", 20, "TestRandomDeletesInBatches: how many tables are made")
)

// deleteCase is a table with a random key and random rows, and a random DELETE from it. The
// table plain has the same rows, takes any DELETE, and maps nothing.
type deleteCase struct {
	rng  *rand.Rand
	key  []string
	rows [][]any
	sql  string
	args []any
}

// deleteColumn is a column with the values that rows have there.
type deleteColumn struct {
	name, kind string
	value      func(*rand.Rand) any
}

var deleteColumns = []deleteColumn{
	{"a", "int", func(r *rand.Rand) any { return r.IntN(40) }},
	{"b", "text", func(r *rand.Rand) any {
		return []string{"", "a", "a'b", `a\b`, "ab", "zz", "today!"}[r.IntN(7)] + strconv.Itoa(r.IntN(30))
	}},
	{"c", "bytea", func(r *rand.Rand) any { return []byte{byte(r.IntN(3)), byte(r.IntN(256))}[:r.IntN(3)] }},
	{"Odd Name", "bytea", func(r *rand.Rand) any { return []byte(strings.Repeat("\x00\xff'"[:r.IntN(4)], r.IntN(3)+1)) }},
	{"u", "uuid", func(r *rand.Rand) any {
		return fmt.Sprintf("00000000-0000-0000-0000-%012x", r.IntN(50))
	}},
	{"at", "timestamptz", func(r *rand.Rand) any { return time.Unix(int64(r.IntN(60)), 0).UTC() }},
}

func newDelete(rng *rand.Rand) *deleteCase {
	d := &deleteCase{rng: rng}
	for _, i := range rng.Perm(len(deleteColumns))[:1+rng.IntN(3)] {
		d.key = append(d.key, pgx.Identifier{deleteColumns[i].name}.Sanitize())
	}
	for range 80 + rng.IntN(170) {
		row := make([]any, len(deleteColumns))
		for i, c := range deleteColumns {
			row[i] = c.value(rng)
		}
		d.rows = append(d.rows, row)
	}
	var conditions []string
	for range 1 + rng.IntN(2) {
		conditions = append(conditions, d.comparison())
	}
	d.sql = "DELETE FROM %s WHERE " + strings.Join(conditions, " AND ")
	return d
}

// comparison is a random condition over one column. Its values are those that rows may have.
func (d *deleteCase) comparison() string {
	i := d.rng.IntN(len(deleteColumns))
	c, name := deleteColumns[i], pgx.Identifier{deleteColumns[i].name}.Sanitize()
	param := func() string {
		d.args = append(d.args, c.value(d.rng))
		return "$" + strconv.Itoa(len(d.args)) + []string{"", "::" + c.kind}[d.rng.IntN(2)]
	}
	switch d.rng.IntN(6) {
	case 0:
		return name + " IN (" + param() + ", " + param() + ", " + param() + ")"
	case 1:
		return name + " BETWEEN " + param() + " AND " + param()
	case 2:
		return param() + " <= " + name
	}
	return name + " " + []string{"<>", ">", ">=", "<", "<>"}[d.rng.IntN(5)] + " " + param()
}

// create makes both tables, the one of the DELETE through Sluice.
func (d *deleteCase) create(t *testing.T, pg postgres, c *pgx.Conn, limit int, conflicts float64) {
	t.Helper()
	pg.SQL(t, "postgres", "DROP TABLE IF EXISTS many, plain; DROP FUNCTION IF EXISTS limits()")
	var columns []string
	for _, c := range deleteColumns {
		columns = append(columns, pgx.Identifier{c.name}.Sanitize()+" "+c.kind)
	}
	body := " (" + strings.Join(columns, ", ") + ", PRIMARY KEY (" + strings.Join(d.key, ", ") + "))"
	pg.SQL(t, "postgres", "CREATE TABLE plain"+body)
	run(t, c, "CREATE TABLE many"+body)
	for _, row := range d.rows {
		for _, table := range []string{"plain", "many"} {
			if _, err := c.Exec(t.Context(), "INSERT INTO "+table+" VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING", row...); err != nil {
				t.Fatal(err)
			}
		}
	}
	pg.SQL(t, "postgres", fmt.Sprintf(`CREATE FUNCTION limits() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF (SELECT count(*) FROM gone) > %d THEN RAISE EXCEPTION 'transaction row limit exceeded' USING ERRCODE = '54000'; END IF;
			IF random() < %f THEN RAISE EXCEPTION 'change conflicts with another transaction (OC000)' USING ERRCODE = '40001'; END IF;
			PERFORM pg_sleep(0.002);
			RETURN NULL;
		END $$;
		CREATE TRIGGER limits AFTER DELETE ON many REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION limits()`, limit, conflicts))
}

// rowsOf are the rows of a table as the client reads them, one a line.
func rowsOf(t *testing.T, c *pgx.Conn, table string) map[string]bool {
	t.Helper()
	rows, err := c.Query(t.Context(), `SELECT a::text, b, c::text, "Odd Name"::text, u::text, at::text FROM `+table, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			t.Fatal(err)
		}
		found[fmt.Sprintf("%q", values)] = true
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

var rowsDeleted = regexp.MustCompile(`(\d+) rows are deleted, and stay so\.$`)

// Random DELETEs in batches, with keys of all kinds, mapped ones too, met by conflicts, by
// losses and by cancels: a tag is that of a server without a limit, the rows are the same then,
// and the number in an error is that of the rows that are gone (of 08007: at least).
func TestRandomDeletesInBatches(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	counts := map[string]int{}
	for n := range *chunkPrograms {
		t.Run(strconv.Itoa(n), func(t *testing.T) { playDelete(t, pg, rand.New(rand.NewPCG(*chunkSeed, uint64(n))), counts) })
	}
	t.Logf("%d tables: %v", *chunkPrograms, counts)
	if counts["batches"] < *chunkPrograms/2 {
		t.Errorf("too few batches: %v", counts)
	}
}

func playDelete(t *testing.T, pg postgres, rng *rand.Rand, counts map[string]int) {
	d := newDelete(rng)
	policy := []rewrite.ByteaMapping{rewrite.ByteaHex, rewrite.ByteaHexCast}[rng.IntN(2)]
	s := startSluice(t, pg, inBatches, withReplay, func(s *setup) { s.rules.Bytea, s.rules.ByteaCheck = policy, true })
	c := connectTo(t, s, "postgres", []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement}[rng.IntN(3)])
	d.create(t, pg, c, 1+rng.IntN(30), []float64{0, 0, 0.2, 0.9}[rng.IntN(4)])
	what := fmt.Sprintf("%s: %s %v, key %v", policy, d.sql, d.args, d.key)
	was := rowsOf(t, c, "many")
	want, err := c.Exec(t.Context(), fmt.Sprintf(d.sql, "plain"), d.args...)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	kept := rowsOf(t, c, "plain")
	fault := []string{"", "", "cancel", "kill"}[rng.IntN(4)]
	ended, struck := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(struck)
		for after := float64(rng.IntN(4)); s.sum(t, "dsql_delete_batches_total") < after; {
			select {
			case <-ended:
				return
			case <-time.After(time.Millisecond):
			}
		}
		switch fault {
		case "cancel":
			_ = c.PgConn().CancelRequest(t.Context())
		case "kill":
			pg.SQL(t, "postgres", "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'DELETE FROM many%' AND pid <> pg_backend_pid()")
		}
	}()
	tag, err := c.Exec(t.Context(), fmt.Sprintf(d.sql, "many"), d.args...)
	close(ended)
	<-struck
	left := rowsOf(t, c, "many")
	for row := range was {
		if kept[row] && !left[row] {
			t.Errorf("%s: %s is gone, and does not match", what, row)
		}
	}
	counts["batches"] += int(s.sum(t, "dsql_delete_batches_total"))
	var told *pgconn.PgError
	switch gone := len(was) - len(left); {
	case err == nil:
		counts["deleted"]++
		if tag != want || len(left) != len(kept) {
			t.Errorf("%s: %s, want %s; %d rows are left, want %d", what, tag, want, len(left), len(kept))
		}
	case errors.As(err, &told):
		counts[told.Code]++
		number := 0
		if m := rowsDeleted.FindStringSubmatch(told.Detail); m != nil {
			number, _ = strconv.Atoi(m[1])
		}
		if told.Code == "08007" && gone < number || told.Code != "08007" && gone != number {
			t.Errorf("%s (%s): %s %s (%s): %d rows are gone", what, fault, told.Code, told.Message, told.Detail, gone)
		}
	default:
		t.Errorf("%s (%s): %v", what, fault, err)
	}
}
