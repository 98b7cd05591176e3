package proxy

import (
	"bytes"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// portal is what is known of a bound portal.
type portal struct {
	plan  *rewrite.Plan
	local bool
	open  bool
	done  bool             // a local one that has run
	split *rewrite.Split   // the form that it was bound in
	stmt  *clientStatement // that it was bound to; nil: no client can bind that again
	seq   uint64           // in the transaction
	text  string           // of its statement
}

// closePortals forgets all portals: their transaction has ended.
func (s *session) closePortals() { s.portal, s.portals = portal{}, nil }

// setPortal notes a portal; it lives until its transaction ends.
func (s *session) setPortal(name []byte, p portal) error {
	s.tx.binds++
	p.seq = s.tx.binds
	if len(name) == 0 {
		s.portal = p
		return nil
	}
	if old := s.portals[string(name)]; old.open && (old.local || p.local) { // else the server sees both
		return errPortalExists(name)
	}
	if len(s.portals) >= s.srv.cfg.PreparedPerClient {
		return &wire.Error{Code: "54000", Message: "too many open portals in one transaction"}
	}
	if s.portals == nil {
		s.portals = map[string]portal{}
	}
	s.portals[string(name)] = p
	return nil
}

// keepPortal notes what has become of a portal.
func (s *session) keepPortal(name []byte, p portal) {
	if len(name) == 0 {
		s.portal = p
	} else {
		s.portals[string(name)] = p
	}
}

// forgetSpare is told that spare will be another statement: portals of the one before
// stay, and no description of them is about the new one.
func (s *session) forgetSpare() {
	if s.portal.stmt == &s.spare {
		s.portal.stmt = nil
	}
	for name, p := range s.portals {
		if p.stmt == &s.spare {
			p.stmt = nil
			s.portals[name] = p
		}
	}
}

func (s *session) portalOf(name []byte) portal {
	if len(name) == 0 {
		return s.portal
	}
	return s.portals[string(name)]
}

// namedTarget splits the payload of a Describe or Close.
func namedTarget(frame []byte) (what byte, name []byte, ok bool) {
	payload := frame[wire.HeaderLen:]
	if len(payload) < 2 || payload[0] != 'S' && payload[0] != 'P' {
		return 0, nil, false
	}
	name, rest, ok := wire.CString(payload[1:])
	return payload[0], name, ok && len(rest) == 0
}

// describe answers what a statement or portal returns. The server is asked unless it
// has shown a moment ago that what is remembered holds: somebody may have changed the
// schema whom nobody here has seen.
func (s *session) describe(frame []byte) error {
	what, name, ok := namedTarget(frame)
	if !ok {
		return wire.ProtocolViolation("invalid message format")
	}
	if what == 'P' {
		p := s.portalOf(name)
		switch {
		case p.local:
			return s.tell(localDescription(p.plan)...)
		case s.b == nil, len(name) == 0 && !p.open:
			return errNoPortal(name)
		}
		if err := s.ensureBackend(); err != nil {
			return err
		}
		s.logFrame(wire.Describe, note{plan: p.plan, stmt: p.stmt}, frame[wire.HeaderLen:])
		o := s.pushRun(wire.Describe, p.plan)
		o.told, o.split = p.stmt, p.split
		return s.add(frame)
	}
	cs := s.statement(name)
	if cs == nil {
		return errNoStatement(name)
	}
	cs.tmpl = cs.tmpl.inForce()
	if s.status() == 'E' && !s.endsFailed(cs.tmpl.plan) {
		// A failed block describes what returns no rows, as PostgreSQL does.
		if d := cs.tmpl.desc.Load(); d != nil && bytes.HasSuffix(d.frames, wire.FrameNoData) {
			return s.tell(d.frames)
		}
		switch cs.tmpl.plan.Kind {
		case rewrite.Empty, rewrite.Setting, rewrite.Control:
			return s.tell(wire.FrameNoParams, wire.FrameNoData)
		}
		if s.state == failed || s.b.prepared.find(cs.tmpl) == nil {
			return errAborted
		}
		return s.describeOnBackend(cs, s.b.prepared.find(cs.tmpl)) // the server knows
	}
	if s.state == failed || s.localNow(cs.tmpl.plan) || s.emulates(cs.tmpl.plan) {
		s.srv.metrics.LocalAnswer(metrics.LocalDescribe)
		if err := s.tell(wire.FrameNoParams); err != nil {
			return err
		}
		return s.tell(localDescription(cs.tmpl.plan)...)
	}
	if d := s.described(cs.tmpl); d != nil && cs.epoch == d.epoch && cs.tmpl.parsing == s.parsing() && s.srv.holds(d) {
		s.srv.metrics.LocalAnswer(metrics.LocalDescribe)
		cs.told = d
		return s.tell(d.frames)
	}
	if err := s.ensureBackend(); err != nil {
		return err
	}
	s.asNow(cs)
	st, err := s.onBackend(cs)
	if err == errPlanChanged && cs.told != nil { // PostgreSQL finds out after the parameters
		if params, _ := cs.told.parts(); params != nil {
			if terr := s.tell(params); terr != nil {
				return terr
			}
		}
	}
	if err != nil || st == nil {
		return err
	}
	return s.describeOnBackend(cs, st)
}

// describeOnBackend passes on a Describe of a statement that is st there.
func (s *session) describeOnBackend(cs *clientStatement, st *serverStatement) error {
	if err := s.ensureBackend(); err != nil {
		return err
	}
	s.logFrame(wire.Describe, note{tmpl: cs.tmpl, stmt: cs}, nil)
	o := s.pushRun(wire.Describe, cs.tmpl.plan)
	o.tmpl, o.stmt, o.told = cs.tmpl, st, cs
	return s.add(wire.AppendNamed(s.t.scratch[:0], wire.Describe, 'S', st.name))
}

// closeNamed closes a statement, here only, or a portal.
func (s *session) closeNamed(frame []byte) error {
	what, name, ok := namedTarget(frame)
	if !ok {
		return wire.ProtocolViolation("invalid message format")
	}
	if what == 'S' {
		prev := s.statement(name)
		if err := s.tell(wire.FrameCloseComplete); err != nil {
			return err
		}
		if prev != nil {
			s.logUndo(string(name), prev)
			if !s.t.owed.empty() {
				s.t.owed.undoable(string(name), prev)
			}
			s.setStatement(string(name), nil)
		}
		return nil
	}
	p := s.portalOf(name)
	if len(name) == 0 {
		s.portal = portal{}
	} else {
		delete(s.portals, string(name))
	}
	if p.local || s.b == nil {
		return s.tell(wire.FrameCloseComplete)
	}
	if err := s.ensureBackend(); err != nil {
		return err
	}
	s.logFrame(wire.Close, note{}, frame[wire.HeaderLen:])
	s.t.owed.push(wire.Close)
	return s.add(frame)
}
