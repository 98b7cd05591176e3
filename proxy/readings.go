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

// When a session has the schema read, by whose backend, and how long it waits for that. What
// it does with the names is in mapnames.go.

// schemaDue is why the schema is to be read before the session's next text is planned; ""
// where the snapshot will do.
func (s *session) schemaDue() string {
	cause := s.srv.schemaDue()
	// For an error the schema is not read at any time: a newer backend has it read now.
	if (cause == "" || cause == metrics.LoadError) && s.b != nil && !s.b.knows.Before(s.srv.keeper.now.Load().at) {
		cause = metrics.LoadBackend
	}
	return cause
}

// renewNames has the schema read where that is due. Without an error the snapshot is as new as
// it must be: in a block it may be older than the last change, of which the block's backend has
// not heard either.
func (s *session) renewNames() error {
	for range 2 { // what is under way may have begun before the change
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

// missing has the schema read for a text that names a relation which the snapshot lacks, from
// now on. Without it the text must not be sent: the relation may have mapped columns.
func (s *session) missing() error {
	for range 2 {
		if mine, err := s.readSchema(metrics.LoadMissing); mine || err != nil {
			return err
		}
	}
	return nil
}

// readSchema has the schema read, by the session's own backend where it keeps one that is
// idle: there may be no other. mine is false where it was under way, or where there is none
// to be read now. An error is for the client, or the session's end, or a lost backend.
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

// unsent reports whether the session's backend is idle, and nothing of the turn has been sent there:
// it can be asked.
func (s *session) unsent() bool {
	return s.b.status == 'I' && !s.b.group && !s.t.touched && s.t.owed.empty()
}

// readHere reads the schema by the session's own backend, which is idle: exchange is a round
// trip to it. Of the sessions that do so at once, one reads for all: mine is false for the
// others, whose backends may know more.
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
	if !answered { // for this session's end, or its backend's: neither says anything of the server
		r.err = errReaderLeft
	}
	s.srv.keeper.fitted(r, cause)
	if answered || stops(err) {
		return true, schemaError(err)
	}
	return true, &lostError{err: err}
}

// meetSchema has the schema read where the session's backend, which is idle, may know a newer
// one than the snapshot, and by that backend: so no text goes there that was planned by an
// older one. erred: also where a server did not know a name. It is made where the backend was
// lent, and before a transaction is run again. An error is one of s.exchange's, or of
// errSchemaUnread.
func (s *session) meetSchema(erred bool) error {
	if !s.srv.keeper.on || s.dedicated || s.srv.keeper.now.Load() == nil { // no text was planned by any
		return nil
	}
	exchange := func(msg []byte, row func([]byte)) (refusal []byte, err error) {
		err = s.asking(func(b *backend) error {
			refusal, err = b.exchangeAll(msg, row, b.patience, s.t.deadline, s.stopped)
			return err
		})
		return refusal, err
	}
	if s.pinned { // its backend is worth the wait
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
			return nil // another has just looked
		}
	}
}

// overtaken reports whether a text that is about to be sent must be planned anew, which has the schema read.
// It must where a question of Sluice's own, asked since the last reading, was told that the backend's catalog
// was old: the server tells a backend once, and the text would run by the old plan. try is how often the text
// was planned anew. An error is for the client: something has been sent already, or the schema does not come
// to rest.
func (s *session) overtaken(try int) (bool, error) {
	switch {
	case s.mapped.planned == nil || s.b.knows.Before(s.srv.keeper.now.Load().at):
		return false, nil
	case try == mostCatalogTries || !s.unsent():
		return false, errSchemaChanged
	}
	return true, nil
}

// outplanned reports whether the schema was read, and has changed, since the text at hand was
// planned: where its backend was lent.
func (s *session) outplanned() bool {
	return s.mapped.planned != nil && s.mapped.planned.Schema() != s.srv.keeper.now.Load().Schema
}

// awaitSchema waits for the end of a reading, for schemaWait. A session that holds a backend
// meanwhile waits for schemaWaitInBlock, and longer only while somebody's question is with a
// server: a reading that has no backend may be waiting for this session's. Cancel, the
// statement's time and the client's end are heeded. The error is for the client, or the
// session's end.
func (s *session) awaitSchema(r *schemaRead) error {
	end := time.Now().Add(schemaWait)
	tick := s.tick.Load()
	err := errWaitedEnough
	for err == errWaitedEnough {
		until := end
		if s.b != nil { // somebody may wait for it, whoever reads
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
			case <-r.done: // meanwhile
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

// schemaError is the error of a session whose reading has ended so, or its wait for one.
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

// whyLate is why a reading that a session has waited for since began has not ended: for want of a
// backend, which the reader may await for longer, or of an answer.
func (srv *Server) whyLate(began time.Time) error {
	if srv.keeper.asked.Load() == 0 {
		return srv.backends.WhyEmpty(began)
	}
	return errSchemaLate
}

// schemaUnread is the message of errSchemaUnread, by which isUnread knows it.
const schemaUnread = "the relations of the database could not be read"

// errSchemaUnread refuses a text of which nobody knows what its names stand for.
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

// isUntold reports whether an error is of errSchemaUnread, and there because the server
// refused to tell.
func isUntold(err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	return ok && e.Message == schemaUnread && strings.HasPrefix(e.Detail, serverSaid)
}

// isUnread reports whether an error is of errSchemaUnread.
func isUnread(err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	return ok && e.Message == schemaUnread
}
