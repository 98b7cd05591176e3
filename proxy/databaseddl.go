package proxy

import (
	"time"

	"github.com/sluice-proxy/sluice/proxy/ddl"
	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/proxy/script"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file runs CREATE DATABASE and DROP DATABASE of database names that map to schemas (schemaname.go).

// refuseDatabaseInScript refuses CREATE or DROP DATABASE in a multi-statement query, which is a transaction.
func refuseDatabaseInScript(_ *script.Planner, st *rewrite.Statement) script.Step {
	return script.Step{Err: errDatabaseInBlock(st)}
}

// errDatabaseInBlock returns PostgreSQL's error for CREATE or DROP DATABASE inside a transaction.
func errDatabaseInBlock(st *rewrite.Statement) *wire.Error {
	return &wire.Error{Code: "25001", Message: result.DatabaseTag(st) + " cannot run inside a transaction block"}
}

// errDatabaseInPipeline returns PostgreSQL's error for CREATE or DROP DATABASE after other statements of a pipeline.
func errDatabaseInPipeline(st *rewrite.Statement) *wire.Error {
	return &wire.Error{Code: "25001", Message: result.DatabaseTag(st) + " cannot be executed within a pipeline"}
}

// createOrDropDatabase creates or drops the schema that a CREATE or DROP DATABASE names. It returns the notices that
// precede the tag. Afterwards the session is outside any transaction. Errors go to the client or end the session.
func (s *session) createOrDropDatabase(st *rewrite.Statement) (notices [][]byte, err error) {
	d := ddl.Database{DatabaseChange: st.Database, Server: stoppableServer{s}, Cascades: s.srv.cfg.Kind == Postgres, Current: s.inSchema,
		Sessions: func() int { return s.srv.inSchema(st.Database.Schema) }}
	switch {
	case s.isInTransaction():
		return nil, errDatabaseInBlock(st)
	case s.t.touched, s.t.request.executed, s.t.request.ranLocal:
		return nil, errDatabaseInPipeline(st)
	}
	s.waits.Begin(s.settings.StatementTimeout())
	if d.Drop { // without a backend, since the other sessions may need one to end
		if err := d.Unused(); err != nil {
			return nil, err
		}
	}
	s.tx.operation, s.tx.writes = st.Operation, true
	if err := s.ensureBackend(); err != nil {
		return nil, err
	}
	err = d.Run()
	s.srv.pool.templates.BeginEpoch(true)
	return d.Notices, s.settleOwnStatements(err, d.WithPartialResult)
}

// inSchema returns the number of sessions whose client's database name maps to the schema.
func (srv *Server) inSchema(schema string) (n int) {
	srv.eachSession(func(s *session) {
		if s.inSchema == schema {
			n++
		}
	})
	return n
}

// These are the pauses before Sluice tries a CREATE or DROP DATABASE again after a conflict. The first pauses are
// short, because tests and tools have small tables.
const (
	jobPauseFirst = 20 * time.Millisecond
	jobPauseMost  = time.Second
)

// stoppableServer implements ddl.DatabaseServer on the session's backend. Its errors are a server's refusal, a cancel
// or timeout of the turn, errClientGone, and *lostError. Of these, only a refusal leaves the backend idle.
type stoppableServer struct{ s *session }

func (d stoppableServer) RefusalFrom(err error) *wire.Error { return refusalFrom(err) }
func (d stoppableServer) Pause(p time.Duration) error       { return d.s.sleepUnlessStopped(p) }

func (d stoppableServer) Ask(sql string, row func(values []string)) error {
	s, query := d.s, wire.AppendStrings(nil, wire.Query, sql)
	pause := jobPauseFirst
	for try := 1; ; try++ {
		if err := s.srv.observers.ownWork.notify(s); err != nil {
			return err
		}
		var refusal []byte
		err := s.runExchange(func(b *backend) (err error) {
			refusal, err = b.doExchange(query, valuesTo(row), s.srv.cfg.SilenceTimeout, s.t.clock.Deadline(), d.wanted)
			return err
		})
		switch {
		case interrupt.EndsTurn(err), err == errClientGone:
			return err
		case err != nil:
			return &lostError{err: err}
		case refusal == nil:
			return nil
		}
		told := decodeErrorResponse(refusal)
		if told.Code != retry.StateConflict || try == mostCatalogTries {
			return told
		}
		if err := s.sleepUnlessStopped(pause); err != nil {
			return err
		}
		pause = min(2*pause, jobPauseMost)
	}
}

// wanted returns why Sluice must stop the statement (a cancel, a timeout, a client that has left), or nil.
func (d stoppableServer) wanted() error {
	if err := d.s.waits.CheckInterruption(); err != nil {
		return err
	}
	if d.s.hasClientLeft() {
		return errClientGone
	}
	return nil
}

// refusalFrom returns err if it is an error that the server sent. Otherwise it returns nil.
func refusalFrom(err error) *wire.Error {
	told, ok := err.(*wire.Error)
	if !ok || interrupt.EndsTurn(err) {
		return nil
	}
	return told
}
