package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/notice"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file passes each frame of the client to the method for the frame's type. handleSync, handleFlush and
// handleFunctionCall handle frames that end a turn or ask for the answers so far. session.handleNextFrame calls
// handleClientFrame for frames outside a COPY.

// handleClientFrame handles the client's next frame, whose header and first bytes are buffered but still unread. Every
// branch reads the whole frame. Only a failed Bind leaves its frame unread, and the caller then skips that frame.
//
// The cases have PostgreSQL's order: after an error the server skips everything but a Sync, even a malformed frame.
func (s *session) handleClientFrame(typ byte, total int) error {
	t := s.t
	if t.server.copying { // the answer to an earlier frame has started a COPY
		return s.relayCopyIn()
	}
	switch typ {
	case wire.Terminate:
		s.sendLastCommit()
		return errTerminated
	case wire.CopyData, wire.CopyDone, wire.CopyFail:
		return s.handleStrayCopyFrame(total)
	case wire.Sync:
		return s.handleSync(total)
	}
	if typ == wire.Close && t.request.altering != nil && !t.server.skip {
		return s.deferClose(total)
	}
	if done, err := refuseQueryAfterFlush(s, typ, total); done {
		return err
	}
	if err := s.finishEarlierFrames(typ); err != nil {
		return err
	}
	switch {
	case t.server.skip:
		return s.skipFrame(typ, total)
	case typ == wire.Flush && total > wire.HeaderLen:
		return s.refuseFrame(total, sqlerror.MessageFormat)
	case s.dedicated:
		return s.passFrameThrough(typ, total)
	case typ == wire.Query:
		return s.handleQuery(total)
	case typ == wire.FunctionCall:
		return s.handleFunctionCall(total)
	case typ == wire.Bind:
		return s.handleBind(total)
	case typ == wire.Parse:
		if why := s.checkParseLength(total); why != nil {
			return s.refuseParse(total, why)
		}
	}
	return s.handleBufferedFrame(typ, total)
}

// sendLastCommit sends the server the last frames of a client that leaves without a Sync, if a frame may commit. As in
// PostgreSQL, that commit takes effect. Other frames are not sent, and the end of the session rolls their transaction
// back. sendLastCommit ignores an error, since the client has left.
func (s *session) sendLastCommit() {
	if t := s.t; t.touched && !t.server.skip && s.b != nil && t.server.outcome.MayCommit() {
		_ = s.flushAndRelay()
	}
}

// handleBufferedFrame handles a frame that Sluice reads into memory as a whole.
func (s *session) handleBufferedFrame(typ byte, total int) error {
	if why := s.reserveFrameMemory(total); why != nil {
		if typ == wire.Parse {
			return s.refuseParse(total, why)
		}
		return s.refuseFrame(total, why)
	}
	frame, err := s.readWholeFrame(total)
	if err != nil {
		return err
	}
	switch typ {
	case wire.Parse:
		return s.handleParse(frame)
	case wire.Describe:
		return s.handleDescribe(frame)
	case wire.Execute:
		return s.handleExecute(frame)
	case wire.Close:
		return s.handleClose(frame)
	}
	return s.handleFlush()
}

// checkParseLength returns the error for a Parse of total bytes that is too long for Sluice or the server, or nil.
func (s *session) checkParseLength(total int) *wire.Error {
	switch {
	case total > s.srv.cfg.MaxStatementBytes:
		return sqlerror.StatementTooLong(total, s.srv.cfg.MaxStatementBytes)
	case s.exceedsServerLimit(total):
		return sqlerror.MessageTooLong(total, s.srv.cfg.MaxMessageBytes)
	}
	return nil
}

// finishEarlierFrames finishes earlier frames of the Sync group before Sluice handles the next frame, of type typ. It
// refuses an ALTER TABLE that waits for the Sync, because another frame follows. If the next frame ends the group, it
// stores the rows of cursors WITH HOLD. It awaits pending replies if a Query or FunctionCall follows without a Sync, or
// if the pipeline is too long. It also awaits a reply that decides how to plan the next text. A returned error belongs
// to the next frame, still unread. Otherwise the caller handles that frame, or skips it if t.server.skip is set.
func (s *session) finishEarlierFrames(typ byte) error {
	t := s.t
	if why := t.notAloneError(typ); why != nil {
		return why
	}
	closes := t.touched && (typ == wire.Query || typ == wire.FunctionCall) // typ ends a group without a Sync
	if (typ == wire.Parse || typ == wire.Bind) && s.isNextTextUnsettled() && !t.server.skip && !t.owed.empty() {
		if err := s.flushAndRelay(); err != nil {
			return err
		}
	}
	if !t.server.skip && !t.owed.empty() && (t.owed.isTooLong() || closes) {
		if err := s.flushAndRelay(); err != nil { // if an answer is an error, Sluice skips the current frame
			return err
		}
	}
	if closes && !t.server.skip {
		if err := s.srv.observers.groupEnding.notify(s); err != nil || t.server.skip {
			return err
		}
		return s.flushToClient() // what fails from now on is the frame at hand
	}
	return nil
}

// isNextTextUnsettled reports whether a pending reply decides what the client's next text means. For example, the reply
// to a COMMIT of changed settings decides whether Sluice or the server answers the next SHOW.
func (s *session) isNextTextUnsettled() bool {
	return s.settings.AreOptionsPending() || s.parts.HasCommittedPart() && s.t.hasFirstTxEnded() || s.settings.HasPendingChanges() && s.t.hasFirstTxEnded()
}

// notAloneError returns an error if a statement waits for the Sync, and a frame of type typ comes before that Sync.
// Such a statement must be the last of its group. If no statement waits, the result is nil.
func (t *turn) notAloneError(typ byte) *wire.Error {
	switch d := t.request.deferred; {
	case t.request.last == errAfterFlush && typ == wire.Close:
	case t.request.last != nil && (t.request.last != errAfterFlush || typ != wire.Flush):
		e := t.request.last
		t.request.last = nil
		return e
	case typ == wire.Flush: // handleFlush finishes the statement
	case t.request.altering != nil:
		st := t.request.altering
		t.request.altering = nil
		return errSteppedDDLNotAlone(st)
	case d != nil:
		t.request.deferred = nil
		return d.NotAlone()
	}
	return nil
}

// exceedsServerLimit reports whether a message of total bytes is longer than the server accepts.
func (s *session) exceedsServerLimit(total int) bool {
	limit := s.srv.cfg.MaxMessageBytes
	return limit > 0 && total > limit
}

// handleSync handles a client's Sync, which ends a turn of the extended protocol. First it stores cursors WITH HOLD,
// and runs an ALTER TABLE that waits for the Sync. If the server has got nothing of the turn, Sluice answers the Sync
// itself. Otherwise it sends the Sync, and handleSync returns when the turn is over.
func (s *session) handleSync(total int) error {
	if err := s.discardBytes(total); err != nil {
		return err
	}
	t := s.t
	if total > wire.HeaderLen { // as in PostgreSQL, a malformed Sync gets an error (even a second one) and ReadyForQuery
		if t.touched && !t.owed.empty() {
			if err := s.flushAndRelay(); err != nil {
				t.request.ended = true
				return err
			}
		}
		if !t.server.skip {
			t.request.ended = true
			return sqlerror.MessageFormat
		}
		s.sendErrorNow(sqlerror.MessageFormat)
	}
	t.request.ended = true
	if !t.server.skip && t.touched {
		if err := s.srv.observers.groupEnding.notify(s); err != nil {
			return err
		}
	}
	if t.server.skip = false; t.settled {
		return nil
	}
	if st := t.request.altering; st != nil {
		t.request.altering = nil
		if s.inBlock() {
			return s.runOutsideAtSync(st)
		}
		if err := s.runDeferredAlter(st, t.request.closing); err != nil {
			return err
		}
	}
	if d := t.request.deferred; d != nil {
		t.request.deferred = nil
		if err := d.Finish(); err != nil {
			return err
		}
	}
	if !t.touched {
		return s.endTurnLocally()
	}
	if err := s.srv.observers.syncing.notify(s); err != nil {
		return err
	}
	// The outcome must record the Sync first, since the log entry says whether this Sync may commit.
	t.owed.push(wire.Sync)
	t.server.outcome.RecordSync()
	s.t.rec.logFrame(wire.Sync, logEntry{commits: t.server.outcome.MayCommit()}, nil)
	s.t.addToBatch(wire.FrameSync)
	return s.finishTurn()
}

// handleFlush handles the client's Flush, which asks for all answers so far, and sends the client these answers. From
// then on a replay must give the same answers.
func (s *session) handleFlush() error {
	if s.t.touched && !s.t.owed.empty() && !isFlushOfBatches(s) {
		if err := s.flushAndRelay(); err != nil {
			return err
		}
	}
	if err := s.sendDelayedTag(); err != nil {
		return err
	}
	if err := finishAtFlush(s); err != nil {
		return err
	}
	return s.flushToClient()
}

// errAfterFlush is the error for a statement after a Flush at which Sluice finished another statement, before the Sync.
var errAfterFlush = &wire.Error{Code: retry.StateUnsupported, Message: "no other statement may follow before the Sync",
	Detail: "The statement before the Flush ran in transactions of its own, and is committed outside of a block.", Hint: "Send a Sync behind the statement."}

// refuseQueryAfterFlush refuses a Query or FunctionCall (errAfterFlush) after a Flush at which Sluice finished a
// statement. The refusal, which done reports, ends the turn.
func refuseQueryAfterFlush(s *session, typ byte, total int) (done bool, err error) {
	t := s.t
	if t.request.last != errAfterFlush || t.server.skip || typ != wire.Query && typ != wire.FunctionCall {
		return false, nil
	}
	t.request.last, t.request.ended = nil, true
	return true, s.refuseFrame(total, errAfterFlush)
}

// finishAtFlush finishes at a client's Flush a statement that waits for the Sync, since the client may await its
// answer. In a block it refuses DDL that Sluice runs in several transactions, because such DDL would end the turn.
func finishAtFlush(s *session) error {
	t := s.t
	st, d, closing := t.request.altering, t.request.deferred, t.request.closing
	if st == nil && d == nil {
		return nil
	}
	t.request.altering, t.request.deferred, t.request.closing = nil, nil, nil
	if st != nil && s.inBlock() {
		return &wire.Error{Code: retry.StateUnsupported, Message: result.AlterationTag(st) + " cannot be carried out at a Flush in a transaction block",
			Hint: "Send a Sync instead of the Flush, or the statement outside of the block."}
	}
	t.request.last = errAfterFlush
	if st != nil {
		return s.runDeferredAlter(st, closing)
	}
	return d.Finish()
}

// flushAndRelay sends the server a Flush and relays answers. If it returns nil, no reply is pending, the turn has its
// ReadyForQuery, or the server awaits COPY data. After an answer that is an error, t.server.skip is set. Meanwhile
// Sluice may have replayed the transaction on another backend, so callers must read s.b again.
func (s *session) flushAndRelay() error {
	s.t.addToBatch(wire.FrameFlush)
	return s.awaitPendingReplies()
}

// unreadPlan is the plan of a text that Sluice has not read, such as a very long text. The text may do anything.
var unreadPlan = &rewrite.Plan{Kind: rewrite.Unknown, Pin: rewrite.PinUnparsed}

// admitPlan gets a backend for a text that is about to be sent. It pins the session to the backend if the plan needs
// that. After an error, which goes to the client or comes from ensureBackend, Sluice must not send the text.
func (s *session) admitPlan(plan *rewrite.Plan) error {
	if s.state == failed {
		return sqlerror.Aborted
	}
	if err := s.srv.observers.admitting.notify(s, plan); err != nil {
		return err
	}
	if err := s.ensureBackend(); err != nil {
		return err
	}
	if st := plan.SingleStatement(); st != nil && st.Executes != "" && s.b.status != 'E' && (!s.pin.IsPinned() || s.b.prepared.HasName(st.Executes)) {
		return sqlerror.NoStatement([]byte(st.Executes)) // no client has prepared this name
	}
	if err := s.srv.observers.admitted.notify(s, plan); err != nil {
		return err
	}
	if plan.Pin != rewrite.NoPin {
		if err := s.pinBackend(plan); err != nil {
			return err
		}
	}
	return s.srv.observers.sending.notify(s, plan)
}

// admitReplanned lets the features (observers) check a plan that replaces an admitted plan, since it may be of another
// kind. The session has its backend, and has sent the server nothing of the query.
func (s *session) admitReplanned(plan *rewrite.Plan) error {
	if err := s.srv.observers.admitting.notify(s, plan); err != nil {
		return err
	}
	return s.srv.observers.sending.notify(s, plan)
}

// borrowForPortal borrows a backend on which a portal with the given plan may run. The features (observers) check the
// plan again, since the client may have bound the portal long ago.
func (s *session) borrowForPortal(plan *rewrite.Plan) error {
	if err := s.ensureBackend(); err != nil {
		return err
	}
	return s.srv.observers.admitting.notify(s, plan)
}

// passFrameThrough sends the server a frame of a dedicated session, which has its own backend. Sluice changes and
// answers nothing. It records pending replies only to find the end of the turn. Frames may have any length.
func (s *session) passFrameThrough(typ byte, total int) error {
	t := s.t
	if err := s.ensureBackend(); err != nil {
		return err
	}
	switch typ {
	case wire.Flush:
		if err := s.forwardBytes(total); err != nil {
			return err
		}
		return s.awaitPendingReplies()
	case wire.Query, wire.FunctionCall:
		t.request.ended = true
		t.owed.push(typ).plan = unreadPlan
		if err := s.forwardBytes(total); err != nil {
			return err
		}
		return s.finishTurn()
	}
	t.owed.push(typ)
	return s.forwardBytes(total)
}

// handleFunctionCall sends the server a FunctionCall, which counts as a write. The function may change the schema,
// settings and the meaning of names. The frame ends the turn. After an error handleFunctionCall drops the frame.
func (s *session) handleFunctionCall(total int) error {
	t := s.t
	t.request.ended, t.request.plan = true, functionPlan
	if s.exceedsServerLimit(total) {
		return s.refuseFrame(total, sqlerror.MessageTooLong(total, s.srv.cfg.MaxMessageBytes))
	}
	err := s.checkReadOnly(unreadPlan)
	if err == nil {
		err = s.admitPlan(functionPlan)
	}
	if err == nil && s.fixedTxTime() != nil {
		err = s.refuseClockRead()
	}
	if err != nil {
		if derr := s.discardBytes(total); derr != nil {
			return derr
		}
		return err
	}
	s.logPlan(unreadPlan)
	s.recordSchemaChange(functionPlan)
	s.b.sequences.History.InvalidateNames()
	s.tx.ran = true
	s.srv.pool.leftState.RecordCall(&s.b.leftState)
	s.markSettingsReset()
	t.owed.push(wire.FunctionCall)
	if s.srv.pool.resetsAuto {
		s.settings.Stage(settings.UnseenChange)
	}
	t.server.outcome.RecordFunctionCall()
	if err := s.forwardBytes(total); err != nil {
		return err
	}
	return s.finishTurn()
}

// functionPlan is the plan, a write, of a FunctionCall and of a portal whose text Sluice does not know.
var functionPlan = &rewrite.Plan{Kind: rewrite.Write}

// endTurnLocally ends the turn with a ReadyForQuery of Sluice's own. Outside a block it also ends the transaction. It
// then closes portals, and commits the settings whose SET Sluice answered, or drops them after an error.
func (s *session) endTurnLocally() error {
	s.t.settled = true
	status := s.txStatus()
	if status == 'I' {
		s.endTransaction(false)
		closePortals(s)
		s.settings.EndLocalChanges(s.t.server.errorTold)
		s.srv.observers.returned.notify(s)
	}
	if !s.dedicated {
		if err := s.reportParameters(); err != nil {
			return err
		}
	}
	return s.sendOrWithhold(wire.AppendReadyForQuery(notice.AppendReports(&s.settings, nil, status), status))
}
