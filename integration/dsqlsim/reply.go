package dsqlsim

import (
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

// oidText is the OID of the type of a job_id, text.
const oidText = 25

// handleReply reads one frame of PostgreSQL, updates the session's state, and passes on to the client what it should
// see.
func (s *session) handleReply() error {
	kind, total, err := s.upstream.peekHeader()
	if err != nil {
		return err
	}
	if s.usage.over && kind != 'Z' {
		return s.discardReply(kind, total)
	}
	switch kind {
	case 'D':
		return s.onDataRow(total)
	case 'd', 'H', 'V', 'S', 'A': // these frames change no state of the session
		return s.relayReply(total)
	case 'N':
		return s.onNoticeResponse(total)
	case 'E':
		return s.onErrorResponse(total)
	case 'C':
		return s.onCommandComplete(total)
	case 'Z':
		return s.onReadyForQuery()
	case 'G':
		return s.onCopyIn(total)
	case 'T', 'n', 't':
		return s.onDescribeReply(kind, total)
	case 's':
		return s.onPortalSuspended(total)
	}
	return s.onAcknowledged(kind, total)
}

// onPortalSuspended handles PortalSuspended: the client has read a part of the result.
func (s *session) onPortalSuspended(total int) error {
	if r := s.replies.first(); r != nil && r.effect != nil {
		s.block.log.incomplete = true // its tag and the rest of its rows are unknown
	}
	if gone, err := s.injectInResult(total); gone || err != nil {
		s.replies.pop()
		return err
	}
	return s.onAcknowledged('s', total)
}

// onAcknowledged handles an answer without content: ParseComplete (1), BindComplete (2), CloseComplete (3),
// EmptyQueryResponse (I), PortalSuspended (s), CopyDone (c).
func (s *session) onAcknowledged(kind byte, total int) error {
	r := s.replies.first()
	if r != nil && r.silent {
		s.replies.pop()
		return s.upstream.discardFrame(total)
	}
	if r != nil && kind != 'c' && !r.endsTurn() {
		s.replies.pop()
	}
	return s.relayReply(total)
}

func (s *session) relayReply(total int) error { return relayFrame(s.toClient, s.upstream.in, total) }

// onDataRow handles a row of a result. If the log has the statement as an effect (it changed something), onDataRow
// adds the row to the effect's digest. A row of a guess (query in place of a statement that cannot run) goes to the
// client only for RETURNING.
func (s *session) onDataRow(total int) error {
	if gone, err := s.injectFaultBeforeRow(total); gone || err != nil {
		return err
	}
	r := s.replies.first()
	switch {
	case r == nil:
	case r.guess != nil && !r.guess.Returning:
		return s.upstream.discardFrame(total)
	case r.effect != nil:
		row, ok, err := s.upstream.peekFrame(total)
		if err != nil {
			return err
		}
		if ok {
			r.effect.sum += rowDigest(row[frameHeader:])
		}
	}
	return s.relayReply(total)
}

// onDescribeReply handles a description: the answer to a Describe, the first half of that answer, or the columns of a
// Query's result.
func (s *session) onDescribeReply(kind byte, total int) error {
	r := s.replies.first()
	if r != nil && r.guess != nil && !r.guess.Returning {
		return s.upstream.discardFrame(total)
	}
	if r == nil || r.kind != 'D' || kind == 't' {
		return s.relayReply(total)
	}
	st := r.currentStatement()
	job := kind == 'n' && st != nil && st.Job
	unasked := r.silent && kind == 'n'
	s.replies.pop()
	if !job && !unasked {
		return s.relayReply(total)
	}
	if err := s.upstream.discardFrame(total); err != nil {
		return err
	}
	if !job {
		return nil
	}
	return s.sendMessage(jobColumns)
}

// onCommandComplete handles CommandComplete, the end of a statement that did not fail.
func (s *session) onCommandComplete(total int) error {
	r := s.replies.first()
	if r == nil || r.kind == 'F' {
		return s.relayReply(total)
	}
	if gone, err := s.injectInResult(total); gone || err != nil {
		if r.kind == 'E' {
			s.replies.pop()
		}
		return err
	}
	body, err := s.upstream.readBody(total)
	if err != nil {
		return err
	}
	tag := strings.TrimSuffix(string(body), "\x00")
	if r.savepoint || r.begin {
		s.block.log.savepointSet = s.block.log.savepointSet || r.savepoint
		s.replies.pop()
		return nil
	}
	if r.guess != nil {
		tag = r.guess.CommandTag(tag)
	}
	if r.replaced != nil && r.replaced.at == r.index {
		s.broken = true
		err := s.sendError(r, r.replaced.by.response())
		if r.kind == 'E' {
			s.replies.pop()
		}
		return err
	}
	st := r.currentStatement()
	if over := s.countUsage(r, st, tag); over != nil {
		return s.refuseOverLimit(r, over)
	}
	if err := s.awaitJob(); err != nil {
		return err
	}
	s.recordSuccess(r, st, tag)
	if st != nil {
		if err := s.finishStatement(r, st, &tag); err != nil {
			return err
		}
	}
	s.journal.recordSuccess(st, tag)
	if r.index++; r.kind == 'E' {
		s.replies.pop()
	}
	return s.sendMessage(&pgproto3.CommandComplete{CommandTag: []byte(tag)})
}

// recordSuccess updates the session's state after the statement of reply r has succeeded. tag is its command tag.
func (s *session) recordSuccess(r *pendingReply, st *dialect.Statement, tag string) {
	b := &s.block
	b.attempt = statementAttempt{}
	if r.effect != nil {
		r.effect.tag = tag
		b.log.addEffect(*r.effect)
		r.effect = nil
	}
	switch {
	case st == nil:
		b.log.incomplete = b.log.incomplete || r.kind == 'E'
	case st.Kind == dialect.DDL:
		s.schema.changing = true
	case st.Verb == "UPDATE", st.Verb == "DELETE", st.Verb == "WITH":
		b.changedRows = true
	case st.Kind == dialect.Commit:
		b.committed = tag == "COMMIT"
	case st.Kind == dialect.Begin:
		b.beginSQL = st.SQL
	case st.Verb == "DEALLOCATE":
		clear(s.names.standing)
	}
}

// finishStatement completes a statement of a special kind: it sets the command tag that DSQL has, and answers with a
// job's id.
func (s *session) finishStatement(r *pendingReply, st *dialect.Statement, tag *string) error {
	if st.Tag != "" {
		*tag = st.Tag
	}
	s.injectAfter(st, *tag)
	if !st.Job {
		return nil
	}
	if r.kind == 'Q' {
		if err := s.sendMessage(jobColumns); err != nil {
			return err
		}
	}
	return s.sendJobID()
}

// onErrorResponse handles an ErrorResponse, which ends the statement. In the extended protocol it voids all frames up
// to Sync.
func (s *session) onErrorResponse(total int) error {
	r := s.replies.first()
	if r.isErrorReported() {
		err := s.upstream.discardFrame(total)
		s.recordFailure(r)
		return err
	}
	if total > maxReply {
		if err := s.relayReply(total); err != nil {
			return err
		}
		s.recordFailure(r)
		return nil
	}
	body, err := s.upstream.readBody(total)
	if err != nil {
		return err
	}
	var e pgproto3.ErrorResponse
	if err := e.Decode(body); err != nil {
		return upstreamError(err)
	}
	if r == nil {
		return s.sendMessage(&e)
	}
	if s.canReplay(r, &e) {
		return s.replayFrames(r, &e)
	}
	if e.Position > 0 {
		e.Position += r.offset
	}
	told := translateError(&e, r.marked)
	if r.guess != nil {
		told = dataConflict.response()
	}
	err = s.sendError(r, told)
	s.recordFailure(r)
	return err
}

// sendError sends the client the error of the statement of reply r.
func (s *session) sendError(r *pendingReply, e *pgproto3.ErrorResponse) error {
	s.journal.recordFailure(r.currentStatement(), e.Code)
	s.server.metrics.errors.WithLabelValues(errorLabel(r, e)).Inc()
	if err := s.sendMessage(e); err != nil {
		return err
	}
	return s.toClient.Flush()
}

// recordFailure updates the session's state after the statement of reply r has failed, which makes PostgreSQL skip to
// Sync.
func (s *session) recordFailure(r *pendingReply) {
	b := &s.block
	b.attempt = statementAttempt{}
	s.schema.changing, s.broken = false, true
	if r == nil || r.endsTurn() {
		return
	}
	hasSync := s.replies.skipToSync(s.undoFrame)
	s.skipping = !hasSync
}

// onReadyForQuery handles ReadyForQuery, the end of a turn.
func (s *session) onReadyForQuery() error {
	body, err := s.upstream.readBody(frameHeader + 1)
	if err != nil {
		return err
	}
	s.status, s.turn = body[0], turnState{}
	if s.usage.over && s.status == statusInBlock {
		return s.failBlock()
	}
	s.usage.over = false
	s.journal.recordTurnEnd(s.status)
	s.injection.mustFail = false
	if s.status == statusIdle {
		s.usage = transactionUsage{}
		s.endTransaction()
	}
	more := false
	if r := s.replies.first(); r != nil {
		more = r.more && !s.broken
		s.replies.pop()
	}
	if s.injection.atReady != nil {
		return s.injection.atReady
	}
	if more {
		return nil
	}
	if err := s.sendMessage(&pgproto3.ReadyForQuery{TxStatus: s.status}); err != nil {
		return err
	}
	return s.toClient.Flush()
}

// endTransaction resets the session's state after the end of a transaction.
func (s *session) endTransaction() {
	committed := s.block.committed || s.block.beginSQL == ""
	if s.schema.changing && committed && s.server.config.SchemaConflicts {
		s.schema.announceChange()
	}
	s.schema.changing = false
	if s.block.hasSnapshot {
		s.server.certifier.CloseSnapshot(s.block.snapshot, s.block.committed)
	}
	s.block = transactionBlock{}
	s.rules = dialect.Transaction{}
	clear(s.names.portals)
}

// sendMessage writes a message that dsqlsim itself makes to the client's buffer.
func (s *session) sendMessage(m pgproto3.Message) error {
	_, err := s.toClient.Write(encodeMessage(m))
	return err
}

// jobColumns is the RowDescription of the answer to CREATE INDEX ASYNC (recorded).
var jobColumns = &pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{
	Name: []byte("job_id"), DataTypeOID: oidText, DataTypeSize: -1, TypeModifier: -1,
}}}

func errorLabel(r *pendingReply, e *pgproto3.ErrorResponse) string {
	switch {
	case e.Code == codeConflict:
		return "conflict"
	case r.marked != nil && e.Message == r.marked.message:
		return "refused"
	}
	return "postgresql"
}
