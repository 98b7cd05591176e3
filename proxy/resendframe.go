package proxy

import (
	"bytes"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file sends logged frames again in a replay, in the form that the current backend needs.

// resendFrame sends one logged frame in a replay. last says that the frame belongs to the turn in progress. If it does,
// resendFrame repeats the frame's effects on the session.
func (s *session) resendFrame(f *retry.LoggedFrame[logEntry], last bool) error {
	n := &f.Note
	switch f.Type {
	case 0:
		return s.remakeWithUndo(s.t.rec.loggedPayload(f), n, last)
	case emptyParseType:
		s.t.sendEmptyParse()
		return nil
	case wire.Parse:
		return s.resendParse(n, last)
	case wire.Bind:
		return s.resendBind(f, last)
	case wire.Describe:
		s.resendDescribe(f, last)
		return nil
	case wire.Query:
		s.resendQuery(f, last)
		return nil
	}
	// Sluice treats any Execute as if it had a row limit. At worst Sluice later sends a needless empty Parse (unseen).
	s.t.unseen = s.t.unseen || f.Type == wire.Execute
	var plan *rewrite.Plan
	if last {
		plan = n.plan
	}
	o := s.t.pushStatementReply(f.Type, plan)
	s.t.server.internalTx.on = s.t.server.internalTx.on || n.own == internalBeginReply{expectBegin}
	n.restoreReply(o)
	switch f.Type {
	case wire.Execute:
		s.t.output.fenced = s.t.output.fenced || n.silent
		s.t.markFetchReply(o, n.cursor)
		if last && n.kept != nil && !n.kept.Whole {
			if n.kept.First { // the new answer may differ from the first
				n.kept.Reset()
			}
			o.recordAnswerInto(n.kept)
		}
		s.t.server.outcome.RecordExecute(n.plan, s.mayAutocommit())
	case wire.Sync:
		s.t.server.outcome.RecordSync()
	}
	if plan != nil {
		o.split, o.bound = plan.ActiveSplit(), n.bound
	}
	s.t.resendUnchanged(f)
	return nil
}

// restoreReply gives the pending reply o, which answers a logged frame but no Query, the handler of the first attempt.
func (n *logEntry) restoreReply(o *pendingReply) {
	if o.swallow = n.silent; o.plan == nil {
		o.setRetagReply(n.plan)
	}
	switch {
	case n.told != nil:
		o.reply = n.told
	case n.own != nil:
		o.reply = n.own
	}
}

// resendParse sends a logged Parse if the backend has not prepared the statement. Otherwise Sluice answers the Parse.
func (s *session) resendParse(n *logEntry, last bool) error {
	tmpl := n.tmpl.CurrentForm()
	st := s.b.prepared.Find(tmpl)
	if st != nil && st.Epoch == s.schemaEpoch() && !s.mayHaveTempTables() {
		if s.t.unseen {
			s.t.sendEmptyParse()
		}
		return s.remakeWithUndo(wire.FrameParseComplete, n, last)
	}
	if st != nil {
		s.closeOnBackend(st)
	}
	s.parseOnBackend(tmpl, false)
	s.t.addReplayNameUndo(n, last)
	return nil
}

// resendDescribe sends a logged Describe. It sends a portal's Describe unchanged, and a statement's Describe with this
// backend's name for the statement. The client gets the answer only in the turn in progress (last).
func (s *session) resendDescribe(f *retry.LoggedFrame[logEntry], last bool) {
	n := &f.Note
	plan, stmt := n.plan, n.stmt
	if !last {
		plan, stmt = nil, nil
	}
	if n.tmpl == nil {
		o := s.t.pushStatementReply(wire.Describe, plan)
		o.addSetConfigReply(n.plan)
		o.clientStmt, o.swallow = stmt, n.silent
		if s.t.markFetchReply(o, n.cursor); n.cursor != nil {
			n.cursor.Into.Restart()
		}
		s.t.resendUnchanged(f)
		return
	}
	tmpl := n.tmpl.CurrentForm()
	st := s.prepareOnBackend(tmpl, false)
	o := s.t.pushStatementReply(wire.Describe, tmpl.Plan)
	o.tmpl, o.stmt, o.clientStmt, o.mayUseTempTables = tmpl, st, stmt, s.mayHaveTempTables()
	if n.parsed {
		o.reply = chainHandlers(parseDescribeReply{}, o.reply)
		s.t.addReplayNameUndo(n, last)
	}
	s.t.addToBatch(wire.AppendDescribeOrClose(s.t.scratch[:0], wire.Describe, 'S', st.Name))
}

// resendQuery sends a logged simple Query in a replay, with the text that the server must get now.
func (s *session) resendQuery(f *retry.LoggedFrame[logEntry], last bool) {
	n := &f.Note
	var plan *rewrite.Plan
	if last {
		plan = n.plan
	}
	kept, ok := s.replayQueryText(f, last)
	if !ok {
		s.t.abandonAttempt(retry.Differs)
		return
	}
	o := s.t.pushStatementReply(wire.Query, plan)
	if plan == nil {
		o.setRetagReply(n.plan)
	}
	s.t.server.outcome.RecordQuery(n.plan)
	if n.answered != nil {
		if n.answered.tag != nil {
			o.reply = resetAsSetReply{expectSet, n.answered.tag}
		}
		s.t.setScriptReply(o, n.answered.strung)
	}
	if split := n.plan.ActiveSplit(); split != nil {
		s.t.addToBatch(s.t.markSplitQuery(o, split))
		return
	}
	if s.t.mustRecordAgain(n, last, kept != "") {
		o.recordAnswerInto(n.kept)
	}
	if kept != "" {
		s.t.addToBatch(wire.AppendStrings(nil, wire.Query, kept))
		return
	}
	if n.text != "" {
		s.t.addToBatch(wire.AppendStrings(nil, wire.Query, n.text))
		return
	}
	s.t.resendUnchanged(f)
}

// addReplayNameUndo records an undo of the frame's change of a statement name, if the frame belongs to the turn in
// progress (last). Sluice runs that undo after a server's error at the newest pending reply, or at an earlier one.
func (t *turn) addReplayNameUndo(n *logEntry, last bool) {
	if last && n.undoes {
		t.owed.addNameUndo(n.name, n.prev)
	}
}

// remakeWithUndo repeats in a replay Sluice's own answer to a frame that changes a statement name, and records an undo.
func (s *session) remakeWithUndo(b []byte, n *logEntry, last bool) error {
	if err := s.remakeAnswer(b); err != nil {
		return err
	}
	if !s.t.owed.empty() {
		s.t.addReplayNameUndo(n, last)
	}
	return nil
}

// remakeAnswer sends Sluice's own answer again in a replay, after all pending replies.
func (s *session) remakeAnswer(b []byte) error {
	if !s.t.owed.empty() {
		s.t.owed.push(0).bytes = bytes.Clone(b)
		return nil
	}
	return s.sendSynthetic(b)
}

// resendUnchanged sends a frame of the log as it was sent the first time.
func (t *turn) resendUnchanged(f *retry.LoggedFrame[logEntry]) {
	t.addToBatch(wire.AppendHeader(t.scratch[:0], f.Type, f.Len()))
	t.addLoggedPayload(f)
}

// addLoggedPayload sends the payload of a logged frame whose header was already sent.
func (t *turn) addLoggedPayload(f *retry.LoggedFrame[logEntry]) {
	t.rec.tx.log.EachPayloadPiece(f, func(piece []byte) error { // this function returns no error
		t.addToBatch(piece)
		return nil
	})
}

// loggedPayload returns the payload of a logged frame, which must be short. The slice is valid until the next call.
func (r *recorder) loggedPayload(f *retry.LoggedFrame[logEntry]) []byte {
	b := r.scratch[:0]
	r.tx.log.EachPayloadPiece(f, func(piece []byte) error { // this function returns no error
		b = append(b, piece...)
		return nil
	})
	r.scratch = b
	return b
}

// resendBind sends a logged Bind, and first prepares the statement if this backend lacks it. If the statement's result
// columns differ from those that the client knows, the attempt fails.
func (s *session) resendBind(f *retry.LoggedFrame[logEntry], last bool) error {
	t, n := s.t, &f.Note
	tmpl := n.tmpl.CurrentForm()
	st, ok, err := s.prepareAndCompare(tmpl, s.schemaEpoch(), n.described, func() (bool, error) {
		err := s.flushPendingReplies()
		return err == nil && !t.isAttemptOver() && !t.server.skip, err
	})
	switch {
	case err != nil || st == nil:
		return err
	case !ok:
		t.abandonAttempt(retry.Differs)
		return nil
	}
	if tmpl.Split != nil {
		s.sendLockStatement(tmpl, t.desc, bytes.Clone(s.t.rec.loggedPayload(f)))
	}
	kept, payload, ok := s.replayBind(f, last)
	if !ok {
		t.abandonAttempt(retry.Differs)
		return nil
	}
	s.t.mustRecordAgain(n, last, kept != nil) // the portal's Execute will record the answer
	if kept != nil {
		st = s.prepareOnBackend(kept, false)
	}
	s.portals.recordBind([]byte(n.name), st, true)
	if kept != nil {
		t.owed.push(wire.Bind).tmpl = kept
		s.t.addToBatch(append(wire.AppendBindHead(nil, []byte(n.name), st.Name, len(payload)), payload...))
		return nil
	}
	o := t.owed.push(wire.Bind)
	o.tmpl, o.swallow, o.mayUseTempTables = tmpl, n.silent, s.mayHaveTempTables()
	t.scratch = wire.AppendBindHead(t.scratch[:0], []byte(n.name), st.Name, f.Len())
	s.t.addToBatch(t.scratch)
	s.t.addLoggedPayload(f)
	return nil
}
