package proxy

import (
	"bytes"
	"fmt"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// reply matches one frame of the backend with what it owes. frame may be cut
// short when it is longer than a buffer; total is its whole length.
func (s *session) reply(typ byte, frame []byte, total int) (verdict, error) {
	t := s.t
	switch typ {
	case wire.ParameterStatus, wire.NoticeResponse:
		if typ == wire.ParameterStatus && !s.dedicated {
			s.b.noteParameter(frame)
			return swallow, nil
		}
		if !t.owed.empty() && t.owed.first().swallow {
			return swallow, nil
		}
		return pass, nil
	case wire.NotificationResponse:
		if !s.pinned && !s.dedicated {
			return swallow, nil // of a LISTEN that another client left behind
		}
		return pass, nil
	case wire.ErrorResponse:
		return s.replyError(frame, total)
	}
	if t.owed.empty() {
		return swallow, s.desync(typ)
	}
	if t.looks {
		if done, err := s.maskedReply(typ, frame, total); done || err != nil {
			return swallow, err
		}
	}
	o := t.owed.first()
	v := pass
	if typ == wire.DataRow || typ == wire.CopyData {
		return v, nil // where others are masked
	}
	if o.swallow {
		v = swallow
	}
	switch o.kind {
	case wire.Parse:
		if typ != wire.ParseComplete {
			return v, s.desync(typ)
		}
		if o.tmpl != nil && !s.pinned && o.stmt.epoch&private == 0 { // nil when frames pass unseen
			o.tmpl.accepted.Store(o.stmt.epoch + 1)
		}
	case wire.Bind:
		if typ != wire.BindComplete {
			return v, s.desync(typ)
		}
		if o.told != nil && o.told.told != nil { // the server would have refused other columns
			s.confirm(o.told.told)
		}
	case wire.Close:
		if typ != wire.CloseComplete {
			return v, s.desync(typ)
		}
	case wire.Describe:
		switch typ {
		case wire.ParameterDescription:
			t.capture = append(t.capture[:0], frame...)
			o.done = len(frame) == total
			return v, nil
		case wire.RowDescription, wire.NoData:
			s.noteDescription(o, frame, len(frame) == total)
		default:
			return v, s.desync(typ)
		}
	case wire.Execute:
		switch typ {
		case wire.CommandComplete, wire.EmptyQueryResponse, wire.PortalSuspended:
			s.completed(o, typ, frame)
		case wire.CopyInResponse, wire.CopyBothResponse:
			s.startCopy()
			return v, nil
		case wire.CopyOutResponse, wire.CopyDone:
			return v, nil
		default:
			return v, s.desync(typ)
		}
	case wire.Query:
		switch typ {
		case wire.CommandComplete, wire.EmptyQueryResponse:
			s.completed(o, typ, frame)
			t.statement++
			if o.bytes != nil { // a RESET that went as a SET
				return swallow, s.synthesize(o.bytes)
			}
			return v, nil
		case wire.CopyInResponse, wire.CopyBothResponse:
			s.startCopy()
			return v, nil
		case wire.RowDescription, wire.CopyOutResponse, wire.CopyDone:
			return v, nil
		case wire.ReadyForQuery:
			return s.waitsForJob(v), s.replyReady(frame)
		}
		return v, s.desync(typ)
	case wire.FunctionCall:
		switch typ {
		case wire.FunctionCallResponse:
			return v, nil
		case wire.ReadyForQuery:
			return v, s.replyReady(frame)
		}
		return v, s.desync(typ)
	case wire.Sync:
		if typ != wire.ReadyForQuery {
			return v, s.desync(typ)
		}
		return s.waitsForJob(v), s.replyReady(frame)
	}
	t.owed.pop()
	return v, nil
}

// desync says that the backend sent what nobody asked for: its stream cannot
// be trusted any more.
func (s *session) desync(typ byte) error {
	s.srv.log.Error("backend out of step", append(s.logAttrs(), "frame", string(rune(typ)))...)
	return &lostError{fmt.Errorf("unexpected frame %q", typ)}
}

// replyReady is a ReadyForQuery: the turn has settled.
func (s *session) replyReady(frame []byte) error {
	if len(frame) != wire.HeaderLen+1 {
		return &lostError{wire.ErrMalformed}
	}
	s.t.owed.pop()
	s.b.status, s.b.group = frame[wire.HeaderLen], false
	s.t.outcome.ready(s.b.status)
	s.t.settled = true
	s.t.copying = false
	if s.b.status == 'T' && !s.t.mute && !s.t.rerun {
		s.settleParsing()
	}
	if s.dedicated || s.t.mute || s.t.rerun || !s.mayTell() {
		return nil
	}
	if s.b.status == 'I' {
		s.settleSettings(s.t.failed)
		s.foldLocal(s.t.failed)
	}
	return s.tellParameters()
}

// completed is the end of one statement: what it did to the session takes hold.
func (s *session) completed(o *owed, typ byte, frame []byte) {
	if o.plan == nil {
		return
	}
	var tag []byte
	if typ == wire.CommandComplete {
		tag = frame[wire.HeaderLen : len(frame)-1]
	}
	st := s.statementOf(o, o.plan)
	if st != nil {
		s.noteCalls(st)
	}
	s.ended(o, tag)
	if o.plan.Kind > rewrite.Read {
		s.noteRun(o, st, tag)
		s.t.unreadPin = s.t.unreadPin && o.plan.Pin != rewrite.PinUnparsed
	}
	if typ != wire.CommandComplete {
		return
	}
	if st != nil && retry.Missed(tag) {
		s.srv.metrics.TxConditionFailed(st.Operation)
	}
	s.noteTag(tag)
	kind := o.plan.Kind
	if kind <= rewrite.Read || kind == rewrite.Write && len(o.plan.Statements) == 1 {
		return
	}
	s.noteSettings(st, string(tag))
	s.noteKept(st, string(tag))
	if word := string(tag); word == "DISCARD SEQUENCES" || word == "DISCARD ALL" {
		s.discardedSequences(true)
	}
	if st == nil {
		return
	}
	for _, c := range st.Changes {
		if c.Action == rewrite.ResetAll || c.Action == rewrite.DiscardAll {
			s.resetKept()
		}
		if c.Action == rewrite.DiscardAll {
			s.b.prepared.clear()
			s.forgetStatements()
		}
	}
	if st.DeallocateAll {
		s.b.prepared.clear()
		s.forgetStatements()
	}
	if st.Kind == rewrite.DDL {
		s.srv.catalog.flush()
	}
}

// ended is told of a statement that the server has answered, and of the end of a
// transaction that this was.
func (s *session) ended(o *owed, tag []byte) {
	t := s.t
	var did ending
	if o.kind == wire.Query {
		did = t.outcome.answered(o.plan, t.statement, tag)
	} else {
		did = t.outcome.executed(o.plan, s.standsAlone(), tag)
	}
	if did == goesOn {
		return
	}
	if t.logs {
		s.tx.log.Refuse(retry.InnerCommit)
	}
	if did == commits {
		s.schemaCommitted()
	}
}

// endsBlock reports whether o is being answered for a statement that ends a block
// even when it fails.
func (s *session) endsBlock(o *owed) bool {
	if o.plan == nil || o.poison || o.kind != wire.Execute && o.kind != wire.Query {
		return false
	}
	st := s.statementOf(o, o.plan)
	return st != nil && (st.Tx.Verb == rewrite.Commit || st.Tx.Verb == rewrite.PrepareTransaction)
}

// statementOf is the statement of plan that the head of the queue is being
// answered for; nil when nobody knows.
func (s *session) statementOf(o *owed, plan *rewrite.Plan) *rewrite.Statement {
	i := 0
	if o.kind == wire.Query {
		i = s.t.statement
	}
	if i >= len(plan.Statements) {
		return nil
	}
	return &plan.Statements[i]
}

// replyError is an ErrorResponse: the entries up to the next boundary will not
// be answered any more.
func (s *session) replyError(frame []byte, total int) (verdict, error) {
	t := s.t
	payload := frame[wire.HeaderLen:]
	if sev := retry.Field(payload, 'V'); string(sev) == "FATAL" || string(sev) == "PANIC" {
		if s.dedicated {
			return pass, nil // the end of the stream follows
		}
		said := fmt.Errorf("server said %s", retry.Field(payload, 'C'))
		if t.owed.empty() && !t.ended { // all is answered: the loss answers what comes next
			s.b.said = said
			return swallow, nil
		}
		return swallow, &lostError{said}
	}
	if t.owed.empty() {
		return pass, nil
	}
	code := string(retry.Field(payload, 'C'))
	head := *t.owed.first()
	hint, otherForm := s.refusedForm(&head, payload)
	stale := s.stale(&head, payload)
	if stale || code == "40001" && bytes.Contains(retry.Field(payload, 'M'), []byte("(OC001)")) || planChanged(payload) && (head.tmpl == nil || s.srv.catalog.trusts(head.tmpl)) {
		s.srv.catalog.flush()
	}
	if s.deallocated(&head, payload) {
		s.b.suspect = true // somebody deallocated our statements behind our back
	}
	v := pass
	t.outcome.failed(s.endsBlock(&head))
	class, cause := retry.Classify(retry.Field(payload, 'C'), retry.Field(payload, 'M'))
	s.srv.metrics.TxError(s.tx.operation, class.String())
	told := s.mappedError(&head, frame, hint)
	original := frame
	if stale {
		cause = retry.FormRefused
	} else if s.deallocated(&head, payload) {
		cause, stale = retry.BackendLost, true
	}
	if otherForm {
		cause = retry.FormRefused
		if told != nil {
			original = told
		}
	}
	if (class == retry.Conflict || otherForm || stale && s.tx.log.Replayable()) && s.noting() && !head.poison {
		again, err := s.conflicted(cause, original, len(frame) == total)
		if again || err != nil {
			t.owed.first().done = true // it was this one's
			t.undos = t.owed.failed(s.skipped)
			return swallow, err
		}
		v = swallow
	}
	t.failed = true
	if t.unreadPin && notParsed(&head, payload) {
		s.pinned, t.unreadPin = false, false
		s.srv.pinned.Add(-1)
	}
	t.copying = false
	if head.poison {
		v = swallow
		if err := s.passSpan(head.bytes); err != nil {
			return v, err
		}
	}
	if err := s.tellTag(); err != nil {
		return v, err
	}
	if told != nil && v == pass {
		v = swallow
		if !s.noting() || s.noteReply(wire.ErrorResponse, frame) == 0 {
			if err := s.passSpan(told); err != nil {
				return v, err
			}
		}
	}
	own := head.kind == wire.Parse && !head.swallow
	undos := t.owed.failed(s.skipped)
	for i, u := range undos {
		if own && i == len(undos)-1 && u.name == "" {
			u.prev = nil // a Parse that fails destroys the unnamed statement all the same
		}
		s.setStatement(u.name, u.prev)
	}
	switch {
	case head.boundary():
	case t.owed.empty():
		t.skip = true
	case t.owed.first().kind != wire.Sync:
		// The server skips to a Sync that the client never sends: a Query came
		// behind frames that failed, the BEGIN in front of it at least.
		*t.owed.first() = owed{kind: wire.Sync}
		s.addBytes(wire.FrameSync)
		return v, s.flushUp()
	}
	return v, nil
}

// skipped is an entry that the server will not answer because of an error
// before it.
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
