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

// Describe of a statement or portal. The server is asked, unless it has shown the answer a
// moment ago (Config.DescribeMemory); statements that Sluice answers, Sluice describes.
// handle calls describe. Descriptions that come in are noted in schema.go.
//
// What a client is told of a statement, it counts on: drivers read rows by it. So an answer
// from memory must be the one that the server would give at this moment, and an execution
// whose columns would differ is refused, as PostgreSQL refuses it.

// describe answers what a statement or portal returns. An error is for the client.
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
	// A query that is sent in two parts from now on is described in that form.
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

// describePortal answers what a portal returns. A portal that Sluice does not know may be
// one of the server's, a cursor made in SQL for one: the server is asked.
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

// describeInFailedBlock answers as PostgreSQL, which describes there what returns no rows.
// Nothing can be prepared in a failed block: where the server does not hold the statement,
// what is remembered of its text decides, and else its kind.
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
	return s.describeOnBackend(cs, s.b.prepared.find(cs.tmpl)) // the server knows
}

// rowlessParams is the ParameterDescription of a text that surely returns no rows, where its client has named the type
// of each parameter, or there are none; nil for any other.
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

// declared is the ParameterDescription of the types that the client has named for a text.
func declared(tmpl *template) []byte {
	n := declaredParams(tmpl)
	if n == 0 {
		return wire.FrameNoParams
	}
	b := binary.BigEndian.AppendUint16(wire.AppendHeader(nil, wire.ParameterDescription, 2+4*n), uint16(n))
	return append(b, tmpl.oids[2:]...)
}

// describeStatement answers what a statement of the server's returns. The server is asked
// unless it has shown a moment ago that what is remembered holds: somebody may have changed
// the schema whom nobody here has seen. From now on the client counts on the answer
// (clientStatement.described).
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
	if err == errPlanChanged && cs.described != nil { // PostgreSQL finds out after the parameters
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

// describeOnBackend passes on a Describe of a statement that is st there. The answer goes
// to the client, and to noteDescription.
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

// parsed is a Parse that is answered together with the Describe behind it, from memory or by the server:
// drivers prepare a statement by both, and do not have its name where the latter fails. Until the
// description is there, ParseComplete is not sent; behind an error prev has the name again.
type parsed struct {
	on   bool
	name string
	prev *clientStatement
}

// parsedFirst is the answer to such a Describe. The parameters wait for the other half as well, so that a
// client has all three or none; but not where no buffer holds them.
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

// describedNext reports whether the client's next frame, which has come with its Parse of a statement
// with that name, describes the statement.
func (s *session) describedNext(name []byte) bool {
	c := &s.client
	typ, total, err := c.Header()
	if err != nil || typ != wire.Describe || total == 0 || total > c.Buffered() || len(name) == 0 || s.status() == 'E' || s.t.nested.on {
		return false
	}
	what, of, err := namedTarget(c.Peek(total), "DESCRIBE")
	return err == nil && what == 'S' && bytes.Equal(of, name)
}

// tellParsed sends the ParseComplete that waits for a description, which follows.
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

// dropParsed takes the name back of a statement that was not described: its client is told an error
// in place of both answers.
func (s *session) dropParsed() {
	if s.t.parsed.on {
		s.setStatement(s.t.parsed.name, s.t.parsed.prev)
		s.t.parsed = parsed{}
	}
}
