package replay

import (
	"context"
	"database/sql"
	"net"
	"strconv"
	"time"

	"github.com/lib/pq"
)

// pqSpeaker speaks as database/sql with lib/pq does, on one connection that it
// keeps: so database/sql has nothing to retry on. It says a group as a script and a
// burst turn by turn, and it cannot be cancelled.
type pqSpeaker struct {
	wire
	ctx  context.Context
	db   *sql.DB
	conn *sql.Conn
	tx   *sql.Tx
}

func pqWith(option string) func(context.Context, string) (speaker, error) {
	return func(ctx context.Context, dsn string) (speaker, error) {
		s := &pqSpeaker{ctx: ctx}
		connector, err := pq.NewConnector(dsn + option)
		if err != nil {
			return nil, err
		}
		connector.Dialer(pqDialer{&s.wire})
		s.db = sql.OpenDB(connector)
		s.conn, err = s.db.Conn(ctx)
		return s, err
	}
}

// pqDialer dials for lib/pq, which asks in three ways.
type pqDialer struct{ *wire }

func (d pqDialer) Dial(network, addr string) (net.Conn, error) {
	return d.dial(context.Background(), network, addr)
}

func (d pqDialer) DialTimeout(network, addr string, limit time.Duration) (net.Conn, error) {
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	return d.dial(ctx, network, addr)
}

// on is what statements are said on: database/sql locks itself out if a connection
// breaks that is used beside its transaction.
func (s *pqSpeaker) on() interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
} {
	if s.tx != nil {
		return s.tx
	}
	return s.conn
}

// ask has BEGIN and the ends said by database/sql.
func (s *pqSpeaker) ask(st *statement) (a *answer, err error) {
	switch {
	case st.sql == "BEGIN":
		s.tx, err = s.conn.BeginTx(s.ctx, nil)
		return &answer{tag: "BEGIN"}, err
	case (st.sql == "COMMIT" || st.sql == "END") && s.tx != nil:
		err = s.tx.Commit()
		s.tx = nil
		return &answer{tag: "COMMIT"}, err
	case st.sql == "ROLLBACK" && s.tx != nil:
		err = s.tx.Rollback()
		s.tx = nil
		return &answer{tag: "ROLLBACK"}, err
	case !st.rows:
		result, err := s.on().ExecContext(s.ctx, st.sql, st.args...)
		if err != nil {
			return nil, err
		}
		n, _ := result.RowsAffected() // never fails
		return &answer{tag: strconv.FormatInt(n, 10)}, nil
	}
	rows, err := s.on().QueryContext(s.ctx, st.sql, st.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	a = &answer{}
	for rows.Next() {
		row := make([]string, len(columns))
		into := make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		a.rows = append(a.rows, row)
	}
	a.tag = strconv.Itoa(len(a.rows))
	return a, rows.Err()
}

func (s *pqSpeaker) group(all []*statement) ([]*answer, error) { return s.script(all) }

// script gives no answers: lib/pq tells of the last statement only.
func (s *pqSpeaker) script(all []*statement) ([]*answer, error) {
	_, err := s.on().ExecContext(s.ctx, join(all))
	if err != nil {
		return nil, err
	}
	return make([]*answer, len(all)), nil
}

func (s *pqSpeaker) burst(turns [][]*statement) (answers []*answer, err error) {
	for _, turn := range turns {
		for _, st := range turn {
			a, err := s.ask(st)
			if err != nil {
				return answers, err
			}
			answers = append(answers, a)
		}
	}
	return answers, nil
}

func (s *pqSpeaker) cancel() {}

func (s *pqSpeaker) close() {
	if s.tx != nil {
		_ = s.tx.Rollback() // Close waits for it
	}
	_ = s.conn.Close() // it may be broken
	_ = s.db.Close()
}
