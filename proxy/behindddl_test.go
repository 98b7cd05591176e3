package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// behindDDL are the tables that behindChanges change: m has a mapped key, u and shadow have none, and the first schema
// of the search path has relations that hide those of the second.
const behindDDL = `CREATE TABLE public.m (k bytea PRIMARY KEY, v int); INSERT INTO m VALUES ('\x01', 1), ('\x0203', 2);
	CREATE TABLE public.u (k bytea, v int); INSERT INTO u VALUES ('\x01', 1);
	CREATE TABLE public.hides (k bytea PRIMARY KEY, v int); INSERT INTO hides VALUES ('\x05', 5);
	CREATE TABLE a.hides (k bytea, v int); INSERT INTO a.hides VALUES ('\x06', 6);
	CREATE TABLE a.x (k bytea, v int); CREATE TABLE b.z (k bytea PRIMARY KEY, v int)`

// behindChange is DDL, with the tables that statements behind it name, and the column that was k.
type behindChange struct {
	ddl, table, key string
}

var behindChanges = []behindChange{
	{"CREATE TABLE n (k bytea PRIMARY KEY, v int)", "n", "k"},
	{"CREATE TABLE n (k bytea PRIMARY KEY, v int)", "m", "k"},
	{"CREATE TABLE n (k bytea, v int)", "n", "k"},
	{"CREATE TABLE n (k bytea, v int)", "m", "k"},
	{"CREATE TABLE a.u (k bytea PRIMARY KEY, v int)", "u", "k"},
	{"CREATE TABLE a.m (k bytea, v int)", "m", "k"},
	{"ALTER TABLE m RENAME COLUMN k TO kk", "m", "kk"},
	{"ALTER TABLE m RENAME COLUMN v TO w", "m", "k"},
	{"ALTER TABLE m RENAME TO n", "n", "k"},
	{"ALTER TABLE m RENAME TO n", "m", "k"},
	{"ALTER TABLE m ADD COLUMN w int", "m", "k"},
	{"ALTER TABLE m DROP COLUMN v", "m", "k"},
	{"ALTER TABLE a.x RENAME TO m", "m", "k"},
	{"ALTER TABLE m SET SCHEMA b", "b.m", "k"},
	{"ALTER TABLE b.z SET SCHEMA a", "z", "k"},
	{"DROP TABLE m", "m", "k"},
	{"DROP TABLE a.hides", "hides", "k"},
	{"CREATE VIEW n AS SELECT * FROM m", "n", "k"},
	{"CREATE INDEX ON m (v)", "m", "k"},
	{"ALTER TABLE u ADD COLUMN w int", "u", "k"},
}

// behindStatements are the statements that use a table of behindChanges (%[1]s) by its key (%[2]s).
var behindStatements = []string{
	`INSERT INTO %[1]s VALUES ('abcd')`, `INSERT INTO %[1]s (%[2]s) VALUES ('abcd')`, `INSERT INTO %[1]s VALUES ('\x0a') RETURNING *`,
	`SELECT * FROM %[1]s ORDER BY %[2]s`, `SELECT %[2]s FROM %[1]s ORDER BY 1`, `SELECT count(*) FROM %[1]s`, `SELECT t FROM (SELECT %[2]s, 1 AS one FROM %[1]s) AS t ORDER BY 1`,
	`UPDATE %[1]s SET %[2]s = %[2]s || '\x00'`, `DELETE FROM %[1]s WHERE %[2]s < '\x02'`, `DELETE FROM %[1]s`,
	`COPY (SELECT * FROM %[1]s ORDER BY %[2]s) TO STDOUT`, `COPY %[1]s (%[2]s) FROM STDIN`,
	`ALTER TABLE %[1]s RENAME COLUMN %[2]s TO kkk`, `COMMENT ON COLUMN %[1]s.%[2]s IS 'x'`, `CREATE TABLE made AS SELECT * FROM %[1]s; DROP TABLE made`,
	`SELECT 1`, `SELECT count(*) FROM pg_class WHERE relname = 'nothing'`,
}

// behindProgram is a transaction: DDL and what follows it.
type behindProgram struct {
	behindChange
	behind []string
	end    string
	form   string
}

// The forms of a behindProgram.
var behindForms = []string{"one Query", "one Query without BEGIN", "queries", "extended", "pipeline", "pipeline without BEGIN", "pipelines", "prepared"}

func (p behindProgram) String() string {
	return fmt.Sprintf("%s: %s; %s; %s", p.form, p.ddl, strings.Join(p.behind, "; "), p.end)
}

// plays reports whether a program can be played in its form.
func (p behindProgram) plays() bool {
	any := func(has string) bool {
		return slices.ContainsFunc(p.behind, func(sql string) bool { return strings.HasPrefix(sql, has) })
	}
	switch p.form {
	case "queries":
		return true
	case "one Query", "one Query without BEGIN":
		return !any("COPY")
	}
	return !any("COPY") && !any("CREATE TABLE made")
}

// behindAnswers plays a program and returns its answers, up to the first refusal, which is returned apart.
func behindAnswers(t *testing.T, c *pgconn.PgConn, p behindProgram) (answers []string, refused string) {
	ctx := t.Context()
	note := func(results []*pgconn.Result, err error) bool {
		for _, r := range results {
			for _, f := range r.FieldDescriptions {
				answers = append(answers, fmt.Sprint("column ", f.Name, " ", f.DataTypeOID))
			}
			for _, row := range r.Rows {
				answers = append(answers, fmt.Sprintf("row %q", row))
			}
			if r.Err == nil {
				answers = append(answers, r.CommandTag.String())
			}
		}
		if e, ok := errors.AsType[*pgconn.PgError](err); ok {
			if e.Code == "0A000" && !strings.HasPrefix(e.Message, "cached plan") {
				refused = e.Message
				return false
			}
			answers = append(answers, "error "+e.Code+" "+strings.Split(e.Message, "\"")[0])
		} else if err != nil {
			answers = append(answers, err.Error())
		}
		return err == nil
	}
	query := func(sql string) bool {
		switch {
		case strings.HasSuffix(sql, "FROM STDIN"):
			tag, err := c.CopyFrom(ctx, strings.NewReader("\\\\x0b\n"), sql)
			return note([]*pgconn.Result{{CommandTag: tag, Err: err}}, err)
		case strings.HasPrefix(sql, "COPY"):
			var out bytes.Buffer
			tag, err := c.CopyTo(ctx, &out, sql)
			return note([]*pgconn.Result{{CommandTag: tag, Rows: [][][]byte{{out.Bytes()}}, Err: err}}, err)
		}
		return note(c.Exec(ctx, sql).ReadAll())
	}
	extended := func(sql string) bool {
		r := c.ExecParams(ctx, sql, nil, nil, nil, nil).Read()
		return note([]*pgconn.Result{r}, r.Err)
	}
	pipeline := func(statements ...string) bool {
		l := c.StartPipeline(ctx)
		for _, sql := range statements {
			l.SendQueryParams(sql, nil, nil, nil, nil)
		}
		err := l.Sync()
		var results []*pgconn.Result
		for err == nil {
			got, rerr := l.GetResults()
			if r, ok := got.(*pgconn.ResultReader); ok {
				one := r.Read()
				results, rerr = append(results, one), one.Err
			} else if _, ok := got.(*pgconn.PipelineSync); ok {
				break
			}
			err = rerr
		}
		return note(results, errors.Join(err, ignoreAborted(l.Close())))
	}
	whole := slices.Concat([]string{"BEGIN", p.ddl}, p.behind, []string{p.end})
	switch p.form {
	case "one Query":
		query(strings.Join(whole, "; "))
	case "one Query without BEGIN":
		query(strings.Join(whole[1:len(whole)-1], "; "))
	case "pipeline":
		pipeline(whole...)
	case "pipeline without BEGIN":
		pipeline(whole[1 : len(whole)-1]...)
	case "pipelines":
		_ = pipeline(whole[:2]...) && pipeline(whole[2:]...)
	case "prepared":
		for i, sql := range p.behind {
			c.Prepare(ctx, fmt.Sprint("p", i), sql, nil)
		}
		defer c.Exec(ctx, "DEALLOCATE ALL").ReadAll()
		if !query("BEGIN") || !query(p.ddl) {
			break
		}
		for i := range p.behind {
			r := c.ExecPrepared(ctx, fmt.Sprint("p", i), nil, nil, nil).Read()
			if !note([]*pgconn.Result{r}, r.Err) {
				break
			}
		}
		query(p.end)
	default:
		how := query
		if p.form == "extended" {
			how = extended
		}
		for _, sql := range whole {
			if !how(sql) {
				break
			}
		}
	}
	if c.TxStatus() != 'I' {
		c.Exec(context.Background(), "ROLLBACK").Close()
	}
	return answers, refused
}

// ignoreAborted drops the error of a pipeline that repeats the error of a statement.
func ignoreAborted(err error) error {
	if _, ok := errors.AsType[*pgconn.PgError](err); ok {
		return nil
	}
	return err
}

// behindContents are the contents of all tables in the schemas of behindDDL, as a client sees them.
func behindContents(t *testing.T, c *pgconn.PgConn) (all string) {
	const tables = "SELECT schemaname || '.' || tablename FROM pg_catalog.pg_tables WHERE schemaname IN ('public', 'a', 'b') ORDER BY 1"
	for _, row := range c.ExecParams(t.Context(), tables, nil, nil, nil, nil).Read().Rows {
		r := c.ExecParams(t.Context(), "SELECT * FROM "+string(row[0])+" ORDER BY 1", nil, nil, nil, nil).Read()
		all += string(row[0])
		for _, f := range r.FieldDescriptions {
			all += " " + f.Name
		}
		all += fmt.Sprintf("%q\n", r.Rows)
	}
	return all
}

// Statements behind DDL of their own transaction mean what they mean in PostgreSQL, or are refused: no answer shows a
// column as it is stored, and no value is stored as another.
func TestBehindDDLOfTheTransaction(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE DATABASE reference")
	connect := func(address, database string) *pgconn.PgConn {
		c, err := pgconn.Connect(t.Context(), "postgres://postgres@"+address+"/"+database+"?sslmode=disable&search_path=a,public")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		return c
	}
	reference, direct := connect(pg.addr, "reference"), connect(pg.addr, "postgres")
	dialect := func(s *setup) { s.rules.Dialect, s.rules.CopyIn = true, true }
	for name, opts := range map[string][]option{"whole": {dialect}, "parts": {dialect, withParts}} {
		s := startSluice(t, pg, append([]option{asDSQL, withReplay, mapping}, opts...)...)
		c := connect(s.addr, "postgres")
		reset := func(past, on *pgconn.PgConn) {
			for _, sql := range append([]string{"DROP SCHEMA IF EXISTS public, a, b CASCADE; CREATE SCHEMA public; CREATE SCHEMA a; CREATE SCHEMA b"}, strings.Split(behindDDL, ";")...) {
				if _, err := past.Exec(t.Context(), sql).ReadAll(); err != nil {
					t.Fatal(sql, err)
				}
				past = on
			}
		}
		played, refusals := 0, map[string]int{}
		for seed := range uint64(*behindPrograms) {
			seed += *behindSeed
			rng := rand.New(rand.NewPCG(seed, 1))
			change := behindChanges[rng.IntN(len(behindChanges))]
			p := behindProgram{behindChange: change, form: behindForms[rng.IntN(len(behindForms))], end: []string{"COMMIT", "COMMIT", "ROLLBACK"}[rng.IntN(3)]}
			if p.form == "queries" && rng.IntN(3) == 0 {
				p.end += "; SELECT * FROM public.m ORDER BY 1"
			}
			if name == "parts" { // a ROLLBACK does not undo the parts before it
				p.end = strings.Replace(p.end, "ROLLBACK", "COMMIT", 1)
			}
			for range 1 + rng.IntN(2) {
				p.behind = append(p.behind, fmt.Sprintf(behindStatements[rng.IntN(len(behindStatements))], change.table, change.key))
			}
			if !p.plays() {
				continue
			}
			played++
			reset(reference, reference)
			reset(direct, c)
			before := behindContents(t, c)
			want, _ := behindAnswers(t, reference, p)
			got, refused := behindAnswers(t, c, p)
			refusals[refused]++
			wrong := refused == "" && !slices.Equal(got, want) || refused != "" && !slices.Equal(got, want[:min(len(got), len(want))])
			after, right := behindContents(t, c), behindContents(t, reference)
			if name == "whole" && (refused == "" && after != right || refused != "" && after != before) {
				wrong = true
			}
			if name == "parts" && after != right && after != before && !wrong {
				reset(reference, reference)
				reference.Exec(t.Context(), p.ddl).ReadAll()
				if ddl := behindContents(t, reference); after != ddl && refused != "" {
					t.Errorf("%s: seed %d, %s: refused (%s) with\n%s", name, seed, p, refused, after)
				} else if refused == "" && strings.HasPrefix(p.end, "COMMIT") && !strings.Contains(strings.Join(want, " "), "error") {
					wrong = true
				}
			}
			if wrong {
				t.Errorf("%s: seed %d, %s\ngot  %q refused %q\nwant %q\nhas  %s\nwant %s", name, seed, p, got, refused, want, after, right)
			}
		}
		t.Log(name, played, refusals)
	}
}

// behindPrograms is how many programs TestBehindDDLOfTheTransaction plays, from the first seed on.
var (
	behindPrograms = flag.Int("behind.programs", 40, "how many programs TestBehindDDLOfTheTransaction plays each way")
	behindSeed     = flag.Uint64("behind.seed", 0, "the first seed of TestBehindDDLOfTheTransaction's programs")
)
