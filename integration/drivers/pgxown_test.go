package drivers

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// pgxOwn are scenarios that do not depend on the mode.
var pgxOwn = []ownScenario{
	{"pipeline", nil, playPipeline},
	{"copyfrom", []Feature{Copy}, playCopyFrom},
	{"latecancel", []Feature{Cancel}, playLateCancel},
	{"cancelstream", []Feature{Cancel}, playCancelStream},
	{"typed", nil, playTyped},
	{"startup", nil, playStartup},
	{"huge", nil, playHuge},
}

// playBatch sends many statements at once; an error in the middle undoes those
// before it, unless they are in a transaction of the client's.
func playBatch(ctx context.Context, w *transcript, over session, table string) {
	s := over.(*pgxSession)
	s.query(ctx, w, "CREATE TABLE "+table+" (id int PRIMARY KEY, v text)", false, nil)
	insert := "INSERT INTO " + table + " VALUES ($1, $2)"
	fill := func(ids ...int) *pgx.Batch {
		b := &pgx.Batch{}
		for _, id := range ids {
			b.Queue(insert, id, fmt.Sprint("v", id))
			b.Queue("SELECT v FROM "+table+" WHERE id = $1", id)
		}
		b.Queue("SELECT count(*) FROM " + table)
		return b
	}
	w.batch(ctx, s.Conn, fill(1, 2, 3))
	w.batch(ctx, s.Conn, fill(4, 1, 5))
	s.query(ctx, w, "SELECT count(*) FROM "+table, false, nil)
	tx, err := s.Begin(ctx)
	if err != nil {
		w.fail(err)
		return
	}
	w.batch(ctx, tx, fill(6, 7))
	w.batch(ctx, tx, fill(8, 6, 9))
	w.line("rollback: %v", tx.Rollback(ctx))
	mixed := fill(10)
	mixed.Queue("SELECT 1 / ($1::int - 3)", 3)
	mixed.Queue(insert, 11, "never")
	w.batch(ctx, s.Conn, mixed)
	many := &pgx.Batch{}
	for i := range 500 {
		many.Queue("SELECT $1::int, repeat('x', 500)", i)
	}
	w.batch(ctx, s.Conn, many)
	bulk := &pgx.Batch{} // more in both directions than sockets hold
	for i := range 32 {
		bulk.Queue("SELECT $1::text", strings.Repeat(string(rune('a'+i%26)), 256<<10))
	}
	w.batch(ctx, s.Conn, bulk)
	s.query(ctx, w, "SELECT id, v FROM "+table+" ORDER BY id", false, nil)
}

// batcher is a connection or a transaction.
type batcher interface {
	SendBatch(context.Context, *pgx.Batch) pgx.BatchResults
}

// batch shows every result of a batch, those behind an error too.
func (w *transcript) batch(ctx context.Context, to batcher, b *pgx.Batch) {
	w.line("batch of %d", b.Len())
	results := to.SendBatch(ctx, b)
	for range b.Len() {
		rows, err := results.Query()
		if err != nil {
			w.fail(err)
			continue
		}
		w.rows(rows)
		if err := rows.Err(); err != nil {
			w.fail(err)
		} else {
			w.line("= %s", rows.CommandTag())
		}
	}
	if err := results.Close(); err != nil {
		w.fail(err)
	}
}

// playPipeline uses the protocol's pipeline by hand: several Syncs in flight,
// an error between them, statements prepared and used in one.
func playPipeline(ctx context.Context, w *transcript, over session, table string) {
	s := over.(*pgxSession)
	s.query(ctx, w, "CREATE TABLE "+table+" (id int PRIMARY KEY)", false, nil)
	p := s.PgConn().StartPipeline(ctx)
	insert := func(name string, id string) { p.SendQueryPrepared(name, [][]byte{[]byte(id)}, nil, nil) }
	p.SendPrepare("ins", "INSERT INTO "+table+" VALUES ($1::int)", nil)
	insert("ins", "1")
	insert("ins", "2")
	p.SendPipelineSync()
	insert("ins", "3")
	insert("ins", "1") // twice
	insert("ins", "4") // skipped
	p.SendPipelineSync()
	insert("ins", "5")
	p.SendPrepare("bad", "SELEC", nil)
	insert("ins", "6")
	p.SendPipelineSync()
	p.SendQueryParams("SELECT $1::int * 2 AS double", [][]byte{[]byte("21")}, nil, nil, nil)
	p.SendFlushRequest()
	if err := p.Flush(); err != nil {
		w.fail(err)
	}
	p.SendQueryParams("SELECT count(*) FROM "+table, nil, nil, nil, nil)
	p.SendPipelineSync()
	if err := p.Flush(); err != nil {
		w.fail(err)
	}
	for syncs := 0; syncs < 4; {
		result, err := p.GetResults()
		if err != nil {
			w.fail(err)
			var server *pgconn.PgError
			if !errors.As(err, &server) {
				return
			}
			continue
		}
		switch r := result.(type) {
		case *pgconn.ResultReader:
			read := r.Read()
			for _, row := range read.Rows {
				w.line("| %q", row)
			}
			if read.Err != nil {
				w.fail(read.Err)
			}
			w.line("= %s", read.CommandTag)
		case *pgconn.StatementDescription:
			w.line("prepared %d", r.ParamOIDs)
		case *pgconn.PipelineSync:
			w.line("sync")
			syncs++
		}
	}
	if err := p.Close(); err != nil {
		w.fail(err)
	}
	s.query(ctx, w, "SELECT id FROM "+table+" ORDER BY id", false, nil)
}

// playCopyFrom is pgx's binary COPY: many rows, a row refused, a source that fails.
func playCopyFrom(ctx context.Context, w *transcript, over session, table string) {
	s := over.(*pgxSession)
	s.query(ctx, w, "CREATE TABLE "+table+" (id int PRIMARY KEY, v text, at timestamptz)", false, nil)
	columns := []string{"id", "v", "at"}
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	copyRows := func(from, to, failAt int) {
		n, err := s.CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromFunc(func() ([]any, error) {
			if from > to {
				return nil, nil
			}
			if from == failAt {
				return nil, errors.New("the source failed")
			}
			from++
			return []any{from - 1, strings.Repeat("v", from%100), at}, nil
		}))
		if err != nil {
			w.fail(err)
		}
		w.line("copied %d", n)
	}
	copyRows(1, 5000, 0)
	copyRows(4999, 5002, 0) // two of them are there already
	copyRows(6000, 7000, 6500)
	s.query(ctx, w, "SELECT count(*), max(id), max(at) FROM "+table, false, nil)
}

// playLateCancel cancels what is over: nothing that comes later may be hit.
func playLateCancel(ctx context.Context, w *transcript, over session, _ string) {
	s := over.(*pgxSession)
	for range 20 {
		if _, err := s.Exec(ctx, "SELECT 1"); err != nil {
			w.fail(err)
		}
		if err := s.cancel(ctx); err != nil {
			w.fail(err)
		}
		if _, err := s.Exec(ctx, "SELECT pg_sleep(0.01)"); err != nil {
			w.fail(err)
		}
	}
}

// playCancelStream cancels a result that is larger than all buffers on its way
// and that nobody reads for a while.
func playCancelStream(ctx context.Context, w *transcript, over session, _ string) {
	s := over.(*pgxSession)
	for _, block := range []string{"SELECT 'no block'", "BEGIN"} {
		s.query(ctx, w, block, false, nil)
		rows, err := s.Query(ctx, "SELECT i, repeat('x', 100) FROM generate_series(1, 2000000) i")
		if err != nil {
			w.fail(err)
			return
		}
		w.line("a row: %t", rows.Next())
		if err := s.cancel(ctx); err != nil {
			w.fail(err)
		}
		time.Sleep(cancelGrace * 5 / 4)
		n := 0
		for rows.Next() {
			n++
		}
		w.fail(rows.Err())
		w.line("to the end: %t", n == 2000000-1)
		s.query(ctx, w, "SELECT 1", false, nil)
		s.query(ctx, w, "ROLLBACK", false, nil)
	}
}

// playTyped passes Go values of pgx's own types, which go out in binary.
func playTyped(ctx context.Context, w *transcript, over session, table string) {
	s := over.(*pgxSession)
	n := pgtype.Numeric{Int: big.NewInt(-12345678901234567), Exp: -5, Valid: true}
	iv := pgtype.Interval{Months: 14, Days: 3, Microseconds: 4567890, Valid: true}
	r := pgtype.Range[pgtype.Int4]{Lower: pgtype.Int4{Int32: 1, Valid: true}, LowerType: pgtype.Inclusive, UpperType: pgtype.Unbounded, Valid: true}
	at := time.Date(2026, 3, 4, 5, 6, 7, 123456000, time.FixedZone("", 3600))
	s.query(ctx, w, "SELECT $1::numeric AS n, $2::interval AS iv, $3::int4range AS r", false, []any{n, iv, r})
	s.query(ctx, w, "SELECT $1::timestamptz AS a, $2::timestamp AS b, $3::date AS c", false, []any{at, at, at})
	s.query(ctx, w, "SELECT $1::jsonb AS j, $2::uuid AS u, $3::text[][] AS m", false,
		[]any{map[string]any{"a": []int{1, 2}}, [16]byte{1, 2, 3}, [][]string{{"a", "b"}, {"c", "d"}}})
	s.query(ctx, w, "SELECT $1::int8 AS n, $2::bool AS b, $3::bytea AS x", false, []any{pgtype.Int8{}, pgtype.Bool{}, []byte(nil)})
	var many strings.Builder
	args := make([]any, 20000)
	for i := range args {
		fmt.Fprintf(&many, ",($%d::int)", i+1)
		args[i] = i
	}
	s.query(ctx, w, "SELECT count(*), sum(v) FROM (VALUES "+many.String()[1:]+") t (v)", false, args)
}

// playStartup connects with settings of its own, to which RESET returns.
func playStartup(ctx context.Context, w *transcript, over session, _ string) {
	config := over.(*pgxSession).Config()
	config.RuntimeParams = map[string]string{
		"TimeZone": "Asia/Tokyo", "application_name": "startup", "datestyle": "German",
		"options": "-c IntervalStyle=iso_8601 -c search_path=pg_catalog,\\ public",
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		w.fail(err)
		return
	}
	s := &pgxSession{Conn: conn}
	defer s.close()
	for _, name := range []string{"TimeZone", "application_name", "DateStyle", "IntervalStyle", "client_encoding",
		"standard_conforming_strings", "integer_datetimes"} {
		w.line("%s is %s", name, conn.PgConn().ParameterStatus(name))
	}
	shown := 0
	show := func() {
		// A text of its own each time: one that was prepared before may be refused behind a SET, see docs/compatibility.md.
		shown++
		s.query(ctx, w, fmt.Sprintf("SELECT '2026-01-02 03:04:05+00'::timestamptz::text, interval '1 day'::text, %d AS n", shown), false, nil)
		s.query(ctx, w, "SHOW search_path", false, nil)
		s.query(ctx, w, "SHOW application_name", false, nil)
		w.line("TimeZone is %s", conn.PgConn().ParameterStatus("TimeZone"))
	}
	show()
	for _, set := range []string{"SET TimeZone = 'UTC'", "SET IntervalStyle = 'postgres'", "SET search_path = public", "SET application_name = 'later'"} {
		s.query(ctx, w, set, false, nil)
	}
	show()
	s.query(ctx, w, "RESET TimeZone", false, nil)
	s.query(ctx, w, "RESET search_path", false, nil)
	show()
	s.query(ctx, w, "RESET ALL", false, nil)
	show()
	s.query(ctx, w, "DISCARD ALL", false, nil)
	show()
}

// playHuge provokes errors of megabytes. lib/pq takes none of more than 30,000
// bytes and hangs.
func playHuge(ctx context.Context, w *transcript, s session, _ string) {
	s.query(ctx, w, "SELECT repeat('x', 3000000)::int", false, nil)
	s.query(ctx, w, "SELECT 1 AS after", false, nil)
	s.query(ctx, w, "BEGIN", false, nil)
	s.query(ctx, w, "SELECT repeat('y', 3000000)::int", false, nil)
	s.query(ctx, w, "SELECT 1 AS after", false, nil)
	s.query(ctx, w, "ROLLBACK", false, nil)
	s.query(ctx, w, "SELECT $1::text::int AS n", true, []any{strings.Repeat("z", 2000000)})
	s.query(ctx, w, "SELECT $1::text::int AS n", true, []any{"7"})
}
