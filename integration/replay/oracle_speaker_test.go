package replay

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// speaker is a client's connection, in the manner of one driver. It retries
// nothing. With an error come the answers before it.
type speaker interface {
	// ask says one statement and waits for its answer.
	ask(*statement) (*answer, error)
	// group says all of them before one Sync.
	group([]*statement) ([]*answer, error)
	// script says all of them in one simple Query.
	script([]*statement) ([]*answer, error)
	// burst says turns, each up to a Sync, before it reads any answer.
	burst([][]*statement) ([]*answer, error)
	// cancel sends a cancel request, and kill closes the socket; both from any
	// goroutine.
	cancel()
	kill()
	close()
}

// speakers open a connection to a daemon, each in its own manner.
var speakers = []struct {
	name string
	open func(ctx context.Context, dsn string) (speaker, error)
}{
	{"pgx, cached statements", pgxIn(pgx.QueryExecModeCacheStatement)},
	{"pgx, cached descriptions", pgxIn(pgx.QueryExecModeCacheDescribe)},
	{"pgx, describe and execute", pgxIn(pgx.QueryExecModeDescribeExec)},
	{"pgx, execute", pgxIn(pgx.QueryExecModeExec)},
	{"pgx, simple protocol", pgxIn(pgx.QueryExecModeSimpleProtocol)},
	{"lib/pq", pqWith("")},
	{"lib/pq, binary parameters", pqWith("&binary_parameters=yes")},
	{"raw, unnamed", rawIn(unnamed)},
	{"raw, flushing", rawIn(flushing)},
	{"raw, portions", rawIn(portions)},
}

// wire is the socket below a driver.
type wire struct{ conn net.Conn }

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if w.conn == nil { // later ones are for cancel requests
		w.conn = conn
	}
	return conn, err
}

func (w *wire) kill() { w.conn.Close() }

// pgxSpeaker speaks as pgx and pgconn do.
type pgxSpeaker struct {
	wire
	ctx  context.Context
	conn *pgx.Conn
}

func pgxIn(mode pgx.QueryExecMode) func(context.Context, string) (speaker, error) {
	return func(ctx context.Context, dsn string) (speaker, error) {
		s := &pgxSpeaker{ctx: ctx}
		c, err := pgx.ParseConfig(dsn)
		if err != nil {
			return nil, err
		}
		c.DefaultQueryExecMode = mode
		// Fewer than there are texts: statements are closed and prepared again.
		c.StatementCacheCapacity, c.DescriptionCacheCapacity = 12, 12
		c.DialFunc = s.dial
		s.conn, err = pgx.ConnectConfig(ctx, c)
		return s, err
	}
}

func (s *pgxSpeaker) ask(st *statement) (*answer, error) {
	if st.copies != "" {
		tag, err := s.conn.PgConn().CopyFrom(s.ctx, strings.NewReader(st.data), st.copies)
		if err != nil {
			return nil, err
		}
		return &answer{tag: tag.String()}, nil
	}
	rows, err := s.conn.Query(s.ctx, st.sql, st.args...)
	if err != nil {
		return nil, err
	}
	return collect(rows)
}

func collect(rows pgx.Rows) (*answer, error) {
	defer rows.Close()
	a := &answer{}
	for rows.Next() {
		a.rows = append(a.rows, texts(rows.RawValues()))
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	a.tag = rows.CommandTag().String()
	return a, nil
}

// texts are values as texts: all are, but bigints in binary, which no text can be.
func texts(values [][]byte) []string {
	row := make([]string, len(values))
	for i, v := range values {
		if row[i] = string(v); len(v) == 8 && v[0] == 0 {
			row[i] = strconv.FormatUint(binary.BigEndian.Uint64(v), 10)
		}
	}
	return row
}

func (s *pgxSpeaker) group(all []*statement) (answers []*answer, err error) {
	if all[0].coin%2 == 0 {
		return s.pipeline([][]*statement{all})
	}
	batch := &pgx.Batch{}
	for _, st := range all {
		batch.Queue(st.sql, st.args...)
	}
	results := s.conn.SendBatch(s.ctx, batch)
	defer func() {
		if closing := results.Close(); err == nil {
			err = closing // the end of the transaction may fail, behind all answers
		}
	}()
	for range all {
		rows, err := results.Query()
		if err != nil {
			return answers, err
		}
		a, err := collect(rows)
		if err != nil {
			return answers, err
		}
		answers = append(answers, a)
	}
	return answers, nil
}

func (s *pgxSpeaker) script(all []*statement) (answers []*answer, err error) {
	results, err := s.conn.PgConn().Exec(s.ctx, join(all)).ReadAll()
	for _, r := range results {
		if r.Err == nil {
			answers = append(answers, fromResult(r))
		}
	}
	return answers, err
}

// join writes statements as one text.
func join(all []*statement) (sql string) {
	for i, st := range all {
		if i > 0 {
			sql += "; "
		}
		sql += st.literal()
	}
	return sql
}

func fromResult(r *pgconn.Result) *answer {
	a := &answer{tag: r.CommandTag.String()}
	for _, row := range r.Rows {
		a.rows = append(a.rows, texts(row))
	}
	return a
}

func (s *pgxSpeaker) burst(turns [][]*statement) ([]*answer, error) { return s.pipeline(turns) }

// pipeline sends turns. Where there is only one, it wants answers in the middle of
// it now and then.
func (s *pgxSpeaker) pipeline(turns [][]*statement) (answers []*answer, failed error) {
	p := s.conn.PgConn().StartPipeline(s.ctx)
	defer func() {
		if err := p.Close(); failed == nil {
			failed = err
		}
	}()
	receive := func() (synced bool) {
		results, err := p.GetResults()
		switch r := results.(type) {
		case *pgconn.PipelineSync:
			synced = true
		case *pgconn.ResultReader:
			result := r.Read()
			if err = result.Err; err == nil {
				answers = append(answers, fromResult(result))
			}
		}
		if failed == nil {
			failed = err
		}
		return synced
	}
	for _, turn := range turns {
		unread := 0
		for _, st := range turn {
			values := make([][]byte, len(st.args))
			for i, arg := range st.args {
				values[i] = []byte(fmt.Sprint(arg))
			}
			p.SendQueryParams(st.sql, values, nil, nil, nil)
			unread++
			if len(turns) > 1 || failed != nil || st.coin>>8%4 > 0 {
				continue
			}
			p.SendFlushRequest()
			if err := p.Flush(); err != nil {
				return answers, err
			}
			for ; unread > 0 && failed == nil; unread-- {
				receive()
			}
			if s.conn.IsClosed() { // by pgx, which is writing its good-bye
				return answers, failed
			}
		}
		p.SendPipelineSync()
	}
	if err := p.Flush(); err != nil {
		return answers, err
	}
	for synced := 0; synced < len(turns) && !s.conn.IsClosed(); {
		if receive() {
			synced++
		}
	}
	return answers, failed
}

func (s *pgxSpeaker) cancel() {
	ctx, stop := context.WithTimeout(s.ctx, speakLimit)
	defer stop()
	_ = s.conn.PgConn().CancelRequest(ctx) // the connection may be gone
}

func (s *pgxSpeaker) close() { _ = s.conn.Close(s.ctx) }
