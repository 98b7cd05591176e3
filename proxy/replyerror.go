package proxy

import (
	"bytes"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file handles ErrorResponses of the server. classifyError decides what an error means, and handleConflict whether
// to replay the transaction. sendError sends the client an error. undoFailedNames and skipToSync handle the client's
// frames that the server skips after an error.

// serverError says what an ErrorResponse of the server means for the client's turn.
type serverError struct {
	class retry.ResultClass
	cause retry.ReplayCause
	// mapped is the ErrorResponse that the client gets instead of the server's, or nil if the client gets the server's.
	mapped []byte
	// original is the ErrorResponse that the client gets if a replay is refused.
	original []byte
	// replays means that a replay of the transaction may get another answer than this error.
	replays bool
}

// handleErrorResponse handles an ErrorResponse of the server. frame holds its first bytes, and total is its length.
// After the error the server skips the client's frames up to the next Sync. If a replay may get another answer, the
// client does not get the error, and runAttempts replays the transaction. Sluice undoes the skipped frames' changes of
// prepared statement names at once, or when the replay has failed.
func (s *session) handleErrorResponse(frame []byte, total int) (frameVerdict, error) {
	t := s.t
	payload := frame[wire.HeaderLen:]
	if said := parseServerFatal(payload); said != nil {
		return s.handleFatalError(said)
	}
	if t.owed.empty() {
		return pass, nil
	}
	head := *t.owed.first()
	made := head.replacementError(s, payload)
	e := s.classifyError(&head, &made, frame)
	t.server.internalTx.on = t.server.internalTx.open // if the server has not yet run Sluice's BEGIN, it skips that BEGIN
	if told := s.partialCommitError(e.class, payload); told != nil {
		e.mapped, e.original = told, told
	}
	if made.Final {
		e.replays, e.mapped = false, made.Instead
	}
	v := pass
	// If the server reports a syntax error in a text that Sluice could not parse, no statement of the text has run.
	if !isSyntaxErrorInUnparsed(&head, payload) {
		s.t.forbidReplayOfUnparsed()
	}
	t.request.unreadRuns = false
	// In the replay of a part that ROLLBACK TO discarded, Sluice expects the part's last error, and makes no other replay.
	awaited := s.tx.whole != nil && s.tx.log.AwaitsError() && !e.cause.MayConflict()
	if e.replays && s.t.rec.isRecording() && !made.Forced && !awaited {
		s.tx.unknown = e.cause == retry.UnknownName
		s.tx.renamed = s.tx.renamed || s.tx.unknown
		again, err := s.handleConflict(e.cause, e.original, len(frame) == total)
		if again || err != nil {
			t.owed.first().done = true // the error is the answer for this pending reply
			t.attempt.undos = s.nameUndosAfter(&head)
			return swallow, err
		}
		v = swallow
	}
	if s.deferToBatches(&head, payload) {
		return swallow, nil
	}
	t.server.errorTold = true
	s.unpinAfterError(&head, payload)
	t.server.copying = false
	v, err := s.sendError(&head, &made, &e, frame, v)
	if err != nil {
		return v, err
	}
	s.undoFailedNames(&head)
	return v, s.skipToSync(&head)
}

// handleFatalError handles an error with which the server closes the backend's connection. A client with a dedicated
// backend gets this error. Any other client does not, because its own connection to Sluice continues.
func (p *pairing) handleFatalError(said *serverFatalError) (frameVerdict, error) {
	if p.dedicated {
		p.b.closingError = said
		return pass, nil // next the server closes the connection
	}
	if p.t.owed.empty() && !p.t.request.ended { // no reply is pending; the client's next frame gets the error
		p.b.closingError = said
		return swallow, nil
	}
	return swallow, &lostError{err: said}
}

// classifyError classifies the error that answers the pending reply head, and records that the statement has failed.
// After an error due to an outdated cached schema, Sluice drops that cache. If a client deallocated statements of
// Sluice, no other session gets the backend.
func (s *session) classifyError(head *pendingReply, made *answer.ErrorHandling, frame []byte) (e serverError) {
	payload := frame[wire.HeaderLen:]
	hint, otherForm := s.checkFormRefusal(head, made, payload)
	stale, deallocated := s.isStaleStatement(head, payload), s.isDeallocated(head, made, payload)
	if stale || isSchemaConflict(payload) || isPlanChanged(payload) && (head.tmpl == nil || s.srv.pool.templates.HasCurrent(head.tmpl)) {
		s.srv.pool.templates.BeginEpoch(true)
	}
	if deallocated {
		s.b.suspect = true // a client has deallocated statements that Sluice prepared on this backend
	}
	unknown := isUnknownName(payload) && !made.Forced
	if unknown {
		s.srv.pool.keeper.RecordNameError()
		unknown = s.canReplanAndResend(head)
	}
	at := s.t.server.outcome.SeenBlock()
	s.t.server.outcome.RecordFailure(s.t.endsBlockOnError(head))
	e.class, e.cause = retry.Classify(retry.ErrorField(payload, 'C'), retry.ErrorField(payload, 'M'))
	s.srv.metrics.CountTxError(s.tx.operation, e.class.String())
	e.mapped, e.original = s.clientErrorFor(head, made, frame, hint, &at), frame
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
	e.replays = e.class == retry.Conflict || otherForm || unknown || (stale || deallocated) && s.tx.pin.ReplaysAnywhere(s.tx.log.Replayable())
	return e
}

// isUnknownName reports whether the server does not know a table or column that the statement names. If so, Sluice's
// cached schema may be out of date.
func isUnknownName(payload []byte) bool {
	switch string(retry.ErrorField(payload, 'C')) {
	case "42703", "42P01":
		return true
	}
	return false
}

// isSchemaConflict reports whether an error is DSQL's OC001: the schema has changed, and Sluice's copy is outdated.
func isSchemaConflict(payload []byte) bool {
	return string(retry.ErrorField(payload, 'C')) == "40001" && bytes.Contains(retry.ErrorField(payload, 'M'), []byte("(OC001)"))
}

// sendError sends the client the server's error (frame), or the replacement in made or e. v says whether the client
// gets frame, and the result is the new decision. First it sends a CommandComplete that waited for an index job.
func (s *session) sendError(head *pendingReply, made *answer.ErrorHandling, e *serverError, frame []byte, v frameVerdict) (frameVerdict, error) {
	if made.Forced {
		v = swallow
		if err := s.sendOrWithhold(made.Instead); err != nil {
			return v, err
		}
	}
	if err := s.sendDelayedTag(); err != nil {
		return v, err
	}
	s.tx.job.Clear()
	if v == pass && made.Front != nil {
		if err := s.sendSynthetic(made.Front); err != nil {
			return v, err
		}
	}
	if e.mapped == nil || v != pass {
		return v, nil
	}
	if s.t.rec.isRecording() && s.recordReply(wire.ErrorResponse, frame) > 0 {
		return swallow, nil
	}
	return swallow, s.sendOrWithhold(e.mapped)
}

// undoFailedNames restores the statement names of the client that changed by frames which the server skips after the
// error. It also drops the records of statements that the backend never prepared, because the server skips their Parse.
func (s *session) undoFailedNames(head *pendingReply) {
	for _, u := range s.nameUndosAfter(head) {
		s.statements.Set(&s.memory.account, u.name, u.prev)
	}
}

// nameUndosAfter returns the changes of statement names to undo after the error for the pending reply head. They are in
// the order of undoing. It also drops the pending replies to frames that the server skips.
func (p *pairing) nameUndosAfter(head *pendingReply) []nameUndo {
	own := head.kind == wire.Parse && !head.swallow
	undos := p.t.owed.dropSkipped(p.b.forgetSkipped)
	if last := len(undos) - 1; own && last >= 0 && undos[last].name == "" {
		undos[last].prev = nil // a failed Parse still destroys the unnamed statement
	}
	return undos
}

// skipToSync makes sure that the server, which skips frames after an error, gets a Sync. If the client has not sent its
// Sync yet, Sluice skips the client's frames up to that Sync.
func (s *session) skipToSync(head *pendingReply) error {
	q := &s.t.owed
	switch {
	case head.endsWithReady():
	case q.empty() && s.t.sendEarlySync():
		return s.flushToBackend()
	case q.empty():
		s.t.server.skip = true
	case q.first().kind != wire.Sync:
		// Sluice's own BEGIN, sent by the extended protocol before a client's Query, has failed. A Query has no Sync.
		*q.first() = pendingReply{kind: wire.Sync}
		s.t.addToBatch(wire.FrameSync)
		return s.flushToBackend()
	}
	return nil
}

// forgetSkipped corrects the record of the backend's prepared statements for a frame that the server has skipped after
// an error. A skipped Parse did not prepare its statement. A skipped Close did not close its statement.
func (b *backend) forgetSkipped(o *pendingReply) {
	if o.stmt == nil {
		return
	}
	switch o.kind {
	case wire.Parse:
		b.prepared.Remove(o.stmt)
	case wire.Close:
		b.prepared.AddOrphan(o.stmt.Name)
	}
}

// isSyntaxErrorInUnparsed reports whether an error is the server's syntax error for a query that Sluice could not
// parse either. If so, no part of the query has run. The result is false for an error in a query inside a function,
// which has a context or an internal query.
func isSyntaxErrorInUnparsed(head *pendingReply, payload []byte) bool {
	plan := head.plan
	if head.kind == wire.Parse && head.tmpl != nil {
		plan = head.tmpl.Plan
	}
	return (head.kind == wire.Parse || head.kind == wire.Query) && plan != nil && plan.Kind == rewrite.Unknown && string(retry.ErrorField(payload, 'R')) == "scanner_yyerror" &&
		retry.ErrorField(payload, 'P') != nil && retry.ErrorField(payload, 'q') == nil && retry.ErrorField(payload, 'W') == nil
}
