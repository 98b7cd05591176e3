package proxy

import (
	"encoding/binary"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/finding"
)

// An older cluster refuses FOR UPDATE on a join, so Sluice sends it as two queries. The locking query locks one table's
// rows, and its answers are hidden. The second is the client's query without FOR UPDATE. In a simple Query both are in
// one text. In the extended protocol the locking query runs before the client's Bind, with the same parameter values.

// sentPlan returns the plan of the text that o answers. If Sluice sent the text as two queries (split.go), it also
// returns these. If o answers no text, the results are nil.
func (o *pendingReply) sentPlan() (*rewrite.Plan, *rewrite.SplitQuery) {
	if o.tmpl != nil && o.split == nil {
		return o.tmpl.Plan, o.tmpl.Split
	}
	return o.plan, o.split
}

// checkFormRefusal checks whether the server's error refuses FOR UPDATE in the form that Sluice sent (one query or
// two). hint is the hint for the client's error. again reports that Sluice can send the other form.
func (s *session) checkFormRefusal(o *pendingReply, made *answer.ErrorHandling, payload []byte) (hint string, again bool) {
	plan, split := o.sentPlan()
	if plan == nil {
		return "", false
	}
	hint, again = s.srv.pool.planner.HandleRefusal(plan, split, string(retry.ErrorField(payload, 'C')), retry.ErrorField(payload, 'M'))
	if hint == "" {
		hint = made.Hint
	} else {
		s.srv.metrics.CountUnsupported(plan.Operation, string(finding.JoinForUpdate))
	}
	if again {
		s.srv.log.Info("query is locked by a statement of its own from now on: this cluster takes FOR UPDATE on one table only",
			append(s.logAttrs(), "operation", plan.Operation)...)
	}
	return hint, again
}

// markSplitQuery prepares the pending reply o for a simple Query that Sluice sends as two: a locking query and the
// client's. It returns the frame with both. The first tag answers the locking query, and is hidden.
func (t *turn) markSplitQuery(o *pendingReply, split *rewrite.SplitQuery) []byte {
	o.split, t.output.hidesAnswers, t.output.inspectsFrames = split, true, true
	o.reply = chainHandlers(&lockReply{}, o.reply)
	return wire.AppendStrings(nil, wire.Query, split.Text())
}

// sendLockStatement sends the locking query of a FOR UPDATE statement before the client's Bind. params is the Bind
// after its names, and d the statement's description. Sluice hides the locking query's answers, but not its error. That
// error makes the server skip the Bind.
func (s *session) sendLockStatement(tmpl *statement.Template, d *statement.Description, params []byte) {
	values, ok := silent.PickParams(params, tmpl.Split.Params)
	if !ok {
		return // the server will report the malformed Bind
	}
	t := s.t
	part := &lockReply{}
	mark := func(o *pendingReply) { o.swallow, o.reply, o.plan, o.split = true, part, tmpl.Plan, tmpl.Split }
	seq := t.owed.seq
	// prepareOnBackend sends no Parse if the backend already has the locking query.
	name := s.prepareOnBackend(s.lockTemplate(tmpl, d), false).Name
	if t.owed.seq != seq {
		mark(&t.owed.items[len(t.owed.items)-1]) // the reply to the locking query's Parse
	}
	mark(t.owed.push(wire.Bind))
	s.t.addToBatch(append(wire.AppendBindHead(nil, []byte(lockPortal), name, len(values)), values...))
	mark(t.owed.push(wire.Execute))
	s.t.addToBatch(append(wire.AppendHeader(nil, wire.Execute, len(lockPortal)+5), lockPortal+"\x00\x00\x00\x00\x00"...))
	mark(t.owed.push(wire.Close))
	s.t.addToBatch(wire.AppendDescribeOrClose(nil, wire.Close, 'P', lockPortal))
	t.output.hidesAnswers, t.output.inspectsFrames = true, true
}

// lockPortal names the portal of the locking query (of a FOR UPDATE), because the client may use the unnamed portal.
// Sluice closes the portal at once, so that its name can be bound again.
const lockPortal = "sluice_lock"

// lockTemplate returns the template of the locking query. Its parameters get the types that the server returned for the
// client's query. Without a description they get the types that the client declared.
func (s *session) lockTemplate(tmpl *statement.Template, d *statement.Description) *statement.Template {
	oids := []byte(tmpl.OIDs)
	if d != nil {
		if params, _ := d.SplitFrames(); params != nil {
			oids = params[wire.HeaderLen:]
		}
	}
	types := binary.BigEndian.AppendUint16(nil, uint16(len(tmpl.Split.Params)))
	for _, n := range tmpl.Split.Params {
		oid := uint32(0) // the server infers the type
		if at := 2 + 4*(n-1); at+4 <= len(oids) {
			oid = binary.BigEndian.Uint32(oids[at:])
		}
		types = binary.BigEndian.AppendUint32(types, oid)
	}
	return s.srv.pool.templates.Template(&s.t.scratch, []byte(tmpl.Split.Lock), types, tmpl.Parsing, 0, 0, nil)
}

// lockReply hides the answer to the locking query. In a simple Query the answer to the client's query follows.
type lockReply struct {
	defaultHandler
	over, described bool // over: the locking query has ended; described: the client's rows follow
}

// isLockReply reports whether o is the pending reply of a locking query.
func (o *pendingReply) isLockReply() bool {
	_, is := o.reply.(*lockReply)
	return is
}

// handleFrame hides the locking query's frames up to its command tag. After a tag other than SELECT, or a second tag
// before the client's rows, Sluice no longer trusts the backend's stream.
func (l *lockReply) handleFrame(s *session, o *pendingReply, f answer.Frame) (frameVerdict, error) {
	switch {
	case l.over && (l.described || f.Type != wire.CommandComplete):
		l.described = l.described || f.Type == wire.RowDescription
		return undecided, nil
	case f.Type == wire.RowDescription, f.IsRow():
		return swallow, nil
	case f.Type != wire.CommandComplete:
		return undecided, nil
	case l.over, f.TagVerb() != "SELECT":
		return swallow, s.unexpectedFrameError(f.Type)
	}
	if l.over = true; o.kind != wire.Query {
		s.t.owed.pop()
	}
	return swallow, nil
}
