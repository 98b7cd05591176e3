package proxy

import (
	"bytes"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/request"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// A Describe asks for the parameters and columns of a statement or portal. The server answers the Describe, unless it
// has confirmed the cached answer recently (Config.DescribeMemory). Sluice describes the statements that it answers
// itself. schema.go records the server's descriptions.
//
// Drivers decode rows by the description. So a cached answer must equal the server's current one. An execution whose
// columns would differ is refused, as in PostgreSQL.

// handleDescribe answers a client's Describe frame. A returned error goes to the client.
func (s *session) handleDescribe(frame []byte) error {
	what, name, err := request.ParseTarget(frame, "DESCRIBE")
	if err != nil {
		return err
	}
	if what == 'P' {
		return s.describePortal(name, frame)
	}
	cs := s.statements.Find(name)
	if cs == nil {
		return sqlerror.NoStatement(name)
	}
	if err := s.replanByNames(cs); err != nil {
		return err
	}
	// Sluice may now send the query as two statements. It describes the query in its current form.
	cs.Template = cs.Template.CurrentForm()
	plan := cs.Template.Plan
	here := s.state == failed || s.canAnswerPlan(plan) || s.hasEmulatedSavepoint(plan)
	if cs.Declares != nil || here || s.txStatus() == 'E' {
		if err := s.releaseParseComplete(); err != nil {
			return err
		}
	}
	switch {
	case s.txStatus() == 'E' && !s.isAllowedInFailedBlock(plan):
		return s.describeInFailedBlock(cs)
	case cs.Declares != nil:
		return s.describeDeclare(cs)
	case here:
		s.srv.metrics.CountLocalAnswer(metrics.LocalDescribe)
		params := result.DescribeDeclaredParams(cs.Template.OIDs)
		if st := plan.SingleStatement(); s.srv.handlers[st.Does].params != nil {
			var err error
			if params, err = s.srv.handlers[st.Does].params(st, cs.Template.OIDs); err != nil {
				return err
			}
		}
		if err := s.queueReply(params); err != nil {
			return err
		}
		return s.describeLocally(portal{plan: plan})
	}
	return s.describeStatement(cs)
}

// describeLocally describes a portal that Sluice answers, or a statement, as the portal p with nothing but its plan.
func (s *session) describeLocally(p portal) error {
	h := &s.srv.handlers[p.plan.SingleStatement().Does]
	if h.describe != nil {
		return h.describe(s, p)
	}
	return s.queueReply(result.DescribeOrNoData(h.columns, p.plan.SingleStatement()))
}

// describePortal describes a portal. A portal that Sluice has not recorded, such as an SQL cursor's, may exist on the
// server, so Sluice asks the server.
func (s *session) describePortal(name, frame []byte) error {
	p := s.findPortal(name)
	switch {
	case p.local:
		return s.describeLocally(p)
	case p.work != nil:
		return p.work.describe(s, name)
	case s.b == nil, len(name) == 0 && !p.open:
		return sqlerror.NoPortal(name)
	}
	if p.stmt != nil {
		if err := s.checkDescribeFits(p.stmt.Template, p.stmt.Template.PortalDescription.Load()); err != nil {
			return err
		}
	}
	if err := s.ensureBackend(); err != nil {
		return err
	}
	s.t.rec.logFrame(wire.Describe, logEntry{plan: p.plan, stmt: p.stmt}, frame[wire.HeaderLen:])
	o := s.t.pushStatementReply(wire.Describe, p.plan)
	o.clientStmt, o.split = p.stmt, p.split
	s.t.addToBatch(frame)
	return nil
}

// describeInFailedBlock describes a statement in a failed block. As in PostgreSQL, only statements without rows can be
// described there, and none can be prepared. If the server does not have the statement, the cached description decides.
// Without a cached description, the kind of the query decides.
func (s *session) describeInFailedBlock(cs *statement.Client) error {
	if d := cs.Template.Description.Load(); d != nil && bytes.HasSuffix(d.Frames, wire.FrameNoData) {
		return s.queueReply(d.Frames)
	}
	switch cs.Template.Plan.Kind {
	case rewrite.Empty, rewrite.Setting, rewrite.Control:
		if st := cs.Template.Plan.SingleStatement(); st == nil || st.SetConfigColumns == nil {
			return s.queueReply(result.DescribeDeclaredParams(cs.Template.OIDs), wire.FrameNoData)
		}
		return sqlerror.Aborted
	}
	if s.state == failed || s.b.prepared.Find(cs.Template) == nil {
		if params := result.DescribeRowless(cs.Template.SQL, cs.Template.OIDs); params != nil {
			return s.queueReply(params, wire.FrameNoData)
		}
		return sqlerror.Aborted
	}
	return s.describeOnBackend(cs, s.b.prepared.Find(cs.Template)) // the server has the statement
}

// describeStatement describes a client's statement that the server runs. It asks the server, since another client may
// have changed the schema, unless the server has confirmed the cached description recently. Later runs of the statement
// must match the answer (statement.Client.described).
func (s *session) describeStatement(cs *statement.Client) error {
	if d := s.cachedDescription(cs.Template); d != nil && cs.Epoch == d.Epoch && cs.Template.Parsing == s.parsingKey() && s.srv.isRecentlyConfirmed(d) {
		s.srv.metrics.CountLocalAnswer(metrics.LocalDescribe)
		cs.RecordDescription(&s.memory.account, d)
		if err := s.releaseParseComplete(); err != nil {
			return err
		}
		return s.queueReply(d.Frames)
	}
	if err := s.checkDescribeFits(cs.Template, cs.Template.Description.Load()); err != nil {
		return err
	}
	if err := s.ensureBackend(); err != nil {
		return err
	}
	if s.isPlanStale() {
		if err := s.replanByNames(cs); err != nil {
			return err
		}
	}
	s.revalidateStatement(cs)
	st, err := s.prepareForClient(cs)
	if err == sqlerror.PlanChanged && cs.Described != nil { // PostgreSQL reports this after the parameters
		if params, _ := cs.Described.SplitFrames(); params != nil {
			if terr := s.queueReply(params); terr != nil {
				return terr
			}
		}
	}
	if err != nil || st == nil {
		if err == nil {
			s.undoWaitingParse()
		}
		return err
	}
	return s.describeOnBackend(cs, st)
}

// describeOnBackend sends the server a Describe of st, which is the client's statement cs on that backend. The answer
// goes to the client and into the cache of descriptions.
func (s *session) describeOnBackend(cs *statement.Client, st *statement.Server) error {
	if err := s.ensureBackend(); err != nil {
		return err
	}
	first := s.t.request.parsed
	s.t.request.parsed = waitingParse{}
	s.t.rec.logFrame(wire.Describe, logEntry{tmpl: cs.Template, names: s.mapped.Planned(), stmt: cs, parsed: first.waits}, nil)
	if first.waits {
		s.t.rec.chargeLongText(cs.Template, cs.Template.Cost)
	}
	o := s.t.pushStatementReply(wire.Describe, cs.Template.Plan)
	o.tmpl, o.stmt, o.clientStmt, o.mayUseTempTables = cs.Template, st, cs, s.mayHaveTempTables()
	if first.waits {
		o.reply = chainHandlers(parseDescribeReply{}, o.reply)
		s.t.rec.logUndo(first.name, first.prev)
		s.t.owed.addNameUndo(first.name, first.prev)
	}
	s.t.addToBatch(wire.AppendDescribeOrClose(s.t.scratch[:0], wire.Describe, 'S', st.Name))
	return nil
}

// waitingParse is a Parse whose ParseComplete waits for the Describe after it. Drivers prepare by a Parse and a
// Describe, and drop the name if Describe fails. In that case the client gets one error, and prev has the name again.
type waitingParse struct {
	waits bool
	name  string
	prev  *statement.Client
}

// parseDescribeReply handles the answer to a Describe if Sluice still withholds the ParseComplete before it. It
// withholds a ParameterDescription too, unless that exceeds a buffer. So the client gets all three frames or none.
type parseDescribeReply struct{ defaultHandler }

func (parseDescribeReply) handleFrame(s *session, o *pendingReply, f answer.Frame) (frameVerdict, error) {
	switch {
	case f.Means == answer.Parameters:
		s.t.capture = append(s.t.capture[:0], f.Bytes...)
		if o.done = !f.IsCut(); o.done {
			return swallow, nil
		}
		return pass, s.sendSynthetic(wire.FrameParseComplete)
	case f.Means != answer.Describes || !o.done:
		return undecided, nil
	}
	if err := s.sendSynthetic(wire.FrameParseComplete); err != nil {
		return undecided, err
	}
	half, has := s.t.capture, 0
	if s.t.rec.isRecording() {
		has = s.recordReply(wire.ParameterDescription, half)
	}
	return undecided, s.sendOrWithhold(half[has:])
}

// isDescribeNext reports whether the client's next frame has arrived and describes name, which its last Parse made.
func (l *link) isDescribeNext(name []byte) bool {
	c := &l.client
	typ, total, err := c.NextHeader()
	if err != nil || typ != wire.Describe || total == 0 || total > c.Buffered() || len(name) == 0 || l.txStatus() == 'E' || l.t.nested.on {
		return false
	}
	what, of, err := request.ParseTarget(c.Peek(total), "DESCRIBE")
	return err == nil && what == 'S' && bytes.Equal(of, name)
}

// releaseParseComplete sends the client a ParseComplete that has waited for a Describe. The description follows.
func (l *link) releaseParseComplete() error {
	if !l.t.request.parsed.waits {
		return nil
	}
	first := l.t.request.parsed
	l.t.request.parsed = waitingParse{}
	err := l.queueReply(wire.FrameParseComplete)
	l.t.rec.logUndo(first.name, first.prev)
	return err
}

// undoWaitingParse undoes a Parse whose Describe failed. The name means the client's earlier statement again. The
// client gets one error for the Parse and the Describe.
func (s *session) undoWaitingParse() {
	if s.t.request.parsed.waits {
		s.statements.Set(&s.memory.account, s.t.request.parsed.name, s.t.request.parsed.prev)
		s.t.request.parsed = waitingParse{}
	}
}
