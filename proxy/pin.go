package proxy

import (
	"bytes"
	"strings"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file decides when a session is pinned. A pinned session keeps its backend, because it may have left state there
// that no other backend has. admitPlan pins before it sends a statement, pinForRole when the server reports a role, and
// acquireForSequences for sequences.

// pinBackend keeps the session's backend until the session ends, because plan may leave state there. It is called
// before the statement runs. If the statement leaves nothing, the pin is removed at the end of the turn or at the
// error. After an error (too many sessions are pinned), which goes to the client, the plan must not be sent.
func (s *session) pinBackend(plan *rewrite.Plan) error {
	why := plan.Pin
	if why == rewrite.NoPin {
		return nil
	}
	if !s.sequences.RecordOtherPin() {
		return errPinBehindDiscard
	}
	s.foundState = false
	s.mapped.RecordPin(why, s.pinned)
	// A PREPARE remains even if another statement of its Sync group fails, so that its pin must remain.
	nothing := pinLeavesNothing[why] || why == rewrite.PinAdvisory && s.srv.cfg.Kind != Postgres // DSQL refuses advisory locks
	undone := len(plan.Statements) == 1 && nothing && (why != rewrite.PinPrepare || s.t.ended)
	// A multi-statement query may leave state on the backend even if one of its statements fails.
	if s.pinned {
		s.t.pinnedByTurn, s.t.unreadPin, s.t.freshPin = s.t.pinnedByTurn && undone, false, false
		return nil
	}
	if !s.srv.reservePin() {
		return errTooManyPins(s.srv.cfg.MaxPins, pinLabels[why])
	}
	s.pinned = true
	s.t.pinnedByTurn, s.t.unreadPin, s.t.freshPin = undone, why == rewrite.PinUnparsed, true
	s.srv.metrics.CountPin(pinLabels[why])
	s.srv.log.Info("session keeps its backend", append(s.logAttrs(), "reason", pinLabels[why])...)
	return nil
}

// reservePin counts one more pinned session, or returns false if Config.MaxPins sessions are pinned.
func (srv *Server) reservePin() bool {
	if srv.pinned.Add(1) <= int64(srv.cfg.MaxPins) {
		return true
	}
	srv.pinned.Add(-1)
	return false
}

// pinLeavesNothing lists the reasons for a pin whose statement leaves nothing on the backend if it fails, because the
// rollback removes everything. A session lock is not listed, since the lock remains after an error.
var pinLeavesNothing = map[rewrite.PinReason]bool{rewrite.PinPrepare: true, rewrite.PinListen: true,
	rewrite.PinHoldCursor: true, rewrite.PinTemp: true, rewrite.PinSetConfig: true, rewrite.PinRole: true}

// unpinAfterError removes the pin if the error shows that the statement left nothing on the backend. head is the
// pending reply that the error answers. In a block the session still keeps the backend until the block ends.
func (s *session) unpinAfterError(head *pendingReply, payload []byte) {
	if !s.pinned || !s.t.freshPin && !s.t.unreadPin {
		return
	}
	if s.t.unreadPin {
		// A text that Sluice could not parse has left nothing on the backend if the server reports a syntax error in it.
		if left := &s.t.left; left.TagCount() == 0 && isSyntaxErrorInUnparsed(head, payload) || isErrorOfStatement(payload) && left.LeavesNothing() {
			s.unpin()
		}
		s.t.unreadPin = false // a function may have failed after it left something
		return
	}
	if st := s.failedPinStatement(head); st != nil && (st.Pin == rewrite.NoPin || s.showsStatementNotRun(payload)) {
		s.unpin()
	}
}

// failedPinStatement returns the failed statement of the text that pinned the session, if no earlier statement of the
// text can leave state. Otherwise it returns nil.
func (s *session) failedPinStatement(head *pendingReply) *rewrite.Statement {
	plan, n := head.plan, 0
	if plan == nil && head.tmpl != nil {
		plan = head.tmpl.Plan
	}
	if head.kind == wire.Query {
		n = s.t.statement
	}
	if plan == nil || plan.Pin == rewrite.NoPin || head.kind == wire.Query && s.t.script != nil || n >= len(plan.Statements) {
		return nil
	}
	for i := range n {
		if plan.Statements[i].Pin != rewrite.NoPin {
			return nil
		}
	}
	return &plan.Statements[n]
}

// showsStatementNotRun reports whether an error shows that its statement did not run at all. DSQL refused the statement
// (0A000), or the server found a wrong name or type at a position in the text. DO, CALL and LOAD are included, which
// may leave state on the backend if they fail halfway.
func (s *session) showsStatementNotRun(payload []byte) bool {
	code := string(retry.ErrorField(payload, 'C'))
	return s.srv.cfg.Kind == DSQL && code == retry.StateUnsupported ||
		strings.HasPrefix(code, "42") && retry.ErrorField(payload, 'P') != nil && isErrorOfStatement(payload)
}

// isErrorOfStatement reports whether a server's error comes from the client's statement itself, not from a function
// that the statement calls.
func isErrorOfStatement(payload []byte) bool {
	return retry.ErrorField(payload, 'q') == nil && retry.ErrorField(payload, 'W') == nil
}

// recordUnparsedTag records the command tag of a statement whose text Sluice could not parse.
func recordUnparsedTag(s *session, o *pendingReply, _ *rewrite.Statement, tag []byte) {
	if s.t.unreadPin && o.plan.Pin == rewrite.PinUnparsed {
		s.t.left.RecordTag(tag)
	}
}

// unpinUnparsed removes the pin of an unparsed text that ran, if words and command tags show that no state was left.
// The backend's settings are then reset, since functions may have changed them.
func (s *session) unpinUnparsed() {
	if s.pinned && s.t.unreadPin && s.t.left.LeavesNothing() {
		s.unpin()
		s.b.mayHaveUnseenSettings = s.b.mayHaveUnseenSettings || s.srv.cfg.Reset != ResetNever
	}
}

// unpin removes the pin that the current turn made, so that the session may return its backend.
func (s *session) unpin() {
	s.pinned, s.t.pinnedByTurn, s.t.freshPin, s.t.unreadPin = false, false, false, false
	s.srv.pinned.Add(-1)
}

// isSolePinStatement reports whether the plan's single statement pinned the session and leaves nothing if it fails. A
// replay after OC001 is then possible: the statement has not run. State that earlier statements of the block left is
// made again when the replay runs these statements.
func (s *session) isSolePinStatement(plan *rewrite.Plan) bool {
	return s.pinned && (s.t.pinnedByTurn || s.tx.held) && len(plan.Statements) == 1 && pinLeavesNothing[plan.Pin]
}

// After a pin, a transaction is not replayed for a lost backend or a data conflict, since the pinning statement may
// have run. Only OC001 (a schema conflict) proves that the statement has not run.

// unpinForReplay removes the pin of a statement that failed with OC001, before its replay. repinForReplay pins again
// when the replay sends the statement.
func (s *session) unpinForReplay() {
	if s.tx.pins && s.pinned && !s.tx.held {
		s.pinned, s.t.pinnedByTurn = false, false
		s.srv.pinned.Add(-1)
	}
}

// repinForReplay pins the session for a statement that a replay is about to send. With too many pins, the replay fails.
func (s *session) repinForReplay(plan *rewrite.Plan) {
	if s.tx.pins && plan != nil && plan.Pin != rewrite.NoPin && s.pinBackend(plan) != nil {
		s.t.abandonAttempt(retry.Pinned)
	}
}

// forbidReplayAfterPin refuses a later replay of the transaction, because a pinning statement has run. Another attempt
// would not find the state that this statement left.
func (s *session) forbidReplayAfterPin(plan *rewrite.Plan) {
	if s.tx.pins && plan.Pin != rewrite.NoPin {
		s.tx.pins = false
		s.tx.log.RefuseReplay(retry.Pinned)
	}
}

// If the session was pinned before the transaction began, a replay is possible only after OC001 (a schema conflict), on
// the same backend. OC001 leaves the backend's state intact. After other failures, a rollback may not have undone all.

// replaysOnlyForSchema reports whether only OC001, a change of the schema, allows a replay of the transaction.
func (s *session) replaysOnlyForSchema() bool { return s.tx.pins || s.tx.held }

// canReplayAnywhere reports whether the transaction may be replayed on any backend, not only on a pinned one.
func (s *session) canReplayAnywhere() bool { return s.tx.log.Replayable() && !s.tx.held }

// hasPinnedBackend reports whether a pinned session still has its backend for a replay. If not, the session ends.
func (s *session) hasPinnedBackend() bool {
	if s.tx.held && s.b == nil {
		s.recordPinLoss()
		return false
	}
	return true
}

// keepPinAfterRefusal reports whether a session that was pinned before the transaction keeps its backend after a
// refused replay. after is the transaction status that the client gets. For 'E', bringBackendToStatus makes a block
// fail on the backend. If it returns false, the session ends.
func (s *session) keepPinAfterRefusal(after byte) bool {
	if !s.tx.held || s.b == nil || s.state == replaying && s.applyEvent(resumed) != nil || s.state != busy {
		return false
	}
	if s.finishCancel(); s.b == nil { // the cancel must not hit the next statement
		return false
	}
	return s.bringBackendToStatus(after)
}

// pinForLeftState pins a session if its functions left state on the backend during the transaction that was rolled
// back. after is the transaction status that the client gets. If it returns false, the backend was returned or lost.
func (s *session) pinForLeftState(after byte) bool {
	if s.b == nil || !s.srv.asksBehind || s.state == replaying && s.applyEvent(resumed) != nil || s.state != busy {
		return false
	}
	s.checkLeftState()
	return s.b != nil && s.pinned && s.bringBackendToStatus(after)
}

// bringBackendToStatus gives the backend, idle or in a failed block, the transaction status that the client gets. For
// 'E' it sends BEGIN and a statement that fails. It reports success.
func (s *session) bringBackendToStatus(after byte) bool {
	for _, step := range []struct {
		in   byte
		text string
	}{{'I', "BEGIN"}, {'T', "SELECT 1/0"}} {
		if after != 'E' || s.b.status != step.in {
			continue
		}
		if _, err := s.b.exchange(wire.AppendStrings(nil, wire.Query, step.text)); err != nil {
			return false
		}
	}
	return s.b.status == after
}

// forbidReplayAfterTag refuses a later replay after FETCH, MOVE, CLOSE, DEALLOCATE and DISCARD of a pinned session. A
// rollback does not undo what these do to WITH HOLD cursors and prepared statements.
func (s *session) forbidReplayAfterTag(tag []byte) {
	if !s.tx.held {
		return
	}
	word, _, _ := bytes.Cut(tag, []byte(" "))
	switch string(word) {
	case "FETCH", "MOVE", "CLOSE", "DEALLOCATE", "DISCARD":
		s.tx.log.RefuseReplay(retry.Pinned)
	}
}

// recordPinLoss records that a pinned session is about to lose its backend, and thus state. The session ends after the
// turn is answered. For a session without a pin, recordPinLoss does nothing.
func (s *session) recordPinLoss() {
	if s.pinned {
		s.pinned, s.foundState, s.pinLost = false, false, true
		s.sequences.ForgetOwnBackend()
		s.srv.pinned.Add(-1)
	}
}

// pinLabels maps the reasons for pinning a session to their names in metrics and log.
var pinLabels = map[rewrite.PinReason]string{
	rewrite.PinPrepare: metrics.PinPrepare, rewrite.PinListen: metrics.PinListen,
	rewrite.PinHoldCursor: metrics.PinHoldCursor, rewrite.PinTemp: metrics.PinTemporary,
	rewrite.PinAdvisory: metrics.PinAdvisoryLock, rewrite.PinSetConfig: metrics.PinSetConfig,
	rewrite.PinSequence: metrics.PinSequence, rewrite.PinSeed: metrics.PinSeed,
	rewrite.PinLoad: metrics.PinLoad, rewrite.PinProcedural: metrics.PinProcedural,
	rewrite.PinUnparsed: metrics.PinUnparsed, rewrite.PinRole: metrics.PinRole,
}
