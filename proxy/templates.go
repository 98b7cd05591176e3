package proxy

import (
	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/values"
)

// Texts as they are prepared: the template of a text, which all clients share, and its statement at the
// backend, under a name of Sluice's own, once for all clients that the backend serves. Handlers of
// frames call template; parseOnBackend and prepare send.

// maxCachedText bounds a text that the catalog keeps: longer ones seldom come again.
const maxCachedText = 64 << 10

// template returns the shared template of a text under the settings in force, in the form
// that goes to the server now. A text that the server would read otherwise than the planner
// has a template of its own. The last one is remembered by the session: drivers prepare a
// text again and again.
//
// An error is that of names.
func (s *session) template(sql, oids []byte) (*template, error) {
	if err := s.unmapped(sql); err != nil {
		return nil, err
	}
	if r := s.reading(); r != 0 && r.Misleads(sql) {
		return s.unreadTemplate(sql, oids)
	}
	names, err := s.names()
	var plan *rewrite.Plan
	if err != nil {
		if plan = s.nameless(sql, err); plan == nil {
			return nil, err
		}
	}
	t := s.templateBy(sql, oids, names.ID(), plan)
	if t == nil {
		if plan, names, err = s.planned(sql); err != nil {
			return nil, err
		}
		t = s.srv.template(&s.t.scratch, sql, oids, s.parsing(), names.ID(), plan.Choosable(s.planner()), plan)
	}
	if s.recent = t; len(t.sql) > maxCachedText {
		s.recent = nil // nobody may hold it but for its name
	}
	return t.inForce(), nil
}

// templateBy is a template that is remembered, by what names stand for; nil where there is
// none, or the schema must be read first.
func (s *session) templateBy(sql, oids []byte, names uint64, plan *rewrite.Plan) *template {
	parsing := s.parsing()
	t := s.recent
	if t == nil || t.parsing != parsing || t.names != names || t.sql != string(sql) || t.oids != string(oids) {
		t = s.srv.remembered(&s.t.scratch, sql, oids, parsing, names, 0)
	}
	if t != nil && s.outchosen(t) {
		t = s.srv.remembered(&s.t.scratch, sql, oids, parsing, names, s.planner().Number())
	}
	switch {
	case t != nil && s.mustLook(t.plan):
		return nil
	case t == nil && s.srv.keeper.on && plan == nil:
		return nil
	case t == nil:
		if plan == nil {
			plan = s.planner().Plan(sql)
		}
		return s.srv.template(&s.t.scratch, sql, oids, parsing, names, plan.Choosable(s.planner()), plan)
	}
	return t
}

// remembered finds a template, or nil; scratch is for the key.
func (srv *Server) remembered(scratch *[]byte, sql, oids []byte, parsing settings.Parsing, names, by uint64) *template {
	if !cacheable(sql, oids) {
		return nil
	}
	key := templateKey((*scratch)[:0], sql, oids, parsing, names, by)
	*scratch = key[:0]
	return srv.catalog.find(key)
}

// template finds or makes a template. plan is that of the text by those names and the planner of
// that number; nil where it is the same by any. scratch is for the key. A template that is not
// cached is the caller's alone.
func (srv *Server) template(scratch *[]byte, sql, oids []byte, parsing settings.Parsing, names, by uint64, plan *rewrite.Plan) *template {
	if t := srv.remembered(scratch, sql, oids, parsing, names, by); t != nil {
		return t
	}
	if plan == nil {
		plan = srv.planner.Plan(sql)
	}
	t := srv.newTemplate(sql, oids, plan, parsing)
	t.names, t.by = names, by
	if !cacheable(sql, oids) || parsing.All&1 == 1 {
		return t // too long, or of use to one transaction only
	}
	return srv.catalog.add(templateKey((*scratch)[:0], sql, oids, parsing, names, by), t)
}

// newTemplate makes a template, whose texts count from now on.
func (srv *Server) newTemplate(sql, oids []byte, plan *rewrite.Plan, parsing settings.Parsing) *template {
	t := &template{sql: string(sql), oids: string(oids), plan: plan, parsing: parsing, optsOut: retry.OptsOut(sql), inserts: rewrite.InsertsReturning(sql), tells: values.MayTellInstant(sql)}
	return srv.texts.count(t, textCost(sql, oids))
}

// parseOnBackend sends a Parse under a new name of ours, and returns the statement; silent
// keeps its answer from the client. The statement counts as held from now on: an error
// takes it off again (skipped). Names whose Close was skipped are closed first, and the
// statement that was bound least recently makes room.
func (s *session) parseOnBackend(tmpl *template, silent bool) *serverStatement {
	s.t.unseen = false
	p := &s.b.prepared
	st := p.add(tmpl, s.epoch())
	for _, name := range p.orphans {
		s.t.owed.push(wire.Close).swallow = true
		s.add(wire.AppendNamed(s.t.scratch[:0], wire.Close, 'S', name))
	}
	p.orphans = nil
	if len(s.portals) == 0 { // closing a statement may close its portals
		limit, most := s.srv.cfg.PreparedPerBackend, s.srv.textsOfBackend
		for old := p.oldest(limit, most); old != nil && old != st; old = p.oldest(limit, most) {
			s.srv.metrics.Prepared(metrics.PreparedEvicted)
			s.closeOnBackend(old)
		}
	}
	o := s.t.owed.push(wire.Parse)
	o.swallow, o.apart, o.tmpl, o.stmt = silent, s.apart(), tmpl, st
	s.addParse(st.name, tmpl)
	return st
}

// closeOnBackend drops one of our statements from the backend. Nobody finds it from now on;
// where an error has the server skip the Close, the name is an orphan, and is closed with
// the next Parse.
func (s *session) closeOnBackend(st *serverStatement) {
	s.b.prepared.remove(st)
	o := s.t.owed.push(wire.Close)
	o.swallow, o.stmt = true, st
	s.add(wire.AppendNamed(s.t.scratch[:0], wire.Close, 'S', st.name))
}

// prepare makes sure that the backend holds tmpl, as it is now: one of another epoch is
// closed and prepared anew. describe asks for a description of a new one, whose answer is
// still owed at the return. The Parse is for nobody, its error is the client's.
func (s *session) prepare(tmpl *template, describe bool) *serverStatement {
	if st := s.b.prepared.find(tmpl); st != nil {
		if st.epoch == s.epoch() {
			return st
		}
		s.srv.metrics.Prepared(metrics.PreparedInvalidated)
		s.closeOnBackend(st)
	}
	s.srv.metrics.Prepared(metrics.PreparedMiss)
	st := s.parseOnBackend(tmpl, true)
	if describe {
		s.describeSilently(st)
	}
	return st
}

// describeSilently asks what a statement of the backend returns, for ourselves: the answer
// goes to noteDescription alone.
func (s *session) describeSilently(st *serverStatement) {
	o := s.pushRun(wire.Describe, st.tmpl.plan)
	o.swallow, o.apart, o.tmpl, o.stmt = true, s.apart(), st.tmpl, st
	s.add(wire.AppendNamed(s.t.scratch[:0], wire.Describe, 'S', st.name))
}
