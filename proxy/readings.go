package proxy

import (
	"errors"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/question"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
)

// When a session loads the schema, by which backend, and how long it waits. mapnames.go uses the names.

// schemaDue returns why the schema must be loaded before the session's next text is planned, or "" if the snapshot is
// new enough.
func (s *session) schemaDue() string {
	cause := s.srv.schemaDue()
	// After an error the schema is loaded only after a pause, but a backend that knows a newer schema loads it now.
	if (cause == "" || cause == metrics.LoadError) && s.b != nil && !s.b.knows.Before(s.srv.keeper.now.Load().at) {
		cause = metrics.LoadBackend
	}
	return cause
}

// renewNames loads the schema if that is due. Without an error the snapshot is new enough. In a block it may be older
// than the last change, which the block's backend has not seen either.
func (s *session) renewNames() error {
	for range 2 { // a load in progress may have begun before the change
		cause := s.schemaDue()
		if cause == "" {
			return nil
		}
		mine, err := s.readSchema(cause)
		if err != nil && isUnread(err) && s.srv.keeper.now.Load() != nil && (cause == metrics.LoadError || s.b != nil && s.b.status != 'I') {
			return nil
		}
		if mine || err != nil {
			return err
		}
	}
	return s.srv.noSchema()
}

// missing loads the schema for a text that names a relation which is not in the snapshot. With an error the text must
// not be sent: the relation may have mapped columns.
func (s *session) missing() error {
	for range 2 {
		if mine, err := s.readSchema(metrics.LoadMissing); mine || err != nil {
			return err
		}
	}
	return nil
}

// readSchema loads the schema, by the session's own backend if that is idle, because there may be no other. mine is
// false if another session's load was in progress, or if no load is possible now. An error is for the client, ends
// the session, or is a lost backend.
func (s *session) readSchema(cause string) (mine bool, err error) {
	if s.b != nil && s.unsent() {
		return s.readHere(cause, s.b.exchangeRows)
	}
	r, mine := s.srv.readSchema(cause)
	switch {
	case r != nil:
		return mine, s.awaitSchema(r)
	case cause == metrics.LoadChange:
		if err := s.srv.keeper.failure(); err != nil {
			return false, errSchemaUnread(err)
		}
	}
	return false, nil
}

// unsent reports whether the session's backend is idle and has seen nothing of the turn, so that Sluice can query it.
func (s *session) unsent() bool {
	return s.b.status == 'I' && !s.b.group && !s.t.touched && s.t.owed.empty()
}

// readHere loads the schema by the session's own idle backend; exchange makes the round trip. Of sessions that do so
// at the same time, one loads for all. For the others mine is false, since their backends may know a newer schema.
func (s *session) readHere(cause string, exchange func(msg []byte, row func([]byte)) ([]byte, error)) (mine bool, err error) {
	r, mine := s.srv.keeper.fit(cause)
	for range mostCatalogTries {
		if r == nil || mine {
			break
		}
		if err := s.awaitSchema(r); !r.left() {
			return false, err
		}
		r, mine = s.srv.keeper.fit(cause)
	}
	switch {
	case r == nil:
		return false, nil
	case !mine:
		return false, errSchemaUnread(errReaderLeft)
	}
	r.err = s.srv.renewSchema(cause, func() (reading, error) {
		return s.srv.schemaBy(func(query string, row func([]byte)) (refusal []byte, err error) {
			question.Asked(func() (string, error) {
				refusal, err = exchange(s.srv.ownQuestion(query), row)
				return string(retry.Field(refusal, 'C')), err
			})
			return refusal, err
		})
	})
	err = r.err
	refused := (*refusedError)(nil)
	answered := err == nil || errors.As(err, &refused)
	if !answered { // the session or its backend ended, which says nothing about the server
		r.err = errReaderLeft
	}
	s.srv.keeper.fitted(r, cause)
	if answered || stops(err) {
		return true, schemaError(err)
	}
	return true, &lostError{err: err}
}

// meetSchema loads the schema by the session's idle backend if that backend may know a newer one than the snapshot.
// So no text planned by an older schema is sent there. erred means that a server did not know a name. Call it when
// the session gets a backend, and before a replay. An error is one of s.exchange or errSchemaUnread.
func (s *session) meetSchema(erred bool) error {
	if !s.srv.keeper.on || s.dedicated || s.srv.keeper.now.Load() == nil { // no text was planned by a schema
		return nil
	}
	exchange := func(msg []byte, row func([]byte)) (refusal []byte, err error) {
		err = s.asking(func(b *backend) error {
			refusal, err = b.exchangeAll(msg, row, b.patience, s.t.deadline, s.stopped)
			return err
		})
		return refusal, err
	}
	if s.pinned { // a pinned backend must not be lost to a timeout
		exchange = s.b.exchangeRows
	}
	for {
		cause := s.schemaDue()
		if cause == "" || cause == metrics.LoadError && !erred {
			return nil
		}
		mine, err := s.readHere(cause, exchange)
		if mine || err != nil && !isUnread(err) {
			return err
		}
		if cause == metrics.LoadError {
			return nil // another session has just loaded it
		}
	}
}

// overtaken reports whether a text must be planned again before it is sent. It must if an earlier query of Sluice's
// own got the error that the backend's catalog was out of date: the server reports that only once, and would then run
// the old plan. try counts the plans so far. An error is for the client: part of the turn was sent, or the schema
// changes too often.
func (s *session) overtaken(try int) (bool, error) {
	switch {
	case s.mapped.planned == nil || s.b.knows.Before(s.srv.keeper.now.Load().at):
		return false, nil
	case try == mostCatalogTries || !s.unsent():
		return false, errSchemaChanged
	}
	return true, nil
}

// outplanned reports whether the schema has changed since the current text was planned, which the session's new
// backend has shown.
func (s *session) outplanned() bool {
	return s.mapped.planned != nil && s.mapped.planned.Schema() != s.srv.keeper.now.Load().Schema
}

// awaitSchema waits up to schemaWait for another session's load. A session with a backend waits only
// schemaWaitInBlock, and longer while a query of a load is running: a load without a backend may be waiting for this
// session's. A cancel, a timeout and the client's end stop the wait. The error is for the client, or ends the
// session.
func (s *session) awaitSchema(r *schemaRead) error {
	end := time.Now().Add(schemaWait)
	tick := s.tick.Load()
	err := errWaitedEnough
	for err == errWaitedEnough {
		until := end
		if s.b != nil { // the load may be waiting for this backend
			until = earlier(end, time.Now().Add(schemaWaitInBlock))
		}
		ctx, over := s.wait(until, lookInLineEvery)
		select {
		case <-r.done:
			err = r.err
		case <-ctx.Done():
			err = s.waited(ctx)
		}
		over()
		if err == errWaitedEnough && (!time.Now().Before(end) || s.srv.keeper.asked.Load() == 0) {
			select {
			case <-r.done: // it ended meanwhile
				err = r.err
			default:
				err = s.srv.whyLate(end.Add(-schemaWait))
			}
		}
	}
	if tick&1 == 0 { // the turn may be answered without a backend
		s.tick.Store((tick | 1) + 1)
	}
	return schemaError(err)
}

// schemaError returns the session's error for a load, or a wait for one, that ended with err.
func schemaError(err error) error {
	if err == nil || stops(err) || err == errClientGone {
		return err
	}
	return errSchemaUnread(err)
}

var (
	errSchemaLate = errors.New("the answer took too long")
	errReaderLeft = errors.New("whoever read them was stopped, or lost its backend")
)

// whyLate returns why a load has not ended for a session that has waited since began: no backend was free, or the
// server has not answered.
func (srv *Server) whyLate(began time.Time) error {
	if srv.keeper.asked.Load() == 0 {
		return srv.backends.WhyEmpty(began)
	}
	return errSchemaLate
}

// schemaUnread is the message of errSchemaUnread, which isUnread compares.
const schemaUnread = "the relations of the database could not be read"

// errSchemaUnread refuses a text because Sluice does not know which relations its names refer to.
func errSchemaUnread(cause error) *wire.Error {
	e := &wire.Error{Code: "53300", Message: schemaUnread, Detail: cause.Error(), Hint: "Retry."}
	if empty, ok := errors.AsType[*reservoir.EmptyError](cause); ok {
		e.Hint = empty.Remedy()
	}
	e.Hint += " Columns are mapped (rewrite.bytea), and what a name stands for must be known before the text is sent."
	if isUntold(e) {
		e.Hint += " A database without mapped columns needs no reading with rewrite.bytea: off."
	}
	return e
}

// isUntold reports whether err is an errSchemaUnread that a server's refusal has caused.
func isUntold(err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	return ok && e.Message == schemaUnread && strings.HasPrefix(e.Detail, serverSaid)
}

// isUnread reports whether err is an errSchemaUnread.
func isUnread(err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	return ok && e.Message == schemaUnread
}
