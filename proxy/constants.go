package proxy

import (
	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
)

// PostgreSQL reads a statement's constants when it parses the query. It parses again only after a change of an object
// that the query names, or of the relations that search_path finds. So after SET datestyle a prepared statement still
// means the same. After SET search_path, only a backend that has the statement can tell whether it does.

// errConstantsChanged refuses a statement that this backend must parse again with another reading of its constants.
var errConstantsChanged = &wire.Error{Code: sqlerror.PlanChanged.Code, Message: sqlerror.PlanChanged.Message,
	Detail: "Settings by which its constants are read were changed since the client prepared the statement, and this backend does not have it from before.",
	Hint:   "Prepare it again behind the change, or pass the constants as parameters.", Origin: sqlerror.PlanChanged.Origin}

// reuseParsedStatement replaces prepareForClient for a statement whose constants a new Parse would read differently.
// Only a statement that the backend has parsed before may run. From that point on no other client uses the statement,
// since PostgreSQL may parse it again under this client's settings. The transaction cannot be replayed, as no other
// backend has the statement.
func (s *session) reuseParsedStatement(cs *statement.Client) (*statement.Server, error) {
	st := s.findParsedStatement(cs)
	if st == nil {
		if s.b.parsesDifferently(cs.Template) {
			return nil, errOtherReading
		}
		return nil, errConstantsChanged
	}
	if cs.Described != nil && st.Description == nil {
		s.describeSilently(st)
		if err := s.flushAndRelay(); err != nil || s.t.server.skip {
			return nil, err
		}
		if s.b == nil || s.b.prepared.Find(st.Template) != st { // the backend was replaced
			return nil, errConstantsChanged
		}
	}
	if cs.Described != nil && st.Description != cs.Described && (st.Description == nil || !st.Description.IsCompatible(cs.Described)) {
		return nil, sqlerror.PlanChanged
	}
	s.srv.metrics.CountPreparedUse(metrics.PreparedHit)
	s.tx.log.RefuseReplay(retry.Pinned) // no other backend would have it
	if !cs.Template.Unshared {
		cs.Template = cs.Template.PrivateCopy()
	}
	s.b.prepared.RebindTemplate(st, cs.Template)
	s.t.desc = st.Description
	return st, nil
}

// findParsedStatement returns the statement that the backend parsed when the client prepared cs, or nil. A statement
// of another schema version, or sent as two, gives nil, because the backend may have parsed it at another time.
func (s *session) findParsedStatement(cs *statement.Client) *statement.Server {
	st := s.b.prepared.Find(cs.Template)
	if of := cs.Template.SharedForm; st == nil && of != nil {
		st = s.b.prepared.Find(of)
	}
	if st == nil || cs.Template.Split != nil || st.Epoch != cs.Epoch || !st.Template.Unshared && st.Epoch != s.schemaEpoch() {
		return nil
	}
	return st
}
