package proxy

import (
	"errors"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/mapping"
	"github.com/sluice-proxy/sluice/proxy/question"
	"github.com/sluice-proxy/sluice/proxy/serverfacts"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
)

// This file decides when a session loads the schema, on which backend, and how long the session waits.

// schemaWait limits a session's wait for the schema, and schemaWaitInBlock the wait of a session with a backend.
const (
	schemaWait        = exchangeTimeout + 3*time.Second // time for one lost answer and a second try
	schemaWaitInBlock = time.Second
)

// schemaLoadCause returns why Sluice must load the schema before it plans the session's next text. If the snapshot of
// the schema is new enough, the result is "".
func (s *session) schemaLoadCause() string {
	// After a failed load Sluice pauses before the next load, unless the session's backend has a newer schema.
	if s.b != nil {
		return s.srv.pool.keeper.CauseOnBackend(s.srv.pool.templates.Epoch(), s.b.catalogCurrentAt)
	}
	return s.srv.pool.keeper.Cause(s.srv.pool.templates.Epoch())
}

// loadSchemaIfDue loads the schema if Sluice's snapshot of it is too old. If the result is nil, the snapshot is new
// enough. In a block it may lack the last schema change, since the block's backend does not know that change either.
func (s *session) loadSchemaIfDue() error {
	for range 2 { // a load in progress may have begun before the change
		cause := s.schemaLoadCause()
		if cause == "" {
			return nil
		}
		mine, err := s.loadSchema(cause)
		if err != nil && mapping.IsNotRead(err) && s.srv.pool.keeper.Snapshot() != nil && (cause == metrics.LoadError || s.b != nil && s.b.status != 'I') {
			return nil
		}
		if mine || err != nil {
			return err
		}
	}
	return s.srv.pool.keeper.MissingError()
}

// loadForMissingRelation loads the schema for a text that names a relation which is not in the snapshot. After an
// error the text must not be sent, since the relation may have mapped columns (bytea as text).
func (s *session) loadForMissingRelation() error {
	for range 2 {
		if mine, err := s.loadSchema(metrics.LoadMissing); mine || err != nil {
			return err
		}
	}
	return nil
}

// loadSchema loads the schema, on the session's own backend if it is idle, since no other backend may be free. mine is
// false if another session's load was in progress, or if no load is possible now. A returned error goes to the client,
// ends the session, or is a lost backend.
func (s *session) loadSchema(cause string) (mine bool, err error) {
	if s.b != nil && s.canQueryBackend() {
		return s.loadByOwnBackend(cause, s.b.exchangeRows)
	}
	r, mine := s.srv.pool.keeper.Start(cause)
	switch {
	case r != nil:
		return mine, s.awaitSchemaLoad(r)
	case cause == metrics.LoadChange:
		if err := s.srv.pool.keeper.LastError(); err != nil {
			return false, mapping.NotRead(err)
		}
	}
	return false, nil
}

// canQueryBackend reports whether Sluice can send the session's backend a query of its own. The backend must be idle,
// and must have got no frame of the turn.
func (p *pairing) canQueryBackend() bool {
	return p.b.status == 'I' && !p.b.groupOpen && !p.t.touched && p.t.owed.empty()
}

// loadByOwnBackend loads the schema on the session's own idle backend. The function exchange makes the round trip. If
// several sessions load at once, one of them loads for all. The others get mine as false, since their backends may know
// a newer schema.
func (s *session) loadByOwnBackend(cause string, exchange func(msg []byte, row func([]byte)) ([]byte, error)) (mine bool, err error) {
	mine, err = s.srv.pool.keeper.LoadOn(cause, schemaQuery(func(query string, row func([]byte)) (refusal []byte, err error) {
		question.RetryInterrupted(func() (string, error) {
			refusal, err = exchange(serverfacts.Query(query, s.srv.cfg.Kind == Postgres), row)
			return string(retry.ErrorField(refusal, 'C')), err
		})
		return refusal, err
	}), s.awaitSchemaLoad)
	if unanswered, ok := errors.AsType[*mapping.NoAnswerError](err); ok {
		if err = unanswered.Err; !interrupt.EndsTurn(err) {
			err = &lostError{err: err}
		}
	}
	return mine, err
}

// refreshSchema loads the schema on the session's idle backend if that backend may know a newer schema than Sluice's
// snapshot. So Sluice sends it no text planned by an older schema. erred means that a server did not know a name.
// refreshSchema must be called when the session gets a backend, and before a replay. Errors are those of
// exchangeInTurn, or mapping.NotRead.
func (s *session) refreshSchema(erred bool) error {
	if !s.srv.pool.keeper.Maps() || s.dedicated || s.srv.pool.keeper.Snapshot() == nil { // no text was planned by a schema
		return nil
	}
	exchange := func(msg []byte, row func([]byte)) (refusal []byte, err error) {
		err = s.runExchange(func(b *backend) error {
			refusal, err = b.doExchange(msg, row, b.answerTimeout, s.t.clock.Deadline(), s.waits.CheckInterruption)
			return err
		})
		return refusal, err
	}
	if s.pin.IsPinned() { // a pinned backend must not be lost to a timeout
		exchange = s.b.exchangeRows
	}
	for {
		cause := s.schemaLoadCause()
		if cause == "" || cause == metrics.LoadError && !erred {
			return nil
		}
		mine, err := s.loadByOwnBackend(cause, exchange)
		if mine || err != nil && !mapping.IsNotRead(err) {
			return err
		}
		if cause == metrics.LoadError {
			return nil // another session has just loaded the schema
		}
	}
}

// mustReplan reports whether a text must be planned again before Sluice sends it. That is so if a query of Sluice
// itself got the error that the backend's catalog was out of date. The server reports this only once, and would then
// run the old plan. try is the number of earlier plans. An error goes to the client: part of the turn was sent, or the
// schema changes too often.
func (s *session) mustReplan(try int) (bool, error) {
	switch {
	case s.mapped.Planned() == nil || !s.srv.pool.keeper.Snapshot().MayBeOlderThan(s.b.catalogCurrentAt):
		return false, nil
	case try == mostCatalogTries || !s.canQueryBackend():
		return false, sqlerror.SchemaChanged
	}
	return true, nil
}

// isPlanStale reports whether the current text was planned by another schema snapshot than the session's current one.
func (s *session) isPlanStale() bool {
	return s.mapped.IsPlanStale(currentSnapshot(s))
}

// currentSnapshot returns the schema snapshot for the session's next text. In a transaction with DDL it may be the
// snapshot that readOwnSchema read in the transaction.
func currentSnapshot(s *session) *mapping.Snapshot {
	if hasTxSchema(s) && s.txStatus() != 'E' {
		return s.b.txSchema
	}
	return s.srv.pool.keeper.Snapshot()
}

// hasTxSchema reports whether readOwnSchema has read the schema since the transaction's last change of the schema.
func hasTxSchema(s *session) bool {
	return s.b != nil && s.b.txSchema != nil && s.b.txSchema.Epoch() == s.schema.txEpoch
}

// readOwnSchema reads the schema on the block's backend before Sluice plans the text sql, if the transaction's DDL may
// concern that text. Other backends do not see the DDL. An error goes to the client, or is a lost backend.
func readOwnSchema(s *session, sql []byte) error {
	c, now := &s.schema, s.srv.pool.keeper.Snapshot()
	switch {
	case !c.ddl || hasTxSchema(s) || s.txStatus() == 'E',
		!c.maps && !now.ResolverForUnknownPath().MayConcernMapped(sql), mapping.IsSchemaIndependent(s.planner().Plan(sql)):
		return nil
	case s.b == nil || s.b.status != 'T' || s.t.touched || !s.t.owed.empty():
		return mapping.ErrBehindDDL
	}
	own, err := s.srv.pool.keeper.ReadInBlock(schemaQuery(func(query string, row func([]byte)) ([]byte, error) {
		return s.b.exchangeRows(serverfacts.Query(query, s.srv.cfg.Kind == Postgres), row)
	}), c.txEpoch)
	s.waits.Arm()
	if refused, ok := errors.AsType[*mapping.RefusedError](err); ok {
		return &wire.Error{Code: refused.Code, Message: refused.Message}
	} else if err != nil {
		s.tx.log.RefuseReplay(retry.Pinned) // the log for a replay does not have the text yet
		return &lostError{err: err}
	}
	s.b.txSchema = own
	return nil
}

// awaitSchemaLoad waits up to schemaWait for another session's load of the schema. A session with a backend waits only
// schemaWaitInBlock, since the load may need that backend. It waits longer while the load's query is running. A cancel,
// a timeout and the client's leaving end the wait. Errors go to the client or end the session.
func (s *session) awaitSchemaLoad(r *mapping.Load) error {
	end := time.Now().Add(schemaWait)
	tick := s.waits.Tick()
	err := interrupt.ErrLimit
	for err == interrupt.ErrLimit {
		until := end
		if s.b != nil { // the load may be waiting for this backend
			until = interrupt.Earlier(end, time.Now().Add(schemaWaitInBlock))
		}
		ctx, over := s.waitContext(until, lookInLineEvery)
		select {
		case <-r.Done():
			err = r.Err()
		case <-ctx.Done():
			err = s.waits.Error(ctx)
		}
		over()
		if err == interrupt.ErrLimit && (!time.Now().Before(end) || !s.srv.pool.keeper.IsQuerying()) {
			select {
			case <-r.Done(): // the load has ended meanwhile
				err = r.Err()
			default:
				err = s.srv.lateLoadCause(end.Add(-schemaWait))
			}
		}
	}
	s.waits.EndSince(tick)
	return wrapSchemaError(err)
}

// wrapSchemaError returns the session's error after a load of the schema, or a wait for the load, has failed with err.
func wrapSchemaError(err error) error {
	if err == nil || interrupt.EndsTurn(err) || err == errClientGone {
		return err
	}
	return mapping.NotRead(err)
}

// lateLoadCause returns why a load of the schema has not ended, for a session that has waited since began. Either no
// backend was free, or the server has not answered.
func (srv *Server) lateLoadCause(began time.Time) error {
	if !srv.pool.keeper.IsQuerying() {
		return srv.pool.backends.EmptyReason(began)
	}
	return mapping.ErrLate
}
