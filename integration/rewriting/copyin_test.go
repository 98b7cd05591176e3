package rewriting

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// startCopies is Sluice that carries COPY out, in front of a stand-in that refuses it.
func startCopies(t *testing.T, env harness.Env) *partsRig {
	t.Helper()
	return startParts(t, "refuse", harness.Env{"DSQL_COPY_FROM": "insert"}.With(env))
}

// copyAnswer is what came of a COPY: the tag or the error, with all that its client is told.
func copyAnswer(ctx context.Context, c *pgconn.PgConn, sql, data string) string {
	tag, err := c.CopyFrom(ctx, strings.NewReader(data), sql)
	return copyTold(tag, err)
}

func copyTold(tag pgconn.CommandTag, err error) string {
	if err == nil {
		return tag.String()
	}
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return err.Error()
	}
	told := []string{e.Code, e.Message, e.Where}
	if e.Detail != "" {
		told = append(told, e.Detail)
	}
	if e.ColumnName+e.ConstraintName != "" {
		told = append(told, e.ColumnName, e.ConstraintName)
	}
	return strings.Join(told, " | ")
}

const copyTable = `CREATE TABLE "T 1" (id int PRIMARY KEY, v varchar(5), n numeric(6,2) NOT NULL CHECK (n > 0), d date DEFAULT '2020-02-02', j jsonb, b bytea,
	g int GENERATED ALWAYS AS (id * 2) STORED);
	CREATE TABLE always (id bigint GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY, v text);
	CREATE VIEW shown AS SELECT 1 AS a`

// copyCases are answered as by PostgreSQL, to the letter.
var copyCases = []struct{ sql, data string }{
	{`COPY "T 1" FROM STDIN`, "1\ta\t1.005\t2020-01-01\t{\"a\": \"it's\"}\t\\\\x00ff\n2\t\\N\t2\t\\N\t\\N\t\\N\n"},
	{`COPY "T 1" (id, n) FROM STDIN`, "1\t1\n2\t2\n\\.\n"},
	{`COPY "T 1" (n, id) FROM STDIN`, ""},
	{`COPY "T 1" (id, n, v) FROM STDIN WITH (FORMAT csv, HEADER)`, "x,y,z\n1,1,\"a,\"\"b\"\n2,2,\n3,3,\"\"\n"},
	{`COPY "T 1" (id, n, v) FROM STDIN CSV HEADER DELIMITER ';' NULL 'nil'`, "x;y;z\n1;1;nil\n2;2;'\\\n"},
	{`COPY "T 1" (id, n, v) FROM STDIN WITH (FORMAT csv, HEADER match)`, "id,n,w\n1,1,a\n"},
	{`COPY public."T 1" (id, n, v) FROM STDIN WITH (FORMAT csv, FORCE_NULL (v), FORCE_NOT_NULL (id), NULL 'x')`, "1,1,\"x\"\n"},
	{`COPY "T 1" (id, n) FROM STDIN`, "1\t1\n2\tx'\n3\t3\n"},
	{`COPY "T 1" (id, n) FROM STDIN`, "1\t1\nä'\t1\n"},
	{`COPY "T 1" (id, n) FROM STDIN`, "1\t1\n" + strings.Repeat("ü", 60) + "\t1\n"},
	{`COPY "T 1" (id, n) FROM STDIN`, "1\t1\nx" + strings.Repeat("ü", 60) + "\t1\n"},
	{`COPY "T 1" (id, n) FROM STDIN`, "1\t1\n2\t1\tx" + strings.Repeat("ü", 60) + "\n"},
	{`COPY "T 1" (id, n, d) FROM STDIN`, "1\t1\t2020-01-01\n2\t1\tsoon\n"},
	{`COPY "T 1" (id, n, d) FROM STDIN`, "1\t1\t2020-01-01\n2\t1\t2020-13-01\n"},
	{`COPY "T 1" (id, n, j) FROM STDIN`, "1\t1\t{}\n2\t1\t{'\n"},
	{`COPY "T 1" (id, n) FROM STDIN`, "1\t1\n2\t\\N\n"},
	{`COPY "T 1" (id, n) FROM STDIN`, "1\t1\n2\t2\n3\t-1\n4\t1\n"},
	{`COPY "T 1" (id, n) FROM STDIN`, "1\t1\n2\t2\n3\t3\n1\t4\n"},
	{`COPY "T 1" (id, n) FROM STDIN`, "1\t1\n2\t2\textra\n"},
	{`COPY "T 1" (id, n) FROM STDIN`, "1\t1\n2\n"},
	{`COPY "T 1" (id, n) FROM STDIN`, "1\t1\nx\t1\n2\n"},
	{`COPY "T 1" (id, n) FROM STDIN`, "1\t1\n\xff\t1\n"},
	{`COPY "T 1" (id, n) FROM STDIN BINARY`, "nonsense"},
	{`COPY "T 1" (id, g, n) FROM STDIN`, "1\t1\t1\n"},
	{`COPY "T 1" (id, id, n) FROM STDIN`, "1\t1\t1\n"},
	{`COPY "T 1" (id, nosuch) FROM STDIN`, "1\t1\n"},
	{`COPY nosuch FROM STDIN`, "1\t1\n"},
	{`COPY nosuch.t FROM STDIN`, "1\t1\n"},
	{`COPY "T 1" FROM STDIN (DELIMITER 'ab')`, ""},
	{`COPY "T 1" FROM STDIN (FORMAT xml)`, ""},
	{`COPY "T 1" FROM STDIN (NOSUCH 1)`, ""},
	{`COPY "T 1" FROM STDIN (FORMAT csv, FORMAT csv)`, ""},
	{`COPY "T 1" (id) FROM STDIN (FORMAT csv, FORCE_NULL (v))`, ""},
	{`COPY always FROM STDIN`, "7\ta\n8\tb\n"},
	{`COPY always (v) FROM STDIN`, "a\nb\n"},
}

// A COPY of one batch is answered as by PostgreSQL, and leaves the same rows; so does one in a
// block, whatever ends that.
func TestCopyIn(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := startCopies(t, nil)
	for _, database := range []string{"postgres", "reference"} {
		r.pg.SQL(t, database, copyTable)
	}
	want, _ := r.dial(t, r.pg.DSN("reference"))
	got, notices := r.dial(t, r.sluice.DSN("postgres"))
	const clean, rows = `DELETE FROM "T 1"; DELETE FROM always`, `SELECT * FROM "T 1" ORDER BY id; SELECT v FROM always ORDER BY id`
	for _, c := range copyCases {
		for _, way := range []string{"", "COMMIT", "ROLLBACK"} {
			all := func(conn *pgconn.PgConn, database string) string {
				r.pg.SQL(t, database, clean)
				var told []string
				if way != "" {
					told = append(told, answers(ctx, conn, "BEGIN", false)...)
				}
				told = append(told, copyAnswer(ctx, conn, c.sql, c.data), string(conn.TxStatus()))
				if way != "" {
					told = append(told, answers(ctx, conn, way, false)...)
				}
				return strings.Join(append(told, r.pg.SQL(t, database, rows)), "\n")
			}
			want, got := all(want, "reference"), all(got, "postgres")
			if way != "" && strings.Contains(want, "\n23") { // no other transaction tells the line
				if !linesInBlock.MatchString(got) {
					t.Errorf("%s of %q, %s: no lines in %s", c.sql, c.data, way, got)
				}
				got, want = withoutPlace(got), withoutPlace(want)
			}
			if got != want {
				t.Errorf("%s of %q, %s\n got %s\nwant %s", c.sql, c.data, way, got, want)
			}
		}
	}
	if len(*notices) > 0 {
		t.Errorf("notices: %q", *notices)
	}
}

// linesInBlock are the lines that an error of a constraint tells in a block.
var linesInBlock = regexp.MustCompile(`COPY T 1, lines 1 to \d`)

// withoutPlace is an answer without the place in the data.
func withoutPlace(answer string) string {
	var out []string
	for part := range strings.SplitSeq(answer, " | ") {
		if !strings.HasPrefix(part, "COPY ") && part != "" {
			out = append(out, part)
		}
	}
	return strings.Join(out, " | ")
}

// lines are rows of a table of a number and a text.
func lines(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, "%d\tx%d\n", i, i)
	}
	return b.String()
}

const manyTable = "CREATE TABLE many (id int PRIMARY KEY, v text)"

// A COPY of more rows than a batch is committed in several, and its client is told; an error says
// how many rows stay.
func TestCopyInBatches(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := startCopies(t, nil)
	r.pg.SQL(t, "postgres", manyTable)
	c, notices := r.dial(t, r.sluice.DSN("postgres"))
	const sql = "COPY many FROM STDIN"
	for _, way := range []struct {
		data, faults, want string
		rows               string
	}{
		{lines(0, 3000), "", "COPY 3000", "3000"},
		{lines(0, 3001), "", "COPY 3001 WARNING|01000|COPY was carried out in 2 transactions (copy.from)|Had one of them failed, the rows of those before it would have stayed.", "3001"},
		{lines(0, 7001) + "x\tx\n", "", `22P02 | invalid input syntax for type integer: "x" | COPY many, line 7002, column id: "x" | 6000 rows are in, and stay so: copy.from commits a COPY in batches.`, "6000"},
		{lines(0, 7001) + "5\tx\n", "", `23505 | duplicate key value violates unique constraint "many_pkey" | COPY many, line 7002 | Key (id)=(5) already exists. 6000 rows are in, and stay so: copy.from commits a COPY in batches. |  | many_pkey`, "6000"},
		{lines(0, 3000) + "3000\n", "", `22P04 | missing data for column "v" | COPY many, line 3001: "3000"`, "0"},
		{lines(0, 6000) + "5\tx\n5\n", "", `23505 | duplicate key value violates unique constraint "many_pkey" | COPY many, line 6001 | Key (id)=(5) already exists. 6000 rows are in, and stay so: copy.from commits a COPY in batches. |  | many_pkey`, "6000"},
		{lines(0, 7000), `[{"at": "commit", "action": "fail", "error": "conflict", "count": 3}]`, "COPY 7000 WARNING", "7000"},
		{lines(0, 7000), `[{"at": "statement", "verb": "INSERT", "action": "cut", "skip": 1}]`, "COPY 7000 WARNING", "7000"},
	} {
		r.pg.SQL(t, "postgres", "DELETE FROM many")
		*notices = nil
		if way.faults != "" {
			r.sim.Admin(t, http.MethodPost, "/faults", way.faults)
		}
		got := strings.TrimSpace(copyAnswer(ctx, c, sql, way.data) + " " + strings.Join(*notices, " "))
		r.sim.Admin(t, http.MethodDelete, "/faults", "")
		if got != way.want && (way.faults == "" || !strings.HasPrefix(got, way.want)) {
			t.Errorf("%s\n got %s\nwant %s", way.faults, got, way.want)
		}
		if n := r.pg.SQL(t, "postgres", "SELECT count(*) FROM many"); n != way.rows {
			t.Errorf("%s: %s rows are in, want %s", way.want, n, way.rows)
		}
	}
}
