package proxy

import (
	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file makes the template of a prepared text, which all clients share, and prepares the text on backends. Sluice
// chooses the statement's name on a backend, and all clients of the backend share the statement. templateFor finds
// templates. parseOnBackend and prepareOnBackend send a Parse.

// templateFor returns the shared template of a text under the current settings, in the form that the server gets now. A
// text that the server parses otherwise than Sluice gets its own template. The session caches its last template,
// because drivers prepare the same text repeatedly. A returned error goes to the client, or ends the session.
func (s *session) templateFor(sql, oids []byte) (*statement.Template, error) {
	if err := s.refuseUnmapped(sql); err != nil {
		return nil, err
	}
	if r := s.textReadingMode(); r != 0 && r.MayMislead(sql) {
		return s.unparsedTemplate(sql, oids)
	}
	names, err := s.namesForNextText(sql)
	var plan *rewrite.Plan
	if err != nil {
		if plan = s.planWithoutNames(sql, err); plan == nil {
			return nil, err
		}
	}
	t := s.templateFromCache(sql, oids, names.ID(), plan)
	if t == nil {
		if plan, names, err = s.planTextByNames(sql); err != nil {
			return nil, err
		}
		t = s.srv.pool.templates.Template(&s.t.scratch, sql, oids, s.parsingKey(), names.ID(), plan.VariantNumberIn(s.planner()), plan)
	}
	if s.lastTemplate = t; len(t.SQL) > statement.MaxCachedText {
		s.lastTemplate = nil // only a client's statement name may hold a long text in memory
	}
	return t.CurrentForm(), nil
}

// templateFromCache returns the template of a text from the cache. names is the ID of the name resolver of its plan.
// If the cache has no template, or Sluice must load the schema first, the result is nil.
func (s *session) templateFromCache(sql, oids []byte, names uint64, plan *rewrite.Plan) *statement.Template {
	parsing := s.parsingKey()
	t := s.lastTemplate
	if t == nil || t.Parsing != parsing || t.Names != names || t.SQL != string(sql) || t.OIDs != string(oids) {
		t = s.srv.pool.templates.Lookup(&s.t.scratch, sql, oids, parsing, names, 0)
	}
	if t != nil && s.optionsChanged(t) {
		t = s.srv.pool.templates.Lookup(&s.t.scratch, sql, oids, parsing, names, s.planner().VariantNumber())
	}
	switch {
	case t != nil && s.mustLoadSchema(t.Plan):
		return nil
	case t == nil && s.srv.pool.keeper.Maps() && plan == nil:
		return nil
	case t == nil:
		if plan == nil {
			plan = s.planner().Plan(sql)
		}
		return s.srv.pool.templates.Template(&s.t.scratch, sql, oids, parsing, names, plan.VariantNumberIn(s.planner()), plan)
	}
	return t
}

// parseOnBackend sends a Parse under a new name that Sluice chooses, and returns the statement. silent hides the answer
// from the client. The statement counts as prepared at once, and an error removes it (forgetSkipped). First,
// parseOnBackend closes names whose Close the server skipped, and the least recently bound statements above the limit.
func (s *session) parseOnBackend(tmpl *statement.Template, silent bool) *statement.Server {
	s.t.unseen = false
	p := &s.b.prepared
	st := p.Add(tmpl, s.schemaEpoch())
	for _, name := range p.TakeOrphans() {
		s.t.owed.push(wire.Close).swallow = true
		s.t.addToBatch(wire.AppendDescribeOrClose(s.t.scratch[:0], wire.Close, 'S', name))
	}
	if s.t.rec.phase == phaseLive { // a replay may have open portals that the session has closed since
		limit, most, inUse := s.srv.cfg.PreparedPerBackend, s.srv.pool.textsOfBackend, s.portals.statementsInUse()
		for old := p.EvictionCandidate(limit, most, inUse); old != nil && old != st; old = p.EvictionCandidate(limit, most, inUse) {
			s.srv.metrics.CountPreparedUse(metrics.PreparedEvicted)
			s.closeOnBackend(old)
		}
	}
	o := s.t.owed.push(wire.Parse)
	o.swallow, o.mayUseTempTables, o.tmpl, o.stmt = silent, s.mayHaveTempTables(), tmpl, st
	s.t.addParse(st.Name, tmpl)
	return st
}

// closeOnBackend closes a statement that Sluice has prepared on the backend. If the server skips the Close because of
// an error, the next Parse closes the name.
func (p *pairing) closeOnBackend(st *statement.Server) {
	p.b.prepared.Remove(st)
	o := p.t.owed.push(wire.Close)
	o.swallow, o.stmt = true, st
	p.t.addToBatch(wire.AppendDescribeOrClose(p.t.scratch[:0], wire.Close, 'S', st.Name))
}

// prepareOnBackend makes sure that the backend has prepared tmpl in the current schema epoch (version). It closes a
// statement of an older epoch and prepares it again. describe also requests a description of a new statement, whose
// reply is pending on return. The client does not get the ParseComplete, but gets an error.
func (s *session) prepareOnBackend(tmpl *statement.Template, describe bool) *statement.Server {
	if st := s.b.prepared.Find(tmpl); st != nil {
		if st.Epoch == s.schemaEpoch() {
			return st
		}
		s.srv.metrics.CountPreparedUse(metrics.PreparedInvalidated)
		s.closeOnBackend(st)
	}
	s.srv.metrics.CountPreparedUse(metrics.PreparedMiss)
	st := s.parseOnBackend(tmpl, true)
	if describe {
		s.describeSilently(st)
	}
	return st
}

// describeSilently requests the description of a backend's statement for Sluice's cache, not for the client.
func (p *pairing) describeSilently(st *statement.Server) {
	o := p.t.pushStatementReply(wire.Describe, st.Template.Plan)
	o.swallow, o.mayUseTempTables, o.tmpl, o.stmt = true, p.mayHaveTempTables(), st.Template, st
	p.t.addToBatch(wire.AppendDescribeOrClose(p.t.scratch[:0], wire.Describe, 'S', st.Name))
}
