package proxy

import (
	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/values"
)

// This file makes the template of a prepared text, shared by all clients, and prepares the text on backends. A
// backend's statement has a name of Sluice, and all clients of the backend share the statement. templateFor finds
// templates. parseOnBackend and prepareOnBackend send a Parse.

// maxCachedText is the longest text in the cache of templates. Longer texts are seldom used twice.
const maxCachedText = 64 << 10

// templateFor returns the shared template of a text under the current settings, in the form that the server gets now. A
// text that the server would parse differently gets a separate template. The session caches its last template, because
// drivers prepare the same text repeatedly. A returned error goes to the client, or ends the session.
func (s *session) templateFor(sql, oids []byte) (*statementTemplate, error) {
	if err := s.refuseUnmapped(sql); err != nil {
		return nil, err
	}
	if r := s.textReadingMode(); r != 0 && r.MayMislead(sql) {
		return s.unparsedTemplate(sql, oids)
	}
	names, err := s.namesForNextText()
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
		t = s.srv.cachedTemplate(&s.t.scratch, sql, oids, s.parsingKey(), names.ID(), plan.VariantNumberIn(s.planner()), plan)
	}
	if s.lastTemplate = t; len(t.sql) > maxCachedText {
		s.lastTemplate = nil // only its name may hold a long text
	}
	return t.currentForm(), nil
}

// templateFromCache returns a template from the cache, by the number names of the schema snapshot of its plan. If the
// cache has none, or if the schema must be loaded first, the result is nil.
func (s *session) templateFromCache(sql, oids []byte, names uint64, plan *rewrite.Plan) *statementTemplate {
	parsing := s.parsingKey()
	t := s.lastTemplate
	if t == nil || t.parsing != parsing || t.names != names || t.sql != string(sql) || t.oids != string(oids) {
		t = s.srv.findTemplate(&s.t.scratch, sql, oids, parsing, names, 0)
	}
	if t != nil && s.optionsChanged(t) {
		t = s.srv.findTemplate(&s.t.scratch, sql, oids, parsing, names, s.planner().VariantNumber())
	}
	switch {
	case t != nil && s.mustLoadSchema(t.plan):
		return nil
	case t == nil && s.srv.keeper.enabled && plan == nil:
		return nil
	case t == nil:
		if plan == nil {
			plan = s.planner().Plan(sql)
		}
		return s.srv.cachedTemplate(&s.t.scratch, sql, oids, parsing, names, plan.VariantNumberIn(s.planner()), plan)
	}
	return t
}

// findTemplate returns a template from the cache of all clients, or nil. scratch is a buffer for the key.
func (srv *Server) findTemplate(scratch *[]byte, sql, oids []byte, parsing settings.ParsingHashes, names, by uint64) *statementTemplate {
	if !isCacheable(sql, oids) {
		return nil
	}
	key := templateKey((*scratch)[:0], sql, oids, parsing, names, by)
	*scratch = key[:0]
	return srv.catalog.find(key)
}

// cachedTemplate returns a template from the cache, or makes one. plan is the text's plan by the schema snapshot with
// the number names and the planner with the number by, or nil if all planners make the same plan. scratch is a buffer
// for the cache key. If the template is not cached, only the caller uses it.
func (srv *Server) cachedTemplate(scratch *[]byte, sql, oids []byte, parsing settings.ParsingHashes, names, by uint64, plan *rewrite.Plan) *statementTemplate {
	if t := srv.findTemplate(scratch, sql, oids, parsing, names, by); t != nil {
		return t
	}
	if plan == nil {
		plan = srv.planner.Plan(sql)
	}
	t := srv.newTemplate(sql, oids, plan, parsing)
	t.names, t.plannerNumber = names, by
	if !isCacheable(sql, oids) || parsing.All&1 == 1 {
		return t // too long, or useful to one transaction only
	}
	return srv.catalog.add(templateKey((*scratch)[:0], sql, oids, parsing, names, by), t)
}

// newTemplate makes a template for a prepared text and counts its memory.
func (srv *Server) newTemplate(sql, oids []byte, plan *rewrite.Plan, parsing settings.ParsingHashes) *statementTemplate {
	t := &statementTemplate{sql: string(sql), oids: string(oids), plan: plan, parsing: parsing, optsOut: retry.HasNoRetryComment(sql), inserts: rewrite.IsInsertReturning(sql), mayShowTxTime: values.MayReturnTxTime(sql)}
	return srv.texts.countTemplate(t, textCost(sql, oids))
}

// parseOnBackend sends a Parse under a new name of Sluice's own, and returns the statement. silent hides the answer
// from the client. The statement counts as prepared at once, and an error removes the statement (forgetSkipped). Names
// whose Close was skipped are closed first. The least recently bound statement is evicted if necessary.
func (s *session) parseOnBackend(tmpl *statementTemplate, silent bool) *serverStatement {
	s.t.unseen = false
	p := &s.b.prepared
	st := p.add(tmpl, s.schemaEpoch())
	for _, name := range p.orphans {
		s.t.owed.push(wire.Close).swallow = true
		s.addToBatch(wire.AppendDescribeOrClose(s.t.scratch[:0], wire.Close, 'S', name))
	}
	p.orphans = nil
	if len(s.portals) == 0 { // closing a statement may close its portals
		limit, most := s.srv.cfg.PreparedPerBackend, s.srv.textsOfBackend
		for old := p.evictionCandidate(limit, most); old != nil && old != st; old = p.evictionCandidate(limit, most) {
			s.srv.metrics.CountPreparedUse(metrics.PreparedEvicted)
			s.closeOnBackend(old)
		}
	}
	o := s.t.owed.push(wire.Parse)
	o.swallow, o.mayUseTempTables, o.tmpl, o.stmt = silent, s.mayHaveTempTables(), tmpl, st
	s.addParse(st.name, tmpl)
	return st
}

// closeOnBackend closes a statement of Sluice's own on the backend. If the server skips the Close because of an error,
// the next Parse closes the name.
func (s *session) closeOnBackend(st *serverStatement) {
	s.b.prepared.remove(st)
	o := s.t.owed.push(wire.Close)
	o.swallow, o.stmt = true, st
	s.addToBatch(wire.AppendDescribeOrClose(s.t.scratch[:0], wire.Close, 'S', st.name))
}

// prepareOnBackend makes sure that the backend has prepared tmpl in the current schema epoch. A statement of an older
// epoch is closed and prepared again. describe also requests a description of a new statement, and that reply is
// pending on return. The client does not get the ParseComplete, but gets an error.
func (s *session) prepareOnBackend(tmpl *statementTemplate, describe bool) *serverStatement {
	if st := s.b.prepared.find(tmpl); st != nil {
		if st.epoch == s.schemaEpoch() {
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

// describeSilently requests the description of a backend's statement for cacheDescription, not for the client.
func (s *session) describeSilently(st *serverStatement) {
	o := s.pushStatementReply(wire.Describe, st.tmpl.plan)
	o.swallow, o.mayUseTempTables, o.tmpl, o.stmt = true, s.mayHaveTempTables(), st.tmpl, st
	s.addToBatch(wire.AppendDescribeOrClose(s.t.scratch[:0], wire.Describe, 'S', st.name))
}
