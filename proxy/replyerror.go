package proxy

import (
	"bytes"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
)

// ErrorResponses: understand decides what one means, conflicted whether to replay the transaction. tellError sends
// the client an error. undoFailed and skipOn handle the frames that the server skips. reply calls replyError.

// serverError is what an ErrorResponse means for the turn.
type serverError struct {
	class retry.Class
	cause retry.Cause
	// mapped is the ErrorResponse that replaces the server's for the client; nil keeps the server's.
	mapped []byte
	// original is the ErrorResponse for the client if a replay is refused.
	original []byte
	// replays means that a replay may get another answer.
	replays bool
}

// replyError handles an ErrorResponse. frame holds its first bytes, total is its length. The server will not answer
// the pending replies up to the next Sync. If a replay may get another answer, the error is withheld, the attempt has
// failed (t.phase), and resolve goes on. Prepared names that the skipped frames changed are restored, in the case of
// a replay once that is given up.
func (s *session) replyError(frame []byte, total int) (verdict, error) {
	t := s.t
	payload := frame[wire.HeaderLen:]
	if said := farewellOf(payload); said != nil {
		return s.replyFatal(said)
	}
	if t.owed.empty() {
		return pass, nil
	}
	head := *t.owed.first()
	made := head.fails(s, payload)
	e := s.understand(&head, &made, frame)
	t.ownTx.on = t.ownTx.open // else the server skips the BEGIN
	if told := s.partly(e.class, payload); told != nil {
		e.mapped, e.original = told, told
	}
	if made.Final {
		e.replays, e.mapped = false, made.Instead
	}
	v := pass
	// On a syntax error no statement of the text has run.
	if !notParsed(&head, payload) {
		s.refuseUnread()
	}
	t.unreadRuns = false
	// The repeated part of a transaction is expected to end in this error.
	awaited := s.tx.whole != nil && s.tx.log.AwaitsError() && !e.cause.Conflicts()
	if e.replays && s.noting() && !made.Forced && !awaited {
		s.tx.unknown = e.cause == retry.UnknownName
		s.tx.renamed = s.tx.renamed || s.tx.unknown
		again, err := s.conflicted(e.cause, e.original, len(frame) == total)
		if again || err != nil {
			t.owed.first().done = true // the error answers this reply
			t.undos = s.undosBehind(&head)
			return swallow, err
		}
		v = swallow
	}
	if s.putOff(&head, payload) {
		return swallow, nil
	}
	t.errorTold = true
	s.unpinFailed(&head, payload)
	t.copying = false
	v, err := s.tellError(&head, &made, &e, frame, v)
	if err != nil {
		return v, err
	}
	s.undoFailed(&head)
	return v, s.skipOn(&head)
}

// replyFatal handles an error that ends the backend's connection. Only a dedicated client gets the error; any other
// client's connection goes on.
func (s *session) replyFatal(said *lastWords) (verdict, error) {
	if s.dedicated {
		s.b.said = said
		return pass, nil // the stream ends next
	}
	if s.t.owed.empty() && !s.t.ended { // nothing is pending: the next frame gets the error of the lost backend
		s.b.said = said
		return swallow, nil
	}
	return swallow, &lostError{err: said}
}

// understand classifies the error that answers head, and records in the outcome that the statement has failed. It
// drops what the error disproves: a cached schema, or prepared statements that the backend was believed to have.
func (s *session) understand(head *owed, made *answer.Error, frame []byte) (e serverError) {
	payload := frame[wire.HeaderLen:]
	hint, otherForm := s.refusedForm(head, made, payload)
	stale, deallocated := s.stale(head, payload), s.deallocated(head, made, payload)
	if stale || schemaConflict(payload) || planChanged(payload) && (head.tmpl == nil || s.srv.catalog.trusts(head.tmpl)) {
		s.srv.catalog.flush()
	}
	if deallocated {
		s.b.suspect = true // a client deallocated Sluice's statements
	}
	unknown := unknownName(payload) && !made.Forced
	if unknown {
		s.srv.keeper.erred.Store(true)
		unknown = s.mayPlanAnew(head)
	}
	at := s.t.outcome.Seen()
	s.t.outcome.Failed(s.endsAnyway(head))
	e.class, e.cause = retry.Classify(retry.Field(payload, 'C'), retry.Field(payload, 'M'))
	s.srv.metrics.TxError(s.tx.operation, e.class.String())
	e.mapped, e.original = s.mappedError(head, made, frame, hint, &at), frame
	switch {
	case otherForm:
		e.cause = retry.FormRefused
		if e.mapped != nil {
			e.original = e.mapped
		}
	case stale:
		e.cause = retry.FormRefused
	case deallocated:
		e.cause = retry.BackendLost
	case unknown:
		e.cause = retry.UnknownName
		if e.mapped != nil {
			e.original = e.mapped
		}
	}
	e.replays = e.class == retry.Conflict || otherForm || unknown || (stale || deallocated) && s.runsAnywhere()
	return e
}

// unknownName reports whether the server does not know a table or column that the statement names. Then the cached
// schema may be out of date.
func unknownName(payload []byte) bool {
	switch string(retry.Field(payload, 'C')) {
	case "42703", "42P01":
		return true
	}
	return false
}

// schemaConflict reports whether an error is DSQL's OC001: the schema has changed, and the cached schema is out of
// date.
func schemaConflict(payload []byte) bool {
	return string(retry.Field(payload, 'C')) == "40001" && bytes.Contains(retry.Field(payload, 'M'), []byte("(OC001)"))
}

// tellError sends the client the error or its replacement. v is the verdict so far; the result says whether frame
// itself still passes. A CommandComplete that waited for an index job is sent first.
func (s *session) tellError(head *owed, made *answer.Error, e *serverError, frame []byte, v verdict) (verdict, error) {
	if made.Forced {
		v = swallow
		if err := s.passSpan(made.Instead); err != nil {
			return v, err
		}
	}
	if err := s.tellTag(); err != nil {
		return v, err
	}
	s.tx.job.Failed()
	if v == pass && made.Front != nil {
		if err := s.synthesize(made.Front); err != nil {
			return v, err
		}
	}
	if e.mapped == nil || v != pass {
		return v, nil
	}
	if s.noting() && s.noteReply(wire.ErrorResponse, frame) > 0 {
		return swallow, nil
	}
	return swallow, s.passSpan(e.mapped)
}

// undoFailed restores the client's prepared names that the skipped frames changed, and what the backend is believed
// to have prepared.
func (s *session) undoFailed(head *owed) {
	for _, u := range s.undosBehind(head) {
		s.setStatement(u.name, u.prev)
	}
}

// undosBehind returns the changes of prepared names to undo after the error that answers head, in the order to undo
// them.
func (s *session) undosBehind(head *owed) []undo {
	own := head.kind == wire.Parse && !head.swallow
	undos := s.t.owed.failed(s.skipped)
	if last := len(undos) - 1; own && last >= 0 && undos[last].name == "" {
		undos[last].prev = nil // a failed Parse still destroys the unnamed statement
	}
	return undos
}

// skipOn makes sure that the server, which skips frames after an error, gets a Sync. If the client's Sync is still to
// come, its frames are skipped until then.
func (s *session) skipOn(head *owed) error {
	q := &s.t.owed
	switch {
	case head.boundary():
	case q.empty() && s.earlySync():
		return s.flushUp()
	case q.empty():
		s.t.skip = true
	case q.first().kind != wire.Sync:
		// The client will send no Sync: a Query followed the failed frames, at least the BEGIN that Sluice sent
		// first.
		*q.first() = owed{kind: wire.Sync}
		s.add(wire.FrameSync)
		return s.flushUp()
	}
	return nil
}

// skipped corrects the backend's prepared statements for a reply that never comes because of an error. A Parse did
// not prepare its statement. A Close did not close its statement.
func (s *session) skipped(o *owed) {
	if o.stmt == nil {
		return
	}
	switch o.kind {
	case wire.Parse:
		s.b.prepared.remove(o.stmt)
	case wire.Close:
		s.b.prepared.orphans = append(s.b.prepared.orphans, o.stmt.name)
	}
}
