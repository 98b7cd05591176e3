package proxy

import (
	"bytes"
	"encoding/binary"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// describe handles the Describe of a statement or portal. The server answers it, unless it has confirmed the cached
// answer recently (Config.DescribeMemory). Sluice describes the statements that it answers itself. schema.go records
// the server's descriptions.
//
// Drivers decode rows by the description. So a cached answer must equal the server's current one. An execution whose
// columns would differ is refused, as in PostgreSQL.

// describe answers a Describe frame. An error is for the client.
func (s *session) describe(frame []byte) error {
	what, name, err := namedTarget(frame, "DESCRIBE")
	if err != nil {
		return err
	}
	if what == 'P' {
		return s.describePortal(name, frame)
	}
	cs := s.statement(name)
	if cs == nil {
		return errNoStatement(name)
	}
	if err := s.asNamed(cs); err != nil {
		return err
	}
	// A query that is now sent as two statements is described in that form.
	cs.tmpl = cs.tmpl.inForce()
	plan := cs.tmpl.plan
	here := s.state == failed || s.localNow(plan) || s.emulates(plan)
	if cs.declares != nil || here || s.status() == 'E' {
		if err := s.tellParsed(); err != nil {
			return err
		}
	}
	switch {
	case s.status() == 'E' && !s.endsFailed(plan):
		return s.describeInFailedBlock(cs)
	case cs.declares != nil:
		return s.describeDeclared(cs)
	case here:
		s.srv.metrics.LocalAnswer(metrics.LocalDescribe)
		params := declared(cs.tmpl)
		if st := plan.Single(); s.srv.handlers[st.Does].params != nil {
			var err error
			if params, err = s.srv.handlers[st.Does].params(st, cs.tmpl.oids); err != nil {
				return err
			}
		}
		if err := s.tell(params); err != nil {
			return err
		}
		return s.describeLocal(plan, nil)
	}
	return s.describeStatement(cs)
}

// describePortal describes a portal. A portal that Sluice has not recorded may exist on the server, as that of a cursor
// in SQL: the server is asked.
func (s *session) describePortal(name, frame []byte) error {
	p := s.portalOf(name)
	switch {
	case p.local && p.plan.Single().Advisory != nil:
		return s.tell(result.LockRow(p.plan.Single().Advisory, p.binary))
	case p.local:
		return s.describeLocal(p.plan, p.formats)
	case !p.open && s.stored[string(name)] != nil:
		return s.describeStored(string(name))
	case p.declares != nil:
		return s.tell(wire.FrameNoData)
	case s.b == nil, len(name) == 0 && !p.open:
		return errNoPortal(name)
	}
	if p.stmt != nil {
		if err := s.mayDescribe(p.stmt.tmpl, p.stmt.tmpl.portal.Load()); err != nil {
			return err
		}
	}
	if err := s.ensureBackend(); err != nil {
		return err
	}
	s.logFrame(wire.Describe, logEntry{plan: p.plan, stmt: p.stmt}, frame[wire.HeaderLen:])
	o := s.pushRun(wire.Describe, p.plan)
	o.clientStmt, o.split = p.stmt, p.split
	s.add(frame)
	return nil
}

// describeInFailedBlock answers as PostgreSQL does: only statements without rows can be described in a failed block.
// Nothing can be prepared there. Without the statement on the server, the cached description decides, or else the kind
// of the text.
func (s *session) describeInFailedBlock(cs *clientStatement) error {
	if d := cs.tmpl.desc.Load(); d != nil && bytes.HasSuffix(d.frames, wire.FrameNoData) {
		return s.tell(d.frames)
	}
	switch cs.tmpl.plan.Kind {
	case rewrite.Empty, rewrite.Setting, rewrite.Control:
		if st := cs.tmpl.plan.Single(); st == nil || st.Told == nil {
			return s.tell(declared(cs.tmpl), wire.FrameNoData)
		}
		return errAborted
	}
	if s.state == failed || s.b.prepared.find(cs.tmpl) == nil {
		if params := rowlessParams(cs.tmpl); params != nil {
			return s.tell(params, wire.FrameNoData)
		}
		return errAborted
	}
	return s.describeOnBackend(cs, s.b.prepared.find(cs.tmpl)) // the server has the statement
}

// rowlessParams returns the ParameterDescription of a text that certainly returns no rows, if the client has declared
// each parameter's type. For any other text it returns nil.
func rowlessParams(tmpl *template) []byte {
	n, ok := rewrite.ReturnsNothing([]byte(tmpl.sql))
	oids := tmpl.oids[min(2, len(tmpl.oids)):]
	if !ok || n > len(oids)/4 {
		return nil
	}
	for at := 0; at < len(oids); at += 4 {
		if oids[at:at+4] == "\x00\x00\x00\x00" {
			return nil
		}
	}
	return declared(tmpl)
}

// declared returns a ParameterDescription of the types that the client's Parse declared.
func declared(tmpl *template) []byte {
	n := declaredParams(tmpl)
	if n == 0 {
		return wire.FrameNoParams
	}
	b := binary.BigEndian.AppendUint16(wire.AppendHeader(nil, wire.ParameterDescription, 2+4*n), uint16(n))
	return append(b, tmpl.oids[2:]...)
}

// describeStatement describes a statement of the server. It asks the server, unless that has confirmed the cached
// description recently: another client of the cluster may have changed the schema. From then on the statement must
// match the answer (clientStatement.described).
func (s *session) describeStatement(cs *clientStatement) error {
	if d := s.described(cs.tmpl); d != nil && cs.epoch == d.epoch && cs.tmpl.parsing == s.parsing() && s.srv.holds(d) {
		s.srv.metrics.LocalAnswer(metrics.LocalDescribe)
		s.describes(cs, d)
		if err := s.tellParsed(); err != nil {
			return err
		}
		return s.tell(d.frames)
	}
	if err := s.mayDescribe(cs.tmpl, cs.tmpl.desc.Load()); err != nil {
		return err
	}
	if err := s.ensureBackend(); err != nil {
		return err
	}
	if s.outplanned() {
		if err := s.asNamed(cs); err != nil {
			return err
		}
	}
	s.asNow(cs)
	st, err := s.onBackend(cs)
	if err == errPlanChanged && cs.described != nil { // PostgreSQL reports this after the parameters
		if params, _ := cs.described.parts(); params != nil {
			if terr := s.tell(params); terr != nil {
				return terr
			}
		}
	}
	if err != nil || st == nil {
		if err == nil {
			s.dropParsed()
		}
		return err
	}
	return s.describeOnBackend(cs, st)
}

// describeOnBackend sends the server a Describe of st, which is the client's statement cs on that backend. The client
// and noteDescription get the answer.
func (s *session) describeOnBackend(cs *clientStatement, st *serverStatement) error {
	if err := s.ensureBackend(); err != nil {
		return err
	}
	first := s.t.parsed
	s.t.parsed = parsed{}
	s.logFrame(wire.Describe, logEntry{tmpl: cs.tmpl, names: s.mapped.planned, stmt: cs, parsed: first.on}, nil)
	if first.on {
		s.logLong(cs.tmpl, cs.tmpl.cost)
	}
	o := s.pushRun(wire.Describe, cs.tmpl.plan)
	o.tmpl, o.stmt, o.clientStmt, o.apart = cs.tmpl, st, cs, s.apart()
	if first.on {
		o.reply = chained(parsedFirst{}, o.reply)
		s.logUndo(first.name, first.prev)
		s.t.owed.undoable(first.name, first.prev)
	}
	s.add(wire.AppendNamed(s.t.scratch[:0], wire.Describe, 'S', st.name))
	return nil
}

// parsed is a Parse whose ParseComplete waits for the Describe after it. Drivers prepare by both frames, and drop the
// name if Describe fails. Then the client gets one error for both, and the name has its earlier statement, prev, again.
type parsed struct {
	on   bool
	name string
	prev *clientStatement
}

// parsedFirst is the answer to a Describe that follows a waiting Parse. The ParameterDescription waits too, so that the
// client gets three frames or none. One too long for a buffer does not wait.
type parsedFirst struct{ asSent }

func (parsedFirst) frame(s *session, o *owed, f answer.Frame) (verdict, error) {
	switch {
	case f.Means == answer.Parameters:
		s.t.capture = append(s.t.capture[:0], f.Bytes...)
		if o.done = !f.Cut(); o.done {
			return swallow, nil
		}
		return pass, s.synthesize(wire.FrameParseComplete)
	case f.Means != answer.Describes || !o.done:
		return undecided, nil
	}
	if err := s.synthesize(wire.FrameParseComplete); err != nil {
		return undecided, err
	}
	half, has := s.t.capture, 0
	if s.noting() {
		has = s.noteReply(wire.ParameterDescription, half)
	}
	return undecided, s.passSpan(half[has:])
}

// describedNext reports whether the client's next frame has arrived and describes the statement name, which its last
// Parse made.
func (s *session) describedNext(name []byte) bool {
	c := &s.client
	typ, total, err := c.Header()
	if err != nil || typ != wire.Describe || total == 0 || total > c.Buffered() || len(name) == 0 || s.status() == 'E' || s.t.nested.on {
		return false
	}
	what, of, err := namedTarget(c.Peek(total), "DESCRIBE")
	return err == nil && what == 'S' && bytes.Equal(of, name)
}

// tellParsed sends a waiting ParseComplete. The description follows.
func (s *session) tellParsed() error {
	if !s.t.parsed.on {
		return nil
	}
	first := s.t.parsed
	s.t.parsed = parsed{}
	err := s.tell(wire.FrameParseComplete)
	s.logUndo(first.name, first.prev)
	return err
}

// dropParsed undoes a Parse whose Describe failed: the name has its earlier statement again. The client gets one error
// for both frames.
func (s *session) dropParsed() {
	if s.t.parsed.on {
		s.setStatement(s.t.parsed.name, s.t.parsed.prev)
		s.t.parsed = parsed{}
	}
}
