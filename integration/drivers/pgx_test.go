package drivers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// pgxDrivers is pgx in every mode of executing a query.
func pgxDrivers() []driver {
	var all []driver
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		d := driver{name: "pgx " + mode.String(), open: func(ctx context.Context, dsn string) (session, error) {
			return openPgx(ctx, dsn, mode)
		}}
		d.own = []ownScenario{{"batch", nil, playBatch}}
		if mode == pgx.QueryExecModeCacheStatement {
			d.own = append(d.own, pgxOwn...)
		}
		all = append(all, d)
	}
	return all
}

// pgxSession is a connection of pgx.
type pgxSession struct {
	*pgx.Conn
	notices  transcript
	prepared map[string]string
}

func openPgx(ctx context.Context, dsn string, mode pgx.QueryExecMode) (*pgxSession, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	s := &pgxSession{prepared: map[string]string{}}
	config.DefaultQueryExecMode = mode
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { s.notices.notice(n.Severity, n.Code, n.Message) }
	if s.Conn, err = pgx.ConnectConfig(ctx, config); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *pgxSession) close() { s.Conn.Close(context.Background()) }

func (s *pgxSession) query(ctx context.Context, w *transcript, sql string, prepared bool, args []any) {
	defer func() {
		w.WriteString(s.notices.String())
		s.notices.Reset()
		w.line("  %c", s.PgConn().TxStatus())
	}()
	if prepared {
		name, err := s.prepare(ctx, sql)
		if err != nil {
			w.fail(err)
			return
		}
		sql = name
	}
	rows, err := s.Query(ctx, sql, args...)
	if err != nil {
		w.fail(err)
		return
	}
	w.rows(rows)
	if err := rows.Err(); err != nil {
		w.fail(err)
		return
	}
	w.line("= %s", rows.CommandTag())
}

func (s *pgxSession) prepare(ctx context.Context, sql string) (string, error) {
	if name, ok := s.prepared[sql]; ok {
		return name, nil
	}
	name := fmt.Sprintf("statement %d", len(s.prepared))
	if _, err := s.Prepare(ctx, name, sql); err != nil {
		return "", err
	}
	s.prepared[sql] = name
	return name, nil
}

// rows shows columns with type and format, and values.
func (w *transcript) rows(rows pgx.Rows) {
	defer rows.Close()
	for i := 0; rows.Next(); i++ {
		if i == 0 {
			w.columns(rows.FieldDescriptions())
		}
		values, err := rows.Values()
		if err != nil {
			w.line("! values: %v", err)
		}
		w.row(values)
	}
}

func (w *transcript) columns(fields []pgconn.FieldDescription) {
	w.WriteString("|")
	for _, f := range fields {
		fmt.Fprintf(w, " %s:%d/%d/%d", f.Name, f.DataTypeOID, f.TypeModifier, f.Format)
	}
	w.WriteString("\n")
}

func (s *pgxSession) cancel(ctx context.Context) error { return s.PgConn().CancelRequest(ctx) }

func (s *pgxSession) kill() error { return s.PgConn().Conn().Close() }

func (s *pgxSession) notified(ctx context.Context, w *transcript) {
	n, err := s.WaitForNotification(ctx)
	if err != nil {
		w.fail(err)
		return
	}
	w.line("* %s %s", n.Channel, n.Payload)
}

func (s *pgxSession) copyIn(ctx context.Context, w *transcript, sql string, chunks []string, failure string) {
	var source io.Reader = strings.NewReader(strings.Join(chunks, ""))
	if failure != "" {
		source = io.MultiReader(source, failingReader{errors.New(failure)})
	}
	tag, err := s.PgConn().CopyFrom(ctx, source, sql)
	if err != nil {
		w.fail(err)
	} else {
		w.line("= %s", tag)
	}
	w.line("  %c", s.PgConn().TxStatus())
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

func (s *pgxSession) copyOut(ctx context.Context, w *transcript, sql string) {
	var data bytes.Buffer
	tag, err := s.PgConn().CopyTo(ctx, &data, sql)
	if err != nil {
		w.fail(err)
		return
	}
	w.row([]any{data.String()})
	w.line("= %s", tag)
}
