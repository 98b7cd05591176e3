package proxy

import (
	"bytes"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// The frames of the log, each written again for the backend that gets it now.

// resendFrame sends one logged frame. Its effects on the session are repeated only in the turn in progress, which
// last reports.
func (s *session) resendFrame(f *retry.Frame[logEntry], last bool) error {
	n := &f.Note
	switch f.Type {
	case 0:
		return s.remakeUndoable(s.payload(f), n, last)
	case incremented:
		s.parseNothing()
		return nil
	case wire.Parse:
		return s.resendParse(n, last)
	case wire.Bind:
		return s.rebind(f, last)
	case wire.Describe:
		s.resendDescribe(f, last)
		return nil
	case wire.Query:
		s.resendQuery(f, last)
		return nil
	}
	// The Execute's row limit is ignored: a needless Parse does no harm.
	s.t.unseen = s.t.unseen || f.Type == wire.Execute
	var plan *rewrite.Plan
	if last {
		plan = n.plan
	}
	o := s.pushRun(f.Type, plan)
	s.t.ownTx.on = s.t.ownTx.on || n.own == opensOwn{expectBegin}
	n.replies(o)
	switch f.Type {
	case wire.Execute:
		s.t.fenced = s.t.fenced || n.silent
		s.runs(o, n.cursor)
		if last && n.kept != nil && !n.kept.whole {
			if n.kept.first { // the new answer may differ
				n.kept.again()
			}
			o.keeps(n.kept)
		}
		s.t.outcome.Execute(n.plan, s.standsAlone())
	case wire.Sync:
		s.t.outcome.Sync()
	}
	if plan != nil {
		o.split, o.bound = plan.InSplit(), n.bound
	}
	s.resendWhole(f)
	return nil
}

// replies sets the reply that the frame's pending entry had the first time. The frame is no Query.
func (n *logEntry) replies(o *owed) {
	if o.swallow = n.silent; o.plan == nil {
		o.retags(n.plan)
	}
	switch {
	case n.told != nil:
		o.reply = n.told
	case n.own != nil:
		o.reply = n.own
	}
}

// resendParse sends a Parse if the backend lacks the statement, and otherwise answers the Parse itself.
func (s *session) resendParse(n *logEntry, last bool) error {
	tmpl := n.tmpl.inForce()
	st := s.b.prepared.find(tmpl)
	if st != nil && st.epoch == s.epoch() && !s.apart() {
		if s.t.unseen {
			s.parseNothing()
		}
		return s.remakeUndoable(wire.FrameParseComplete, n, last)
	}
	if st != nil {
		s.closeOnBackend(st)
	}
	s.parseOnBackend(tmpl, false)
	s.undoable(n, last)
	return nil
}

// resendDescribe sends a Describe of a portal unchanged, or of a statement by its name on this backend. Only in the
// turn in progress does the client get the answer.
func (s *session) resendDescribe(f *retry.Frame[logEntry], last bool) {
	n := &f.Note
	plan, stmt := n.plan, n.stmt
	if !last {
		plan, stmt = nil, nil
	}
	if n.tmpl == nil {
		o := s.pushRun(wire.Describe, plan)
		o.tells(n.plan)
		o.clientStmt, o.swallow = stmt, n.silent
		if s.runs(o, n.cursor); n.cursor != nil {
			n.cursor.into.Begin()
		}
		s.resendWhole(f)
		return
	}
	tmpl := n.tmpl.inForce()
	st := s.prepare(tmpl, false)
	o := s.pushRun(wire.Describe, tmpl.plan)
	o.tmpl, o.stmt, o.clientStmt, o.apart = tmpl, st, stmt, s.apart()
	if n.parsed {
		o.reply = chained(parsedFirst{}, o.reply)
		s.undoable(n, last)
	}
	s.add(wire.AppendNamed(s.t.scratch[:0], wire.Describe, 'S', st.name))
}

// resendQuery sends a simple Query again, in the form that the server needs now.
func (s *session) resendQuery(f *retry.Frame[logEntry], last bool) {
	n := &f.Note
	var plan *rewrite.Plan
	if last {
		plan = n.plan
	}
	kept, ok := s.keptQuery(f, last)
	if !ok {
		s.t.fail(retry.Differs)
		return
	}
	o := s.pushRun(wire.Query, plan)
	if plan == nil {
		o.retags(n.plan)
	}
	s.t.outcome.Query(n.plan)
	if n.answered != nil {
		if n.answered.tag != nil {
			o.reply = resetReply{expectSet, n.answered.tag}
		}
		s.strings(o, n.answered.strung)
	}
	if split := n.plan.InSplit(); split != nil {
		s.add(s.askInTwo(o, split))
		return
	}
	if s.gathersAnew(n, last, kept != "") {
		o.keeps(n.kept)
	}
	if kept != "" {
		s.add(wire.AppendStrings(nil, wire.Query, kept))
		return
	}
	if n.text != "" {
		s.add(wire.AppendStrings(nil, wire.Query, n.text))
		return
	}
	s.resendWhole(f)
}

// undoable makes an error before the newest pending reply undo the frame's change of a prepared name. It applies only
// in the turn in progress, and only if the client does not have the frame's answer.
func (s *session) undoable(n *logEntry, last bool) {
	if last && n.undoes {
		s.t.owed.undoable(n.name, n.prev)
	}
}

// remakeUndoable does what remake does, for a frame that changes a prepared name.
func (s *session) remakeUndoable(b []byte, n *logEntry, last bool) error {
	if err := s.remake(b); err != nil {
		return err
	}
	if !s.t.owed.empty() {
		s.undoable(n, last)
	}
	return nil
}

// remake gives an answer of Sluice's own again, after all pending replies.
func (s *session) remake(b []byte) error {
	if !s.t.owed.empty() {
		s.t.owed.push(0).bytes = bytes.Clone(b)
		return nil
	}
	return s.synthesize(b)
}

// resendWhole sends a frame unchanged from the log.
func (s *session) resendWhole(f *retry.Frame[logEntry]) {
	s.add(wire.AppendHeader(s.t.scratch[:0], f.Type, f.Len()))
	s.addPayload(f)
}

// addPayload sends the payload of a frame whose header was added.
func (s *session) addPayload(f *retry.Frame[logEntry]) {
	s.tx.log.Payload(f, func(piece []byte) error { // it returns no error
		s.add(piece)
		return nil
	})
}

// payload returns a short payload. It is valid until the next use of the turn's scratch buffer.
func (s *session) payload(f *retry.Frame[logEntry]) []byte {
	b := s.t.scratch[:0]
	s.tx.log.Payload(f, func(piece []byte) error { // it returns no error
		b = append(b, piece...)
		return nil
	})
	s.t.scratch = b
	return b
}

// rebind sends a Bind, and first prepares the statement if this backend lacks it. If the statement's result columns
// differ from those that the client was sent, the attempt fails.
func (s *session) rebind(f *retry.Frame[logEntry], last bool) error {
	t, n := s.t, &f.Note
	tmpl := n.tmpl.inForce()
	st, ok, err := s.agreed(tmpl, s.epoch(), n.described, func() (bool, error) {
		err := s.settleOwed()
		return err == nil && !t.attemptOver() && !t.skip, err
	})
	switch {
	case err != nil || st == nil:
		return err
	case !ok:
		t.fail(retry.Differs)
		return nil
	}
	if tmpl.split != nil {
		s.lock(tmpl, t.desc, bytes.Clone(s.payload(f)))
	}
	kept, payload, ok := s.keptBind(f, last)
	if !ok {
		t.fail(retry.Differs)
		return nil
	}
	s.gathersAnew(n, last, kept != nil) // for its Execute
	if kept != nil {
		st = s.prepare(kept, false)
		t.owed.push(wire.Bind).tmpl = kept
		s.add(append(wire.AppendBindHead(nil, []byte(n.name), st.name, len(payload)), payload...))
		return nil
	}
	o := t.owed.push(wire.Bind)
	o.tmpl, o.swallow, o.apart = tmpl, n.silent, s.apart()
	t.scratch = wire.AppendBindHead(t.scratch[:0], []byte(n.name), st.name, f.Len())
	s.add(t.scratch)
	s.addPayload(f)
	return nil
}
