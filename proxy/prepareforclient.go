package proxy

import (
	"bytes"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file finds a client's statement on a backend, or prepares it there, before the statement runs. Sluice checks
// that the result columns are those that the client was sent. schema.go explains epochs, which count versions of the
// schema. constants.go has statements whose constants depend on settings such as DateStyle.

// revalidateStatement prepares a statement again before it is described, if its Parse was answered from the cache and
// the client has not received that answer yet. The statement then has the meaning of the current schema. Later, Sluice
// could not tell whether the schema changed before or after the Parse, and would refuse a changed statement.
func (s *session) revalidateStatement(cs *clientStatement) {
	switch {
	case cs.since == 0:
		return
	case cs.since == s.deliveries+1:
		cs.known, cs.epoch = nil, s.schemaEpoch()
		if st := s.b.prepared.find(cs.tmpl); st != nil {
			s.closeOnBackend(st)
		}
	case cs.described == nil:
		s.recordDescription(cs, cs.known)
	}
	cs.since = 0
}

// descriptionClockStart is the origin of the times at which the server last confirmed a statement's description.
var descriptionClockStart = time.Now()

// confirmDescription records that the server's answer to o has just confirmed the description d. In a session that may
// use another schema, or temporary tables, it does nothing.
func (s *session) confirmDescription(o *pendingReply, d *statementDescription) {
	if s.srv.cfg.DescribeMemory > 0 && !s.pinned && !o.mayUseTempTables && s.schema.txEpoch == 0 {
		d.seen.Store(int64(time.Since(descriptionClockStart)))
	}
}

// isRecentlyConfirmed reports whether the server has confirmed d within DescribeMemory. If that is 0, it is false.
func (srv *Server) isRecentlyConfirmed(d *statementDescription) bool {
	return time.Since(descriptionClockStart)-time.Duration(d.seen.Load()) < srv.cfg.DescribeMemory
}

// newClientStatement returns the statement that a client prepares now from tmpl. It has the schema's epoch (version)
// and the description that the client would get. since is the number of the delivery in which the client gets the
// answer to its Parse, or 0.
func (s *session) newClientStatement(tmpl *statementTemplate, since uint64) clientStatement {
	known := s.cachedDescription(tmpl)
	return clientStatement{tmpl: tmpl, cost: int32(tmpl.cost + known.memoryBytes()), columns: int32(known.memoryBytes()), epoch: s.schemaEpoch(), known: known, since: since}
}

// prepareForClient returns the backend's statement for cs, and prepares it if needed. If its columns now differ from
// the columns that the client was sent, the error is errPlanChanged and nothing runs. prepareForClient may send frames,
// await answers, and replace the backend. Only on success does it update the template and epoch (schema version) of cs.
// If the server refuses the text, the client gets the error, and statement and error are nil.
func (s *session) prepareForClient(cs *clientStatement) (*serverStatement, error) {
	p := s.parsingKey()
	if cs.tmpl.parsing != p && (cs.tmpl.constantsChangeUnder(p) || s.serverParsesDifferently(cs.tmpl) && s.findParsedStatement(cs) != nil) {
		return s.reuseParsedStatement(cs)
	}
	tmpl, epoch := s.templateForSettings(cs, p)
	if s.wouldReparseDifferently(cs, tmpl, epoch) {
		return nil, errOtherReading
	}
	// If the client has not described the statement, Sluice has promised the client no columns. After a change of the
	// schema, the description at the client's Parse is the promise for a statement that the backend must prepare.
	promise := cs.described
	if promise == nil && cs.epoch != s.schemaEpoch() && !s.b.prepared.hasInEpoch(tmpl, epoch) {
		promise = cs.known
	}
	st, agrees, err := s.prepareAndCompare(tmpl, epoch, promise, func() (bool, error) {
		err := s.flushAndRelay()
		return err == nil && !s.t.skip, err
	})
	switch {
	case err != nil || st == nil:
		return nil, err
	case !agrees:
		// Retry with the parameter types in the client's description. PostgreSQL does not change a prepared statement's types.
		if typed := s.templateWithParamTypes(tmpl, promise, st.desc); typed != nil {
			before := *cs
			cs.tmpl, cs.epoch = typed, s.schemaEpoch()
			if st, err = s.prepareForClient(cs); err != nil || st == nil {
				before.cost, before.columns, before.listed = cs.cost, cs.columns, cs.listed
				*cs = before
			}
			return st, err
		}
		return nil, errPlanChanged
	}
	cs.tmpl = tmpl
	if st.epoch&txEpochBit == 0 {
		cs.epoch = st.epoch
	}
	if cs.described == nil {
		cs.known = st.desc
	} else if st.desc != nil {
		s.recordDescription(cs, st.desc) // equal, and newer
	}
	return st, nil
}

// templateForSettings returns the template of cs under the session's current settings, since settings such as DateStyle
// may change the meaning. epoch is the oldest schema version of a backend's statement that may be used.
func (s *session) templateForSettings(cs *clientStatement, p settings.ParsingHashes) (tmpl *statementTemplate, epoch uint64) {
	if tmpl = cs.tmpl; tmpl.parsing != p {
		tmpl = s.srv.cachedTemplate(&s.t.scratch, []byte(tmpl.sql), []byte(tmpl.oids), p, tmpl.names, tmpl.plannerNumber, tmpl.plan)
		if cs.tmpl.split != nil {
			tmpl = tmpl.currentForm()
		}
	}
	if tmpl != cs.tmpl {
		return tmpl, s.schemaEpoch()
	}
	return tmpl, cs.epoch
}

// wouldReparseDifferently reports whether the backend would have to parse a client's text now, and might parse the text
// otherwise than the planner did. Sluice could not tell which statement would run.
func (s *session) wouldReparseDifferently(cs *clientStatement, tmpl *statementTemplate, epoch uint64) bool {
	return s.serverParsesDifferently(tmpl) && (tmpl != cs.tmpl || tmpl.plan.Pin != rewrite.PinUnparsed) && !s.b.prepared.hasInEpoch(tmpl, epoch)
}

// serverParsesDifferently reports whether the backend, by its settings, may parse the text otherwise than the planner.
func (s *session) serverParsesDifferently(tmpl *statementTemplate) bool {
	return s.b.reading != 0 && s.b.reading.MayMislead([]byte(tmpl.sql))
}

// templateWithParamTypes returns tmpl with the parameter types of promise, the client's description, if the server
// would now choose other types (desc). PostgreSQL would not choose again. Otherwise the result is nil.
func (s *session) templateWithParamTypes(tmpl *statementTemplate, promise, desc *statementDescription) *statementTemplate {
	told, _ := promise.splitFrames()
	if desc == nil || told == nil || tmpl.split != nil || len(told) > maxCachedText {
		return nil
	}
	// If the client's Parse already declares these types, a new template would make no difference.
	if now, _ := desc.splitFrames(); bytes.Equal(told, now) || string(told[wire.HeaderLen:]) == tmpl.oids {
		return nil
	}
	return s.srv.cachedTemplate(&s.t.scratch, []byte(tmpl.sql), bytes.Clone(told[wire.HeaderLen:]), tmpl.parsing, tmpl.names, tmpl.plannerNumber, tmpl.plan)
}

// prepareAndCompare returns the backend's statement for tmpl, and whether its description matches promise, which may be
// nil. A statement prepared in the given epoch (schema version) may be used, because the server refuses to run it with
// other columns. Only a statement that was prepared just now can mismatch. answered awaits the server's answers, and
// reports whether to continue. If it returns false, st is nil.
func (s *session) prepareAndCompare(tmpl *statementTemplate, epoch uint64, promise *statementDescription, answered func() (bool, error)) (st *serverStatement, agrees bool, err error) {
	st = s.b.prepared.find(tmpl)
	fresh := st == nil || st.epoch != epoch && st.epoch != s.schemaEpoch()
	if fresh {
		st = s.prepareOnBackend(tmpl, true)
	} else {
		s.srv.metrics.CountPreparedUse(metrics.PreparedHit)
	}
	// The statement's description is needed if promise must match it, or if two statements are sent (tmpl.split).
	for promise != nil || tmpl.split != nil {
		if st.desc == nil && fresh {
			// The request for the statement's description was sent, and its reply is pending.
			attempts := s.tx.attempts.Count()
			if ok, err := answered(); !ok || err != nil {
				return nil, false, err
			}
			if s.tx.attempts.Count() != attempts { // the backend may be another one
				return s.prepareAndCompare(tmpl, epoch, promise, answered)
			}
		}
		s.t.desc = st.desc
		agrees = promise == nil || st.desc == promise || st.desc != nil && st.desc.isCompatible(promise)
		if agrees && st.desc != nil || fresh {
			return st, agrees, nil
		}
		s.closeOnBackend(st)
		st, fresh = s.prepareOnBackend(tmpl, true), true
	}
	return st, true, nil
}
