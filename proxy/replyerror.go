package proxy

import (
	"bytes"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
)

// ErrorResponses: what one means (understand), whether the transaction is run again for it
// (conflicted), what the client is told (tellError), and which frames the server skips for
// it (undoFailed, skipOn). reply calls replyError.

// serverError is what an ErrorResponse means for the turn.
type serverError struct {
	class retry.Class
	cause retry.Cause
	// mapped is what the client is told in its place; nil: the server's own.
	mapped []byte
	// original is what it is told when a replay is refused.
	original []byte
	// replays: a replay may get another answer.
	replays bool
}

// replyError is an ErrorResponse: the entries up to the next boundary will not be answered
// any more. frame holds as much of it as counts. Where a replay may get another answer, the
// error is withheld and the turn goes on as an attempt that has failed (t.phase); resolve
// sees to the rest. The client's names are put back in either case, in the former when the
// replay is given up.
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
	t.ownTx.on = t.ownTx.open // else the server skips its BEGIN
	if told := s.partly(e.class, payload); told != nil {
		e.mapped, e.original = told, told
	}
	if made.Final {
		e.replays, e.mapped = false, made.Instead
	}
	v := pass
	// The grammar comes first: where it does not take the text, no statement of it has run.
	if !notParsed(&head, payload) {
		s.refuseUnread()
	}
	t.unreadRuns = false
	// An error that ended a discarded part is awaited, and no news.
	awaited := s.tx.whole != nil && s.tx.log.AwaitsError() && !e.cause.Conflicts()
	if e.replays && s.noting() && !made.Forced && !awaited {
		s.tx.unknown = e.cause == retry.UnknownName
		s.tx.renamed = s.tx.renamed || s.tx.unknown
		again, err := s.conflicted(e.cause, e.original, len(frame) == total)
		if again || err != nil {
			t.owed.first().done = true // it was this one's
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

// replyFatal is an error with which the backend ends. It is not the client's: that one's
// connection lives on. A dedicated client gets it.
func (s *session) replyFatal(said *lastWords) (verdict, error) {
	if s.dedicated {
		s.b.said = said
		return pass, nil // the end of the stream follows
	}
	if s.t.owed.empty() && !s.t.ended { // all is answered: the loss answers what comes next
		s.b.said = said
		return swallow, nil
	}
	return swallow, &lostError{err: said}
}

// understand says what the error that answers head means, and forgets what it shows to be
// wrong: what is remembered of the schema, what the backend is believed to hold. The
// outcome is told that the statement has failed.
func (s *session) understand(head *owed, made *answer.Error, frame []byte) (e serverError) {
	payload := frame[wire.HeaderLen:]
	hint, otherForm := s.refusedForm(head, made, payload)
	stale, deallocated := s.stale(head, payload), s.deallocated(head, made, payload)
	if stale || schemaConflict(payload) || planChanged(payload) && (head.tmpl == nil || s.srv.catalog.trusts(head.tmpl)) {
		s.srv.catalog.flush()
	}
	if deallocated {
		s.b.suspect = true // somebody deallocated our statements behind our back
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

// unknownName reports whether an error says that the server knows no relation or column of a
// name: then what is remembered of the schema may be old.
func unknownName(payload []byte) bool {
	switch string(retry.Field(payload, 'C')) {
	case "42703", "42P01":
		return true
	}
	return false
}

// schemaConflict reports whether an error is DSQL's for a schema that has changed: then
// what is remembered of the schema is old.
func schemaConflict(payload []byte) bool {
	return string(retry.Field(payload, 'C')) == "40001" && bytes.Contains(retry.Field(payload, 'M'), []byte("(OC001)"))
}

// tellError gives the client the error, or what it gets in its place, and says whether the
// frame itself still passes. v is what has been decided so far. A tag that waited for a job
// goes first.
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

// undoFailed takes back the client's names that the frames behind an error would have
// changed, and what the backend was believed to hold for them.
func (s *session) undoFailed(head *owed) {
	for _, u := range s.undosBehind(head) {
		s.setStatement(u.name, u.prev)
	}
}

// undosBehind is what takes that back, of the client's names, in its order.
func (s *session) undosBehind(head *owed) []undo {
	own := head.kind == wire.Parse && !head.swallow
	undos := s.t.owed.failed(s.skipped)
	if last := len(undos) - 1; own && last >= 0 && undos[last].name == "" {
		undos[last].prev = nil // a Parse that fails destroys the unnamed statement all the same
	}
	return undos
}

// skipOn has the server, which skips to a Sync, find one. Where the client's own is still
// to come, its frames are skipped until then.
func (s *session) skipOn(head *owed) error {
	q := &s.t.owed
	switch {
	case head.boundary():
	case q.empty() && s.earlySync():
		return s.flushUp()
	case q.empty():
		s.t.skip = true
	case q.first().kind != wire.Sync:
		// The client never sends one: a Query came behind frames that failed, the
		// BEGIN in front of it at least.
		*q.first() = owed{kind: wire.Sync}
		s.add(wire.FrameSync)
		return s.flushUp()
	}
	return nil
}

// skipped is an entry that the server will not answer because of an error before it, or
// that the error answers: a statement that was to be prepared is not held, and one that was
// to be closed is held still.
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
