package drivers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// sqlSession is a connection of database/sql, from a pool of its own.
type sqlSession struct {
	pool     *sql.DB
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
	notices  transcript

	// The driver's part.
	arg      func(any) any // what the driver wants as an argument
	cut      func() error  // closes the socket
	listener func(ctx context.Context, w *transcript)
	in       func(ctx context.Context, w *transcript, sql string, chunks []string, failure string)
	out      func(ctx context.Context, w *transcript, sql string)

	mu   sync.Mutex
	stop context.CancelFunc // of the query that runs; guarded by mu
}

// sqlDrivers is database/sql over pgx, and over lib/pq in its two ways to pass
// arguments.
func sqlDrivers() []driver {
	return []driver{
		{name: "stdlib pgx", open: openStdlib, own: sqlOwn},
		{name: "stdlib pq", open: func(ctx context.Context, dsn string) (session, error) {
			return openPQ(ctx, dsn)
		}, own: append(pqOwn, sqlOwn...)},
		{name: "stdlib pq binary", open: func(ctx context.Context, dsn string) (session, error) {
			return openPQ(ctx, dsn+"&binary_parameters=yes")
		}, own: sqlOwn},
	}
}

// newSQLSession takes the one connection of a pool.
func newSQLSession(ctx context.Context, pool *sql.DB) (*sqlSession, error) {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return &sqlSession{pool: pool, conn: conn, prepared: map[string]*sql.Stmt{}, arg: func(v any) any { return v }}, nil
}

func openStdlib(ctx context.Context, dsn string) (session, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	var s *sqlSession
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { s.notices.notice(n.Severity, n.Code, n.Message) }
	inner := &pgxSession{}
	pool := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(func(_ context.Context, c *pgx.Conn) error {
		inner.Conn = c
		return nil
	}))
	if s, err = newSQLSession(ctx, pool); err != nil {
		return nil, err
	}
	s.cut, s.listener, s.in, s.out = inner.kill, inner.notified, inner.copyIn, inner.copyOut
	return s, nil
}

func (s *sqlSession) close() {
	s.conn.Close()
	s.pool.Close()
}

// reads are the first words of statements that are run for their rows.
var reads = []string{"SELECT", "VALUES", "SHOW", "WITH", "EXPLAIN", "TABLE", "FETCH", "EXECUTE"}

func isRead(query string) bool {
	for _, word := range reads {
		if strings.HasPrefix(query, word) {
			return true
		}
	}
	return strings.Contains(query, " RETURNING ")
}

func (s *sqlSession) query(ctx context.Context, w *transcript, query string, prepared bool, args []any) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s.mu.Lock()
	s.stop = stop
	s.mu.Unlock()
	defer func() {
		w.WriteString(s.notices.String())
		s.notices.Reset()
	}()
	values := make([]any, len(args))
	for i, a := range args {
		values[i] = s.arg(a)
	}
	queryRows, exec, err := s.verbs(ctx, query, prepared)
	if err != nil {
		w.fail(err)
		return
	}
	if !isRead(query) {
		result, err := exec(values...)
		if err != nil {
			w.fail(err)
			return
		}
		n, err := result.RowsAffected()
		w.line("= %d %v", n, err)
		return
	}
	rows, err := queryRows(values...)
	if err != nil {
		w.fail(err)
		return
	}
	w.results(rows)
}

// verbs binds a query to the connection or to a prepared statement of it.
func (s *sqlSession) verbs(ctx context.Context, query string, prepared bool) (
	rows func(...any) (*sql.Rows, error), exec func(...any) (sql.Result, error), err error) {
	if !prepared {
		return func(args ...any) (*sql.Rows, error) { return s.conn.QueryContext(ctx, query, args...) },
			func(args ...any) (sql.Result, error) { return s.conn.ExecContext(ctx, query, args...) }, nil
	}
	st := s.prepared[query]
	if st == nil {
		if st, err = s.conn.PrepareContext(ctx, query); err != nil {
			return nil, nil, err
		}
		s.prepared[query] = st
	}
	return func(args ...any) (*sql.Rows, error) { return st.QueryContext(ctx, args...) },
		func(args ...any) (sql.Result, error) { return st.ExecContext(ctx, args...) }, nil
}

// results shows every result set of rows and closes them.
func (w *transcript) results(rows *sql.Rows) {
	defer rows.Close()
	for more := true; more; more = rows.NextResultSet() {
		types, err := rows.ColumnTypes()
		if err != nil {
			w.line("! columns: %v", err)
			return
		}
		w.WriteString("|")
		for _, c := range types {
			fmt.Fprintf(w, " %s:%s", c.Name(), c.DatabaseTypeName())
		}
		w.WriteString("\n")
		values, into := make([]any, len(types)), make([]any, len(types))
		for i := range values {
			into[i] = &values[i]
		}
		for rows.Next() {
			if err := rows.Scan(into...); err != nil {
				w.line("! scan: %v", err)
				return
			}
			w.row(values)
		}
	}
	if err := rows.Err(); err != nil {
		w.fail(err)
	}
}

func (s *sqlSession) cancel(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
	return nil
}

func (s *sqlSession) kill() error                                 { return s.cut() }
func (s *sqlSession) notified(ctx context.Context, w *transcript) { s.listener(ctx, w) }
func (s *sqlSession) copyOut(ctx context.Context, w *transcript, query string) {
	s.out(ctx, w, query)
}
func (s *sqlSession) copyIn(ctx context.Context, w *transcript, query string, chunks []string, failure string) {
	s.in(ctx, w, query, chunks, failure)
}
