package proxy

import (
	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// PostgreSQL reads a statement's constants when it parses the query. PostgreSQL parses again only after a change of an
// object that the query names, or of the relations that search_path finds. So after SET datestyle a prepared statement
// still means the same. After SET search_path, only a backend that has the statement can tell.

// errConstantsChanged refuses a statement that must be parsed again, if its constants would change their meaning.
var errConstantsChanged = &wire.Error{Code: errPlanChanged.Code, Message: errPlanChanged.Message,
	Detail: "Settings by which its constants are read were changed since the client prepared the statement, and this backend does not have it from before.",
	Hint:   "Prepare it again behind the change, or pass the constants as parameters.", Origin: errPlanChanged.Origin}

// constantsChangeUnder reports whether constants of the statement, such as '1/2/2000'::date, would mean something else
// under the settings p. The statement is examined only if a setting such as DateStyle has changed.
func (t *statementTemplate) constantsChangeUnder(p settings.ParsingHashes) bool {
	others := t.parsing.Constants.Differing(p.Constants)
	if others == 0 || t.plan.Kind == rewrite.Setting || t.plan.Kind == rewrite.Control {
		return false
	}
	return parse.InputSettingsOfText([]byte(t.sql))&others != 0
}

// reuseParsedStatement does prepareForClient's work for a statement whose constants would change their meaning. Only a
// statement that the backend has parsed before may run. From then on no other client uses the statement, since
// PostgreSQL may parse it again under this client's settings. The transaction cannot be replayed, as no other backend
// has the statement.
func (s *session) reuseParsedStatement(cs *clientStatement) (*serverStatement, error) {
	st := s.findParsedStatement(cs)
	if st == nil {
		if s.serverParsesDifferently(cs.tmpl) {
			return nil, errOtherReading
		}
		return nil, errConstantsChanged
	}
	if cs.described != nil && st.desc == nil {
		s.describeSilently(st)
		if err := s.flushAndRelay(); err != nil || s.t.skip {
			return nil, err
		}
		if s.b == nil || s.b.prepared.find(st.tmpl) != st { // the backend was replaced
			return nil, errConstantsChanged
		}
	}
	if cs.described != nil && st.desc != cs.described && (st.desc == nil || !st.desc.isCompatible(cs.described)) {
		return nil, errPlanChanged
	}
	s.srv.metrics.CountPreparedUse(metrics.PreparedHit)
	s.tx.log.RefuseReplay(retry.Pinned) // no other backend would have it
	if !cs.tmpl.unshared {
		cs.tmpl = cs.tmpl.privateCopy()
	}
	s.b.prepared.rebindTemplate(st, cs.tmpl)
	s.t.desc = st.desc
	return st, nil
}

// findParsedStatement returns the backend's statement that was parsed when the client prepared its own, or nil. A
// statement prepared under another version of the schema, or sent as two, may have been parsed at another time.
func (s *session) findParsedStatement(cs *clientStatement) *serverStatement {
	st := s.b.prepared.find(cs.tmpl)
	if of := cs.tmpl.sharedForm; st == nil && of != nil {
		st = s.b.prepared.find(of)
	}
	if st == nil || cs.tmpl.split != nil || st.epoch != cs.epoch || !st.tmpl.unshared && st.epoch != s.schemaEpoch() {
		return nil
	}
	return st
}

// privateCopy returns a copy of the statement template that only one client uses.
func (t *statementTemplate) privateCopy() *statementTemplate {
	own := &statementTemplate{sql: t.sql, oids: t.oids, cost: t.cost, plan: t.plan, parsing: t.parsing, names: t.names, plannerNumber: t.plannerNumber, optsOut: t.optsOut, unshared: true, sharedForm: t}
	own.desc.Store(t.desc.Load())
	return own
}
