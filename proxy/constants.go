package proxy

import (
	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// PostgreSQL reads the constants of a statement when it parses it, and parses it anew
// only when an object that it refers to has changed, or what search_path resolves to. So
// behind a SET of DateStyle the statement that a client has prepared before means what it
// meant then; behind a SET of search_path only the backend that has it can tell.

// errReadOtherwise is told where a statement must be parsed anew, and its constants
// would be read otherwise.
var errReadOtherwise = &wire.Error{Code: errPlanChanged.Code, Message: errPlanChanged.Message,
	Detail: "Settings by which its constants are read were changed since the client prepared the statement, and this backend does not have it from before.",
	Hint:   "Prepare it again behind the change, or pass the constants as parameters.", Origin: errPlanChanged.Origin}

// readOtherwise reports whether constants of the text would be read otherwise than they
// were, if it were parsed now, under p. Only a text that may have such constants at all is
// looked at more closely, and only when a setting that they are read by has changed.
func (t *template) readOtherwise(p settings.Parsing) bool {
	others := t.parsing.Constants.Unlike(p.Constants)
	if others == 0 || t.plan.Kind == rewrite.Setting || t.plan.Kind == rewrite.Control {
		return false
	}
	return parse.ReadBy([]byte(t.sql))&others != 0
}

// asParsed is onBackend for a statement that would be read otherwise: only the one will do
// that the backend has parsed before. From then on no other client uses it:
// PostgreSQL may parse it anew, under the settings of this one. The transaction is not run
// again, since no other backend would have the statement.
func (s *session) asParsed(cs *clientStatement) (*serverStatement, error) {
	st := s.parsedBefore(cs)
	if st == nil {
		if s.misled(cs.tmpl) {
			return nil, errOtherReading
		}
		return nil, errReadOtherwise
	}
	if cs.described != nil && st.desc == nil {
		s.describeSilently(st)
		if err := s.makeAnswer(); err != nil || s.t.skip {
			return nil, err
		}
		if s.b == nil || s.b.prepared.find(st.tmpl) != st { // it is another backend
			return nil, errReadOtherwise
		}
	}
	if cs.described != nil && st.desc != cs.described && (st.desc == nil || !st.desc.promises(cs.described)) {
		return nil, errPlanChanged
	}
	s.srv.metrics.Prepared(metrics.PreparedHit)
	s.tx.log.Refuse(retry.Pinned) // no other backend would have it
	if !cs.tmpl.own {
		cs.tmpl = cs.tmpl.ownCopy()
	}
	s.b.prepared.rename(st, cs.tmpl)
	s.t.desc = st.desc
	return st, nil
}

// parsedBefore is the backend's statement that was parsed when the client prepared its own;
// nil for none. One of another epoch, or in two parts, may have been parsed at another
// time.
func (s *session) parsedBefore(cs *clientStatement) *serverStatement {
	st := s.b.prepared.find(cs.tmpl)
	if of := cs.tmpl.of; st == nil && of != nil {
		st = s.b.prepared.find(of)
	}
	if st == nil || cs.tmpl.split != nil || st.epoch != cs.epoch || !st.tmpl.own && st.epoch != s.epoch() {
		return nil
	}
	return st
}

// ownCopy is the template of one client's statement, which shares nothing with others.
func (t *template) ownCopy() *template {
	own := &template{sql: t.sql, oids: t.oids, cost: t.cost, plan: t.plan, parsing: t.parsing, names: t.names, by: t.by, optsOut: t.optsOut, own: true, of: t}
	own.desc.Store(t.desc.Load())
	return own
}
