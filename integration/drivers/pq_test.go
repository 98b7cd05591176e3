package drivers

import (
	"context"
	"database/sql"
	"net"
	"reflect"
	"strings"
	"time"

	"github.com/lib/pq"
)

// pqSession adds to a session what is lib/pq's own.
type pqSession struct {
	*sqlSession
	dsn    string
	socket net.Conn
	heard  []*pq.Notification
}

// DialTimeout and Dial make it a pq.Dialer that remembers its socket.
func (s *pqSession) Dial(network, address string) (net.Conn, error) {
	return s.DialTimeout(network, address, 0)
}

func (s *pqSession) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	if s.socket == nil { // later ones carry cancels
		s.socket = conn
	}
	return conn, err
}

func openPQ(ctx context.Context, dsn string) (session, error) {
	connector, err := pq.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	s := &pqSession{dsn: dsn}
	connector.Dialer(s)
	noticing := pq.ConnectorWithNoticeHandler(connector, func(n *pq.Error) {
		s.notices.notice(n.Severity, string(n.Code), n.Message)
	})
	hearing := pq.ConnectorWithNotificationHandler(noticing, func(n *pq.Notification) { s.heard = append(s.heard, n) })
	if s.sqlSession, err = newSQLSession(ctx, sql.OpenDB(hearing)); err != nil {
		return nil, err
	}
	s.arg, s.listener, s.in, s.out = pqArgument, s.waitNotified, s.copyRows, s.copyNothing
	s.cut = func() error { return s.socket.Close() }
	return s, nil
}

// pqArgument wraps slices, which lib/pq leaves to the application.
func pqArgument(v any) any {
	if kind := reflect.ValueOf(v); kind.Kind() == reflect.Slice && kind.Type().Elem().Kind() == reflect.Pointer {
		return pq.Array(v)
	}
	return v
}

// waitNotified asks until a notification has come along with an answer.
func (s *pqSession) waitNotified(ctx context.Context, w *transcript) {
	for ; len(s.heard) == 0; time.Sleep(time.Millisecond) {
		if _, err := s.conn.ExecContext(ctx, "SELECT 'anything new'"); err != nil {
			w.fail(err)
			return
		}
	}
	w.line("* %s %s", s.heard[0].Channel, s.heard[0].Extra)
	s.heard = s.heard[1:]
}

// copyRows sends lines of text in the way of lib/pq: COPY is a statement, in a
// transaction, that is executed once for every row.
func (s *pqSession) copyRows(ctx context.Context, w *transcript, query string, chunks []string, failure string) {
	if failure != "" {
		w.line("! lib/pq cannot break off")
		return
	}
	tx, err := s.conn.BeginTx(ctx, nil)
	if err != nil {
		w.fail(err)
		return
	}
	defer tx.Rollback()
	err = func() error {
		st, err := tx.PrepareContext(ctx, query)
		if err != nil {
			return err
		}
		defer st.Close()
		for row := range strings.Lines(strings.Join(chunks, "")) {
			if _, err := st.ExecContext(ctx, pqRow(row)...); err != nil {
				return err
			}
		}
		result, err := st.ExecContext(ctx)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		w.line("= %d", n)
		return err
	}()
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		w.fail(err)
	}
}

func pqRow(text string) []any {
	var row []any
	for field := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\t") {
		if field == `\N` {
			row = append(row, nil)
		} else {
			row = append(row, field)
		}
	}
	return row
}

// copyNothing shows what lib/pq does with COPY TO, which it does not support.
func (s *pqSession) copyNothing(ctx context.Context, w *transcript, query string) {
	s.query(ctx, w, query, false, nil)
}
